/* jvm_start.h - JVMs: loading our library into them, and noticing that one is created */
#ifndef HW_CLIENT_HOOKS_JVM_START_H
#define HW_CLIENT_HOOKS_JVM_START_H

#include "client/client.h"

/* Was this block allocated by libjvm's code, and does the recorder want our library there? */
static inline bool hw_java_due(const struct hw_call_site *site)
{
    uint64_t hi = atomic_load_explicit(&hw_control.java_hi, memory_order_acquire);
    uint64_t lo = atomic_load_explicit(&hw_control.java_lo, memory_order_relaxed);
    return hw_unlikely(hi != 0) && site->pc - lo < hi - lo;
}
void hw_java_init(void);
void hw_java_load_library(void); /* once per process; outside of any visit; clobbers errno */
/* The same on the thread that has just created the JVM; vm and env are JNI's. */
void hw_java_vm_created(void *vm, void *env);

/* ---- launcher.c ---- */

void hw_launcher_init(void);    /* in the constructor of a preloaded client */
bool hw_launcher_is_java(void); /* the java command: it needs a session before it creates its JVM */
/* The java command is creating its JVM: hw_java_vm_created() is called next, unless that fails. */
bool hw_launcher_is_creating_vm(void);

#endif

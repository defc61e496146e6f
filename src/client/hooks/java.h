/*
 * java.h - JVMs: the library for them, and when they are made
 */
#ifndef HW_CLIENT_HOOKS_JAVA_H
#define HW_CLIENT_HOOKS_JAVA_H

#include "client/client.h"

/* Was this block asked for by a JVM's code, and does the recorder want our library in there? */
static inline bool hw_java_due(const struct hw_call_site *site)
{
    uint64_t hi = atomic_load_explicit(&hw_control.java_hi, memory_order_acquire);
    uint64_t lo = atomic_load_explicit(&hw_control.java_lo, memory_order_relaxed);
    return hw_unlikely(hi != 0) && site->pc - lo < hi - lo;
}
void hw_java_init(void);
void hw_java_bring_in(void); /* once a process; outside of any visit; keeps nothing of errno */
/* The same at once, by the thread that has just made a JVM: JNI's pointers. */
void hw_java_made(void *vm, void *env);

/* ---- launcher.c ---- */

void hw_launcher_init(void); /* in the constructor of a preloaded client */
bool hw_launcher_is_there(
    void); /* it may make a JVM, for which there has to be a session by then */
/* The java command makes a JVM: hw_java_made() will come, unless that fails. */
bool hw_launcher_is_making(void);

#endif

/*
 * agent_alloc.h - Java objects by the stack that allocated them
 *
 * Why:     a heap graph says what is there, not what allocated it. The JVM samples allocations itself;
 *          each sample is handled like the client's own, with the object's class as the innermost
 *          frame: on the heap com.android.art what was allocated, on java.alloc also what of it is
 *          left.
 * Shapes:  a sample stands for size / (1 - e^(-size/interval)) bytes. Those of java.alloc are
 *          watched by weak references, and reported as freed once they are gone.
 * Errors:  none reach the JVM. Before JDK 11 there are no such samples.
 * Threads: callbacks on Java threads; `poll` on our thread.
 */
#ifndef HW_JAVA_AGENT_AGENT_ALLOC_H
#define HW_JAVA_AGENT_AGENT_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

#include "java/jvm_abi.h"

bool agent_alloc_begin(hw_jvm_env vm);
/* Checks whether a session wants samples, and for objects that are gone. */
void agent_alloc_poll(hw_jvm_env jni);
/* In the hook: the object that this thread reports, NULL = it is a malloc. */
#define AGENT_NO_CLASS UINT32_MAX
struct agent_object {
    uint32_t class_slot;
    int32_t n_frames;
    const struct hw_jvm_frame *frames; /* leaf first */
};
const struct agent_object *agent_alloc_object(void);

#endif

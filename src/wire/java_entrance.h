/*
 * java_entrance.h - how the client brings the library for JVMs into its process
 *
 * Why:     if the client is in a process already, nobody has to ask the JVM: no attach socket, no
 *          warning on its stderr, and it works even if attaching or agents are switched off.
 * Shapes:  the recorder sees libjvm among the mappings and says so in the control page. The next
 *          sampled allocation whose caller is libjvm's own code (so no lock of libc is held) starts
 *          a thread; that loads the library and calls HW_JAVA_ENTER there, with the functions that
 *          the client offers. If the java command creates the JVM, the client sees it
 *          (client/hooks/launcher.c) and calls HW_JAVA_MADE before the program's first method runs.
 *          HW_JAVA_ENTER waits until the JVM has started, and serves heap graphs at a socket from
 *          then on (java/agent/agent_socket.h). Once per process.
 * Owns:    struct hw_java_entrance is the client's, and stays: neither library is ever unloaded.
 * Threads: HW_JAVA_ENTER gets a thread of its own. Its argument is filled before.
 * Source:  doc/design/java.md
 */
#ifndef HW_WIRE_JAVA_ENTRANCE_H
#define HW_WIRE_JAVA_ENTRANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HW_JAVA_ENTER            "heapwise_java_enter"
#define HW_JAVA_MADE             "heapwise_java_made"
#define HW_JAVA_ENTRANCE_VERSION 4u

struct heapwise_managed_source;
struct heapwise_managed_text;

struct hw_java_entrance {
    uint32_t version; /* HW_JAVA_ENTRANCE_VERSION: the two libraries are of one build */
    uint32_t bytes;   /* sizeof, the same */
    /* heapwise/managed_frames.h */
    int (*set)(const struct heapwise_managed_source *source);
    int (*name)(uint32_t generation, uint64_t id, const struct heapwise_managed_text *text);
    void (*suppress)(void); /* from now on this thread's allocations are not sampled */
    /* A heap whose samples the caller draws itself; its id, 0 = no room. The two are called, on
     * any thread outside of hooks, when a session wants it and when none does any more. */
    uint32_t (*heap)(const char *name, void (*enabled)(uint64_t interval), void (*disabled)(void));
    bool (*sample)(uint32_t heap, uint64_t id, uint64_t size, uint64_t weight);
    void (*report_free)(uint32_t heap, uint64_t id);
    void (*sync)(uint32_t heap); /* checks whether a session began or ended */
    bool (*awaits_end)(void);    /* is a heap graph of the JVM's end wanted? */
    /* Memory that the caller has mapped and will never unmap is the profiler's. */
    void (*own_memory)(const void *at, size_t n_bytes);
};

typedef void hw_java_enter_fn(struct hw_java_entrance *client);
/* On the thread that created the JVM, and returns soon: vm and env are JNI's. */
typedef void hw_java_made_fn(struct hw_java_entrance *client, void *vm, void *env);

#endif

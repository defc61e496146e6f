/*
 * agent.h - what the parts of the library inside the JVM share
 *
 * Why:     libheapwise_java.so runs in somebody's JVM: it links only libc, is idle except for one
 *          thread while a dump is made, and ends what it began.
 * Shapes:  agent.c attaches and serves requests, agent_socket.c waits for them if the client loaded
 *          us; agent_classes.c writes the table of classes; agent_identity.c finds out where the
 *          JVM keeps the address of an object it reports; agent_values.c knows which numbers to
 *          read from which objects; agent_holders.c the names of threads and methods; agent_walk.c
 *          walks (in a forked child or not); agent_end.c ends a child's walk.
 * Errors:  enum hw_java_reason.
 * Threads: one thread per connection; one walk at a time in the whole process.
 */
#ifndef HW_JAVA_AGENT_AGENT_H
#define HW_JAVA_AGENT_AGENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "java/jvm_abi.h"
#include "java/native.h"
#include "java/protocol.h"
#include "java/reason.h"
#include "wire/java_entrance.h"

/* Objects of our own, local references of the agent's thread: elements, then the array of them. */
#define AGENT_TAG   (INT64_C(1) << 40)
#define AGENT_KNOWN 3
struct agent_known {
    hw_jobject handle[AGENT_KNOWN + 1];
};

struct agent {
    hw_jvm_env vm, jni, ti;
    int socket;
    struct agent_known known; /* the last handle: NULL = not made yet */
    hw_jobject probe;         /* agent_values.c's; NULL = likewise */
    int32_t probe_offset;
    struct { /* the JVM's own figures; a local reference and methods, NULL = not asked for yet */
        hw_jobject runtime;
        void *total, *left, *most;
    } heap;
    bool watches;    /* agent_events.c's, as all that follow */
    bool serves;     /* a request of the asker's is in progress */
    uint32_t events; /* bits: to be reported */
    uint32_t holds;  /* bits: reported, and the program waits for the asker */
    uint32_t hold_ms;
    uint64_t quiet_since_ns;
    struct agent *next;
};

/* ---- agent.c ---- */

/* Serves a connection on a thread of its own; closes it. A peer that may not know what is in
 * this process is refused. */
void agent_serve(hw_jvm_env vm, int connection);
bool agent_say(struct agent *a, const struct hw_java_message *what, int fd, int flags);

/* ---- agent_heap.c ---- */

/* In use, garbage included, and how much more it may become; 0 = unknown. */
uint64_t agent_heap_bytes(struct agent *a, uint64_t *left);

/* ---- agent_events.c ---- */

void agent_events_ours(void); /* this thread does not belong to the program */
bool agent_events_watch(struct agent *a, uint32_t events, uint32_t hold_ms);
void agent_events_serve(struct agent *a, bool begins);
/* The JVM ends, and a graph is wanted by an asker that is not here yet: waits for it, seconds at
 * most. */
void agent_events_end(bool (*awaited)(void));
void agent_events_release(struct agent *a, uint32_t events);
void agent_events_forget(struct agent *a);

/* ---- agent_socket.c ---- */

/* The client in this process; NULL if the library was loaded by the attach protocol and no
 * client asked for it. */
extern struct hw_java_entrance *agent_client;

/* ---- agent_values.c ---- */

#define AGENT_VALUE_CLASSES 16
#define AGENT_MAX_INNER     5

struct agent_value_class {
    int row;                /* of natives.def */
    int32_t address, bytes; /* offsets in the object; -1 = no such field */
};

struct agent_values {
    uint32_t n_classes, n;
    uint32_t *super; /* owned; by class number */
    uint8_t *row_of; /* owned; by class number: place in `of` + 1; 0 = nothing to read */
    struct agent_value_class of[AGENT_VALUE_CLASSES];
    hw_jobject probe;
    int32_t probe_offset;
};

int agent_values_begin(struct agent_values *v, uint32_t n_classes);
void agent_values_done(struct agent_values *v);
void agent_values_class(struct agent_values *v, uint32_t number, uint32_t super,
                        const char *signature);
void agent_values_field(struct agent_values *v, uint32_t number, const char *name,
                        const char *signature, bool is_static, const void *id);
void agent_values_inherit(struct agent_values *v); /* once all classes are known */
/* An object for the proof, kept in `a`; NULL = none could be made. */
hw_jobject agent_values_probe(struct agent *a);
/* While the JVM is stopped: are fields where we think? */
bool agent_values_proved(const struct agent_values *v);
/* Of an object whose class has a row. */
bool agent_values_read(const struct agent_values *v, uint32_t number, uint64_t object,
                       uint64_t *address, uint64_t *bytes);
/* Other blocks that belong to the one at this address. */
size_t agent_values_inner(const struct agent_values *v, uint32_t number, uint64_t address,
                          uint64_t out[AGENT_MAX_INNER]);

/* ---- agent_classes.c ---- */

/* Tags all loaded classes from 1 and writes the table to fd. values: begun here. */
int agent_classes_write(struct agent *a, int fd, struct agent_values *values, uint32_t *n);

/* ---- agent_put.c: numbers and texts of protocol.h, to a memory file ---- */

struct agent_out {
    int fd;
    bool failed;
    size_t n;
    uint8_t bytes[1 << 16];
};
void agent_put_begin(struct agent_out *o, int fd);
void agent_put(struct agent_out *o, uint64_t v);
void agent_put_text(struct agent_out *o, const char *text);
bool agent_put_end(struct agent_out *o); /* false: not all of it is there */

/* ---- agent_names.c ---- */

#define AGENT_MAX_NAME 1024
struct agent_method_naming {
    char function[AGENT_MAX_NAME], file[AGENT_MAX_NAME]; /* "" = unknown */
    uint32_t line;                                       /* 0 = unknown */
};
/* "Lcom/x/Y$Z;" -> "com.x.Y$Z", "[[I" -> "int[][]". */
void agent_class_name(const char *signature, char *out, size_t size);
/* In a frame of local references; *class is one of them. bci < 0: without a line. False: the JVM
 * does not know that method. */
bool agent_method_name(hw_jvm_env ti, void *method, int64_t bci, struct agent_method_naming *out,
                       hw_jobject *class);

/* ---- agent_holders.c ---- */

/* Threads are tagged from here, in the order in which they are reported. */
#define AGENT_THREAD_TAG (INT64_C(1) << 41)
struct agent_holders;
struct agent_frames; /* that the walk met, in memory that it shares with its child */

/* Before the walk: tags threads and keeps their names, creates ids of methods. NULL: no memory;
 * roots then have no more than their kind. */
struct agent_holders *agent_holders_new(struct agent *a);
void agent_holders_free(struct agent_holders *h);
struct agent_frames *agent_holders_frames(struct agent_holders *h);
void agent_frames_clear(struct agent_frames *f);
/* The number, from 1, of a place in a method; 0 = no method. In the walk. */
uint32_t agent_frame_number(struct agent_frames *f, void *method, int64_t bci);
/* After it: names of threads and frames, see protocol.h. */
bool agent_holders_write(struct agent *a, struct agent_holders *h, int fd);

/* ---- agent_identity.c ---- */

/* Makes a->known, once: when the heap is full, it is too late. */
int agent_known_make(struct agent *a);
/* In this environment, from AGENT_TAG. */
int agent_known_tag(struct agent *a);
/* Where it is now; only while the JVM is stopped. */
uint64_t agent_address(hw_jobject handle);

/* Words from a tag's cell back to the address of its object. */
struct agent_cells {
    int referred, referrer;
};
int agent_cells_find(struct agent *a, const struct agent_known *k, struct agent_cells *out);

/* ---- agent_end.c ---- */

/* Before the fork: finds libjvm's slots of the functions that its thread calls after a walk. */
int agent_end_prepare(void);
/* In the child: from now on they call `ended`, which does not return; busy mutexes are taken as
 * if they were free, since their owners do not exist here. */
void agent_end_arm(void (*ended)(void));

/* ---- agent_walk.c ---- */

struct agent_walk {
    enum hw_java_mode mode;
    struct agent_cells cells;
    const struct agent_known *known;
    const struct agent_values *values;
    struct agent_frames *frames; /* NULL: roots have their kind alone */
    int pipe;                    /* writing end */
    uint32_t n_classes;
    uint32_t stall_ms;
    bool fail; /* test: stops halfway */
};
/* Fills reason, detail and times. closes walk->pipe. */
void agent_walk_run(struct agent *a, struct agent_walk *walk, struct hw_java_message *ended);

/* ---- agent_clock.c ---- */

uint64_t agent_now_ns(int clock); /* of this process's time namespace: for durations */
void agent_rest(unsigned ms);     /* at most; a signal shortens it */
/* Counts things that a waiting thread can take. Any thread, also in a sampled malloc. */
void agent_count_up(_Atomic uint32_t *n);
bool agent_count_down(_Atomic uint32_t *n, unsigned ms); /* false: there was none for that long */

#endif

/*
 * managed_frames.h - how a runtime's own frames get into the stacks of a native heap profile
 *
 * Why:     a stack of native addresses ends, or means nothing, where a runtime's generated or
 *          interpreted code begins. Code inside the process that can ask the runtime (an agent in a
 *          JVM) hands the client one function; the client calls it with each sampled stack.
 * Shapes:  an id is 64 bits with a kind in the top byte (wire/records.h). It stands for one
 *          function and line; its name is told once a session, at any time, by
 *          heapwise_managed_name.
 * Threads: `frames` runs inside the program's malloc, on the thread that called it, with our hooks
 *          asleep: it may not allocate, lock, or wait. Names are told from threads of the agent's.
 * Errors:  a source that cannot say anything leaves the stack as it is.
 */
#ifndef HEAPWISE_MANAGED_FRAMES_H
#define HEAPWISE_MANAGED_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEAPWISE_MANAGED_VERSION    2u
#define HEAPWISE_MANAGED_MAX_FRAMES 512u

/* What the client found: a native stack, leaf first, and where its walk began. */
struct heapwise_native_stack {
    uint32_t generation; /* of the session: each wants every name once */
    uint32_t n_pcs;
    const uint64_t *pcs;
    uint64_t pc, sp, fp; /* of malloc's caller, behind the call */
    uint32_t is_whole;   /* the walk came to the thread's first function */
    uint32_t in_handler; /* it leads through a signal handler's frame */
};

/* Why a stack has no frames of the runtime's; each is counted. */
enum heapwise_managed_missing {
    HEAPWISE_MISSING_NOTHING,
    HEAPWISE_MISSING_BY_NATURE, /* the thread runs none of its code */
    HEAPWISE_MISSING_NOT_ASKED, /* in a signal handler, or while the runtime ends */
    HEAPWISE_MISSING_ANCHOR,    /* it is not known where they begin */
    HEAPWISE_MISSING_COLLECTING,
    HEAPWISE_MISSING_UNWALKABLE,
    HEAPWISE_MISSING_OTHERWISE,
    HEAPWISE_MISSING_COUNT
};

/* The answer: ids, leaf first, that take the place of pcs[at .. at + n_removed). */
struct heapwise_managed_stack {
    uint32_t at, n_removed;
    uint32_t n_ids;
    uint32_t ends;      /* with them the stack is whole, wherever the walk had stopped */
    uint32_t missing;   /* enum heapwise_managed_missing; also without an answer */
    uint32_t n_unnamed; /* ids that will never get a name: there is no room */
    uint64_t ids[HEAPWISE_MANAGED_MAX_FRAMES];
    uint64_t scratch[2 * HEAPWISE_MANAGED_MAX_FRAMES]; /* for the source; the stack is small */
};

struct heapwise_managed_source {
    uint32_t version; /* HEAPWISE_MANAGED_VERSION */
    /* Fills *out; gives 0 when the stack shall stay as it is. */
    int (*frames)(void *ctx, const struct heapwise_native_stack *in,
                  struct heapwise_managed_stack *out);
    void *ctx;
};

/* Lengths in bytes, no NUL needed; longer texts are cut. file and module may be NULL. */
struct heapwise_managed_text {
    const char *function, *file, *module;
    size_t n_function, n_file, n_module;
    uint32_t line;
};

/* One source a process; it stays there for good. 0, or -1: another version, or there is one. */
int heapwise_managed_set(const struct heapwise_managed_source *source);
/* 0, or -1: no session of that generation, or no room: the name has to be told again. */
int heapwise_managed_name(uint32_t generation, uint64_t id,
                          const struct heapwise_managed_text *text);

#ifdef __cplusplus
}
#endif

#endif

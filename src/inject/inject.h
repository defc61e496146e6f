/*
 * inject.h - puts the client into a running process, and takes its hooks out again
 *
 * Why:     to record a process that was not prepared. One of its threads is stopped for a fraction
 *          of a millisecond and made to load the library and to run one command of wire/attach.h;
 *          the others keep running.
 * Shapes:  hw_inject_check inspects the process without touching it. hw_inject runs one command: the
 *          thread is chosen and stopped at a moment when it holds no lock of the allocator, the
 *          loader or fork; when it resumes, registers, vector state, signal mask and a blocked
 *          system call are as before, whether the command succeeded or not.
 * Owns:    nothing; pid and tables are borrowed for the call.
 * Errors:  HW_EPERM (may not be traced), HW_EBUSY (traced or recorded by another), HW_EGONE,
 *          HW_EUNSUPPORTED (impossible for this program: the text says why, and what to do instead),
 *          HW_ETIMEOUT (no safe moment, or the command did not end), HW_EVERSION, HW_ESYS.
 * Threads: hw_inject waits for the process: give it a thread of its own. The same process must not
 *          be injected into twice at a time.
 * Source:  doc/design/attach.md
 */
#ifndef HW_INJECT_INJECT_H
#define HW_INJECT_INJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/attach.h"

struct hw_error;
struct hw_pid;

/* Where a test injects a failure; everything after that step is cleanup. */
enum hw_inject_step {
    HW_INJECT_NOWHERE = 0,
    HW_INJECT_STOPPED,   /* the thread is stopped, nothing has changed yet */
    HW_INJECT_SAVED,     /* signals are blocked */
    HW_INJECT_STACK,     /* our stack is mapped */
    HW_INJECT_CODE,      /* so is our code */
    HW_INJECT_CARRIER,   /* the memory file is there */
    HW_INJECT_FILLED,    /* with the library in it */
    HW_INJECT_LOADED,    /* it is loaded */
    HW_INJECT_HELD,      /* all threads are stopped; only where code is changed */
    HW_INJECT_COMMANDED, /* so is the command */
    HW_INJECT_STEP_COUNT
};

struct hw_inject_request {
    const struct hw_pid *pid;
    const char *library; /* path of the client library's file */
    enum hw_attach_command command;
    const char *socket_path; /* HOOK: where the recorder is, */
    uint32_t generation;     /* and how it is called */
    /* unwind/table.h: struct hw_tables_dir of the process. NULL = the thread's innermost
     * function alone decides whether the moment is safe. */
    const void *tables;
    /* Asked while the thread is stopped, before anything in the process is changed: is it still
     * permitted? The process could have executed another program by now. thread: its dir is the
     * thread's own. NULL = whatever the kernel allows us. */
    int (*may)(void *arg, const struct hw_pid *thread, struct hw_error *err);
    void *arg;
    enum hw_inject_step fail_at;
};

struct hw_inject_result {
    uint64_t pause_ns; /* how long the chosen thread was stopped */
    uint64_t whole_ns;
    uint32_t n_tries; /* moments that were inspected */
    uint32_t n_slots, n_changed, n_modules;
    bool loaded;      /* the library was not loaded before */
    bool left;        /* UNHOOK: some of its memory could not be unmapped yet */
    char holder[108]; /* HW_EBUSY: the socket of the recorder that has it; "" = another reason */
};

/* Is it possible at all? Errors as above, with the reason and the remedy in err. */
int hw_inject_check(const struct hw_pid *pid, struct hw_error *err);
int hw_inject(const struct hw_inject_request *q, struct hw_inject_result *out,
              struct hw_error *err);

#endif

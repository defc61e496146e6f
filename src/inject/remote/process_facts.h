/*
 * process_facts.h - what has to be known about a process before it is stopped
 *
 * Why:     everything that takes time is done while the process still runs: which libc it has,
 *          where its functions are, which code must not be interrupted.
 * Owns:    the mappings.
 * Errors:  as hw_inject_check.
 */
#ifndef HW_INJECT_REMOTE_PROCESS_FACTS_H
#define HW_INJECT_REMOTE_PROCESS_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "inject/allocator_functions.h"
#include "inject/exec_id.h"
#include "proc/maps.h"
#include "proc/pid.h"

struct hw_error;

#define HW_INJECT_CARRIER_NAME "libheapprofd_glibc_preload.so"
#define HW_INJECT_BARE_NAME    "libheapwise_bare.so"

/* Target addresses, [lo, hi). */
struct hw_code_range {
    uint64_t lo, hi;
};

struct hw_process {
    const struct hw_pid *pid; /* borrowed */
    struct hw_exec_id id;     /* read before everything else; not if the process was only checked */
    int mem; /* its memory, of the very image that is stopped; -1 = not stopped: read by pid */
    struct hw_proc_status status;
    struct hw_maps maps;
    uint64_t dlopen_at, dlsym_at, malloc_at;
    uint64_t syscall_at;                  /* an instruction that enters the kernel */
    uint64_t syscall_ret_at, restorer_at; /* the same and ret; a signal frame's way back */
    uint64_t library;                     /* load address of an injected client; 0 = none */
    bool ignores_trap;                    /* SIGTRAP is ignored */
    bool raw;    /* no loader to ask, or no table to change: the bare client, by changing code */
    bool checks; /* only a verdict is wanted: what is remembered about the file will do */
    struct hw_allocator allocator;          /* raw only; empty if the process was only checked */
    const char *allocator_path;             /* borrowed from maps */
    HW_VEC(struct hw_code_range) forbidden; /* allocator, loader, fork and exit */
};

int hw_process_inspect(const struct hw_pid *pid, struct hw_process *out, struct hw_error *err);
void hw_process_done(struct hw_process *p);
bool hw_process_forbids(const struct hw_process *p, uint64_t pc);
/* n bytes of its memory; HW_EGONE, HW_EPERM, HW_ESYS. */
int hw_process_read(const struct hw_process *p, uint64_t at, void *out, size_t n);

#endif

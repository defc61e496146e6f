/*
 * seccomp.h - do a thread's filters let through what we need?
 *
 * Why:     a system call that a filter forbids may kill the program. The filters are read
 *          from the kernel and executed here, for each call that the injection and the client will
 *          make, before anything is changed. Only some arguments are known beforehand; a filter
 *          must allow every value that the others can have (bpf_code.h).
 * Errors:  HW_EUNSUPPORTED: the text names the call and what the filter does to it; HW_EPERM: the
 *          kernel shows filters to CAP_SYS_ADMIN only.
 * Source:  seccomp(2), ptrace(2) PTRACE_SECCOMP_GET_FILTER
 */
#ifndef HW_INJECT_FILTERS_SECCOMP_H
#define HW_INJECT_FILTERS_SECCOMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_bpf_call;
struct hw_error;
struct hw_pid;
struct hw_proc_status;
struct seccomp_data;

/* How the client gets in; each way makes its own system calls (needed_calls.def). */
enum hw_seccomp_way {
    HW_SECCOMP_HELD,   /* preloaded, into a program that is held at its exec */
    HW_SECCOMP_DLOPEN, /* by the loader of a running program */
    HW_SECCOMP_RAW,    /* without the loader */
    HW_SECCOMP_WAYS
};

/* tid is stopped by us. Do all of its filters allow what that way needs? status: of its process;
 * says how many there are. */
int hw_seccomp_check(const struct hw_pid *pid, int32_t tid, const struct hw_proc_status *status,
                     enum hw_seccomp_way way, struct hw_error *err);
/* Do all threads of the process have the same number of filters? Only one thread's were checked. */
int hw_seccomp_check_others(const struct hw_pid *pid, struct hw_error *err);
/* tid is stopped by us. Would one of its filters answer that call with anything but "allow"?
 * unknown: what to return if its filters cannot be read. */
bool hw_seccomp_forbids(int32_t tid, const struct seccomp_data *call, bool unknown);
/* tid is stopped by us. False if that cannot be read. */
bool hw_seccomp_is_there(int32_t tid);
/* May we read filters at all? Stops nothing. */
int hw_seccomp_readable(const struct hw_pid *pid, struct hw_error *err);
/* The i-th call of that way; false: there is none. For tests. */
bool hw_seccomp_need(enum hw_seccomp_way way, size_t i, struct hw_bpf_call *out);

#endif

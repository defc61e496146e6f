/*
 * seccomp.h - do a thread's filters let through what we need?
 *
 * Why:     a system call that a filter does not like may be the program's end. The filters are read
 *          from the kernel and executed here, for each call that the injection and the client will
 *          make, before anything is changed.
 * Errors:  HW_EUNSUPPORTED: the text names the call and what the filter does to it; HW_EPERM: the
 *          kernel shows filters to CAP_SYS_ADMIN only.
 * Source:  seccomp(2), ptrace(2) PTRACE_SECCOMP_GET_FILTER
 */
#ifndef HW_INJECT_SECCOMP_H
#define HW_INJECT_SECCOMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_error;
struct hw_pid;
struct sock_filter;
struct seccomp_data;

/* The kernel's answer to one call; SECCOMP_RET_KILL_PROCESS for code that it would not take. */
uint32_t hw_seccomp_run(const struct sock_filter *code, size_t n, const struct seccomp_data *call);
/* tid is stopped by us. raw: the library comes without the program's loader. */
int hw_seccomp_check(const struct hw_pid *pid, int32_t tid, bool raw, struct hw_error *err);
/* tid is stopped by us. Would a filter of its answer that call in any way but letting it through?
 * unknown: the answer where its filters cannot be read. */
bool hw_seccomp_forbids(int32_t tid, const struct seccomp_data *call, bool unknown);
/* tid is stopped by us. False where that cannot be read. */
bool hw_seccomp_is_there(int32_t tid);
/* May we read filters at all? Without stopping anything. */
int hw_seccomp_readable(const struct hw_pid *pid, struct hw_error *err);

#endif

/*
 * bpf_code.h - what the code of a system call filter answers
 *
 * Why:     a filter may test arguments that we do not know beforehand: addresses, descriptors,
 *          lengths, the instruction pointer. So it is executed for all of their values at once:
 *          each bit of a call is known or unknown; where a branch depends on an unknown bit, both
 *          paths are followed and the stricter answer counts.
 * Errors:  SECCOMP_RET_KILL_PROCESS for code that the kernel would not accept, for a return value
 *          that is itself unknown, and for more paths than are worth following.
 * Source:  seccomp(2); the kernel's strictness is that of include/uapi/linux/seccomp.h
 */
#ifndef HW_INJECT_FILTERS_BPF_CODE_H
#define HW_INJECT_FILTERS_BPF_CODE_H

#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

struct sock_filter;

struct hw_bpf_call {
    struct seccomp_data data;
    struct seccomp_data known; /* bits that are set are known, from data; others may be anything */
};

/* The strictest answer that is possible, with its 16 bits of data. */
uint32_t hw_bpf_answer(const struct sock_filter *code, size_t n, const struct hw_bpf_call *call);

/* Which of two answers the kernel follows when two filters give both. */
uint32_t hw_bpf_stricter(uint32_t a, uint32_t b);

#endif

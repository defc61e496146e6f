/*
 * bpf_code.h - what the code of a system call filter answers
 *
 * Why:     a filter may look at arguments that we do not know beforehand: addresses, descriptors,
 *          lengths, the place in the code. So it is executed for all of their values at once: each
 *          bit of a call is known or not, and where an answer hangs on one that is not, both ways
 *          are gone and the stricter answer counts.
 * Errors:  SECCOMP_RET_KILL_PROCESS for code that the kernel would not take, for an answer that
 *          hangs on what is not known itself, and for more ways than are worth going.
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
    struct seccomp_data known; /* a bit that is set: so it is in data; others may be anything */
};

/* The strictest of the answers that there can be, with its 16 bits of data. */
uint32_t hw_bpf_answer(const struct sock_filter *code, size_t n, const struct hw_bpf_call *call);

/* Which of two answers the kernel takes when it has both from two filters. */
uint32_t hw_bpf_stricter(uint32_t a, uint32_t b);

#endif

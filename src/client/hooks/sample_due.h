/*
 * sample_due.h - is a sample due?
 */
#ifndef HW_CLIENT_HOOKS_SAMPLE_DUE_H
#define HW_CLIENT_HOOKS_SAMPLE_DUE_H

#include "client/client.h"
#include "client/sample/sampler.h"

/* Bytes that this allocation of libc.malloc stands for, or HW_NOT_SAMPLED. After hw_due returned
 * true. A block of size 0 is sampled at interval 1, and stands for 0. sp: the caller's. */
uint64_t hw_sampler_take(uint64_t n, uint64_t sp);
extern HW_HIDDEN bool hw_never_samples; /* in this process (valgrind) */
/* Before our constructor has run, each allocation that may be sampled calls it: those of libraries
 * run first. NULL = no more. It is called outside of any visit. */
extern HW_HIDDEN void (*_Atomic hw_begin_early)(void);

#endif

/*
 * rounding.h - bytes that an allocator uses for a block beyond those that were requested
 *
 * Why:     the difference of "in use" and "requested" follows from sizes, without asking the
 *          process.
 * Shapes:  for traces whose recorder did not sum it. glibc: 8 bytes of header, multiples of 16, at
 *          least 32; whole pages from 128 KiB on. Others (jemalloc, mimalloc, tcmalloc): four
 *          classes per power of two, no header.
 * Units:   bytes. A mean size that is no block's size (sites with several sizes) gets the mean
 *          rounding.
 * Threads: pure.
 * Source:  glibc's malloc.c (request2size), jemalloc's sz.h
 */
#ifndef HW_VIEWS_ACCOUNT_ROUNDING_H
#define HW_VIEWS_ACCOUNT_ROUNDING_H

#include <stdbool.h>
#include <stdint.h>

#include "model/ids.h"

struct hw_profile;
struct hw_value;

enum hw_rounding { HW_ROUNDING_GLIBC, HW_ROUNDING_CLASSES };

double hw_rounding_of(enum hw_rounding r, double size);

/* The lower bound: exact if all blocks have one size; else each may fill its step of the
 * allocator. */
double hw_rounding_least(enum hw_rounding r, double size);

/* Whether the recorder summed it by each sample's size. */
bool hw_rounding_is_recorded(const struct hw_profile *p, hw_upid upid);

/* Two standard errors of a value's rounding as the recorder summed it (daemon/books/books.h). */
double hw_rounding_error(const struct hw_value *v, uint64_t interval_bytes);

#endif

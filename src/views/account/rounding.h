/*
 * rounding.h - bytes that an allocator takes for a block beside those that were asked for
 *
 * Why:     the difference of "in use" and "requested" is known by size, without asking the process.
 * Shapes:  of traces whose recorder did not sum it. glibc: 8 bytes of header, multiples of 16, at least 32; from 128 KiB on whole pages. Others
 *          (jemalloc, mimalloc, tcmalloc): four classes a power of two, no header.
 * Units:   bytes. Mean sizes that no block has (of a site with several) get the mean rounding.
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

/* The same where all blocks have one size; of several, all may end where a step of the allocator does. */
double hw_rounding_least(enum hw_rounding r, double size);

/* Has its recorder summed it by each sample's size? */
bool hw_rounding_is_recorded(const struct hw_profile *p, hw_upid upid);

/* Two standard errors of a value's rounding, which the recorder has summed by each sample's size, as it has the
 * variance (daemon/books/books.h). */
double hw_rounding_error(const struct hw_value *v, uint64_t interval_bytes);

#endif

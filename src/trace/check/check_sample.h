/*
 * check_sample.h - one sample of a heap dump, by itself
 */
#ifndef HW_TRACE_CHECK_CHECK_SAMPLE_H
#define HW_TRACE_CHECK_CHECK_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_checker;

struct hw_check_sample {
    uint64_t callstack, allocated, freed, allocs, frees, temporary, max, max_count;
    bool has_max;
    uint32_t bad_variance_field; /* 0 = none */
    double bad_variance;
};

struct hw_check_sample hw_check_sample_read(struct hw_bytes message);
/* What its numbers break; heap: its name. */
void hw_check_sample_values(struct hw_checker *c, const char *heap, uint64_t pid,
                            const struct hw_check_sample *s);

#endif

/*
 * Recorders write the buffers of several processors one after the other, so times go back and forth
 * in the file. Equal times keep the file's order, which qsort cannot do, so runs that are already
 * in order are merged instead (merge sort).
 */
#include "model/cpu_samples.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"

#include "base/banned.h"

void hw_cpu_samples_done(struct hw_cpu_samples *c)
{
    hw_vec_done(&c->samples);
    hw_vec_done(&c->tracks);
    hw_vec_done(&c->counts);
}

/* Both kinds of rows begin with their time. */
static int64_t time_of(const uint8_t *rows, size_t size, size_t i)
{
    int64_t ts;
    memcpy(&ts, rows + i * size, sizeof ts);
    return ts;
}

static size_t end_of_run(const uint8_t *rows, size_t size, size_t from, size_t n)
{
    size_t i = from + 1;
    while (i < n && time_of(rows, size, i - 1) <= time_of(rows, size, i))
        i++;
    return i < n ? i : n;
}

/* Merges the runs [a, b) and [b, e) into to. */
static void merge(const uint8_t *rows, size_t size, size_t a, size_t b, size_t e, uint8_t *to)
{
    size_t i = a, k = b, at = a;
    while (i < b && k < e) {
        size_t *from = time_of(rows, size, k) < time_of(rows, size, i) ? &k : &i;
        memcpy(to + at++ * size, rows + (*from)++ * size, size);
    }
    memcpy(to + at * size, rows + i * size, (b - i) * size);
    memcpy(to + (at + b - i) * size, rows + k * size, (e - k) * size);
}

static int sort_rows(uint8_t *rows, size_t size, size_t n)
{
    if (n == 0 || end_of_run(rows, size, 0, n) == n)
        return 0;
    hw_autofree uint8_t *copy = malloc(n * size);
    if (!copy)
        return -1;
    while (end_of_run(rows, size, 0, n) < n) {
        for (size_t a = 0; a < n;) {
            size_t b = end_of_run(rows, size, a, n);
            size_t e = b < n ? end_of_run(rows, size, b, n) : n;
            merge(rows, size, a, b, e, copy);
            a = e;
        }
        memcpy(rows, copy, n * size);
    }
    return 0;
}

/* Counts of one sample are adjacent, and sets are in the order of their samples, before and after
 * sorting: so both are renumbered from 0 in that order. */
static void number_sets(struct hw_cpu_samples *c)
{
    uint32_t next = 0, before = HW_ID_NONE;
    for (size_t i = 0; i < c->samples.n; i++)
        if (c->samples.v[i].counter_set != HW_ID_NONE)
            c->samples.v[i].counter_set = next++;
    next = 0;
    for (size_t i = 0; i < c->counts.n; i++) {
        uint32_t old = c->counts.v[i].set;
        next += i > 0 && old != before;
        before = old;
        c->counts.v[i].set = next;
    }
}

int hw_cpu_samples_sort(struct hw_cpu_samples *c)
{
    if (sort_rows((uint8_t *)c->samples.v, sizeof *c->samples.v, c->samples.n) < 0 ||
        sort_rows((uint8_t *)c->counts.v, sizeof *c->counts.v, c->counts.n) < 0)
        return HW_ENOMEM;
    number_sets(c);
    return HW_OK;
}

const char *hw_cpu_mode_name(uint8_t mode)
{
    static const char *const names[] = {"unknown",    "kernel",       "user",
                                        "hypervisor", "guest_kernel", "guest_user"};
    return names[mode < HW_ARRAY_LEN(names) ? mode : 0];
}

const char *hw_unwind_error_name(uint8_t unwind_error)
{
    static const char *const names[] = {
        "unknown",     "none",        "memory_invalid",      "unwind_info",
        "unsupported", "invalid_map", "max_frames_exceeded", "repeated_frame",
        "invalid_elf", "system_call", "thread_timeout",      "thread_does_not_exist",
        "bad_arch",    "maps_parse",  "invalid_parameter",   "ptrace_call"};
    if (unwind_error == 1)
        return NULL;
    return names[unwind_error < HW_ARRAY_LEN(names) ? unwind_error : 0];
}

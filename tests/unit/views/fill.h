/*
 * fill.h - a profile written by hand, for tests of what reads one
 *
 * Stacks are texts, "main;work;malloc" root first; a frame "fn@/lib/x.so" stands in that module,
 * others in /bin/app; "@0x10" and "@0x10@/lib/x.so" are frames without a name.
 */
#ifndef HW_TESTS_UNIT_VIEWS_FILL_H
#define HW_TESTS_UNIT_VIEWS_FILL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/profile.h"

static inline hw_str_id fill_str(struct hw_profile *p, const char *s)
{
    hw_str_id id;
    if (hw_profile_str(p, hw_bytes_str(s), &id) < 0)
        abort();
    return id;
}

static inline hw_frame_id fill_frame(struct hw_profile *p, const char *text, size_t n)
{
    const char *at = memchr(text, '@', n);
    size_t name_n = at ? (size_t)(at - text) : n;
    char module[256] = "/bin/app";
    struct hw_frame f = {.rel_pc = 0x1000};
    if (at && strncmp(at, "@0x", 3) == 0) {
        f.rel_pc = strtoull(at + 1, NULL, 16);
        const char *in = memchr(at + 1, '@', n - name_n - 1);
        if (in)
            snprintf(module, sizeof module, "%.*s", (int)(text + n - in - 1), in + 1);
    } else if (at)
        snprintf(module, sizeof module, "%.*s", (int)(n - name_n - 1), at + 1);
    struct hw_mapping m = {.path = fill_str(p, module), .start = 0x400000, .end = 0x500000};
    char id[4] = {(char)0xab, (char)strlen(module), 0x01, 0x7f};
    if (hw_profile_str(p, hw_bytes_of(id, sizeof id), &m.build_id) < 0 ||
        hw_profile_str(p, hw_bytes_of(text, name_n), &f.name) < 0 ||
        hw_callsites_mapping(p->callsites, &m, &f.mapping) < 0)
        abort();
    hw_frame_id out;
    if (hw_callsites_frame(p->callsites, &f, &out) < 0)
        abort();
    return out;
}

static inline hw_callsite_id fill_stack(struct hw_profile *p, const char *text)
{
    hw_frame_id path[64];
    size_t n = 0;
    while (*text) {
        size_t len = strcspn(text, ";");
        path[n++] = fill_frame(p, text, len);
        text += len + (text[len] == ';');
    }
    hw_callsite_id out;
    if (hw_callsites_intern(p->callsites, path, n, &out) < 0)
        abort();
    return out;
}

static inline uint32_t fill_dump(struct hw_profile *p, int64_t pid, const char *heap, int64_t ts_ns,
                                 uint64_t interval, uint32_t flags)
{
    hw_upid upid;
    if (hw_profile_process(p, pid, &upid) < 0)
        abort();
    struct hw_heap_dump d = {.upid = upid,
                             .heap_name = fill_str(p, heap),
                             .ts_ns = ts_ns,
                             .interval_bytes = interval,
                             .orig_interval_bytes = interval,
                             .flags = flags};
    if (hw_vec_push(&p->dumps, d) < 0)
        abort();
    return (uint32_t)p->dumps.n - 1;
}

static inline void fill_row(struct hw_profile *p, uint32_t dump, const char *stack, int64_t count,
                            int64_t size)
{
    struct hw_alloc_row r = {.dump = dump,
                             .callsite = fill_stack(p, stack),
                             .samples = count,
                             .count = count,
                             .size = size};
    if (hw_alloc_rows_push(&p->allocs, &r) < 0)
        abort();
}

static inline void fill_variance(struct hw_profile *p, size_t i, double variance)
{
    struct hw_alloc_row r = hw_alloc_row_get(&p->allocs, i);
    r.variance = variance;
    if (hw_alloc_rows_set(&p->allocs, i, &r) < 0)
        abort();
}

#endif

/*
 * heaptrack's file: lines of a letter and hexadecimal numbers. Numbers of strings, instruction
 * pointers and traces count from 1 (0 = none), those of allocations from 0.
 *
 *     v VERSION FILE_VERSION        X COMMAND LINE        I PAGE_SIZE PAGES_OF_THE_MACHINE
 *     s [LENGTH] TEXT               a string; LENGTH from file version 3 on
 *     i IP MODULE [FUNCTION FILE LINE]…   innermost inlined function first
 *     t IP PARENT_TRACE             a callstack: its leaf and the rest
 *     a SIZE TRACE                  an allocation: how many bytes where
 *     + ALLOCATION   - ALLOCATION   it was made, was freed
 *     c MILLISECONDS                how long the program had run;  R PAGES  its RSS then
 *
 * Two dumps come out of it: the moment with most bytes (the first, if there are several) and the
 * end. Nothing was sampled: the interval is 1. Addresses are those of the process, as the file does
 * not say where its modules were mapped.
 */
#include "import/heaptrack_reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/progress.h"
#include "codec/text_lines.h"
#include "model/profile.h"

#include "base/banned.h"

enum { MAX_LINES = 64, FILE_VERSION_MIN = 1, FILE_VERSION_MAX = 3 };
static const uint64_t ms_ns = 1000000;

struct allocation {
    uint64_t size, made, freed;
    uint64_t made_at_peak, freed_at_peak;
    hw_callsite_id site;
};

struct heaptrack {
    struct hw_profile *p;
    uint64_t file_version, page_bytes;
    hw_upid upid;
    hw_str_id heap, rss;
    HW_VEC(hw_str_id) strings;
    HW_VEC(hw_frame_id) frames;
    HW_VEC(hw_callsite_id) traces;
    HW_VEC(struct allocation) allocations;
    struct hw_map64 module_of_string; /* -> mapping row */
    uint64_t live, peak, now_ms, peak_ms;
    uint64_t n_events, peak_event; /* events up to the peak */
    uint64_t n_bad;
};

/* The program's start is at 1 ns, as 0 stands for no time. */
static int64_t time_of(uint64_t ms)
{
    return (int64_t)(ms * ms_ns) + 1;
}

static int count_bad(struct heaptrack *h)
{
    h->n_bad++;
    return HW_OK;
}

/* ---- tables ---- */

static int add_string(struct heaptrack *h, struct hw_bytes rest)
{
    uint64_t n;
    hw_str_id id;
    if (h->file_version >= 3) {
        if (!hw_word_hex(&rest, &n))
            n = UINT64_MAX; /* kept, so that later strings have the right numbers */
        h->n_bad += rest.n == 0 || n != rest.n - 1;
    }
    if (rest.n) /* the space before it */
        rest = hw_bytes_of(rest.p + 1, rest.n - 1);
    int rc = hw_profile_str(h->p, rest, &id);
    return rc == HW_OK && hw_vec_push(&h->strings, id) < 0 ? HW_ENOMEM : rc;
}

/* 0 = none. */
static hw_str_id string_at(struct heaptrack *h, uint64_t number)
{
    if (number > h->strings.n)
        h->n_bad++;
    return number && number <= h->strings.n ? h->strings.v[number - 1] : (hw_str_id){0};
}

static int get_module(struct heaptrack *h, uint64_t number, hw_mapping_id *out)
{
    struct hw_mapping m = {.path = string_at(h, number)};
    uint64_t row;
    out->v = HW_ID_NONE;
    if (!m.path.v)
        return HW_OK;
    if (hw_map64_get(&h->module_of_string, number, &row)) {
        out->v = (uint32_t)row;
        return HW_OK;
    }
    int rc = hw_callsites_mapping(h->p->callsites, &m, out);
    return rc < 0 ? rc : hw_map64_put(&h->module_of_string, number, out->v);
}

static int add_frame(struct heaptrack *h, struct hw_bytes rest)
{
    struct hw_symbol_line lines[MAX_LINES];
    struct hw_frame f = {0};
    hw_frame_id row;
    size_t n = 0;
    uint64_t module = 0, function, file, line;
    h->n_bad += !hw_word_hex(&rest, &f.rel_pc) || !hw_word_hex(&rest, &module);
    while (n < MAX_LINES && hw_word_hex(&rest, &function)) {
        file = line = 0; /* older files omit both when they are unknown */
        (void)(hw_word_hex(&rest, &file) && hw_word_hex(&rest, &line));
        lines[n] = (struct hw_symbol_line){string_at(h, function), string_at(h, file),
                                           line > UINT32_MAX ? 0 : (uint32_t)line};
        n += lines[n].function.v != 0;
    }
    if (n)
        f.name = lines[n - 1].function;
    int rc = get_module(h, module, &f.mapping);
    if (rc == HW_OK)
        rc = hw_callsites_frame(h->p->callsites, &f, &row);
    if (rc == HW_OK && n)
        rc = hw_symbol_sets_put(hw_callsites_symbol_sets(h->p->callsites), row, lines, n);
    return rc == HW_OK && hw_vec_push(&h->frames, row) < 0 ? HW_ENOMEM : rc;
}

/* An invalid trace becomes its parent's callstack, or none. */
static int add_trace(struct heaptrack *h, struct hw_bytes rest)
{
    uint64_t frame = 0, parent = 0;
    hw_callsite_id site = {HW_ID_NONE};
    bool ok = hw_word_hex(&rest, &frame) && hw_word_hex(&rest, &parent) && parent <= h->traces.n &&
              frame && frame <= h->frames.n;
    if (ok && parent)
        site = h->traces.v[parent - 1];
    if (ok && site.v != HW_ID_NONE &&
        hw_callsites_get(h->p->callsites, site)->depth + 1 >= HW_MAX_CALLSITE_DEPTH)
        ok = false;
    h->n_bad += !ok;
    int rc = ok ? hw_callsites_child(h->p->callsites, site, h->frames.v[frame - 1], &site) : HW_OK;
    return rc == HW_OK && hw_vec_push(&h->traces, site) < 0 ? HW_ENOMEM : rc;
}

static int add_allocation(struct heaptrack *h, struct hw_bytes rest)
{
    struct allocation a = {.site = {HW_ID_NONE}};
    uint64_t trace = 0;
    bool ok = hw_word_hex(&rest, &a.size) && hw_word_hex(&rest, &trace) && trace &&
              trace <= h->traces.n && a.size <= INT64_MAX;
    if (ok)
        a.site = h->traces.v[trace - 1];
    h->n_bad += a.site.v == HW_ID_NONE;
    return hw_vec_push(&h->allocations, a) < 0 ? HW_ENOMEM : HW_OK;
}

/* ---- events ---- */

static struct allocation *allocation_of(struct heaptrack *h, struct hw_bytes rest)
{
    uint64_t number;
    if (!hw_word_hex(&rest, &number) || number >= h->allocations.n)
        return NULL;
    struct allocation *a = &h->allocations.v[number];
    return a->site.v == HW_ID_NONE ? NULL : a;
}

static int count_allocation(struct heaptrack *h, struct hw_bytes rest)
{
    struct allocation *a = allocation_of(h, rest);
    if (!a)
        return count_bad(h);
    a->made++;
    if (__builtin_add_overflow(h->live, a->size, &h->live))
        h->live = UINT64_MAX;
    h->n_events++;
    if (h->live > h->peak) {
        h->peak = h->live;
        h->peak_ms = h->now_ms;
        h->peak_event = h->n_events;
    }
    return HW_OK;
}

static int count_free(struct heaptrack *h, struct hw_bytes rest)
{
    struct allocation *a = allocation_of(h, rest);
    if (!a || a->freed == a->made)
        return count_bad(h);
    a->freed++;
    h->live -= a->size < h->live ? a->size : h->live;
    h->n_events++;
    return HW_OK;
}

static int clock_line(struct heaptrack *h, struct hw_bytes rest)
{
    uint64_t ms;
    if (!hw_word_hex(&rest, &ms) || ms < h->now_ms || ms > INT64_MAX / ms_ns - 2)
        return count_bad(h);
    h->now_ms = ms;
    return HW_OK;
}

static int rss_line(struct heaptrack *h, struct hw_bytes rest)
{
    uint64_t pages;
    if (!hw_word_hex(&rest, &pages))
        return count_bad(h);
    struct hw_counter_row row = {.upid = h->upid,
                                 .name = h->rss,
                                 .ts_ns = time_of(h->now_ms),
                                 .value = (double)pages * (double)h->page_bytes};
    return hw_vec_push(&h->p->counters, row) < 0 ? HW_ENOMEM : HW_OK;
}

static int command_line(struct heaptrack *h, struct hw_bytes rest)
{
    struct hw_process *process = &h->p->processes.v[h->upid.v];
    struct hw_bytes argv0;
    if (rest.n)
        rest = hw_bytes_of(rest.p + 1, rest.n - 1);
    int rc = hw_profile_str(h->p, rest, &process->cmdline);
    if (rc < 0 || !hw_word_next(&rest, &argv0))
        return rc;
    for (size_t i = argv0.n; i-- > 0;)
        if (argv0.p[i] == '/') {
            argv0 = hw_bytes_of(argv0.p + i + 1, argv0.n - i - 1);
            break;
        }
    return hw_profile_str(h->p, argv0, &process->name);
}

static int read_line(struct heaptrack *h, struct hw_bytes line)
{
    struct hw_bytes rest = hw_bytes_of(line.p + 1, line.n - 1);
    uint64_t page;
    switch (line.p[0]) {
    case 's':
        return add_string(h, rest);
    case 'i':
        return add_frame(h, rest);
    case 't':
        return add_trace(h, rest);
    case 'a':
        return add_allocation(h, rest);
    case '+':
        return count_allocation(h, rest);
    case '-':
        return count_free(h, rest);
    case 'c':
        return clock_line(h, rest);
    case 'R':
        return rss_line(h, rest);
    case 'X':
        return command_line(h, rest);
    case 'I':
        if (hw_word_hex(&rest, &page) && page <= 1 << 30)
            h->page_bytes = page;
        return HW_OK;
    case 'v': /* read already */
    case 'A': /* attached while it ran */
    case 'S': /* a suppression that comes with the program */
    case '#':
        return HW_OK;
    default:
        return count_bad(h);
    }
}

/* Counts the events again, up to the peak. */
static void count_peak(struct heaptrack *h, struct hw_bytes file)
{
    struct hw_lines lines = hw_lines_of(file);
    struct hw_bytes line;
    uint64_t n = 0;
    for (size_t i = 0; i < h->allocations.n; i++)
        h->allocations.v[i].made = h->allocations.v[i].freed = 0;
    while (n < h->peak_event && hw_lines_next(&lines, &line)) {
        if (line.n == 0 || (line.p[0] != '+' && line.p[0] != '-'))
            continue;
        struct allocation *a = allocation_of(h, hw_bytes_of(line.p + 1, line.n - 1));
        if (!a || (line.p[0] == '-' && a->freed == a->made))
            continue;
        if (line.p[0] == '+')
            a->made++;
        else
            a->freed++;
        n++;
    }
}

/* ---- dumps ---- */

struct sum {
    int64_t made, freed, made_bytes, freed_bytes;
};

static void sum_add(int64_t *to, uint64_t n, uint64_t size)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes) || bytes > INT64_MAX ||
        __builtin_add_overflow(*to, (int64_t)bytes, to))
        *to = INT64_MAX;
}

static int add_row(struct heaptrack *h, uint32_t dump, uint32_t site, int64_t n, int64_t bytes)
{
    struct hw_alloc_row row = {
        .dump = dump, .callsite = {site}, .samples = n, .count = n, .size = bytes};
    return n || bytes ? hw_alloc_rows_push(&h->p->allocs, &row) : HW_OK;
}

/* What was allocated and freed since the previous dump; sums: one for each callsite, all 0. */
static int add_dump(struct heaptrack *h, uint64_t ms, struct sum *sums, const char *trigger)
{
    struct hw_profile *p = h->p;
    struct hw_heap_dump d = {.upid = h->upid,
                             .heap_name = h->heap,
                             .ts_ns = time_of(ms),
                             .start_ts_ns = time_of(0),
                             .interval_bytes = 1,
                             .orig_interval_bytes = 1,
                             .flags = HW_DUMP_FROM_STARTUP};
    uint32_t dump = (uint32_t)p->dumps.n;
    int rc = hw_profile_str(p, hw_bytes_str(trigger), &d.trigger);
    if (rc == HW_OK && hw_vec_push(&p->dumps, d) < 0)
        rc = HW_ENOMEM;
    for (size_t i = 0; i < h->allocations.n; i++) {
        struct allocation *a = &h->allocations.v[i];
        if (a->site.v == HW_ID_NONE)
            continue;
        struct sum *s = &sums[a->site.v];
        uint64_t n_made = a->made - a->made_at_peak, n_freed = a->freed - a->freed_at_peak;
        sum_add(&s->made, n_made, 1);
        sum_add(&s->freed, n_freed, 1);
        sum_add(&s->made_bytes, n_made, a->size);
        sum_add(&s->freed_bytes, n_freed, a->size);
        a->made_at_peak = a->made;
        a->freed_at_peak = a->freed;
    }
    for (uint32_t i = 0; rc == HW_OK && i < hw_callsites_count(p->callsites); i++) {
        rc = add_row(h, dump, i, sums[i].made, sums[i].made_bytes);
        if (rc == HW_OK)
            rc = add_row(h, dump, i, -sums[i].freed, -sums[i].freed_bytes);
        sums[i] = (struct sum){0};
    }
    return rc;
}

/* end: saves the counts of all allocations, which count_peak overwrites. */
static int add_dumps(struct heaptrack *h, struct hw_bytes file)
{
    size_t n = h->allocations.n;
    struct sum *sums = calloc(hw_callsites_count(h->p->callsites) + 1, sizeof *sums);
    struct {
        uint64_t made, freed;
    } *end = calloc(n + 1, sizeof *end);
    int rc = sums && end ? HW_OK : HW_ENOMEM;
    if (rc == HW_OK && h->peak_event < h->n_events) {
        for (size_t i = 0; i < n; i++) {
            end[i].made = h->allocations.v[i].made;
            end[i].freed = h->allocations.v[i].freed;
        }
        count_peak(h, file);
        if (h->peak)
            rc = add_dump(h, h->peak_ms, sums, "peak");
        for (size_t i = 0; i < n; i++) {
            h->allocations.v[i].made = end[i].made;
            h->allocations.v[i].freed = end[i].freed;
        }
    }
    /* Two dumps of a process cannot have the same time. */
    bool same_time = h->p->dumps.n && h->now_ms == h->peak_ms;
    if (rc == HW_OK)
        rc = add_dump(h, h->now_ms + same_time, sums, "end");
    h->p->first_ns = time_of(0);
    h->p->last_ns = time_of(h->now_ms + same_time);
    free(sums);
    free(end);
    return rc;
}

/* ---- the file ---- */

static int read_version(struct heaptrack *h, struct hw_bytes file, struct hw_error *err)
{
    struct hw_lines lines = hw_lines_of(file);
    struct hw_bytes line = {NULL, 0};
    uint64_t program;
    (void)hw_lines_next(&lines, &line); /* there is one: the probe saw it */
    line = line.n ? hw_bytes_of(line.p + 1, line.n - 1) : line;
    if (!hw_word_hex(&line, &program))
        return hw_fail(err, HW_EFORMAT, 0, "line 1: no version");
    if (!hw_word_hex(&line, &h->file_version))
        h->file_version = 0;
    if (h->file_version < FILE_VERSION_MIN || h->file_version > FILE_VERSION_MAX)
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "heaptrack file version %llu; versions %d to %d can be read",
                       (unsigned long long)h->file_version, FILE_VERSION_MIN, FILE_VERSION_MAX);
    return HW_OK;
}

static int read_lines(struct heaptrack *h, struct hw_bytes file, struct hw_error *err)
{
    struct hw_lines lines = hw_lines_of(file);
    struct hw_bytes line;
    int rc = HW_OK;
    while (rc == HW_OK && hw_lines_next(&lines, &line)) {
        rc = line.n ? read_line(h, line) : HW_OK;
        hw_progress_at(h->p->progress, lines.offset, file.n);
    }
    return rc < 0 ? hw_fail(err, rc, lines.offset, "line %llu:", (unsigned long long)lines.number)
                  : HW_OK;
}

static int prepare(struct heaptrack *h)
{
    int rc = hw_profile_process(h->p, 0, &h->upid);
    if (rc == HW_OK)
        rc = hw_profile_str(h->p, hw_bytes_str("libc.malloc"), &h->heap);
    if (rc == HW_OK)
        rc = hw_profile_str(h->p, hw_bytes_str("mem.rss"), &h->rss);
    return rc;
}

static int read_heaptrack(struct hw_bytes file, struct hw_profile *into, struct hw_error *err)
{
    struct heaptrack h = {.p = into, .page_bytes = 4096};
    int rc = read_version(&h, file, err);
    if (rc == HW_OK && (rc = prepare(&h)) < 0)
        (void)hw_fail(err, rc, 0, "heaptrack data:");
    if (rc == HW_OK)
        rc = read_lines(&h, file, err);
    if (rc == HW_OK) {
        rc = add_dumps(&h, file);
        if (rc == HW_OK && h.n_bad)
            rc = hw_profile_stat_add(into, "heaptrack_damaged_lines", -1, HW_STAT_ERROR,
                                     (int64_t)h.n_bad);
        if (rc < 0)
            (void)hw_fail(err, rc, 0, "heaptrack data:");
    }
    hw_vec_done(&h.strings);
    hw_vec_done(&h.frames);
    hw_vec_done(&h.traces);
    hw_vec_done(&h.allocations);
    hw_map64_done(&h.module_of_string);
    return rc;
}

/* "v 10400 3" */
static int probe(struct hw_bytes head)
{
    struct hw_lines lines = hw_lines_of(head);
    struct hw_bytes line;
    uint64_t version;
    if (!hw_lines_next(&lines, &line) || line.n < 3 || line.p[0] != 'v' || line.p[1] != ' ')
        return 0;
    line = hw_bytes_of(line.p + 1, line.n - 1);
    return hw_word_hex(&line, &version) && version >= 0x10000 ? 90 : 0;
}

const struct hw_importer hw_import_heaptrack = {
    .name = "heaptrack",
    .summary = "heaptrack's data file (gzip or zstd)",
    .probe = probe,
    .read = read_heaptrack,
};

/* HeapprofdConfig: fields, defaults, derived per-heap intervals, and what is refused. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/limits.h"
#include "codec/pb.h"
#include "config/read.h"
#include "schema/fields.h"

#include "base/banned.h"

enum {
    MAX_HEAPS = 64,
    MAX_HEAP_NAME = 63, /* bytes, without the NUL */
    MAX_STACK_MODE = 3,
};
static const uint64_t default_shmem_bytes = 8ull << 20;
static const uint64_t max_shmem_bytes = 500ull << 20;

void hw_heapprofd_config_done(struct hw_heapprofd_config *c)
{
    for (size_t i = 0; i < c->process_cmdline.n; i++)
        free(c->process_cmdline.v[i]);
    for (size_t i = 0; i < c->skip_symbol_prefix.n; i++)
        free(c->skip_symbol_prefix.v[i]);
    for (size_t i = 0; i < c->heaps.n; i++)
        free(c->heaps.v[i].name);
    for (size_t i = 0; i < c->conditions.n; i++)
        hw_when_done(&c->conditions.v[i]);
    hw_vec_done(&c->conditions);
    hw_memlog_done(&c->memlog);
    hw_vec_done(&c->process_cmdline);
    hw_vec_done(&c->skip_symbol_prefix);
    hw_vec_done(&c->heaps);
    hw_vec_done(&c->pids);
}

void hw_heapprofd_raw_done(struct hw_heapprofd_raw *raw)
{
    hw_heapprofd_config_done(&raw->c);
    for (size_t i = 0; i < raw->heaps.n; i++)
        free(raw->heaps.v[i]);
    for (size_t i = 0; i < raw->exclude_heaps.n; i++)
        free(raw->exclude_heaps.v[i]);
    hw_vec_done(&raw->heaps);
    hw_vec_done(&raw->exclude_heaps);
    hw_vec_done(&raw->heap_intervals);
}

/* ---- fields ---- */

#define F(name) HW_F_HeapprofdConfig_##name

static int add_category(struct hw_heapprofd_config *c, struct hw_bytes text, struct hw_error *err)
{
    size_t n = strlen(c->scope_categories);
    if (text.n == 0 || memchr(text.p, 0, text.n))
        return hw_fail(err, HW_EINVAL, 0, "a scope category is empty or has a zero byte");
    if (text.n + (n > 0) >= sizeof c->scope_categories - n)
        return hw_fail(err, HW_ELIMIT, 0, "scope categories take more than %zu bytes together",
                       sizeof c->scope_categories - 1);
    if (n)
        c->scope_categories[n++] = ',';
    memcpy(c->scope_categories + n, text.p, text.n);
    return HW_OK;
}

static int read_continuous(struct hw_bytes message, struct hw_heapprofd_config *c)
{
#define ROW(name)                                                                                  \
    HW_CONFIG_NUMBER(HW_F_HeapprofdConfig_ContinuousDumpConfig_##name, struct hw_heapprofd_config, \
                     name)
    static const struct hw_config_number numbers[] = {ROW(dump_phase_ms), ROW(dump_interval_ms)};
#undef ROW
    return hw_config_read_numbers(message, numbers, HW_ARRAY_LEN(numbers), c);
}

static int read_condition(struct hw_heapprofd_config *c, struct hw_bytes text, enum hw_when_act act,
                          struct hw_error *err)
{
    struct hw_when w;
    hw_autofree char *copy = NULL;
    int rc = hw_config_take_string(text, &copy, err);
    if (rc == HW_OK)
        rc = hw_when_parse(copy, act, &w, err);
    if (rc < 0)
        return rc;
    if (c->conditions.n < HW_MAX_CONDITIONS && hw_vec_push(&c->conditions, w) == HW_OK)
        return HW_OK;
    hw_when_done(&w);
    return hw_fail(err, HW_ELIMIT, 0, "more than %u conditions", HW_MAX_CONDITIONS);
}

static int read_bytes_field(struct hw_heapprofd_raw *raw, const struct hw_pb_field *f,
                            struct hw_error *err)
{
    switch (f->number) {
    case F(process_cmdline):
        return HW_CONFIG_PUSH_STRING(&raw->c.process_cmdline, f->bytes, err);
    case F(skip_symbol_prefix):
        return HW_CONFIG_PUSH_STRING(&raw->c.skip_symbol_prefix, f->bytes, err);
    case F(heaps):
        return HW_CONFIG_PUSH_STRING(&raw->heaps, f->bytes, err);
    case F(scope_categories):
        return add_category(&raw->c, f->bytes, err);
    case F(memlog):
        return hw_memlog_parse(f->bytes, &raw->c.memlog, err);
    case F(exclude_heaps):
        return HW_CONFIG_PUSH_STRING(&raw->exclude_heaps, f->bytes, err);
    case F(continuous_dump_config):
        return read_continuous(f->bytes, &raw->c);
    case F(target_installed_by):
        raw->installed_by = true;
        return HW_OK;
    case F(dump_when):
        return read_condition(&raw->c, f->bytes, HW_ACT_DUMP, err);
    case F(stop_when):
        return read_condition(&raw->c, f->bytes, HW_ACT_STOP, err);
    case F(start_when):
        return read_condition(&raw->c, f->bytes, HW_ACT_START, err);
    case F(pid):
        return HW_CONFIG_PUSH_NUMBERS(&raw->c.pids, f, err);
    case F(heap_sampling_intervals):
        return HW_CONFIG_PUSH_NUMBERS(&raw->heap_intervals, f, err);
    default:
        return HW_OK; /* unknown fields are skipped */
    }
}

static int read_number_field(struct hw_heapprofd_raw *raw, const struct hw_pb_field *f,
                             struct hw_error *err)
{
#define ROW(name)            ROW_AS(name, name)
#define ROW_AS(name, member) HW_CONFIG_NUMBER(F(name), struct hw_heapprofd_config, member)
    static const struct hw_config_number numbers[] = {
        ROW(sampling_interval_bytes),
        ROW(all),
        ROW(shmem_size_bytes),
        ROW(block_client),
        ROW(no_startup),
        ROW(no_running),
        ROW(dump_at_max),
        ROW(block_client_timeout_us),
        ROW(min_anonymous_memory_kb),
        ROW(max_heapprofd_memory_kb),
        ROW(max_heapprofd_cpu_secs),
        ROW(disable_fork_teardown),
        ROW(disable_vfork_detection),
        ROW(all_heaps),
        ROW(stream_allocations),
        ROW_AS(adaptive_sampling_shmem_threshold, adaptive_threshold_bytes),
        ROW_AS(adaptive_sampling_max_sampling_interval_bytes, adaptive_max_interval_bytes),
        ROW(max_samples_per_second),
        ROW(idle_allocations),
        ROW(no_managed_frames),
        ROW(stack_mode),
        ROW(record_types),
        ROW(record_slices),
    };
#undef ROW
#undef ROW_AS
    if (f->number == F(pid))
        return HW_CONFIG_PUSH_NUMBERS(&raw->c.pids, f, err);
    if (f->number == F(heap_sampling_intervals))
        return HW_CONFIG_PUSH_NUMBERS(&raw->heap_intervals, f, err);
    if (f->number == F(stack_mode) && f->value > MAX_STACK_MODE)
        return hw_fail(err, HW_EINVAL, 0,
                       "stack_mode %llu is not known; 0 native, 1 with thread names, 2 pseudo, "
                       "3 mixed",
                       (unsigned long long)f->value);
    hw_config_take_number(numbers, HW_ARRAY_LEN(numbers), f, &raw->c);
    return HW_OK;
}

int hw_heapprofd_read(struct hw_bytes message, struct hw_heapprofd_raw *raw, struct hw_error *err)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f = {0};
    int rc;
    while ((rc = hw_pb_next(&r, &f)) > 0) {
        if (f.wire == HW_PB_BYTES)
            rc = read_bytes_field(raw, &f, err);
        else if (f.wire == HW_PB_VARINT)
            rc = read_number_field(raw, &f, err);
        if (rc == HW_EFORMAT || rc == HW_ETRUNCATED)
            break;
        if (rc < 0)
            return rc;
    }
    return rc < 0 ? hw_fail(err, rc, f.offset, "heapprofd_config is not a valid message") : HW_OK;
}

/* ---- derivation ---- */

const char *const hw_mapping_heaps[HW_N_MAPPING_HEAPS] = {"mmap.anon", "mmap.file", "mmap.shared"};

/* A heap of mappings has no interval: each call is recorded. */
static bool choose_mappings(struct hw_heapprofd_config *h, const char *name, bool wanted)
{
    for (uint32_t i = 0; i < HW_N_MAPPING_HEAPS; i++)
        if (strcmp(name, hw_mapping_heaps[i]) == 0) {
            h->mappings = wanted ? h->mappings | 1u << i : h->mappings & ~(1u << i);
            return true;
        }
    return false;
}

static int add_heap(struct hw_heapprofd_config *h, struct hw_trace_config *c, const char *name,
                    uint64_t interval_bytes, struct hw_error *err)
{
    size_t n = strlen(name);
    if (n == 0 || n > MAX_HEAP_NAME) {
        hw_config_warn(c, "Invalid heap name '%.80s'%s (not 1 to %d bytes); it is left out", name,
                       n > 80 ? "..." : "", MAX_HEAP_NAME);
        return HW_OK;
    }
    if (h->heaps.n == MAX_HEAPS)
        return HW_ELIMIT;
    char *copy = strdup(name);
    if (!copy || hw_vec_push(&h->heaps, (struct hw_heap_interval){copy, interval_bytes}) < 0) {
        free(copy);
        return hw_fail(err, HW_ENOMEM, 0, "configuration");
    }
    return HW_OK;
}

static const struct hw_heap_interval *find_heap(const struct hw_heapprofd_config *h,
                                                const char *name)
{
    for (size_t i = 0; i < h->heaps.n; i++)
        if (strcmp(h->heaps.v[i].name, name) == 0)
            return &h->heaps.v[i];
    return NULL;
}

static uint64_t interval_of(const struct hw_heapprofd_config *h, const char *name)
{
    const struct hw_heap_interval *heap = find_heap(h, name);
    return heap ? heap->interval_bytes : h->all_heaps ? h->default_interval_bytes : 0;
}

bool hw_heapprofd_wants_heap(const struct hw_heapprofd_config *h, const char *name)
{
    return interval_of(h, name) != 0;
}

static int derive_heaps(struct hw_heapprofd_raw *raw, struct hw_trace_config *c,
                        struct hw_error *err)
{
    struct hw_heapprofd_config *h = &raw->c;
    if (raw->heap_intervals.n && raw->heap_intervals.n != raw->heaps.n)
        return hw_fail(err, HW_EINVAL, 0, "heap_sampling_intervals and heaps length mismatch.");
    if (h->all_heaps)
        h->default_interval_bytes = h->sampling_interval_bytes;
    if (h->all_heaps && h->default_interval_bytes == 0 && raw->heap_intervals.n == 0)
        return hw_fail(err, HW_EINVAL, 0,
                       "zero sampling interval. Use 1 or more bytes; 1 records every allocation.");
    int rc = HW_OK;
    if (raw->heaps.n == 0 && !h->all_heaps) {
        if (h->sampling_interval_bytes == 0)
            return hw_fail(
                err, HW_EINVAL, 0,
                "zero sampling interval. Use 1 or more bytes; 1 records every allocation.");
        rc = add_heap(h, c, "libc.malloc", h->sampling_interval_bytes, err);
    }
    for (size_t i = 0; i < raw->heaps.n && rc == 0; i++) {
        uint64_t interval =
            raw->heap_intervals.n ? raw->heap_intervals.v[i] : h->sampling_interval_bytes;
        if (interval == 0)
            return hw_fail(
                err, HW_EINVAL, 0,
                "zero sampling interval. Use 1 or more bytes; 1 records every allocation.");
        if (!choose_mappings(h, raw->heaps.v[i], /* wanted = */ true))
            rc = add_heap(h, c, raw->heaps.v[i], interval, err);
    }
    for (size_t i = 0; i < raw->exclude_heaps.n && rc == 0; i++)
        if (!choose_mappings(h, raw->exclude_heaps.v[i], /* wanted = */ false))
            rc = add_heap(h, c, raw->exclude_heaps.v[i], 0, err);
    if (rc == HW_ELIMIT) {
        hw_config_warn(c, "Too many heaps requested. Truncating.");
        rc = HW_OK;
    }
    const struct hw_heap_interval *python = find_heap(h, HW_PYTHON_HEAP);
    if (rc == 0 && python && python->interval_bytes &&
        python->interval_bytes != interval_of(h, "libc.malloc"))
        return hw_fail(err, HW_EINVAL, 0,
                       HW_PYTHON_HEAP
                       " has the interval of libc.malloc: name both, with one interval");
    return rc;
}

static int check_buffer(struct hw_heapprofd_config *h, struct hw_trace_config *c,
                        struct hw_error *err)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), n = h->shmem_size_bytes;
    if (n == 0) {
        h->shmem_size_bytes = default_shmem_bytes;
        return HW_OK;
    }
    if (n > max_shmem_bytes) {
        /* the greatest power of two below the limit: other sizes are impossible */
        h->shmem_size_bytes = 256ull << 20;
        hw_config_warn(c, "shmem_size_bytes %llu is above the limit of %llu; %llu is used",
                       (unsigned long long)n, (unsigned long long)max_shmem_bytes,
                       (unsigned long long)h->shmem_size_bytes);
        return HW_OK;
    }
    if ((n & (n - 1)) || n % page)
        return hw_fail(err, HW_EINVAL, 0,
                       "Failed to create shared memory. shmem_size_bytes %llu is not a power of "
                       "two and a multiple of %llu",
                       (unsigned long long)n, (unsigned long long)page);
    if (n < 2 * page)
        return hw_fail(err, HW_EINVAL, 0,
                       "Failed to create shared memory. shmem_size_bytes %llu is less than %llu",
                       (unsigned long long)n, (unsigned long long)(2 * page));
    return HW_OK;
}

static int check_targets(const struct hw_heapprofd_config *h, struct hw_trace_config *c,
                         struct hw_error *err)
{
    if (h->no_startup && h->no_running)
        return hw_fail(err, HW_EINVAL, 0,
                       "no_startup and no_running exclude each other: no process would be left");
    for (size_t i = 0; i < h->process_cmdline.n; i++)
        if (strchr(h->process_cmdline.v[i], '*') && (!h->no_startup || h->no_running))
            return hw_fail(
                err, HW_EINVAL, 0,
                "process_cmdline \"%.100s\" has a wildcard, which needs no_startup: true",
                h->process_cmdline.v[i]);
    for (size_t i = 0; i < h->pids.n; i++)
        if (h->pids.v[i] == 0 || h->pids.v[i] > INT32_MAX)
            return hw_fail(err, HW_EINVAL, 0, "pid %llu is not a process id",
                           (unsigned long long)h->pids.v[i]);
    if (h->memlog.rules.n && !h->all)
        return hw_fail(err, HW_EINVAL, 0, "memlog chooses among all processes: it needs all: true");
    if (h->all && (h->pids.n || h->process_cmdline.n))
        hw_config_warn(c,
                       "all is set together with pid or process_cmdline: every process is meant");
    return HW_OK;
}

int hw_heapprofd_derive(struct hw_heapprofd_raw *raw, struct hw_trace_config *c,
                        struct hw_error *err)
{
    if (raw->installed_by)
        return hw_fail(err, HW_EINVAL, 0,
                       "target_installed_by selects by Android's installers and cannot be obeyed "
                       "here: more processes than asked for would be profiled");
    int rc = derive_heaps(raw, c, err);
    if (rc == 0)
        rc = check_buffer(&raw->c, c, err);
    if (rc == 0)
        rc = check_targets(&raw->c, c, err);
    return rc;
}

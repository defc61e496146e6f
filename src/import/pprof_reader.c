/*
 * A pprof heap profile becomes one dump of one process: a positive row of what was allocated and a
 * negative one of what was freed (the difference to what is live), or only a row of what is live if
 * the profile has no more. Sample types are found by the names in use: ours, Go's, and both forms
 * of the converters'.
 *
 *     Profile { sample_type… sample… mapping… location… function… string_table… }
 *
 * The order of fields is free, so strings, mappings, functions and locations are put into tables
 * first (pprof_frames.h), samples are read last.
 */
#include "import/pprof_reader.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "codec/pb.h"
#include "import/pprof_frames.h"
#include "model/profile.h"
#include "schema/fields.h"

#include "base/banned.h"

enum { MAX_TYPES = 64 };
enum column { ALLOC_COUNT, ALLOC_BYTES, LIVE_COUNT, LIVE_BYTES, BASE_COUNT, BASE_BYTES, N_COLUMNS };

struct pprof {
    struct hw_profile *p;
    struct hw_pprof_frames frames;
    HW_VEC(struct hw_bytes) types; /* ValueType messages */
    int column_of_type[MAX_TYPES]; /* enum column; -1 = not of a heap */
    bool has[N_COLUMNS];
    HW_VEC(hw_frame_id) path;
    HW_VEC(uint64_t) comments;        /* indexes of strings */
    double choice;                    /* relative variance of choosing processes */
    double weight;                    /* starts that an allocation's process stands for */
    HW_VEC(struct hw_alloc_row) rows; /* of the dump after the base, until that is complete */
    uint64_t time_ns, duration_ns, period, n_bad;
};

/* ---- sample types ---- */

static int column_named(struct hw_bytes name)
{
    static const struct {
        const char *name;
        enum column column;
    } known[] = {
        {"alloc_objects", ALLOC_COUNT},
        {"Total malloc count", ALLOC_COUNT},
        {"Total count", ALLOC_COUNT},
        {"Total allocation count", ALLOC_COUNT},
        {"alloc_space", ALLOC_BYTES},
        {"Total malloc size", ALLOC_BYTES},
        {"Total size", ALLOC_BYTES},
        {"Total allocation size", ALLOC_BYTES},
        {"objects", LIVE_COUNT},
        {"inuse_objects", LIVE_COUNT},
        {"Unreleased malloc count", LIVE_COUNT},
        {"Unreleased count", LIVE_COUNT},
        {"space", LIVE_BYTES},
        {"inuse_space", LIVE_BYTES},
        {"Unreleased malloc size", LIVE_BYTES},
        {"Unreleased size", LIVE_BYTES},
        {"base_objects", BASE_COUNT},
        {"base_space", BASE_BYTES},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(known); i++)
        if (hw_bytes_equal(hw_bytes_str(known[i].name), name))
            return (int)known[i].column;
    return -1;
}

static int find_columns(struct pprof *in, struct hw_error *err)
{
    for (size_t i = 0; i < in->types.n; i++) {
        uint64_t name = hw_pprof_number(in->types.v[i], HW_F_pprof_ValueType_type);
        int column = column_named(hw_pprof_string(&in->frames, name));
        in->column_of_type[i] = column;
        if (column >= 0)
            in->has[column] = true;
    }
    if (!in->has[ALLOC_BYTES] && !in->has[LIVE_BYTES])
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "this pprof profile has no sample type of a heap (space, alloc_space)");
    return HW_OK;
}

/* ---- samples ---- */

static int push_location(struct pprof *in, uint64_t id)
{
    uint64_t frame;
    if (!hw_map64_get(&in->frames.locations, id, &frame)) {
        in->n_bad++;
        return HW_OK;
    }
    return hw_vec_push(&in->path, (hw_frame_id){(uint32_t)frame}) < 0 ? HW_ENOMEM : HW_OK;
}

static void add_value(struct pprof *in, size_t index, uint64_t v, int64_t *values)
{
    if (index < in->types.n && in->column_of_type[index] >= 0)
        values[in->column_of_type[index]] += (int64_t)v;
}

/* Fills in->path, leaf first, and adds up the values by column. Both fields packed or not. */
static int read_sample(struct pprof *in, struct hw_bytes message, int64_t *values)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    size_t n_values = 0;
    int rc = HW_OK;
    in->path.n = 0;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        struct hw_bytes rest = f.bytes;
        uint64_t v = f.value;
        bool is_location = f.number == HW_F_pprof_Sample_location_id;
        if (!is_location && f.number != HW_F_pprof_Sample_value)
            continue;
        bool packed = f.wire == HW_PB_BYTES;
        while (rc == HW_OK && (!packed || hw_pb_next_packed(&rest, &v) == 1)) {
            if (is_location)
                rc = push_location(in, v);
            else
                add_value(in, n_values++, v, values);
            if (!packed)
                break;
        }
    }
    return rc;
}

static bool has_base(const struct pprof *in)
{
    return in->has[BASE_BYTES] && in->has[ALLOC_BYTES] && in->has[LIVE_BYTES];
}

/* An allocation of s bytes is sampled with p = 1 - e^(-s/period), so a sample stands for 1/p
 * allocations, and for `weight` times as many if its process does. All allocations of a stack are
 * taken to have its mean size. */
static double mean_size(int64_t count, int64_t size)
{
    return count > 0 && size > 0 ? (double)size / (double)count : 0;
}

static double sampling_probability(const struct pprof *in, double mean)
{
    return in->period > 1 ? -expm1(-mean / (double)in->period) : 1;
}

static double variance_of_count(const struct pprof *in, int64_t count, int64_t size)
{
    double p = sampling_probability(in, mean_size(count, size));
    return p > 0 ? in->weight * (double)count * (1 - p) / p : 0;
}

static double variance_of(const struct pprof *in, int64_t count, int64_t size)
{
    double mean = mean_size(count, size);
    return mean * mean * variance_of_count(in, count, size);
}

static int64_t samples_of(const struct pprof *in, int64_t count, int64_t size)
{
    double p = sampling_probability(in, mean_size(count, size));
    if (!(p > 0) || count <= 0)
        return count;
    double n = round((double)count * p / in->weight);
    return n < 1 ? 1 : (int64_t)n;
}

/* What a stack has allocated, and what of it is live. */
struct stack_values {
    hw_callsite_id callsite;
    int64_t count, size, live_count, live_size;
};

static struct hw_alloc_row row_of(const struct pprof *in, const struct stack_values *s)
{
    return (struct hw_alloc_row){
        .callsite = s->callsite,
        .variance = variance_of(in, s->live_count, s->live_size),
        .variance_objects =
            hw_alloc_variance_kept(variance_of_count(in, s->live_count, s->live_size)),
        .variance_alloc_space = hw_alloc_variance_kept(variance_of(in, s->count, s->size)),
        .variance_alloc_objects = hw_alloc_variance_kept(variance_of_count(in, s->count, s->size))};
}

/* Rows must be added dump by dump: with a base, the second dump's wait until it is complete. */
static int add_row(struct pprof *in, const struct stack_values *s, int64_t samples, int64_t count,
                   int64_t size)
{
    struct hw_alloc_row row = row_of(in, s);
    if (count == 0 && size == 0)
        return HW_OK;
    row.samples = samples;
    row.count = count;
    row.size = size;
    if (!has_base(in))
        return hw_alloc_rows_push(&in->p->allocs, &row);
    row.dump = 1;
    return hw_vec_push(&in->rows, row) < 0 ? HW_ENOMEM : HW_OK;
}

static int add_base(struct pprof *in, hw_callsite_id callsite, int64_t count, int64_t size)
{
    struct stack_values s = {.callsite = callsite, .live_count = count, .live_size = size};
    struct hw_alloc_row row = row_of(in, &s);
    row.samples = samples_of(in, count, size);
    row.count = count;
    row.size = size;
    return count || size ? hw_alloc_rows_push(&in->p->allocs, &row) : HW_OK;
}

static int add_rows_after_base(struct pprof *in)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < in->rows.n; i++)
        rc = hw_alloc_rows_push(&in->p->allocs, &in->rows.v[i]);
    return rc;
}

/* A row of what was allocated, then one of what of it, and of the base, was freed. */
static int add_rows(struct pprof *in, hw_callsite_id callsite, const int64_t *v)
{
    struct stack_values s = {callsite, v[ALLOC_COUNT], v[ALLOC_BYTES], v[LIVE_COUNT],
                             v[LIVE_BYTES]};
    int64_t live = samples_of(in, s.live_count, s.live_size), allocated, freed_count, freed_bytes;
    int64_t base = samples_of(in, v[BASE_COUNT], v[BASE_BYTES]);
    if (!in->has[ALLOC_BYTES]) {
        s.count = s.live_count;
        s.size = s.live_size;
        return add_row(in, &s, live, s.live_count, s.live_size);
    }
    allocated = samples_of(in, s.count, s.size);
    int rc = add_row(in, &s, allocated, s.count, s.size);
    if (rc < 0 || !in->has[LIVE_BYTES])
        return rc;
    if (has_base(in) && (rc = add_base(in, callsite, v[BASE_COUNT], v[BASE_BYTES])) < 0)
        return rc;
    if (__builtin_sub_overflow(v[LIVE_COUNT], v[ALLOC_COUNT], &freed_count) ||
        __builtin_sub_overflow(freed_count, v[BASE_COUNT], &freed_count) ||
        __builtin_sub_overflow(v[LIVE_BYTES], v[ALLOC_BYTES], &freed_bytes) ||
        __builtin_sub_overflow(freed_bytes, v[BASE_BYTES], &freed_bytes)) {
        in->n_bad++;
        return HW_OK;
    }
    return add_row(in, &s, live - allocated - base, freed_count, freed_bytes);
}

static int add_sample(struct pprof *in, struct hw_bytes message)
{
    int64_t v[N_COLUMNS] = {0};
    hw_callsite_id callsite;
    int rc = read_sample(in, message, v);
    if (rc < 0)
        return rc;
    if (in->path.n == 0 || in->path.n > HW_MAX_CALLSITE_DEPTH) {
        in->n_bad++;
        return HW_OK;
    }
    for (size_t i = 0, j = in->path.n - 1; i < j; i++, j--) { /* pprof is leaf first */
        hw_frame_id swap = in->path.v[i];
        in->path.v[i] = in->path.v[j];
        in->path.v[j] = swap;
    }
    rc = hw_callsites_intern(in->p->callsites, in->path.v, in->path.n, &callsite);
    if (rc < 0)
        return rc;
    return add_rows(in, callsite, v);
}

/* ---- the file ---- */

/* Packed or not: Go's writer packs three or more. */
static int read_comments(struct pprof *in, const struct hw_pb_field *f)
{
    struct hw_bytes rest = f->bytes;
    uint64_t v = f->value;
    if (f->wire == HW_PB_VARINT)
        return hw_vec_push(&in->comments, v);
    while (f->wire == HW_PB_BYTES && hw_pb_next_packed(&rest, &v) == 1)
        if (hw_vec_push(&in->comments, v) < 0)
            return -1;
    return 0;
}

/* Reads the fields that samples, mappings and locations refer to. */
static int read_tables(struct pprof *in, struct hw_bytes file, size_t *reached)
{
    struct hw_pb_reader r = hw_pb_read(file);
    struct hw_pb_field f;
    int rc;
    while ((rc = hw_pb_next(&r, &f)) == 1) {
        int pushed = 0;
        if (f.number == HW_F_pprof_Profile_string_table)
            pushed = hw_vec_push(&in->frames.strings, f.bytes);
        else if (f.number == HW_F_pprof_Profile_sample_type && in->types.n < MAX_TYPES)
            pushed = hw_vec_push(&in->types, f.bytes);
        else if (f.number == HW_F_pprof_Profile_time_nanos)
            in->time_ns = f.value;
        else if (f.number == HW_F_pprof_Profile_duration_nanos)
            in->duration_ns = f.value;
        else if (f.number == HW_F_pprof_Profile_period)
            in->period = f.value;
        else if (f.number == HW_F_pprof_Profile_comment)
            pushed = read_comments(in, &f);
        if (pushed < 0)
            return HW_ENOMEM;
    }
    *reached = (size_t)(r.pos - r.start); /* the start of a broken field */
    return rc;
}

static int add_samples(struct pprof *in, struct hw_bytes file)
{
    struct hw_pb_reader r = hw_pb_read(file);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_pprof_Profile_sample && f.wire == HW_PB_BYTES)
            rc = add_sample(in, f.bytes);
    return rc;
}

/* A fact that continuous recording wrote into the file: "heapwise.NAME=value". */
static struct hw_bytes comment(const struct pprof *in, const char *name)
{
    struct hw_bytes key = hw_bytes_str(name);
    for (size_t i = 0; i < in->comments.n; i++) {
        struct hw_bytes text = hw_pprof_string(&in->frames, in->comments.v[i]);
        if (text.n > key.n && memcmp(text.p, key.p, key.n) == 0)
            return hw_bytes_of(text.p + key.n, text.n - key.n);
    }
    return (struct hw_bytes){NULL, 0};
}

/* 0 = not a number, or above the limit. */
static int64_t number_in(struct hw_bytes text, int64_t max)
{
    int64_t n = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9' || n > max / 10)
            return 0;
        n = n * 10 + (text.p[i] - '0');
    }
    return n <= max ? n : 0;
}

/* Facts about the whole file become metadata of the same name. */
static int add_facts(struct pprof *in)
{
    static const char *const facts[] = {"heapwise.host", "heapwise.unit", "heapwise.container",
                                        "heapwise.unknown_since"};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < HW_ARRAY_LEN(facts); i++) {
        char key[40];
        (void)snprintf(key, sizeof key, "%s=", facts[i]);
        struct hw_bytes value = comment(in, key);
        hw_autofree char *text = value.n ? strndup((const char *)value.p, value.n) : NULL;
        if (text && text[0])
            rc = hw_profile_metadata_set(in->p, facts[i], text, 0);
        else if (value.n && !text)
            rc = HW_ENOMEM;
    }
    return rc;
}

static int add_process(struct pprof *in, struct hw_heap_dump *d)
{
    struct hw_bytes heap = comment(in, "heapwise.heap="), name = comment(in, "heapwise.process=");
    int rc =
        hw_profile_process(in->p, number_in(comment(in, "heapwise.pid="), INT32_MAX), &d->upid);
    if (rc == HW_OK && name.n)
        rc = hw_profile_str(in->p, name, &in->p->processes.v[d->upid.v].name);
    if (rc == HW_OK)
        rc = hw_profile_str(in->p, heap.n ? heap : hw_bytes_str("unknown"), &d->heap_name);
    return rc;
}

/*
 * n processes stand for m starts, each for w of them. If all hold the same, x / m, choosing them
 * adds a variance of (x / m)² times the sum of w (w - 1). Without that sum every w counts as m / n.
 */
static void read_choice(struct pprof *in)
{
    double m = (double)number_in(comment(in, "heapwise.starts="), INT32_MAX);
    double n = fmax((double)number_in(comment(in, "heapwise.processes="), INT32_MAX), 1);
    double sum = (double)number_in(comment(in, "heapwise.starts_variance="), INT64_MAX);
    in->weight = 1;
    if (m <= n)
        return;
    sum = sum > 0 ? sum : m * (m / n - 1);
    in->choice = sum / (m * m);
    in->weight = 1 + sum / m;
}

/* With a base the file covers a window of time: one dump at its start, one at its end. */
static int add_dumps(struct pprof *in)
{
    int64_t end = (int64_t)in->time_ns;
    struct hw_heap_dump d = {
        .ts_ns = end,
        .start_ts_ns = end,
        .interval_bytes = in->period,
        .orig_interval_bytes = in->period,
        .flags = in->period > 1 ? HW_DUMP_KNOWS_VARIANCE | HW_DUMP_ALL_VARIANCES : 0};
    int64_t orig_interval = number_in(comment(in, "heapwise.interval_was="), INT64_MAX);
    int rc = add_process(in, &d);
    if (rc == HW_OK)
        rc = add_facts(in);
    read_choice(in);
    d.choice = in->choice;
    if (orig_interval > 0)
        d.orig_interval_bytes = (uint64_t)orig_interval;
    if (has_base(in)) {
        uint64_t window = in->duration_ns ? in->duration_ns : 1;
        int64_t begin = window < in->time_ns ? end - (int64_t)window : 0;
        struct hw_heap_dump base = d;
        base.ts_ns = base.start_ts_ns = d.start_ts_ns = begin;
        base.flags |= HW_DUMP_BASE;
        if (rc == HW_OK && hw_vec_push(&in->p->dumps, base) < 0)
            rc = HW_ENOMEM;
    }
    d.lost_samples = (uint64_t)number_in(comment(in, "heapwise.lost_samples="), INT64_MAX);
    in->p->first_ns = d.start_ts_ns;
    in->p->last_ns = d.ts_ns;
    struct hw_clock_moment wall = {d.ts_ns, d.ts_ns};
    if (rc == HW_OK && in->time_ns && hw_vec_push(&in->p->wall, wall) < 0)
        return HW_ENOMEM;
    return rc == HW_OK && hw_vec_push(&in->p->dumps, d) < 0 ? HW_ENOMEM : rc;
}

static int read_profile(struct pprof *in, struct hw_bytes file, struct hw_error *err)
{
    size_t reached = 0;
    int rc = read_tables(in, file, &reached);
    if (rc < 0)
        return hw_fail(err, rc, reached, "damaged pprof profile");
    rc = find_columns(in, err);
    if (rc < 0)
        return rc;
    rc = hw_pprof_frames_read(&in->frames, file);
    if (rc == HW_OK)
        rc = add_dumps(in);
    if (rc == HW_OK)
        rc = add_samples(in, file);
    if (rc == HW_OK)
        rc = add_rows_after_base(in);
    if (rc == HW_OK && in->n_bad)
        rc = hw_profile_stat_add(in->p, "stackprofile_parser_error", -1, HW_STAT_ERROR,
                                 (int64_t)in->n_bad);
    return rc < 0 ? hw_fail(err, rc, 0, "pprof profile:") : HW_OK;
}

static int read_bytes(struct hw_bytes file, struct hw_profile *into, struct hw_error *err)
{
    struct pprof in = {.p = into, .frames = {.p = into}};
    int rc = read_profile(&in, file, err);
    hw_pprof_frames_done(&in.frames);
    hw_vec_done(&in.types);
    hw_vec_done(&in.path);
    hw_vec_done(&in.comments);
    hw_vec_done(&in.rows);
    return rc;
}

/* The first field is a sample type: a message of two small numbers. */
static bool is_sample_type(const struct hw_pb_field *f)
{
    if (f->wire != HW_PB_BYTES || f->bytes.n == 0 || f->bytes.n > 16)
        return false;
    struct hw_pb_reader in = hw_pb_read(f->bytes);
    struct hw_pb_field v;
    int rc;
    while ((rc = hw_pb_next(&in, &v)) == 1)
        if (v.number > HW_F_pprof_ValueType_unit || v.wire != HW_PB_VARINT)
            return false;
    return rc == 0;
}

/* Most writers begin with sample_type; Go's runtime puts period_type and period before it. */
static int probe(struct hw_bytes head)
{
    struct hw_pb_reader r = hw_pb_read(head);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1 && f.number <= HW_F_pprof_Profile_default_sample_type)
        if (f.number == HW_F_pprof_Profile_sample_type)
            return is_sample_type(&f) ? 95 : 0;
    return 0;
}

const struct hw_importer hw_import_pprof = {
    .name = "pprof",
    .summary = "pprof heap profile (profile.proto)",
    .probe = probe,
    .read = read_bytes,
};

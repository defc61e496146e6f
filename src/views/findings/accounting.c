/*
 * Each line is read into a list of readings in order of time, whatever its source; everything else
 * (the moment's figures, the points, the notes) is computed from these lists.
 */
#include "views/findings/accounting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "base/text/text_parts.h"

#include "base/banned.h"

enum { MAX_POINTS = 2000 };

struct reading {
    int64_t ts_ns;
    double bytes;
};

typedef HW_VEC(struct reading) readings;

struct find {
    const struct hw_profile *p;
    const struct hw_process_view *view;
    readings lines[HW_ACCOUNT_LINE_COUNT];
    struct hw_accounting *out;
};

/* A line is the sum of these counters at the same time. */
static const struct {
    const char *name;
    const char *counters[2];
} lines[HW_ACCOUNT_LINE_COUNT] = {
    [HW_ACCOUNT_REQUESTED] = {"requested", {NULL, NULL}},
    [HW_ACCOUNT_IN_USE] = {"in_use", {"malloc_info.in_use", "malloc_info.mmap"}},
    [HW_ACCOUNT_MAPPED] = {"mapped", {"malloc_info.arena", "malloc_info.mmap"}},
    [HW_ACCOUNT_ANONYMOUS] = {"anonymous", {"mem.rss.anon", NULL}},
    [HW_ACCOUNT_RESIDENT] = {"resident", {"mem.rss", NULL}},
    [HW_ACCOUNT_SWAPPED] = {"swapped", {"mem.swap", NULL}},
    [HW_ACCOUNT_RELEASABLE] = {"releasable", {"malloc_info.releasable", NULL}}};

static const char *const kinds[HW_ACCOUNT_KIND_COUNT] = {
    [HW_ACCOUNT_KIND_HEAP] = "heap",     [HW_ACCOUNT_KIND_ANONYMOUS] = "anonymous",
    [HW_ACCOUNT_KIND_STACK] = "stack",   [HW_ACCOUNT_KIND_FILE] = "files",
    [HW_ACCOUNT_KIND_SHARED] = "shared", [HW_ACCOUNT_KIND_PROFILER] = "profiler",
    [HW_ACCOUNT_KIND_OTHER] = "other"};

const char *hw_account_line_name(enum hw_account_line l)
{
    return lines[l].name;
}

const char *hw_account_kind_name(enum hw_account_kind k)
{
    return kinds[k];
}

/* ---- readings ---- */

static int by_time(const void *pa, const void *pb)
{
    const struct reading *a = pa, *b = pb;
    return a->ts_ns < b->ts_ns ? -1 : a->ts_ns > b->ts_ns;
}

static int read_counter(struct find *f, const char *name, readings *out)
{
    const struct hw_strings *strings = hw_callsites_strings(f->p->callsites);
    struct hw_bytes want = hw_bytes_str(name);
    const struct hw_process_rows rows = hw_by_process_of(&f->p->counters_of, f->view->upid);
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_counter_row *c = &f->p->counters.v[rows.v[i]];
        if (!hw_bytes_equal(hw_strings_get(strings, c->name), want))
            continue;
        if (hw_vec_push(out, (struct reading){c->ts_ns, c->value}) < 0)
            return HW_ENOMEM;
    }
    if (out->n)
        qsort(out->v, out->n, sizeof *out->v, by_time);
    return HW_OK;
}

/* A missing second counter counts as 0 (jemalloc reports no mmap'ed blocks). */
static int add_counter(struct find *f, const char *name, readings *to)
{
    readings more = {0};
    int rc = read_counter(f, name, &more);
    for (size_t i = 0, k = 0; rc == HW_OK && i < to->n && k < more.n; i++) {
        while (k < more.n && more.v[k].ts_ns < to->v[i].ts_ns)
            k++;
        if (k < more.n && more.v[k].ts_ns == to->v[i].ts_ns)
            to->v[i].bytes += more.v[k].bytes;
    }
    hw_vec_done(&more);
    return rc;
}

static int read_lines(struct find *f)
{
    int rc = HW_OK;
    for (size_t i = 0; i < f->view->moments.n; i++) {
        const struct hw_process_moment *m = &f->view->moments.v[i];
        struct reading r = {m->ts_ns, (double)m->total.space};
        if (hw_vec_push(&f->lines[HW_ACCOUNT_REQUESTED], r) < 0)
            return HW_ENOMEM;
    }
    for (int l = HW_ACCOUNT_IN_USE; rc == HW_OK && l < HW_ACCOUNT_LINE_COUNT; l++) {
        rc = read_counter(f, lines[l].counters[0], &f->lines[l]);
        if (rc == HW_OK && lines[l].counters[1])
            rc = add_counter(f, lines[l].counters[1], &f->lines[l]);
    }
    return rc;
}

/* The first reading at or after ts; n when there is none. */
static size_t find_at(const readings *r, int64_t ts_ns)
{
    return HW_LOWER_BOUND(mid, 0, r->n, r->v[mid].ts_ns < ts_ns);
}

static double distance(const struct reading *r, int64_t ts_ns)
{
    return fabs((double)r->ts_ns - (double)ts_ns);
}

static struct hw_account_value nearest(const readings *r, int64_t ts_ns)
{
    size_t i = find_at(r, ts_ns);
    if (r->n == 0)
        return (struct hw_account_value){0};
    if (i == r->n || (i > 0 && distance(&r->v[i - 1], ts_ns) < distance(&r->v[i], ts_ns)))
        i--;
    return (struct hw_account_value){true, r->v[i].bytes, r->v[i].ts_ns};
}

/* The value at ts on the line between the readings around it; NAN outside of them. */
static double interpolate(const readings *r, int64_t ts_ns)
{
    size_t i = find_at(r, ts_ns);
    if (i == r->n)
        return NAN;
    const struct reading *b = &r->v[i], *a = i ? b - 1 : b;
    if (b->ts_ns == ts_ns)
        return b->bytes;
    if (i == 0)
        return NAN;
    double share = distance(a, ts_ns) / ((double)b->ts_ns - (double)a->ts_ns);
    return a->bytes + share * (b->bytes - a->bytes);
}

/* ---- the moment ---- */

static void find_current(struct find *f, int64_t ts_ns, const struct hw_value *live)
{
    struct hw_accounting *a = f->out;
    for (int l = 0; l < HW_ACCOUNT_LINE_COUNT; l++)
        a->now[l] = nearest(&f->lines[l], ts_ns);
    /* From the caller: the line has no reading of a recorded maximum. */
    a->now[HW_ACCOUNT_REQUESTED] = (struct hw_account_value){true, (double)live->space, ts_ns};
    a->error = hw_value_error(live, HW_METRIC_SPACE, f->view->interval_bytes);
    const struct hw_account_value *mapped = &a->now[HW_ACCOUNT_MAPPED];
    a->fragmentation = mapped->known && mapped->bytes > 0
                           ? (mapped->bytes - a->now[HW_ACCOUNT_IN_USE].bytes) / mapped->bytes
                           : -1;
}

/* ---- points ---- */

static int by_number(const void *pa, const void *pb)
{
    int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;
    return a < b ? -1 : a > b;
}

static int find_points(struct find *f)
{
    HW_VEC(int64_t) times = {0};
    int rc = HW_OK;
    for (int l = 0; rc == HW_OK && l < HW_ACCOUNT_LINE_COUNT; l++)
        for (size_t i = 0; rc == HW_OK && i < f->lines[l].n; i++)
            rc = hw_vec_push(&times, f->lines[l].v[i].ts_ns);
    if (times.n)
        qsort(times.v, times.n, sizeof *times.v, by_number);
    size_t n = 0;
    for (size_t i = 0; i < times.n; i++)
        if (n == 0 || times.v[i] != times.v[n - 1])
            times.v[n++] = times.v[i];
    for (size_t k = 0, step = n / MAX_POINTS + 1; rc == HW_OK && k < n; k += step) {
        size_t i = k + step < n ? k : n - 1; /* keep the last one */
        struct hw_account_point at = {.ts_ns = times.v[i]};
        for (int l = 0; l < HW_ACCOUNT_LINE_COUNT; l++)
            at.bytes[l] = interpolate(&f->lines[l], times.v[i]);
        rc = hw_vec_push(&f->out->points, at);
    }
    hw_vec_done(&times);
    return rc;
}

/* ---- mappings ---- */

static enum hw_account_kind kind_of(struct hw_bytes path)
{
    static const struct {
        const char *begin;
        enum hw_account_kind kind;
    } kinds_of[] = {{"[heap]", HW_ACCOUNT_KIND_HEAP},
                    {"[malloc ", HW_ACCOUNT_KIND_ANONYMOUS}, /* proc/memory_owner.h */
                    {"[allocator]", HW_ACCOUNT_KIND_ANONYMOUS},
                    {"[jit code]", HW_ACCOUNT_KIND_ANONYMOUS},
                    {"[go heap]", HW_ACCOUNT_KIND_ANONYMOUS},
                    {"[reserved]", HW_ACCOUNT_KIND_ANONYMOUS},
                    {"[heapwise]", HW_ACCOUNT_KIND_PROFILER},
                    {"[other files]", HW_ACCOUNT_KIND_FILE},
                    {"[anon", HW_ACCOUNT_KIND_ANONYMOUS},
                    {"[stack", HW_ACCOUNT_KIND_STACK},
                    {"/memfd:hw-", HW_ACCOUNT_KIND_PROFILER},
                    {"/memfd:heapwise", HW_ACCOUNT_KIND_PROFILER},
                    {"/memfd:", HW_ACCOUNT_KIND_SHARED},
                    {"/dev/shm/", HW_ACCOUNT_KIND_SHARED},
                    {"/SYSV", HW_ACCOUNT_KIND_SHARED},
                    {"/dev/zero", HW_ACCOUNT_KIND_SHARED},
                    {"/", HW_ACCOUNT_KIND_FILE}};
    if (path.n == 0)
        return HW_ACCOUNT_KIND_ANONYMOUS;
    for (size_t i = 0; i < sizeof kinds_of / sizeof *kinds_of; i++)
        if (hw_bytes_start_with(path, kinds_of[i].begin))
            return kinds_of[i].kind;
    return HW_ACCOUNT_KIND_OTHER;
}

static uint64_t bytes_of(uint64_t kb)
{
    return kb == HW_SMAPS_UNKNOWN ? 0 : kb > UINT64_MAX / 1024 ? UINT64_MAX : kb * 1024;
}

/* Mappings recorded one by one have no total, but all its parts. */
static uint64_t resident_of(const struct hw_smaps_row *r)
{
    return r->rss_kb ? bytes_of(r->rss_kb)
                     : bytes_of(r->private_clean_kb) + bytes_of(r->private_dirty_kb) +
                           bytes_of(r->shared_clean_kb) + bytes_of(r->shared_dirty_kb);
}

bool hw_account_kinds_at(const struct hw_profile *p, hw_upid upid, int64_t ts_ns,
                         struct hw_account_mappings out[HW_ACCOUNT_KIND_COUNT], int64_t *at_ns)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    double best = INFINITY;
    for (int k = 0; k < HW_ACCOUNT_KIND_COUNT; k++)
        out[k] = (struct hw_account_mappings){0};
    const struct hw_process_rows rows = hw_by_process_of(&p->smaps_of, upid);
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_smaps_row *r = &p->smaps.v[rows.v[i]];
        struct reading at = {r->ts_ns, 0};
        if (distance(&at, ts_ns) >= best)
            continue;
        best = distance(&at, ts_ns);
        *at_ns = r->ts_ns;
    }
    for (size_t i = 0; best < INFINITY && i < rows.n; i++) {
        const struct hw_smaps_row *r = &p->smaps.v[rows.v[i]];
        if (r->ts_ns != *at_ns)
            continue;
        struct hw_account_mappings *k = &out[kind_of(hw_strings_get(strings, r->path))];
        k->n += r->aggregate_count == HW_SMAPS_UNKNOWN || r->aggregate_count == 0
                    ? 1
                    : r->aggregate_count;
        k->size += bytes_of(r->size_kb);
        k->rss += resident_of(r);
        k->swap += bytes_of(r->swap_kb);
    }
    return best < INFINITY;
}

/* ---- notes ---- */

enum direction { UNKNOWN, FLAT, GROWS, OTHER };

/* Compares the means of the first and the last third of the readings. */
static enum direction direction_of(const readings *r)
{
    enum { MIN_READINGS = 4 };
    size_t n = r->n, third = n / 3;
    double first = 0, last = 0, most = 0;
    if (n < MIN_READINGS)
        return UNKNOWN;
    for (size_t i = 0; i < third; i++) {
        first += r->v[i].bytes / (double)third;
        last += r->v[n - 1 - i].bytes / (double)third;
    }
    for (size_t i = 0; i < n; i++)
        most = fmax(most, r->v[i].bytes);
    double change = most > 0 ? (last - first) / most : 0;
    return fabs(change) < 0.05 ? FLAT : change > 0.1 ? GROWS : OTHER;
}

/* Whether the line's maximum did not grow. For a line that goes up and down, compares the maxima of
 * the first and the last third. */
static bool has_same_maximum(const readings *r)
{
    size_t third = r->n / 3;
    double first = 0, last = 0, most = 0;
    enum direction direction = direction_of(r);
    if (direction == UNKNOWN || direction == FLAT)
        return direction == FLAT;
    for (size_t i = 0; i < third; i++) {
        first = fmax(first, r->v[i].bytes);
        last = fmax(last, r->v[r->n - 1 - i].bytes);
    }
    for (size_t i = 0; i < r->n; i++)
        most = fmax(most, r->v[i].bytes);
    return last - first < 0.05 * most;
}

static void find_notes(struct find *f)
{
    struct hw_accounting *a = f->out;
    const struct hw_account_value *mapped = &a->now[HW_ACCOUNT_MAPPED];
    const struct hw_account_value *rss = &a->now[HW_ACCOUNT_RESIDENT];
    if (has_same_maximum(&f->lines[HW_ACCOUNT_REQUESTED]) &&
        direction_of(&f->lines[HW_ACCOUNT_MAPPED]) == GROWS)
        a->notes |= HW_ACCOUNT_NOT_RETURNED;
    if (has_same_maximum(&f->lines[HW_ACCOUNT_IN_USE]) &&
        direction_of(&f->lines[HW_ACCOUNT_RESIDENT]) == GROWS)
        a->notes |= HW_ACCOUNT_OUTSIDE;
    if (mapped->known && rss->known && rss->bytes < mapped->bytes)
        a->notes |= HW_ACCOUNT_UNTOUCHED;
}

/* ---- steps ---- */

size_t hw_accounting_steps(const struct hw_accounting *a,
                           struct hw_account_step out[HW_ACCOUNT_MAX_STEPS])
{
    static const char *const up_to[] = {[HW_ACCOUNT_IN_USE] = "overhead",
                                        [HW_ACCOUNT_MAPPED] = "caches",
                                        [HW_ACCOUNT_ANONYMOUS] = "untouched",
                                        [HW_ACCOUNT_RESIDENT] = "rest"};
    size_t n = 0;
    int before = -1;
    for (int l = HW_ACCOUNT_REQUESTED; l <= HW_ACCOUNT_RESIDENT; l++) {
        const struct hw_account_value *v = &a->now[l];
        if (!v->known)
            continue;
        if (before >= 0)
            out[n++] = (struct hw_account_step){.name = before == l - 1 ? up_to[l] : "gap",
                                                .begin = a->now[before].bytes,
                                                .end = v->bytes,
                                                .at_ns = v->at_ns};
        out[n++] = (struct hw_account_step){
            .name = lines[l].name, .is_total = true, .end = v->bytes, .at_ns = v->at_ns};
        before = l;
    }
    return n;
}

int hw_accounting_find(const struct hw_profile *p, const struct hw_process_view *v, int64_t ts_ns,
                       const struct hw_value *live, struct hw_accounting *out)
{
    struct find f = {.p = p, .view = v, .out = out};
    *out = (struct hw_accounting){.fragmentation = -1};
    int rc = read_lines(&f);
    if (rc == HW_OK) {
        find_current(&f, ts_ns, live);
        rc = find_points(&f);
    }
    if (rc == HW_OK) {
        out->has_kinds = hw_account_kinds_at(p, v->upid, ts_ns, out->kinds, &out->kinds_ns);
        find_notes(&f);
    }
    for (int l = 0; l < HW_ACCOUNT_LINE_COUNT; l++)
        hw_vec_done(&f.lines[l]);
    if (rc < 0)
        hw_accounting_done(out);
    return rc;
}

void hw_accounting_done(struct hw_accounting *a)
{
    hw_vec_done(&a->points);
    *a = (struct hw_accounting){.fragmentation = -1};
}

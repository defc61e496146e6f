#include "daemon/dump/go_alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/saturate.h"
#include "daemon/books/callsite_totals.h"
#include "daemon/core.h"
#include "trace/profile_writer.h"

#include "base/banned.h"

/* What the samples of each stack stand for. */
struct sums {
    HW_VEC(struct hw_dump_sample) v;
    struct hw_map64 rows; /* by callsite */
};

#define MOST_BYTES (UINT64_C(64) << 20) /* of stacks and names, of all readings together */

struct hw_go_alloc {
    struct hw_callsites *cs;
    struct sums last;          /* in the trace */
    uint64_t key;              /* of them in the trace */
    uint64_t read_ns, last_ns; /* of the reading in the trace (boot time), and of its dump */
    uint64_t n_samples;        /* so far */
    uint32_t said;             /* bits of enum hw_go_profile_state */
    bool is_full;              /* cs is not there any more, nothing is written */
};

static void sums_done(struct sums *s)
{
    hw_vec_done(&s->v);
    hw_map64_done(&s->rows);
}

static int new_one(struct hw_session *s, struct hw_go_alloc **out)
{
    struct hw_go_alloc *g = calloc(1, sizeof *g);
    int rc = g ? hw_callsites_new(&g->cs) : HW_ENOMEM;
    if (rc == HW_OK && !s->go_writer)
        rc = hw_profile_writer_new(s->writer, &s->go_writer);
    if (rc < 0) {
        hw_go_alloc_free(s, g);
        return rc;
    }
    g->key = ++s->n_go;
    *out = g;
    return HW_OK;
}

void hw_go_alloc_free(struct hw_session *s, struct hw_go_alloc *g)
{
    if (!g)
        return;
    if (s->go_writer)
        hw_profile_forget(s->go_writer, g->key);
    hw_callsites_free(g->cs);
    sums_done(&g->last);
    free(g);
}

bool hw_go_alloc_is_known(const struct hw_go_alloc *g)
{
    return g && g->last_ns != 0;
}

/* ---- stacks ---- */

static bool fits(const struct hw_go_alloc *g)
{
    return hw_callsites_bytes(g->cs) <= MOST_BYTES;
}

static int copy_text(struct hw_go_alloc *g, const struct hw_strings *from, hw_str_id id,
                     hw_str_id *out)
{
    return hw_strings_intern(hw_callsites_strings(g->cs), hw_strings_get(from, id), out);
}

static int mapping_of(struct hw_go_alloc *g, const char *path, hw_mapping_id *out)
{
    struct hw_mapping row = {0};
    int rc =
        hw_strings_intern(hw_callsites_strings(g->cs), hw_bytes_str(path ? path : ""), &row.path);
    return rc < 0 ? rc : hw_callsites_mapping(g->cs, &row, out);
}

/* ids: of the reading's frames. */
static int add_frames(struct hw_go_alloc *g, const struct hw_reading_go *from, hw_frame_id *ids)
{
    hw_mapping_id mapping;
    int rc = mapping_of(g, from->path, &mapping);
    for (size_t i = 0; rc == HW_OK && i < from->frames.n; i++) {
        const struct hw_reading_go_frame *f = &from->frames.v[i];
        struct hw_frame row = {.mapping = mapping, .line = f->line};
        rc = copy_text(g, from->strings, f->function, &row.name);
        if (rc == HW_OK)
            rc = copy_text(g, from->strings, f->file, &row.file);
        if (rc == HW_OK)
            rc = fits(g) ? hw_callsites_frame(g->cs, &row, &ids[i]) : HW_ELIMIT;
    }
    return rc;
}

/* The innermost come first there. Deeper ones are cut at the outermost. */
static int callsite_of(struct hw_go_alloc *g, const struct hw_reading_go *from,
                       const struct hw_reading_go_site *site, const hw_frame_id *ids,
                       hw_callsite_id *out)
{
    uint32_t n = site->n < HW_MAX_CALLSITE_DEPTH ? site->n : HW_MAX_CALLSITE_DEPTH;
    *out = (hw_callsite_id){HW_ID_NONE};
    for (uint32_t i = n; i > 0; i--) {
        int rc = hw_callsites_child(g->cs, *out, ids[from->stack.v[site->first + i - 1]], out);
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

/* ---- figures ---- */

/* As Go's own tools multiply and round, so that they show the same. Each allocation was sampled with the
 * probability 1 / scale. */
static void add_site(const struct hw_reading_go_site *site, uint64_t rate, struct hw_dump_sample *s)
{
    double size = (double)site->size;
    double scale = rate <= 1 ? 1 : 1 / (1 - exp(-size / (double)rate));
    double all = (double)site->allocated, live = (double)(site->allocated - site->freed);
    uint64_t allocated = hw_sat_uint(all * size * scale), in_use = hw_sat_uint(live * size * scale);
    double missing = scale * (scale - 1);
    s->self_allocated += allocated;
    s->self_freed += allocated - in_use;
    s->alloc_count += site->allocated;
    s->free_count += site->freed;
    s->est_alloc_count += floor(all * scale);
    s->est_free_count += floor(all * scale) - floor(live * scale);
    s->variance_bytes += live * missing * size * size;
    s->variance_objects += live * missing;
    s->variance_alloc_space += all * missing * size * size;
    s->variance_alloc_objects += all * missing;
}

static int sum_up(struct hw_go_alloc *g, const struct hw_reading_go *from, const hw_frame_id *ids,
                  struct sums *out)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < from->sites.n; i++) {
        const struct hw_reading_go_site *site = &from->sites.v[i];
        hw_callsite_id c;
        uint64_t *row;
        bool fresh;
        if (site->n == 0 || site->allocated == 0)
            continue;
        rc = fits(g) ? callsite_of(g, from, site, ids, &c) : HW_ELIMIT;
        if (rc == HW_OK)
            rc = hw_map64_at(&out->rows, c.v, &row, &fresh);
        if (rc == HW_OK && fresh) {
            *row = out->v.n;
            rc = hw_vec_push(&out->v, ((struct hw_dump_sample){.callsite = c})) < 0 ? HW_ENOMEM
                                                                                    : HW_OK;
        }
        if (rc == HW_OK)
            add_site(site, from->rate, &out->v.v[*row]);
    }
    return rc;
}

/* Counts never go down in a program, but what is known at the first collection is of before it, and what was read
 * before it is of that moment. */
static bool is_older(const struct sums *now, const struct sums *last)
{
    for (size_t i = 0; i < last->v.n; i++) {
        const struct hw_dump_sample *before = &last->v.v[i];
        uint64_t row;
        if (!hw_map64_get(&now->rows, before->callsite.v, &row) ||
            now->v.v[row].alloc_count < before->alloc_count ||
            now->v.v[row].free_count < before->free_count)
            return true;
    }
    return false;
}

static uint64_t above(uint64_t before, uint64_t now)
{
    return before > now ? before - now : 0;
}

/* Estimates may, by their rounding, or when the program changes its rate: as much more was allocated as freed then,
 * and what is live stays what Go's tools show. */
static void never_less(struct hw_dump_sample *s, const struct hw_dump_sample *before)
{
    uint64_t allocated = above(before->self_allocated, s->self_allocated),
             freed = above(before->self_freed, s->self_freed);
    uint64_t bytes = allocated > freed ? allocated : freed;
    double n = fmax(fmax(before->est_alloc_count - s->est_alloc_count,
                         before->est_free_count - s->est_free_count),
                    0);
    s->self_allocated += bytes;
    s->self_freed += bytes;
    s->est_alloc_count += n;
    s->est_free_count += n;
}

static void follow(struct sums *now, const struct sums *last)
{
    for (size_t i = 0; i < last->v.n; i++) {
        const struct hw_dump_sample *before = &last->v.v[i];
        uint64_t row;
        if (hw_map64_get(&now->rows, before->callsite.v, &row))
            never_less(&now->v.v[row], before);
    }
}

/* ---- the dump ---- */

static uint64_t coarse_of(uint64_t boottime_ns)
{
    uint64_t age = hw_now_boottime_ns() - boottime_ns, now = hw_clock_ns(CLOCK_MONOTONIC_COARSE);
    return age < now ? now - age : 1;
}

static uint64_t samples_of(const struct sums *all)
{
    uint64_t n = 0;
    for (size_t i = 0; i < all->v.n; i++)
        n += all->v.v[i].alloc_count;
    return n;
}

static int write_sums(struct hw_session *s, struct hw_go_alloc *g, int32_t pid,
                      const struct hw_reading_memory *m, const struct sums *all,
                      struct hw_error *err)
{
    uint64_t ts = coarse_of(m->heaps_ns);
    struct hw_dump_head head = {.pid = (uint64_t)pid,
                                .heap_name = HW_GO_HEAP,
                                .timestamp_ns = ts > g->last_ns ? ts : g->last_ns + 1,
                                .start_timestamp_ns = g->last_ns ? g->last_ns : ts,
                                .interval_bytes = m->go_alloc->rate,
                                .orig_interval_bytes = m->go_alloc->rate,
                                .from_startup = true,
                                .all_variances = true,
                                .heap_samples = samples_of(all)};
    int rc = hw_profile_begin(s->go_writer, &head, g->cs, g->key, err);
    for (size_t i = 0; rc == HW_OK && i < all->v.n; i++)
        rc = hw_profile_sample(s->go_writer, &all->v.v[i], err);
    if (rc == HW_OK)
        rc = hw_profile_end(s->go_writer, err);
    g->last_ns = head.timestamp_ns;
    g->read_ns = m->heaps_ns;
    return rc;
}

static void count(struct hw_session *s, struct hw_go_alloc *g, uint64_t n_samples)
{
    s->n_samples += n_samples > g->n_samples ? n_samples - g->n_samples : 0;
    g->n_samples = n_samples > g->n_samples ? n_samples : g->n_samples;
}

/* A program has its stacks for good. One that shows others each time pretends. */
static void give_up(struct hw_session *s, struct hw_go_alloc *g, int32_t pid, size_t n_sites)
{
    hw_session_warn(
        s,
        "pid %d: a Go program: what its Go code allocates is not known%s: its stacks and "
        "their names take more than %llu MiB; %zu stacks of this reading are left out",
        pid, g->last_ns ? " any more" : "", (unsigned long long)(MOST_BYTES >> 20), n_sites);
    hw_profile_forget(s->go_writer, g->key);
    hw_callsites_free(g->cs);
    sums_done(&g->last);
    g->cs = NULL;
    g->last = (struct sums){0};
    g->is_full = true;
}

static int write_known(struct hw_session *s, struct hw_go_alloc *g, int32_t pid,
                       const struct hw_reading_memory *m, struct hw_error *err)
{
    const struct hw_reading_go *from = m->go_alloc;
    hw_autofree hw_frame_id *ids = calloc(from->frames.n + 1, sizeof *ids);
    struct sums all = {0};
    int rc = ids ? add_frames(g, from, ids) : HW_ENOMEM;
    if (rc == HW_OK)
        rc = sum_up(g, from, ids, &all);
    if (rc == HW_ELIMIT) {
        give_up(s, g, pid, from->sites.n);
        rc = HW_OK;
    } else if (rc < 0) {
        rc = hw_fail(err, rc, 0, "Go's allocations of pid %d", pid);
    } else if (!is_older(&all, &g->last)) {
        follow(&all, &g->last);
        rc = write_sums(s, g, pid, m, &all, err);
        count(s, g, samples_of(&all));
        struct sums before = g->last;
        g->last = all;
        all = before;
    }
    sums_done(&all);
    return rc;
}

/* ---- what it says ---- */

static void say(struct hw_session *s, struct hw_go_alloc *g, int32_t pid,
                const struct hw_reading_go *from)
{
    static const char *const why[] = {
        [HW_GO_PROFILE_OFF] =
            "it takes no samples (runtime.MemProfileRate is 0, or nothing in it uses "
            "runtime.MemProfile)",
        [HW_GO_PROFILE_CHANGED] = "its profile changed while it was read",
        [HW_GO_PROFILE_LIMIT] = "its profile is too large to be read in a tenth of a second",
    };
    uint32_t bit = 1u << from->state;
    if (g->said & bit)
        return;
    g->said |= bit;
    if (from->state == HW_GO_PROFILE_KNOWN)
        hw_session_warn(s,
                        "pid %d: a Go program: heap " HW_GO_HEAP
                        " is what its Go code allocates, by Go's own "
                        "samples (one in %llu bytes), as of its last garbage collections; "
                        "libc.malloc is its C code's",
                        pid, (unsigned long long)from->rate);
    else
        hw_session_warn(s, "pid %d: a Go program: what its Go code allocates is not known%s: %s",
                        pid, g->last_ns ? " any more" : "",
                        from->state == HW_GO_PROFILE_UNKNOWN ? from->why : why[from->state]);
}

int hw_go_alloc_write(struct hw_session *s, struct hw_go_alloc **of, int32_t pid,
                      const struct hw_reading_memory *m, struct hw_error *err)
{
    int rc = HW_OK;
    if (!m->go_alloc)
        return HW_OK;
    if (!*of)
        rc = new_one(s, of);
    if (rc < 0)
        return hw_fail(err, rc, 0, "Go's allocations of pid %d", pid);
    if ((*of)->is_full || m->heaps_ns <= (*of)->read_ns) /* it, or a later one, is in the trace */
        return HW_OK;
    say(s, *of, pid, m->go_alloc);
    return m->go_alloc->state == HW_GO_PROFILE_KNOWN ? write_known(s, *of, pid, m, err) : HW_OK;
}

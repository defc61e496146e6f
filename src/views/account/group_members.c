#include "views/account/group_members.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/memory/map64.h"

#include "base/banned.h"

static const char *const words[] = {
#define X(ID, counter, word) word,
    HW_GROUP_KINDS(X)
#undef X
};

static const char *const counters[] = {
#define X(ID, counter, word) counter,
    HW_GROUP_KINDS(X)
#undef X
};

const char *hw_group_kind_name(enum hw_group_kind k)
{
    return words[k];
}

/* ---- the group's own figures ---- */

static double counter_at(const struct hw_profile *p, hw_upid upid, const char *name, int64_t ts_ns)
{
    double v;
    int64_t at;
    return hw_process_counter(p, upid, name, ts_ns, &v, &at) && at == ts_ns && v >= 0 ? v : -1;
}

static double distance(int64_t a, int64_t b)
{
    return fabs((double)a - (double)b);
}

/* The requested reading; NULL = no reading has these figures. */
static const struct hw_counter_row *find_reading(const struct hw_profile *p, const int64_t *ts_ns)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    struct hw_bytes want = hw_bytes_str(ts_ns ? "cgroup.anon" : "cgroup.current");
    const struct hw_counter_row *best = NULL;
    for (size_t i = 0; i < p->counters.n; i++) {
        const struct hw_counter_row *c = &p->counters.v[i];
        if (!hw_bytes_equal(hw_strings_get(strings, c->name), want) || c->value < 0)
            continue;
        bool better = !best || (ts_ns ? distance(c->ts_ns, *ts_ns) < distance(best->ts_ns, *ts_ns)
                                      : c->value > best->value);
        best = better ? c : best;
    }
    return best;
}

/* memory.stat's `file` includes shared memory. */
static double without_shmem(double file, double shmem)
{
    return file < 0 ? file : fmax(0, file - fmax(0, shmem));
}

/* ---- its processes ---- */

struct find {
    const struct hw_profile *p;
    const struct hw_series_list *list;
    struct hw_group_members *out;
    double id;
};

static double bytes_of(uint64_t kb)
{
    return kb == HW_SMAPS_UNKNOWN ? 0 : 1024.0 * (double)kb;
}

/* The anonymous part of a mapping's pss. A written page of a private file is this process's alone
 * and counts in full. Shared pages of both kinds are divided in proportion (shared anonymous pages
 * exist after a fork). */
static double anonymous_of(const struct hw_smaps_row *r)
{
    double rss = bytes_of(r->rss_kb), pss = bytes_of(r->pss_kb);
    double anon = fmin(bytes_of(r->anonymous_kb), rss), written = bytes_of(r->private_dirty_kb);
    double own = fmin(fmin(written + bytes_of(r->private_clean_kb), rss), pss);
    double own_anon = fmin(anon, fmin(written, own));
    double shared = rss - own;
    return own_anon + (shared > 0 ? (pss - own) * fmin(1, (anon - own_anon) / shared) : 0);
}

static void add_mappings(const struct find *f, struct hw_group_member *m)
{
    const struct hw_strings *strings = hw_callsites_strings(f->p->callsites);
    const struct hw_process_rows rows = hw_by_process_of(&f->p->smaps_of, m->upid);
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_smaps_row *r = &f->p->smaps.v[rows.v[i]];
        if (r->ts_ns != m->ts_ns || r->pss_kb == HW_SMAPS_UNKNOWN)
            continue;
        double pss = bytes_of(r->pss_kb), anon = anonymous_of(r);
        struct hw_bytes path = hw_strings_get(strings, r->path);
        bool is_file = path.n && path.p[0] == '/';
        m->kinds[HW_GROUP_ANON] += anon;
        m->kinds[hw_memory_is_shared(path) || !is_file ? HW_GROUP_SHMEM : HW_GROUP_FILE] +=
            pss - anon;
    }
}

static int add_parts(const struct find *f, const struct hw_process_view *view,
                     struct hw_group_member *m)
{
    hw_values values = {0};
    struct hw_memory_parts parts;
    int rc =
        hw_process_values(f->p, f->list, m->upid, f->out->ts_ns, /* at_max = */ false, &values);
    if (rc == HW_OK)
        rc = hw_memory_parts_find(f->p, view, f->out->ts_ns, &values, &parts);
    hw_vec_done(&values);
    if (rc < 0)
        return rc;
    m->ts_ns = parts.ts_ns;
    m->rss = parts.total.rss;
    m->pss = parts.total.pss;
    m->kinds[HW_GROUP_KERNEL] = fmax(0, parts.page_tables);
    for (int k = 0; k < HW_PART_COUNT; k++)
        f->out->parts[k] += parts.parts[k].pss;
    hw_memory_parts_done(&parts);
    return HW_OK;
}

/* Whether the process existed at ts_ns: its last dump is made when it ends. */
static bool was_alive(const struct hw_process_view *view, int64_t first_ns, int64_t last_ns,
                      int64_t ts_ns)
{
    for (size_t i = 0; i < view->moments.n; i++)
        last_ns = view->moments.v[i].ts_ns > last_ns ? view->moments.v[i].ts_ns : last_ns;
    bool has_begun = first_ns <= ts_ns || (view->dumps.n > 0 && view->start_ns <= ts_ns);
    return has_begun && (!view->ended || ts_ns <= last_ns);
}

static int add_process(struct find *f, hw_upid upid, int64_t first_ns, int64_t last_ns)
{
    struct hw_group_member m = {.upid = upid};
    struct hw_process_view view;
    double id = -1;
    int64_t at;
    (void)hw_process_counter(f->p, upid, "cgroup.id", f->out->ts_ns, &id, &at);
    if (id != f->id) {
        f->out->n_elsewhere++;
        return HW_OK;
    }
    int rc = hw_process_view_init(&view, f->p, f->list, upid);
    if (rc < 0)
        return rc;
    if (!was_alive(&view, first_ns, last_ns, f->out->ts_ns)) {
        f->out->n_ended++;
        hw_process_view_done(&view);
        return HW_OK;
    }
    rc = add_parts(f, &view, &m);
    hw_process_view_done(&view);
    if (rc < 0)
        return rc == HW_ENOTFOUND ? HW_OK : rc;
    add_mappings(f, &m);
    for (int k = 0; k < HW_GROUP_KIND_COUNT; k++)
        f->out->of_members[k] += m.kinds[k];
    return hw_vec_push(&f->out->members, m) < 0 ? HW_ENOMEM : HW_OK;
}

static int by_pss(const void *pa, const void *pb)
{
    const struct hw_group_member *a = pa, *b = pb;
    return a->pss > b->pss ? -1 : a->pss < b->pss ? 1 : a->upid.v < b->upid.v ? -1 : 1;
}

struct span {
    hw_upid upid;
    int64_t first_ns, last_ns;
};
typedef HW_VEC(struct span) span_list;

static int find_spans(const struct hw_profile *p, span_list *out)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    struct hw_bytes want = hw_bytes_str("account.rss");
    struct hw_map64 known = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < p->counters.n; i++) {
        const struct hw_counter_row *c = &p->counters.v[i];
        uint64_t at;
        if (!hw_bytes_equal(hw_strings_get(strings, c->name), want))
            continue;
        if (hw_map64_get(&known, c->upid.v, &at)) {
            struct span *s = &out->v[at];
            s->first_ns = c->ts_ns < s->first_ns ? c->ts_ns : s->first_ns;
            s->last_ns = c->ts_ns > s->last_ns ? c->ts_ns : s->last_ns;
        } else if (hw_vec_push(out, ((struct span){c->upid, c->ts_ns, c->ts_ns})) < 0 ||
                   hw_map64_put(&known, c->upid.v, out->n - 1) < 0) {
            rc = HW_ENOMEM;
        }
    }
    hw_map64_done(&known);
    return rc;
}

int hw_group_members_find(const struct hw_profile *p, const struct hw_series_list *list,
                          const int64_t *ts_ns, struct hw_group_members *out)
{
    struct find f = {.p = p, .list = list, .out = out, .id = -1};
    span_list spans = {0};
    *out = (struct hw_group_members){0};
    const struct hw_counter_row *c = find_reading(p, ts_ns);
    if (!c)
        return HW_ENOTFOUND;
    out->ts_ns = c->ts_ns;
    out->current = counter_at(p, c->upid, "cgroup.current", c->ts_ns);
    out->limit = counter_at(p, c->upid, "cgroup.limit", c->ts_ns);
    f.id = counter_at(p, c->upid, "cgroup.id", c->ts_ns);
    for (int k = 0; k < HW_GROUP_KIND_COUNT; k++)
        out->kinds[k] = counter_at(p, c->upid, counters[k], c->ts_ns);
    out->kinds[HW_GROUP_FILE] =
        without_shmem(out->kinds[HW_GROUP_FILE], out->kinds[HW_GROUP_SHMEM]);
    int rc = find_spans(p, &spans);
    for (size_t i = 0; rc == HW_OK && i < spans.n; i++)
        rc = add_process(&f, spans.v[i].upid, spans.v[i].first_ns, spans.v[i].last_ns);
    hw_vec_done(&spans);
    if (rc < 0)
        hw_group_members_done(out);
    else if (out->members.n)
        qsort(out->members.v, out->members.n, sizeof *out->members.v, by_pss);
    return rc;
}

void hw_group_members_done(struct hw_group_members *g)
{
    hw_vec_done(&g->members);
}

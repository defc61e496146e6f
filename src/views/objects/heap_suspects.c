/*
 * Positions whose subtree of the dominator tree is large (HW_SUSPECT_PERCENT of the heap) form a
 * tree of their own. Each belongs to one heavy path, which begins where a large position is not the
 * heaviest child of its dominator, or where the path above ended:
 *
 *     begin ── ... ── point ── heaviest child, below HW_SUSPECT_NEARLY_ALL percent of begin
 *
 * A path gives one candidate; a part of the heap belongs to one path only, so few paths fit. From
 * the last to the first, a candidate is kept if enough is left of it without those kept below.
 *
 * A singly linked list is a path on which each node retains a little less. It would end at a node
 * somewhere in the list; so if the class at a path's end is there HW_SUSPECT_LIST times, or goes on
 * below for as long, the point is the object above the first of them, and the nodes count as if they
 * were its children.
 *
 * What is large is decided in units: bytes, or more bytes at once if the sum of all would not fit.
 * Sums that saturate would make everything large.
 */
#include "views/objects/heap_suspects.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/memory/saturate.h"

#include "base/banned.h"

struct candidate {
    uint32_t begin, point; /* positions */
    uint32_t list_class;   /* of the list below the point; HW_ID_NONE = there is none */
    int64_t elsewhere;     /* units */
};

struct finder {
    const struct hw_heap_graph *g;
    const struct hw_dominators *d;
    const struct hw_heap_paths *paths;
    struct hw_suspects *out;
    int64_t *scaled;    /* by position: what it retains; NULL = all bytes together fit */
    int shift;          /* of scaled; 0 = bytes */
    int64_t all, large; /* units */
    uint32_t *heaviest; /* by position: child; HW_ID_NONE */
    uint32_t *label;    /* by position: the nearest candidate that begins at or above it */
    uint8_t *flag;      /* by position */
    HW_VEC(struct candidate) candidates;
};

static int64_t in_bytes(const struct finder *f, uint32_t at)
{
    const struct hw_dominators *d = f->d;
    return d->native ? hw_sat_add(d->size[at], d->native[at]) : d->size[at];
}

/* In units of 1 << shift bytes. */
static int64_t retained(const struct finder *f, uint32_t at)
{
    return f->scaled ? f->scaled[at] : in_bytes(f, at);
}

static int64_t to_bytes(const struct finder *f, int64_t units)
{
    return units > INT64_MAX >> f->shift ? INT64_MAX : units << f->shift;
}

static double share_of(const struct finder *f, int64_t units)
{
    return f->all ? (double)units / (double)f->all : 0;
}

static bool has_bytes(const struct hw_heap_graph *g, uint32_t o)
{
    return hw_object_weight(g, o) || hw_object_native_size(g, o);
}

static __int128 own_bytes(const struct finder *f, uint32_t at)
{
    uint32_t o = f->d->object[at];
    return (__int128)hw_object_weight(f->g, o) + hw_object_native_size(f->g, o);
}

static uint32_t class_at(const struct finder *f, uint32_t at)
{
    return f->g->type[f->d->object[at]];
}

/* percent of whole, rounded up, without overflow. */
static int64_t percent_of(int64_t whole, int percent)
{
    return whole / 100 * percent + (whole % 100 * percent + 99) / 100;
}

/* By position: its heaviest child, the first of equal ones. */
static void find_heaviest(const uint32_t *parent, const struct finder *f)
{
    for (size_t i = 0; i < f->d->n; i++)
        f->heaviest[i] = HW_ID_NONE;
    for (uint32_t i = 0; i < f->d->n; i++) {
        uint32_t *best = parent[i] == HW_ID_NONE ? NULL : &f->heaviest[parent[i]];
        if (best && (*best == HW_ID_NONE || retained(f, i) > retained(f, *best)))
            *best = i;
    }
}

/* Marks what only the roots dominate, and what objects without bytes there do: the tops. */
static void mark_tops(const struct finder *f)
{
    for (size_t i = 0; i < f->d->n; i++) {
        uint32_t up = f->d->idom[i];
        f->flag[i] = up == HW_ID_NONE || (f->flag[up] && !has_bytes(f->g, f->d->object[up]));
    }
}

/* ---- objects ---- */

/* Objects of the class on the heavy path below, while each retains nearly all of the one above. */
static size_t count_below(const struct finder *f, uint32_t at, uint32_t class)
{
    size_t count = 0;
    for (int steps = 4 * HW_SUSPECT_LIST; steps > 0; steps--) {
        uint32_t below = f->heaviest[at];
        if (below == HW_ID_NONE ||
            retained(f, below) < percent_of(retained(f, at), HW_SUSPECT_NEARLY_ALL))
            break;
        at = below;
        count += class_at(f, at) == class;
    }
    return count;
}

/* The object above a list of nodes of the class at the path's end; HW_ID_NONE = no list. */
static uint32_t above_list(const struct finder *f, const uint32_t *path, size_t n)
{
    uint32_t class = class_at(f, path[n - 1]);
    size_t first = n, count = count_below(f, path[n - 1], class);
    for (size_t i = n; i-- > 0;)
        if (class_at(f, path[i]) == class) {
            first = i;
            count++;
        }
    return count < HW_SUSPECT_LIST ? HW_ID_NONE : path[first ? first - 1 : 0];
}

/* One path from its begin to its point. */
static int follow(struct finder *f, uint32_t begin, struct candidate *out)
{
    HW_VEC(uint32_t) path = {0};
    int64_t enough = percent_of(retained(f, begin), HW_SUSPECT_NEARLY_ALL);
    uint32_t at = begin;
    int rc = hw_vec_push(&path, at) < 0 ? HW_ENOMEM : HW_OK;
    while (rc == HW_OK && f->heaviest[at] != HW_ID_NONE && retained(f, f->heaviest[at]) >= enough) {
        at = f->heaviest[at];
        rc = hw_vec_push(&path, at) < 0 ? HW_ENOMEM : HW_OK;
    }
    if (rc == HW_OK) {
        uint32_t above = above_list(f, path.v, path.n);
        bool is_list = above != HW_ID_NONE;
        *out = (struct candidate){.begin = begin,
                                  .point = is_list ? above : at,
                                  .list_class = is_list ? class_at(f, at) : HW_ID_NONE};
    }
    hw_vec_done(&path);
    return rc;
}

/* A path, and those that begin where it ended. */
static int add_candidates(struct finder *f, uint32_t begin)
{
    for (;;) {
        struct candidate c;
        int rc = follow(f, begin, &c);
        if (rc < 0)
            return rc;
        if (hw_vec_push(&f->candidates, c) < 0)
            return HW_ENOMEM;
        begin = f->heaviest[c.point];
        if (c.list_class != HW_ID_NONE || begin == HW_ID_NONE || retained(f, begin) < f->large)
            return HW_OK;
    }
}

/* flag holds the tops: an object without bytes there is no begin, but each of its children is. */
static int find_candidates(struct finder *f)
{
    int rc = HW_OK;
    for (uint32_t i = 0; rc == HW_OK && i < f->d->n; i++) {
        uint32_t up = f->d->idom[i];
        bool begins = f->flag[i] || f->heaviest[up] != i;
        if (begins && retained(f, i) >= f->large &&
            !(f->flag[i] && !has_bytes(f->g, f->d->object[i])))
            rc = add_candidates(f, i);
    }
    return rc;
}

static int by_begin(const void *pa, const void *pb)
{
    const struct candidate *a = pa, *b = pb;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/* label: the number of the candidate whose begin is nearest above. */
static void label_positions(const struct finder *f)
{
    for (size_t i = 0; i < f->d->n; i++)
        f->label[i] = HW_ID_NONE;
    for (uint32_t c = 0; c < f->candidates.n; c++)
        f->label[f->candidates.v[c].begin] = c;
    for (size_t i = 0; i < f->d->n; i++)
        if (f->label[i] == HW_ID_NONE && f->d->idom[i] != HW_ID_NONE)
            f->label[i] = f->label[f->d->idom[i]];
}

/* ---- what accumulates ---- */

static int add_class(struct finder *f, struct hw_map64 *rows, size_t first, uint32_t class,
                     int64_t bytes)
{
    uint64_t *row;
    bool fresh;
    int rc = hw_map64_at(rows, hw_class_shown_name(&f->g->classes[class]).v, &row, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *row = f->out->classes.n - first;
        if (hw_vec_push(&f->out->classes, (struct hw_suspect_class){.class = class}) < 0)
            return HW_ENOMEM;
    }
    struct hw_suspect_class *c = &f->out->classes.v[first + *row];
    c->count++;
    c->retained = hw_sat_add(c->retained, bytes);
    return HW_OK;
}

static int by_retained(const void *pa, const void *pb)
{
    const struct hw_suspect_class *a = pa, *b = pb;
    if (a->retained != b->retained)
        return a->retained > b->retained ? -1 : 1;
    return (a->class > b->class) - (a->class < b->class);
}

static int list_classes(struct finder *f, const struct candidate *c, struct hw_suspect *s)
{
    struct hw_map64 rows = {0};
    int rc = HW_OK;
    s->first_class = f->out->classes.n;
    memset(f->flag, 0, f->d->n);
    for (uint32_t i = c->point + 1; rc == HW_OK && i < f->d->n; i++) {
        uint32_t up = f->d->idom[i];
        bool is_child = up == c->point;
        bool is_node = up != HW_ID_NONE && f->flag[up] && class_at(f, up) == c->list_class &&
                       class_at(f, i) == c->list_class;
        if (!is_child && !is_node)
            continue;
        f->flag[i] = 1;
        rc = add_class(f, &rows, s->first_class, class_at(f, i), is_child ? in_bytes(f, i) : 0);
    }
    hw_map64_done(&rows);
    s->n_classes = f->out->classes.n - s->first_class;
    if (s->n_classes)
        qsort(f->out->classes.v + s->first_class, s->n_classes, sizeof *f->out->classes.v,
              by_retained);
    return rc;
}

static int keep(struct finder *f, const struct candidate *c)
{
    uint32_t object = f->d->object[c->begin], point = f->d->object[c->point];
    struct hw_suspect s = {.object = object,
                           .class = f->g->type[object],
                           .count = f->d->count[c->begin],
                           .retained = in_bytes(f, c->begin),
                           .elsewhere = to_bytes(f, c->elsewhere),
                           .share = share_of(f, retained(f, c->begin)),
                           .point = point,
                           .point_retained = in_bytes(f, c->point),
                           .nearest = point};
    int rc = list_classes(f, c, &s);
    return rc == HW_OK && hw_vec_push(&f->out->v, s) < 0 ? HW_ENOMEM : rc;
}

static int find_objects(struct finder *f)
{
    find_heaviest(f->d->idom, f);
    int rc = find_candidates(f);
    if (rc < 0 || !f->candidates.n)
        return rc;
    qsort(f->candidates.v, f->candidates.n, sizeof *f->candidates.v, by_begin);
    label_positions(f);
    for (size_t i = f->candidates.n; rc == HW_OK && i-- > 0;) {
        struct candidate *c = &f->candidates.v[i];
        int64_t all = retained(f, c->begin);
        bool is_kept = all - c->elsewhere >= f->large;
        uint32_t up = f->d->idom[c->begin];
        if (is_kept)
            rc = keep(f, c);
        if (up != HW_ID_NONE && f->label[up] != HW_ID_NONE) {
            struct candidate *above = &f->candidates.v[f->label[up]];
            above->elsewhere = hw_sat_add(above->elsewhere, is_kept ? all : c->elsewhere);
        }
    }
    return rc;
}

/* ---- classes ---- */

struct group {
    uint32_t class;
    int64_t count, retained;
};

typedef HW_VEC(struct group) groups;

static bool is_member(const struct finder *f, uint32_t at)
{
    return f->flag[at] && has_bytes(f->g, f->d->object[at]) && retained(f, at) < f->large;
}

static int sum_groups(const struct finder *f, groups *out)
{
    struct hw_map64 rows = {0};
    uint64_t *row;
    bool fresh;
    int rc = HW_OK;
    for (uint32_t i = 0; rc == HW_OK && i < f->d->n; i++) {
        uint32_t class = class_at(f, i);
        if (!is_member(f, i))
            continue;
        rc = hw_map64_at(&rows, hw_class_shown_name(&f->g->classes[class]).v, &row, &fresh);
        if (rc == HW_OK && fresh) {
            *row = out->n;
            rc = hw_vec_push(out, (struct group){.class = class}) < 0 ? HW_ENOMEM : HW_OK;
        }
        if (rc < 0)
            break;
        out->v[*row].count++;
        out->v[*row].retained = hw_sat_add(out->v[*row].retained, retained(f, i));
    }
    hw_map64_done(&rows);
    return rc;
}

static bool is_in_group(const struct finder *f, uint32_t object, const struct group *group)
{
    uint32_t at = f->d->position[object];
    return is_member(f, at) && hw_class_shown_name(&f->g->classes[class_at(f, at)]).v ==
                                   hw_class_shown_name(&f->g->classes[group->class]).v;
}

/*
 * Down the tree of shortest paths while one child leads to enough of the group. share: of the
 * group's bytes, by position of the paths. The point is no member itself, and has bytes.
 */
static uint32_t find_point(const struct finder *f, const struct group *group, const int64_t *share)
{
    const struct hw_heap_paths *t = f->paths;
    int64_t enough = percent_of(group->retained, HW_SUSPECT_NEARLY_ALL);
    uint32_t at = HW_ID_NONE, point = HW_ID_NONE;
    for (uint32_t i = 0; i < t->n; i++) /* more than half: at most one child of each has it */
        if (t->parent[i] == at && share[i] >= enough && !is_in_group(f, t->object[i], group)) {
            at = i;
            point = has_bytes(f->g, t->object[i]) ? i : point;
        }
    return point;
}

/* The member nearest to a root that the point leads to; any if there is no point. */
static uint32_t find_nearest(const struct finder *f, const struct group *group, uint32_t point)
{
    const struct hw_heap_paths *t = f->paths;
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t up = t->parent[i];
        f->label[i] =
            point == HW_ID_NONE || i == point || (up != HW_ID_NONE && f->label[up] == 1) ? 1 : 0;
        if (f->label[i] && is_in_group(f, t->object[i], group))
            return t->object[i];
    }
    return HW_ID_NONE; /* not reached: a group has members, and the point leads to some */
}

static int add_group(struct finder *f, const struct group *group, int64_t *share)
{
    const struct hw_heap_paths *t = f->paths;
    for (size_t i = 0; i < t->n; i++)
        share[i] =
            is_in_group(f, t->object[i], group) ? retained(f, f->d->position[t->object[i]]) : 0;
    for (size_t i = t->n; i-- > 0;)
        if (t->parent[i] != HW_ID_NONE)
            share[t->parent[i]] = hw_sat_add(share[t->parent[i]], share[i]);
    uint32_t point = find_point(f, group, share);
    struct hw_suspect s = {.is_class = true,
                           .object = HW_ID_NONE,
                           .class = group->class,
                           .count = group->count,
                           .retained = to_bytes(f, group->retained),
                           .share = share_of(f, group->retained),
                           .point = point == HW_ID_NONE ? HW_ID_NONE : t->object[point],
                           .nearest = find_nearest(f, group, point),
                           .first_class = f->out->classes.n,
                           .n_classes = 1};
    if (point != HW_ID_NONE)
        s.point_retained = in_bytes(f, f->d->position[s.point]);
    struct hw_suspect_class row = {group->class, group->count, s.retained};
    return hw_vec_push(&f->out->classes, row) < 0 || hw_vec_push(&f->out->v, s) < 0 ? HW_ENOMEM
                                                                                    : HW_OK;
}

static int find_groups(struct finder *f)
{
    groups all = {0};
    int64_t *share = NULL;
    int rc = sum_groups(f, &all);
    for (size_t i = 0; rc == HW_OK && i < all.n; i++) {
        if (all.v[i].retained < f->large)
            continue;
        if (!share)
            share = calloc(f->d->n + 1, sizeof *share);
        rc = share ? add_group(f, &all.v[i], share) : HW_ENOMEM;
    }
    free(share);
    hw_vec_done(&all);
    return rc;
}

/* ---- all ---- */

static int by_own_part(const void *pa, const void *pb)
{
    const struct hw_suspect *a = pa, *b = pb;
    int64_t x = a->retained - a->elsewhere, y = b->retained - b->elsewhere;
    if (x != y)
        return x > y ? -1 : 1;
    return (a->nearest > b->nearest) - (a->nearest < b->nearest);
}

static int sum_all(struct finder *f)
{
    const struct hw_dominators *d = f->d;
    __int128 all = 0;
    for (uint32_t i = 0; i < d->n; i++)
        all += own_bytes(f, i);
    while (all >> f->shift > INT64_MAX)
        f->shift++;
    if (f->shift) {
        f->scaled = malloc((d->n + 1) * sizeof *f->scaled);
        if (!f->scaled)
            return HW_ENOMEM;
        for (uint32_t i = 0; i < d->n; i++)
            f->scaled[i] = (int64_t)(own_bytes(f, i) >> f->shift);
        for (size_t i = d->n; i-- > 0;)
            if (d->idom[i] != HW_ID_NONE)
                f->scaled[d->idom[i]] += f->scaled[i];
    }
    for (uint32_t i = 0; i < d->n; i++)
        if (d->idom[i] == HW_ID_NONE)
            f->all += retained(f, i);
    f->large = percent_of(f->all, HW_SUSPECT_PERCENT);
    return HW_OK;
}

static int find(struct finder *f)
{
    int rc = sum_all(f);
    if (rc < 0)
        return rc;
    if (f->large == 0)
        return HW_OK; /* nothing has bytes */
    mark_tops(f);
    rc = find_groups(f);
    if (rc == HW_OK)
        rc = find_objects(f);
    if (rc == HW_OK && f->out->v.n)
        qsort(f->out->v.v, f->out->v.n, sizeof *f->out->v.v, by_own_part);
    return rc;
}

int hw_heap_suspects_find(const struct hw_heap_graph *g, const struct hw_dominators *d,
                          const struct hw_heap_paths *paths, struct hw_suspects *out)
{
    *out = (struct hw_suspects){0};
    hw_autofree uint32_t *heaviest = malloc((d->n + 1) * sizeof *heaviest);
    hw_autofree uint32_t *label = malloc((d->n + 1) * sizeof *label);
    hw_autofree uint8_t *flag = calloc(d->n + 1, 1);
    struct finder f = {.g = g,
                       .d = d,
                       .paths = paths,
                       .out = out,
                       .heaviest = heaviest,
                       .label = label,
                       .flag = flag};
    int rc = heaviest && label && flag ? find(&f) : HW_ENOMEM;
    hw_vec_done(&f.candidates);
    free(f.scaled);
    if (rc < 0)
        hw_heap_suspects_done(out);
    return rc;
}

void hw_heap_suspects_done(struct hw_suspects *s)
{
    hw_vec_done(&s->v);
    hw_vec_done(&s->classes);
    *s = (struct hw_suspects){0};
}

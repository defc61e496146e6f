/*
 * Graphs whose time moves (views/flame/flame_window.h), cached between requests: one per selection,
 * ignoring its times. A few selections within a memory limit, evicted least recently used first, or
 * after a while unused.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "server/api/pages_internal.h"
#include "views/flame/flame_window.h"

#include "base/banned.h"

enum { MAX_KEPT = 4 };
static const size_t max_bytes = (size_t)384 << 20, max_marks_bytes = (size_t)128 << 20;
static const uint64_t max_idle_ns = (uint64_t)60 * 1000000000;

struct kept {
    const struct hw_page_trace *t;
    char *key;                 /* owned: the selection without its times */
    unsigned n_users;          /* the cache's lock */
    uint64_t used_ns;          /* the cache's lock */
    size_t n_bytes;            /* the cache's lock */
    pthread_mutex_t lock;      /* held while moving it */
    struct hw_flame_window *s; /* lock; NULL = not built yet */
};

struct hw_page_flame_windows {
    pthread_mutex_t lock;
    HW_VEC(struct kept *) v;
};

int hw_page_flame_windows_new(struct hw_page_flame_windows **out)
{
    struct hw_page_flame_windows *all = calloc(1, sizeof *all);
    if (!all)
        return HW_ENOMEM;
    pthread_mutex_init(&all->lock, NULL);
    *out = all;
    return HW_OK;
}

static void kept_free(struct kept *k)
{
    hw_flame_window_free(k->s);
    pthread_mutex_destroy(&k->lock);
    free(k->key);
    free(k);
}

void hw_page_flame_windows_free(struct hw_page_flame_windows *all)
{
    if (!all)
        return;
    for (size_t i = 0; i < all->v.n; i++)
        kept_free(all->v.v[i]);
    hw_vec_done(&all->v);
    pthread_mutex_destroy(&all->lock);
    free(all);
}

static void drop(struct hw_page_flame_windows *all, size_t i)
{
    kept_free(all->v.v[i]);
    all->v.v[i] = all->v.v[--all->v.n];
}

void hw_page_flame_windows_forget(struct hw_page_flame_windows *all, const struct hw_page_trace *t)
{
    if (!all)
        return;
    pthread_mutex_lock(&all->lock);
    for (size_t i = all->v.n; i-- > 0;)
        if (all->v.v[i]->t == t)
            drop(all, i);
    pthread_mutex_unlock(&all->lock);
}

void hw_page_flame_windows_age(struct hw_page_flame_windows *all)
{
    uint64_t now = hw_now_monotonic_ns();
    pthread_mutex_lock(&all->lock);
    for (size_t i = all->v.n; i-- > 0;)
        if (all->v.v[i]->n_users == 0 && now - all->v.v[i]->used_ns > max_idle_ns)
            drop(all, i);
    pthread_mutex_unlock(&all->lock);
}

/* Evicts unused windows until the limits hold. */
static void make_room(struct hw_page_flame_windows *all)
{
    for (;;) {
        size_t n_bytes = 0, oldest = all->v.n;
        for (size_t i = 0; i < all->v.n; i++) {
            n_bytes += all->v.v[i]->n_bytes;
            if (all->v.v[i]->n_users == 0 &&
                (oldest == all->v.n || all->v.v[i]->used_ns < all->v.v[oldest]->used_ns))
                oldest = i;
        }
        if (oldest == all->v.n || (n_bytes <= max_bytes && all->v.n <= MAX_KEPT))
            return;
        drop(all, oldest);
    }
}

static struct kept *add(struct hw_page_flame_windows *all, const struct hw_page_trace *t,
                        const char *key)
{
    struct kept *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    pthread_mutex_init(&k->lock, NULL);
    k->t = t;
    k->key = strdup(key);
    if (!k->key || hw_vec_push(&all->v, k) < 0) {
        kept_free(k);
        return NULL;
    }
    return k;
}

/* Finds or adds the entry with the key, and adds a user. NULL: out of memory. */
static struct kept *acquire(struct hw_page_flame_windows *all, const struct hw_page_trace *t,
                            const char *key)
{
    struct kept *k = NULL;
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; !k && i < all->v.n; i++)
        if (all->v.v[i]->t == t && strcmp(all->v.v[i]->key, key) == 0)
            k = all->v.v[i];
    if (!k)
        k = add(all, t, key);
    if (k)
        k->n_users++;
    pthread_mutex_unlock(&all->lock);
    return k;
}

static void release(struct hw_page_flame_windows *all, struct kept *k, size_t n_bytes)
{
    pthread_mutex_lock(&all->lock);
    k->n_users--;
    k->n_bytes = n_bytes;
    k->used_ns = hw_now_monotonic_ns();
    make_room(all);
    pthread_mutex_unlock(&all->lock);
}

static int make(struct hw_page_trace *t, const struct hw_page_selection *s,
                struct hw_flame_window **out)
{
    struct hw_filter_matches matches = {0};
    struct hw_namer namer = hw_page_namer(t);
    struct hw_flame_window_query q = {.p = t->profile,
                                      .list = &t->list,
                                      .fns = t->functions,
                                      .upid = s->upid,
                                      .one_heap = *s->heap != '\0',
                                      .heap_name = s->heap_id,
                                      .flags = hw_page_flame_flags(s),
                                      .max_marks_bytes = max_marks_bytes};
    int rc = hw_filter_match(&s->filters, t->profile->callsites, t->functions, &namer,
                             hw_page_program_shown(s->program), &matches);
    if (s->filters.n)
        q.filters = &matches;
    if (rc == HW_OK)
        rc = hw_flame_window_new(&q, out);
    hw_filter_matches_done(&matches);
    return rc;
}

bool hw_page_flame_windows_can(const struct hw_page_trace *t, const struct hw_page_selection *s)
{
    return t->processor && s->n_with == 0 && s->flags & HW_PAGE_STABLE &&
           !(s->flags & HW_PAGE_INVERT) && !s->at_max && !hw_filters_have_pivot(&s->filters) &&
           !hw_filters_have_heap(&s->filters);
}

int hw_page_flame_windows_move(struct hw_page_trace *t, const struct hw_page_selection *s,
                               const char *filters, double min_share, struct hw_flame *out,
                               int64_t *unfiltered)
{
    struct hw_page_flame_windows *all = t->pages->flame_windows;
    struct hw_strbuf key = {0};
    hw_strbuf_addf(&key, "%u %d %u %u\n", s->upid.v, *s->heap != '\0', s->heap_id.v,
                   hw_page_flame_flags(s));
    hw_strbuf_adds(&key, filters);
    struct kept *k = key.failed ? NULL : acquire(all, t, key.p);
    hw_strbuf_done(&key);
    if (!k)
        return HW_ENOMEM;
    struct hw_flame_window_place place = {.ts_ns = s->ts_ns,
                                          .has_from = s->has_from,
                                          .from_ns = s->from_ns,
                                          .metric = s->metric,
                                          .min_share = min_share};
    pthread_mutex_lock(&k->lock);
    int rc = k->s ? HW_OK : make(t, s, &k->s);
    if (rc == HW_OK)
        rc = hw_flame_window_move(k->s, &place, out, unfiltered);
    size_t n_bytes = k->s ? hw_flame_window_bytes(k->s) : 0;
    pthread_mutex_unlock(&k->lock);
    release(all, k, n_bytes);
    return rc;
}

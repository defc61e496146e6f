/*
 * One thread computes a dump's parts, one requested part after another. It counts as a reader of
 * the trace, so that neither the trace nor the server is freed under it.
 */
#include "server/api/heap/pages_heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"

#include "base/banned.h"

enum { HTTP_WORKING = 202, WAIT_MS = 400, MAX_HEAPS = 32 };

struct hw_page_heaps {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct hw_page_heap *v[MAX_HEAPS];
    unsigned n;
};

static const char *const part_texts[] = {
#define X(name, text) text,
    HW_PAGE_HEAP_PARTS(X)
#undef X
};

int hw_page_heaps_new(struct hw_page_heaps **out)
{
    struct hw_page_heaps *h = calloc(1, sizeof *h);
    pthread_condattr_t attr;
    if (!h)
        return HW_ENOMEM;
    pthread_mutex_init(&h->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&h->changed, &attr);
    pthread_condattr_destroy(&attr);
    *out = h;
    return HW_OK;
}

static void heap_free(struct hw_page_heap *x)
{
    if (!x)
        return;
    hw_heap_paths_done(&x->paths);
    hw_dominators_done(&x->dominators);
    hw_heap_links_done(&x->dominated);
    hw_heap_links_done(&x->referrers);
    hw_vec_done(&x->strings);
    hw_vec_done(&x->arrays);
    for (int i = 0; i < HW_PAGE_HEAP_PART_COUNT; i++)
        hw_vec_done(&x->trees[i]);
    free(x->path_position);
    free(x->classes);
    free(x);
}

void hw_page_heaps_free(struct hw_page_heaps *h)
{
    if (!h)
        return;
    for (unsigned i = 0; i < h->n; i++)
        heap_free(h->v[i]);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

/* ---- the parts ---- */

static int make_paths(struct hw_page_heap *x)
{
    int rc = hw_heap_paths_build(x->p, x->g, &x->paths);
    if (rc < 0)
        return rc;
    x->path_position = malloc(((size_t)x->g->n_objects + 1) * sizeof *x->path_position);
    if (!x->path_position) {
        hw_heap_paths_done(&x->paths);
        return HW_ENOMEM;
    }
    memset(x->path_position, 0xff, (size_t)x->g->n_objects * sizeof *x->path_position);
    for (size_t i = 0; i < x->paths.n; i++)
        x->path_position[x->paths.object[i]] = (uint32_t)i;
    return HW_OK;
}

static int make_classes(struct hw_page_heap *x)
{
    struct hw_class_sum *sums = calloc((size_t)x->g->n_classes + 1, sizeof *sums);
    int rc = sums ? hw_heap_class_sums(x->g, &x->dominators, sums) : HW_ENOMEM;
    if (rc < 0)
        free(sums);
    else
        x->classes = sums;
    return rc;
}

static int make_tree(struct hw_page_heap *x, enum hw_page_heap_part part)
{
    const struct hw_dominators *d = &x->dominators;
    bool folded =
        part == HW_PAGE_HEAP_PATH_TREE_FOLDED || part == HW_PAGE_HEAP_DOMINATOR_TREE_FOLDED;
    enum hw_heap_fold how = folded ? HW_FOLD_CLASSES : HW_FOLD_FLAME;
    if (part == HW_PAGE_HEAP_PATH_TREE || part == HW_PAGE_HEAP_PATH_TREE_FOLDED)
        return hw_heap_tree_fold(x->g, x->paths.object, x->paths.parent, x->paths.n, how,
                                 &x->trees[part]);
    return hw_heap_tree_fold(x->g, d->object, d->idom, d->n, how, &x->trees[part]);
}

static int make_part(struct hw_page_heap *x, enum hw_page_heap_part part)
{
    switch (part) {
    case HW_PAGE_HEAP_PATHS:
        return make_paths(x);
    case HW_PAGE_HEAP_DOMINATORS:
        return hw_dominators_build(x->g, &x->dominators);
    case HW_PAGE_HEAP_CLASSES:
        return make_classes(x);
    case HW_PAGE_HEAP_DOMINATED:
        return hw_heap_children(x->dominators.idom, x->dominators.n, &x->dominated);
    case HW_PAGE_HEAP_REFERRERS:
        return hw_heap_referrers(x->g, &x->referrers);
    case HW_PAGE_HEAP_STRINGS:
        return hw_heap_twins_find(x->p, x->g, HW_TWIN_STRINGS, &x->strings);
    case HW_PAGE_HEAP_ARRAYS:
        return hw_heap_twins_find(x->p, x->g, HW_TWIN_ARRAYS, &x->arrays);
    case HW_PAGE_HEAP_PATH_TREE:
    case HW_PAGE_HEAP_PATH_TREE_FOLDED:
    case HW_PAGE_HEAP_DOMINATOR_TREE:
    case HW_PAGE_HEAP_DOMINATOR_TREE_FOLDED:
        return make_tree(x, part);
    case HW_PAGE_HEAP_PART_COUNT:
        break;
    }
    return HW_EINVAL;
}

static void *work(void *ctx)
{
    struct hw_page_heap *x = ctx;
    struct hw_page_trace *t = x->trace;
    struct hw_pages *pages = t->pages;
    struct hw_page_heaps *heaps = t->heaps;
    pthread_mutex_lock(&heaps->lock);
    while (x->wanted & ~x->ready && x->failure == HW_OK) {
        x->at = (enum hw_page_heap_part)__builtin_ctz(x->wanted & ~x->ready);
        pthread_mutex_unlock(&heaps->lock);
        int rc = make_part(x, x->at);
        pthread_mutex_lock(&heaps->lock);
        if (rc == HW_OK)
            x->ready |= 1U << x->at;
        else
            x->failure = rc;
        pthread_cond_broadcast(&heaps->changed);
    }
    x->in_progress = false;
    pthread_cond_broadcast(&heaps->changed);
    pthread_mutex_unlock(&heaps->lock);
    hw_page_trace_unref(t);
    pthread_mutex_lock(&pages->lock);
    pages->n_readers--;
    pthread_cond_broadcast(&pages->reader_ended);
    pthread_mutex_unlock(&pages->lock); /* `pages` may be freed from here on */
    return NULL;
}

/* With the heaps' lock held. */
static int start_work(struct hw_page_heap *x)
{
    struct hw_pages *pages = x->trace->pages;
    pthread_t thread;
    x->failure = HW_OK;
    pthread_mutex_lock(&pages->lock);
    pages->n_readers++;
    x->trace->n_users++;
    int code = pthread_create(&thread, NULL, work, x);
    if (code) {
        pages->n_readers--;
        x->trace->n_users--; /* the request is a user, too */
    }
    pthread_mutex_unlock(&pages->lock);
    if (code)
        return HW_ESYS;
    (void)pthread_detach(thread); /* it signals its end itself */
    x->in_progress = true;
    return HW_OK;
}

/* ---- dumps ---- */

/* Makes room for one more, keeping those in use. */
static void evict_oldest(struct hw_page_heaps *h)
{
    while (h->n >= HW_PAGE_HEAPS) {
        unsigned oldest = h->n;
        for (unsigned i = 0; i < h->n; i++)
            if (h->v[i]->n_users == 0 && !h->v[i]->in_progress &&
                (oldest == h->n || h->v[i]->used_ns < h->v[oldest]->used_ns))
                oldest = i;
        if (oldest == h->n)
            return;
        heap_free(h->v[oldest]);
        h->v[oldest] = h->v[--h->n];
    }
}

static struct hw_page_heap *find_heap(struct hw_page_heaps *h, struct hw_page_trace *t,
                                      const struct hw_heap_graph *g)
{
    for (unsigned i = 0; i < h->n; i++)
        if (h->v[i]->g == g)
            return h->v[i];
    evict_oldest(h);
    struct hw_page_heap *x = h->n < MAX_HEAPS ? calloc(1, sizeof *x) : NULL;
    if (x) {
        x->p = t->profile;
        x->g = g;
        x->trace = t;
        h->v[h->n++] = x;
    }
    return x;
}

static void unuse(void *ctx)
{
    struct hw_page_heap *x = ctx;
    struct hw_page_heaps *h = x->trace->heaps;
    pthread_mutex_lock(&h->lock);
    x->n_users--;
    x->used_ns = hw_now_monotonic_ns();
    pthread_mutex_unlock(&h->lock);
}

static void reply_working(struct hw_http_request *req, unsigned ready, unsigned wanted,
                          enum hw_page_heap_part at)
{
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_str(&j, "working", part_texts[at]);
    hw_json_kv_int(&j, "done", __builtin_popcount(ready & wanted));
    hw_json_kv_int(&j, "parts", __builtin_popcount(wanted));
    hw_json_end_object(&j);
    if (hw_json_finish(&j) == HW_OK)
        hw_http_reply(req, HTTP_WORKING, "application/json", j.buf.p, j.buf.n);
    else
        hw_http_reply_text(req, HTTP_ERROR, hw_errc_text(HW_ENOMEM));
    hw_json_done(&j);
}

struct hw_page_heap *hw_page_heap_get(struct hw_http_request *req, struct hw_page_trace *t,
                                      const struct hw_heap_graph *g, unsigned parts)
{
    struct hw_page_heaps *h = t->heaps;
    struct timespec until;
    int rc = HW_OK, waited = 0;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&h->lock);
    struct hw_page_heap *x = find_heap(h, t, g);
    if (!x) {
        pthread_mutex_unlock(&h->lock);
        hw_http_reply_text(req, HTTP_BUSY, "too many heaps are being examined at once\n");
        return NULL;
    }
    x->n_users++;
    x->wanted |= parts;
    if (parts & ~x->ready && !x->in_progress)
        rc = start_work(x);
    while (rc == HW_OK && parts & ~x->ready && x->in_progress && waited == 0)
        waited = pthread_cond_timedwait(&h->changed, &h->lock, &until);
    unsigned ready = x->ready;
    enum hw_page_heap_part at = x->at;
    if (rc == HW_OK && parts & ~ready && !x->in_progress)
        rc = x->failure < 0 ? x->failure : HW_ENOMEM;
    pthread_mutex_unlock(&h->lock);
    bool usable = rc == HW_OK && !(parts & ~ready);
    if (usable && hw_http_at_end(req, unuse, x) == HW_OK)
        return x;
    unuse(x);
    if (rc < 0 || usable)
        hw_http_reply_text(req, HTTP_ERROR, hw_errc_text(rc < 0 ? rc : HW_ENOMEM));
    else
        reply_working(req, ready, parts, at);
    return NULL;
}

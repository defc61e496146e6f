#include "import/graph/heap_graph_ahead.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/side_thread.h"

#include "base/banned.h"

/* Reading a small packet takes no longer than waking a thread. A hostile packet with two bytes per
 * field grows to 28 times its size. */
enum {
    MIN_BYTES = 1 << 15,
    MAX_BYTES = 1 << 20,
    PADDING = 16 /* bytes that loading a number may touch */
};

struct hw_graph_ahead {
    struct hw_side_thread beside;
    struct hw_graph_packet packets[HW_GRAPH_AHEAD_PACKETS]; /* [i % …]: the i-th put in */
    size_t n_dropped;                                       /* the owner's */
    pthread_mutex_t lock;                                   /* protects the following members */
    pthread_cond_t changed;
    size_t n_put, n_read;
    bool stopping;
};

static void read_packet(struct hw_graph_packet *p)
{
    struct hw_pb_reader body = hw_pb_read(p->data);
    body.readable += PADDING;
    p->rc = hw_graph_batch_read(&body, SIZE_MAX, &p->batch);
    hw_graph_head_of_batch(&p->batch, &p->head);
}

static int read_ahead(void *ctx)
{
    struct hw_graph_ahead *a = ctx;
    pthread_mutex_lock(&a->lock);
    for (;;) {
        while (!a->stopping && a->n_read == a->n_put)
            pthread_cond_wait(&a->changed, &a->lock);
        if (a->stopping)
            break;
        struct hw_graph_packet *p = &a->packets[a->n_read % HW_GRAPH_AHEAD_PACKETS];
        pthread_mutex_unlock(&a->lock);
        read_packet(p);
        pthread_mutex_lock(&a->lock);
        a->n_read++;
        pthread_cond_signal(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
    return HW_OK;
}

struct hw_graph_ahead *hw_graph_ahead_new(void)
{
    struct hw_graph_ahead *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    hw_side_thread_begin(&a->beside, read_ahead, a);
    if (a->beside.runs)
        return a;
    hw_graph_ahead_free(a);
    return NULL;
}

void hw_graph_ahead_free(struct hw_graph_ahead *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->stopping = true;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (a->beside.runs)
        (void)hw_side_thread_end(&a->beside); /* the packets have the errors */
    for (size_t i = 0; i < HW_GRAPH_AHEAD_PACKETS; i++) {
        hw_vec_done(&a->packets[i].bytes);
        hw_graph_batch_done(&a->packets[i].batch);
    }
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

bool hw_graph_ahead_is_worth(const struct hw_packet *p)
{
    return p->data.n >= MIN_BYTES && p->data.n <= MAX_BYTES;
}

/* Only the owner changes n_put, so it reads it without the lock. */
size_t hw_graph_ahead_count(const struct hw_graph_ahead *a)
{
    return a ? a->n_put - a->n_dropped : 0;
}

int hw_graph_ahead_put(struct hw_graph_ahead *a, const struct hw_packet *p, int64_t ts_ns)
{
    struct hw_graph_packet *to = &a->packets[a->n_put % HW_GRAPH_AHEAD_PACKETS];
    size_t n = p->data.n;
    if (hw_vec_reserve(&to->bytes, n + PADDING) < 0)
        return HW_ENOMEM;
    memcpy(to->bytes.v, p->data.p, n);
    memset(to->bytes.v + n, 0, PADDING);
    to->data = hw_bytes_of(to->bytes.v, n);
    to->sequence = p->sequence;
    to->offset = p->offset;
    to->ts_ns = ts_ns;
    pthread_mutex_lock(&a->lock);
    a->n_put++;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    return HW_OK;
}

const struct hw_graph_packet *hw_graph_ahead_first(struct hw_graph_ahead *a)
{
    pthread_mutex_lock(&a->lock);
    while (a->n_read == a->n_dropped)
        pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
    return &a->packets[a->n_dropped % HW_GRAPH_AHEAD_PACKETS];
}

void hw_graph_ahead_drop(struct hw_graph_ahead *a)
{
    a->n_dropped++;
}

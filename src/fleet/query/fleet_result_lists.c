/* Results that are lists: hosts, labels, values of a label. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fleet/query/fleet_result_internal.h"
#include "fleet/store/clickhouse.h"

#include "base/banned.h"

enum { MAX_HOSTS = 100000, MAX_WORDS = 1000, MIN_HOSTS = 5 };
#define NORMAL    1.4826 /* median absolute deviation -> standard deviation */
#define MAX_SCORE 3.5    /* Iglewicz and Hoaglin's limit for such scores */

/* ---- hosts ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Sorts v. */
static double median(double *v, size_t n)
{
    if (n == 0)
        return 0;
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static int by_deviation(const void *a, const void *b)
{
    const struct hw_fleet_host *x = a, *y = b;
    if (x->deviates != y->deviates)
        return x->deviates ? -1 : 1;
    if (fabs(x->score) != fabs(y->score))
        return fabs(x->score) > fabs(y->score) ? -1 : 1;
    if (x->mean != y->mean)
        return x->mean > y->mean ? -1 : 1;
    return strcmp(x->name, y->name);
}

int hw_fleet_hosts_judge(struct hw_fleet_hosts *h)
{
    size_t n = h->v.n;
    double *values = calloc(n + 1, sizeof *values);
    if (!values)
        return HW_ENOMEM;
    for (size_t i = 0; i < n; i++)
        values[i] = h->v.v[i].mean;
    h->median = median(values, n);
    for (size_t i = 0; i < n; i++)
        values[i] = fabs(h->v.v[i].mean - h->median);
    h->spread = NORMAL * median(values, n);
    free(values);
    for (size_t i = 0; i < n; i++) {
        struct hw_fleet_host *host = &h->v.v[i];
        double off = host->mean - h->median;
        host->score = h->spread > 0 ? off / h->spread : 0;
        bool far = h->spread > 0 ? fabs(host->score) > MAX_SCORE : off != 0;
        host->deviates = n >= MIN_HOSTS && far && fabs(off) > host->error;
    }
    if (n)
        qsort(h->v.v, n, sizeof *h->v.v, by_deviation);
    return HW_OK;
}

/* The error of the mean, by the rules of fleet_result.h for live and allocated memory. */
static double error_of(const struct hw_fleet_host *h, double variance, bool live)
{
    double dumps = (double)h->n_dumps, independent = live ? (double)h->n_processes : dumps;
    return variance > 0 ? 2 * sqrt(variance / (dumps * independent)) : 0;
}

static int push_host(struct hw_fleet_hosts *out, struct hw_rows *r, bool space, bool live)
{
    struct hw_bytes name = hw_rows_text(r);
    struct hw_fleet_host h = {.n_dumps = hw_rows_u64(r)};
    h.n_processes = hw_rows_u64(r);
    double bytes = (double)hw_rows_i64(r), objects = (double)hw_rows_i64(r);
    double of_bytes = hw_rows_real(r), of_objects = hw_rows_real(r);
    if (r->bad || h.n_dumps == 0 || h.n_processes == 0)
        return HW_OK;
    h.mean = (space ? bytes : objects) / (double)h.n_dumps;
    h.error = error_of(&h, space ? of_bytes : of_objects, live);
    h.name = strndup((const char *)name.p, name.n);
    if (h.name && hw_vec_push(&out->v, h) == 0)
        return HW_OK;
    free(h.name);
    return HW_ENOMEM;
}

int hw_fleet_get_hosts(const struct hw_fleet_source *from, const struct hw_fleet_where *w,
                       enum hw_metric metric, struct hw_fleet_hosts *out, struct hw_error *err)
{
    bool live = hw_metric_is_live(metric);
    bool space = hw_metric_is_bytes(metric);
    struct hw_fleet_query_args ask = {.query = live ? HW_FLEET_Q_HOSTS : HW_FLEET_Q_HOSTS_ALLOCATED,
                                      .where = w};
    struct hw_strbuf reply = {0};
    struct hw_rows r;
    *out = (struct hw_fleet_hosts){0};
    int rc = hw_fleet_where_check(w, err);
    if (rc == 0)
        rc = hw_fleet_do(from, &ask, &reply, &r, err);
    while (rc == 0 && !out->cut && hw_rows_more(&r)) {
        if (out->v.n >= MAX_HOSTS)
            out->cut = true;
        else
            rc = push_host(out, &r, space, live);
    }
    if (rc == 0)
        rc = hw_fleet_rows_check(from, &r, err);
    hw_strbuf_done(&reply);
    if (rc == 0)
        rc = hw_fleet_hosts_judge(out);
    if (rc == HW_ENOMEM)
        (void)hw_fail(err, rc, 0, "hosts"); /* returned below */
    if (rc < 0)
        hw_fleet_hosts_done(out);
    return rc;
}

void hw_fleet_hosts_done(struct hw_fleet_hosts *h)
{
    for (size_t i = 0; i < h->v.n; i++)
        free(h->v.v[i].name);
    hw_vec_done(&h->v);
    *h = (struct hw_fleet_hosts){0};
}

/* ---- labels ---- */

static int get_words(const struct hw_fleet_source *from, const struct hw_fleet_query_args *ask,
                     struct hw_fleet_words *out, struct hw_error *err)
{
    struct hw_strbuf reply = {0};
    struct hw_rows r;
    *out = (struct hw_fleet_words){0};
    int rc = hw_fleet_where_check(ask->where, err);
    if (rc == 0)
        rc = hw_fleet_do(from, ask, &reply, &r, err);
    while (rc == 0 && !out->cut && hw_rows_more(&r)) {
        struct hw_bytes text = hw_rows_text(&r);
        struct hw_fleet_word word = {.n_rows = hw_rows_u64(&r)};
        word.last_s = ask->query == HW_FLEET_Q_VALUES ? hw_rows_u32(&r) : 0;
        out->cut = out->v.n >= MAX_WORDS;
        if (r.bad || out->cut)
            break;
        word.text = strndup((const char *)text.p, text.n);
        if (!word.text || hw_vec_push(&out->v, word) < 0) {
            free(word.text);
            rc = hw_fail(err, HW_ENOMEM, 0, "labels");
        }
    }
    if (rc == 0)
        rc = hw_fleet_rows_check(from, &r, err);
    hw_strbuf_done(&reply);
    if (rc < 0)
        hw_fleet_words_done(out);
    return rc;
}

int hw_fleet_get_labels(const struct hw_fleet_source *from, const struct hw_fleet_where *w,
                        struct hw_fleet_words *out, struct hw_error *err)
{
    struct hw_fleet_query_args ask = {.query = HW_FLEET_Q_LABELS, .where = w};
    return get_words(from, &ask, out, err);
}

int hw_fleet_get_label_values(const struct hw_fleet_source *from, const struct hw_fleet_where *w,
                              const char *label, struct hw_fleet_words *out, struct hw_error *err)
{
    struct hw_fleet_query_args ask = {.query = HW_FLEET_Q_VALUES, .where = w, .label = label};
    *out = (struct hw_fleet_words){0};
    if (!hw_fleet_is_label(label))
        return hw_fail(err, HW_EINVAL, 0, "'%.80s' is not a label name: letters, digits and '_'",
                       label);
    return get_words(from, &ask, out, err);
}

void hw_fleet_words_done(struct hw_fleet_words *w)
{
    for (size_t i = 0; i < w->v.n; i++)
        free(w->v.v[i].text);
    hw_vec_done(&w->v);
    *w = (struct hw_fleet_words){0};
}

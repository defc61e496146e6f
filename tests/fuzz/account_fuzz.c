/* Any bytes as a trace, asked for the account of each process at each of its moments, over time, and between
 * processes. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "import/perfetto/perfetto_reader.h"
#include "model/profile.h"
#include "views/account/memory_parts.h"
#include "views/account/parts_diff.h"
#include "views/account/pinned.h"
#include "views/findings/parts_series.h"
#include "views/time/process_view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MAX_MOMENTS = 4, MAX_PROCESSES = 4 };

static struct hw_memory_parts kept[MAX_PROCESSES];
static size_t n_kept;

/* Figures of 2^64 KiB are added: what is left of a sum is as exact as its largest figure. */
static void must_be_near(double a, double b, double size)
{
    if (!isfinite(a) || !isfinite(b) || fabs(a - b) > fabs(size) * 1e-9 + 1)
        __builtin_trap();
}

static void must_close(const struct hw_memory_parts *m)
{
    double rss = 0, swap = 0, size = m->requested;
    for (int p = 0; p < HW_PART_COUNT; p++) {
        rss += m->parts[p].rss;
        swap += m->parts[p].swap;
        size += fabs(m->parts[p].rss) + fabs(m->parts[p].swap);
    }
    must_be_near(rss, m->total.rss, size);
    must_be_near(swap, m->total.swap, size);
    if (!isfinite(m->requested) || !isfinite(m->error) || !(m->untouched >= 0) ||
        m->untouched > fmax(0, m->requested))
        __builtin_trap();
}

static void ask_at(const struct hw_profile *p, const struct hw_series_list *list,
                   const struct hw_process_view *v, int64_t ts_ns, bool at_max)
{
    hw_values values = {0};
    struct hw_memory_parts m;
    struct hw_pinned x;
    if (hw_process_values(p, list, v->upid, ts_ns, at_max, &values) == 0 &&
        hw_memory_parts_find(p, v, ts_ns, &values, &m) == 0) {
        must_close(&m);
        if (hw_pinned_find(p, list, v->upid, &m, &x) == 0) {
            if (!isfinite(x.pinned))
                __builtin_trap();
            hw_pinned_done(&x);
        }
        if (n_kept < MAX_PROCESSES)
            kept[n_kept++] = m;
        else
            hw_memory_parts_done(&m);
    }
    hw_vec_done(&values);
}

static void ask(const struct hw_profile *p, const struct hw_series_list *list, hw_upid upid)
{
    struct hw_process_view v;
    struct hw_parts_series s;
    if (hw_process_view_init(&v, p, list, upid) < 0)
        return;
    for (size_t i = 0; i < v.moments.n && i < MAX_MOMENTS; i++)
        ask_at(p, list, &v, v.moments.v[i].ts_ns, v.moments.v[i].at_max);
    ask_at(p, list, &v, 0, /* at_max = */ false);
    if (hw_parts_series_find(p, list, &v, &s) == 0) {
        if (s.v.n > HW_PARTS_POINTS)
            __builtin_trap();
        hw_parts_series_done(&s);
    }
    hw_process_view_done(&v);
}

static void ask_differences(const struct hw_profile *p)
{
    for (size_t i = 0; i + 1 < n_kept; i++) {
        struct hw_parts_diff_side a = {p, &kept[i]}, b = {p, &kept[i + 1]};
        struct hw_parts_diff d;
        if (hw_parts_diff_make(&a, &b, 1, &d) < 0)
            continue;
        (void)hw_parts_diff_most(&d); /* may be NULL */
        hw_parts_diff_done(&d);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_profile *p;
    struct hw_series_list list = {0};
    if (hw_profile_new(&p) < 0)
        return 0;
    n_kept = 0;
    if (hw_import_perfetto.read(hw_bytes_of(data, n), p, NULL) == 0 && hw_profile_freeze(p) == 0 &&
        hw_series_list_init(&list, p) == 0) {
        for (uint32_t u = 0; u < p->processes.n && u < MAX_PROCESSES; u++)
            ask(p, &list, (hw_upid){u});
        ask_differences(p);
    }
    for (size_t i = 0; i < n_kept; i++)
        hw_memory_parts_done(&kept[i]);
    hw_series_list_done(&list);
    hw_profile_free(p);
    return 0;
}

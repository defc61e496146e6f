/* Metrics about heap graphs: one message per process, one sample per dump in it. */
#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "export/metrics/metric_list.h"
#include "schema/fields.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_classes.h"

#include "base/banned.h"

enum { COUNTER_LATE_NS = 500000000 };

/* Field numbers of an InstanceStats, and what writes a sample into it. */
struct instance_fields {
    uint32_t instance, upid, process, samples;
    int (*sample)(const struct hw_profile *p, const struct hw_heap_graph *g, struct hw_pb *out);
};

static int put_instances(const struct hw_profile *p, const struct instance_fields *f,
                         struct hw_pb *out)
{
    int rc = HW_OK;
    for (uint32_t u = 0; rc == HW_OK && u < p->processes.n; u++) {
        bool begun = false;
        for (size_t i = 0; rc == HW_OK && i < p->graphs.n; i++) {
            const struct hw_heap_graph *g = p->graphs.v[i];
            if (g->upid.v != u)
                continue;
            if (!begun) {
                hw_pb_begin(out, f->instance);
                hw_pb_uint(out, f->upid, (uint64_t)u + 1); /* as the tables number them */
                hw_metric_put_process(out, f->process, p, (hw_upid){u});
                begun = true;
            }
            hw_pb_begin(out, f->samples);
            rc = f->sample(p, g, out);
            hw_pb_end(out);
        }
        if (begun)
            hw_pb_end(out);
    }
    return rc;
}

static hw_str_id shown_name(const struct hw_heap_graph *g, uint32_t class)
{
    return hw_class_shown_name(&g->classes[class]);
}

/* ---- java_heap_stats ---- */

#define F_STATS(name) HW_F_JavaHeapStats_Sample_##name
#define F_ROOTS(name) HW_F_JavaHeapStats_HeapRoots_##name

/* A counter of the process: its last value before the dump, or the first one right after. */
static bool counter_near(const struct hw_profile *p, const struct hw_heap_graph *g,
                         const char *name, double *out)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    struct hw_bytes wanted = hw_bytes_str(name);
    const struct hw_counter_row *best = NULL;
    for (size_t i = 0; i < p->counters.n; i++) {
        const struct hw_counter_row *c = &p->counters.v[i];
        if (c->upid.v != g->upid.v || c->ts_ns > g->ts_ns + COUNTER_LATE_NS ||
            !hw_bytes_equal(hw_strings_get(strings, c->name), wanted))
            continue;
        if (!best || (c->ts_ns <= g->ts_ns ? best->ts_ns > g->ts_ns || c->ts_ns >= best->ts_ns
                                           : best->ts_ns > g->ts_ns && c->ts_ns < best->ts_ns))
            best = c;
    }
    if (best)
        *out = best->value;
    return best != NULL;
}

static void put_counter(const struct hw_profile *p, const struct hw_heap_graph *g, uint32_t field,
                        const char *name, struct hw_pb *out)
{
    double value;
    if (counter_near(p, g, name, &value))
        hw_pb_sint64(out, field, (int64_t)value);
}

static void put_anonymous(const struct hw_profile *p, const struct hw_heap_graph *g,
                          struct hw_pb *out)
{
    double anon, swap = 0;
    if (!counter_near(p, g, "mem.rss.anon", &anon))
        return;
    (void)counter_near(p, g, "mem.swap", &swap); /* none: nothing is swapped */
    hw_pb_sint64(out, F_STATS(anon_rss_and_swap_size), (int64_t)(anon + swap));
}

/* How many roots of each type and class. */
static int put_roots(const struct hw_profile *p, const struct hw_heap_graph *g, struct hw_pb *out)
{
    size_t n = (size_t)g->n_classes * HW_ROOT_COUNT;
    hw_autofree uint32_t *counts = calloc(n + 1, sizeof *counts);
    if (!counts)
        return HW_ENOMEM;
    for (uint32_t o = 0; o < g->n_objects; o++)
        if (hw_object_is_root(g, o))
            counts[(size_t)g->type[o] * HW_ROOT_COUNT + hw_object_root_type(g, o)]++;
    for (size_t i = 0; i < n; i++) {
        if (!counts[i])
            continue;
        hw_pb_begin(out, F_STATS(roots));
        hw_pb_str(out, F_ROOTS(root_type),
                  hw_root_type_name((enum hw_root_type)(i % HW_ROOT_COUNT)));
        hw_metric_put_str(out, F_ROOTS(type_name), p, shown_name(g, (uint32_t)(i / HW_ROOT_COUNT)));
        hw_pb_uint(out, F_ROOTS(obj_count), counts[i]);
        hw_pb_end(out);
    }
    return HW_OK;
}

static int stats_sample(const struct hw_profile *p, const struct hw_heap_graph *g,
                        struct hw_pb *out)
{
    struct hw_class_sum s = hw_heap_graph_sum(g);
    int64_t start = p->processes.v[g->upid.v].start_ns;
    hw_pb_sint64(out, F_STATS(ts), g->ts_ns);
    hw_pb_sint64(out, F_STATS(heap_size), s.all.size);
    hw_pb_sint64(out, F_STATS(reachable_heap_size), s.reachable.size);
    hw_pb_sint64(out, F_STATS(obj_count), s.all.count);
    hw_pb_sint64(out, F_STATS(reachable_obj_count), s.reachable.count);
    put_anonymous(p, g, out);
    int rc = put_roots(p, g, out);
    hw_pb_sint64(out, F_STATS(heap_native_size), s.all.native);
    hw_pb_sint64(out, F_STATS(reachable_heap_native_size), s.reachable.native);
    put_counter(p, g, F_STATS(oom_score_adj), "oom_score_adj", out);
    if (start >= 0 && start <= g->ts_ns)
        hw_pb_sint64(out, F_STATS(process_uptime_ms), (g->ts_ns - start) / 1000000);
    put_counter(p, g, F_STATS(dmabuf_rss_size), "mem.dmabuf_rss", out);
    if (g->heap_size >= 0)
        hw_pb_sint64(out, F_STATS(art_bytes_allocated), g->heap_size);
    hw_pb_uint(out, F_STATS(is_oome), g->is_oome);
    return rc;
}

int hw_metric_java_heap_stats(const struct hw_profile *p, struct hw_pb *out)
{
    return put_instances(p,
                         &(struct instance_fields){HW_F_JavaHeapStats_instance_stats,
                                                   HW_F_JavaHeapStats_InstanceStats_upid,
                                                   HW_F_JavaHeapStats_InstanceStats_process,
                                                   HW_F_JavaHeapStats_InstanceStats_samples,
                                                   stats_sample},
                         out);
}

/* ---- java_heap_histogram ---- */

#define F_HISTOGRAM(name) HW_F_JavaHeapHistogram_TypeCount_##name

/* The nearest of these among a class and those above it; NULL = none. */
static const char *category_of(const struct hw_profile *p, const struct hw_heap_graph *g,
                               uint32_t class)
{
    static const char *const special[] = {
        "android.view.View",
        "android.app.Activity",
        "android.app.Fragment",
        "android.content.ContentProviderClient",
        "android.os.Binder",
        "android.os.BinderProxy",
        "android.os.Parcel",
        "com.android.server.am.ConnectionRecord",
        "com.android.server.am.PendingIntentRecord",
    };
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    uint32_t left = 1000; /* superclasses that objects tell may form a circle */
    for (uint32_t c = class; c != HW_ID_NONE && left-- > 0; c = g->classes[c].superclass) {
        struct hw_bytes name = hw_strings_get(strings, shown_name(g, c));
        for (size_t i = 0; i < HW_ARRAY_LEN(special); i++)
            if (hw_bytes_equal(name, hw_bytes_str(special[i])))
                return special[i];
    }
    return NULL;
}

static int class_sums(const struct hw_heap_graph *g, bool dominated, struct hw_class_sum **out)
{
    struct hw_dominators d = {0};
    *out = calloc((size_t)g->n_classes + 1, sizeof **out);
    int rc = *out ? HW_OK : HW_ENOMEM;
    if (rc == HW_OK && dominated)
        rc = hw_dominators_build(g, &d);
    if (rc == HW_OK)
        rc = hw_heap_class_sums(g, dominated ? &d : NULL, *out);
    hw_dominators_done(&d);
    return rc;
}

static uint64_t kb(int64_t bytes)
{
    return (uint64_t)bytes / 1024;
}

static int histogram_sample(const struct hw_profile *p, const struct hw_heap_graph *g,
                            struct hw_pb *out)
{
    hw_autofree struct hw_class_sum *sums = NULL;
    int rc = class_sums(g, /* dominated = */ false, &sums);
    hw_pb_sint64(out, HW_F_JavaHeapHistogram_Sample_ts, g->ts_ns);
    for (uint32_t c = 0; rc == HW_OK && c < g->n_classes; c++) {
        const struct hw_class_sum *s = &sums[c];
        const char *category = s->all.count ? category_of(p, g, c) : NULL;
        if (s->all.count == 0)
            continue;
        hw_pb_begin(out, HW_F_JavaHeapHistogram_Sample_type_count);
        hw_metric_put_str(out, F_HISTOGRAM(type_name), p, shown_name(g, c));
        hw_pb_uint(out, F_HISTOGRAM(obj_count), (uint64_t)s->all.count);
        hw_pb_uint(out, F_HISTOGRAM(reachable_obj_count), (uint64_t)s->reachable.count);
        if (category)
            hw_pb_str(out, F_HISTOGRAM(category), category);
        hw_pb_uint(out, F_HISTOGRAM(size_kb), kb(s->all.size));
        hw_pb_uint(out, F_HISTOGRAM(reachable_size_kb), kb(s->reachable.size));
        hw_pb_uint(out, F_HISTOGRAM(native_size_kb), kb(s->all.native));
        hw_pb_uint(out, F_HISTOGRAM(reachable_native_size_kb), kb(s->reachable.native));
        hw_pb_end(out);
    }
    return rc;
}

int hw_metric_java_heap_histogram(const struct hw_profile *p, struct hw_pb *out)
{
    return put_instances(p,
                         &(struct instance_fields){HW_F_JavaHeapHistogram_instance_stats,
                                                   HW_F_JavaHeapHistogram_InstanceStats_upid,
                                                   HW_F_JavaHeapHistogram_InstanceStats_process,
                                                   HW_F_JavaHeapHistogram_InstanceStats_samples,
                                                   histogram_sample},
                         out);
}

/* ---- java_heap_class_stats ---- */

#define F_CLASS(name) HW_F_JavaHeapClassStats_TypeCount_##name

static int class_sample(const struct hw_profile *p, const struct hw_heap_graph *g,
                        struct hw_pb *out)
{
    hw_autofree struct hw_class_sum *sums = NULL;
    int rc = class_sums(g, /* dominated = */ true, &sums);
    hw_pb_sint64(out, HW_F_JavaHeapClassStats_Sample_ts, g->ts_ns);
    for (uint32_t c = 0; rc == HW_OK && c < g->n_classes; c++) {
        const struct hw_class_sum *s = &sums[c];
        if (s->all.count == 0)
            continue;
        hw_pb_begin(out, HW_F_JavaHeapClassStats_Sample_type_count);
        hw_metric_put_str(out, F_CLASS(type_name), p, shown_name(g, c));
        hw_pb_sint64(out, F_CLASS(obj_count), s->all.count);
        hw_pb_sint64(out, F_CLASS(size_bytes), s->all.size);
        hw_pb_sint64(out, F_CLASS(native_size_bytes), s->all.native);
        hw_pb_sint64(out, F_CLASS(reachable_obj_count), s->reachable.count);
        hw_pb_sint64(out, F_CLASS(reachable_size_bytes), s->reachable.size);
        hw_pb_sint64(out, F_CLASS(reachable_native_size_bytes), s->reachable.native);
        hw_pb_sint64(out, F_CLASS(dominated_obj_count), s->dominated.count);
        hw_pb_sint64(out, F_CLASS(dominated_size_bytes), s->dominated.size);
        hw_pb_sint64(out, F_CLASS(dominated_native_size_bytes), s->dominated.native);
        hw_pb_end(out);
    }
    return rc;
}

int hw_metric_java_heap_class_stats(const struct hw_profile *p, struct hw_pb *out)
{
    return put_instances(p,
                         &(struct instance_fields){HW_F_JavaHeapClassStats_instance_stats,
                                                   HW_F_JavaHeapClassStats_InstanceStats_upid,
                                                   HW_F_JavaHeapClassStats_InstanceStats_process,
                                                   HW_F_JavaHeapClassStats_InstanceStats_samples,
                                                   class_sample},
                         out);
}

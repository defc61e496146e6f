/* Metrics about heap graphs: one message per process with one sample per dump. */
#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/saturate.h"
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
            if (g->upid.v != u || g->n_objects == 0)
                continue;
            if (!begun) {
                hw_pb_begin(out, f->instance);
                hw_pb_uint(out, f->upid, hw_profile_upid_shown(p, (hw_upid){u}));
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

static bool is_one_of(const struct hw_profile *p, const struct hw_counter_row *c,
                      const char *const *names, size_t n)
{
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(p->callsites), c->name);
    for (size_t i = 0; i < n; i++)
        if (hw_bytes_equal(name, hw_bytes_str(names[i])))
            return true;
    return false;
}

/*
 * A span lasts from one change of any of these counters to the next. Finds, among the spans that
 * contain the dump's time or begin soon after it, the one that begins nearest to it.
 */
static bool nearest_span(const struct hw_profile *p, const struct hw_heap_graph *g,
                         const char *const *names, size_t n, int64_t *begin)
{
    int64_t before = INT64_MIN, after = INT64_MAX;
    bool has_before = false, has_after = false;
    const struct hw_process_rows rows = hw_by_process_of(&p->counters_of, g->upid);
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_counter_row *c = &p->counters.v[rows.v[i]];
        if (!is_one_of(p, c, names, n))
            continue;
        if (c->ts_ns <= g->ts_ns && c->ts_ns >= before) {
            before = c->ts_ns;
            has_before = true;
        } else if (c->ts_ns > g->ts_ns && c->ts_ns < after &&
                   hw_sat_sub(c->ts_ns, g->ts_ns) <= COUNTER_LATE_NS) {
            after = c->ts_ns;
            has_after = true;
        }
    }
    bool later =
        has_after && (!has_before || hw_sat_sub(after, g->ts_ns) < hw_sat_sub(g->ts_ns, before));
    *begin = later ? after : before;
    return has_before || has_after;
}

/* The counter's value at a time: the last one recorded by then. */
static bool value_at(const struct hw_profile *p, const struct hw_heap_graph *g, const char *name,
                     int64_t at, double *out)
{
    const struct hw_counter_row *best = NULL;
    const struct hw_process_rows rows = hw_by_process_of(&p->counters_of, g->upid);
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_counter_row *c = &p->counters.v[rows.v[i]];
        if (c->ts_ns <= at && (!best || c->ts_ns >= best->ts_ns) && is_one_of(p, c, &name, 1))
            best = c;
    }
    if (best)
        *out = best->value;
    return best != NULL;
}

static void put_counter(const struct hw_profile *p, const struct hw_heap_graph *g, uint32_t field,
                        const char *name, struct hw_pb *out)
{
    int64_t begin;
    double value;
    if (nearest_span(p, g, &name, 1, &begin) && value_at(p, g, name, begin, &value))
        hw_pb_sint64(out, field, (int64_t)value);
}

static void put_anonymous(const struct hw_profile *p, const struct hw_heap_graph *g,
                          struct hw_pb *out)
{
    static const char *const cuts[] = {"mem.rss.anon", "mem.swap", "mem.rss.file", "mem.rss.shmem"};
    int64_t begin;
    double anon, swap = 0;
    if (!nearest_span(p, g, cuts, HW_ARRAY_LEN(cuts), &begin) ||
        !value_at(p, g, cuts[0], begin, &anon))
        return;
    (void)value_at(p, g, cuts[1], begin, &swap); /* no counter: nothing is swapped */
    hw_pb_sint64(out, F_STATS(anon_rss_and_swap_size), (int64_t)(anon + swap));
}

/* Was the dump triggered by an OutOfMemoryError? Omitted unless true, or known to be false. */
static void put_is_oome(const struct hw_profile *p, const struct hw_heap_graph *g,
                        struct hw_pb *out)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    struct hw_bytes reason = hw_strings_get(strings, g->dump_reason), trigger = {NULL, 0};
    for (size_t i = 0; i < p->metadata.n; i++)
        if (hw_bytes_equal(hw_strings_get(strings, p->metadata.v[i].name),
                           hw_bytes_str("trace_trigger")))
            trigger = hw_strings_get(strings, p->metadata.v[i].text);
    bool is = hw_bytes_equal(reason, hw_bytes_str("OOME")) ||
              hw_bytes_equal(trigger, hw_bytes_str("com.android.telemetry.art-outofmemory"));
    if (is || (reason.n && trigger.n))
        hw_pb_uint(out, F_STATS(is_out_of_memory_error), is);
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
    hw_pb_sint64(out, F_STATS(heap_native_size), s.all.native);
    hw_pb_sint64(out, F_STATS(reachable_heap_native_size), s.reachable.native);
    put_counter(p, g, F_STATS(oom_score_adj), "oom_score_adj", out);
    if (start >= 0 && start <= g->ts_ns)
        hw_pb_sint64(out, F_STATS(process_uptime_ms), (g->ts_ns - start) / 1000000);
    put_counter(p, g, F_STATS(dmabuf_rss_size), "mem.dmabuf_rss", out);
    if (g->heap_size >= 0)
        hw_pb_sint64(out, F_STATS(art_bytes_allocated), g->heap_size);
    put_is_oome(p, g, out);
    if (g->is_oome) {
        hw_pb_sint64(out, F_STATS(oome_failing_allocation_size), g->oome_allocation_size);
        hw_pb_sint64(out, F_STATS(oome_remaining_art_free_bytes), g->oome_free_until);
    }
    return HW_OK;
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

/* The nearest special class among a class and its superclasses; NULL = none. */
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
    uint32_t left = 1000; /* superclasses from a trace may form a cycle */
    for (uint32_t c = class; c != HW_ID_NONE && left-- > 0; c = g->classes[c].superclass) {
        struct hw_bytes name = hw_strings_get(strings, g->classes[c].name); /* as recorded */
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
        hw_pb_uint(out, F_CLASS(is_libcore_or_array),
                   hw_class_is_libcore_or_array(
                       hw_strings_get(hw_callsites_strings(p->callsites), shown_name(g, c))));
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

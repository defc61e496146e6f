#include "views/time/span.h"

#include "base/error.h"
#include "base/memory/saturate.h"
#include "model/profile.h"
#include "views/time/process_view.h"

#include "base/banned.h"

static int heap_values(const struct hw_profile *p, const struct hw_series_list *list,
                       const struct hw_span *s, int64_t ts_ns, bool at_max, hw_values *out)
{
    const struct hw_series *series = hw_series_find(list, s->upid, s->heap_name);
    uint32_t dump = series ? hw_process_dump_at(p, series, ts_ns, at_max) : HW_ID_NONE;
    return dump == HW_ID_NONE ? HW_OK : hw_values_at(p, series, dump, out);
}

static bool is_selected(const void *ctx, const struct hw_profile *p, const struct hw_series *series)
{
    const struct hw_span *s = ctx;
    const char *name = hw_strings_cstr(hw_callsites_strings(p->callsites), series->heap_name);
    return (!s->one_heap || series->heap_name.v == s->heap_name.v) &&
           hw_filters_keep_heap(s->filters, name);
}

static int values_at(const struct hw_profile *p, const struct hw_series_list *list,
                     const struct hw_span *s, int64_t ts_ns, bool at_max, hw_values *out)
{
    if (s->filters && hw_filters_have_heap(s->filters))
        return hw_process_values_of(p, list, s->upid, ts_ns, at_max, is_selected, s, out);
    return s->one_heap ? heap_values(p, list, s, ts_ns, at_max, out)
                       : hw_process_values(p, list, s->upid, ts_ns, at_max, out);
}

int hw_span_values(const struct hw_profile *p, const struct hw_series_list *list,
                   const struct hw_span *s, hw_values *out)
{
    hw_values before = {0};
    int rc = values_at(p, list, s, s->ts_ns, s->at_max, out);
    if (rc == HW_OK && s->has_from)
        rc = values_at(p, list, s, s->from_ns, /* at_max = */ false, &before);
    for (size_t i = 0, k = 0; rc == HW_OK && i < before.n; i++) {
        while (k < out->n && out->v[k].callsite.v < before.v[i].callsite.v)
            k++;
        if (k < out->n && out->v[k].callsite.v == before.v[i].callsite.v)
            hw_value_since(&out->v[k].v, &before.v[i].v);
    }
    hw_vec_done(&before);
    return rc;
}

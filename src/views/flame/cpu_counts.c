#include "views/flame/cpu_counts.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"

#include "base/banned.h"

hw_upid hw_cpu_sample_process(const struct hw_profile *p, const struct hw_cpu_sample *s)
{
    return s->thread ? p->threads.rows.v[s->thread - 1].upid : (hw_upid){HW_ID_NONE};
}

static bool is_asked(const struct hw_profile *p, const struct hw_cpu_query *q,
                     const struct hw_cpu_sample *s)
{
    bool time = q->n_times == 0, process = q->n_upids == 0;
    for (size_t i = 0; !time && i < q->n_times; i++)
        time = q->times_ns[i] == s->ts_ns;
    if (!time || s->ts_ns < q->from_ns || s->ts_ns > q->to_ns)
        return false;
    hw_upid upid = hw_cpu_sample_process(p, s);
    for (size_t i = 0; !process && i < q->n_upids; i++)
        process = q->upids[i].v == upid.v;
    return process;
}

size_t hw_cpu_sample_counts(const struct hw_profile *p, const struct hw_cpu_query *q,
                            int64_t *counts)
{
    size_t n = 0;
    for (size_t i = 0; i < p->cpu.samples.n; i++) {
        const struct hw_cpu_sample *s = &p->cpu.samples.v[i];
        if (s->callsite.v == HW_ID_NONE || !is_asked(p, q, s))
            continue;
        counts[s->callsite.v]++;
        n++;
    }
    return n;
}

int hw_cpu_tree_build(const struct hw_profile *p, const struct hw_cpu_query *q, const char *focus,
                      hw_native_tree *out)
{
    size_t n = hw_callsites_count(p->callsites);
    hw_autofree int64_t *counts = calloc(n + 1, sizeof *counts);
    hw_autofree struct hw_native_value *values = calloc(n + 1, sizeof *values);
    hw_autofree uint8_t *seen = calloc(n + 1, 1);
    if (!counts || !values || !seen)
        return HW_ENOMEM;
    (void)hw_cpu_sample_counts(p, q, counts); /* none: an empty tree */
    for (size_t i = 0; i < n; i++) {
        values[i] = (struct hw_native_value){.count = counts[i], .size = counts[i]};
        seen[i] = counts[i] != 0;
    }
    return hw_native_tree_of(p, values, seen, focus, out);
}

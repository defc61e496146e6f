#include "views/infra/global_dumps.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory/saturate.h"

#include "base/banned.h"

static const int64_t max_dump_ns = 50 * 1000 * 1000;

static int compare_items(const void *pa, const void *pb)
{
    const struct hw_global_item *a = pa, *b = pb;
    if (a->ts_ns != b->ts_ns)
        return a->ts_ns < b->ts_ns ? -1 : 1;
    if (a->upid.v != b->upid.v)
        return a->upid.v < b->upid.v ? -1 : 1;
    return a->dump < b->dump ? -1 : a->dump > b->dump;
}

int hw_global_items_init(const struct hw_profile *p, const struct hw_series_list *list,
                         hw_global_items *out)
{
    hw_moment_list moments = {0};
    int rc = hw_moments(p, list, &moments);
    for (size_t i = 0; rc == HW_OK && i < moments.n; i++) {
        const struct hw_moment *m = &moments.v[i];
        const struct hw_heap_dump *d = &p->dumps.v[m->dump];
        struct hw_global_item x = {d->ts_ns, d->upid, m->series, m->dump, HW_ID_NONE};
        if (hw_vec_push(out, x) < 0)
            rc = HW_ENOMEM;
    }
    hw_vec_done(&moments);
    const struct hw_memory_dumps *mem = &p->memory;
    for (uint32_t i = 0; rc == HW_OK && i < mem->processes.n; i++) {
        int64_t ts = mem->snapshots.v[mem->processes.v[i].snapshot].ts_ns;
        struct hw_global_item x = {ts, mem->processes.v[i].upid, HW_ID_NONE, HW_ID_NONE, i};
        if (x.upid.v != HW_ID_NONE && hw_vec_push(out, x) < 0)
            rc = HW_ENOMEM;
    }
    if (rc == HW_OK && out->n)
        qsort(out->v, out->n, sizeof *out->v, compare_items);
    return rc;
}

static bool is_same_source(const struct hw_global_item *a, const struct hw_global_item *b)
{
    return a->upid.v == b->upid.v && a->series == b->series &&
           (a->series != HW_ID_NONE || a->process != HW_ID_NONE);
}

/* Memory dumps of different times belong to different global dumps, too. */
static bool must_be_separate(const struct hw_global_item *a, const struct hw_global_item *b)
{
    return is_same_source(a, b) ||
           (a->process != HW_ID_NONE && b->process != HW_ID_NONE && a->ts_ns != b->ts_ns);
}

/* Items of the same time stay together: all of them move to the next dump. */
static size_t first_of_time(const hw_global_items *items, size_t i, size_t end)
{
    int64_t ts = items->v[end].ts_ns;
    if (items->v[i].ts_ns == ts)
        return end;
    while (items->v[end - 1].ts_ns == ts)
        end--;
    return end;
}

size_t hw_global_end(const hw_global_items *items, size_t i)
{
    size_t end = i + 1;
    for (; end < items->n; end++) {
        if (hw_sat_sub(items->v[end].ts_ns, items->v[i].ts_ns) > max_dump_ns)
            return end;
        for (size_t k = i; k < end; k++)
            if (must_be_separate(&items->v[k], &items->v[end]))
                return first_of_time(items, i, end);
    }
    return end;
}

enum hw_memory_detail hw_global_detail(const struct hw_profile *p, const struct hw_global_item *v,
                                       size_t n)
{
    const struct hw_memory_dumps *m = &p->memory;
    enum hw_memory_detail level = HW_MEMORY_BACKGROUND;
    for (size_t i = 0; i < n; i++) {
        enum hw_memory_detail l = HW_MEMORY_DETAILED;
        if (v[i].dump == HW_ID_NONE)
            l = m->snapshots.v[m->processes.v[v[i].process].snapshot].detail;
        if (l < level)
            level = l;
    }
    return level;
}

uint32_t hw_global_process(const struct hw_profile *p, uint32_t process)
{
    const struct hw_memory_dumps *m = &p->memory;
    uint32_t snapshot = m->processes.v[process].snapshot;
    for (uint32_t i = 0; i < m->processes.n; i++)
        if (m->processes.v[i].snapshot == snapshot && m->processes.v[i].upid.v == HW_ID_NONE)
            return i;
    return HW_ID_NONE;
}

/*
 * Freezing sorts dumps by time, equal ones in the file's order, and rows by their dumps: rows of
 * one dump keep the importer's order.
 */
#include "model/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/lower_bound.h"
#include "base/memory/saturate.h"

#include "base/banned.h"

int hw_profile_new(struct hw_profile **out)
{
    struct hw_profile *p = calloc(1, sizeof *p);
    if (!p)
        return HW_ENOMEM;
    int rc = hw_callsites_new(&p->callsites);
    if (rc < 0) {
        free(p);
        return rc;
    }
    p->idle.v = p->idle_thread = HW_ID_NONE;
    *out = p;
    return HW_OK;
}

void hw_profile_free(struct hw_profile *p)
{
    if (!p)
        return;
    hw_callsites_free(p->callsites);
    hw_vec_done(&p->processes);
    hw_vec_done(&p->dumps);
    hw_alloc_rows_done(&p->allocs);
    hw_vec_done(&p->stats);
    hw_vec_done(&p->counters);
    hw_vec_done(&p->smaps);
    hw_vec_done(&p->arenas);
    hw_vec_done(&p->metadata);
    hw_vec_done(&p->packages);
    hw_vec_done(&p->users);
    hw_map64_done(&p->user_by_id);
    hw_vec_done(&p->marks);
    hw_vec_done(&p->clocks);
    hw_vec_done(&p->wall);
    hw_vec_done(&p->monotonic);
    hw_vec_done(&p->threads.rows);
    hw_slices_done(&p->slices);
    hw_map64_done(&p->new_types);
    hw_map64_done(&p->threads.by_tid);
    hw_vec_done(&p->args.rows);
    hw_memory_dumps_done(&p->memory);
    hw_cpu_samples_done(&p->cpu);
    for (size_t i = 0; i < p->graphs.n; i++)
        hw_heap_graph_free(p->graphs.v[i]);
    hw_vec_done(&p->graphs);
    hw_vec_done(&p->config_intervals);
    hw_map64_done(&p->process_by_pid);
    hw_map64_done(&p->stat_by_key);
    hw_by_process_done(&p->dumps_of);
    hw_by_process_done(&p->counters_of);
    hw_by_process_done(&p->smaps_of);
    free(p);
}

hw_frame_id hw_profile_new_caller(const struct hw_profile *p, hw_callsite_id site)
{
    const struct hw_callsite *leaf = hw_callsites_get(p->callsites, site);
    const struct hw_frame *f = hw_callsites_get_frame(p->callsites, leaf->frame);
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(p->callsites), f->name);
    bool is_new = name.n > 4 && (memcmp(name.p, "_Znw", 4) == 0 || memcmp(name.p, "_Zna", 4) == 0);
    if (!is_new || leaf->parent.v == HW_ID_NONE)
        return (hw_frame_id){HW_ID_NONE};
    return hw_callsites_get(p->callsites, leaf->parent)->frame;
}

int hw_profile_str(struct hw_profile *p, struct hw_bytes text, hw_str_id *out)
{
    return hw_strings_intern(hw_callsites_strings(p->callsites), text, out);
}

int hw_profile_process(struct hw_profile *p, int64_t pid, hw_upid *out)
{
    uint64_t at;
    if (pid < 0)
        return HW_EINVAL;
    if (hw_map64_get(&p->process_by_pid, (uint64_t)pid, &at)) {
        out->v = (uint32_t)at;
        return HW_OK;
    }
    return hw_profile_process_new(p, pid, out);
}

int hw_profile_traced_process(struct hw_profile *p, int64_t pid, hw_upid *out)
{
    if (pid != 0)
        return hw_profile_process(p, pid, out);
    if (p->idle.v == HW_ID_NONE) {
        uint32_t thread;
        int rc = hw_profile_process(p, 0, out);
        if (rc == HW_OK)
            rc = hw_profile_thread(p, *out, 0, (hw_str_id){0}, &thread);
        if (rc < 0)
            return rc;
        p->idle = *out;
        p->idle_thread = thread;
    }
    *out = p->idle;
    return HW_OK;
}

/* Maps a row of the model to a table whose row 0 is `idle`. */
static uint32_t row_shown(uint32_t row, uint32_t idle)
{
    if (row == HW_ID_NONE || row == idle)
        return 0;
    return row + 1 - (row > idle);
}

static uint32_t row_of_shown(uint32_t shown, uint32_t idle)
{
    if (shown == 0)
        return idle;
    return shown - 1 + (shown - 1 >= idle);
}

uint32_t hw_profile_upid_shown(const struct hw_profile *p, hw_upid upid)
{
    return row_shown(upid.v, p->idle.v);
}

size_t hw_profile_n_upids_shown(const struct hw_profile *p)
{
    return p->processes.n + (p->idle.v == HW_ID_NONE);
}

hw_upid hw_profile_upid_of_shown(const struct hw_profile *p, int64_t shown)
{
    if (shown < 0 || (uint64_t)shown >= hw_profile_n_upids_shown(p))
        return (hw_upid){HW_ID_NONE};
    return (hw_upid){row_of_shown((uint32_t)shown, p->idle.v)};
}

uint32_t hw_profile_utid_shown(const struct hw_profile *p, uint32_t thread)
{
    return row_shown(thread, p->idle_thread);
}

size_t hw_profile_n_utids_shown(const struct hw_profile *p)
{
    return p->threads.rows.n + (p->idle_thread == HW_ID_NONE);
}

uint32_t hw_profile_thread_of_shown(const struct hw_profile *p, uint32_t shown)
{
    return row_of_shown(shown, p->idle_thread);
}

int hw_profile_process_new(struct hw_profile *p, int64_t pid, hw_upid *out)
{
    struct hw_process row = {.pid = pid, .uid = -1, .ppid = -1, .start_ns = -1};
    if (pid < 0)
        return HW_EINVAL;
    if (hw_vec_reserve(&p->processes, p->processes.n + 1) < 0 ||
        hw_map64_put(&p->process_by_pid, (uint64_t)pid, p->processes.n) < 0)
        return HW_ENOMEM;
    out->v = (uint32_t)p->processes.n;
    p->processes.v[p->processes.n++] = row;
    /* Numbers too large for a kernel get no thread. */
    return pid > INT32_MAX ? HW_OK : hw_profile_thread(p, *out, pid, (hw_str_id){0}, NULL);
}

static int stat_row(struct hw_profile *p, const char *name, int64_t key,
                    enum hw_stat_severity severity, struct hw_stat_row **out)
{
    hw_str_id id;
    int rc = hw_profile_str(p, hw_bytes_str(name), &id);
    if (rc < 0)
        return rc;
    /* Keys are pids, upids and buffer numbers; only invalid pids of a damaged trace exceed 32 bits,
     * and share a row with their low half. */
    uint64_t map_key = (uint64_t)id.v << 32 | (uint32_t)key, at;
    if (!hw_map64_get(&p->stat_by_key, map_key, &at)) {
        at = p->stats.n;
        if (hw_vec_reserve(&p->stats, p->stats.n + 1) < 0 ||
            hw_map64_put(&p->stat_by_key, map_key, at) < 0)
            return HW_ENOMEM;
        p->stats.v[p->stats.n++] = (struct hw_stat_row){id, key, severity, 0};
    }
    *out = &p->stats.v[at];
    return HW_OK;
}

int hw_profile_stat_add(struct hw_profile *p, const char *name, int64_t key,
                        enum hw_stat_severity severity, int64_t value)
{
    struct hw_stat_row *row;
    int rc = stat_row(p, name, key, severity, &row);
    if (rc == HW_OK && __builtin_add_overflow(row->value, value, &row->value))
        row->value = INT64_MAX;
    return rc;
}

int hw_profile_stat_set(struct hw_profile *p, const char *name, int64_t key,
                        enum hw_stat_severity severity, int64_t value)
{
    struct hw_stat_row *row;
    int rc = stat_row(p, name, key, severity, &row);
    if (rc == HW_OK)
        row->value = value;
    return rc;
}

int hw_profile_metadata_set(struct hw_profile *p, const char *name, const char *text,
                            int64_t number)
{
    struct hw_metadata_row row = {.number = number};
    int rc = hw_profile_str(p, hw_bytes_str(name), &row.name);
    if (rc == HW_OK && text)
        rc = hw_profile_str(p, hw_bytes_str(text), &row.text);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < p->metadata.n; i++)
        if (p->metadata.v[i].name.v == row.name.v) {
            p->metadata.v[i] = row;
            return HW_OK;
        }
    return hw_vec_push(&p->metadata, row) < 0 ? HW_ENOMEM : HW_OK;
}

int hw_profile_add_graph(struct hw_profile *p, struct hw_heap_graph *g)
{
    if (hw_vec_push(&p->graphs, g) == 0)
        return HW_OK;
    hw_heap_graph_free(g);
    return HW_ENOMEM;
}

struct dump_order {
    const struct hw_heap_dump *dump;
    uint32_t index;
};

static int compare_dumps(const void *pa, const void *pb)
{
    const struct dump_order *a = pa, *b = pb;
    if (a->dump->ts_ns != b->dump->ts_ns)
        return a->dump->ts_ns < b->dump->ts_ns ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Sorts the dumps and fills new_index[old dump]. */
static int sort_dumps(struct hw_profile *p, uint32_t *new_index)
{
    size_t n = p->dumps.n;
    hw_autofree struct dump_order *order = calloc(n, sizeof *order);
    struct hw_heap_dump *sorted = calloc(n, sizeof *sorted);
    if (!order || !sorted) {
        free(sorted);
        return HW_ENOMEM;
    }
    for (size_t i = 0; i < n; i++)
        order[i] = (struct dump_order){&p->dumps.v[i], (uint32_t)i};
    qsort(order, n, sizeof *order, compare_dumps);
    for (size_t i = 0; i < n; i++) {
        new_index[order[i].index] = (uint32_t)i;
        sorted[i] = *order[i].dump;
    }
    free(p->dumps.v);
    p->dumps.v = sorted;
    p->dumps.cap = n;
    return HW_OK;
}

static int compare_graphs(const void *pa, const void *pb)
{
    const struct hw_heap_graph *a = *(struct hw_heap_graph *const *)pa;
    const struct hw_heap_graph *b = *(struct hw_heap_graph *const *)pb;
    if (a->ts_ns != b->ts_ns)
        return a->ts_ns < b->ts_ns ? -1 : 1;
    if (a->upid.v != b->upid.v)
        return a->upid.v < b->upid.v ? -1 : 1;
    return a->first_object < b->first_object ? -1 : a->first_object > b->first_object;
}

/* Sorts the graphs and numbers the rows of all of them. */
static int number_graphs(struct hw_profile *p)
{
    uint64_t objects = 0, refs = 0, classes = 0, sets = 0, primitives = 0, data = 0, threads = 0;
    uint64_t blocks = 0, links = 0, holders = 0;
    for (size_t i = 0; i < p->graphs.n; i++)
        p->graphs.v[i]->first_object = (uint32_t)i; /* equal ones keep their order */
    if (p->graphs.n)
        qsort(p->graphs.v, p->graphs.n, sizeof *p->graphs.v, compare_graphs);
    for (size_t i = 0; i < p->graphs.n; i++) {
        struct hw_heap_graph *g = p->graphs.v[i];
        g->number = (uint32_t)i;
        g->first_object = (uint32_t)objects;
        g->first_reference = (uint32_t)refs;
        g->first_class = (uint32_t)classes;
        g->first_primitive = (uint32_t)primitives;
        g->first_primitive_set = (uint32_t)sets;
        g->first_data = (uint32_t)data;
        g->first_thread = (uint32_t)threads;
        g->first_block = (uint32_t)blocks;
        g->first_link = (uint32_t)links;
        blocks += g->blocks.n;
        links += g->links.n;
        g->first_holder = (uint32_t)holders;
        holders += g->holders.n;
        objects += g->n_objects;
        refs += g->n_refs;
        classes += g->n_classes;
        primitives += g->primitives.n;
        sets += g->primitives.n ? (uint64_t)g->primitives.v[g->primitives.n - 1].set + 1 : 0;
        data += g->data.n;
        threads += g->threads.n;
        if ((objects | refs | classes | primitives | sets | data | threads | blocks | links |
             holders) >= HW_ID_NONE)
            return HW_ELIMIT;
    }
    return HW_OK;
}

static int moment_order(const void *a, const void *b)
{
    const struct hw_clock_moment *x = a, *y = b;
    return x->ts_ns != y->ts_ns ? (x->ts_ns > y->ts_ns) - (x->ts_ns < y->ts_ns)
                                : (x->there_ns > y->there_ns) - (x->there_ns < y->there_ns);
}

static int mark_order(const void *a, const void *b)
{
    const struct hw_mark_row *x = a, *y = b;
    return x->ts_ns != y->ts_ns ? (x->ts_ns > y->ts_ns) - (x->ts_ns < y->ts_ns)
                                : (x->name.v > y->name.v) - (x->name.v < y->name.v);
}

static int index_processes(struct hw_profile *p)
{
    int rc = hw_by_process_init(&p->dumps_of, p->dumps.v, p->dumps.n, sizeof *p->dumps.v);
    if (rc == HW_OK)
        rc = hw_by_process_init(&p->counters_of, p->counters.v, p->counters.n,
                                sizeof *p->counters.v);
    if (rc == HW_OK)
        rc = hw_by_process_init(&p->smaps_of, p->smaps.v, p->smaps.n, sizeof *p->smaps.v);
    return rc;
}

int hw_profile_freeze(struct hw_profile *p)
{
    if (p->frozen)
        return HW_OK;
    int numbered = number_graphs(p);
    if (numbered == HW_OK)
        numbered = hw_cpu_samples_sort(&p->cpu);
    if (numbered == HW_OK)
        numbered = hw_slices_finish(p);
    if (numbered < 0)
        return numbered;
    if (p->dumps.n) {
        hw_autofree uint32_t *new_index = calloc(p->dumps.n, sizeof *new_index);
        if (!new_index)
            return HW_ENOMEM;
        int rc = sort_dumps(p, new_index);
        if (rc == HW_OK)
            rc = hw_alloc_rows_sort(&p->allocs, new_index);
        if (rc < 0)
            return rc;
    }
    int indexed = index_processes(p);
    if (indexed < 0)
        return indexed;
    if (p->wall.n)
        qsort(p->wall.v, p->wall.n, sizeof *p->wall.v, moment_order);
    if (p->monotonic.n)
        qsort(p->monotonic.v, p->monotonic.n, sizeof *p->monotonic.v, moment_order);
    if (p->marks.n)
        qsort(p->marks.v, p->marks.n, sizeof *p->marks.v, mark_order);
    p->frozen = true;
    return HW_OK;
}

static bool other_clock(const struct hw_clock_moment *v, size_t n, int64_t ts_ns, int64_t *out)
{
    if (n == 0)
        return false;
    size_t after = HW_LOWER_BOUND(i, 0, n, v[i].ts_ns <= ts_ns);
    const struct hw_clock_moment *at = &v[after ? after - 1 : 0];
    *out = hw_sat_add(at->there_ns, hw_sat_sub(ts_ns, at->ts_ns));
    return true;
}

bool hw_profile_wall_ns(const struct hw_profile *p, int64_t ts_ns, int64_t *out)
{
    return other_clock(p->wall.v, p->wall.n, ts_ns, out);
}

bool hw_profile_monotonic_ns(const struct hw_profile *p, int64_t ts_ns, int64_t *out)
{
    return other_clock(p->monotonic.v, p->monotonic.n, ts_ns, out);
}

void hw_profile_dump_rows(const struct hw_profile *p, uint32_t dump, size_t *first, size_t *n)
{
    hw_alloc_rows_of_dump(&p->allocs, dump, first, n);
}

#include "export/chrome.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/memory/map64.h"
#include "base/text/json_out.h"
#include "model/profile.h"

#include "base/banned.h"

/* Live so far, by process and heap: rows are differences between dumps. */
struct live {
    int64_t bytes, objects;
};

struct chrome {
    const struct hw_profile *p;
    struct hw_json j;
    struct hw_map64 live_of; /* upid << 32 | heap name -> index into live */
    HW_VEC(struct live) live;
    uint32_t *first_node; /* by process of the memory dumps, whose nodes are contiguous */
    uint32_t *first_edge; /* by process, then next_edge; HW_ID_NONE = no more */
    uint32_t *next_edge;
    uint32_t *all_of; /* by snapshot: the process that carries the global nodes */
};

static struct hw_bytes text_of(const struct chrome *c, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(c->p->callsites), id);
}

static void begin_thread_event(struct chrome *c, const char *phase, hw_upid upid, int64_t tid,
                               struct hw_bytes name)
{
    hw_json_begin_object(&c->j);
    hw_json_key(&c->j, "ph");
    hw_json_str(&c->j, phase);
    hw_json_key(&c->j, "pid");
    hw_json_int(&c->j, c->p->processes.v[upid.v].pid);
    hw_json_key(&c->j, "tid");
    hw_json_int(&c->j, tid);
    hw_json_key(&c->j, "name");
    hw_json_strn(&c->j, name.p, name.n);
}

static void begin_event(struct chrome *c, const char *phase, hw_upid upid, struct hw_bytes name)
{
    begin_thread_event(c, phase, upid, c->p->processes.v[upid.v].pid, name);
}

static void put_time(struct chrome *c, int64_t ts_ns)
{
    hw_json_key(&c->j, "ts");
    hw_json_double(&c->j, (double)ts_ns / 1000);
    hw_json_key(&c->j, "args");
    hw_json_begin_object(&c->j);
}

static void end_event(struct chrome *c)
{
    hw_json_end_object(&c->j);
    hw_json_end_object(&c->j);
}

static void put_processes(struct chrome *c)
{
    for (uint32_t i = 0; i < c->p->processes.n; i++) {
        struct hw_bytes name = text_of(c, c->p->processes.v[i].name);
        if (!name.n)
            continue; /* only named as a parent, say */
        begin_event(c, "M", (hw_upid){i}, hw_bytes_str("process_name"));
        hw_json_key(&c->j, "args");
        hw_json_begin_object(&c->j);
        hw_json_key(&c->j, "name");
        hw_json_strn(&c->j, name.p, name.n);
        end_event(c);
    }
    for (size_t i = 0; i < c->p->threads.rows.n; i++) {
        const struct hw_thread *t = &c->p->threads.rows.v[i];
        struct hw_bytes name = text_of(c, t->name);
        if (!t->name.v || t->upid.v == HW_ID_NONE)
            continue;
        begin_thread_event(c, "M", t->upid, t->tid, hw_bytes_str("thread_name"));
        hw_json_key(&c->j, "args");
        hw_json_begin_object(&c->j);
        hw_json_key(&c->j, "name");
        hw_json_strn(&c->j, name.p, name.n);
        end_event(c);
    }
}

/* ---- memory dumps: phase v, numbers in hex ---- */

/* All dumps of one moment share an id, across processes. */
static void begin_dump(struct chrome *c, hw_upid upid, int64_t ts_ns, const char *detail)
{
    begin_event(c, "v", upid, hw_bytes_str("explicitly_triggered"));
    char id[24];
    (void)snprintf(id, sizeof id, "0x%llx", (unsigned long long)ts_ns);
    hw_json_kv_str(&c->j, "id", id);
    put_time(c, ts_ns);
    hw_json_key(&c->j, "dumps");
    hw_json_begin_object(&c->j);
    hw_json_kv_str(&c->j, "level_of_detail", detail);
    hw_json_key(&c->j, "allocators");
    hw_json_begin_object(&c->j);
}

static void put_scalar(struct chrome *c, const char *name, const char *units, uint64_t v)
{
    hw_json_key(&c->j, name);
    hw_json_begin_object(&c->j);
    hw_json_kv_str(&c->j, "type", "scalar");
    hw_json_kv_str(&c->j, "units", units);
    hw_json_kv_hex(&c->j, "value", v);
    hw_json_end_object(&c->j);
}

static void begin_allocator(struct chrome *c, struct hw_bytes path)
{
    struct hw_strbuf key = {0};
    hw_strbuf_add(&key, path.p, path.n);
    hw_json_key(&c->j, key.p ? key.p : "");
    hw_strbuf_done(&key);
    hw_json_begin_object(&c->j);
}

/* Each heap of a dump becomes an allocator. */
static void put_heap_dump(struct chrome *c, const struct hw_heap_dump *d, const struct live *now)
{
    struct hw_bytes name = text_of(c, d->heap_name);
    begin_dump(c, d->upid, d->ts_ns, "light");
    begin_allocator(c, hw_bytes_equal(name, hw_bytes_str("libc.malloc")) ? hw_bytes_str("malloc")
                                                                         : name);
    hw_json_key(&c->j, "attrs");
    hw_json_begin_object(&c->j);
    put_scalar(c, "size", "bytes", now->bytes > 0 ? (uint64_t)now->bytes : 0);
    put_scalar(c, "object_count", "objects", now->objects > 0 ? (uint64_t)now->objects : 0);
    hw_json_end_object(&c->j);
    hw_json_end_object(&c->j);
    hw_json_end_object(&c->j);
    hw_json_end_object(&c->j);
    end_event(c);
}

static void put_nodes(struct chrome *c, uint32_t process)
{
    const struct hw_memory_dumps *m = &c->p->memory;
    for (size_t i = c->first_node[process]; i < m->nodes.n; i++) {
        const struct hw_memory_node *n = &m->nodes.v[i];
        if (n->process != process)
            return;
        if (n->unspecified || !n->guid)
            continue;
        begin_allocator(c, text_of(c, n->path));
        hw_json_kv_hex(&c->j, "guid", n->guid);
        hw_json_key(&c->j, "attrs");
        hw_json_begin_object(&c->j);
        if (n->has_size)
            put_scalar(c, "size", "bytes", n->size);
        hw_json_end_object(&c->j);
        hw_json_end_object(&c->j);
    }
}

static void put_owners(struct chrome *c, uint32_t process)
{
    const struct hw_memory_dumps *m = &c->p->memory;
    hw_json_key(&c->j, "allocators_graph");
    hw_json_begin_array(&c->j);
    for (uint32_t i = c->first_edge[process]; i != HW_ID_NONE; i = c->next_edge[i]) {
        const struct hw_memory_edge *e = &m->edges.v[i];
        if (!e->source_guid || !e->target_guid) /* made by us */
            continue;
        hw_json_begin_object(&c->j);
        hw_json_kv_hex(&c->j, "source", e->source_guid);
        hw_json_kv_hex(&c->j, "target", e->target_guid);
        hw_json_kv_uint(&c->j, "importance", e->importance);
        hw_json_kv_str(&c->j, "type", "ownership");
        hw_json_end_object(&c->j);
    }
    hw_json_end_array(&c->j);
}

/* Nodes of all processes (`global/…`) go to the first process of their snapshot. */
static void put_snapshots(struct chrome *c)
{
    static const char *const details[] = {"detailed", "light", "background"};
    const struct hw_memory_dumps *m = &c->p->memory;
    for (uint32_t i = 0; i < m->processes.n; i++) {
        const struct hw_memory_process *q = &m->processes.v[i];
        const struct hw_memory_snapshot *s = &m->snapshots.v[q->snapshot];
        if (q->upid.v == HW_ID_NONE)
            continue;
        begin_dump(c, q->upid, s->ts_ns, details[s->detail]);
        put_nodes(c, i);
        if (c->all_of[q->snapshot] != HW_ID_NONE)
            put_nodes(c, c->all_of[q->snapshot]);
        c->all_of[q->snapshot] = HW_ID_NONE;
        hw_json_end_object(&c->j);
        put_owners(c, i);
        hw_json_end_object(&c->j);
        end_event(c);
    }
}

static int find_nodes(struct chrome *c)
{
    const struct hw_memory_dumps *m = &c->p->memory;
    c->first_node = malloc((m->processes.n + 1) * sizeof *c->first_node);
    c->first_edge = malloc((m->processes.n + 1) * sizeof *c->first_edge);
    c->next_edge = malloc((m->edges.n + 1) * sizeof *c->next_edge);
    c->all_of = malloc((m->snapshots.n + 1) * sizeof *c->all_of);
    if (!c->first_node || !c->first_edge || !c->next_edge || !c->all_of)
        return HW_ENOMEM;
    for (size_t i = 0; i < m->snapshots.n; i++)
        c->all_of[i] = HW_ID_NONE;
    for (uint32_t i = 0; i < m->processes.n; i++) {
        c->first_node[i] = c->first_edge[i] = HW_ID_NONE;
        if (m->processes.v[i].upid.v == HW_ID_NONE)
            c->all_of[m->processes.v[i].snapshot] = i;
    }
    for (uint32_t i = (uint32_t)m->nodes.n; i-- > 0;)
        c->first_node[m->nodes.v[i].process] = i;
    for (uint32_t i = (uint32_t)m->edges.n; i-- > 0;) {
        const struct hw_memory_edge *e = &m->edges.v[i];
        if (e->source == HW_ID_NONE)
            continue;
        uint32_t *first = &c->first_edge[m->nodes.v[e->source].process];
        c->next_edge[i] = *first;
        *first = i;
    }
    return HW_OK;
}

static int live_of(struct chrome *c, const struct hw_heap_dump *d, struct live **out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&c->live_of, (uint64_t)d->upid.v << 32 | d->heap_name.v, &at, &fresh);
    if (rc == HW_OK && fresh) {
        *at = c->live.n;
        if (hw_vec_push(&c->live, (struct live){0, 0}) < 0)
            rc = HW_ENOMEM;
    }
    if (rc == HW_OK)
        *out = &c->live.v[*at];
    return rc;
}

/* Dumps are in order of time. A dump at max describes the peak and does not change the sums. */
static int put_dumps(struct chrome *c)
{
    for (uint32_t i = 0; i < c->p->dumps.n; i++) {
        const struct hw_heap_dump *d = &c->p->dumps.v[i];
        struct live sum = {0, 0}, *now = &sum;
        bool at_max = d->flags & HW_DUMP_AT_MAX;
        int rc = at_max ? HW_OK : live_of(c, d, &now);
        if (rc < 0)
            return rc;
        size_t first, n;
        hw_profile_dump_rows(c->p, i, &first, &n);
        for (size_t k = first; k < first + n; k++) {
            now->bytes += hw_alloc_size(&c->p->allocs, k);
            now->objects += hw_alloc_count(&c->p->allocs, k);
        }
        begin_event(c, "C", d->upid, text_of(c, d->heap_name));
        put_time(c, d->ts_ns);
        hw_json_key(&c->j, at_max ? "peak_bytes" : "live_bytes");
        hw_json_int(&c->j, now->bytes);
        hw_json_key(&c->j, at_max ? "peak_objects" : "live_objects");
        hw_json_int(&c->j, now->objects);
        end_event(c);
        if (!at_max)
            put_heap_dump(c, d, now);
    }
    return HW_OK;
}

static void put_counters(struct chrome *c)
{
    for (size_t i = 0; i < c->p->counters.n; i++) {
        const struct hw_counter_row *r = &c->p->counters.v[i];
        begin_event(c, "C", r->upid, text_of(c, r->name));
        put_time(c, r->ts_ns);
        hw_json_key(&c->j, "value");
        hw_json_double(&c->j, r->value);
        end_event(c);
    }
}

int hw_export_chrome(const struct hw_profile *p, int fd, struct hw_error *err)
{
    struct chrome c = {.p = p};
    hw_json_init(&c.j, hw_json_write_fd, &fd, /* pretty = */ false);
    hw_json_begin_object(&c.j);
    hw_json_key(&c.j, "displayTimeUnit");
    hw_json_str(&c.j, "ns");
    hw_json_key(&c.j, "traceEvents");
    hw_json_begin_array(&c.j);
    put_processes(&c);
    int rc = put_dumps(&c);
    put_counters(&c);
    if (rc == HW_OK)
        rc = find_nodes(&c);
    if (rc == HW_OK)
        put_snapshots(&c);
    hw_json_end_array(&c.j);
    hw_json_end_object(&c.j);
    int written = hw_json_finish(&c.j);
    hw_json_done(&c.j);
    hw_vec_done(&c.live);
    free(c.first_node);
    free(c.first_edge);
    free(c.next_edge);
    free(c.all_of);
    hw_map64_done(&c.live_of);
    if (rc == HW_OK)
        rc = written;
    return rc == HW_ESYS ? hw_fail_sys(err, "cannot write the output")
           : rc < 0      ? hw_fail(err, rc, 0, "JSON trace:")
                         : HW_OK;
}

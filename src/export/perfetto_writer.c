/*
 * A profile of any format as a Perfetto trace.
 *
 * Timestamps of the input are kept: one clock snapshot says that all clocks agree. Heap dumps go
 * through the recorder's writer. A memory dump is one MemoryTrackerSnapshot per process, all with
 * the timestamp of the dump, beside the process totals and mappings of that time. The format has no
 * allocation types: a callstack's types are added up.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/lower_bound.h"
#include "base/memory/map64.h"
#include "base/text/text_parts.h"
#include "codec/pb.h"
#include "export/export.h"
#include "schema/fields.h"
#include "trace/process_writer.h"
#include "trace/profile_writer.h"
#include "trace/writer.h"
#include "views/time/series.h"

#include "base/banned.h"

#define SNAPSHOT(name) HW_F_MemoryTrackerSnapshot_##name
#define PROCESS(name)  HW_F_MemoryTrackerSnapshot_ProcessSnapshot_##name
#define NODE(name)     HW_F_MemoryTrackerSnapshot_ProcessSnapshot_MemoryNode_##name
#define ENTRY(name)    HW_F_MemoryTrackerSnapshot_ProcessSnapshot_MemoryNode_MemoryNodeEntry_##name
#define EDGE(name)     HW_F_MemoryTrackerSnapshot_ProcessSnapshot_MemoryEdge_##name
#define UNITS(name)                                                                                \
    HW_V_MemoryTrackerSnapshot_ProcessSnapshot_MemoryNode_MemoryNodeEntry_Units_##name

struct job {
    const struct hw_profile *p;
    struct hw_trace_writer *w;
    uint32_t sequence;
    struct hw_error *err;
};

static struct hw_bytes str(const struct job *j, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(j->p->callsites), id);
}

static const char *cstr(const struct job *j, hw_str_id id)
{
    return hw_strings_cstr(hw_callsites_strings(j->p->callsites), id);
}

static void put_text(struct hw_pb *pb, uint32_t field, struct hw_bytes text)
{
    hw_pb_bytes(pb, field, text.p, text.n);
}

/* ---- clocks and processes ---- */

static int put_clocks(struct job *j)
{
    static const uint32_t clocks[] = {HW_V_BuiltinClock_BUILTIN_CLOCK_BOOTTIME,
                                      HW_V_BuiltinClock_BUILTIN_CLOCK_MONOTONIC,
                                      HW_V_BuiltinClock_BUILTIN_CLOCK_MONOTONIC_COARSE};
    uint64_t at = j->p->first_ns > 0 ? (uint64_t)j->p->first_ns : 1;
    struct hw_pb *pb = hw_trace_begin(j->w, j->sequence, at);
    hw_pb_begin(pb, HW_F_TracePacket_clock_snapshot);
    for (size_t i = 0; i < HW_ARRAY_LEN(clocks); i++) {
        hw_pb_begin(pb, HW_F_ClockSnapshot_clocks);
        hw_pb_uint(pb, HW_F_ClockSnapshot_Clock_clock_id, clocks[i]);
        hw_pb_uint(pb, HW_F_ClockSnapshot_Clock_timestamp, at);
        hw_pb_end(pb);
    }
    hw_pb_uint(pb, HW_F_ClockSnapshot_primary_trace_clock, clocks[0]);
    hw_pb_end(pb);
    return hw_trace_end(j->w, j->err);
}

static int put_processes(struct job *j)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < j->p->processes.n; i++) {
        const struct hw_process *x = &j->p->processes.v[i];
        const char *name = cstr(j, x->cmdline.v ? x->cmdline : x->name);
        struct hw_process_entry entry = {.pid = (int32_t)x->pid,
                                         .ppid = (int32_t)(x->ppid > 0 ? x->ppid : 0),
                                         .uid = (int32_t)(x->uid > 0 ? x->uid : 0),
                                         .cmdline = &name,
                                         .n_cmdline = 1,
                                         .start_from_boot_ns =
                                             x->start_ns > 0 ? (uint64_t)x->start_ns : HW_ABSENT};
        bool is_known =
            x->name.v || x->cmdline.v || x->uid >= 0 || x->ppid >= 0 || x->start_ns >= 0;
        if (is_known && x->pid > 0 && x->pid <= INT32_MAX)
            rc = hw_trace_process_tree(j->w, j->sequence, (uint64_t)j->p->first_ns, &entry, 1, NULL,
                                       0, j->err);
    }
    return rc;
}

/* ---- totals ---- */

static bool is(const struct job *j, hw_str_id name, const char *word)
{
    return hw_bytes_equal(str(j, name), hw_bytes_str(word));
}

static void take_counter(const struct job *j, const struct hw_counter_row *r,
                         struct hw_process_counters *c, struct hw_malloc_info *m, bool *has_malloc)
{
    const struct {
        const char *name;
        uint64_t *kb, *bytes;
    } known[] = {{"mem.rss", &c->vm_rss_kb, NULL},
                 {"mem.rss.anon", &c->rss_anon_kb, NULL},
                 {"mem.rss.file", &c->rss_file_kb, NULL},
                 {"mem.rss.shmem", &c->rss_shmem_kb, NULL},
                 {"mem.rss.watermark", &c->vm_hwm_kb, NULL},
                 {"mem.swap", &c->vm_swap_kb, NULL},
                 {"mem.locked", &c->vm_locked_kb, NULL},
                 {"mem.virt", &c->vm_size_kb, NULL},
                 {"malloc_info.arena", NULL, &m->arena_bytes},
                 {"malloc_info.mmap", NULL, &m->mmap_bytes},
                 {"malloc_info.in_use", NULL, &m->in_use_bytes},
                 {"malloc_info.free", NULL, &m->free_bytes},
                 {"malloc_info.releasable", NULL, &m->releasable_bytes},
                 {"account.in_use.live", NULL, &m->live_bytes},
                 {"account.in_use.rounding", NULL, &m->rounding_bytes}};
    uint64_t value = r->value >= 0 && r->value < 9e18 ? (uint64_t)r->value : 0;
    for (size_t i = 0; i < HW_ARRAY_LEN(known); i++) {
        if (!is(j, r->name, known[i].name))
            continue;
        *has_malloc |= known[i].bytes != NULL;
        if (known[i].kb)
            *known[i].kb = value / 1024;
        else
            *known[i].bytes = value;
        return;
    }
    /* The format has only its parts, anonymous and swapped memory. */
    if (is(j, r->name, "mem.private_footprint") && c->rss_anon_kb == HW_ABSENT)
        c->rss_anon_kb = value / 1024;
}

struct counter_at {
    const struct hw_counter_row *row;
    size_t order;
};

static int compare_counters(const void *pa, const void *pb)
{
    const struct counter_at *a = pa, *b = pb;
    if (a->row->ts_ns != b->row->ts_ns)
        return a->row->ts_ns < b->row->ts_ns ? -1 : 1;
    if (a->row->upid.v != b->row->upid.v)
        return a->row->upid.v < b->row->upid.v ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static int put_counters_of(struct job *j, const struct counter_at *at, size_t n)
{
    struct hw_process_counters c;
    int32_t pid = (int32_t)j->p->processes.v[at->row->upid.v].pid;
    struct hw_malloc_info m = {.pid = pid, .live_bytes = HW_ABSENT, .rounding_bytes = HW_ABSENT};
    bool has_malloc = false;
    hw_process_counters_init(&c, pid);
    for (size_t i = 0; i < n; i++)
        take_counter(j, at[i].row, &c, &m, &has_malloc);
    uint64_t ts = (uint64_t)at->row->ts_ns;
    int rc = hw_trace_process_stats(j->w, j->sequence, ts, &c, 1, j->err);
    return rc == HW_OK && has_malloc ? hw_trace_malloc_info(j->w, j->sequence, ts, &m, j->err) : rc;
}

static int put_counters(struct job *j)
{
    HW_VEC(struct counter_at) rows = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < j->p->counters.n; i++) {
        const struct hw_counter_row *r = &j->p->counters.v[i];
        if (r->upid.v < j->p->processes.n && r->ts_ns >= 0 &&
            hw_vec_push(&rows, (struct counter_at){r, i}) < 0)
            rc = HW_ENOMEM;
    }
    if (rows.n)
        qsort(rows.v, rows.n, sizeof *rows.v, compare_counters);
    for (size_t i = 0, end; rc == HW_OK && i < rows.n; i = end) {
        for (end = i + 1; end < rows.n && rows.v[end].row->ts_ns == rows.v[i].row->ts_ns &&
                          rows.v[end].row->upid.v == rows.v[i].row->upid.v;)
            end++;
        rc = put_counters_of(j, rows.v + i, end - i);
    }
    hw_vec_done(&rows);
    return rc;
}

/* ---- mappings ---- */

static void put_region(const struct job *j, struct hw_pb *pb, const struct hw_smaps_row *r)
{
    const struct {
        uint32_t field;
        uint64_t value;
    } numbers[] = {{HW_F_SmapsEntry_size_kb, r->size_kb},
                   {HW_F_SmapsEntry_private_dirty_kb, r->private_dirty_kb},
                   {HW_F_SmapsEntry_swap_kb, r->swap_kb},
                   {HW_F_SmapsEntry_start_address, r->start_address},
                   {HW_F_SmapsEntry_module_timestamp, r->module_timestamp},
                   {HW_F_SmapsEntry_protection_flags, r->protection_flags},
                   {HW_F_SmapsEntry_private_clean_resident_kb, r->private_clean_kb},
                   {HW_F_SmapsEntry_shared_dirty_resident_kb, r->shared_dirty_kb},
                   {HW_F_SmapsEntry_shared_clean_resident_kb, r->shared_clean_kb},
                   {HW_F_SmapsEntry_locked_kb, r->locked_kb},
                   {HW_F_SmapsEntry_proportional_resident_kb, r->pss_kb}};
    const struct {
        uint32_t field;
        hw_str_id text;
    } texts[] = {{HW_F_SmapsEntry_path, r->path},
                 {HW_F_SmapsEntry_file_name, r->file_name},
                 {HW_F_SmapsEntry_module_debugid, r->module_debugid},
                 {HW_F_SmapsEntry_module_debug_path, r->module_debug_path}};
    hw_pb_begin(pb, HW_F_SmapsPacket_entries);
    for (size_t i = 0; i < HW_ARRAY_LEN(texts); i++)
        if (texts[i].text.v)
            put_text(pb, texts[i].field, str(j, texts[i].text));
    for (size_t i = 0; i < HW_ARRAY_LEN(numbers); i++)
        if (numbers[i].value != HW_SMAPS_UNKNOWN)
            hw_pb_uint(pb, numbers[i].field, numbers[i].value);
    hw_pb_end(pb);
}

static int put_smaps(struct job *j)
{
    const struct hw_smaps_row *rows = j->p->smaps.v;
    int rc = HW_OK;
    for (size_t i = 0, end; rc == HW_OK && i < j->p->smaps.n; i = end) {
        struct hw_pb *pb = hw_trace_begin(j->w, j->sequence, (uint64_t)rows[i].ts_ns);
        hw_pb_begin(pb, HW_F_TracePacket_smaps_packet);
        hw_pb_uint(pb, HW_F_SmapsPacket_pid, (uint64_t)j->p->processes.v[rows[i].upid.v].pid);
        for (end = i; end < j->p->smaps.n && rows[end].ts_ns == rows[i].ts_ns &&
                      rows[end].upid.v == rows[i].upid.v;
             end++)
            put_region(j, pb, &rows[end]);
        hw_pb_end(pb);
        rc = hw_trace_end(j->w, j->err);
    }
    return rc;
}

/* ---- memory dumps ---- */

static size_t first_arg(const struct hw_profile *p, uint32_t set)
{
    return HW_LOWER_BOUND(mid, 0, p->args.rows.n, p->args.rows.v[mid].set < set);
}

/* Rows NAME.value, some followed by a NAME.unit. */
static void put_entries(const struct job *j, struct hw_pb *pb, uint32_t set)
{
    const struct hw_arg_row *rows = j->p->args.rows.v;
    for (size_t i = first_arg(j->p, set); i < j->p->args.rows.n && rows[i].set == set; i++) {
        struct hw_bytes key = str(j, rows[i].key);
        if (!hw_bytes_end_with(key, ".value"))
            continue;
        bool has_unit = i + 1 < j->p->args.rows.n && rows[i + 1].set == set &&
                        hw_bytes_end_with(str(j, rows[i + 1].key), ".unit");
        hw_pb_begin(pb, NODE(entries));
        hw_pb_bytes(pb, ENTRY(name), key.p, key.n - 6);
        if (rows[i].type == HW_ARG_STRING)
            put_text(pb, ENTRY(value_string), str(j, rows[i].text));
        else
            hw_pb_uint(pb, ENTRY(value_uint64), (uint64_t)rows[i].number);
        if (has_unit)
            hw_pb_uint(pb, ENTRY(units),
                       is(j, rows[i + 1].text, "bytes") ? UNITS(BYTES) : UNITS(COUNT));
        hw_pb_end(pb);
    }
}

/* Nodes that our model derived are left out: readers derive their own. */
static bool is_ours(const struct hw_memory_node *n)
{
    return n->guid == 0;
}

static void put_node(const struct job *j, struct hw_pb *pb, const struct hw_memory_node *n)
{
    hw_pb_begin(pb, PROCESS(allocator_dumps));
    hw_pb_uint(pb, NODE(id), n->guid);
    put_text(pb, NODE(absolute_name), str(j, n->path));
    if (n->weak)
        hw_pb_uint(pb, NODE(weak), 1);
    if (n->told_size)
        hw_pb_uint(pb, NODE(size_bytes), n->size);
    if (n->arg_set != HW_ID_NONE)
        put_entries(j, pb, n->arg_set);
    hw_pb_end(pb);
}

static void put_edges(const struct job *j, struct hw_pb *pb, uint32_t process)
{
    const struct hw_memory_dumps *m = &j->p->memory;
    for (size_t i = 0; i < m->edges.n; i++) {
        const struct hw_memory_edge *e = &m->edges.v[i];
        if (e->source == HW_ID_NONE || e->target == HW_ID_NONE ||
            m->nodes.v[e->source].process != process || !m->nodes.v[e->source].guid ||
            !m->nodes.v[e->target].guid)
            continue;
        hw_pb_begin(pb, PROCESS(memory_edges));
        hw_pb_uint(pb, EDGE(source_id), m->nodes.v[e->source].guid);
        hw_pb_uint(pb, EDGE(target_id), m->nodes.v[e->target].guid);
        hw_pb_uint(pb, EDGE(importance), e->importance);
        hw_pb_end(pb);
    }
}

static int put_memory_dump(struct job *j, uint32_t process, size_t *first)
{
    const struct hw_memory_dumps *m = &j->p->memory;
    const struct hw_memory_process *x = &m->processes.v[process];
    const struct hw_memory_snapshot *s = &m->snapshots.v[x->snapshot];
    int64_t pid = x->upid.v == HW_ID_NONE ? 0 : j->p->processes.v[x->upid.v].pid;
    struct hw_pb *pb = hw_trace_begin(j->w, j->sequence, (uint64_t)s->ts_ns);
    hw_pb_begin(pb, HW_F_TracePacket_memory_tracker_snapshot);
    hw_pb_uint(pb, SNAPSHOT(global_dump_id), (uint64_t)x->snapshot + 1);
    hw_pb_uint(pb, SNAPSHOT(level_of_detail), (uint64_t)s->detail);
    hw_pb_begin(pb, SNAPSHOT(process_memory_dumps));
    hw_pb_uint(pb, PROCESS(pid), (uint64_t)pid);
    for (; *first < m->nodes.n && m->nodes.v[*first].process <= process; ++*first)
        if (m->nodes.v[*first].process == process && !is_ours(&m->nodes.v[*first]))
            put_node(j, pb, &m->nodes.v[*first]);
    put_edges(j, pb, process);
    hw_pb_end(pb);
    hw_pb_end(pb);
    return hw_trace_end(j->w, j->err);
}

/* A dump without allocators still has its timestamp. */
static int put_empty_snapshot(struct job *j, uint32_t snapshot)
{
    const struct hw_memory_snapshot *s = &j->p->memory.snapshots.v[snapshot];
    struct hw_pb *pb = hw_trace_begin(j->w, j->sequence, (uint64_t)s->ts_ns);
    hw_pb_begin(pb, HW_F_TracePacket_memory_tracker_snapshot);
    hw_pb_uint(pb, SNAPSHOT(global_dump_id), (uint64_t)snapshot + 1);
    hw_pb_uint(pb, SNAPSHOT(level_of_detail), (uint64_t)s->detail);
    hw_pb_end(pb);
    return hw_trace_end(j->w, j->err);
}

static int put_memory_dumps(struct job *j)
{
    size_t first = 0; /* rows are grouped by process, in the order of processes */
    int rc = HW_OK;
    for (uint32_t i = 0; rc == HW_OK && i < j->p->memory.snapshots.n; i++)
        rc = put_empty_snapshot(j, i);
    for (uint32_t i = 0; rc == HW_OK && i < j->p->memory.processes.n; i++)
        rc = put_memory_dump(j, i, &first);
    return rc;
}

/* ---- heap dumps ---- */

static struct hw_dump_head head_of(const struct job *j, const struct hw_heap_dump *d)
{
    return (struct hw_dump_head){.pid = (uint64_t)j->p->processes.v[d->upid.v].pid,
                                 .heap_name = cstr(j, d->heap_name),
                                 .timestamp_ns = (uint64_t)d->ts_ns,
                                 .start_timestamp_ns = (uint64_t)d->start_ts_ns,
                                 .interval_bytes = d->interval_bytes,
                                 .orig_interval_bytes = d->orig_interval_bytes,
                                 .from_startup = d->flags & HW_DUMP_FROM_STARTUP,
                                 .rejected_concurrent = d->flags & HW_DUMP_REJECTED,
                                 .disconnected = d->flags & HW_DUMP_DISCONNECTED,
                                 .buffer_overran = d->flags & HW_DUMP_BUFFER_OVERRAN,
                                 .buffer_corrupted = d->flags & HW_DUMP_BUFFER_CORRUPTED,
                                 .hit_guardrail = d->flags & HW_DUMP_HIT_GUARDRAIL,
                                 .at_max = d->flags & HW_DUMP_AT_MAX,
                                 .all_variances = d->flags & HW_DUMP_ALL_VARIANCES,
                                 .has_rounding = d->flags & HW_DUMP_KNOWS_ROUNDING,
                                 .has_temporary = d->flags & HW_DUMP_KNOWS_TEMPORARY,
                                 .client_error = d->client_error,
                                 .lost_samples = d->lost_samples};
}

static uint64_t not_negative(int64_t v)
{
    return v > 0 ? (uint64_t)v : 0;
}

static struct hw_dump_sample sample_of(const struct hw_callsite_value *x, bool at_max)
{
    const struct hw_value *v = &x->v;
    struct hw_dump_sample s = {.callsite = x->callsite,
                               .rounding = (double)not_negative(v->rounding),
                               .variance_rounding = (double)v->variance_rounding,
                               .variance_bytes = v->variance,
                               .variance_objects = (double)v->variance_objects,
                               .variance_alloc_space = (double)v->variance_alloc_space,
                               .variance_alloc_objects = (double)v->variance_alloc_objects};
    if (at_max) {
        s.self_max = not_negative(v->space);
        s.self_max_count = not_negative(v->samples);
        s.est_max_count = (double)v->objects;
        return s;
    }
    s.self_allocated = not_negative(v->alloc_space);
    s.self_freed = not_negative(v->alloc_space - v->space);
    s.alloc_count = not_negative(v->alloc_samples);
    s.free_count = not_negative(v->alloc_samples - v->samples);
    s.est_alloc_count = (double)v->alloc_objects;
    s.est_free_count = (double)(v->alloc_objects - v->objects);
    s.temporary_space = not_negative(v->temporary_space);
    s.est_temporary_objects = (double)v->temporary_objects;
    s.variance_temporary_space = (double)v->variance_temporary_space;
    s.variance_temporary_objects = (double)v->variance_temporary_objects;
    return s;
}

static int put_dump(struct job *j, struct hw_profile_writer *w, const struct hw_series *s,
                    uint32_t dump, struct hw_sum *sum)
{
    const struct hw_heap_dump *d = &j->p->dumps.v[dump];
    struct hw_dump_head head = head_of(j, d);
    hw_values values = {0};
    int rc = head.at_max ? hw_values_at(j->p, s, dump, &values) : hw_sum_advance(sum, dump);
    if (rc == HW_OK && !head.at_max)
        rc = hw_sum_values(sum, &values);
    if (rc < 0)
        (void)hw_fail(j->err, rc, 0, "heap dump:");
    if (rc == HW_OK)
        rc = hw_profile_begin(w, &head, j->p->callsites, s->upid.v, j->err);
    for (size_t i = 0; rc == HW_OK && i < values.n; i++) {
        struct hw_dump_sample sample = sample_of(&values.v[i], head.at_max);
        rc = hw_profile_sample(w, &sample, j->err);
    }
    if (rc == HW_OK)
        rc = hw_profile_end(w, j->err);
    hw_vec_done(&values);
    return rc;
}

static int put_series(struct job *j, struct hw_profile_writer *w, const struct hw_series *s)
{
    struct hw_sum *sum;
    int rc = hw_sum_new(j->p, s, &sum);
    if (rc < 0)
        return hw_fail(j->err, rc, 0, "heap dumps:");
    for (size_t i = 0; rc == HW_OK && i < s->shown.n; i++)
        rc = put_dump(j, w, s, s->shown.v[i], sum);
    for (size_t i = 0; rc == HW_OK && i < s->peaks.n; i++)
        rc = put_dump(j, w, s, s->peaks.v[i], sum);
    hw_sum_free(sum);
    return rc;
}

static int put_heaps(struct job *j)
{
    struct hw_series_list list;
    struct hw_profile_writer *w = NULL;
    int rc = hw_series_list_init(&list, j->p);
    if (rc < 0)
        return hw_fail(j->err, rc, 0, "heaps:");
    rc = hw_profile_writer_new(j->w, &w);
    if (rc < 0)
        (void)hw_fail(j->err, rc, 0, "heaps:");
    for (size_t i = 0; rc == HW_OK && i < list.v.n; i++)
        rc = put_series(j, w, &list.v.v[i]);
    hw_profile_writer_free(w);
    hw_series_list_done(&list);
    return rc;
}

/* ---- names with lines ---- */

static void put_lines(const struct job *j, struct hw_pb *pb, const struct hw_frame *f,
                      const struct hw_symbol_line *lines, size_t n)
{
    hw_pb_begin(pb, HW_F_ModuleSymbols_address_symbols);
    hw_pb_uint(pb, HW_F_AddressSymbols_address, f->rel_pc);
    for (size_t i = 0; i < n; i++) {
        hw_pb_begin(pb, HW_F_AddressSymbols_lines);
        put_text(pb, HW_F_Line_function_name, str(j, lines[i].function));
        if (lines[i].file.v)
            put_text(pb, HW_F_Line_source_file_name, str(j, lines[i].file));
        if (lines[i].line)
            hw_pb_uint(pb, HW_F_Line_line_number, lines[i].line);
        hw_pb_end(pb);
    }
    hw_pb_end(pb);
}

/* One packet per frame: readers accept that, and few inputs have such frames. */
static int put_symbols(struct job *j)
{
    const struct hw_callsites *cs = j->p->callsites;
    const struct hw_symbol_sets *sets = hw_callsites_get_symbol_sets(cs);
    int rc = HW_OK;
    for (uint32_t i = 0; rc == HW_OK && i < hw_callsites_n_frames(cs); i++) {
        const struct hw_frame *f = hw_callsites_get_frame(cs, (hw_frame_id){i});
        const struct hw_symbol_line *lines;
        size_t n = hw_symbol_sets_get(sets, (hw_frame_id){i}, &lines);
        if (n == 0 || f->mapping.v == HW_ID_NONE)
            continue;
        const struct hw_mapping *m = hw_callsites_get_mapping(cs, f->mapping);
        struct hw_pb *pb = hw_trace_begin(j->w, j->sequence, 0);
        hw_pb_begin(pb, HW_F_TracePacket_module_symbols);
        put_text(pb, HW_F_ModuleSymbols_path, str(j, m->path));
        put_text(pb, HW_F_ModuleSymbols_build_id, str(j, m->build_id));
        put_lines(j, pb, f, lines, n);
        hw_pb_end(pb);
        rc = hw_trace_end(j->w, j->err);
    }
    return rc;
}

/* ---- the file ---- */

static void note_types(const struct hw_export_input *in)
{
    const struct hw_alloc_rows *rows = &in->profile->allocs;
    if (in->notes && rows->type)
        fputs("note: the format has no types of allocations; those of a callstack are added up\n",
              in->notes);
}

/* The format has heap graphs, but this writer does not write them: says so. */
static int check_graphs(const struct hw_export_input *in, struct hw_error *err)
{
    const struct hw_profile *p = in->profile;
    if (p->graphs.n == 0)
        return HW_OK;
    if (p->dumps.n == 0 && p->memory.snapshots.n == 0 && p->smaps.n == 0 && p->counters.n == 0)
        return hw_fail(err, HW_ENOTFOUND, 0,
                       "there is only a heap graph, which is not written as a Perfetto trace; try "
                       "-t hprof");
    if (in->notes)
        fprintf(in->notes, "note: %zu heap graph%s left out\n", p->graphs.n,
                p->graphs.n == 1 ? " is" : "s are");
    return HW_OK;
}

static int copy_to(int fd, FILE *out, struct hw_error *err)
{
    char buf[65536];
    ssize_t n;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return hw_fail_sys(err, "cannot write the trace");
    while ((n = read(fd, buf, sizeof buf)) > 0)
        if (fwrite(buf, 1, (size_t)n, out) != (size_t)n)
            return hw_fail_sys(err, "cannot write the trace");
    return n < 0 ? hw_fail_sys(err, "cannot write the trace") : hw_export_finish(out, err);
}

static int write_trace(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    struct job j = {.p = in->profile, .err = err};
    hw_autofd int fd = memfd_create("trace", MFD_CLOEXEC); /* the writer must be able to truncate */
    if (fd < 0)
        return hw_fail_sys(err, "cannot write the trace");
    note_types(in);
    int rc = check_graphs(in, err);
    if (rc == HW_OK)
        rc = hw_trace_writer_new(fd, &j.w, err);
    if (rc < 0)
        return rc;
    static int (*const parts[])(struct job * j) = {put_clocks, put_processes,    put_counters,
                                                   put_smaps,  put_memory_dumps, put_heaps,
                                                   put_symbols};
    j.sequence = hw_trace_writer_sequence(j.w);
    for (size_t i = 0; rc == HW_OK && i < HW_ARRAY_LEN(parts); i++)
        rc = parts[i](&j);
    if (rc == HW_OK)
        rc = hw_trace_writer_flush(j.w, err);
    hw_trace_writer_free(j.w);
    if (rc < 0)
        return err && err->code ? rc : hw_fail(err, rc, 0, "trace:");
    return copy_to(fd, out, err);
}

const struct hw_exporter hw_export_perfetto = {
    .name = "perfetto",
    .summary = "Perfetto's trace: all processes and dumps, memory dumps as MemoryTrackerSnapshot",
    .extension = ".pftrace",
    .binary = true,
    .whole = true,
    .write = write_trace,
};

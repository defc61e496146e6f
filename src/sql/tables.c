/*
 * tables.def expanded: for each table its number of rows, its columns and one function that reads a
 * cell, a switch over the columns. Values that need storage of their own are in derived.c.
 */
#include <string.h>

#include "base/error.h"
#include "sql/engine.h"

#include "base/banned.h"

/* ---- helpers of the expressions ---- */

static const struct hw_process idle_process = {.uid = -1, .ppid = -1, .start_ns = -1};

static const struct hw_process *process_row(const struct hw_profile *p, uint32_t row)
{
    hw_upid upid = hw_profile_upid_of_shown(p, row);
    return upid.v == HW_ID_NONE ? &idle_process : &p->processes.v[upid.v];
}

static uint32_t parent_upid(const struct hw_profile *p, const struct hw_process *r)
{
    uint64_t at;
    if (r->ppid == 0 && r->pid != 0)
        return 0;
    if (r->ppid < 0 || !hw_map64_get(&p->process_by_pid, (uint64_t)r->ppid, &at))
        return HW_ID_NONE;
    return hw_profile_upid_shown(p, (hw_upid){(uint32_t)at});
}

/* The table shows unknown numbers as 0. */
static uint64_t known_or_0(uint64_t number)
{
    return number == HW_SMAPS_UNKNOWN ? 0 : number;
}

static hw_str_id shown_heap_name(const struct hw_heap_dump *d)
{
    return d->flags & HW_DUMP_OF_UNNAMED_HEAP ? (hw_str_id){0} : d->heap_name;
}

static int64_t dump_duration(const struct hw_heap_dump *d)
{
    int64_t r;
    return __builtin_sub_overflow(d->ts_ns, hw_dump_start(d), &r) ? INT64_MAX : r;
}

/* The row of a frame's innermost line. */
static uint32_t symbol_set_of(const struct hw_profile *p, uint32_t frame)
{
    const struct hw_symbol_sets *all = hw_callsites_get_symbol_sets(p->callsites);
    uint32_t set = frame < all->of_frame.n ? all->of_frame.v[frame] : 0;
    return set ? all->sets.v[set - 1].first : HW_ID_NONE;
}

static hw_str_id deobfuscated_of(const struct hw_profile *p, uint32_t frame)
{
    return hw_symbol_sets_get_deobfuscated(hw_callsites_get_symbol_sets(p->callsites),
                                           (hw_frame_id){frame});
}

/* NULL: a clock of a sequence or of a producer. */
static const char *clock_name(int64_t clock)
{
    static const char *const names[] = {
        [1] = "REALTIME",      [2] = "REALTIME_COARSE", [3] = "MONOTONIC", [4] = "MONOTONIC_COARSE",
        [5] = "MONOTONIC_RAW", [6] = "BOOTTIME",        [9] = "TSC",       [10] = "PERF",
    };
    return clock >= 0 && clock < (int64_t)HW_ARRAY_LEN(names) ? names[clock] : NULL;
}

static const struct hw_mapping *mapping_of(const struct hw_profile *p, uint32_t row)
{
    static const struct hw_mapping nameless;
    return row < hw_callsites_n_mappings(p->callsites)
               ? hw_callsites_get_mapping(p->callsites, (hw_mapping_id){row})
               : &nameless;
}

/* Frames without a mapping belong to the nameless one. */
static uint32_t mapping_shown(const struct hw_profile *p, uint32_t mapping)
{
    return mapping == HW_ID_NONE ? (uint32_t)hw_callsites_n_mappings(p->callsites) : mapping;
}

static hw_str_id kind_of(const struct hw_profile *p, uint32_t frame)
{
    return hw_symbol_sets_get_kind(hw_callsites_get_symbol_sets(p->callsites),
                                   (hw_frame_id){frame});
}

/* True for all lines of a set but the last, which is the function with the code. */
static bool is_inlined(const struct hw_sql_derived *x, uint32_t line)
{
    const struct hw_symbol_set *set = &x->set_of_line[line];
    return line + 1 < set->first + set->n;
}

static const char *severity_name(enum hw_stat_severity s)
{
    switch (s) {
    case HW_STAT_INFO:
        return "info";
    case HW_STAT_DATA_LOSS:
        return "data_loss";
    case HW_STAT_ERROR:
        return "error";
    case HW_STAT_SEVERITY_COUNT:
        break;
    }
    return NULL;
}

/* Row 0 is the idle thread of all processors. */
static const struct hw_thread *thread_row(const struct hw_profile *p, uint32_t row)
{
    static const struct hw_thread idle = {.upid = {HW_ID_NONE}, .is_main = true};
    uint32_t thread = hw_profile_thread_of_shown(p, row);
    return thread == HW_ID_NONE ? &idle : &p->threads.rows.v[thread];
}

static const char *thread_name(const struct hw_profile *p, uint32_t row)
{
    const struct hw_thread *r = thread_row(p, row);
    if (row == 0)
        return "swapper"; /* as the kernel calls it */
    return r->name.v ? hw_strings_cstr(hw_callsites_strings(p->callsites), r->name) : NULL;
}

static int64_t slice_track_id(const struct hw_sql_derived *x, uint32_t track)
{
    return (int64_t)x->n_tracks + 1 + (int64_t)x->profile->cpu.tracks.n + track;
}

static const char *arg_type_name(enum hw_arg_type type)
{
    static const char *const names[] = {"int", "uint", "string", "real", "bool"};
    return names[type];
}

struct counter {
    int64_t ts_ns;
    size_t track;
    double value;
};

/* Counters of CPU samples follow those of processes, as do their tracks; the track of memory dumps
 * is between them. */
static struct counter counter_row(const struct hw_sql_derived *x, uint32_t row)
{
    const struct hw_profile *p = x->profile;
    if (row < p->counters.n)
        return (struct counter){p->counters.v[row].ts_ns, x->track_of[row],
                                p->counters.v[row].value};
    const struct hw_cpu_count *c = &p->cpu.counts.v[row - p->counters.n];
    return (struct counter){c->ts_ns, x->n_tracks + 1 + c->track, c->value};
}

static const char *detail_name(enum hw_memory_detail detail)
{
    static const char *const names[] = {"detailed", "light", "background"};
    return names[detail];
}

static const char deleted[] = " (deleted)";

static struct hw_bytes trimmed_path(const struct hw_profile *p, const struct hw_smaps_row *r)
{
    struct hw_bytes path = hw_strings_get(hw_callsites_strings(p->callsites), r->path);
    if (r->is_deleted)
        path.n -= sizeof deleted - 1;
    return path;
}

/* The configuration is the last row. */
static size_t metadata_count(const struct hw_profile *p)
{
    return p->metadata.n + (p->config_text.v != 0);
}

static struct hw_metadata_row metadata_row(const struct hw_profile *p, uint32_t row)
{
    return row < p->metadata.n ? p->metadata.v[row]
                               : (struct hw_metadata_row){.text = p->config_text};
}

static struct hw_bytes metadata_name(const struct hw_profile *p, uint32_t row)
{
    return row < p->metadata.n
               ? hw_strings_get(hw_callsites_strings(p->callsites), p->metadata.v[row].name)
               : hw_bytes_str("trace_config_pbtxt");
}

/* ---- rows of heap graphs ---- */

/* One function that gives the number of a table's rows, one that gives the graph of a row. */
#define GRAPH_ROWS(what, name, first, count)                                                       \
    static size_t graph_##what(const struct hw_profile *p)                                         \
    {                                                                                              \
        const struct hw_heap_graph *last = p->graphs.n ? p->graphs.v[p->graphs.n - 1] : NULL;      \
        return last ? (size_t)last->first + last->count : 0;                                       \
    }                                                                                              \
    static const struct hw_heap_graph *graph_of_##name(const struct hw_profile *p, uint32_t row)   \
    {                                                                                              \
        size_t low = 0, high = p->graphs.n;                                                        \
        while (high - low > 1) { /* the last graph with first <= row */                            \
            size_t mid = low + (high - low) / 2;                                                   \
            if (p->graphs.v[mid]->first <= row)                                                    \
                low = mid;                                                                         \
            else                                                                                   \
                high = mid;                                                                        \
        }                                                                                          \
        return p->graphs.v[low];                                                                   \
    }
GRAPH_ROWS(objects, object, first_object, n_objects)
GRAPH_ROWS(classes, class, first_class, n_classes)
GRAPH_ROWS(references, reference, first_reference, n_refs)
GRAPH_ROWS(primitives, primitive, first_primitive, primitives.n)
GRAPH_ROWS(data, data, first_data, data.n)
GRAPH_ROWS(threads, thread, first_thread, threads.n)
GRAPH_ROWS(blocks, block, first_block, blocks.n)
GRAPH_ROWS(links, link, first_link, links.n)
GRAPH_ROWS(holders, holder, first_holder, holders.n)

static const struct hw_frame *frame_or_none(const struct hw_profile *p, hw_frame_id id)
{
    static const struct hw_frame none;
    return id.v == HW_ID_NONE ? &none : hw_callsites_get_frame(p->callsites, id);
}

/* 0 = unknown, as lines begin at 1. */
static uint32_t line_of(const struct hw_profile *p, hw_frame_id id)
{
    const struct hw_symbol_line *lines;
    if (id.v == HW_ID_NONE ||
        !hw_symbol_sets_get(hw_callsites_get_symbol_sets(p->callsites), id, &lines))
        return 0;
    return lines[0].line;
}

/* Converts a graph's own number to a row of the whole table. */
static uint32_t shift(uint32_t first, uint32_t number)
{
    return number == HW_ID_NONE ? HW_ID_NONE : first + number;
}

static uint32_t reference_set(const struct hw_heap_graph *g, uint32_t o)
{
    return g->first_ref[o] == g->first_ref[o + 1] ? HW_ID_NONE
                                                  : g->first_reference + g->first_ref[o];
}

static uint32_t object_data(const struct hw_heap_graph *g, uint32_t o)
{
    return g->data_of ? shift(g->first_data, g->data_of[o]) : HW_ID_NONE;
}

/* Graphs are sorted by number. */
static int64_t graph_number(const struct hw_profile *p, const struct hw_heap_graph *g)
{
    return g->number < p->graphs.n ? g->number : 0;
}

static uint32_t dominator_of(const struct hw_heap_graph *g, const struct hw_dominators *d,
                             uint32_t at)
{
    if (at == HW_ID_NONE || d->idom[at] == HW_ID_NONE)
        return HW_ID_NONE;
    return g->first_object + d->object[d->idom[at]];
}

/* ---- cells ---- */

static void put_int(struct hw_sql_cell *out, int64_t v)
{
    out->type = HW_SQL_INT;
    out->i = v;
}

static void put_bytes(struct hw_sql_cell *out, struct hw_bytes b)
{
    out->type = HW_SQL_TEXT;
    out->p = b.p ? (const void *)b.p : "";
    out->n = b.n;
}

#define PUT_ID(e)   put_int(out, (int64_t)(e))
#define PUT_INT(e)  put_int(out, (int64_t)(e))
#define PUT_UPID(e) put_int(out, hw_profile_upid_shown(p, (hw_upid){(e)}))
#define PUT_NONE(e) (void)(e)
#define PUT_OPT(e)                                                                                 \
    do {                                                                                           \
        if ((e) >= 0)                                                                              \
            put_int(out, (e));                                                                     \
    } while (0)
#define PUT_REF(e)                                                                                 \
    do {                                                                                           \
        if ((e) != HW_ID_NONE)                                                                     \
            put_int(out, (e));                                                                     \
    } while (0)
#define PUT_TEXT(e)  put_bytes(out, hw_strings_get(hw_callsites_strings(p->callsites), (e)))
#define PUT_BYTES(e) put_bytes(out, (e))
#define PUT_NAME(e)                                                                                \
    do {                                                                                           \
        if ((e).v)                                                                                 \
            PUT_TEXT(e);                                                                           \
    } while (0)
#define PUT_LIT(e)                                                                                 \
    do {                                                                                           \
        const char *lit = (e);                                                                     \
        if (lit)                                                                                   \
            put_bytes(out, hw_bytes_str(lit));                                                     \
    } while (0)
#define PUT_REAL(e) (out->type = HW_SQL_REAL, out->d = (e))
#define PUT_NUMBER(e)                                                                              \
    do {                                                                                           \
        if (!(e)->text.v)                                                                          \
            put_int(out, (e)->number);                                                             \
    } while (0)

#define PUT_AT(e)                                                                                  \
    do {                                                                                           \
        const int64_t *at = (e);                                                                   \
        if (at)                                                                                    \
            put_int(out, *at);                                                                     \
    } while (0)
#define PUT_REAL_AT(e)                                                                             \
    do {                                                                                           \
        const double *at = (e);                                                                    \
        if (at)                                                                                    \
            PUT_REAL(*at);                                                                         \
    } while (0)
#define PUT_TEXT_AT(e)                                                                             \
    do {                                                                                           \
        const hw_str_id *at = (e);                                                                 \
        if (at)                                                                                    \
            PUT_TEXT(*at);                                                                         \
    } while (0)
#define PUT_RISING    PUT_INT
#define PUT_RUN_UPID  PUT_UPID
#define PUT_RUN_TEXT  PUT_TEXT
#define PUT_SCAN_INT  PUT_INT
#define PUT_SCAN_UPID PUT_UPID
#define PUT_SCAN_REF  PUT_REF
#define PUT_SCAN_LIT  PUT_LIT
#define PUT_SCAN_TEXT PUT_TEXT
#define PUT_SCAN_NAME PUT_NAME

#define CLASS_ID        HW_CLASS_INT, HW_ORDER_DENSE
#define CLASS_RISING    HW_CLASS_INT, HW_ORDER_RISING
#define CLASS_AT        HW_CLASS_INT, HW_ORDER_ANY
#define CLASS_REAL_AT   HW_CLASS_REAL, HW_ORDER_ANY
#define CLASS_TEXT_AT   HW_CLASS_TEXT, HW_ORDER_ANY
#define CLASS_RUN_UPID  HW_CLASS_INT, HW_ORDER_RUN
#define CLASS_RUN_TEXT  HW_CLASS_TEXT, HW_ORDER_RUN
#define CLASS_SCAN_INT  HW_CLASS_INT, HW_ORDER_SCAN
#define CLASS_SCAN_UPID HW_CLASS_INT, HW_ORDER_SCAN
#define CLASS_SCAN_REF  HW_CLASS_INT, HW_ORDER_SCAN
#define CLASS_SCAN_LIT  HW_CLASS_TEXT, HW_ORDER_SCAN
#define CLASS_SCAN_TEXT HW_CLASS_TEXT, HW_ORDER_SCAN
#define CLASS_SCAN_NAME HW_CLASS_TEXT, HW_ORDER_SCAN
#define CLASS_INT       HW_CLASS_INT, HW_ORDER_ANY
#define CLASS_UPID      HW_CLASS_INT, HW_ORDER_ANY
#define CLASS_NONE      HW_CLASS_INT, HW_ORDER_ANY
#define CLASS_OPT       HW_CLASS_INT, HW_ORDER_ANY
#define CLASS_REF       HW_CLASS_INT, HW_ORDER_ANY
#define CLASS_NUMBER    HW_CLASS_INT, HW_ORDER_ANY
#define CLASS_TEXT      HW_CLASS_TEXT, HW_ORDER_ANY
#define CLASS_BYTES     HW_CLASS_TEXT, HW_ORDER_ANY
#define CLASS_NAME      HW_CLASS_TEXT, HW_ORDER_ANY
#define CLASS_LIT       HW_CLASS_TEXT, HW_ORDER_ANY
#define CLASS_REAL      HW_CLASS_REAL, HW_ORDER_ANY

/* Column numbers. */
#define TABLE(t, rows, decl)        enum {
#define COLUMN(t, name, kind, expr) COL_##t##_##name,
#define HIDDEN(t, name, kind, expr) COL_##t##_##name,
#define END(t)                                                                                     \
    COL_##t##_COUNT                                                                                \
    }                                                                                              \
    ;
#define DERIVED(t, prepare, rows, decl) TABLE(t, rows, decl)
#define IN_RUNS(t, runs, rows, decl)    TABLE(t, rows, decl)
#include "model/tables.def"
#undef DERIVED
#undef IN_RUNS
#undef TABLE
#undef COLUMN
#undef HIDDEN
#undef END

/* Cells. */
#define TABLE(t, rows, decl)                                                                       \
    static size_t count_##t(const struct hw_sql_derived *x)                                        \
    {                                                                                              \
        const struct hw_profile *p = x->profile;                                                   \
        (void)p;                                                                                   \
        return rows;                                                                               \
    }                                                                                              \
    static void cell_##t(const struct hw_sql_derived *x, uint32_t row, int column,                 \
                         struct hw_sql_cell *out)                                                  \
    {                                                                                              \
        const struct hw_profile *p = x->profile;                                                   \
        decl;                                                                                      \
        (void)p;                                                                                   \
        (void)r;                                                                                   \
        *out = (struct hw_sql_cell){.type = HW_SQL_NULL};                                          \
        switch (column) {
#define COLUMN(t, name, kind, expr)                                                                \
    case COL_##t##_##name:                                                                         \
        PUT_##kind(expr);                                                                          \
        break;
#define HIDDEN COLUMN
#define END(t)                                                                                     \
    }                                                                                              \
    }
#define DERIVED(t, prepare, rows, decl)                                                            \
    static int prepare_##t(struct hw_sql_derived *x)                                               \
    {                                                                                              \
        const struct hw_profile *p = x->profile;                                                   \
        (void)p;                                                                                   \
        return prepare;                                                                            \
    }                                                                                              \
    TABLE(t, rows, decl)
#define IN_RUNS(t, all, rows, decl)                                                                \
    static const struct hw_alloc_run *runs_##t(const struct hw_sql_derived *x, size_t *n)          \
    {                                                                                              \
        const struct hw_profile *p = x->profile;                                                   \
        *n = all.n;                                                                                \
        return all.v;                                                                              \
    }                                                                                              \
    TABLE(t, rows, decl)
#include "model/tables.def"
#undef DERIVED
#undef IN_RUNS
#undef TABLE
#undef COLUMN
#undef HIDDEN
#undef END

/* Descriptions. */
#define TABLE(t, rows, decl)        static const struct hw_column columns_##t[] = {
#define COLUMN(t, name, kind, expr) {#name, CLASS_##kind, false},
#define HIDDEN(t, name, kind, expr) {#name, CLASS_##kind, true},
#define END(t)                                                                                     \
    }                                                                                              \
    ;
#define DERIVED(t, prepare, rows, decl) TABLE(t, rows, decl)
#define IN_RUNS(t, runs, rows, decl)    TABLE(t, rows, decl)
#include "model/tables.def"
#undef DERIVED
#undef IN_RUNS
#undef TABLE
#undef COLUMN
#undef HIDDEN
#undef END

const struct hw_table hw_tables[] = {
#define TABLE(t, rows, decl) {#t, columns_##t, COL_##t##_COUNT, count_##t, cell_##t, NULL, NULL},
#define DERIVED(t, prepare, rows, decl)                                                            \
    {#t, columns_##t, COL_##t##_COUNT, count_##t, cell_##t, prepare_##t, NULL},
#define IN_RUNS(t, runs, rows, decl)                                                               \
    {#t, columns_##t, COL_##t##_COUNT, count_##t, cell_##t, NULL, runs_##t},
#define COLUMN(t, name, kind, expr)
#define HIDDEN(t, name, kind, expr)
#define END(t)
#include "model/tables.def"
};
const size_t hw_n_tables = HW_ARRAY_LEN(hw_tables);

bool hw_sql_is_table(const char *name)
{
    for (size_t i = 0; i < hw_n_tables; i++)
        if (sqlite3_stricmp(hw_tables[i].name, name) == 0)
            return true;
    return false;
}

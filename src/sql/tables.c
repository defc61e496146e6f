/*
 * tables.def expanded: for each table its number of rows, its columns and one function that gives a
 * cell. The compiler makes a switch of each; nothing is copied but hex build ids.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sql/engine.h"

#include "base/banned.h"

/* ---- what is derived ---- */

enum stat_key { KEY_PID, KEY_UPID, KEY_NONE, KEY_RARE, KEY_INDEX, KEY_OFFSET };

static const struct hw_sql_stat_info known_stats[] = {
#define X(name, source, key, severity, description)                                                \
    {#name, source, description, HW_STAT_##severity, KEY_##key == KEY_UPID, KEY_##key == KEY_NONE},
#include "sql/stats.def"
#undef X
};
static const struct hw_sql_stat_info service_stat = {
    "traced_", "trace", "Counter of the recording service.", HW_STAT_INFO, false, false};
static const struct hw_sql_stat_info other_stat = {"", "analysis", "", HW_STAT_INFO, false, false};

static const struct hw_sql_stat_info *find_stat(const char *name)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(known_stats); i++)
        if (strcmp(known_stats[i].name, name) == 0)
            return &known_stats[i];
    return strncmp(name, "traced_", 7) == 0 ? &service_stat : &other_stat;
}

const char *hw_sql_stat_meaning(const char *name)
{
    return find_stat(name)->description;
}

/* The rows of the model, then those that are always there and did not happen. */
static int derive_stats(struct hw_sql_derived *x)
{
    const struct hw_profile *p = x->profile;
    bool seen[HW_ARRAY_LEN(known_stats)] = {false};
    x->stats = calloc(p->stats.n + HW_ARRAY_LEN(known_stats), sizeof *x->stats);
    if (!x->stats)
        return HW_ENOMEM;
    for (size_t i = 0; i < p->stats.n; i++) {
        const struct hw_stat_row *r = &p->stats.v[i];
        const char *name = hw_strings_cstr(hw_callsites_strings(p->callsites), r->name);
        const struct hw_sql_stat_info *info = find_stat(name);
        int64_t idx = r->key >= 0 && info->by_upid ? r->key + 1 : r->key;
        bool known = info != &service_stat && info != &other_stat;
        int64_t number =
            known ? info - known_stats : (int64_t)HW_ARRAY_LEN(known_stats) + r->name.v;
        if (known)
            seen[number] = true;
        x->stats[x->n_stats++] =
            (struct hw_sql_stat){hw_bytes_str(name), number, idx, r->value, r->severity, info};
    }
    for (size_t i = 0; i < HW_ARRAY_LEN(known_stats); i++)
        if (known_stats[i].always && !seen[i])
            x->stats[x->n_stats++] =
                (struct hw_sql_stat){hw_bytes_str(known_stats[i].name), (int64_t)i,     -1, 0,
                                     known_stats[i].severity,           &known_stats[i]};
    return HW_OK;
}

/* Texts of numbers are written once, one behind the other. */
static int derive_args(struct hw_sql_derived *x)
{
    enum { NUMBER = 32 };
    const struct hw_profile *p = x->profile;
    size_t n = p->args.rows.n;
    x->arg_texts = calloc(n + 1, sizeof *x->arg_texts);
    x->arg_text = malloc(n * NUMBER + 1);
    if (!x->arg_texts || !x->arg_text)
        return HW_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct hw_arg_row *r = &p->args.rows.v[i];
        char *at = x->arg_text + i * NUMBER;
        switch (r->type) {
        case HW_ARG_STRING:
            x->arg_texts[i] = hw_strings_get(hw_callsites_strings(p->callsites), r->text);
            continue;
        case HW_ARG_BOOL:
            (void)snprintf(at, NUMBER, "%s", r->number ? "true" : "false");
            break;
        case HW_ARG_REAL:
            (void)snprintf(at, NUMBER, "%.15g", r->real);
            break;
        case HW_ARG_UINT:
            (void)snprintf(at, NUMBER, "%llu", (unsigned long long)r->number);
            break;
        case HW_ARG_INT:
            (void)snprintf(at, NUMBER, "%lld", (long long)r->number);
            break;
        }
        x->arg_texts[i] = hw_bytes_str(at);
    }
    return HW_OK;
}

static int derive_build_ids(struct hw_sql_derived *x)
{
    const struct hw_callsites *cs = x->profile->callsites;
    const struct hw_strings *strings = hw_callsites_strings(x->profile->callsites);
    size_t n = hw_callsites_n_mappings(cs);
    struct hw_strbuf text = {0};
    x->build_ids = calloc(n + 1, sizeof *x->build_ids);
    if (!x->build_ids)
        return HW_ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        size_t before = text.n;
        hw_build_id_add(
            &text,
            hw_strings_get(strings, hw_callsites_get_mapping(cs, (hw_mapping_id){i})->build_id));
        x->build_ids[i].n = text.n - before;
    }
    x->hex = text.p; /* NULL when there are none */
    if (text.failed)
        return HW_ENOMEM;
    for (size_t i = 0, at = 0; i < n; at += x->build_ids[i++].n)
        x->build_ids[i].p = (const uint8_t *)(x->hex ? x->hex : "") + at;
    return HW_OK;
}

static int derive_tracks(struct hw_sql_derived *x)
{
    const struct hw_profile *p = x->profile;
    struct hw_map64 seen = {0};
    HW_VEC(struct hw_sql_track) tracks = {0};
    x->track_of = calloc(p->counters.n + 1, sizeof *x->track_of);
    int rc = x->track_of ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < p->counters.n; i++) {
        const struct hw_counter_row *c = &p->counters.v[i];
        uint64_t *at;
        bool fresh;
        rc = hw_map64_at(&seen, (uint64_t)c->upid.v << 32 | c->name.v, &at, &fresh);
        if (rc == HW_OK && fresh) {
            *at = tracks.n;
            if (hw_vec_push(&tracks, (struct hw_sql_track){c->upid, c->name}) < 0)
                rc = HW_ENOMEM;
        }
        if (rc == HW_OK)
            x->track_of[i] = (uint32_t)*at;
    }
    hw_map64_done(&seen);
    x->tracks = tracks.v;
    x->n_tracks = tracks.n;
    return rc;
}

static int derive_symbol_sets(struct hw_sql_derived *x)
{
    const struct hw_symbol_sets *all = hw_callsites_get_symbol_sets(x->profile->callsites);
    x->set_of_line = calloc(all->lines.n + 1, sizeof *x->set_of_line);
    if (!x->set_of_line)
        return HW_ENOMEM;
    for (size_t i = 0; i < all->sets.n; i++)
        for (uint32_t k = 0; k < all->sets.v[i].n; k++)
            x->set_of_line[all->sets.v[i].first + k] = all->sets.v[i];
    return HW_OK;
}

static int derive_oomes(struct hw_sql_derived *x)
{
    const struct hw_profile *p = x->profile;
    x->oomes = calloc(p->graphs.n + 1, sizeof *x->oomes);
    if (!x->oomes)
        return HW_ENOMEM;
    for (uint32_t i = 0; i < p->graphs.n; i++)
        if (p->graphs.v[i]->is_oome)
            x->oomes[x->n_oomes++] = i;
    return HW_OK;
}

int hw_sql_derived_init(struct hw_sql_derived *x, const struct hw_profile *p)
{
    *x = (struct hw_sql_derived){.profile = p};
    x->graphs = calloc(1, sizeof *x->graphs);
    if (!x->graphs)
        return HW_ENOMEM;
    x->graphs->profile = p;
    int rc = derive_stats(x);
    if (rc == HW_OK)
        rc = derive_args(x);
    if (rc == HW_OK)
        rc = derive_build_ids(x);
    if (rc == HW_OK)
        rc = derive_symbol_sets(x);
    if (rc == HW_OK)
        rc = derive_oomes(x);
    return rc < 0 ? rc : derive_tracks(x);
}

void hw_sql_derived_done(struct hw_sql_derived *x)
{
    free(x->build_ids);
    free(x->hex);
    free(x->stats);
    free(x->arg_texts);
    free(x->arg_text);
    free(x->tracks);
    free(x->track_of);
    free(x->set_of_line);
    free(x->oomes);
    if (x->graphs)
        hw_graph_views_done(x->graphs);
    free(x->graphs);
}

/* ---- helpers of the expressions ---- */

static const struct hw_process idle_process = {.uid = -1, .ppid = -1, .start_ns = -1};

static const struct hw_process *process_row(const struct hw_profile *p, uint32_t row)
{
    return row ? &p->processes.v[row - 1] : &idle_process;
}

static uint32_t parent_upid(const struct hw_profile *p, const struct hw_process *r)
{
    uint64_t at;
    if (r->ppid == 0 && r->pid != 0)
        return 0;
    if (r->ppid < 0 || !hw_map64_get(&p->process_by_pid, (uint64_t)r->ppid, &at))
        return HW_ID_NONE;
    return (uint32_t)at + 1;
}

/* A dump that does not say when its window began is a moment. */
static int64_t dump_start(const struct hw_heap_dump *d)
{
    return d->start_ts_ns > 0 && d->start_ts_ns <= d->ts_ns ? d->start_ts_ns : d->ts_ns;
}

static int64_t dump_duration(const struct hw_heap_dump *d)
{
    int64_t r;
    return __builtin_sub_overflow(d->ts_ns, dump_start(d), &r) ? INT64_MAX : r;
}

/* The row of the frame's innermost line. */
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

/* All lines of a set but the last, the function that has the code. */
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

/* Row 0 stands for the idle thread of every processor. */
static const struct hw_thread *thread_row(const struct hw_profile *p, uint32_t row)
{
    static const struct hw_thread idle = {.upid = {HW_ID_NONE}, .is_main = true};
    return row ? &p->threads.rows.v[row - 1] : &idle;
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

/* Those of CPU samples stand behind those of processes, as their tracks do; memory dumps have one
 * track between them. */
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

/* The configuration stands behind the other facts. */
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
        while (high - low > 1) { /* the last graph that begins at the row or before */             \
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

/* A graph's own number as one of the whole table. */
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

/* Graphs stand in the order of their numbers. */
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
#define PUT_UPID(e) put_int(out, (int64_t)(e) + 1)
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
#include "model/tables.def"
#undef DERIVED
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
#define DERIVED(t, prepare, rows, decl) TABLE(t, rows, decl)
#include "model/tables.def"
#undef DERIVED
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
#include "model/tables.def"
#undef DERIVED
#undef TABLE
#undef COLUMN
#undef HIDDEN
#undef END

const struct hw_table hw_tables[] = {
#define TABLE(t, rows, decl) {#t, columns_##t, COL_##t##_COUNT, count_##t, cell_##t, NULL},
#define DERIVED(t, prepare, rows, decl)                                                            \
    {#t, columns_##t, COL_##t##_COUNT, count_##t, cell_##t, prepare},
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

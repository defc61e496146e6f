/*
 * Data that the tables show and the model does not store: hex build ids, texts of numbers, counter
 * tracks, rows of `stats` with value 0. Computed once, when a connection is opened.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sql/engine.h"

#include "base/banned.h"

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

/* The rows of the model, then those that are always shown and have not occurred. */
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
        int64_t idx = r->key >= 0 && info->by_upid
                          ? hw_profile_upid_shown(p, (hw_upid){(uint32_t)r->key})
                          : r->key;
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

/* Numbers are converted to text once, all into one buffer. */
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
    x->hex = text.p; /* NULL without build ids */
    if (text.failed)
        return HW_ENOMEM;
    for (size_t i = 0, at = 0; i < n; at += x->build_ids[i++].n)
        x->build_ids[i].p = (const uint8_t *)(x->hex ? x->hex : "") + at;
    x->build_ids[n] = hw_bytes_str("");
    x->n_mappings = n;
    for (uint32_t i = 0; i < hw_callsites_n_frames(cs) && x->n_mappings == n; i++)
        x->n_mappings += hw_callsites_get_frame(cs, (hw_frame_id){i})->mapping.v == HW_ID_NONE;
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

/* Graphs are sorted by time. Of several of one process and time the last size that was told counts. */
static int derive_graph_rows(struct hw_sql_derived *x)
{
    const struct hw_profile *p = x->profile;
    struct hw_map64 last = {0}; /* upid -> its newest row */
    x->graph_rows = calloc(p->graphs.n + 1, sizeof *x->graph_rows);
    x->row_of_graph = calloc(p->graphs.n + 1, sizeof *x->row_of_graph);
    int rc = x->graph_rows && x->row_of_graph ? HW_OK : HW_ENOMEM;
    for (uint32_t i = 0; rc == HW_OK && i < p->graphs.n; i++) {
        const struct hw_heap_graph *g = p->graphs.v[i];
        uint64_t *at;
        bool fresh;
        rc = hw_map64_at(&last, g->upid.v, &at, &fresh);
        if (rc < 0)
            break;
        if (fresh || p->graphs.v[x->graph_rows[*at].graph]->ts_ns != g->ts_ns) {
            *at = x->n_graph_rows++;
            x->graph_rows[*at] = (struct hw_graph_row){i, g->heap_size, g->truncated};
        }
        struct hw_graph_row *r = &x->graph_rows[*at];
        r->truncated |= g->truncated;
        if (g->heap_size >= 0)
            r->heap_size = g->heap_size;
        x->row_of_graph[i] = (uint32_t)*at;
    }
    hw_map64_done(&last);
    return rc;
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

/* One for each data source that requests a low interval. */
static int derive_diagnostics(struct hw_sql_derived *x)
{
    enum { LOW = 100 * 1024 };
    static const char profiler[] = "heapprofd";
    const struct hw_profile *p = x->profile;
    x->low_intervals = calloc(p->config_intervals.n + 1, sizeof *x->low_intervals);
    if (!x->low_intervals)
        return HW_ENOMEM;
    for (size_t i = 0; i < p->config_intervals.n; i++)
        if (p->config_intervals.v[i] && p->config_intervals.v[i] < LOW)
            x->low_intervals[x->n_diagnostics++] = p->config_intervals.v[i];
    for (size_t i = 0; i < x->n_stats; i++) {
        const struct hw_sql_stat *r = &x->stats[i];
        x->profiler_failed |= r->severity == HW_STAT_ERROR && r->value > 0 &&
                              r->name.n >= sizeof profiler - 1 &&
                              memcmp(r->name.p, profiler, sizeof profiler - 1) == 0;
    }
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
        rc = derive_diagnostics(x);
    if (rc == HW_OK)
        rc = derive_args(x);
    if (rc == HW_OK)
        rc = derive_build_ids(x);
    if (rc == HW_OK)
        rc = derive_symbol_sets(x);
    if (rc == HW_OK)
        rc = derive_graph_rows(x);
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
    free(x->graph_rows);
    free(x->row_of_graph);
    free(x->oomes);
    hw_callstack_rows_done(&x->callstacks);
    hw_dump_sums_done(&x->dump_sums);
    free(x->low_intervals);
    if (x->graphs)
        hw_graph_views_done(x->graphs);
    free(x->graphs);
}

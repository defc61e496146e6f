/*
 * Both scans push a node's row to the targets of its edges and run the step's select over the rows
 * that arrived. The plain scan processes all rows pushed in the previous step. The aggregating one
 * processes the nodes of one height (longest path down) at a time, highest first, so that all rows
 * for a node have arrived when it is processed.
 */
#include "sql/graphs/graph_scan.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "sql/engine.h"
#include "sql/graphs/graph_edges.h"

#include "base/banned.h"

#define MAX_CELLS ((size_t)1 << 31)

typedef HW_VEC(struct hw_row_cell) cells;

struct scan {
    const struct hw_graph_query *q;
    struct hw_graph_edges g;
    size_t width;
    struct hw_strings *strings; /* of all rows */
    sqlite3_stmt *stmt;
    uint32_t *height; /* by number; NULL: a plain scan */
    cells *arrived;   /* by height; a single one for a plain scan */
    size_t n_arrived, n_cells;
    hw_graph_rows *out;
};

int hw_graph_scan_rows(const struct hw_row_list *l, hw_graph_rows *out)
{
    size_t width = l ? l->width : 0;
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && width <= HW_SCAN_WIDTH && i < hw_row_list_rows(l); i++) {
        struct hw_row_cell row[HW_SCAN_WIDTH] = {{.type = HW_SQL_NULL}};
        for (size_t k = 0; k < width; k++)
            row[k] = *hw_row_list_cell(l, i, k);
        rc = hw_graph_put_row(out, row, HW_SCAN_WIDTH);
    }
    return rc;
}

static const char prefix[] = "graph scan: ";

static int fail(const struct scan *s, const char *text)
{
    sqlite3_snprintf(sizeof s->q->notes->message, s->q->notes->message, "%s%s", prefix, text);
    return HW_EINVAL;
}

static int failed_statement(const struct scan *s, int rc)
{
    if (rc == SQLITE_INTERRUPT)
        return HW_ETIMEOUT;
    if (rc == SQLITE_NOMEM)
        return HW_ENOMEM;
    /* A scan within a step has already added the prefix. */
    const char *text = sqlite3_errmsg(s->q->sql->db);
    return fail(s, strncmp(text, prefix, sizeof prefix - 1) == 0 ? text + sizeof prefix - 1 : text);
}

/* ---- rows ---- */

static int check_memory(struct scan *s, size_t more)
{
    s->n_cells += more;
    if (s->n_cells > MAX_CELLS)
        return HW_ELIMIT;
    return s->n_cells * sizeof(struct hw_row_cell) > s->q->memory_left() ? HW_ENOMEM : HW_OK;
}

/* Adds a row to the result and pushes it along all edges of its node. */
static int put_row(struct scan *s, const struct hw_row_cell *row)
{
    struct hw_row_cell wide[HW_SCAN_WIDTH] = {{.type = HW_SQL_NULL}};
    uint32_t node = HW_GRAPH_NONE;
    uint64_t known;
    for (size_t k = 0; k < s->width; k++)
        wide[k] = row[k];
    int rc = hw_graph_put_row(s->out, wide, HW_SCAN_WIDTH);
    if (row[0].type == HW_SQL_INT && hw_graph_ids_find(&s->g.ids, row[0].i, &known))
        node = (uint32_t)known;
    uint32_t first = node == HW_GRAPH_NONE ? 0 : s->g.first[node];
    uint32_t end = node == HW_GRAPH_NONE ? 0 : s->g.first[node + 1];
    if (rc == HW_OK)
        rc = check_memory(s, HW_SCAN_WIDTH + (size_t)(end - first) * s->width);
    for (uint32_t e = first; rc == HW_OK && e < end; e++) {
        uint32_t to = s->g.to[e];
        cells *c = &s->arrived[s->height ? s->height[to] : 0];
        if (hw_vec_reserve(c, c->n + s->width) < 0)
            return HW_ENOMEM;
        c->v[c->n++] = hw_graph_cell_int(s->g.ids.v.v[to]);
        for (size_t k = 1; k < s->width; k++)
            c->v[c->n++] = row[k];
    }
    return rc;
}

static int put_first_rows(struct scan *s)
{
    const struct hw_row_list *l = s->q->lists[1];
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < hw_row_list_rows(l); i++) {
        struct hw_row_cell row[HW_SCAN_WIDTH];
        for (size_t k = 0; rc == HW_OK && k < s->width; k++) {
            hw_str_id id;
            row[k] = *hw_row_list_cell(l, i, k);
            if (row[k].type != HW_SQL_TEXT)
                continue;
            id.v = (uint32_t)row[k].i;
            rc = hw_strings_intern(s->strings, hw_strings_get(l->strings, id), &id);
            row[k].i = id.v;
        }
        if (rc == HW_OK)
            rc = hw_graph_stops(s->q, i) ? HW_ETIMEOUT : put_row(s, row);
    }
    return rc;
}

static int read_row(struct scan *s, struct hw_row_cell *row)
{
    for (size_t k = 0; k < s->width; k++) {
        hw_str_id id;
        const unsigned char *text;
        int rc;
        row[k] = (struct hw_row_cell){.type = HW_SQL_NULL};
        switch (sqlite3_column_type(s->stmt, (int)k)) {
        case SQLITE_INTEGER:
            row[k] = hw_graph_cell_int(sqlite3_column_int64(s->stmt, (int)k));
            break;
        case SQLITE_FLOAT:
            row[k].type = HW_SQL_REAL;
            row[k].d = sqlite3_column_double(s->stmt, (int)k);
            break;
        case SQLITE_TEXT:
            text = sqlite3_column_text(s->stmt, (int)k);
            rc = !text ? HW_ENOMEM
                       : hw_strings_intern(
                             s->strings,
                             hw_bytes_of(text, (size_t)sqlite3_column_bytes(s->stmt, (int)k)), &id);
            if (rc < 0)
                return rc;
            row[k] = (struct hw_row_cell){.type = HW_SQL_TEXT, .i = id.v};
            break;
        case SQLITE_NULL:
            break;
        default:
            return fail(s, "a value is a blob");
        }
    }
    return HW_OK;
}

/* ---- steps ---- */

static int prepare(struct scan *s)
{
    const char *tail = NULL;
    struct hw_strbuf text = {0};
    hw_strbuf_addf(&text, "SELECT * FROM %s", s->q->text ? s->q->text : "");
    int rc =
        text.failed ? SQLITE_NOMEM : sqlite3_prepare_v2(s->q->sql->db, text.p, -1, &s->stmt, &tail);
    bool has_more = rc == SQLITE_OK && *tail;
    hw_strbuf_done(&text);
    if (rc != SQLITE_OK)
        return failed_statement(s, rc);
    if (!s->stmt || has_more || !sqlite3_stmt_readonly(s->stmt))
        return fail(s, "a step is one select in brackets");
    return (size_t)sqlite3_column_count(s->stmt) == s->width
               ? HW_OK
               : fail(s, "a step has other columns than the first rows");
}

/* Runs the select over the arrived rows, and consumes them. */
static int run_step(struct scan *s, cells *arrived)
{
    struct hw_row_list l = {.width = s->width, .strings = s->strings};
    struct hw_row_cell row[HW_SCAN_WIDTH];
    l.cells.v = arrived->v;
    l.cells.n = arrived->n;
    (void)sqlite3_reset(s->stmt);
    /* A select that does not read the arrived rows has no parameter. */
    int rc = HW_OK, step = SQLITE_DONE;
    if (sqlite3_bind_parameter_count(s->stmt) > 0 && hw_row_list_bind(s->stmt, 1, &l) != SQLITE_OK)
        return HW_ENOMEM;
    *arrived = (cells){0};
    while (rc == HW_OK && (step = sqlite3_step(s->stmt)) == SQLITE_ROW) {
        rc = read_row(s, row);
        if (rc == HW_OK)
            rc = put_row(s, row);
    }
    if (rc == HW_OK && step != SQLITE_DONE)
        rc = failed_statement(s, step);
    (void)sqlite3_reset(s->stmt); /* releases the list */
    (void)sqlite3_clear_bindings(s->stmt);
    s->n_cells -= l.cells.n;
    free(l.cells.v);
    return rc;
}

static int run_plain(struct scan *s)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && s->arrived[0].n; i++)
        rc = s->q->stop(s->q->ctx) ? HW_ETIMEOUT : run_step(s, &s->arrived[0]);
    return rc;
}

static int run_by_height(struct scan *s)
{
    int rc = HW_OK;
    for (size_t h = s->n_arrived; rc == HW_OK && h-- > 0;)
        if (s->arrived[h].n)
            rc = s->q->stop(s->q->ctx) ? HW_ETIMEOUT : run_step(s, &s->arrived[h]);
    return rc;
}

/* ---- heights ---- */

struct visit {
    uint32_t node, edge;
};

/* A depth-first walk; a node's height is known once all its targets' are. Edges back to a node on
 * the current path are ignored. */
static int find_heights_from(struct scan *s, uint32_t root, uint8_t *state)
{
    enum { NEW, ON_PATH, DONE };
    HW_VEC(struct visit) stack = {0};
    int rc = hw_vec_push(&stack, (struct visit){root, s->g.first[root]}) < 0 ? HW_ENOMEM : HW_OK;
    state[root] = ON_PATH;
    for (size_t n = 0; rc == HW_OK && stack.n; n++) {
        struct visit *v = &stack.v[stack.n - 1];
        uint32_t node = v->node, end = s->g.first[node + 1];
        if (hw_graph_stops(s->q, n))
            rc = HW_ETIMEOUT;
        if (v->edge > s->g.first[node]) { /* the previous target is finished */
            uint32_t to = s->g.to[v->edge - 1];
            if (state[to] == DONE && s->height[to] >= s->height[node])
                s->height[node] = s->height[to] + 1;
        }
        if (v->edge == end) {
            state[node] = DONE;
            stack.n--;
            continue;
        }
        uint32_t to = s->g.to[v->edge++];
        if (state[to] != NEW)
            continue;
        state[to] = ON_PATH;
        if (hw_vec_push(&stack, (struct visit){to, s->g.first[to]}) < 0)
            rc = HW_ENOMEM;
    }
    hw_vec_done(&stack);
    return rc;
}

static int find_heights(struct scan *s)
{
    size_t n = s->g.ids.v.n;
    hw_autofree uint8_t *state = calloc(n + 1, sizeof *state);
    s->height = calloc(n + 1, sizeof *s->height);
    int rc = state && s->height ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        if (state[i] == 0)
            rc = find_heights_from(s, (uint32_t)i, state);
    s->n_arrived = 1;
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        if (s->height[i] >= s->n_arrived)
            s->n_arrived = s->height[i] + (size_t)1;
    return rc;
}

/* ---- both ---- */

static void scan_done(struct scan *s)
{
    sqlite3_finalize(s->stmt);
    for (size_t i = 0; s->arrived && i < s->n_arrived; i++)
        hw_vec_done(&s->arrived[i]);
    free(s->arrived);
    free(s->height);
    hw_graph_edges_done(&s->g);
}

static int scan(const struct hw_graph_query *q, bool aggregating, hw_graph_rows *out)
{
    struct scan s = {.q = q, .out = out, .n_arrived = 1};
    s.width = q->lists[1] ? q->lists[1]->width : 0;
    if (!s.width)
        return HW_OK; /* no first rows */
    if (s.width > HW_SCAN_WIDTH)
        return fail(&s, "more than 7 columns");
    if (q->sql->function_depth >= HW_SQL_MAX_CALL_DEPTH)
        return fail(&s, "selects run each other too deeply");
    q->sql->function_depth++;
    int rc = hw_strings_new(&q->notes->texts);
    s.strings = q->notes->texts;
    if (rc == HW_OK)
        rc = hw_graph_edges_read(q, &s.g);
    if (rc == HW_OK && aggregating)
        rc = find_heights(&s);
    if (rc == HW_OK && !(s.arrived = calloc(s.n_arrived, sizeof *s.arrived)))
        rc = HW_ENOMEM;
    if (rc == HW_OK)
        rc = prepare(&s);
    if (rc == HW_OK)
        rc = put_first_rows(&s);
    if (rc == HW_OK)
        rc = aggregating ? run_by_height(&s) : run_plain(&s);
    scan_done(&s);
    q->sql->function_depth--;
    return rc;
}

int hw_graph_scan(const struct hw_graph_query *q, hw_graph_rows *out)
{
    return scan(q, /* aggregating = */ false, out);
}

int hw_graph_scan_aggregating(const struct hw_graph_query *q, hw_graph_rows *out)
{
    return scan(q, /* aggregating = */ true, out);
}

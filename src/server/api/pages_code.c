/*
 * GET /api/v1/traces/ID/code?fn=NAME   the instructions of a function, with a selection's figures
 *
 * The name is one in the functions table; of several functions the one with the most is used. Shows
 * the code around its heaviest address: for an inlined function, the function that contains it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "enrich/lines/disassemble.h"
#include "server/api/pages_internal.h"
#include "views/flame/addresses.h"

#include "base/banned.h"

enum { MAX_DIRS = 32 };

static const struct hw_address_row *heaviest(const hw_address_rows *rows, enum hw_metric m)
{
    const struct hw_address_row *best = NULL;
    for (size_t i = 0; i < rows->n; i++)
        if (!best || hw_value_get(&rows->v[i].total, m) > hw_value_get(&best->total, m))
            best = &rows->v[i];
    return best;
}

/* Of all functions with that name the one with the most. */
static int find_rows(struct hw_page_trace *t, const struct hw_page_selection *sel, const char *fn,
                     hw_address_rows *out, struct hw_error *err)
{
    hw_values values = {0};
    hw_address_rows rows = {0};
    int64_t most = 0;
    bool any = false;
    int rc = hw_page_values(t, sel, &values, err);
    const struct hw_flame_input q = {.cs = t->profile->callsites,
                                     .fns = t->functions,
                                     .values = &values,
                                     .flags = sel->flags & HW_PAGE_ALL_FRAMES ? 0 : HW_FLAME_SITES};
    for (uint32_t i = 0; rc == HW_OK && i < t->n_labels; i++) {
        if (strcmp(hw_page_label(t, sel->program, i), fn) != 0)
            continue;
        any = true;
        rc = hw_addresses_find(&q, i, &rows);
        const struct hw_address_row *best = heaviest(&rows, sel->metric);
        if (rc < 0 || !best || (out->n && hw_value_get(&best->total, sel->metric) <= most))
            continue;
        most = hw_value_get(&best->total, sel->metric);
        hw_address_rows swap = *out;
        *out = rows;
        rows = swap;
    }
    hw_vec_done(&rows);
    hw_vec_done(&values);
    if (rc == HW_OK && out->n == 0)
        rc = hw_fail(err, HW_ENOTFOUND, 0,
                     any ? "this function has no address in a file" : "no function of that name");
    return rc;
}

struct figures {
    struct hw_value self, total;
};

/* Sums the rows of the same file by instruction; the others go to *elsewhere. */
static void add_figures(const struct hw_page_trace *t, const hw_address_rows *rows,
                        const struct hw_mapping *m, const struct hw_code *code,
                        struct figures *by_instruction, struct hw_value *elsewhere)
{
    for (size_t i = 0; i < rows->n; i++) {
        const struct hw_address_row *r = &rows->v[i];
        const struct hw_mapping *of = hw_callsites_get_mapping(t->profile->callsites, r->mapping);
        const struct hw_instruction *x = NULL;
        if (of->path.v == m->path.v && of->build_id.v == m->build_id.v)
            x = hw_code_at(code, r->rel_pc + code->shift);
        if (!x) {
            hw_value_add(elsewhere, &r->total);
            continue;
        }
        hw_value_add(&by_instruction[x - code->list.v].self, &r->self);
        hw_value_add(&by_instruction[x - code->list.v].total, &r->total);
    }
}

static void put_instructions(struct hw_json *j, const struct hw_code *c, const struct figures *f,
                             const struct hw_page_selection *s)
{
    char address[24];
    hw_json_begin_array(j);
    for (size_t i = 0; i < c->list.n; i++) {
        const struct hw_instruction *x = &c->list.v[i];
        (void)snprintf(address, sizeof address, "%" PRIx64, x->va);
        hw_json_begin_array(j);
        hw_json_str(j, address);
        hw_json_str(j, c->texts.p + x->text);
        hw_json_str(j, x->file == HW_ID_NONE ? "" : c->texts.p + x->file);
        hw_json_uint(j, x->line);
        hw_json_int(j, hw_value_get(&f[i].self, s->metric));
        hw_json_int(j, hw_value_get(&f[i].total, s->metric));
        hw_json_int(j, hw_value_samples(&f[i].total, s->metric));
        hw_json_double(j, hw_figure_error(&f[i].total, s->metric, s->interval_bytes));
        hw_json_end_array(j);
    }
    hw_json_end_array(j);
}

static void reply_code(struct hw_http_request *req, const struct hw_page_selection *s,
                       const struct hw_code *c, const struct figures *f,
                       const struct hw_value *elsewhere)
{
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_str(&j, "symbol", c->function.p);
    hw_json_kv_str(&j, "path", c->path.p);
    hw_json_kv_str(&j, "tool", c->tool);
    hw_json_kv_bool(&j, "cut", c->cut);
    hw_json_kv_int(&j, "elsewhere", hw_value_get(elsewhere, s->metric));
    hw_json_key(&j, "rows");
    put_instructions(&j, c, f, s);
    hw_json_end_object(&j);
    hw_page_reply_json(req, &j);
}

static int disassemble(struct hw_page_trace *t, const struct hw_address_row *at,
                       const struct hw_mapping *m, struct hw_code *code, struct hw_error *err)
{
    struct hw_binaries_where where[2] = {t->pages->o.symbols};
    const char *dirs[MAX_DIRS];
    char *copy = t->symbol_dirs ? strdup(t->symbol_dirs) : NULL, *save = NULL;
    struct hw_callsites *cs = t->profile->callsites;
    where[0].mode = HW_BINARIES_FIND;
    where[0].no_paths = t->away;
    where[1] =
        (struct hw_binaries_where){.more = dirs, .mode = HW_BINARIES_INDEX, .no_paths = t->away};
    for (char *d = copy ? strtok_r(copy, "\n", &save) : NULL; d && where[1].n_more < MAX_DIRS;
         d = strtok_r(NULL, "\n", &save))
        dirs[where[1].n_more++] = d;
    int rc = hw_disassemble(where, where[1].n_more ? 2 : 1, m, hw_page_string(t, m->path),
                            hw_strings_get(hw_callsites_strings(cs), m->build_id), at->rel_pc, code,
                            err);
    free(copy);
    return rc;
}

void hw_page_code(struct hw_http_request *req, struct hw_page_trace *t)
{
    const char *fn = hw_http_query(req, "fn");
    struct hw_page_selection sel;
    hw_address_rows rows = {0};
    struct hw_code code = {0};
    struct figures *figures = NULL;
    struct hw_value elsewhere = {0};
    struct hw_error err = {0};
    int rc = hw_page_selection_init(&sel, t, req, &err);
    if (rc == HW_OK)
        rc = find_rows(t, &sel, fn ? fn : "", &rows, &err);
    if (rc == HW_OK) {
        const struct hw_address_row *at = heaviest(&rows, sel.metric);
        const struct hw_mapping *m = hw_callsites_get_mapping(t->profile->callsites, at->mapping);
        rc = disassemble(t, at, m, &code, &err);
        figures = rc == HW_OK ? calloc(code.list.n + 1, sizeof *figures) : NULL;
        if (rc == HW_OK && !figures)
            rc = hw_fail(&err, HW_ENOMEM, 0, "figures");
        if (rc == HW_OK)
            add_figures(t, &rows, m, &code, figures, &elsewhere);
    }
    if (rc == HW_OK)
        reply_code(req, &sel, &code, figures, &elsewhere);
    else
        hw_page_reply_error(req, &err, rc == HW_EUNSUPPORTED ? HW_EINVAL : rc);
    free(figures);
    hw_code_done(&code);
    hw_vec_done(&rows);
    hw_page_selection_done(&sel);
}

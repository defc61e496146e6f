/*
 * Names of functions and modules for a trace's pages (views/flame/program.h): a text per function,
 * made once, and for each program whose file has another name, separate texts for its unnamed
 * functions. Processes of one program share them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "server/api/pages_internal.h"
#include "views/flame/program.h"

#include "base/banned.h"

struct renamed {
    uint32_t function;
    char *label; /* owned */
};

struct hw_page_program {
    struct hw_shown_program shown;
    char *module;                   /* owned; the name shown for its file */
    HW_VEC(struct renamed) renamed; /* by function */
    struct hw_page_program *next;   /* of all that the trace owns */
    struct hw_page_program *beside; /* another of the same module; NULL = none */
};

static char *label_of(const struct hw_page_trace *t, const struct hw_shown_program *program,
                      uint32_t function)
{
    struct hw_namer namer = {hw_demangle_shown, t->demangler};
    struct hw_strbuf b = {0};
    hw_program_label(program, &b, t->profile->callsites, hw_functions_get(t->functions, function),
                     &namer);
    return hw_strbuf_take(&b);
}

static int make_labels(struct hw_page_trace *t)
{
    t->n_labels = hw_functions_count(t->functions);
    t->labels = calloc(t->n_labels + 1, sizeof *t->labels);
    if (!t->labels)
        return HW_ENOMEM;
    for (uint32_t i = 0; i < t->n_labels; i++)
        if (!(t->labels[i] = label_of(t, NULL, i)))
            return HW_ENOMEM;
    return HW_OK;
}

/* A file with the program's name keeps its path, which is more informative. */
static int name_module(const struct hw_page_trace *t, struct hw_page_program *g)
{
    const struct hw_strings *strings = hw_callsites_strings(t->profile->callsites);
    bool renamed = hw_program_is_renamed(&g->shown, t->profile->callsites);
    struct hw_bytes text = renamed ? g->shown.name : hw_strings_get(strings, g->shown.module);
    g->module = strndup((const char *)text.p, text.n);
    if (!g->module)
        return HW_ENOMEM;
    for (uint32_t i = 0; renamed && i < t->n_labels; i++) {
        const struct hw_function *fn = hw_functions_get(t->functions, i);
        if (fn->name.v || !hw_program_has(&g->shown, fn->module))
            continue;
        struct renamed r = {i, label_of(t, &g->shown, i)};
        if (!r.label || hw_vec_push(&g->renamed, r) < 0) {
            free(r.label);
            return HW_ENOMEM;
        }
    }
    return HW_OK;
}

/* by_module: module → its first program, as a pointer; many processes run one program. */
static int add_program(struct hw_page_trace *t, struct hw_map64 *by_module, size_t upid,
                       const struct hw_shown_program *shown)
{
    uint64_t *first;
    bool is_new;
    if (!hw_program_has(shown, shown->module))
        return HW_OK;
    if (hw_map64_at(by_module, shown->module.v, &first, &is_new) < 0)
        return HW_ENOMEM;
    struct hw_page_program *beside = (struct hw_page_program *)(uintptr_t)*first;
    for (struct hw_page_program *g = beside; g; g = g->beside)
        if (hw_bytes_equal(g->shown.name, shown->name)) {
            t->programs[upid] = g;
            return HW_OK;
        }
    struct hw_page_program *g = calloc(1, sizeof *g);
    if (!g)
        return HW_ENOMEM;
    *g = (struct hw_page_program){.shown = *shown, .next = t->all_programs, .beside = beside};
    t->programs[upid] = t->all_programs = g;
    *first = (uintptr_t)g;
    return name_module(t, g);
}

int hw_page_names_init(struct hw_page_trace *t)
{
    struct hw_shown_program *shown = NULL;
    struct hw_map64 by_module = {0};
    int rc = make_labels(t);
    if (rc == HW_OK)
        rc = hw_programs_find(t->profile, &shown);
    if (rc == HW_OK && !(t->programs = calloc(t->profile->processes.n + 1, sizeof *t->programs)))
        rc = HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < t->profile->processes.n; i++)
        rc = add_program(t, &by_module, i, &shown[i]);
    hw_map64_done(&by_module);
    free(shown);
    return rc;
}

static void program_free(struct hw_page_program *g)
{
    for (size_t i = 0; i < g->renamed.n; i++)
        free(g->renamed.v[i].label);
    hw_vec_done(&g->renamed);
    free(g->module);
    free(g);
}

void hw_page_names_done(struct hw_page_trace *t)
{
    for (struct hw_page_program *g = t->all_programs, *next; g; g = next) {
        next = g->next;
        program_free(g);
    }
    free(t->programs);
    for (size_t i = 0; t->labels && i < t->n_labels; i++)
        free(t->labels[i]);
    free(t->labels);
}

const struct hw_page_program *hw_page_program_of(const struct hw_page_trace *t, hw_upid upid)
{
    return upid.v < t->profile->processes.n ? t->programs[upid.v] : NULL;
}

const struct hw_shown_program *hw_page_program_shown(const struct hw_page_program *g)
{
    return g ? &g->shown : NULL;
}

const char *hw_page_program_module(const struct hw_page_program *g)
{
    return g ? g->module : NULL;
}

static int by_function(const void *key, const void *at)
{
    uint32_t a = *(const uint32_t *)key, b = ((const struct renamed *)at)->function;
    return (a > b) - (a < b);
}

const char *hw_page_label(const struct hw_page_trace *t, const struct hw_page_program *g,
                          uint32_t function)
{
    const struct renamed *r = NULL;
    if (g && g->renamed.n)
        r = bsearch(&function, g->renamed.v, g->renamed.n, sizeof *g->renamed.v, by_function);
    return r ? r->label : t->labels[function];
}

const char *hw_page_module(const struct hw_page_trace *t, const struct hw_page_program *g,
                           hw_str_id path)
{
    return g && hw_program_has(&g->shown, path) ? g->module : hw_page_string(t, path);
}

const char *hw_page_where(const struct hw_page_trace *t, const struct hw_page_program *g,
                          uint32_t function)
{
    return hw_page_module(t, g, hw_function_where(hw_functions_get(t->functions, function)));
}

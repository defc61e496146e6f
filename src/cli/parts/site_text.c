#include "cli/parts/site_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/text/json_out.h"
#include "cli/parts/short_name.h"
#include "config/command/units.h"
#include "views/flame/places.h"

#include "base/banned.h"

enum { ALL_PERCENT = 95 };

/* For each function, the class with the most of its objects. */
static int find_classes(struct hw_site_names *s, const hw_values *values, enum hw_metric by)
{
    size_t n = hw_functions_count(s->fns);
    struct hw_map64 sums = {0};
    hw_autofree double *all = calloc(n + 1, sizeof *all);
    int rc = all && (s->classes = calloc(n + 1, sizeof *s->classes)) ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < values->n; i++) {
        hw_callsite_id c = values->v[i].callsite;
        uint32_t fn = hw_functions_site(s->fns, c);
        int64_t v = hw_value_get(&values->v[i].v, by);
        uint64_t *sum;
        bool fresh;
        if (v <= 0)
            continue;
        all[fn] += (double)v;
        if (!hw_functions_is_class(s->fns, c))
            continue;
        uint32_t class = hw_functions_of_frame(s->fns, hw_callsites_get(s->cs, c)->frame);
        rc = hw_map64_at(&sums, (uint64_t)fn << 32 | class, &sum, &fresh);
        if (rc == HW_OK && (double)(*sum += (uint64_t)v) > s->classes[fn].share)
            s->classes[fn] = (struct hw_site_class){class, (double)*sum};
    }
    for (size_t fn = 0; rc == HW_OK && fn < n; fn++)
        if (s->classes[fn].share > 0)
            s->classes[fn].share /= all[fn];
    hw_map64_done(&sums);
    return rc;
}

int hw_site_names_find(struct hw_site_names *s, const hw_values *values, enum hw_metric by)
{
    s->program = hw_program_find(s->cs, values, hw_bytes_str(s->process_name));
    struct hw_flame tree = {0};
    int rc = hw_flame_build(s->cs, s->fns, values, HW_FLAME_SITES, &tree);
    if (rc == HW_OK)
        rc = hw_callers_find(s->cs, s->fns, &tree, by, HW_CALLERS_OF_SELF, &s->callers);
    hw_flame_done(&tree);
    if (rc == HW_OK)
        rc = hw_places_find(s->cs, s->fns, values, by, &s->places);
    return rc < 0 ? rc : find_classes(s, values, by);
}

void hw_site_names_done(struct hw_site_names *s)
{
    free(s->callers);
    free(s->classes);
    free(s->places);
    s->callers = NULL;
    s->places = NULL;
    s->classes = NULL;
}

void hw_site_label(const struct hw_site_names *s, const struct hw_function *fn,
                   struct hw_strbuf *out)
{
    hw_program_label(&s->program, out, s->cs, fn, s->namer);
}

void hw_site_class(const struct hw_site_names *s, uint32_t function, struct hw_strbuf *out)
{
    const struct hw_site_class *c = &s->classes[function];
    if (c->share <= 0)
        return;
    hw_strbuf_adds(out, ": ");
    hw_function_label(out, s->cs, hw_functions_get(s->fns, c->function), s->namer);
    if (100 * c->share < ALL_PERCENT)
        hw_strbuf_addf(out, " %ld%%", lround(100 * c->share));
}

void hw_site_where(const struct hw_site_names *s, uint32_t function, struct hw_strbuf *out)
{
    const struct hw_function *fn = hw_functions_get(s->fns, function);
    hw_str_id where = hw_function_where(fn);
    if (!fn->name.v || where.v == s->program.module.v)
        return;
    struct hw_strbuf text = {0};
    hw_program_where(NULL, &text, s->cs, fn, &s->places[function]);
    hw_strbuf_add_escaped(out, text.p, text.n);
    out->failed |= text.failed;
    hw_strbuf_done(&text);
}

bool hw_site_callers(const struct hw_site_names *s, uint32_t function, size_t room,
                     struct hw_strbuf *out)
{
    enum { SHARE_WIDTH = 4, LEAST_NAME = 6 };
    const struct hw_callers *c = &s->callers[function];
    struct hw_strbuf label = {0}, shown = {0};
    int percent = 100;
    size_t n = 0;
    for (; n < c->n; n++) {
        int share = (int)lround(100 * c->share[n]);
        size_t used = share < ALL_PERCENT ? 3 + SHARE_WIDTH : 3;
        hw_strbuf_clear(&label);
        hw_strbuf_clear(&shown);
        hw_site_label(s, hw_functions_get(s->fns, c->function[n]), &label);
        /* only the nearest is truncated to fit, and not to a few letters */
        hw_short_name(&shown, label.p ? label.p : "",
                      n == 0 && room >= used + LEAST_NAME ? room - used : SIZE_MAX);
        used += hw_text_width(shown.p ? shown.p : "");
        if (used > room)
            break;
        hw_strbuf_addf(out, " < %s", shown.p ? shown.p : "");
        percent = share;
        room -= used - (share < ALL_PERCENT ? SHARE_WIDTH : 0);
    }
    if (percent < ALL_PERCENT)
        hw_strbuf_addf(out, " %d%%", percent);
    out->failed |= label.failed || shown.failed;
    hw_strbuf_done(&label);
    hw_strbuf_done(&shown);
    return n > 0;
}

void hw_json_put_class(struct hw_json *j, const struct hw_site_names *s, uint32_t function)
{
    const struct hw_site_class *c = &s->classes[function];
    struct hw_strbuf label = {0};
    if (c->share <= 0)
        return;
    hw_function_label(&label, s->cs, hw_functions_get(s->fns, c->function), s->namer);
    hw_json_key(j, "class");
    hw_json_begin_object(j);
    hw_json_kv_str(j, "name", label.p);
    hw_json_kv_double(j, "share", c->share);
    hw_json_end_object(j);
    hw_strbuf_done(&label);
}

void hw_json_put_callers(struct hw_json *j, const struct hw_site_names *s, uint32_t function)
{
    const struct hw_callers *c = &s->callers[function];
    struct hw_strbuf label = {0};
    hw_json_key(j, "callers");
    hw_json_begin_array(j);
    for (size_t i = 0; i < c->n; i++) {
        hw_strbuf_clear(&label);
        hw_function_label(&label, s->cs, hw_functions_get(s->fns, c->function[i]), s->namer);
        hw_json_begin_object(j);
        hw_json_kv_str(j, "function", label.p);
        hw_json_kv_double(j, "share", c->share[i]);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_strbuf_done(&label);
}

void hw_json_put_site(struct hw_json *j, const struct hw_site_names *s, uint32_t function)
{
    struct hw_strbuf label = {0};
    hw_site_label(s, hw_functions_get(s->fns, function), &label);
    hw_json_key(j, "function");
    hw_json_strn(j, label.p, label.n);
    hw_json_put_callers(j, s, function);
    hw_strbuf_done(&label);
}

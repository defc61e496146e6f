#include "cli/graph/graph_duplicates.h"

#include <stdio.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/strbuf.h"
#include "config/command/units.h"
#include "model/profile.h"
#include "views/objects/heap_duplicates.h"

#include "base/banned.h"

enum { WIDTH = 11, MAX_TEXT_SHOWN = 48 };

static struct hw_bytes text_of(const struct hw_profile *p, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(p->callsites), id);
}

static void put_json(const struct hw_profile *p, const struct hw_heap_graph *g,
                     const struct hw_duplicate *d, struct hw_json *json)
{
    struct hw_bytes class = text_of(p, hw_class_shown_name(&g->classes[d->class]));
    hw_json_begin_object(json);
    hw_json_key(json, "class");
    hw_json_strn(json, class.p, class.n);
    hw_json_kv_int(json, "length", d->length);
    hw_json_kv_uint(json, "copies", d->n_copies);
    hw_json_kv_int(json, "bytes", d->bytes);
    hw_json_kv_int(json, "spare", d->spare);
    if (d->has_text) {
        hw_json_key(json, "text");
        hw_json_strn(json, text_of(p, d->text).p, text_of(p, d->text).n);
    }
    hw_json_end_object(json);
}

/* "byte[12] "java.lang..." */
static void put_text(const struct hw_profile *p, const struct hw_heap_graph *g,
                     const struct hw_duplicate *d)
{
    struct hw_bytes class = text_of(p, hw_class_shown_name(&g->classes[d->class]));
    struct hw_strbuf name = {0};
    char spare[HW_UNIT_MAX], bytes[HW_UNIT_MAX], copies[HW_UNIT_MAX];
    size_t n = class.n >= 2 && class.p[class.n - 1] == ']' ? class.n - 2 : class.n;
    hw_strbuf_add_escaped(&name, class.p, n);
    hw_strbuf_addf(&name, "[%lld]", (long long)d->length);
    if (d->has_text) {
        struct hw_bytes text = text_of(p, d->text);
        hw_strbuf_adds(&name, " \"");
        hw_strbuf_add_escaped(&name, text.p, text.n < MAX_TEXT_SHOWN ? text.n : MAX_TEXT_SHOWN);
        hw_strbuf_adds(&name, text.n <= MAX_TEXT_SHOWN ? "\"" : "\"...");
    }
    printf("%*s%*s%*s  %s\n", WIDTH, hw_fmt_bytes(spare, (double)d->spare), WIDTH,
           hw_fmt_bytes(bytes, (double)d->bytes), WIDTH, hw_fmt_count(copies, d->n_copies),
           name.p ? name.p : "");
    hw_strbuf_done(&name);
}

int hw_graph_show_duplicates(const struct hw_profile *p, const struct hw_heap_graph *g, size_t top,
                             struct hw_json *json)
{
    hw_duplicates rows = {0};
    int64_t spare = 0;
    int rc = hw_heap_has_contents(g) ? hw_heap_duplicates(g, &rows) : HW_ENOTFOUND;
    if (rc < 0) {
        hw_vec_done(&rows);
        return rc;
    }
    for (size_t i = 0; i < rows.n; i++)
        spare += rows.v[i].spare;
    if (json) {
        hw_json_kv_int(json, "spare", spare);
        hw_json_key(json, "rows");
        hw_json_begin_array(json);
    } else {
        printf("%*s%*s%*s  %s\n", WIDTH, "spare", WIDTH, "bytes", WIDTH, "copies",
               "array, all with the same contents");
    }
    for (size_t i = 0; i < rows.n && i < top; i++) {
        if (json)
            put_json(p, g, &rows.v[i], json);
        else
            put_text(p, g, &rows.v[i]);
    }
    if (json) {
        hw_json_end_array(json);
    } else {
        char buf[HW_UNIT_MAX];
        printf("\n%s in %zu contents stand more than once\n", hw_fmt_bytes(buf, (double)spare),
               rows.n);
    }
    hw_vec_done(&rows);
    return HW_OK;
}

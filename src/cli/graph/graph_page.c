#include "cli/graph/graph_page.h"

#include <stdio.h>

#include "base/text/json_out.h"
#include "base/text/strbuf.h"
#include "config/command/units.h"
#include "model/profile.h"
#include "views/objects/heap_classes.h"

#include "base/banned.h"

struct hw_bytes hw_graph_name_of(const struct hw_graph_page *pg, uint32_t class)
{
    return hw_strings_get(hw_callsites_strings(pg->p->callsites),
                          hw_class_shown_name(&pg->g->classes[class]));
}

void hw_graph_put_name(struct hw_bytes name)
{
    struct hw_strbuf text = {0};
    hw_strbuf_add_escaped(&text, name.p, name.n);
    printf("  %s\n", text.n ? text.p : "[unknown]");
    hw_strbuf_done(&text);
}

void hw_graph_json_name(const struct hw_graph_page *pg, const char *key, struct hw_bytes name)
{
    hw_json_key(pg->json, key);
    hw_json_strn(pg->json, name.p, name.n);
}

void hw_graph_json_sum(const struct hw_graph_page *pg, const char *key, const struct hw_heap_sum *s)
{
    hw_json_key(pg->json, key);
    hw_json_begin_object(pg->json);
    hw_json_kv_int(pg->json, "objects", s->count);
    hw_json_kv_int(pg->json, "size", s->size);
    hw_json_kv_int(pg->json, "native", s->native);
    hw_json_end_object(pg->json);
}

void hw_graph_begin_rows(const struct hw_graph_page *pg)
{
    hw_json_key(pg->json, "rows");
    hw_json_begin_array(pg->json);
}

void hw_graph_put_bytes(int64_t v)
{
    char buf[HW_UNIT_MAX];
    printf("%*s", HW_GRAPH_WIDTH, hw_fmt_bytes(buf, (double)v));
}

void hw_graph_put_count(int64_t v)
{
    char buf[HW_UNIT_MAX];
    printf("%*s", HW_GRAPH_WIDTH, hw_fmt_count(buf, (double)v));
}

/*
 *     blocks      bytes     linked    sampled  class (kind)
 *         51     12.2M     12.2M      12.2M    java.nio.DirectByteBuffer (buffer)
 *                                      9.1M      48 samples
 *                                                  os::malloc
 *                                                  ...
 *
 * bytes are the runtime's; linked, those of blocks that have a sample; sampled, what the samples
 * stand for. Without a native profile of the same time, only the first two.
 */
#include "cli/graph/graph_native.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "base/text/strbuf.h"
#include "config/command/units.h"
#include "enrich/lines/demangle.h"
#include "model/profile.h"
#include "views/flame/functions.h"
#include "views/flame/program.h"
#include "views/objects/heap_native.h"

#include "base/banned.h"

enum { WIDTH = 11, STACKS_SHOWN = 3, FRAMES_SHOWN = 24 };

struct page {
    const struct hw_profile *p;
    const struct hw_heap_graph *g;
    struct hw_heap_native_view view;
    struct hw_functions *fns;
    struct hw_demangler *demangler;
    struct hw_namer namer;
    struct hw_shown_program *programs; /* owned; by upid */
    struct hw_json *json;              /* NULL = text */
    struct hw_strbuf text;
};

static void put_bytes(int64_t v)
{
    char buf[HW_UNIT_MAX];
    printf("%*s", WIDTH, hw_fmt_bytes(buf, (double)v));
}

static void put_count(uint64_t v)
{
    char buf[HW_UNIT_MAX];
    printf("%*s", WIDTH, hw_fmt_count(buf, (double)v));
}

static struct hw_bytes class_name(const struct page *pg, uint32_t class)
{
    return hw_strings_get(hw_callsites_strings(pg->p->callsites),
                          hw_class_shown_name(&pg->g->classes[class]));
}

/* ---- stacks ---- */

static void put_frame(struct page *pg, hw_frame_id frame)
{
    size_t n;
    const struct hw_function_at *chain = hw_functions_chain(pg->fns, frame, &n);
    while (n-- > 0) { /* innermost first */
        hw_strbuf_clear(&pg->text);
        hw_program_label(&pg->programs[pg->g->upid.v], &pg->text, pg->p->callsites,
                         hw_functions_get(pg->fns, chain[n].function), &pg->namer);
        if (pg->json) {
            hw_json_strn(pg->json, pg->text.p ? pg->text.p : "", pg->text.n);
            continue;
        }
        struct hw_strbuf safe = {0};
        hw_strbuf_add_escaped(&safe, pg->text.p, pg->text.n);
        printf("%*s      %s\n", 4 * WIDTH, "", safe.p ? safe.p : "");
        hw_strbuf_done(&safe);
    }
}

static void put_frames(struct page *pg, hw_callsite_id at)
{
    size_t left = pg->json ? SIZE_MAX : FRAMES_SHOWN;
    for (; at.v != HW_ID_NONE && left > 0; left--) {
        const struct hw_callsite *c = hw_callsites_get(pg->p->callsites, at);
        put_frame(pg, c->frame);
        at = c->parent;
    }
    if (at.v != HW_ID_NONE)
        printf("%*s      ...\n", 4 * WIDTH, "");
}

static void put_stack(struct page *pg, const struct hw_native_stack *s)
{
    if (!pg->json) {
        printf("%*s", 3 * WIDTH, "");
        put_bytes(s->bytes);
        printf("    %u sample%s\n", s->n_samples, hw_plural(s->n_samples));
        put_frames(pg, s->callsite);
        return;
    }
    hw_json_begin_object(pg->json);
    hw_json_kv_int(pg->json, "bytes", s->bytes);
    hw_json_kv_uint(pg->json, "samples", s->n_samples);
    hw_json_key(pg->json, "frames");
    hw_json_begin_array(pg->json);
    put_frames(pg, s->callsite);
    hw_json_end_array(pg->json);
    hw_json_end_object(pg->json);
}

static void put_stacks(struct page *pg, const struct hw_native_owner *o)
{
    size_t most = pg->json ? SIZE_MAX : STACKS_SHOWN;
    for (size_t i = 0; i < o->n_stacks && i < most; i++)
        put_stack(pg, &pg->view.stacks.v[o->first_stack + i]);
    if (o->n_stacks > most)
        printf("%*s    and %zu callstacks more\n", 4 * WIDTH, "", o->n_stacks - most);
}

/* ---- owners ---- */

static void put_owner(struct page *pg, const struct hw_native_owner *o)
{
    struct hw_bytes name = class_name(pg, o->class);
    const char *kind = hw_block_kind_name((enum hw_block_kind)o->kind);
    if (pg->json) {
        hw_json_begin_object(pg->json);
        hw_json_key(pg->json, "class");
        hw_json_strn(pg->json, name.p, name.n);
        hw_json_kv_str(pg->json, "kind", kind);
        hw_json_kv_uint(pg->json, "blocks", o->n_blocks);
        hw_json_kv_int(pg->json, "bytes", o->bytes);
        hw_json_kv_uint(pg->json, "linked_blocks", o->n_linked);
        hw_json_kv_int(pg->json, "linked_bytes", o->linked_bytes);
        hw_json_kv_int(pg->json, "sampled_bytes", o->sampled_bytes);
        hw_json_key(pg->json, "stacks");
        hw_json_begin_array(pg->json);
        put_stacks(pg, o);
        hw_json_end_array(pg->json);
        hw_json_end_object(pg->json);
        return;
    }
    put_count(o->n_blocks);
    put_bytes(o->bytes);
    put_bytes(o->linked_bytes);
    put_bytes(o->sampled_bytes);
    hw_strbuf_clear(&pg->text);
    hw_strbuf_add_escaped(&pg->text, name.p, name.n);
    printf("  %s (%s)\n", pg->text.p ? pg->text.p : "[unknown]", kind);
    put_stacks(pg, o);
}

/* Reports what has no sample, and possible reasons. */
static void put_rest(const struct page *pg)
{
    uint64_t blocks = 0;
    int64_t bytes = 0;
    char a[HW_UNIT_MAX], b[HW_UNIT_MAX];
    for (size_t i = 0; i < pg->view.owners.n; i++) {
        const struct hw_native_owner *o = &pg->view.owners.v[i];
        if (o->kind == HW_BLOCK_MAPPED)
            continue;
        blocks += o->n_blocks - o->n_linked;
        bytes += o->bytes - o->linked_bytes;
    }
    if (pg->json) {
        hw_json_kv_bool(pg->json, "linked", pg->g->is_linked);
        hw_json_kv_uint(pg->json, "blocks_without_sample", blocks);
        hw_json_kv_int(pg->json, "bytes_without_sample", bytes);
    } else if (!pg->g->is_linked) {
        puts("\nno native heap profile of this process was recorded with this graph: who allocated "
             "is "
             "not known");
    } else if (blocks) {
        printf(
            "\n%s in %s blocks have no sample: allocated before the recording, or passed over by "
            "sampling\n",
            hw_fmt_bytes(a, (double)bytes), hw_fmt_count(b, (double)blocks));
    }
}

static void put_all(struct page *pg, size_t top)
{
    if (pg->json) {
        hw_json_key(pg->json, "rows");
        hw_json_begin_array(pg->json);
    } else {
        printf("%*s%*s%*s%*s  %s\n", WIDTH, "blocks", WIDTH, "bytes", WIDTH, "linked", WIDTH,
               "sampled", "class");
    }
    for (size_t i = 0; i < pg->view.owners.n && i < top; i++)
        put_owner(pg, &pg->view.owners.v[i]);
    if (pg->json)
        hw_json_end_array(pg->json);
    put_rest(pg);
}

int hw_graph_show_native(const struct hw_profile *p, const struct hw_heap_graph *g, size_t top,
                         struct hw_json *json)
{
    struct page pg = {.p = p, .g = g, .json = json};
    const struct hw_wrappers none = {0};
    int rc = g->blocks.n ? hw_functions_new(p->callsites, &none, &pg.fns) : HW_ENOTFOUND;
    if (rc == HW_OK)
        rc = hw_heap_native_build(g, p->callsites, pg.fns, &pg.view);
    if (rc == HW_OK)
        rc = hw_demangler_new(hw_callsites_strings(p->callsites), &pg.demangler);
    if (rc == HW_OK)
        rc = hw_programs_find(p, &pg.programs);
    if (rc == HW_OK) {
        pg.namer = (struct hw_namer){hw_demangle_shown, pg.demangler};
        put_all(&pg, top);
        rc = pg.text.failed ? HW_ENOMEM : HW_OK;
    }
    free(pg.programs);
    hw_demangler_free(pg.demangler);
    hw_functions_free(pg.fns);
    hw_heap_native_done(&pg.view);
    hw_strbuf_done(&pg.text);
    return rc;
}

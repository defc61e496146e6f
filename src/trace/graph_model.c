#include "trace/graph_model.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "base/text/strings.h"
#include "model/callsites.h"
#include "model/graph/heap_graph.h"
#include "model/symbol_sets.h"
#include "trace/graph_writer.h"

#include "base/banned.h"

struct job {
    struct hw_graph_writer *out;
    const struct hw_heap_graph *g;
    const struct hw_callsites *callsites;
    const struct hw_strings *strings;
    uint64_t *names; /* by field; owned */
    bool *left_out;  /* by class; owned */
    HW_VEC(uint64_t) refs, ref_names;
    struct hw_graph_model_sums sums;
};

static bool is_written(const struct job *j, uint32_t o)
{
    return hw_object_is_described(j->g, o) && !j->left_out[j->g->type[o]];
}

static int name_fields(struct job *j)
{
    struct hw_strbuf text = {0};
    for (uint32_t f = 0; f < j->g->n_fields; f++) {
        const struct hw_heap_field *field = &j->g->fields[f];
        struct hw_bytes type = hw_strings_get(j->strings, field->type_name);
        struct hw_bytes name = hw_strings_get(j->strings, field->name);
        hw_strbuf_clear(&text);
        if (type.n) {
            hw_strbuf_add(&text, type.p, type.n);
            hw_strbuf_addc(&text, ' ');
        }
        hw_strbuf_add(&text, name.p, name.n);
        j->names[f] = text.failed ? 0 : hw_graph_writer_name(j->out, text.n ? text.p : "");
        if (!j->names[f])
            break;
    }
    bool failed = text.failed;
    hw_strbuf_done(&text);
    return failed ? HW_ENOMEM : HW_OK;
}

static int write_object(struct job *j, uint32_t o)
{
    const struct hw_heap_graph *g = j->g;
    struct hw_written_object out = {.id = (uint64_t)o + 1,
                                    .type = g->type[o] + 1,
                                    .bytes = (uint64_t)hw_object_size(g, o),
                                    .native_bytes = (uint64_t)hw_object_native_size(g, o)};
    bool named = false;
    hw_vec_clear(&j->refs);
    hw_vec_clear(&j->ref_names);
    for (uint32_t r = g->first_ref[o]; r < g->first_ref[o + 1]; r++) {
        uint32_t to = g->ref_owned[r];
        if (to == HW_ID_NONE || !is_written(j, to))
            continue;
        named |= g->ref_field[r] != 0;
        if (hw_vec_push(&j->refs, (uint64_t)to + 1) < 0 ||
            hw_vec_push(&j->ref_names, j->names[g->ref_field[r]]) < 0)
            return HW_ENOMEM;
    }
    out.refs = j->refs.v;
    out.names = named ? j->ref_names.v : NULL; /* array elements have no names */
    out.n_refs = j->refs.n;
    j->sums.objects++;
    j->sums.refs += j->refs.n;
    j->sums.bytes += out.bytes;
    int rc = hw_graph_writer_object(j->out, &out);
    if (rc == 0 && hw_object_is_root(g, o))
        rc = hw_graph_writer_root(j->out, out.id, hw_object_root_type(g, o));
    return rc;
}

static int write_class(struct job *j, uint32_t c)
{
    const struct hw_heap_class *k = &j->g->classes[c];
    struct hw_bytes name = hw_strings_get(j->strings, k->name);
    struct hw_strbuf text = {0};
    hw_strbuf_add(&text, name.p, name.n);
    struct hw_written_type out = {
        .id = c + 1,
        .name = text.n ? text.p : "",
        .superclass = k->superclass == HW_ID_NONE ? 0 : k->superclass + 1,
        .kind = k->kind,
        .loader = k->classloader == HW_ID_NONE ? 0 : (uint64_t)k->classloader + 1};
    int rc = text.failed ? HW_ENOMEM : hw_graph_writer_type(j->out, &out);
    hw_strbuf_done(&text);
    return rc;
}

static int write_threads(struct job *j)
{
    int rc = HW_OK;
    for (size_t i = 0; i < j->g->threads.n && rc == 0; i++) {
        const struct hw_heap_thread *t = &j->g->threads.v[i];
        bool has_object = t->object != HW_ID_NONE && is_written(j, t->object);
        struct hw_written_thread out = {.id = t->id,
                                        .name = hw_strings_get(j->strings, t->name),
                                        .object = has_object ? (uint64_t)t->object + 1 : 0,
                                        .is_daemon = t->is_daemon};
        rc = hw_graph_writer_thread(j->out, &out);
    }
    return rc;
}

static int write_frame(struct job *j, hw_frame_id id)
{
    const struct hw_frame *f = hw_callsites_get_frame(j->callsites, id);
    const struct hw_symbol_line *lines;
    struct hw_written_frame out = {.function = hw_strings_get(j->strings, f->name)};
    if (hw_symbol_sets_get(hw_callsites_get_symbol_sets(j->callsites), id, &lines)) {
        out.file = hw_strings_get(j->strings, lines[0].file);
        out.line = lines[0].line;
    }
    return hw_graph_writer_frame(j->out, &out);
}

_Static_assert((int)HW_ROOT_COMPILED_CODE == (int)HW_WRITTEN_ROOT_COMPILED_CODE, "one number");

/* Frames are numbered in order of first use. */
static int write_holders(struct job *j)
{
    struct hw_map64 number = {0};
    int rc = write_threads(j);
    for (size_t i = 0; i < j->g->holders.n && rc == 0; i++) {
        const struct hw_heap_holder *h = &j->g->holders.v[i];
        struct hw_written_holder out = {.object = (uint64_t)h->object + 1,
                                        .root_type = h->root_type,
                                        .thread = h->thread,
                                        .frame = HW_ID_NONE,
                                        .depth = h->depth <= INT32_MAX ? (int32_t)h->depth : -1,
                                        .slot = h->slot};
        uint64_t *at;
        bool fresh;
        if (!is_written(j, h->object))
            continue;
        if (h->frame.v != HW_ID_NONE) {
            rc = hw_map64_at(&number, h->frame.v, &at, &fresh);
            if (rc == 0 && fresh) {
                *at = number.n - 1;
                rc = write_frame(j, h->frame);
            }
            if (rc == 0)
                out.frame = (uint32_t)*at;
        }
        if (rc == 0)
            rc = hw_graph_writer_holder(j->out, &out);
    }
    hw_map64_done(&number);
    return rc;
}

static void mark_left_out(struct job *j, const char *const *ignored, size_t n_ignored)
{
    for (uint32_t c = 0; c < j->g->n_classes; c++)
        for (size_t i = 0; i < n_ignored; i++)
            j->left_out[c] |= hw_bytes_equal(hw_strings_get(j->strings, j->g->classes[c].name),
                                             hw_bytes_str(ignored[i]));
}

int hw_graph_write_model(struct hw_graph_writer *w, const struct hw_heap_graph *g,
                         struct hw_callsites *callsites, const char *const *ignored,
                         size_t n_ignored, struct hw_graph_model_sums *out, struct hw_error *err)
{
    struct job j = {
        .out = w, .g = g, .callsites = callsites, .strings = hw_callsites_strings(callsites)};
    j.names = calloc((size_t)g->n_fields + 1, sizeof *j.names);
    j.left_out = calloc((size_t)g->n_classes + 1, sizeof *j.left_out);
    int rc = j.names && j.left_out ? hw_graph_writer_reset(w, err) : HW_ENOMEM;
    if (rc == 0) {
        mark_left_out(&j, ignored, n_ignored);
        rc = name_fields(&j);
    }
    for (uint32_t o = 0; o < g->n_objects && rc == 0; o++)
        if (is_written(&j, o))
            rc = write_object(&j, o);
    for (uint32_t c = 0; c < g->n_classes && rc == 0; c++)
        rc = write_class(&j, c);
    if (rc == 0)
        rc = write_holders(&j);
    *out = j.sums;
    free(j.names);
    free(j.left_out);
    hw_vec_done(&j.refs);
    hw_vec_done(&j.ref_names);
    return rc == HW_ENOMEM ? hw_fail(err, rc, 0, "heap graph:") : rc;
}

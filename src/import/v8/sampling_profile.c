/*
 * sampling_profile.c - V8's sampling heap profiles (.heapprofile) as one dump
 *
 * A tree of calls: {"head": {"callFrame": {"functionName", "url", "lineNumber", …}, "selfSize",
 * "children": [...]}}. The head is not a function. selfSize is V8's estimate of the live bytes that
 * a function has allocated; the file gives neither the number of objects nor the interval. Lines
 * count from 0.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/vec.h"
#include "codec/json_text.h"
#include "import/v8/v8.h"
#include "model/profile.h"

#include "base/banned.h"

enum { MAX_DEPTH = 1024 }; /* hw_json_text_read rejects deeper nesting */

struct level {
    struct hw_json_cursor children;
    hw_callsite_id site; /* HW_ID_NONE: the head */
};

struct samples {
    struct hw_profile *p;
    struct hw_json_text json;
    HW_VEC(struct level) levels;
    struct hw_strbuf scratch;
};

static int text_of(struct samples *s, const struct hw_json_value *v, hw_str_id *out)
{
    hw_strbuf_clear(&s->scratch);
    struct hw_bytes text = hw_json_value_string(v, &s->scratch);
    if (s->scratch.failed)
        return HW_ENOMEM;
    *out = (hw_str_id){0};
    return v->type == HW_JSON_STRING && text.n ? hw_profile_str(s->p, text, out) : HW_OK;
}

static int frame_of(struct samples *s, const struct hw_json_value *call, hw_frame_id *out)
{
    static const char *const wanted[] = {"functionName", "url", "lineNumber"};
    struct hw_json_value m[HW_ARRAY_LEN(wanted)];
    struct hw_frame f = {.mapping = {HW_ID_NONE}};
    hw_json_members(call, wanted, HW_ARRAY_LEN(wanted), m);
    int rc = text_of(s, &m[0], &f.name);
    if (rc == HW_OK && !f.name.v)
        rc = hw_profile_str(s->p, hw_bytes_str("(anonymous)"), &f.name);
    if (rc == HW_OK)
        rc = text_of(s, &m[1], &f.file);
    if (f.file.v && m[2].type == HW_JSON_INTEGER && m[2].integer >= 0 && m[2].integer < INT32_MAX)
        f.line = (uint32_t)m[2].integer + 1;
    if (rc == HW_OK)
        rc = hw_callsites_frame(s->p->callsites, &f, out);
    if (rc < 0 || !f.file.v)
        return rc;
    struct hw_symbol_line line = {.function = f.name, .file = f.file, .line = f.line};
    return hw_symbol_sets_put(hw_callsites_symbol_sets(s->p->callsites), *out, &line, 1);
}

/* Adds one node below a callsite, and pushes its children on the stack. */
static int add_node(struct samples *s, const struct hw_json_value *node, hw_callsite_id parent,
                    bool is_head)
{
    static const char *const wanted[] = {"callFrame", "selfSize", "children"};
    struct hw_json_value m[HW_ARRAY_LEN(wanted)];
    struct level below = {.site = parent};
    hw_frame_id frame;
    int rc = HW_OK;
    hw_json_members(node, wanted, HW_ARRAY_LEN(wanted), m);
    if (!is_head) {
        rc = frame_of(s, &m[0], &frame);
        if (rc == HW_OK)
            rc = hw_callsites_child(s->p->callsites, parent, frame, &below.site);
    }
    double size = hw_json_value_real(&m[1]);
    if (rc == HW_OK && !is_head && size >= 1) {
        struct hw_alloc_row row = {.callsite = below.site,
                                   .size = size < 0x1p62 ? (int64_t)size : INT64_MAX / 2};
        rc = hw_alloc_rows_push(&s->p->allocs, &row);
    }
    below.children = hw_json_enter(&m[2]);
    if (rc == HW_OK && s->levels.n < MAX_DEPTH && hw_vec_push(&s->levels, below) < 0)
        rc = HW_ENOMEM;
    return rc;
}

static int add_tree(struct samples *s, const struct hw_json_value *head)
{
    int rc = add_node(s, head, (hw_callsite_id){HW_ID_NONE}, /* is_head = */ true);
    while (rc == HW_OK && s->levels.n) {
        struct level *top = &s->levels.v[s->levels.n - 1];
        struct hw_json_value child;
        if (hw_json_next(&top->children, &child))
            rc = add_node(s, &child, top->site, /* is_head = */ false);
        else
            s->levels.n--;
    }
    return rc;
}

static int add_dump(struct hw_profile *p)
{
    struct hw_heap_dump d = {0};
    int rc = hw_profile_process(p, 0, &d.upid);
    if (rc == HW_OK)
        rc = hw_profile_str(p, hw_bytes_str("v8"), &d.heap_name);
    return rc == HW_OK && hw_vec_push(&p->dumps, d) < 0 ? HW_ENOMEM : rc;
}

static int import(struct samples *s, struct hw_bytes file, struct hw_error *err)
{
    int rc = hw_json_text_read(&s->json, file, 1);
    if (rc < 0)
        return hw_fail(err, rc, 0,
                       "a V8 heap profile that is no whole JSON text: it was cut off or damaged:");
    struct hw_json_value head = hw_json_text_get(&s->json, hw_json_text_find(&s->json, 0, "head"));
    if (head.type != HW_JSON_OBJECT)
        return hw_fail(err, HW_EFORMAT, 0, "a V8 heap profile without the object 'head'");
    rc = add_dump(s->p);
    if (rc == HW_OK)
        rc = add_tree(s, &head);
    return rc < 0 ? hw_fail(err, rc, 0, "V8 heap profile:") : HW_OK;
}

static int read_samples(struct hw_bytes file, struct hw_profile *into, struct hw_error *err)
{
    struct samples s = {.p = into};
    int rc = import(&s, file, err);
    hw_json_text_done(&s.json);
    hw_vec_done(&s.levels);
    hw_strbuf_done(&s.scratch);
    return rc;
}

static int probe(struct hw_bytes head)
{
    static const char call[] = "\"callFrame\"", size[] = "\"selfSize\"", start[] = "\"head\"";
    size_t n = head.n < 64 ? head.n : 64;
    return n && head.p[0] == '{' && memmem(head.p, n, start, sizeof start - 1) &&
                   memmem(head.p, head.n, call, sizeof call - 1) &&
                   memmem(head.p, head.n, size, sizeof size - 1)
               ? 90
               : 0;
}

const struct hw_importer hw_import_v8_profile = {
    .name = "heapprofile",
    .summary = "JavaScript sampling heap profile of V8 (.heapprofile): node --heap-prof, Chrome",
    .probe = probe,
    .read = read_samples,
};

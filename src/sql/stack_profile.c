#include "sql/stack_profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "codec/pb.h"
#include "model/profile.h"
#include "schema/fields.h"
#include "views/flame/annotations.h"

#include "base/banned.h"

#define P(name)   HW_F_pprof_Profile_##name
#define LOC(name) HW_F_pprof_Location_##name
#define FN(name)  HW_F_pprof_Function_##name
#define MAP(name) HW_F_pprof_Mapping_##name

/* ---- stacks ---- */

enum { FIELD_CALLSITE = 1, FIELD_ANNOTATED = 2, FIELD_NAME = 3, MAX_STACK = 1 << 20 };

static void put(struct hw_strbuf *stack, const struct hw_pb *field)
{
    stack->failed |= hw_pb_failed(field);
    hw_strbuf_add(stack, field->buf.p, field->buf.n);
}

void hw_stack_put_callsite(struct hw_strbuf *stack, hw_callsite_id id, bool annotate)
{
    struct hw_pb w = {0};
    hw_pb_uint(&w, annotate ? FIELD_ANNOTATED : FIELD_CALLSITE, id.v);
    put(stack, &w);
    hw_pb_done(&w);
}

void hw_stack_put_name(struct hw_strbuf *stack, struct hw_bytes name)
{
    struct hw_pb w = {0};
    hw_pb_bytes(&w, FIELD_NAME, name.p, name.n);
    put(stack, &w);
    hw_pb_done(&w);
}

bool hw_stack_is_valid(struct hw_bytes stack)
{
    struct hw_pb_reader r = hw_pb_read(stack);
    struct hw_pb_field f;
    int rc;
    while ((rc = hw_pb_next(&r, &f)) == 1)
        if (f.number == FIELD_NAME ? f.wire != HW_PB_BYTES
                                   : f.wire != HW_PB_VARINT || f.number > FIELD_NAME)
            return false;
    return rc == 0 && stack.n <= MAX_STACK;
}

const char *hw_callsite_annotation(const struct hw_profile *p, hw_callsite_id id)
{
    hw_frame_id *path;
    uint8_t *annotations;
    size_t n;
    if (hw_annotate_path(p, id, &path, &annotations, &n) < 0)
        return NULL;
    const char *last = hw_annotation_name((enum hw_annotation)annotations[n - 1]);
    free(path);
    free(annotations);
    return last;
}

/* ---- profiles ---- */

struct hw_stack_profile {
    const struct hw_profile *p;
    struct hw_strings *stacks; /* one sample per stack, numbered id - 1 */
    struct hw_strings *texts;  /* the file's string table */
    HW_VEC(int64_t) values;    /* n_types for each stack */
    HW_VEC(hw_str_id) types;   /* type, unit, type, unit… */
    struct hw_map64 functions, locations, mappings;
    uint64_t n_functions, n_locations, n_mappings;
    struct hw_pb out;
    HW_VEC(uint64_t) path; /* locations of the stack being written, root first */
    int failed;
};

static uint32_t text(struct hw_stack_profile *s, struct hw_bytes b)
{
    hw_str_id id = {0};
    int rc = hw_strings_intern(s->texts, b, &id);
    if (rc < 0)
        s->failed = rc;
    return id.v;
}

int hw_stack_profile_new(const struct hw_profile *p, const struct hw_stack_sample_type *types,
                         size_t n_types, struct hw_stack_profile **out)
{
    struct hw_stack_profile *s = calloc(1, sizeof *s);
    if (!s)
        return HW_ENOMEM;
    s->p = p;
    int rc = hw_strings_new(&s->stacks);
    if (rc == HW_OK)
        rc = hw_strings_new(&s->texts);
    for (size_t i = 0; rc == HW_OK && i < n_types; i++)
        if (hw_vec_push(&s->types, (hw_str_id){text(s, types[i].type)}) < 0 ||
            hw_vec_push(&s->types, (hw_str_id){text(s, types[i].unit)}) < 0)
            rc = HW_ENOMEM;
    if (rc < 0) {
        hw_stack_profile_free(s);
        return rc;
    }
    *out = s;
    return HW_OK;
}

void hw_stack_profile_free(struct hw_stack_profile *s)
{
    if (!s)
        return;
    hw_strings_free(s->stacks);
    hw_strings_free(s->texts);
    hw_vec_done(&s->values);
    hw_vec_done(&s->types);
    hw_vec_done(&s->path);
    hw_map64_done(&s->functions);
    hw_map64_done(&s->locations);
    hw_map64_done(&s->mappings);
    hw_pb_done(&s->out);
    free(s);
}

int hw_stack_profile_add(struct hw_stack_profile *s, struct hw_bytes stack, const int64_t *values)
{
    size_t n_types = s->types.n / 2;
    hw_str_id id;
    if (!hw_stack_is_valid(stack))
        return HW_EFORMAT;
    int rc = hw_strings_intern(s->stacks, stack, &id);
    size_t first = id.v * n_types;
    if (rc < 0)
        return rc;
    while (s->values.n < first + n_types)
        if (hw_vec_push(&s->values, 0) < 0)
            return HW_ENOMEM;
    for (size_t i = 0; i < n_types; i++)
        if (__builtin_add_overflow(s->values.v[first + i], values[i], &s->values.v[first + i]))
            s->values.v[first + i] = INT64_MAX;
    return HW_OK;
}

/* True: the key is new. *id is its number in either case. */
static bool is_new(struct hw_stack_profile *s, struct hw_map64 *map, uint64_t key, uint64_t *n,
                   uint64_t *id)
{
    uint64_t *at;
    bool fresh = false;
    int rc = hw_map64_at(map, key, &at, &fresh);
    if (rc < 0) {
        s->failed = rc;
        return false;
    }
    if (fresh)
        *at = ++*n;
    *id = *at;
    return fresh;
}

static uint64_t function(struct hw_stack_profile *s, uint32_t name, uint32_t file)
{
    uint64_t id = 0;
    if (is_new(s, &s->functions, (uint64_t)file << 32 | name, &s->n_functions, &id)) {
        hw_pb_begin(&s->out, P(function));
        hw_pb_uint(&s->out, FN(id), id);
        hw_pb_uint(&s->out, FN(name), name);
        hw_pb_uint(&s->out, FN(system_name), name);
        if (file)
            hw_pb_uint(&s->out, FN(filename), file);
        hw_pb_end(&s->out);
    }
    return id;
}

static uint64_t mapping(struct hw_stack_profile *s, hw_mapping_id m)
{
    uint64_t id = 0;
    if (m.v == HW_ID_NONE || !is_new(s, &s->mappings, m.v, &s->n_mappings, &id))
        return id;
    const struct hw_mapping *r = hw_callsites_get_mapping(s->p->callsites, m);
    const struct hw_strings *strings = hw_callsites_strings(s->p->callsites);
    struct hw_bytes raw = hw_strings_get(strings, r->build_id);
    struct hw_strbuf hex = {0};
    hw_build_id_add(&hex, raw);
    hw_pb_begin(&s->out, P(mapping));
    hw_pb_uint(&s->out, MAP(id), id);
    hw_pb_uint(&s->out, MAP(memory_start), r->start);
    hw_pb_uint(&s->out, MAP(memory_limit), r->end);
    hw_pb_uint(&s->out, MAP(file_offset), r->exact_offset);
    hw_pb_uint(&s->out, MAP(filename), text(s, hw_strings_get(strings, r->path)));
    hw_pb_uint(&s->out, MAP(build_id), text(s, hw_bytes_of(hex.p ? hex.p : "", hex.n)));
    hw_pb_end(&s->out);
    hw_strbuf_done(&hex);
    return id;
}

/* A location without an address, only a name. */
static uint64_t name_location(struct hw_stack_profile *s, struct hw_bytes name)
{
    uint64_t id = 0;
    uint32_t t = text(s, name);
    if (is_new(s, &s->locations, 1ull << 62 | t, &s->n_locations, &id)) {
        uint64_t fn = function(s, t, 0);
        hw_pb_begin(&s->out, P(location));
        hw_pb_uint(&s->out, LOC(id), id);
        hw_pb_begin(&s->out, LOC(line));
        hw_pb_uint(&s->out, HW_F_pprof_Line_function_id, fn);
        hw_pb_end(&s->out);
        hw_pb_end(&s->out);
    }
    return id;
}

struct line {
    uint64_t function;
    uint32_t number;
};

static uint32_t annotated(struct hw_stack_profile *s, struct hw_bytes name, const char *annotation)
{
    struct hw_strbuf b = {0};
    if (!annotation)
        return text(s, name);
    hw_strbuf_add(&b, name.p, name.n);
    hw_strbuf_addf(&b, " [%s]", annotation);
    if (b.failed)
        s->failed = HW_ENOMEM;
    uint32_t id = b.failed ? 0 : text(s, hw_bytes_of(b.p, b.n));
    hw_strbuf_done(&b);
    return id;
}

static void put_lines(struct hw_stack_profile *s, hw_frame_id frame, const char *annotation)
{
    const struct hw_callsites *cs = s->p->callsites;
    const struct hw_strings *strings = hw_callsites_strings(s->p->callsites);
    const struct hw_symbol_sets *sets = hw_callsites_get_symbol_sets(cs);
    const struct hw_symbol_line *lines;
    HW_VEC(struct line) made = {0};
    size_t n = hw_symbol_sets_get(sets, frame, &lines);
    /* Functions first: they are not part of the location's message. */
    for (size_t i = 0; i < n; i++) {
        uint32_t name = annotated(s, hw_strings_get(strings, lines[i].function), annotation);
        uint32_t file = text(s, hw_strings_get(strings, lines[i].file));
        if (hw_vec_push(&made, (struct line){function(s, name, file), lines[i].line}) < 0)
            s->failed = HW_ENOMEM;
    }
    if (n == 0) {
        hw_str_id clear = hw_symbol_sets_get_deobfuscated(sets, frame);
        hw_str_id raw = hw_callsites_get_frame(cs, frame)->name;
        struct hw_bytes name = hw_strings_get(strings, clear.v ? clear : raw);
        if (name.n &&
            hw_vec_push(&made, (struct line){function(s, annotated(s, name, annotation), 0), 0}) <
                0)
            s->failed = HW_ENOMEM;
    }
    hw_pb_begin(&s->out, P(location)); /* the caller ends it */
    for (size_t i = 0; i < made.n; i++) {
        hw_pb_begin(&s->out, LOC(line));
        hw_pb_uint(&s->out, HW_F_pprof_Line_function_id, made.v[i].function);
        if (made.v[i].number)
            hw_pb_uint(&s->out, HW_F_pprof_Line_line, made.v[i].number);
        hw_pb_end(&s->out);
    }
    hw_vec_done(&made);
}

/* annotation NULL: show none. A frame has one location per annotation. */
static uint64_t frame_location(struct hw_stack_profile *s, hw_frame_id frame,
                               const char *annotation)
{
    uint64_t id = 0, kind = annotation ? text(s, hw_bytes_str(annotation)) : 0;
    if (!is_new(s, &s->locations, kind << 32 | frame.v, &s->n_locations, &id))
        return id;
    const struct hw_frame *f = hw_callsites_get_frame(s->p->callsites, frame);
    uint64_t map = mapping(s, f->mapping);
    put_lines(s, frame, annotation);
    hw_pb_uint(&s->out, LOC(id), id);
    if (map) {
        const struct hw_mapping *m = hw_callsites_get_mapping(s->p->callsites, f->mapping);
        hw_pb_uint(&s->out, LOC(mapping_id), map);
        hw_pb_uint(&s->out, LOC(address), f->rel_pc - m->load_bias + m->start - m->exact_offset);
    }
    hw_pb_end(&s->out);
    return id;
}

static void add_callsite(struct hw_stack_profile *s, uint64_t callsite, bool annotates)
{
    const struct hw_callsites *cs = s->p->callsites;
    if (callsite >= hw_callsites_count(cs))
        return;
    hw_callsite_id id = {(uint32_t)callsite};
    hw_frame_id *path;
    uint8_t *annotations;
    size_t n;
    if (hw_annotate_path(s->p, id, &path, &annotations, &n) < 0) {
        s->failed = HW_ENOMEM;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        bool shown = annotates && annotations[i] != HW_ANNOTATION_NONE;
        const char *how = shown ? hw_annotation_name((enum hw_annotation)annotations[i]) : NULL;
        if (hw_vec_push(&s->path, frame_location(s, path[i], how)) < 0)
            s->failed = HW_ENOMEM;
    }
    free(path);
    free(annotations);
}

static void put_sample(struct hw_stack_profile *s, struct hw_bytes stack, const int64_t *values)
{
    struct hw_pb_reader r = hw_pb_read(stack);
    struct hw_pb_field f;
    hw_vec_clear(&s->path);
    while (s->failed == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number != FIELD_NAME)
            add_callsite(s, f.value, f.number == FIELD_ANNOTATED);
        else if (hw_vec_push(&s->path, name_location(s, f.bytes)) < 0)
            s->failed = HW_ENOMEM;
    }
    hw_pb_begin(&s->out, P(sample));
    hw_pb_begin(&s->out, HW_F_pprof_Sample_location_id);
    for (size_t i = s->path.n; i-- > 0;)
        hw_pb_raw_varint(&s->out, s->path.v[i]);
    hw_pb_end(&s->out);
    hw_pb_begin(&s->out, HW_F_pprof_Sample_value);
    for (size_t i = 0; i < s->types.n / 2; i++)
        hw_pb_raw_varint(&s->out, (uint64_t)values[i]);
    hw_pb_end(&s->out);
    hw_pb_end(&s->out);
}

int hw_stack_profile_write(struct hw_stack_profile *s, struct hw_strbuf *out)
{
    size_t n_types = s->types.n / 2;
    for (size_t i = 0; i < n_types; i++) {
        hw_pb_begin(&s->out, P(sample_type));
        hw_pb_uint(&s->out, HW_F_pprof_ValueType_type, s->types.v[2 * i].v);
        hw_pb_uint(&s->out, HW_F_pprof_ValueType_unit, s->types.v[2 * i + 1].v);
        hw_pb_end(&s->out);
    }
    /* Stack 0 is the empty one, which exists even if no row has it. */
    for (uint32_t i = 0; s->failed == HW_OK && i < hw_strings_count(s->stacks); i++) {
        struct hw_bytes stack = hw_strings_get(s->stacks, (hw_str_id){i});
        if (stack.n && (i + 1u) * n_types <= s->values.n)
            put_sample(s, stack, s->values.v + i * n_types);
    }
    for (uint32_t i = 0; i < hw_strings_count(s->texts); i++) {
        struct hw_bytes b = hw_strings_get(s->texts, (hw_str_id){i});
        hw_pb_bytes(&s->out, P(string_table), b.p, b.n);
    }
    hw_strbuf_add(out, s->out.buf.p, s->out.buf.n);
    if (s->failed < 0)
        return s->failed;
    return hw_pb_failed(&s->out) || out->failed ? HW_ENOMEM : HW_OK;
}

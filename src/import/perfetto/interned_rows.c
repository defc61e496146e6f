/*
 * Consecutive callstacks share most of their frames. So a message is compared with the last one
 * (body) and decoded from the first frame that differs (ends); and the callsites down to that frame
 * are kept (last_path, last_sites).
 */
#include "base/error.h"
#include "codec/pb.h"
#include "import/perfetto/interned.h"
#include "import/perfetto/interned_scope.h"
#include "schema/fields.h"

#include "base/banned.h"

static int string_bytes(struct hw_interned *in, const struct hw_interned_scope *s,
                        enum hw_interned_kind kind, uint64_t iid, struct hw_bytes *out)
{
    const struct hw_interned_entry *e = hw_interned_lookup(s, kind, iid);
    *out = (struct hw_bytes){NULL, 0};
    if (!e)
        return iid == 0 ? HW_OK : hw_interned_count(in, "stackprofile_invalid_string_id");
    struct hw_pb_reader r = hw_pb_read(hw_bytes_of(e->p, e->n));
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_InternedString_str)
            *out = f.bytes;
    return HW_OK;
}

static int string_row(struct hw_interned *in, const struct hw_interned_scope *s,
                      enum hw_interned_kind kind, uint64_t iid, hw_str_id *out)
{
    struct hw_interned_entry *e = hw_interned_lookup(s, kind, iid);
    if (e && e->resolved) {
        out->v = e->resolved - 1;
        return HW_OK;
    }
    struct hw_bytes text;
    int rc = string_bytes(in, s, kind, iid, &text);
    if (rc == HW_OK)
        rc = hw_profile_str(in->profile, text, out);
    if (rc == HW_OK && e)
        e->resolved = out->v + 1;
    return rc;
}

int hw_interned_text(struct hw_interned *in, uint64_t sequence, uint32_t generation,
                     enum hw_interned_kind kind, uint64_t iid, hw_str_id *out)
{
    struct hw_interned_scope s = hw_interned_scope_of(in, sequence, generation);
    return string_row(in, &s, kind, iid, out);
}

/* "/" + components joined by "/"; a double slash at the start becomes one. It ends before an
 * undefined component. */
static int add_component(struct hw_interned *in, const struct hw_interned_scope *s, uint64_t iid)
{
    struct hw_bytes part;
    if (in->path_is_cut)
        return HW_OK;
    in->path_is_cut = iid != 0 && !hw_interned_lookup(s, HW_INTERNED_PATH, iid);
    int rc = string_bytes(in, s, HW_INTERNED_PATH, iid, &part);
    if (rc < 0 || in->path_is_cut)
        return rc;
    if (in->text.n != 0 || part.n == 0 || part.p[0] != '/')
        hw_strbuf_addc(&in->text, '/');
    hw_strbuf_add(&in->text, part.p, part.n);
    return in->text.failed ? HW_ENOMEM : HW_OK;
}

static int mapping_field(struct hw_interned *in, const struct hw_interned_scope *s,
                         const struct hw_pb_field *f, struct hw_mapping *m)
{
    struct hw_bytes rest = f->bytes;
    uint64_t iid;
    int rc = HW_OK;
    switch (f->number) {
    case HW_F_Mapping_build_id:
        return string_row(in, s, HW_INTERNED_BUILD_ID, f->value, &m->build_id);
    case HW_F_Mapping_exact_offset:
        m->exact_offset = f->value;
        break;
    case HW_F_Mapping_start_offset:
        m->start_offset = f->value;
        break;
    case HW_F_Mapping_start:
        m->start = f->value;
        break;
    case HW_F_Mapping_end:
        m->end = f->value;
        break;
    case HW_F_Mapping_load_bias:
        m->load_bias = f->value;
        break;
    case HW_F_Mapping_path_string_ids:
        if (f->wire == HW_PB_VARINT)
            return add_component(in, s, f->value);
        while (rc == HW_OK && hw_pb_next_packed(&rest, &iid) == 1)
            rc = add_component(in, s, iid);
        break;
    default:
        break;
    }
    return rc;
}

/* How writers encode code outside any mapping (trace/profile_tables.h). */
static bool is_no_mapping(const struct hw_mapping *m)
{
    return m->path.v == 0 && m->build_id.v == 0 && m->start == 0 && m->end == 0 &&
           m->start_offset == 0 && m->exact_offset == 0 && m->load_bias == 0;
}

/* 1 = a row, 0 = cannot be resolved. */
static int mapping_row(struct hw_interned *in, const struct hw_interned_scope *s, uint64_t iid,
                       hw_mapping_id *out)
{
    struct hw_interned_entry *e = hw_interned_lookup(s, HW_INTERNED_MAPPING, iid);
    if (!e && iid == 0) {
        out->v = HW_ID_NONE;
        return 1;
    }
    if (!e) {
        int rc = hw_interned_count(in, "stackprofile_invalid_mapping_id");
        return rc < 0 ? rc : 0;
    }
    if (!e->resolved) {
        struct hw_mapping m = {0};
        struct hw_pb_reader r = hw_pb_read(hw_bytes_of(e->p, e->n));
        struct hw_pb_field f;
        int rc = HW_OK;
        hw_strbuf_clear(&in->text);
        in->path_is_cut = false;
        while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
            rc = mapping_field(in, s, &f, &m);
        if (rc == HW_OK)
            rc = hw_profile_str(in->profile, hw_bytes_of(in->text.p, in->text.n), &m.path);
        if (rc == HW_OK && is_no_mapping(&m)) {
            out->v = HW_ID_NONE;
            return 1;
        }
        if (rc == HW_OK)
            rc = hw_callsites_mapping(in->profile->callsites, &m, out);
        if (rc < 0)
            return rc;
        e->resolved = out->v + 1;
    }
    out->v = e->resolved - 1;
    return 1;
}

/* A Frame with its ids unresolved. */
struct raw_frame {
    uint64_t name, mapping, file, kind;
    struct hw_bytes kind_text;
    struct hw_frame row;
};

static struct raw_frame frame_read(const struct hw_interned_entry *e)
{
    struct hw_pb_reader r = hw_pb_read(hw_bytes_of(e->p, e->n));
    struct hw_pb_field f;
    struct raw_frame t = {.row = {.mapping = {HW_ID_NONE}}};
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_Frame_function_name_id)
            t.name = f.value;
        else if (f.number == HW_F_Frame_mapping_id)
            t.mapping = f.value;
        else if (f.number == HW_F_Frame_rel_pc)
            t.row.rel_pc = f.value;
        else if (f.number == HW_F_Frame_source_path_iid)
            t.file = f.value;
        else if (f.number == HW_F_Frame_line_number)
            t.row.line = (uint32_t)f.value;
        else if (f.number == HW_F_Frame_kind && f.wire == HW_PB_VARINT)
            t.kind = f.value;
        else if (f.number == HW_F_Frame_kind_str && f.wire == HW_PB_BYTES)
            t.kind_text = f.bytes;
    }
    return t;
}

static int put_kind(struct hw_interned *in, hw_frame_id frame, const struct raw_frame *t)
{
    static const char *const words[] = {NULL,  "native", "kernel", "interpreted",
                                        "jit", "gc",     "runtime"};
    struct hw_bytes text = t->kind_text;
    hw_str_id kind;
    if (text.n == 0 && t->kind < HW_ARRAY_LEN(words) && words[t->kind])
        text = hw_bytes_str(words[t->kind]);
    if (text.n == 0)
        return HW_OK;
    int rc = hw_profile_str(in->profile, text, &kind);
    struct hw_symbol_sets *sets = hw_callsites_symbol_sets(in->profile->callsites);
    return rc < 0 ? rc : hw_symbol_sets_put_kind(sets, frame, kind);
}

/* A frame with a source location has symbols from the start. */
static int put_location(struct hw_interned *in, hw_frame_id frame, const struct hw_frame *row)
{
    struct hw_symbol_sets *sets = hw_callsites_symbol_sets(in->profile->callsites);
    const struct hw_symbol_line line = {row->name, row->file, row->line};
    const struct hw_symbol_line *existing;
    if ((!row->file.v && !row->line) || hw_symbol_sets_get(sets, frame, &existing))
        return HW_OK;
    return hw_symbol_sets_put_managed(sets, frame, &line, 1);
}

/* 1 = a row, 0 = cannot be resolved. */
static int frame_make(struct hw_interned *in, const struct hw_interned_scope *s,
                      const struct hw_interned_entry *e, hw_frame_id *out)
{
    struct raw_frame t = frame_read(e);
    int rc = string_row(in, s, HW_INTERNED_FUNCTION, t.name, &t.row.name);
    if (rc == HW_OK && t.file)
        rc = string_row(in, s, HW_INTERNED_SOURCE_PATH, t.file, &t.row.file);
    if (rc == HW_OK)
        rc = mapping_row(in, s, t.mapping, &t.row.mapping);
    if (rc != 1)
        return rc;
    rc = hw_callsites_frame(in->profile->callsites, &t.row, out);
    if (rc == HW_OK)
        rc = put_location(in, *out, &t.row);
    if (rc == HW_OK)
        rc = put_kind(in, *out, &t);
    return rc < 0 ? rc : 1;
}

/* 1 = a row, 0 = cannot be resolved. */
static int frame_row(struct hw_interned *in, const struct hw_interned_scope *s, uint64_t iid,
                     hw_frame_id *out)
{
    struct hw_interned_entry *e = hw_interned_lookup(s, HW_INTERNED_FRAME, iid);
    if (!e) {
        int rc = hw_interned_count(in, "stackprofile_invalid_frame_id");
        return rc < 0 ? rc : 0;
    }
    if (!e->resolved) {
        int rc = frame_make(in, s, e, out);
        if (rc < 0)
            return rc;
        e->resolved = rc == 1 ? out->v + 1 : HW_INTERNED_UNRESOLVABLE;
    }
    out->v = e->resolved - 1;
    return e->resolved != HW_INTERNED_UNRESOLVABLE;
}

/* Adds a frame to in->path. 1, 0 = unknown, < 0. */
static int push_frame(struct hw_interned *in, const struct hw_interned_scope *s, uint64_t iid)
{
    hw_frame_id frame;
    int rc = frame_row(in, s, iid, &frame);
    if (rc != 1)
        return rc;
    return hw_vec_push(&in->path, frame) < 0 ? HW_ENOMEM : 1;
}

static size_t common_prefix(struct hw_bytes a, struct hw_bytes b)
{
    size_t n = a.n < b.n ? a.n : b.n, i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t differ = hw_load_u64(a.p + i) ^ hw_load_u64(b.p + i);
        if (differ)
            return i + ((size_t)__builtin_ctzll(differ) >> 3);
    }
    while (i < n && a.p[i] == b.p[i])
        i++;
    return i;
}

/* The message after its id, which is its first field in every trace seen. */
static struct hw_bytes after_id(const struct hw_interned_entry *e)
{
    const uint8_t *p = e->p, *end = hw_bytes_end(hw_bytes_of(e->p, e->n));
    uint64_t iid;
    if (e->n && *p == (HW_F_Callstack_iid << 3 | HW_PB_VARINT)) {
        p++;
        if (hw_pb_varint(&p, end, &iid) < 0)
            p = e->p;
    }
    return hw_bytes_of(p, (size_t)(end - p));
}

/* Cuts in->path to the frames shared with this message. Returns where to read on. */
static size_t keep_common(struct hw_interned *in, struct hw_bytes body)
{
    size_t same = common_prefix(hw_bytes_of(in->body.p, in->body.n), body);
    while (in->ends.n && in->ends.v[in->ends.n - 1] > same)
        in->ends.n--;
    in->path.n = in->ends.n;
    return in->ends.n ? in->ends.v[in->ends.n - 1] : 0;
}

/* in->path becomes the callstack's frames. 1, 0 = one is unknown, < 0. */
static int read_path(struct hw_interned *in, const struct hw_interned_scope *s,
                     struct hw_bytes body)
{
    size_t from = keep_common(in, body);
    struct hw_pb_reader r = hw_pb_read(body);
    r.pos += from;
    struct hw_pb_field f;
    int rc = 1;
    in->body.n = from;
    hw_strbuf_add(&in->body, body.p + from, body.n - from);
    if (in->body.failed)
        return HW_ENOMEM;
    while (rc == 1 && hw_pb_next(&r, &f) == 1) {
        struct hw_bytes rest = f.bytes;
        uint64_t iid;
        if (f.number != HW_F_Callstack_frame_ids)
            continue;
        if (f.wire == HW_PB_VARINT) {
            rc = push_frame(in, s, f.value);
            if (rc == 1 && in->ends.n + 1 == in->path.n &&
                hw_vec_push(&in->ends, (uint32_t)(r.pos - body.p)) < 0)
                rc = HW_ENOMEM;
        }
        while (rc == 1 && f.wire == HW_PB_BYTES && hw_pb_next_packed(&rest, &iid) == 1)
            rc = push_frame(in, s, iid);
    }
    return rc;
}

/* Walks down from the last frame shared with the previous callstack. */
static int intern_path(struct hw_interned *in, hw_callsite_id *out)
{
    size_t shared = 0, n = in->path.n;
    if (hw_vec_reserve(&in->last_path, n) < 0 || hw_vec_reserve(&in->last_sites, n) < 0)
        return HW_ENOMEM;
    while (shared < n && shared < in->last_path.n &&
           in->path.v[shared].v == in->last_path.v[shared].v)
        shared++;
    in->last_path.n = in->last_sites.n = shared;
    *out = shared ? in->last_sites.v[shared - 1] : (hw_callsite_id){HW_ID_NONE};
    for (size_t i = shared; i < n; i++) {
        int rc = hw_callsites_child(in->profile->callsites, *out, in->path.v[i], out);
        if (rc < 0)
            return rc;
        in->last_path.v[i] = in->path.v[i];
        in->last_sites.v[i] = *out;
        in->last_path.n = in->last_sites.n = i + 1;
    }
    return HW_OK;
}

static int callstack_make(struct hw_interned *in, const struct hw_interned_scope *s,
                          const struct hw_interned_entry *e, hw_callsite_id *out)
{
    int rc = read_path(in, s, after_id(e));
    if (rc != 1)
        return rc;
    if (in->path.n == 0 || in->path.n > HW_MAX_CALLSITE_DEPTH) {
        rc = hw_interned_count(in, in->path.n ? "stackprofile_parser_error"
                                              : "stackprofile_empty_callstack");
        return rc < 0 ? rc : 0;
    }
    rc = intern_path(in, out);
    return rc < 0 ? rc : 1;
}

int hw_interned_callstack(struct hw_interned *in, uint64_t sequence, uint32_t generation,
                          uint64_t iid, hw_callsite_id *out)
{
    if (!in->scope_known || in->scope_sequence != sequence || in->scope_generation != generation) {
        in->scope_known = true;
        in->ends.n = 0; /* the same ids may mean other frames */
        in->scope_sequence = sequence;
        in->scope_generation = generation;
        in->scope = hw_interned_scope_of(in, sequence, generation);
    }
    struct hw_interned_scope s = in->scope;
    struct hw_interned_entry *e = hw_interned_lookup(&s, HW_INTERNED_CALLSTACK, iid);
    if (e && !e->resolved) {
        int rc = callstack_make(in, &s, e, out);
        if (rc < 0)
            return rc;
        e->resolved = rc == 1 ? out->v + 1 : HW_INTERNED_UNRESOLVABLE;
        hw_blocks_release(&in->stacks, e->p);
        e->p = NULL;
    }
    if (e && e->resolved != HW_INTERNED_UNRESOLVABLE) {
        out->v = e->resolved - 1;
        return 1;
    }
    int rc = hw_interned_count(in, "stackprofile_invalid_callstack_id");
    return rc < 0 ? rc : 0;
}

/* One entry of a dump's tables. Unresolvable ids are counted on the way. */
static int legacy_row(struct hw_interned *in, uint64_t sequence, const struct hw_interned_scope *s,
                      const struct hw_pb_field *f)
{
    uint64_t iid = hw_interned_iid(f->bytes);
    hw_mapping_id mapping;
    hw_frame_id frame;
    hw_callsite_id callsite;
    int rc = f->number == HW_F_ProfilePacket_mappings ? mapping_row(in, s, iid, &mapping)
             : f->number == HW_F_ProfilePacket_frames
                 ? frame_row(in, s, iid, &frame)
                 : hw_interned_callstack(in, sequence, /* generation = */ 0, iid, &callsite);
    return rc < 0 ? rc : HW_OK;
}

int hw_interned_legacy_rows(struct hw_interned *in, uint64_t sequence,
                            struct hw_bytes profile_packet)
{
    static const uint32_t order[] = {HW_F_ProfilePacket_mappings, HW_F_ProfilePacket_frames,
                                     HW_F_ProfilePacket_callstacks};
    struct hw_interned_scope s = hw_interned_scope_of(in, sequence, /* generation = */ 0);
    int rc = HW_OK;
    for (size_t i = 0; s.legacy && i < HW_ARRAY_LEN(order); i++) {
        struct hw_pb_reader r = hw_pb_read(profile_packet);
        struct hw_pb_field f;
        while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
            if (f.number == order[i] && hw_interned_is_legacy(&f))
                rc = legacy_row(in, sequence, &s, &f);
    }
    return rc;
}

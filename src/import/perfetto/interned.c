/*
 * Entries are kept as the bytes of their messages: a callstack of 60 frames is some 150 bytes that
 * way, and most are never taken apart more than once. Those of callstacks, which can be most of a
 * trace, are given back when they have been.
 *
 * Consecutive callstacks share most of their frames. So the message is compared with the last one
 * (body) and read from where a frame of it is the first to differ (ends); and the way down the tree
 * to the first different frame is remembered (last_path, last_sites).
 */
#include "import/perfetto/interned.h"

#include <stdlib.h>

#include "base/error.h"
#include "codec/pb.h"
#include "schema/fields.h"

#include "base/banned.h"

#define UNRESOLVABLE UINT32_MAX

/* In place of a generation: the tables of a dump. No file has as many packets as either can count. */
#define OF_DUMP UINT32_C(0x80000000)

/* Where a name is looked for: the packet's own tables first, then the generation's. */
struct scope {
    struct hw_interned_group *legacy, *generation; /* NULL = none */
};

void hw_interned_init(struct hw_interned *in, struct hw_profile *profile)
{
    *in = (struct hw_interned){.profile = profile};
}

void hw_interned_done(struct hw_interned *in)
{
    for (size_t i = 0; i < in->groups.n; i++) {
        for (int k = 0; k < HW_INTERNED_KIND_COUNT; k++) {
            struct hw_interned_table *t = &in->groups.v[i]->tables[k];
            hw_vec_done(&t->entries);
            hw_vec_done(&t->dense);
            hw_map64_done(&t->sparse);
        }
        free(in->groups.v[i]);
    }
    hw_vec_done(&in->groups);
    hw_map64_done(&in->sequence_index);
    hw_map64_done(&in->group_by_key);
    hw_map64_done(&in->dump_of);
    hw_vec_done(&in->path);
    hw_vec_done(&in->last_path);
    hw_vec_done(&in->last_sites);
    hw_vec_done(&in->ends);
    hw_strbuf_done(&in->body);
    hw_strbuf_done(&in->text);
    hw_blocks_done(&in->stacks);
    hw_arena_done(&in->arena);
}

static int count(struct hw_interned *in, const char *stat)
{
    return hw_profile_stat_add(in->profile, stat, -1, HW_STAT_ERROR, 1);
}

/* ---- tables ---- */

static struct hw_interned_entry *entry_find(struct hw_interned_table *t, uint64_t iid)
{
    uint64_t at;
    if (iid < t->dense.n)
        return t->dense.v[iid] ? &t->entries.v[t->dense.v[iid] - 1] : NULL;
    if (iid == HW_MAP64_NO_KEY || !hw_map64_get(&t->sparse, iid, &at))
        return NULL;
    return &t->entries.v[at];
}

static int entry_new(struct hw_interned_table *t, uint64_t iid, struct hw_interned_entry e)
{
    if (t->entries.n >= UNRESOLVABLE - 1 || iid == HW_MAP64_NO_KEY)
        return HW_ELIMIT;
    if (hw_vec_push(&t->entries, e) < 0)
        return HW_ENOMEM;
    if (iid <= 2 * t->entries.n + 1024 && iid >= t->dense.n && t->sparse.n == 0) {
        while (t->dense.n <= iid)
            if (hw_vec_push(&t->dense, 0) < 0)
                return HW_ENOMEM;
    }
    if (iid < t->dense.n) {
        t->dense.v[iid] = (uint32_t)t->entries.n;
        return HW_OK;
    }
    return hw_map64_put(&t->sparse, iid, t->entries.n - 1);
}

static struct hw_interned_group *group_find(const struct hw_interned *in, uint64_t sequence,
                                            uint32_t generation)
{
    uint64_t number, at;
    if (!hw_map64_get(&in->sequence_index, sequence, &number) ||
        !hw_map64_get(&in->group_by_key, number << 32 | generation, &at))
        return NULL;
    return in->groups.v[at];
}

static int group_get(struct hw_interned *in, uint64_t sequence, uint32_t generation,
                     struct hw_interned_group **out)
{
    uint64_t number;
    *out = group_find(in, sequence, generation);
    if (*out)
        return HW_OK;
    if (!hw_map64_get(&in->sequence_index, sequence, &number)) {
        number = in->sequence_index.n;
        if (hw_map64_put(&in->sequence_index, sequence, number) < 0)
            return HW_ENOMEM;
    }
    struct hw_interned_group *g = calloc(1, sizeof *g);
    if (g)
        g->is_of_dump = (generation & OF_DUMP) != 0;
    if (!g || hw_vec_reserve(&in->groups, in->groups.n + 1) < 0 ||
        hw_map64_put(&in->group_by_key, number << 32 | generation, in->groups.n) < 0) {
        free(g);
        return HW_ENOMEM;
    }
    in->groups.v[in->groups.n++] = g;
    in->scope_known = false;
    *out = g;
    return HW_OK;
}

static uint32_t dump_key(const struct hw_interned *in, uint64_t sequence)
{
    uint64_t dump = 0;
    (void)hw_map64_get(&in->dump_of, sequence, &dump); /* unknown: its first */
    return OF_DUMP | (uint32_t)dump;
}

static struct hw_interned_group *legacy_find(const struct hw_interned *in, uint64_t sequence)
{
    return group_find(in, sequence, dump_key(in, sequence));
}

static uint64_t iid_of(struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == 1 && f.wire == HW_PB_VARINT) /* field 1 of every interned message */
            return f.value;
    return 0;
}

/* A second definition counts only as damage, and that of a dump's own tables not even as that. */
static int add_entry(struct hw_interned *in, struct hw_interned_group *g,
                     enum hw_interned_kind kind, struct hw_bytes message)
{
    uint64_t iid = iid_of(message);
    const struct hw_interned_entry *there = entry_find(&g->tables[kind], iid);
    if (there) { /* the same again is allowed */
        if (g->is_of_dump || !there->p || hw_bytes_equal(hw_bytes_of(there->p, there->n), message))
            return HW_OK;
        return count(in, "stackprofile_parser_error");
    }
    const void *copy = kind == HW_INTERNED_CALLSTACK
                           ? (const void *)hw_blocks_add(&in->stacks, message)
                           : hw_arena_copy(&in->arena, message.p, message.n);
    if (!copy)
        return HW_ENOMEM;
    int rc =
        entry_new(&g->tables[kind], iid, (struct hw_interned_entry){copy, (uint32_t)message.n, 0});
    return rc == HW_ELIMIT ? count(in, "stackprofile_parser_error") : rc;
}

static int kind_of_field(uint32_t field)
{
    switch (field) {
    case HW_F_InternedData_function_names:
        return HW_INTERNED_FUNCTION;
    case HW_F_InternedData_build_ids:
        return HW_INTERNED_BUILD_ID;
    case HW_F_InternedData_mapping_paths:
        return HW_INTERNED_PATH;
    case HW_F_InternedData_source_paths:
        return HW_INTERNED_SOURCE_PATH;
    case HW_F_InternedData_mappings:
        return HW_INTERNED_MAPPING;
    case HW_F_InternedData_frames:
        return HW_INTERNED_FRAME;
    case HW_F_InternedData_callstacks:
        return HW_INTERNED_CALLSTACK;
    case HW_F_InternedData_event_categories:
        return HW_INTERNED_CATEGORY;
    case HW_F_InternedData_event_names:
        return HW_INTERNED_EVENT_NAME;
    default:
        return -1;
    }
}

int hw_interned_add(struct hw_interned *in, uint64_t sequence, uint32_t generation,
                    struct hw_bytes interned_data)
{
    struct hw_interned_group *g;
    struct hw_pb_reader r = hw_pb_read(interned_data);
    struct hw_pb_field f;
    int rc = group_get(in, sequence, generation, &g);
    if (rc < 0)
        return rc;
    while ((rc = hw_pb_next(&r, &f)) == 1) {
        int kind = kind_of_field(f.number);
        if (kind < 0 || f.wire != HW_PB_BYTES)
            continue;
        int added = add_entry(in, g, (enum hw_interned_kind)kind, f.bytes);
        if (added < 0)
            return added;
    }
    return rc < 0 ? count(in, "stackprofile_parser_error") : HW_OK;
}

static bool is_legacy(const struct hw_pb_field *f)
{
    switch (f->number) {
    case HW_F_ProfilePacket_strings:
    case HW_F_ProfilePacket_mappings:
    case HW_F_ProfilePacket_frames:
    case HW_F_ProfilePacket_callstacks:
        return f->wire == HW_PB_BYTES;
    default:
        return false;
    }
}

int hw_interned_add_legacy(struct hw_interned *in, uint64_t sequence,
                           struct hw_bytes profile_packet)
{
    struct hw_interned_group *g = NULL;
    struct hw_pb_reader r = hw_pb_read(profile_packet);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1) {
        if (!is_legacy(&f))
            continue;
        int rc = g ? HW_OK : group_get(in, sequence, dump_key(in, sequence), &g);
        if (rc == HW_OK && f.number == HW_F_ProfilePacket_strings) {
            /* One table of strings for all three uses. */
            rc = add_entry(in, g, HW_INTERNED_FUNCTION, f.bytes);
            if (rc == HW_OK)
                rc = add_entry(in, g, HW_INTERNED_BUILD_ID, f.bytes);
            if (rc == HW_OK)
                rc = add_entry(in, g, HW_INTERNED_PATH, f.bytes);
        } else if (rc == HW_OK) {
            rc = add_entry(in, g,
                           f.number == HW_F_ProfilePacket_frames       ? HW_INTERNED_FRAME
                           : f.number == HW_F_ProfilePacket_callstacks ? HW_INTERNED_CALLSTACK
                                                                       : HW_INTERNED_MAPPING,
                           f.bytes);
        }
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

/* ---- rows ---- */

static struct hw_interned_entry *lookup(const struct scope *s, enum hw_interned_kind kind,
                                        uint64_t iid)
{
    struct hw_interned_entry *e = s->legacy ? entry_find(&s->legacy->tables[kind], iid) : NULL;
    if (!e && s->generation)
        e = entry_find(&s->generation->tables[kind], iid);
    return e;
}

static int string_bytes(struct hw_interned *in, const struct scope *s, enum hw_interned_kind kind,
                        uint64_t iid, struct hw_bytes *out)
{
    const struct hw_interned_entry *e = lookup(s, kind, iid);
    *out = (struct hw_bytes){NULL, 0};
    if (!e)
        return iid == 0 ? HW_OK : count(in, "stackprofile_invalid_string_id");
    struct hw_pb_reader r = hw_pb_read(hw_bytes_of(e->p, e->n));
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_InternedString_str)
            *out = f.bytes;
    return HW_OK;
}

static int string_row(struct hw_interned *in, const struct scope *s, enum hw_interned_kind kind,
                      uint64_t iid, hw_str_id *out)
{
    struct hw_interned_entry *e = lookup(s, kind, iid);
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
    struct scope s = {legacy_find(in, sequence), group_find(in, sequence, generation)};
    return string_row(in, &s, kind, iid, out);
}

/* "/" + components joined by "/"; a double slash at the start becomes one. */
static int add_component(struct hw_interned *in, const struct scope *s, uint64_t iid)
{
    struct hw_bytes part;
    int rc = string_bytes(in, s, HW_INTERNED_PATH, iid, &part);
    if (rc < 0)
        return rc;
    if (in->text.n != 0 || part.n == 0 || part.p[0] != '/')
        hw_strbuf_addc(&in->text, '/');
    hw_strbuf_add(&in->text, part.p, part.n);
    return in->text.failed ? HW_ENOMEM : HW_OK;
}

static int mapping_field(struct hw_interned *in, const struct scope *s, const struct hw_pb_field *f,
                         struct hw_mapping *m)
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

/* As writers put code that lies in none (trace/profile_tables.h). */
static bool is_nameless(const struct hw_mapping *m)
{
    return m->path.v == 0 && m->build_id.v == 0 && m->start == 0 && m->end == 0 &&
           m->start_offset == 0 && m->exact_offset == 0 && m->load_bias == 0;
}

/* 1 = a row, 0 = cannot be resolved. */
static int mapping_row(struct hw_interned *in, const struct scope *s, uint64_t iid,
                       hw_mapping_id *out)
{
    struct hw_interned_entry *e = lookup(s, HW_INTERNED_MAPPING, iid);
    if (!e && iid == 0) {
        out->v = HW_ID_NONE;
        return 1;
    }
    if (!e) {
        int rc = count(in, "stackprofile_invalid_mapping_id");
        return rc < 0 ? rc : 0;
    }
    if (!e->resolved) {
        struct hw_mapping m = {0};
        struct hw_pb_reader r = hw_pb_read(hw_bytes_of(e->p, e->n));
        struct hw_pb_field f;
        int rc = HW_OK;
        hw_strbuf_clear(&in->text);
        while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
            rc = mapping_field(in, s, &f, &m);
        if (rc == HW_OK)
            rc = hw_profile_str(in->profile, hw_bytes_of(in->text.p, in->text.n), &m.path);
        if (rc == HW_OK && is_nameless(&m)) {
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

static int frame_make(struct hw_interned *in, const struct scope *s,
                      const struct hw_interned_entry *e, hw_frame_id *out)
{
    struct hw_pb_reader r = hw_pb_read(hw_bytes_of(e->p, e->n));
    struct hw_pb_field f;
    struct hw_frame row = {.mapping = {HW_ID_NONE}};
    uint64_t name = 0, mapping = 0, file = 0;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_Frame_function_name_id)
            name = f.value;
        else if (f.number == HW_F_Frame_mapping_id)
            mapping = f.value;
        else if (f.number == HW_F_Frame_rel_pc)
            row.rel_pc = f.value;
        else if (f.number == HW_F_Frame_source_path_iid)
            file = f.value;
        else if (f.number == HW_F_Frame_line_number)
            row.line = (uint32_t)f.value;
    }
    int rc = string_row(in, s, HW_INTERNED_FUNCTION, name, &row.name);
    if (rc == HW_OK && file)
        rc = string_row(in, s, HW_INTERNED_SOURCE_PATH, file, &row.file);
    if (rc == HW_OK)
        rc = mapping_row(in, s, mapping, &row.mapping);
    if (rc != 1)
        return rc;
    rc = hw_callsites_frame(in->profile->callsites, &row, out);
    if (rc == HW_OK && row.file.v) {
        const struct hw_symbol_line place = {row.name, row.file, row.line};
        rc = hw_symbol_sets_put(hw_callsites_symbol_sets(in->profile->callsites), *out, &place, 1);
    }
    return rc < 0 ? rc : 1;
}

/* 1 = a row, 0 = cannot be resolved. */
static int frame_row(struct hw_interned *in, const struct scope *s, uint64_t iid, hw_frame_id *out)
{
    struct hw_interned_entry *e = lookup(s, HW_INTERNED_FRAME, iid);
    if (!e) {
        int rc = count(in, "stackprofile_invalid_frame_id");
        return rc < 0 ? rc : 0;
    }
    if (!e->resolved) {
        int rc = frame_make(in, s, e, out);
        if (rc < 0)
            return rc;
        e->resolved = rc == 1 ? out->v + 1 : UNRESOLVABLE;
    }
    out->v = e->resolved - 1;
    return e->resolved != UNRESOLVABLE;
}

/* Adds a frame to in->path. 1, 0 = unknown, < 0. */
static int push_frame(struct hw_interned *in, const struct scope *s, uint64_t iid)
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

/* The message behind its id, which is its first field in every trace seen. */
static struct hw_bytes behind_id(const struct hw_interned_entry *e)
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

/* Cuts in->path to the frames that this message begins with, too. Where to read on. */
static size_t keep_common(struct hw_interned *in, struct hw_bytes body)
{
    size_t same = common_prefix(hw_bytes_of(in->body.p, in->body.n), body);
    while (in->ends.n && in->ends.v[in->ends.n - 1] > same)
        in->ends.n--;
    in->path.n = in->ends.n;
    return in->ends.n ? in->ends.v[in->ends.n - 1] : 0;
}

/* in->path becomes the callstack's frames. 1, 0 = one is unknown, < 0. */
static int read_path(struct hw_interned *in, const struct scope *s, struct hw_bytes body)
{
    size_t from = keep_common(in, body);
    struct hw_pb_reader r = {body.p, body.p + from, hw_bytes_end(body)};
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

/* Goes down from the last frame shared with the callstack before. */
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

static int callstack_make(struct hw_interned *in, const struct scope *s,
                          const struct hw_interned_entry *e, hw_callsite_id *out)
{
    int rc = read_path(in, s, behind_id(e));
    if (rc != 1)
        return rc;
    if (in->path.n == 0 || in->path.n > HW_MAX_CALLSITE_DEPTH) {
        rc = count(in, in->path.n ? "stackprofile_parser_error" : "stackprofile_empty_callstack");
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
        in->ends.n = 0; /* the same ids may be other frames */
        in->scope_sequence = sequence;
        in->scope_generation = generation;
        in->scope_groups[0] = legacy_find(in, sequence);
        in->scope_groups[1] = generation ? group_find(in, sequence, generation) : NULL;
    }
    struct scope s = {in->scope_groups[0], in->scope_groups[1]};
    struct hw_interned_entry *e = lookup(&s, HW_INTERNED_CALLSTACK, iid);
    if (e && !e->resolved) {
        int rc = callstack_make(in, &s, e, out);
        if (rc < 0)
            return rc;
        e->resolved = rc == 1 ? out->v + 1 : UNRESOLVABLE;
        hw_blocks_release(&in->stacks, e->p);
        e->p = NULL;
    }
    if (e && e->resolved != UNRESOLVABLE) {
        out->v = e->resolved - 1;
        return 1;
    }
    int rc = count(in, "stackprofile_invalid_callstack_id");
    return rc < 0 ? rc : 0;
}

/* ---- tables of one dump ---- */

int hw_interned_end_dump(struct hw_interned *in, uint64_t sequence)
{
    uint64_t *dump;
    bool fresh;
    if (in->scope_known && in->scope_sequence == sequence)
        in->scope_known = false;
    int rc = hw_map64_at(&in->dump_of, sequence, &dump, &fresh);
    if (rc == HW_OK)
        *dump = fresh ? 1 : *dump + 1;
    return rc;
}

void hw_interned_rewind(struct hw_interned *in)
{
    hw_map64_done(&in->dump_of);
    in->scope_known = false;
}

bool hw_interned_has_legacy(const struct hw_interned *in, uint64_t sequence)
{
    return legacy_find(in, sequence) != NULL;
}

/* One entry of a dump's tables. What cannot be resolved is counted on the way. */
static int legacy_row(struct hw_interned *in, uint64_t sequence, const struct scope *s,
                      const struct hw_pb_field *f)
{
    uint64_t iid = iid_of(f->bytes);
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
    struct scope s = {legacy_find(in, sequence), NULL};
    int rc = HW_OK;
    for (size_t i = 0; s.legacy && i < HW_ARRAY_LEN(order); i++) {
        struct hw_pb_reader r = hw_pb_read(profile_packet);
        struct hw_pb_field f;
        while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
            if (f.number == order[i] && is_legacy(&f))
                rc = legacy_row(in, sequence, &s, &f);
    }
    return rc;
}

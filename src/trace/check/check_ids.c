/*
 * An entry is kept as a hash and the ids that it refers to. Other readers identify callstacks by
 * their frames, frames of a mapping by address and name, frames without one by name, file and line,
 * and mappings by all their fields. Identities are hashes of these, computed on demand, since
 * strings may be defined after their uses.
 */
#include "trace/check/check_ids.h"

#include <stdlib.h>

#include "base/error.h"
#include "codec/pb.h"
#include "schema/fields.h"

#include "base/banned.h"

static const struct {
    uint32_t field;
    const char *what;
} kinds[HW_CHECK_KIND_COUNT] = {
#define X(ID, name, text)                                                                          \
    [HW_CHECK_KIND_##ID] = {.field = HW_F_InternedData_##name, .what = (text)},
    HW_CHECK_INTERNED(X)
#undef X
};

void hw_check_table_done(struct hw_check_table *t)
{
    hw_map64_done(&t->by_id);
    hw_vec_done(&t->v);
    hw_vec_done(&t->ids);
}

struct hw_check_entry *hw_check_table_find(const struct hw_check_table *t, uint64_t id)
{
    uint64_t at;
    return hw_map64_get(&t->by_id, id, &at) ? &t->v.v[at] : NULL;
}

static int entry_at(struct hw_checker *c, struct hw_check_table *t, uint64_t id,
                    struct hw_check_entry **out)
{
    uint64_t *at;
    bool fresh;
    if (hw_map64_at(&t->by_id, id, &at, &fresh) < 0)
        return HW_ENOMEM;
    if (fresh) {
        *at = t->v.n;
        if (hw_vec_push(&t->v, (struct hw_check_entry){.id = id, .at = c->at}) < 0)
            return HW_ENOMEM;
    }
    *out = &t->v.v[*at];
    return HW_OK;
}

int hw_check_define(struct hw_checker *c, struct hw_check_table *t, const char *what, uint64_t id,
                    uint64_t hash, struct hw_check_entry **out)
{
    struct hw_check_entry *e;
    *out = NULL;
    int rc = entry_at(c, t, id, &e);
    if (rc < 0)
        return rc;
    if (e->defined) {
        if (e->hash != hash)
            hw_check_found(c, HW_CHECK_IID_REDEFINED, "%s %llu means something else than before",
                           what, (unsigned long long)id);
        return HW_OK;
    }
    e->defined = true;
    e->hash = hash;
    e->first = t->ids.n;
    *out = e;
    return HW_OK;
}

int hw_check_refer(struct hw_checker *c, struct hw_check_table *t, uint64_t id)
{
    struct hw_check_entry *e;
    return entry_at(c, t, id, &e);
}

int hw_check_entry_id(struct hw_check_table *t, struct hw_check_entry *e, uint64_t id)
{
    if (hw_vec_push(&t->ids, id) < 0)
        return HW_ENOMEM;
    e->n++;
    return HW_OK;
}

void hw_check_table_end(struct hw_checker *c, const struct hw_check_table *t,
                        enum hw_check_rule rule, const char *what, uint64_t sequence)
{
    for (size_t i = 0; i < t->v.n; i++) {
        const struct hw_check_entry *e = &t->v.v[i];
        if (!e->defined)
            hw_check_found_at(c, rule, e->at, "%s %llu is never defined on sequence %llu", what,
                              (unsigned long long)e->id, (unsigned long long)(uint32_t)sequence);
    }
}

/* ---- entries ---- */

const char *hw_check_kind_name(enum hw_check_kind kind)
{
    return kinds[kind].what;
}

static bool kind_of(uint32_t field, enum hw_check_kind *out)
{
    for (int k = 0; k < HW_CHECK_KIND_COUNT; k++)
        if (kinds[k].field == field) {
            *out = (enum hw_check_kind)k;
            return true;
        }
    return false;
}

/* Numbers of a repeated field, packed or not. */
static int add_ids(struct hw_check_table *t, struct hw_check_entry *e, const struct hw_pb_field *f)
{
    struct hw_bytes rest = f->bytes;
    uint64_t id;
    int rc = HW_OK;
    if (f->wire != HW_PB_BYTES)
        return hw_check_entry_id(t, e, f->value);
    while (rc == HW_OK && hw_pb_next_packed(&rest, &id) == 1)
        rc = hw_check_entry_id(t, e, id);
    return rc;
}

uint64_t hw_check_entry_hash(struct hw_bytes message, uint64_t *iid)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t h = 0;
    *iid = 0;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_InternedString_iid && f.wire == HW_PB_VARINT) {
            *iid = f.value;
            continue;
        }
        bool is_bytes = f.wire == HW_PB_BYTES;
        if (is_bytes ? f.bytes.n == 0 : f.value == 0)
            continue; /* the same as an absent field */
        h = hw_hash_mix(h, f.number);
        h = hw_hash_mix(h, is_bytes ? hw_hash_bytes(f.bytes.p, f.bytes.n) : f.value);
    }
    return h;
}

/* The ids of a Mapping: build id, then the path's. */
static int add_mapping(struct hw_checker *c, struct hw_check_interned *in, struct hw_check_entry *e,
                       struct hw_bytes message)
{
    struct hw_check_table *t = &in->kinds[HW_CHECK_KIND_MAPPING];
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t build_id = 0;
    int rc = hw_check_entry_id(t, e, 0);
    e->identity = 0;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_Mapping_path_string_ids)
            rc = add_ids(t, e, &f);
        else if (f.number == HW_F_Mapping_build_id)
            build_id = f.value;
        else if (f.number != HW_F_Mapping_iid && f.value) /* a sum: independent of the order */
            e->identity += hw_hash_mix(f.number, f.value);
    }
    if (rc < 0)
        return rc;
    t->ids.v[e->first] = build_id;
    if (build_id)
        rc = hw_check_refer(c, &in->kinds[HW_CHECK_KIND_BUILD_ID], build_id);
    for (uint32_t i = 1; rc == HW_OK && i < e->n; i++)
        rc = hw_check_refer(c, &in->kinds[HW_CHECK_KIND_MAPPING_PATH], t->ids.v[e->first + i]);
    return rc;
}

enum frame_id { FRAME_NAME, FRAME_MAPPING, FRAME_REL_PC, FRAME_SOURCE, FRAME_LINE, FRAME_COUNT };

static int add_frame(struct hw_checker *c, struct hw_check_interned *in, struct hw_check_entry *e,
                     struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t v[FRAME_COUNT] = {0};
    int rc = HW_OK;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number >= HW_F_Frame_function_name_id && f.number <= HW_F_Frame_line_number)
            v[f.number - HW_F_Frame_function_name_id] = f.value;
    for (size_t i = 0; rc == HW_OK && i < FRAME_COUNT; i++)
        rc = hw_check_entry_id(&in->kinds[HW_CHECK_KIND_FRAME], e, v[i]);
    if (rc == HW_OK && v[FRAME_NAME])
        rc = hw_check_refer(c, &in->kinds[HW_CHECK_KIND_FUNCTION_NAME], v[FRAME_NAME]);
    if (rc == HW_OK && v[FRAME_MAPPING])
        rc = hw_check_refer(c, &in->kinds[HW_CHECK_KIND_MAPPING], v[FRAME_MAPPING]);
    if (rc == HW_OK && v[FRAME_SOURCE])
        rc = hw_check_refer(c, &in->kinds[HW_CHECK_KIND_SOURCE_PATH], v[FRAME_SOURCE]);
    return rc;
}

static int add_callstack(struct hw_checker *c, struct hw_check_interned *in,
                         struct hw_check_entry *e, struct hw_bytes message)
{
    struct hw_check_table *t = &in->kinds[HW_CHECK_KIND_CALLSTACK];
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_Callstack_frame_ids)
            rc = add_ids(t, e, &f);
    if (rc == HW_OK && e->n == 0)
        hw_check_found(c, HW_CHECK_CALLSTACK_EMPTY, "callstack %llu has no frames",
                       (unsigned long long)e->id);
    for (uint32_t i = 0; rc == HW_OK && i < e->n; i++) {
        uint64_t frame = t->ids.v[e->first + i];
        if (frame == 0)
            hw_check_found(c, HW_CHECK_IID_ZERO, "callstack %llu has the frame 0",
                           (unsigned long long)e->id);
        else
            rc = hw_check_refer(c, &in->kinds[HW_CHECK_KIND_FRAME], frame);
    }
    return rc;
}

/* An empty string may have the id 0: writers use it for missing names. */
static bool may_be_zero(enum hw_check_kind kind, uint64_t hash)
{
    return hash == 0 && (kind == HW_CHECK_KIND_FUNCTION_NAME || kind == HW_CHECK_KIND_BUILD_ID ||
                         kind == HW_CHECK_KIND_MAPPING_PATH || kind == HW_CHECK_KIND_SOURCE_PATH);
}

int hw_check_intern_entry(struct hw_checker *c, struct hw_check_interned *in,
                          enum hw_check_kind kind, struct hw_bytes message)
{
    struct hw_check_entry *e;
    uint64_t iid, hash = hw_check_entry_hash(message, &iid);
    if (iid == 0 && !may_be_zero(kind, hash))
        hw_check_found(c, HW_CHECK_IID_ZERO, "a %s is defined with the id 0", kinds[kind].what);
    int rc = hw_check_define(c, &in->kinds[kind], kinds[kind].what, iid, hash, &e);
    if (rc < 0 || !e)
        return rc;
    if (kind == HW_CHECK_KIND_MAPPING)
        return add_mapping(c, in, e, message);
    if (kind == HW_CHECK_KIND_FRAME)
        return add_frame(c, in, e, message);
    return kind == HW_CHECK_KIND_CALLSTACK ? add_callstack(c, in, e, message) : HW_OK;
}

int hw_check_intern(struct hw_checker *c, struct hw_check_interned *in, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    enum hw_check_kind kind;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.wire == HW_PB_BYTES && kind_of(f.number, &kind))
            rc = hw_check_intern_entry(c, in, kind, f.bytes);
    return rc;
}

int hw_check_refer_interned(struct hw_checker *c, struct hw_check_sequence *s,
                            enum hw_check_kind kind, uint64_t iid)
{
    if (iid == 0)
        return HW_OK;
    if (s && s->interned)
        return hw_check_refer(c, &s->interned->kinds[kind], iid);
    if (!c->reported_state)
        hw_check_found(c, HW_CHECK_STATE_NOT_CLEARED,
                       "%s %llu is referred to, but the sequence's state was never cleared",
                       kinds[kind].what, (unsigned long long)iid);
    c->reported_state = true;
    return HW_OK;
}

void hw_check_interned_end(struct hw_checker *c, const struct hw_check_interned *in,
                           uint64_t sequence)
{
    for (int k = 0; k < HW_CHECK_KIND_COUNT; k++)
        hw_check_table_end(c, &in->kinds[k], HW_CHECK_IID_UNDEFINED, kinds[k].what, sequence);
}

void hw_check_interned_free(struct hw_check_interned *in)
{
    if (!in)
        return;
    for (int k = 0; k < HW_CHECK_KIND_COUNT; k++)
        hw_check_table_done(&in->kinds[k]);
    free(in);
}

/* ---- identities for other readers ---- */

static uint64_t string_hash(const struct hw_check_interned *in, enum hw_check_kind kind,
                            uint64_t iid)
{
    const struct hw_check_entry *e = hw_check_table_find(&in->kinds[kind], iid);
    return e ? e->hash : 0; /* as of "" */
}

/* mark 1: identity is complete. */
static uint64_t mapping_identity(struct hw_check_interned *in, struct hw_check_entry *e)
{
    const uint64_t *ids = &in->kinds[HW_CHECK_KIND_MAPPING].ids.v[e->first];
    if (e->mark)
        return e->identity;
    e->mark = 1;
    e->identity = hw_hash_mix(e->identity, string_hash(in, HW_CHECK_KIND_BUILD_ID, ids[0]));
    for (uint32_t i = 1; i < e->n; i++)
        e->identity = hw_hash_mix(e->identity, string_hash(in, HW_CHECK_KIND_MAPPING_PATH, ids[i]));
    return e->identity;
}

/* 0 = undefined. */
static uint64_t frame_identity(struct hw_check_interned *in, uint64_t iid)
{
    struct hw_check_entry *e = hw_check_table_find(&in->kinds[HW_CHECK_KIND_FRAME], iid);
    if (!e || !e->defined)
        return 0;
    if (e->mark)
        return e->identity;
    const uint64_t *ids = &in->kinds[HW_CHECK_KIND_FRAME].ids.v[e->first];
    uint64_t name = string_hash(in, HW_CHECK_KIND_FUNCTION_NAME, ids[FRAME_NAME]);
    struct hw_check_entry *m =
        ids[FRAME_MAPPING]
            ? hw_check_table_find(&in->kinds[HW_CHECK_KIND_MAPPING], ids[FRAME_MAPPING])
            : NULL;
    e->mark = 1;
    if (m && m->defined)
        e->identity = hw_hash_mix(hw_hash_mix(mapping_identity(in, m), ids[FRAME_REL_PC]), name);
    else
        e->identity = hw_hash_mix(hw_hash_mix(name, ids[FRAME_SOURCE]), ids[FRAME_LINE]);
    return e->identity;
}

uint64_t hw_check_callstack_identity(struct hw_check_interned *in, uint64_t iid)
{
    const struct hw_check_table *t = &in->kinds[HW_CHECK_KIND_CALLSTACK];
    const struct hw_check_entry *e = hw_check_table_find(t, iid);
    uint64_t h = 1;
    if (!e || !e->defined)
        return 0;
    for (uint32_t i = 0; i < e->n; i++) {
        uint64_t frame = frame_identity(in, t->ids.v[e->first + i]);
        if (frame == 0) /* reported already */
            return 0;
        h = hw_hash_mix(h, frame);
    }
    return h;
}

/*
 * Entries are kept as the bytes of their messages: a callstack of 60 frames is some 150 bytes that
 * way, and most are decoded only once. The bytes of callstacks, which can be most of a trace, are
 * released after that (interned_rows.c).
 */
#include "import/perfetto/interned.h"

#include <stdlib.h>

#include "base/error.h"
#include "codec/pb.h"
#include "import/perfetto/interned_scope.h"
#include "schema/fields.h"

#include "base/banned.h"

/* In place of a generation: the tables of a dump. No file has so many generations or dumps. */
#define OF_DUMP UINT32_C(0x80000000)

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

int hw_interned_count(struct hw_interned *in, const char *stat)
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
    if (t->entries.n >= HW_INTERNED_UNRESOLVABLE - 1 || iid == HW_MAP64_NO_KEY)
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

uint64_t hw_interned_iid(struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == 1 && f.wire == HW_PB_VARINT) /* field 1 of every interned message */
            return f.value;
    return 0;
}

/* A second definition is ignored; unless it is the same or in a dump's own tables, it is damage. */
static int add_entry(struct hw_interned *in, struct hw_interned_group *g,
                     enum hw_interned_kind kind, struct hw_bytes message)
{
    uint64_t iid = hw_interned_iid(message);
    const struct hw_interned_entry *existing = entry_find(&g->tables[kind], iid);
    if (existing) {
        if (g->is_of_dump || !existing->p ||
            hw_bytes_equal(hw_bytes_of(existing->p, existing->n), message))
            return HW_OK;
        return hw_interned_count(in, "stackprofile_parser_error");
    }
    const void *copy = kind == HW_INTERNED_CALLSTACK
                           ? (const void *)hw_blocks_add(&in->stacks, message)
                           : hw_arena_copy(&in->arena, message.p, message.n);
    if (!copy)
        return HW_ENOMEM;
    int rc =
        entry_new(&g->tables[kind], iid, (struct hw_interned_entry){copy, (uint32_t)message.n, 0});
    return rc == HW_ELIMIT ? hw_interned_count(in, "stackprofile_parser_error") : rc;
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
    return rc < 0 ? hw_interned_count(in, "stackprofile_parser_error") : HW_OK;
}

bool hw_interned_is_legacy(const struct hw_pb_field *f)
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
        if (!hw_interned_is_legacy(&f))
            continue;
        int rc = g ? HW_OK : group_get(in, sequence, dump_key(in, sequence), &g);
        if (rc == HW_OK && f.number == HW_F_ProfilePacket_strings) {
            /* One table of strings serves all three kinds. */
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

struct hw_interned_entry *hw_interned_lookup(const struct hw_interned_scope *s,
                                             enum hw_interned_kind kind, uint64_t iid)
{
    struct hw_interned_entry *e = s->legacy ? entry_find(&s->legacy->tables[kind], iid) : NULL;
    if (!e && s->generation)
        e = entry_find(&s->generation->tables[kind], iid);
    return e;
}

struct hw_interned_scope hw_interned_scope_of(const struct hw_interned *in, uint64_t sequence,
                                              uint32_t generation)
{
    return (struct hw_interned_scope){legacy_find(in, sequence),
                                      generation ? group_find(in, sequence, generation) : NULL};
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

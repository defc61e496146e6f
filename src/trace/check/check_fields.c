/*
 * Open messages are on a stack of our own, as hostile nesting must end in a finding. A message that
 * proto/ knows only by name is not checked inside.
 */
#include "trace/check/check_fields.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/utf8.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "schema/schema.h"
#include "trace/check/check_ids.h"
#include "trace/check/checker.h"

#include "base/banned.h"

enum { MAX_DEPTH = 32, MAX_FIELDS = 256, MAX_PATH = 160, FIRST_EXTENSION = 1000 };

/* Fields that refer to interned data, except those that check_dumps.c and check_ids.c follow. */
static const struct reference {
    const char *message;
    uint32_t field;
    enum hw_check_kind kind;
} references[] = {
    {"TrackEvent", HW_F_TrackEvent_category_iids, HW_CHECK_KIND_CATEGORY},
    {"TrackEvent", HW_F_TrackEvent_name_iid, HW_CHECK_KIND_EVENT_NAME},
    {"TrackEvent", HW_F_TrackEvent_callstack_iid, HW_CHECK_KIND_CALLSTACK},
    {"TrackEvent", HW_F_TrackEvent_source_location_iid, HW_CHECK_KIND_SOURCE_LOCATION},
    {"TrackEvent", HW_F_TrackEvent_correlation_id_str_iid, HW_CHECK_KIND_CORRELATION},
    {"TrackEvent.LegacyEvent", HW_F_TrackEvent_LegacyEvent_name_iid, HW_CHECK_KIND_EVENT_NAME},
    {"DebugAnnotation", HW_F_DebugAnnotation_name_iid, HW_CHECK_KIND_ANNOTATION_NAME},
    {"DebugAnnotation", HW_F_DebugAnnotation_string_value_iid, HW_CHECK_KIND_STRING_VALUE},
    {"DebugAnnotation", HW_F_DebugAnnotation_proto_type_name_iid, HW_CHECK_KIND_VALUE_TYPE},
    {"PerfSample", HW_F_PerfSample_callstack_iid, HW_CHECK_KIND_CALLSTACK},
    {"StreamingProfilePacket", HW_F_StreamingProfilePacket_callstack_iid, HW_CHECK_KIND_CALLSTACK},
    {"ManagedLinks.Link", HW_F_ManagedLinks_Link_callstack_id, HW_CHECK_KIND_CALLSTACK},
};

struct level {
    const struct hw_schema_message *m;
    const char *name; /* of the field that contains it */
    struct hw_pb_reader r;
    uint64_t seen[MAX_FIELDS / 64];
};

struct walk {
    struct hw_checker *c;
    struct hw_check_sequence *s;
    int depth;
    uint32_t data_kind; /* of the packet; 0 = none so far */
    struct level levels[MAX_DEPTH];
};

/* "profile_packet.process_dumps.FIELD"; field NULL = the open message. */
static const char *path_of(const struct walk *w, const char *field, char out[static MAX_PATH])
{
    size_t n = 0;
    (void)snprintf(out, MAX_PATH, "the packet"); /* it fits */
    for (int i = 1; i <= w->depth + 1 && n < MAX_PATH; i++) {
        const char *name = i <= w->depth ? w->levels[i].name : field;
        if (!name)
            break;
        int len = snprintf(out + n, MAX_PATH - n, "%s%s", n ? "." : "", name);
        n += len > 0 ? (size_t)len : 0;
    }
    return out;
}

static const char *path_of_number(const struct walk *w, uint32_t number, char out[static MAX_PATH])
{
    char name[16];
    (void)snprintf(name, sizeof name, "%u", number); /* ten digits at most */
    return path_of(w, name, out);
}

static const struct hw_schema_field *known_field(const struct hw_schema_message *m, uint32_t number)
{
    size_t likely = (size_t)number - 1; /* most messages are numbered without gaps */
    if (likely < m->n_fields && m->fields[likely].number == number)
        return &m->fields[likely];
    return hw_schema_field_by_number(m, number);
}

/* A packet may have only one kind of data, besides the fields that all kinds have. */
static void check_kind(struct walk *w, const struct hw_pb_field *f)
{
    if (w->depth > 0 || f->wire != HW_PB_BYTES || f->number == HW_F_TracePacket_interned_data ||
        f->number == HW_F_TracePacket_trace_packet_defaults)
        return;
    if (w->data_kind && w->data_kind != f->number)
        hw_check_found(w->c, HW_CHECK_KINDS_TWO, "fields %u and %u of the packet are both data",
                       w->data_kind, f->number);
    w->data_kind = f->number;
}

static void unknown_field(struct walk *w, const struct hw_pb_field *f)
{
    char path[MAX_PATH];
    if (f->number >= FIRST_EXTENSION)
        hw_check_found(w->c, HW_CHECK_EXTENSION_UNKNOWN, "%s is an extension of somebody else's",
                       path_of_number(w, f->number, path));
    else if (w->depth == 0 && f->wire == HW_PB_BYTES)
        hw_check_found(w->c, HW_CHECK_KIND_UNKNOWN, "the packet is of kind %u", f->number);
    else
        hw_check_found(w->c, HW_CHECK_FIELD_UNKNOWN, "%s is not in the schema",
                       path_of_number(w, f->number, path));
}

static void check_twice(struct walk *w, struct level *l, const struct hw_schema_field *field)
{
    char path[MAX_PATH];
    size_t i = (size_t)(field - l->m->fields);
    if (field->repeated || i >= MAX_FIELDS)
        return;
    uint64_t bit = 1ull << (i % 64);
    if (l->seen[i / 64] & bit)
        hw_check_found(w->c, HW_CHECK_FIELD_TWICE, "%s stands twice in one message",
                       path_of(w, field->name, path));
    l->seen[i / 64] |= bit;
}

static bool fits(const struct hw_schema_field *field, uint64_t v)
{
    switch ((enum hw_schema_type)field->type) {
    case HW_T_BOOL:
        return v <= 1;
    case HW_T_UINT32:
    case HW_T_SINT32:
        return v <= UINT32_MAX;
    case HW_T_INT32:
    case HW_T_ENUM:
        return (int64_t)v >= INT32_MIN && (int64_t)v <= INT32_MAX;
    case HW_T_INT64:
    case HW_T_UINT64:
    case HW_T_SINT64:
    case HW_T_FIXED32:
    case HW_T_FIXED64:
    case HW_T_FLOAT:
    case HW_T_DOUBLE:
    case HW_T_STRING:
    case HW_T_BYTES:
    case HW_T_MESSAGE:
    case HW_T_COUNT:
        break;
    }
    return true;
}

static int check_number(struct walk *w, const struct level *l, const struct hw_schema_field *field,
                        uint64_t v)
{
    char path[MAX_PATH];
    if (!fits(field, v))
        hw_check_found(w->c, HW_CHECK_VALUE_RANGE, "%s is %lld", path_of(w, field->name, path),
                       (long long)v);
    else if (field->type == HW_T_ENUM && !hw_schema_value_by_number(field->enumeration, (int32_t)v))
        hw_check_found(w->c, HW_CHECK_ENUM_UNKNOWN, "%s is %lld, which is no %s",
                       path_of(w, field->name, path), (long long)v, field->enumeration->name);
    for (size_t i = 0; i < HW_ARRAY_LEN(references); i++)
        if (references[i].field == field->number && strcmp(references[i].message, l->m->name) == 0)
            return hw_check_refer_interned(w->c, w->s, references[i].kind, v);
    return HW_OK;
}

/* Packed numbers. */
static int check_packed(struct walk *w, const struct level *l, const struct hw_schema_field *field,
                        struct hw_bytes rest)
{
    char path[MAX_PATH];
    uint64_t v;
    int rc = HW_OK, next = 0;
    uint32_t wire = hw_schema_wire(field);
    if (wire == HW_PB_VARINT)
        while (rc == HW_OK && (next = hw_pb_next_packed(&rest, &v)) == 1)
            rc = check_number(w, l, field, v);
    else if (rest.n % (wire == HW_PB_FIXED64 ? 8 : 4))
        next = HW_ETRUNCATED;
    if (next < 0)
        hw_check_found(w->c, HW_CHECK_MESSAGE_DAMAGED, "%s ends inside a number",
                       path_of(w, field->name, path));
    return rc;
}

static void push(struct walk *w, const struct hw_schema_field *field, struct hw_bytes message)
{
    char path[MAX_PATH];
    if (field->message->n_fields == 0)
        return;
    if (w->depth + 1 == MAX_DEPTH) {
        hw_check_found(w->c, HW_CHECK_NESTED_DEEP, "%s is not looked into",
                       path_of(w, field->name, path));
        return;
    }
    w->levels[++w->depth] =
        (struct level){.m = field->message, .name = field->name, .r = hw_pb_read(message)};
}

static int check_field(struct walk *w, struct level *l, const struct hw_pb_field *f)
{
    char path[MAX_PATH];
    const struct hw_schema_field *field = known_field(l->m, f->number);
    check_kind(w, f);
    if (!field) {
        unknown_field(w, f);
        return HW_OK;
    }
    w->c->result->n_own_fields += strncmp(field->name, "[heapwise.", 10) == 0;
    uint32_t wire = hw_schema_wire(field);
    bool packed = field->repeated && wire != HW_PB_BYTES && f->wire == HW_PB_BYTES;
    if (f->wire != wire && !packed) {
        hw_check_found(w->c, HW_CHECK_WIRE_TYPE, "%s has the wire type %u, not %u",
                       path_of(w, field->name, path), f->wire, wire);
        return HW_OK;
    }
    check_twice(w, l, field);
    if (packed)
        return check_packed(w, l, field, f->bytes);
    if (field->type == HW_T_MESSAGE)
        push(w, field, f->bytes);
    else if (field->type == HW_T_STRING && !hw_utf8_valid(f->bytes.p, f->bytes.n))
        hw_check_found(w->c, HW_CHECK_TEXT_NOT_UTF8, "%s is not UTF-8",
                       path_of(w, field->name, path));
    return wire == HW_PB_VARINT ? check_number(w, l, field, f->value) : HW_OK;
}

int hw_check_fields(struct hw_checker *c, struct hw_check_sequence *s, struct hw_bytes packet)
{
    struct walk w; /* large: not cleared as a whole */
    struct hw_pb_field f;
    char path[MAX_PATH];
    w.c = c;
    w.s = s;
    w.depth = 0;
    w.data_kind = 0;
    w.levels[0] = (struct level){.m = c->packet_message, .r = hw_pb_read(packet)};
    while (w.depth >= 0) {
        struct level *l = &w.levels[w.depth];
        int rc = hw_pb_next(&l->r, &f);
        if (rc == 1) {
            rc = check_field(&w, l, &f);
            if (rc < 0)
                return rc;
            continue;
        }
        if (rc < 0)
            hw_check_found(c, HW_CHECK_MESSAGE_DAMAGED, "%s is broken at its byte %zu",
                           path_of(&w, NULL, path), (size_t)(l->r.pos - l->r.start));
        w.depth--;
    }
    return HW_OK;
}

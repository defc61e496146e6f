/*
 * Protobuf descriptors of the metrics' messages: they let a front end without our .proto files read
 * the results of COMPUTE_METRIC. Made from the schema's tables: every message reachable from
 * TraceMetrics, nested ones within the messages that contain them.
 */
#include <string.h>

#include "base/error.h"
#include "base/memory/vec.h"
#include "schema/fields.h"
#include "schema/schema.h"
#include "server/rpc/rpc_results.h"

#include "base/banned.h"

/* Field numbers of google/protobuf/descriptor.proto. */
enum { MESSAGE_NAME = 1, MESSAGE_FIELD = 2, MESSAGE_NESTED = 3, MESSAGE_ENUM = 4 };
enum { FIELD_NAME = 1, FIELD_NUMBER = 3, FIELD_LABEL = 4, FIELD_TYPE = 5, FIELD_TYPE_NAME = 6 };
enum { ENUM_NAME = 1, ENUM_VALUE = 2, VALUE_NAME = 1, VALUE_NUMBER = 2 };
enum { LABEL_OPTIONAL = 1, LABEL_REPEATED = 3, MAX_DEPTH = 8 };

static const uint8_t type_numbers[HW_T_COUNT] = {
    [HW_T_BOOL] = 8,    [HW_T_INT32] = 5,   [HW_T_INT64] = 3,    [HW_T_UINT32] = 13,
    [HW_T_UINT64] = 4,  [HW_T_SINT32] = 17, [HW_T_SINT64] = 18,  [HW_T_FIXED32] = 7,
    [HW_T_FIXED64] = 6, [HW_T_FLOAT] = 2,   [HW_T_DOUBLE] = 1,   [HW_T_STRING] = 9,
    [HW_T_BYTES] = 12,  [HW_T_ENUM] = 14,   [HW_T_MESSAGE] = 11,
};

typedef HW_VEC(const struct hw_schema_message *) message_list;

static bool holds(const message_list *list, const struct hw_schema_message *m)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->v[i] == m)
            return true;
    return false;
}

/* Appends the messages that the listed ones refer to. */
static int collect(message_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->v[i]->n_fields; k++) {
            const struct hw_schema_message *next = list->v[i]->fields[k].message;
            if (next && !holds(list, next) && hw_vec_push(list, next) < 0)
                return HW_ENOMEM;
        }
    return HW_OK;
}

static void put_type_name(struct hw_pb *out, const char *name)
{
    static const char package[] = ".perfetto.protos.";
    struct hw_strbuf full = {0};
    hw_strbuf_adds(&full, package);
    hw_strbuf_adds(&full, name);
    out->buf.failed |= full.failed;
    hw_pb_bytes(out, FIELD_TYPE_NAME, full.p, full.n);
    hw_strbuf_done(&full);
}

static void put_field(struct hw_pb *out, const struct hw_schema_field *f)
{
    hw_pb_begin(out, MESSAGE_FIELD);
    hw_pb_str(out, FIELD_NAME, f->name);
    hw_pb_uint(out, FIELD_NUMBER, f->number);
    hw_pb_uint(out, FIELD_LABEL, f->repeated ? LABEL_REPEATED : LABEL_OPTIONAL);
    hw_pb_uint(out, FIELD_TYPE, type_numbers[f->type]);
    if (f->message)
        put_type_name(out, f->message->name);
    else if (f->enumeration)
        put_type_name(out, f->enumeration->name);
    hw_pb_end(out);
}

/* "A.B" is nested in "A": returns the part after the dot; NULL = not nested, or deeper. */
static const char *nested_name(const char *outer, const char *name)
{
    size_t n = strlen(outer);
    bool inside = strncmp(outer, name, n) == 0 && name[n] == '.';
    return inside && !strchr(name + n + 1, '.') ? name + n + 1 : NULL;
}

static void put_enum(struct hw_pb *out, const struct hw_schema_enum *e, const char *name)
{
    hw_pb_begin(out, MESSAGE_ENUM);
    hw_pb_str(out, ENUM_NAME, name);
    for (size_t i = 0; i < e->n_values; i++) {
        hw_pb_begin(out, ENUM_VALUE);
        hw_pb_str(out, VALUE_NAME, e->values[i].name);
        hw_pb_sint64(out, VALUE_NUMBER, e->values[i].number);
        hw_pb_end(out);
    }
    hw_pb_end(out);
}

/* The enums nested in m that fields of the list use, each once. */
static void put_enums(struct hw_pb *out, const message_list *list,
                      const struct hw_schema_message *m)
{
    HW_VEC(const struct hw_schema_enum *) seen = {0};
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->v[i]->n_fields; k++) {
            const struct hw_schema_enum *e = list->v[i]->fields[k].enumeration;
            const char *name = e ? nested_name(m->name, e->name) : NULL;
            bool again = false;
            for (size_t j = 0; j < seen.n; j++)
                again |= seen.v[j] == e;
            if (!name || again)
                continue;
            put_enum(out, e, name);
            if (hw_vec_push(&seen, e) < 0)
                out->buf.failed = true;
        }
    hw_vec_done(&seen);
}

/* Recursion is bounded by our own .proto files. */
static void put_message(struct hw_pb *out, uint32_t field, const message_list *list,
                        const struct hw_schema_message *m, const char *name, unsigned depth)
{
    hw_pb_begin(out, field);
    hw_pb_str(out, MESSAGE_NAME, name);
    for (size_t i = 0; i < m->n_fields; i++)
        put_field(out, &m->fields[i]);
    for (size_t i = 0; depth < MAX_DEPTH && i < list->n; i++) {
        const char *inner = nested_name(m->name, list->v[i]->name);
        if (inner)
            put_message(out, MESSAGE_NESTED, list, list->v[i], inner, depth + 1);
    }
    put_enums(out, list, m);
    hw_pb_end(out);
}

int hw_rpc_descriptors(struct hw_rpc_server *s, struct hw_pb *out)
{
    const struct hw_schema_message *root = hw_schema_message_find("TraceMetrics");
    message_list list = {0};
    int rc = root && hw_vec_push(&list, root) == 0 ? collect(&list) : HW_ENOMEM;
    (void)s;
    for (size_t i = 0; rc == HW_OK && i < list.n; i++)
        if (!strchr(list.v[i]->name, '.'))
            put_message(out, HW_F_DescriptorSet_descriptors, &list, list.v[i], list.v[i]->name, 0);
    hw_vec_done(&list);
    return rc == HW_OK && hw_pb_failed(out) ? HW_ENOMEM : rc;
}

/*
 * JSON needs all values of a repeated field together, but they may be anywhere in the message: at
 * the first one the rest of the message is searched for the others, and later ones are skipped.
 */
#include "base/error.h"
#include "base/text/json_out.h"
#include "codec/pb.h"
#include "schema/print.h"
#include "schema/scalar.h"
#include "schema/schema.h"

#include "base/banned.h"

enum { MAX_DEPTH = 32 };

static bool is_wire_of(const struct hw_schema_field *f, uint32_t wire)
{
    uint32_t want = hw_schema_wire(f);
    return wire == want || (f->repeated && want == HW_PB_VARINT && wire == HW_PB_BYTES);
}

static void put_number(struct hw_json *j, const struct hw_schema_field *f, uint64_t v)
{
    struct hw_scalar s = hw_scalar_of(f, v);
    switch (s.kind) {
    case HW_SCALAR_BOOL:
        hw_json_bool(j, s.u);
        break;
    case HW_SCALAR_INT:
        hw_json_int(j, s.i);
        break;
    case HW_SCALAR_DOUBLE:
        hw_json_double(j, s.d);
        break;
    case HW_SCALAR_NAME:
        hw_json_str(j, s.name);
        break;
    case HW_SCALAR_UINT:
    case HW_SCALAR_COUNT:
        hw_json_uint(j, s.u);
        break;
    }
}

static int put_message(struct hw_json *j, const struct hw_schema_message *m, struct hw_bytes bytes,
                       unsigned depth);

static int put_value(struct hw_json *j, const struct hw_schema_field *f,
                     const struct hw_pb_field *in, unsigned depth)
{
    struct hw_bytes rest = in->bytes;
    uint64_t v;
    int rc;
    if (f->type == HW_T_MESSAGE)
        return put_message(j, f->message, in->bytes, depth + 1);
    if (f->type == HW_T_STRING || f->type == HW_T_BYTES) {
        hw_json_strn(j, in->bytes.p, in->bytes.n);
        return HW_OK;
    }
    if (in->wire != HW_PB_BYTES) {
        put_number(j, f, in->value);
        return HW_OK;
    }
    while ((rc = hw_pb_next_packed(&rest, &v)) == 1)
        put_number(j, f, v);
    return rc;
}

/* The array of a repeated field; `from` is at its first value. */
static int put_array(struct hw_json *j, const struct hw_schema_field *f, struct hw_pb_reader from,
                     unsigned depth)
{
    struct hw_pb_field in;
    int rc;
    hw_json_begin_array(j);
    while ((rc = hw_pb_next(&from, &in)) == 1) {
        if (in.number == f->number && is_wire_of(f, in.wire))
            rc = put_value(j, f, &in, depth);
        if (rc < 0)
            return rc;
    }
    hw_json_end_array(j);
    return rc;
}

/* The last value of a field that is not repeated counts. */
static int put_last(struct hw_json *j, const struct hw_schema_field *f, struct hw_pb_reader from,
                    unsigned depth)
{
    struct hw_pb_field in, last = {0};
    int rc;
    while ((rc = hw_pb_next(&from, &in)) == 1)
        if (in.number == f->number && is_wire_of(f, in.wire))
            last = in;
    return rc < 0 ? rc : put_value(j, f, &last, depth);
}

/* Recursion is limited by MAX_DEPTH; our schema nests a few levels. */
static int put_message(struct hw_json *j, const struct hw_schema_message *m, struct hw_bytes bytes,
                       unsigned depth)
{
    struct hw_pb_reader r = hw_pb_read(bytes), here = r;
    struct hw_pb_field in;
    uint64_t seen[8] = {0}; /* by the field's index in the schema */
    int rc;
    if (depth >= MAX_DEPTH)
        return HW_ELIMIT;
    hw_json_begin_object(j);
    while ((rc = hw_pb_next(&r, &in)) == 1) {
        const struct hw_schema_field *f = hw_schema_field_by_number(m, in.number);
        size_t at = f ? (size_t)(f - m->fields) : 0;
        if (f && is_wire_of(f, in.wire) && at < 64 * HW_ARRAY_LEN(seen) &&
            !(seen[at / 64] >> (at % 64) & 1)) {
            seen[at / 64] |= 1ull << (at % 64);
            hw_json_key(j, f->name);
            rc = f->repeated ? put_array(j, f, here, depth) : put_last(j, f, here, depth);
        }
        if (rc < 0)
            return rc;
        here = r;
    }
    hw_json_end_object(j);
    return rc;
}

int hw_schema_print_json(const struct hw_schema_message *m, struct hw_bytes message,
                         struct hw_strbuf *out, struct hw_error *err)
{
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ true);
    int rc = put_message(&j, m, message, 0);
    if (rc == HW_OK)
        rc = hw_json_finish(&j);
    if (rc == HW_OK) {
        hw_strbuf_add(out, j.buf.p, j.buf.n);
        rc = out->failed ? HW_ENOMEM : HW_OK;
    }
    hw_json_done(&j);
    return rc < 0 ? hw_fail(err, rc, 0, "%s as JSON:", m->name) : HW_OK;
}

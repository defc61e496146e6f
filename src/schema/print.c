/* Open messages are on a stack of our own: hostile nesting ends at MAX_DEPTH, not in a crash. */
#include "schema/print.h"

#include "base/error.h"
#include "codec/pb.h"
#include "schema/scalar.h"
#include "schema/schema.h"

#include "base/banned.h"

enum { MAX_DEPTH = 32 };

struct printer {
    struct hw_strbuf *out;
    struct hw_pb_reader readers[MAX_DEPTH];
    const struct hw_schema_message *messages[MAX_DEPTH];
    unsigned depth, base_indent;
};

static void indent(struct printer *p)
{
    for (unsigned i = 0; i < p->base_indent + p->depth; i++)
        hw_strbuf_adds(p->out, "  ");
}

/* Text keeps its UTF-8; bytes are written with every byte above 0x7e in octal. */
static void print_string(struct hw_strbuf *b, struct hw_bytes s, bool is_text)
{
    hw_strbuf_addc(b, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = s.p[i];
        if (c == '"' || c == '\\')
            hw_strbuf_addf(b, "\\%c", c);
        else if (c == '\n')
            hw_strbuf_adds(b, "\\n");
        else if (c < 0x20 || c == 0x7f || (c > 0x7f && !is_text))
            hw_strbuf_addf(b, "\\%03o", c);
        else
            hw_strbuf_addc(b, (char)c);
    }
    hw_strbuf_addc(b, '"');
}

static void print_double(struct hw_strbuf *b, double v)
{
    hw_strbuf_addf(b, "%.17g", v);
}

static void print_scalar(struct printer *p, const struct hw_schema_field *f, uint64_t v)
{
    struct hw_scalar s = hw_scalar_of(f, v);
    switch (s.kind) {
    case HW_SCALAR_BOOL:
        hw_strbuf_adds(p->out, s.u ? "true" : "false");
        break;
    case HW_SCALAR_INT:
        hw_strbuf_addf(p->out, "%lld", (long long)s.i);
        break;
    case HW_SCALAR_DOUBLE:
        print_double(p->out, s.d);
        break;
    case HW_SCALAR_NAME:
        hw_strbuf_adds(p->out, s.name);
        break;
    case HW_SCALAR_UINT:
    case HW_SCALAR_COUNT:
        hw_strbuf_addf(p->out, "%llu", (unsigned long long)s.u);
        break;
    }
}

static void print_line(struct printer *p, const struct hw_schema_field *f, uint64_t v)
{
    indent(p);
    hw_strbuf_addf(p->out, "%s: ", f->name);
    print_scalar(p, f, v);
    hw_strbuf_addc(p->out, '\n');
}

static void print_unknown(struct printer *p, const struct hw_pb_field *in)
{
    indent(p);
    if (in->wire == HW_PB_BYTES)
        hw_strbuf_addf(p->out, "# unknown field %u: %zu bytes\n", in->number, in->bytes.n);
    else
        hw_strbuf_addf(p->out, "# unknown field %u: %llu\n", in->number,
                       (unsigned long long)in->value);
}

static int print_packed(struct printer *p, const struct hw_schema_field *f, struct hw_bytes rest)
{
    uint64_t v;
    int rc;
    while ((rc = hw_pb_next_packed(&rest, &v)) > 0)
        print_line(p, f, v);
    return rc;
}

static int print_message(struct printer *p, const struct hw_schema_field *f,
                         const struct hw_pb_field *in, struct hw_error *err)
{
    if (p->depth + 1 >= MAX_DEPTH)
        return hw_fail(err, HW_ELIMIT, in->offset, "messages are nested more than %d deep",
                       MAX_DEPTH);
    indent(p);
    hw_strbuf_addf(p->out, "%s {\n", f->name);
    p->depth++;
    p->readers[p->depth] = hw_pb_read(in->bytes);
    p->messages[p->depth] = f->message;
    return HW_OK;
}

static int print_field(struct printer *p, const struct hw_pb_field *in, struct hw_error *err)
{
    const struct hw_schema_field *f = hw_schema_field_by_number(p->messages[p->depth], in->number);
    if (f && in->wire == HW_PB_BYTES && f->repeated && hw_schema_wire(f) == HW_PB_VARINT)
        return print_packed(p, f, in->bytes);
    if (!f || in->wire != hw_schema_wire(f)) {
        print_unknown(p, in);
        return HW_OK;
    }
    if (f->type == HW_T_MESSAGE)
        return print_message(p, f, in, err);
    if (f->type == HW_T_STRING || f->type == HW_T_BYTES) {
        indent(p);
        hw_strbuf_addf(p->out, "%s: ", f->name);
        print_string(p->out, in->bytes, f->type == HW_T_STRING);
        hw_strbuf_addc(p->out, '\n');
        return HW_OK;
    }
    print_line(p, f, in->value);
    return HW_OK;
}

static void close_message(struct printer *p)
{
    p->depth--;
    indent(p);
    hw_strbuf_adds(p->out, "}\n");
}

int hw_schema_print(const struct hw_schema_message *m, struct hw_bytes message, unsigned indent_by,
                    struct hw_strbuf *out, size_t *damaged, struct hw_error *err)
{
    struct printer p = {.out = out, .base_indent = indent_by};
    p.readers[0] = hw_pb_read(message);
    p.messages[0] = m;
    for (;;) {
        struct hw_pb_field in = {0};
        int rc = hw_pb_next(&p.readers[p.depth], &in);
        if (rc > 0)
            rc = print_field(&p, &in, err);
        else if (rc == 0 && p.depth == 0)
            break;
        else if (rc == 0)
            close_message(&p);
        if (rc < 0 && !damaged)
            return rc == HW_ELIMIT ? rc : hw_fail(err, rc, in.offset, "not a valid %s", m->name);
        if (rc < 0) {
            indent(&p);
            hw_strbuf_adds(out, "# damaged from here\n");
            ++*damaged;
            p.readers[p.depth].pos = p.readers[p.depth].end;
        }
    }
    return out->failed ? hw_fail(err, HW_ENOMEM, 0, "%s as text", m->name) : HW_OK;
}

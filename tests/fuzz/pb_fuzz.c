/* Wire format: what is read is written again, and reads the same. The input is a message. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "codec/pb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void copy_field(struct hw_pb *w, const struct hw_pb_field *f)
{
    switch (f->wire) {
    case HW_PB_VARINT:
        hw_pb_uint(w, f->number, f->value);
        break;
    case HW_PB_FIXED64:
        hw_pb_fixed64(w, f->number, f->value);
        break;
    case HW_PB_BYTES:
        hw_pb_begin(w, f->number);
        hw_strbuf_add(&w->buf, f->bytes.p, f->bytes.n);
        hw_pb_end(w);
        break;
    default:
        break;
    }
}

static void same(const struct hw_pb_field *a, const struct hw_pb_field *b)
{
    if (a->number != b->number || a->wire != b->wire ||
        (a->wire != HW_PB_BYTES && a->value != b->value) || !hw_bytes_equal(a->bytes, b->bytes))
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_pb w = {0};
    struct hw_pb_field f, g;
    struct hw_pb_reader r = hw_pb_read(hw_bytes_of(data, n));
    while (hw_pb_next(&r, &f) == 1)
        copy_field(&w, &f);
    if (hw_pb_failed(&w))
        __builtin_trap();
    struct hw_pb_reader a = hw_pb_read(hw_bytes_of(data, n)), b = hw_pb_read(hw_pb_view(&w));
    while (hw_pb_next(&a, &f) == 1) {
        if (f.wire == HW_PB_FIXED32)
            continue;
        if (hw_pb_next(&b, &g) != 1)
            __builtin_trap();
        same(&f, &g);
    }
    if (hw_pb_next(&b, &g) != 0)
        __builtin_trap();
    struct hw_bytes rest = hw_bytes_of(data, n);
    uint64_t v;
    while (hw_pb_next_packed(&rest, &v) == 1)
        if (rest.n >= n)
            __builtin_trap();
    hw_pb_done(&w);
    return 0;
}

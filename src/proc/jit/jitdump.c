#include "proc/jit/jitdump.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#include "base/banned.h"

#define MAGIC          0x4a695444u /* "JiTD", read in the writer's byte order */
#define ARCH_TIMESTAMP 1u
#define RECORD_BYTES   16u
#define HEAD_BYTES     65536u /* of a load are looked at: its code is not */
#define LOAD_BYTES     56u    /* with the record's head; the name follows */
#define MOVE_BYTES     64u
#define LINES_BYTES    32u
#define LINE_BYTES     16u
#define MAX_LINES      65536u
#define KIND_LOAD      0u
#define KIND_MOVE      1u
#define KIND_LINES     2u

void hw_jitdump_done(struct hw_jitdump *d)
{
    hw_vec_done(&d->lines);
    *d = (struct hw_jitdump){0};
}

static int by_address(const void *a, const void *b)
{
    const struct hw_jit_line *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* What is missing, or does not end, ends the list: lines are optional. */
static int read_lines(struct hw_jitdump *d, struct hw_jit_code *c, struct hw_bytes r)
{
    hw_vec_clear(&d->lines);
    d->lines_at = 0;
    if (r.n < LINES_BYTES) {
        d->n_bad++;
        return HW_OK;
    }
    uint64_t n = hw_load_u64(r.p + 24);
    const char *file = NULL;
    size_t at = LINES_BYTES;
    for (uint64_t i = 0; i < n && i < MAX_LINES && r.n - at > LINE_BYTES; i++) {
        const uint8_t *p = r.p + at, *name = p + LINE_BYTES;
        const uint8_t *end = memchr(name, '\0', r.n - at - LINE_BYTES);
        if (!end)
            break;
        if (!(end - name == 1 && name[0] == 0xff))
            file = hw_jit_code_file(c, hw_bytes_of(name, (size_t)(end - name)));
        if (file && hw_vec_push(&d->lines,
                                (struct hw_jit_line){hw_load_u64(p), file, hw_load_u32(p + 8)}) < 0)
            return HW_ENOMEM;
        at += LINE_BYTES + (size_t)(end - name) + 1;
    }
    if (d->lines.n)
        qsort(d->lines.v, d->lines.n, sizeof *d->lines.v, by_address);
    d->lines_at = hw_load_u64(r.p + 16);
    return HW_OK;
}

static int read_load(struct hw_jitdump *d, struct hw_jit_code *c, struct hw_bytes r)
{
    const uint8_t *name = r.p + LOAD_BYTES, *end = NULL;
    if (r.n > LOAD_BYTES)
        end = memchr(name, '\0', r.n - LOAD_BYTES);
    if (!end || end == name) {
        d->n_bad++;
        return HW_OK;
    }
    uint64_t at = hw_load_u64(r.p + 32), size = hw_load_u64(r.p + 40);
    bool has_lines = d->lines_at == at && d->lines.n;
    int rc = hw_jit_code_add(c, at, size, hw_bytes_of(name, (size_t)(end - name)),
                             has_lines ? d->lines.v : NULL, has_lines ? (uint32_t)d->lines.n : 0);
    hw_vec_clear(&d->lines);
    d->lines_at = 0;
    if (rc != HW_ELIMIT || c->n_entries >= HW_JIT_MAX_ENTRIES)
        return rc;
    d->n_bad++; /* code of no bytes */
    return HW_OK;
}

static int read_record(struct hw_jitdump *d, struct hw_jit_code *c, struct hw_bytes r)
{
    switch (hw_load_u32(r.p)) {
    case KIND_LOAD:
        return read_load(d, c, r);
    case KIND_MOVE:
        if (r.n >= MOVE_BYTES && hw_jit_code_move(c, hw_load_u64(r.p + 32), hw_load_u64(r.p + 40),
                                                  hw_load_u64(r.p + 48)) != HW_ELIMIT)
            return HW_OK;
        d->n_bad++;
        return HW_OK;
    case KIND_LINES:
        return read_lines(d, c, r);
    default: /* closes, unwinding info, what later versions have */
        return HW_OK;
    }
}

static int read_header(struct hw_jitdump *d, struct hw_bytes piece, uint64_t *used)
{
    uint32_t size = hw_load_u32(piece.p + 8);
    if (hw_load_u32(piece.p) != MAGIC || hw_load_u32(piece.p + 4) == 0 ||
        size < HW_JITDUMP_HEADER_BYTES || size > HEAD_BYTES)
        return HW_EFORMAT;
    d->other_clock = hw_load_u64(piece.p + 32) & ARCH_TIMESTAMP;
    d->has_header = true;
    *used = size;
    return HW_OK;
}

int hw_jitdump_read(struct hw_jitdump *d, struct hw_jit_code *c, struct hw_bytes piece,
                    uint64_t until_ns, uint64_t *used, size_t *size)
{
    uint64_t at = 0;
    *used = 0;
    *size = 0;
    if (!d->has_header) {
        *size = HW_JITDUMP_HEADER_BYTES;
        if (piece.n < HW_JITDUMP_HEADER_BYTES)
            return HW_OK;
        int rc = read_header(d, piece, &at);
        if (rc < 0)
            return rc;
    }
    *size = RECORD_BYTES;
    for (*used = at; at < piece.n && piece.n - at >= RECORD_BYTES; *used = at) {
        struct hw_bytes r = {piece.p + at, piece.n - (size_t)at};
        uint32_t n = hw_load_u32(r.p + 4);
        if (n < RECORD_BYTES || n > HW_JITDUMP_MAX_RECORD)
            return HW_EFORMAT;
        if (!d->other_clock && hw_load_u64(r.p + 8) > until_ns) {
            *size = 0;
            return HW_OK;
        }
        size_t most = hw_load_u32(r.p) == KIND_LINES ? HW_JITDUMP_MAX_PIECE : HEAD_BYTES;
        size_t wanted = n < most ? n : most;
        if (r.n < wanted) {
            *size = wanted;
            return HW_OK;
        }
        r.n = wanted;
        int rc = read_record(d, c, r);
        at += n;
        if (rc < 0) {
            *used = at;
            return rc;
        }
    }
    return HW_OK;
}

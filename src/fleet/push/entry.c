#include "fleet/push/entry.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "codec/gzip.h"
#include "codec/pb.h"
#include "fleet/store/table_schema.h"

#include "base/banned.h"

/* The message in a file; field numbers are never reused. */
enum {
    F_FORM = 1,
    F_N_ROWS = 2,
    F_BODY = 3,
    F_STACKS = 4,
    F_PATH = 5,
    F_TYPE = 6,
    F_N_COLUMNS = 7
};

/* Columns of samples in files without F_N_COLUMNS. */
enum { FIRST_COLUMNS = 16 };

#define MAGIC_BYTES (sizeof HW_ENTRY_MAGIC - 1)

void hw_entry_done(struct hw_entry *e)
{
    hw_strbuf_done(&e->body);
    hw_strbuf_done(&e->stacks);
    hw_strbuf_done(&e->path);
    hw_strbuf_done(&e->type);
}

void hw_entry_seal(struct hw_entry *e)
{
    uint64_t h = hw_hash_mix(e->form, hw_hash_bytes(e->body.p, e->body.n));
    e->id = hw_hash_mix(h, hw_hash_bytes(e->path.p, e->path.n));
}

int hw_entry_pack(const struct hw_entry *e, struct hw_strbuf *out, struct hw_error *err)
{
    struct hw_pb w = {0};
    hw_pb_str(&w, F_FORM, hw_store_scheme(e->form));
    hw_pb_uint(&w, F_N_ROWS, e->n_rows);
    hw_pb_bytes(&w, F_BODY, e->body.p, e->body.n);
    hw_pb_bytes(&w, F_STACKS, e->stacks.p, e->stacks.n);
    hw_pb_bytes(&w, F_PATH, e->path.p, e->path.n);
    hw_pb_bytes(&w, F_TYPE, e->type.p, e->type.n);
    hw_pb_uint(&w, F_N_COLUMNS, e->n_columns);
    hw_strbuf_adds(out, HW_ENTRY_MAGIC);
    int rc = hw_pb_failed(&w) ? hw_fail(err, HW_ENOMEM, 0, "spooled request")
                              : hw_deflate(hw_pb_view(&w), HW_GZIP_GZIP, out, err);
    hw_pb_done(&w);
    return rc;
}

static int take_form(struct hw_entry *e, struct hw_bytes scheme)
{
    for (unsigned f = 0; f < HW_STORE_FORM_COUNT; f++) {
        if (!hw_bytes_equal(scheme, hw_bytes_str(hw_store_scheme((enum hw_store_form)f))))
            continue;
        e->form = (enum hw_store_form)f;
        return HW_OK;
    }
    return HW_EFORMAT;
}

static int read_message(struct hw_bytes message, struct hw_entry *e)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    bool has_form = false;
    int rc = HW_OK, more;
    while (rc == 0 && (more = hw_pb_next(&r, &f)) != 0) {
        if (more < 0)
            return HW_EFORMAT;
        if (f.number == F_FORM) {
            rc = take_form(e, f.bytes);
            has_form = true;
        } else if (f.number == F_N_ROWS) {
            e->n_rows = f.value;
        } else if (f.number == F_N_COLUMNS) {
            e->n_columns = f.value > SIZE_MAX ? SIZE_MAX : (size_t)f.value;
        } else if (f.number >= F_BODY && f.number <= F_TYPE) {
            struct hw_strbuf *const part[] = {&e->body, &e->stacks, &e->path, &e->type};
            hw_strbuf_add(part[f.number - F_BODY], f.bytes.p, f.bytes.n);
            if (part[f.number - F_BODY]->failed)
                rc = HW_ENOMEM;
        }
    }
    if (rc == 0 && !has_form)
        rc = HW_EFORMAT;
    if (e->n_columns == 0)
        e->n_columns = FIRST_COLUMNS;
    if (rc == 0 &&
        (e->n_columns < FIRST_COLUMNS || e->n_columns > hw_fleet_table_columns(HW_FLEET_SAMPLES)))
        rc = HW_EFORMAT; /* or from a newer version with unknown columns */
    /* They become header lines and part of a URL. */
    if (rc == 0 &&
        ((e->path.n && strpbrk(e->path.p, "\r\n ")) || (e->type.n && strpbrk(e->type.p, "\r\n"))))
        rc = HW_EFORMAT;
    return rc;
}

int hw_entry_unpack(struct hw_bytes file, struct hw_entry *e, struct hw_error *err)
{
    struct hw_strbuf message = {0};
    struct hw_entry made = {0};
    if (file.n < MAGIC_BYTES || memcmp(file.p, HW_ENTRY_MAGIC, MAGIC_BYTES) != 0)
        return hw_fail(err, HW_EFORMAT, 0, "no spooled request");
    struct hw_bytes packed = {file.p + MAGIC_BYTES, file.n - MAGIC_BYTES};
    int rc = hw_inflate(packed, HW_ENTRY_MAX_BYTES, &message, err);
    if (rc == 0) {
        rc = read_message(hw_bytes_of(message.p, message.n), &made);
        if (rc < 0)
            (void)hw_fail(err, rc, 0, "damaged spooled request"); /* the code is returned below */
    }
    hw_strbuf_done(&message);
    if (rc < 0) {
        hw_entry_done(&made);
        return rc;
    }
    hw_entry_seal(&made);
    *e = made;
    return HW_OK;
}

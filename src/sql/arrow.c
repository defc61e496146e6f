/*
 * Every table as an Arrow file TABLE.arrow, all in one archive. Such a file is
 *
 *   "ARROW1" 0 0 | schema | record batch | record batch ... | footer | its length | "ARROW1"
 *
 * Schema and batches are messages: ffffffff, the length of what follows, a flatbuffer with the
 * layout of the columns, and for a batch the columns' buffers. Everything is aligned to 8 bytes.
 * Integers are int64, reals float64, texts utf8; every column is nullable. The archive is written
 * under a temporary name and renamed when complete; a member's header is written once its length is
 * known.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "base/text/utf8.h"
#include "codec/flatbuf.h"
#include "codec/tar.h"
#include "sql/engine.h"

#include "base/banned.h"

/* Constants of Arrow's Schema.fbs, Message.fbs and File.fbs. */
enum { METADATA_V5 = 4 };
enum { TYPE_INT = 2, TYPE_FLOAT = 3, TYPE_UTF8 = 5, FLOAT_DOUBLE = 2 };
enum { HEADER_SCHEMA = 1, HEADER_BATCH = 3 };
enum { MESSAGE_VERSION, MESSAGE_HEADER_TYPE, MESSAGE_HEADER, MESSAGE_BODY_LENGTH };
enum { SCHEMA_ENDIANNESS, SCHEMA_FIELDS };
enum { FIELD_NAME, FIELD_NULLABLE, FIELD_TYPE_TYPE, FIELD_TYPE, FIELD_CHILDREN = 5 };
enum { BATCH_LENGTH, BATCH_NODES, BATCH_BUFFERS };
enum { FOOTER_VERSION, FOOTER_SCHEMA, FOOTER_DICTIONARIES, FOOTER_BATCHES };

enum { BATCH_ROWS = 65536, MAX_COLUMNS = 64 };
/* Bytes of one text column in one batch: offsets have 31 bits. */
static const size_t max_text = 256u << 20;

struct block {
    uint64_t at, metadata_bytes, body_bytes;
};

/* A column of a batch. */
struct column {
    struct hw_strbuf valid, offsets, values; /* offsets: of texts only */
    uint64_t n_null;
};

struct arrow {
    const struct hw_sql_derived *x;
    const struct hw_table *t;
    int fd;
    uint64_t written; /* of the member */
    struct hw_flatbuf flat;
    HW_VEC(struct block) blocks;
    struct column columns[MAX_COLUMNS];
    int shown[MAX_COLUMNS]; /* the table's columns that are not hidden */
    int n_shown;
};

static const struct hw_column *shown(const struct arrow *a, int i)
{
    return &a->t->columns[a->shown[i]];
}

static int put(struct arrow *a, const void *p, size_t n)
{
    a->written += n;
    return hw_fd_write_all(a->fd, p, n);
}

static int put_zeros(struct arrow *a, size_t n)
{
    static const uint8_t zeros[HW_TAR_BLOCK];
    return n ? put(a, zeros, n) : HW_OK;
}

static size_t to_8(size_t n)
{
    return -n & 7;
}

/* ---- metadata ---- */

static hw_flat_ref make_field(struct hw_flatbuf *f, const struct hw_column *c)
{
    hw_flat_ref name = hw_flatbuf_text(f, c->name), children = hw_flatbuf_refs(f, NULL, 0);
    uint64_t type = TYPE_UTF8;
    hw_flatbuf_begin(f);
    switch (c->class) {
    case HW_CLASS_INT:
        type = TYPE_INT;
        hw_flatbuf_put(f, 0, 64, 4);
        hw_flatbuf_put(f, 1, true, 1); /* signed */
        break;
    case HW_CLASS_REAL:
        type = TYPE_FLOAT;
        hw_flatbuf_put(f, 0, FLOAT_DOUBLE, 2);
        break;
    case HW_CLASS_TEXT:
        break;
    }
    hw_flat_ref type_table = hw_flatbuf_end(f);
    hw_flatbuf_begin(f);
    hw_flatbuf_put_ref(f, FIELD_NAME, name);
    hw_flatbuf_put_ref(f, FIELD_TYPE, type_table);
    hw_flatbuf_put_ref(f, FIELD_CHILDREN, children);
    hw_flatbuf_put(f, FIELD_NULLABLE, true, 1);
    hw_flatbuf_put(f, FIELD_TYPE_TYPE, type, 1);
    return hw_flatbuf_end(f);
}

static hw_flat_ref make_schema(struct arrow *a)
{
    hw_flat_ref fields[MAX_COLUMNS];
    for (int i = 0; i < a->n_shown; i++)
        fields[i] = make_field(&a->flat, shown(a, i));
    hw_flat_ref all = hw_flatbuf_refs(&a->flat, fields, (size_t)a->n_shown);
    hw_flatbuf_begin(&a->flat);
    hw_flatbuf_put_ref(&a->flat, SCHEMA_FIELDS, all);
    hw_flatbuf_put(&a->flat, SCHEMA_ENDIANNESS, 0, 2); /* little */
    return hw_flatbuf_end(&a->flat);
}

/* Writes the flatbuffer as a message; *bytes is its length with the 8-byte prefix. */
static int put_message(struct arrow *a, uint64_t type, hw_flat_ref header, uint64_t body_bytes,
                       uint64_t *bytes)
{
    struct hw_flatbuf *f = &a->flat;
    hw_flatbuf_begin(f);
    hw_flatbuf_put(f, MESSAGE_BODY_LENGTH, body_bytes, 8);
    hw_flatbuf_put_ref(f, MESSAGE_HEADER, header);
    hw_flatbuf_put(f, MESSAGE_VERSION, METADATA_V5, 2);
    hw_flatbuf_put(f, MESSAGE_HEADER_TYPE, type, 1);
    struct hw_bytes b = hw_flatbuf_finish(f, hw_flatbuf_end(f));
    if (!b.p)
        return HW_ENOMEM;
    uint32_t head[2] = {UINT32_MAX, (uint32_t)b.n};
    *bytes = sizeof head + b.n;
    int rc = put(a, head, sizeof head);
    return rc == HW_OK ? put(a, b.p, b.n) : rc;
}

/* ---- batches ---- */

static int add_text(struct column *c, const struct hw_sql_cell *cell)
{
    char number[32];
    const void *p = cell->p;
    size_t n = cell->n;
    if (cell->type == HW_SQL_INT) {
        n = (size_t)snprintf(number, sizeof number, "%" PRId64, cell->i);
        p = number;
    } else if (cell->type == HW_SQL_REAL) {
        n = (size_t)snprintf(number, sizeof number, "%.17g", cell->d);
        p = number;
    }
    if (n)
        hw_utf8_add_clean(&c->values, p, n);
    return c->values.n > max_text ? HW_ELIMIT : HW_OK;
}

static int add_cell(struct column *c, enum hw_column_class class, const struct hw_sql_cell *cell)
{
    int64_t i = cell->type == HW_SQL_INT ? cell->i : 0;
    double d = cell->type == HW_SQL_REAL ? cell->d : (double)i;
    bool number = cell->type == HW_SQL_INT || cell->type == HW_SQL_REAL;
    bool null = cell->type == HW_SQL_NULL || (class != HW_CLASS_TEXT && !number);
    if (class == HW_CLASS_INT && cell->type == HW_SQL_REAL)
        i = d >= -0x1p63 && d < 0x1p63 ? (int64_t)d : 0;
    c->n_null += null;
    if (class == HW_CLASS_INT)
        hw_strbuf_add(&c->values, &i, sizeof i);
    else if (class == HW_CLASS_REAL)
        hw_strbuf_add(&c->values, &d, sizeof d);
    else if (!null && add_text(c, cell) < 0)
        return HW_ELIMIT;
    if (class == HW_CLASS_TEXT) {
        int32_t end = (int32_t)c->values.n;
        hw_strbuf_add(&c->offsets, &end, sizeof end);
    }
    return HW_OK;
}

static int fill_column(struct arrow *a, int column, size_t first, size_t n)
{
    struct column *c = &a->columns[column];
    int32_t zero = 0;
    uint8_t bits = 0;
    int rc = HW_OK;
    hw_strbuf_clear(&c->valid);
    hw_strbuf_clear(&c->offsets);
    hw_strbuf_clear(&c->values);
    c->n_null = 0;
    if (shown(a, column)->class == HW_CLASS_TEXT)
        hw_strbuf_add(&c->offsets, &zero, sizeof zero);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        struct hw_sql_cell cell = {.type = HW_SQL_NULL};
        uint64_t n_null = c->n_null;
        a->t->cell(a->x, (uint32_t)(first + i), a->shown[column], &cell);
        rc = add_cell(c, shown(a, column)->class, &cell);
        bits |= (uint8_t)((n_null == c->n_null) << (i & 7));
        if ((i & 7) == 7 || i + 1 == n) {
            hw_strbuf_addc(&c->valid, (char)bits);
            bits = 0;
        }
    }
    if (c->valid.failed || c->offsets.failed || c->values.failed)
        return HW_ENOMEM;
    return rc;
}

/* The buffers of a column in order; the second only for texts. */
static size_t buffers_of(const struct column *c, bool text, const struct hw_strbuf *out[3])
{
    size_t n = 0;
    out[n++] = &c->valid;
    if (text)
        out[n++] = &c->offsets;
    out[n++] = &c->values;
    return n;
}

struct span {
    uint64_t at, n;
};

static int put_batch(struct arrow *a, size_t n_rows)
{
    const struct hw_strbuf *b[3];
    struct span spans[3 * MAX_COLUMNS];
    size_t n_spans = 0;
    uint64_t body = 0;
    int n_columns = a->n_shown;
    for (int i = 0; i < n_columns; i++) {
        size_t n = buffers_of(&a->columns[i], shown(a, i)->class == HW_CLASS_TEXT, b);
        for (size_t k = 0; k < n; k++) {
            spans[n_spans++] = (struct span){body, b[k]->n};
            body += b[k]->n + to_8(b[k]->n);
        }
    }
    struct hw_flatbuf *f = &a->flat;
    hw_flatbuf_clear(f);
    hw_flatbuf_begin_structs(f, 16 * n_spans);
    for (size_t i = n_spans; i-- > 0;) {
        hw_flatbuf_int(f, spans[i].n, 8);
        hw_flatbuf_int(f, spans[i].at, 8);
    }
    hw_flat_ref buffers = hw_flatbuf_end_structs(f, (uint32_t)n_spans);
    hw_flatbuf_begin_structs(f, 16 * (size_t)n_columns);
    for (int i = n_columns; i-- > 0;) {
        hw_flatbuf_int(f, a->columns[i].n_null, 8);
        hw_flatbuf_int(f, n_rows, 8);
    }
    hw_flat_ref nodes = hw_flatbuf_end_structs(f, (uint32_t)n_columns);
    hw_flatbuf_begin(f);
    hw_flatbuf_put(f, BATCH_LENGTH, n_rows, 8);
    hw_flatbuf_put_ref(f, BATCH_NODES, nodes);
    hw_flatbuf_put_ref(f, BATCH_BUFFERS, buffers);
    struct block block = {.at = a->written, .body_bytes = body};
    int rc = put_message(a, HEADER_BATCH, hw_flatbuf_end(f), body, &block.metadata_bytes);
    for (int i = 0; rc == HW_OK && i < n_columns; i++) {
        size_t n = buffers_of(&a->columns[i], shown(a, i)->class == HW_CLASS_TEXT, b);
        for (size_t k = 0; rc == HW_OK && k < n; k++) {
            rc = b[k]->n ? put(a, b[k]->p, b[k]->n) : HW_OK;
            if (rc == HW_OK)
                rc = put_zeros(a, to_8(b[k]->n));
        }
    }
    return rc == HW_OK && hw_vec_push(&a->blocks, block) < 0 ? HW_ENOMEM : rc;
}

static int put_batches(struct arrow *a)
{
    size_t n_rows = a->t->count(a->x), most = BATCH_ROWS;
    for (size_t first = 0; first < n_rows;) {
        size_t n = n_rows - first < most ? n_rows - first : most;
        int rc = HW_OK;
        for (int i = 0; rc == HW_OK && i < a->n_shown; i++)
            rc = fill_column(a, i, first, n);
        if (rc == HW_ELIMIT && n > 1) { /* long texts: fewer rows */
            most = n / 2;
            continue;
        }
        if (rc == HW_OK)
            rc = put_batch(a, n);
        if (rc < 0)
            return rc;
        first += n;
    }
    return HW_OK;
}

/* ---- a file ---- */

static int put_footer(struct arrow *a)
{
    struct hw_flatbuf *f = &a->flat;
    hw_flatbuf_clear(f);
    hw_flat_ref schema = make_schema(a);
    hw_flatbuf_begin_structs(f, 24 * a->blocks.n);
    for (size_t i = a->blocks.n; i-- > 0;) {
        hw_flatbuf_int(f, a->blocks.v[i].body_bytes, 8);
        hw_flatbuf_int(f, 0, 4);
        hw_flatbuf_int(f, a->blocks.v[i].metadata_bytes, 4);
        hw_flatbuf_int(f, a->blocks.v[i].at, 8);
    }
    hw_flat_ref blocks = hw_flatbuf_end_structs(f, (uint32_t)a->blocks.n);
    hw_flatbuf_begin_structs(f, 0);
    hw_flat_ref none = hw_flatbuf_end_structs(f, 0);
    hw_flatbuf_begin(f);
    hw_flatbuf_put_ref(f, FOOTER_SCHEMA, schema);
    hw_flatbuf_put_ref(f, FOOTER_DICTIONARIES, none);
    hw_flatbuf_put_ref(f, FOOTER_BATCHES, blocks);
    hw_flatbuf_put(f, FOOTER_VERSION, METADATA_V5, 2);
    struct hw_bytes b = hw_flatbuf_finish(f, hw_flatbuf_end(f));
    static const uint32_t end[2] = {UINT32_MAX, 0}; /* no more messages */
    uint32_t n = (uint32_t)b.n;
    int rc = b.p ? put(a, end, sizeof end) : HW_ENOMEM;
    if (rc == HW_OK)
        rc = put(a, b.p, b.n);
    if (rc == HW_OK)
        rc = put(a, &n, sizeof n);
    return rc == HW_OK ? put(a, "ARROW1", 6) : rc;
}

static int put_file(struct arrow *a)
{
    uint64_t unused;
    a->written = 0;
    a->blocks.n = 0;
    int rc = put(a, "ARROW1\0", 8);
    hw_flatbuf_clear(&a->flat);
    if (rc == HW_OK)
        rc = put_message(a, HEADER_SCHEMA, make_schema(a), 0, &unused);
    if (rc == HW_OK)
        rc = put_batches(a);
    return rc == HW_OK ? put_footer(a) : rc;
}

/* Writes a member: space for its header, the file, then the header. */
static int put_member(struct arrow *a, int64_t now_s)
{
    char name[HW_TAR_MAX_NAME];
    uint8_t header[HW_TAR_BLOCK];
    (void)snprintf(name, sizeof name, "%s.arrow", a->t->name);
    off_t at = lseek(a->fd, 0, SEEK_CUR);
    int rc = at < 0 ? HW_ESYS : put_zeros(a, HW_TAR_BLOCK);
    if (rc == HW_OK)
        rc = put_file(a);
    uint64_t size = a->written;
    if (rc == HW_OK)
        rc = hw_tar_header(name, size, now_s, header);
    if (rc == HW_OK && pwrite(a->fd, header, sizeof header, at) != (ssize_t)sizeof header)
        rc = HW_ESYS;
    return rc == HW_OK ? put_zeros(a, hw_tar_padding(size)) : rc;
}

static int put_archive(const struct hw_sql *s, int fd)
{
    struct arrow *a = calloc(1, sizeof *a);
    int rc = a ? HW_OK : HW_ENOMEM;
    for (size_t i = 0; rc == HW_OK && i < hw_n_tables; i++) {
        if (hw_tables[i].prepare) /* an internal table of modules */
            continue;
        a->x = &s->derived;
        a->t = &hw_tables[i];
        a->fd = fd;
        a->n_shown = 0;
        for (int k = 0; k < a->t->n_columns && k < MAX_COLUMNS; k++)
            if (!a->t->columns[k].hidden)
                a->shown[a->n_shown++] = k;
        rc = a->t->n_columns > MAX_COLUMNS ? HW_ELIMIT : put_member(a, (int64_t)time(NULL));
    }
    if (rc == HW_OK)
        rc = put_zeros(a, HW_TAR_BLOCK);
    if (rc == HW_OK)
        rc = put_zeros(a, HW_TAR_BLOCK);
    for (size_t i = 0; a && i < MAX_COLUMNS; i++) {
        hw_strbuf_done(&a->columns[i].valid);
        hw_strbuf_done(&a->columns[i].offsets);
        hw_strbuf_done(&a->columns[i].values);
    }
    if (a) {
        hw_flatbuf_done(&a->flat);
        hw_vec_done(&a->blocks);
    }
    free(a);
    return rc;
}

int hw_sql_export_arrow(struct hw_sql *s, const char *path, struct hw_error *err)
{
    struct hw_strbuf part = {0};
    int rc = hw_sql_part_begin(&part, path, err);
    if (rc < 0)
        return rc;
    int fd = open(part.p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    rc = fd < 0 ? hw_fail_sys(err, "cannot create '%.200s'", path) : put_archive(s, fd);
    if (fd >= 0 && rc == HW_ESYS)
        (void)hw_fail_sys(err, "cannot write '%.200s'", path);
    if (fd >= 0 && close(fd) < 0 && rc == HW_OK)
        rc = hw_fail_sys(err, "cannot write '%.200s'", path);
    return hw_sql_part_end(&part, path, rc, err);
}

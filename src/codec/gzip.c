#include "codec/gzip.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/progress.h"

#include "base/banned.h"

enum {
    CHUNK = 64 * 1024,
    WINDOW_ANY = 15 + 32, /* zlib's value for either wrapper */
    WINDOW_GZIP = 15 + 16,
    WINDOW_ZLIB = 15
};

static int zlib_failed(int rc, const z_stream *z, struct hw_error *err)
{
    const char *text = z->msg ? z->msg : "damaged";
    if (rc == Z_MEM_ERROR)
        return hw_fail(err, HW_ENOMEM, z->total_in, "compressed data");
    return hw_fail(err, HW_EFORMAT, z->total_in, "compressed data: %s", text);
}

/* Inflates z's input. 1 = the stream ended, 0 = more input is needed. */
static int inflate_some(z_stream *z, size_t max_out, struct hw_strbuf *out, struct hw_error *err)
{
    for (;;) {
        if (hw_strbuf_reserve(out, CHUNK) < 0)
            return hw_fail(err, HW_ENOMEM, z->total_in, "inflated data");
        size_t room = out->cap - out->n - 1;
        if (room > max_out - out->n)
            room = max_out - out->n;
        if (room == 0)
            return hw_fail(err, HW_ELIMIT, z->total_in, "inflates to more than %zu bytes", max_out);
        if (room > 1u << 30)
            room = 1u << 30;
        z->next_out = (Bytef *)out->p + out->n;
        z->avail_out = (uInt)room;
        int rc = inflate(z, Z_NO_FLUSH);
        out->n += room - z->avail_out;
        out->p[out->n] = 0;
        if (rc == Z_STREAM_END)
            return 1;
        if (rc == Z_BUF_ERROR || (rc == Z_OK && z->avail_in == 0 && z->avail_out))
            return 0;
        if (rc != Z_OK)
            return zlib_failed(rc, z, err);
    }
}

/* Another gzip member may follow the one that ended. */
static bool next_member(z_stream *z)
{
    return z->avail_in >= 2 && z->next_in[0] == 0x1f && z->next_in[1] == 0x8b &&
           inflateReset(z) == Z_OK;
}

static int inflate_all_of(z_stream *z, size_t limit, struct hw_strbuf *out, struct hw_error *err)
{
    int rc;
    do
        rc = inflate_some(z, limit, out, err);
    while (rc == 1 && next_member(z));
    return rc;
}

static int limit_of(const struct hw_strbuf *out, size_t max_out, size_t *limit)
{
    return __builtin_add_overflow(out->n, max_out, limit) ? HW_ELIMIT : HW_OK;
}

int hw_inflate(struct hw_bytes in, size_t max_out, struct hw_strbuf *out, struct hw_error *err)
{
    z_stream z = {0};
    size_t limit;
    if (limit_of(out, max_out, &limit) < 0 || in.n > UINT32_MAX)
        return hw_fail(err, HW_ELIMIT, 0, "compressed data of %zu bytes", in.n);
    if (inflateInit2(&z, WINDOW_ANY) != Z_OK)
        return hw_fail(err, HW_ENOMEM, 0, "compressed data");
    z.next_in = (Bytef *)(uintptr_t)in.p; /* zlib does not write through it */
    z.avail_in = (uInt)in.n;
    int rc = inflate_all_of(&z, limit, out, err);
    if (rc == 0)
        rc = hw_fail(err, HW_ETRUNCATED, z.total_in, "compressed data ends early");
    inflateEnd(&z);
    return rc < 0 ? rc : HW_OK;
}

int hw_inflate_fd(int fd, size_t max_out, struct hw_strbuf *out, struct hw_progress *progress,
                  struct hw_error *err)
{
    z_stream z = {0};
    struct stat st;
    uint64_t size = progress && fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    size_t limit;
    hw_autofree uint8_t *in = malloc(CHUNK);
    if (!in || limit_of(out, max_out, &limit) < 0 || inflateInit2(&z, WINDOW_ANY) != Z_OK)
        return hw_fail(err, HW_ENOMEM, 0, "compressed file");
    int rc = 0;
    while (rc == 0) {
        ssize_t n = read(fd, in, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            rc = hw_fail_sys(err, "cannot read compressed file");
        else if (n == 0)
            rc = hw_fail(err, HW_ETRUNCATED, z.total_in, "compressed file ends early");
        if (n <= 0)
            break;
        z.next_in = in;
        z.avail_in = (uInt)n;
        rc = inflate_all_of(&z, limit, out, err);
        hw_progress_at(progress, z.total_in, size);
    }
    inflateEnd(&z);
    return rc < 0 ? rc : HW_OK;
}

int hw_deflate(struct hw_bytes in, enum hw_gzip_wrapper wrapper, struct hw_strbuf *out,
               struct hw_error *err)
{
    z_stream z = {0};
    if (in.n > UINT32_MAX / 2)
        return hw_fail(err, HW_ELIMIT, 0, "%zu bytes to compress at once", in.n);
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                     wrapper == HW_GZIP_GZIP ? WINDOW_GZIP : WINDOW_ZLIB, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return hw_fail(err, HW_ENOMEM, 0, "compression");
    uLong bound = deflateBound(&z, (uLong)in.n);
    int rc = hw_strbuf_reserve(out, bound);
    if (rc == HW_OK) {
        z.next_in = (Bytef *)(uintptr_t)in.p; /* zlib does not write through it */
        z.avail_in = (uInt)in.n;
        z.next_out = (Bytef *)out->p + out->n;
        z.avail_out = (uInt)bound;
        rc = deflate(&z, Z_FINISH) == Z_STREAM_END ? HW_OK : HW_ENOMEM;
    }
    if (rc == HW_OK) {
        out->n += z.total_out;
        out->p[out->n] = 0;
    }
    deflateEnd(&z);
    return rc < 0 ? hw_fail(err, rc, 0, "compression:") : HW_OK;
}

/* ---- streaming ---- */

struct hw_gzip_writer {
    z_stream z;
    int fd; /* the caller's */
    uint8_t out[CHUNK];
};

int hw_gzip_writer_new(int fd, struct hw_gzip_writer **out, struct hw_error *err)
{
    struct hw_gzip_writer *w = calloc(1, sizeof *w);
    if (!w || deflateInit2(&w->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_GZIP, 8,
                           Z_DEFAULT_STRATEGY) != Z_OK) {
        free(w);
        return hw_fail(err, HW_ENOMEM, 0, "compression");
    }
    w->fd = fd;
    *out = w;
    return HW_OK;
}

void hw_gzip_writer_free(struct hw_gzip_writer *w)
{
    if (!w)
        return;
    deflateEnd(&w->z);
    free(w);
}

static int deflate_some(struct hw_gzip_writer *w, int flush, struct hw_error *err)
{
    int rc;
    do {
        w->z.next_out = w->out;
        w->z.avail_out = CHUNK;
        rc = deflate(&w->z, flush);
        if (rc == Z_STREAM_ERROR)
            return hw_fail(err, HW_EINVAL, w->z.total_in, "compression after its end");
        if (hw_fd_write_all(w->fd, w->out, CHUNK - w->z.avail_out) < 0)
            return hw_fail_sys(err, "cannot write compressed file");
    } while (flush == Z_FINISH ? rc != Z_STREAM_END : w->z.avail_in > 0 || w->z.avail_out == 0);
    return HW_OK;
}

int hw_gzip_write(struct hw_gzip_writer *w, struct hw_bytes in, struct hw_error *err)
{
    while (in.n) {
        size_t n = in.n < 1u << 30 ? in.n : 1u << 30;
        w->z.next_in = (Bytef *)(uintptr_t)in.p; /* zlib does not write through it */
        w->z.avail_in = (uInt)n;
        int rc = deflate_some(w, Z_NO_FLUSH, err);
        if (rc < 0)
            return rc;
        in = hw_bytes_of(in.p + n, in.n - n);
    }
    return HW_OK;
}

int hw_gzip_writer_end(struct hw_gzip_writer *w, struct hw_error *err)
{
    w->z.avail_in = 0;
    return deflate_some(w, Z_FINISH, err);
}

#include "codec/source.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/error.h"
#include "codec/unpack.h"

#include "base/banned.h"

enum { CHUNK = 64 * 1024, WINDOW_GZIP = 15 + 16 };

struct state {
    int fd;
    struct hw_bytes rest; /* of memory */
    z_stream z;
    bool unpacks, ended;
    uint64_t n_in, n_out, max_out; /* of all members; max_out rises as more is read */
    uint8_t in[CHUNK];
};

static int64_t read_fd(void *ctx, void *p, size_t n, struct hw_error *err)
{
    struct state *s = ctx;
    for (;;) {
        ssize_t got = read(s->fd, p, n);
        if (got >= 0)
            return got;
        if (errno != EINTR)
            return hw_fail_sys(err, "cannot read");
    }
}

static int64_t read_bytes(void *ctx, void *p, size_t n, struct hw_error *err)
{
    struct state *s = ctx;
    (void)err;
    if (n > s->rest.n)
        n = s->rest.n;
    if (n)
        memcpy(p, s->rest.p, n);
    s->rest = hw_bytes_skip(s->rest, n);
    return (int64_t)n;
}

/* 1 = there is input, 0 = the file ended. */
static int more_input(struct state *s, struct hw_error *err)
{
    if (s->z.avail_in)
        return 1;
    int64_t got = read_fd(s, s->in, sizeof s->in, err);
    if (got <= 0)
        return (int)got;
    s->z.next_in = s->in;
    s->z.avail_in = (uInt)got;
    s->n_in += (uint64_t)got;
    return 1;
}

static int check_size(struct state *s, size_t n, struct hw_error *err)
{
    s->n_out += n;
    if (s->n_out > s->max_out)
        s->max_out = hw_unpack_max_passing(s->n_in);
    return s->n_out > s->max_out ? hw_unpack_refuse(s->max_out, s->n_in, err) : HW_OK;
}

static int64_t read_gzip(void *ctx, void *p, size_t n, struct hw_error *err)
{
    struct state *s = ctx;
    s->z.next_out = p;
    s->z.avail_out = n > 1u << 30 ? 1u << 30 : (uInt)n;
    uInt room = s->z.avail_out;
    while (!s->ended && s->z.avail_out == room) {
        int have = more_input(s, err);
        if (have < 0)
            return have;
        if (have == 0)
            return hw_fail(err, HW_ETRUNCATED, s->z.total_in, "compressed file ends early");
        int rc = inflate(&s->z, Z_NO_FLUSH);
        if (rc == Z_STREAM_END) { /* another member may follow; anything else is padding */
            have = more_input(s, err);
            s->ended = have <= 0 || s->z.next_in[0] != 0x1f || inflateReset(&s->z) != Z_OK;
        } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
            return hw_fail(err, rc == Z_MEM_ERROR ? HW_ENOMEM : HW_EFORMAT, s->z.total_in,
                           "compressed data: %s", s->z.msg ? s->z.msg : "damaged");
        }
    }
    int rc = check_size(s, room - s->z.avail_out, err);
    return rc < 0 ? rc : (int64_t)(room - s->z.avail_out);
}

static void done(void *ctx)
{
    struct state *s = ctx;
    if (s->unpacks)
        (void)inflateEnd(&s->z);
    free(s);
}

static int make(struct hw_source *out, int64_t (*read)(void *, void *, size_t, struct hw_error *))
{
    struct state *s = calloc(1, sizeof *s);
    if (!s)
        return HW_ENOMEM;
    s->fd = -1;
    *out = (struct hw_source){.read = read, .ctx = s, .done = done, .fd = -1};
    return HW_OK;
}

int hw_source_fd(int fd, struct hw_source *out)
{
    int rc = make(out, read_fd);
    if (rc == HW_OK)
        ((struct state *)out->ctx)->fd = out->fd = fd;
    return rc;
}

int hw_source_gzip_fd(int fd, struct hw_source *out)
{
    int rc = make(out, read_gzip);
    if (rc < 0)
        return rc;
    struct state *s = out->ctx;
    s->fd = out->fd = fd;
    s->unpacks = inflateInit2(&s->z, WINDOW_GZIP) == Z_OK;
    if (s->unpacks)
        return HW_OK;
    free(s);
    return HW_ENOMEM;
}

int hw_source_bytes(struct hw_bytes b, struct hw_source *out)
{
    int rc = make(out, read_bytes);
    if (rc == HW_OK)
        ((struct state *)out->ctx)->rest = b;
    return rc;
}

void hw_source_done(struct hw_source *s)
{
    if (s->done)
        s->done(s->ctx);
    *s = (struct hw_source){0};
}

bool hw_source_tell(const struct hw_source *s, uint64_t *at, uint64_t *size)
{
    struct stat st;
    off_t here = s->fd < 0 ? -1 : lseek(s->fd, 0, SEEK_CUR);
    if (here < 0 || fstat(s->fd, &st) < 0 || st.st_size <= 0)
        return false;
    *at = (uint64_t)here;
    *size = (uint64_t)st.st_size;
    return true;
}

/*
 * jit.c - how much is read when
 *
 * A piece is 64 KiB, more only where one record needs it; a call reads at most 64 of them, so that
 * a map of 20 MB does not hold up the other targets (what is missing then comes with the next call,
 * or at the dump). A file that was read to its end is left alone for 2 ms, one that could not be
 * opened for 100 ms. A target may make us read at most 512 MiB: a map that is truncated and
 * rewritten counts again.
 */
#include "daemon/code/jit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "proc/jit/perf_map.h"

#include "base/banned.h"

#define MS          UINT64_C(1000000)
#define PIECE_BYTES (64u * 1024)
#define MAX_PIECES  64u
#define REST_NS     (2 * MS)
#define SHORT_NS    (MS / 2) /* when only names from before some moment were wanted */
#define RETRY_NS    (100 * MS)
#define MAX_READ    (UINT64_C(512) * 1024 * 1024)

void hw_jit_init(struct hw_jit *j)
{
    *j = (struct hw_jit){.map.fd = -1};
}

static void close_file(struct hw_jit_file *f)
{
    hw_modules_close_file(f->fd, f->slow);
    f->fd = -1;
    hw_jitdump_done(&f->dump);
}

void hw_jit_done(struct hw_jit *j)
{
    close_file(&j->map);
    for (uint32_t i = 0; i < j->n_dumps; i++)
        close_file(&j->dumps[i]);
    hw_jit_code_done(&j->code);
    free(j->buffer);
    hw_jit_init(j);
}

size_t hw_jit_bytes(const struct hw_jit *j)
{
    return hw_jit_code_bytes(&j->code) + j->buffer_bytes;
}

bool hw_jit_has_files(const struct hw_jit *j)
{
    return j->map.fd >= 0 || j->n_dumps > 0;
}

static void give_up(struct hw_jit *j, struct hw_jit_file *f, const char *what, const char *why)
{
    f->broken = true;
    if (j->complaint[0] == '\0')
        (void)snprintf(j->complaint, sizeof j->complaint, "%s %s", what, why);
}

/* ---- one file ---- */

struct reading {
    struct hw_jit *j;
    struct hw_blocking_reader *l;
    const struct hw_jit_request *ask;
    uint32_t n_pieces; /* what this call may still read */
};

static bool need_buffer(struct hw_jit *j, size_t n)
{
    if (n <= j->buffer_bytes)
        return true;
    uint8_t *more = realloc(j->buffer, n);
    if (!more)
        return false;
    j->buffer = more;
    j->buffer_bytes = n;
    return true;
}

/* Bytes from the offset on, with the bytes before it that show whether it is still the same
 * file. 1 = there are some, 0 = none now, negative = not readable. */
static int next_piece(struct reading *r, struct hw_jit_file *f, const char *path,
                      const struct hw_map *map, size_t want, struct hw_bytes *out)
{
    struct hw_jit *j = r->j;
    if (r->n_pieces == 0 || !need_buffer(j, want + sizeof f->tail))
        return 0;
    r->n_pieces--;
    struct hw_reading_piece p = {.path = path,
                                 .map = map,
                                 .fd = &f->fd,
                                 .slow = f->slow,
                                 .offset = f->offset - f->n_tail,
                                 .out = j->buffer,
                                 .max = want + f->n_tail};
    int rc = hw_reading_piece(r->l, r->ask->who, &p);
    f->slow = p.slow;
    if (rc < 0)
        return rc;
    f->dev = p.dev;
    f->inode = p.inode;
    bool same = p.n >= f->n_tail && memcmp(j->buffer, f->tail, f->n_tail) == 0;
    if (!same) { /* rewritten */
        hw_jitdump_done(&f->dump);
        f->offset = f->n_tail = 0;
        return p.size > 0 ? next_piece(r, f, path, map, want, out) : 0;
    }
    j->read_bytes += p.n;
    *out = hw_bytes_of(j->buffer + f->n_tail, p.n - f->n_tail);
    return out->n > 0;
}

static void advance(struct hw_jit_file *f, struct hw_bytes piece, uint64_t used)
{
    f->offset += used;
    f->n_tail = 0;
    if (used > piece.n || used < sizeof f->tail)
        return; /* a skipped piece is not looked at again */
    f->n_tail = sizeof f->tail;
    memcpy(f->tail, piece.p + used - sizeof f->tail, sizeof f->tail);
}

static void read_map(struct reading *r, const char *path)
{
    struct hw_jit *j = r->j;
    struct hw_jit_file *f = &j->map;
    struct hw_bytes piece;
    int rc;
    while ((rc = next_piece(r, f, path, NULL, PIECE_BYTES, &piece)) > 0) {
        size_t used;
        uint64_t n_bad = 0;
        rc = hw_perf_map_read(&j->code, piece, /* last = */ false, &used, &n_bad);
        advance(f, piece, used);
        if (rc < 0) {
            give_up(j, f, path, "exceeds the limit; later code has no names");
            return;
        }
        if (used == 0)
            break;
    }
    if (rc == HW_EPERM)
        give_up(j, f, path, "is not read: it belongs neither to the program's user nor to root");
    if (f->fd < 0)
        f->retry_ns = r->ask->now + RETRY_NS;
    if (r->n_pieces)
        f->again_ns = r->ask->now + REST_NS;
}

static void read_dump(struct reading *r, struct hw_jit_file *f, const struct hw_map *map)
{
    struct hw_jit *j = r->j;
    struct hw_bytes piece;
    size_t want = PIECE_BYTES;
    int rc;
    f->pending = false;
    while ((rc = next_piece(r, f, NULL, map, want, &piece)) > 0) {
        uint64_t used;
        size_t size;
        rc = hw_jitdump_read(&f->dump, &j->code, piece, r->ask->until_ns, &used, &size);
        advance(f, piece, used);
        if (rc < 0) {
            give_up(j, f, "its jitdump",
                    rc == HW_EFORMAT ? "is damaged; later code has no names"
                                     : "exceeds the limit; later code has no names");
            return;
        }
        f->pending = used == 0 && size == 0;
        if (used == 0 && size <= want)
            break;
        want = size > PIECE_BYTES ? size : PIECE_BYTES;
    }
    if (f->fd < 0)
        f->broken = true; /* gone, or not ours to read: the next list of mappings has it again */
    if (r->n_pieces)
        f->again_ns = r->ask->now + (r->ask->until_ns == HW_JIT_END ? REST_NS : SHORT_NS);
}

/* ---- all files ---- */

static bool is_dump(const struct hw_map *m)
{
    const char *base = strrchr(m->path, '/');
    if (!base || !(m->flags & HW_MAP_EXEC) || strncmp(base, "/jit-", 5) != 0)
        return false;
    size_t digits = strspn(base + 5, "0123456789");
    return digits > 0 && strcmp(base + 5 + digits, ".dump") == 0;
}

static void find_dumps(struct reading *r)
{
    struct hw_jit *j = r->j;
    const struct hw_maps *maps = r->ask->maps;
    for (size_t i = 0; i < maps->maps.n && j->n_dumps < HW_JIT_MAX_DUMPS; i++) {
        const struct hw_map *m = &maps->maps.v[i];
        bool known = false;
        for (uint32_t k = 0; k < j->n_dumps; k++)
            known |= j->dumps[k].inode == m->inode;
        if (known || !is_dump(m))
            continue;
        struct hw_jit_file *f = &j->dumps[j->n_dumps++];
        *f = (struct hw_jit_file){.fd = -1};
        read_dump(r, f, m);
        f->inode = m->inode;
    }
}

static bool is_due(const struct reading *r, const struct hw_jit_file *f)
{
    return !f->broken && (r->ask->again || r->ask->now >= f->again_ns);
}

bool hw_jit_read(struct hw_jit *j, struct hw_blocking_reader *l, const struct hw_jit_request *ask)
{
    struct reading r = {j, l, ask, MAX_PIECES};
    bool pending = false;
    char path[64];
    if (j->read_bytes > MAX_READ)
        return false;
    (void)snprintf(path, sizeof path, "/tmp/perf-%" PRId32 ".map", ask->inner);
    bool may_open = ask->inner > 0 && ask->now >= j->map.retry_ns;
    if (is_due(&r, &j->map) && (j->map.fd >= 0 || may_open))
        read_map(&r, path);
    for (uint32_t i = 0; i < j->n_dumps; i++)
        if (is_due(&r, &j->dumps[i]) && j->dumps[i].fd >= 0) {
            read_dump(&r, &j->dumps[i], NULL);
            pending |= j->dumps[i].pending;
        }
    uint32_t n_known = j->n_dumps;
    if (ask->inner > 0 && ask->maps_ns != j->maps_ns) {
        j->maps_ns = ask->maps_ns;
        find_dumps(&r);
    }
    for (uint32_t i = n_known; i < j->n_dumps; i++)
        pending |= j->dumps[i].pending;
    if (j->read_bytes > MAX_READ)
        (void)snprintf(j->complaint, sizeof j->complaint,
                       "its files about generated code are too large: later code has no names");
    return pending;
}

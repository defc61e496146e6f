#include "enrich/binaries.h"

#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/map64.h"
#include "base/vec.h"
#include "elf/elf.h"

#include "base/banned.h"

#define DEBUG_ROOT "/usr/lib/debug"

struct indexed {
    const char *path;
    uint64_t id_hash;
    uint32_t next; /* file with the same hash, found later; index + 1, 0 = none */
};

struct hw_binaries {
    enum hw_binaries_mode mode;
    struct hw_arena texts;
    HW_VEC(char *) roots;
    HW_VEC(struct indexed) files;
    struct hw_map64 by_id; /* hash of the build id -> first file */
    bool walked;
};

int hw_binaries_new(const char *roots, enum hw_binaries_mode mode, struct hw_binaries **out)
{
    struct hw_binaries *b = calloc(1, sizeof *b);
    if (!b)
        return HW_ENOMEM;
    b->mode = mode;
    for (const char *p = roots; p && *p;) {
        size_t n = strcspn(p, ":");
        char *root = n ? hw_arena_copy(&b->texts, p, n) : NULL;
        if (n && (!root || hw_vec_push(&b->roots, root) < 0)) {
            hw_binaries_free(b);
            return HW_ENOMEM;
        }
        p += n + (p[n] == ':');
    }
    *out = b;
    return HW_OK;
}

void hw_binaries_free(struct hw_binaries *b)
{
    if (!b)
        return;
    hw_arena_done(&b->texts);
    hw_vec_done(&b->roots);
    hw_vec_done(&b->files);
    hw_map64_done(&b->by_id);
    free(b);
}

void hw_hex_add(struct hw_strbuf *out, struct hw_bytes raw)
{
    for (size_t i = 0; i < raw.n; i++)
        hw_strbuf_addf(out, "%02x", raw.p[i]);
}

/* A pipe or device in the tree must not stop us: looked at before, opened without waiting. */
static int open_regular(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static uint64_t id_key(const uint8_t *id, size_t n)
{
    uint64_t h = hw_hash_bytes(id, n);
    return h == HW_MAP64_NO_KEY ? 0 : h;
}

/* ---- index ---- */

static int index_file(struct hw_binaries *b, const char *path)
{
    uint8_t id[HW_BUILD_ID_MAX];
    uint32_t n = 0;
    uint64_t bias, first = 0;
    hw_autofd int fd = open_regular(path);
    if (fd < 0 || hw_elf_read_identity(fd, id, &n, &bias, NULL) < 0 || n == 0)
        return HW_OK;
    struct indexed f = {hw_arena_copy(&b->texts, path, strlen(path)), id_key(id, n), 0};
    if (!f.path || hw_vec_push(&b->files, f) < 0)
        return HW_ENOMEM;
    if (!hw_map64_get(&b->by_id, f.id_hash, &first))
        return hw_map64_put(&b->by_id, f.id_hash, b->files.n);
    while (b->files.v[first - 1].next) /* behind those found before; there are few */
        first = b->files.v[first - 1].next;
    b->files.v[first - 1].next = (uint32_t)b->files.n;
    return HW_OK;
}

/* Links are followed; a directory that contains itself by one is not entered again. */
static int walk(struct hw_binaries *b)
{
    b->walked = true;
    if (b->roots.n == 0)
        return HW_OK;
    if (hw_vec_push(&b->roots, NULL) < 0)
        return HW_ENOMEM;
    FTS *fts = fts_open(b->roots.v, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    b->roots.n--;
    int rc = HW_OK;
    for (const FTSENT *e; fts && rc == HW_OK && (e = fts_read(fts));)
        if (e->fts_info == FTS_F)
            rc = index_file(b, e->fts_path);
    if (fts)
        (void)fts_close(fts);
    return rc;
}

/* ---- offers ---- */

struct offer {
    struct hw_bytes build_id;
    hw_binaries_fn fn;
    void *ctx;
    struct hw_strbuf *other;
};

static int offer_file(const struct offer *o, const char *path)
{
    uint8_t id[HW_BUILD_ID_MAX];
    uint32_t n = 0;
    uint64_t bias;
    hw_autofd int fd = open_regular(path);
    if (fd < 0 || hw_elf_read_identity(fd, id, &n, &bias, NULL) < 0)
        return 0;
    if (hw_bytes_equal(hw_bytes_of(id, n), o->build_id))
        return o->fn(o->ctx, fd, path);
    if (o->other && o->other->n == 0) {
        hw_strbuf_addf(o->other, "%s (Build ID: ", path);
        hw_hex_add(o->other, hw_bytes_of(id, n));
        hw_strbuf_adds(o->other, n ? ")" : "none)");
    }
    return 0;
}

static int offer_build_id_dir(const struct offer *o, const char *root, struct hw_strbuf *buf)
{
    if (o->build_id.n < 2)
        return 0;
    hw_strbuf_clear(buf);
    hw_strbuf_addf(buf, "%s/.build-id/%02x/", root, o->build_id.p[0]);
    hw_hex_add(buf, hw_bytes_of(o->build_id.p + 1, o->build_id.n - 1));
    hw_strbuf_adds(buf, ".debug");
    return buf->failed ? HW_ENOMEM : offer_file(o, buf->p);
}

static int offer_joined(const struct offer *o, const char *root, const char *dir, size_t n_dir,
                        const char *name, struct hw_strbuf *buf)
{
    hw_strbuf_clear(buf);
    hw_strbuf_adds(buf, root);
    hw_strbuf_addc(buf, '/');
    hw_strbuf_add(buf, dir, n_dir);
    hw_strbuf_adds(buf, name);
    return buf->failed ? HW_ENOMEM : offer_file(o, buf->p);
}

/* The five places in one root. */
static int offer_root(const struct offer *o, const char *root, const char *path,
                      struct hw_strbuf *buf)
{
    while (*path == '/')
        path++;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t n_dir = (size_t)(name - path);
    const char *inner = strrchr(name, '!'); /* base.apk!lib.so */
    inner = inner ? inner + 1 : NULL;
    int rc = offer_joined(o, root, path, n_dir, name, buf);
    if (rc == 0 && inner)
        rc = offer_joined(o, root, path, n_dir, inner, buf);
    if (rc == 0)
        rc = offer_joined(o, root, "", 0, name, buf);
    if (rc == 0 && inner)
        rc = offer_joined(o, root, "", 0, inner, buf);
    if (rc == 0)
        rc = offer_build_id_dir(o, root, buf);
    return rc;
}

static int offer_found(struct hw_binaries *b, const struct offer *o, const char *path)
{
    struct hw_strbuf buf = {0};
    /* A name from a trace: no detours by "..". */
    bool plain = !strstr(path, "/../") && strncmp(path, "../", 3) != 0;
    int rc = 0;
    if (plain && path[0] == '/')
        rc = offer_file(o, path);
    for (size_t i = 0; rc == 0 && plain && i < b->roots.n; i++)
        rc = offer_root(o, b->roots.v[i], path, &buf);
    if (rc == 0)
        rc = offer_build_id_dir(o, DEBUG_ROOT, &buf);
    hw_strbuf_done(&buf);
    return rc;
}

int hw_binaries_offer(struct hw_binaries *b, const char *path, struct hw_bytes build_id,
                      hw_binaries_fn fn, void *ctx, struct hw_strbuf *other)
{
    const struct offer o = {build_id, fn, ctx, other};
    if (b->mode == HW_BINARIES_FIND)
        return offer_found(b, &o, path);
    int rc = b->walked ? HW_OK : walk(b);
    uint64_t at = 0;
    if (rc == HW_OK)
        (void)hw_map64_get(&b->by_id, id_key(build_id.p, build_id.n), &at); /* absent: 0 */
    for (; rc == 0 && at; at = b->files.v[at - 1].next)
        rc = offer_file(&o, b->files.v[at - 1].path);
    return rc;
}

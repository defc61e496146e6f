#include "enrich/binaries.h"

#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <zlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/arena.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "elf/elf.h"
#include "elf/image.h"

#include "base/banned.h"

#define DEBUG_ROOT "/usr/lib/debug"
/* Where debug info and kernels of this machine are looked for besides. */
static const char *const systems[] = {DEBUG_ROOT, "/boot", "/lib/modules", "/usr/src"};

#define MAX_SUMMED (UINT64_C(8) << 30)

struct indexed {
    const char *path;
    uint64_t id_hash;
    uint32_t next; /* file with the same hash, found later; index + 1, 0 = none */
};

struct hw_binaries {
    struct hw_binaries_where where; /* without its lists */
    struct hw_arena texts;
    HW_VEC(char *) roots;
    HW_VEC(char *) real; /* without links, and the system's; for no_paths only */
    HW_VEC(struct indexed) files;
    struct hw_map64 by_id; /* hash of the build id -> first file */
    struct hw_map64 seen;  /* device and inode of what was visited */
    size_t n_seen_files;
    bool walked;
};

static int add_real(struct hw_binaries *b, const char *root)
{
    hw_autofree char *real = b->where.no_paths ? realpath(root, NULL) : NULL;
    if (!real)
        return HW_OK; /* it does not exist, nor does anything below it */
    char *kept = hw_arena_copy(&b->texts, real, strlen(real));
    return !kept || hw_vec_push(&b->real, kept) < 0 ? HW_ENOMEM : HW_OK;
}

static int add_root(struct hw_binaries *b, const char *p, size_t n)
{
    char *root = hw_arena_copy(&b->texts, p, n);
    return !root || hw_vec_push(&b->roots, root) < 0 ? HW_ENOMEM : add_real(b, root);
}

int hw_binaries_new(const struct hw_binaries_where *w, struct hw_binaries **out)
{
    struct hw_binaries *b = calloc(1, sizeof *b);
    if (!b)
        return HW_ENOMEM;
    b->where = *w;
    int rc = HW_OK;
    for (size_t i = 0; i < HW_ARRAY_LEN(systems) && rc == HW_OK; i++)
        rc = add_real(b, systems[i]);
    for (const char *p = w->roots; p && *p && rc == HW_OK;) {
        size_t n = strcspn(p, ":");
        rc = n ? add_root(b, p, n) : HW_OK;
        p += n + (p[n] == ':');
    }
    for (size_t i = 0; i < w->n_more && rc == HW_OK; i++)
        rc = add_root(b, w->more[i], strlen(w->more[i]));
    if (rc < 0) {
        hw_binaries_free(b);
        return rc;
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
    hw_vec_done(&b->real);
    hw_vec_done(&b->files);
    hw_map64_done(&b->by_id);
    hw_map64_done(&b->seen);
    free(b);
}

void hw_hex_add(struct hw_strbuf *out, struct hw_bytes raw)
{
    for (size_t i = 0; i < raw.n; i++)
        hw_strbuf_addf(out, "%02x", raw.p[i]);
}

/* Where the opened file really lies, whatever its name led through: a link, or a directory that
 * somebody replaces by one while we walk. */
static bool is_inside(const struct hw_binaries *b, int fd)
{
    char link[40], path[PATH_MAX];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t got = readlink(link, path, sizeof path);
    for (size_t i = 0; got > 0 && got < (ssize_t)sizeof path && i < b->real.n; i++) {
        size_t n = strlen(b->real.v[i]);
        n -= n == 1; /* the root of all */
        if ((size_t)got > n && memcmp(path, b->real.v[i], n) == 0 && path[n] == '/')
            return true;
    }
    return !b->where.no_paths;
}

/* A pipe or device in the tree must not block us: checked first, opened without waiting. */
static int open_regular(const struct hw_binaries *b, const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || !is_inside(b, fd))) {
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
    hw_autofd int fd = open_regular(b, path);
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

/* true = the first time. Links make trees that lead to the same places many times over. */
static bool see(struct hw_binaries *b, const struct stat *st, int *rc)
{
    uint64_t key = hw_hash_mix(st->st_dev, st->st_ino), *count;
    bool fresh = false;
    *rc = hw_map64_at(&b->seen, key == HW_MAP64_NO_KEY ? 0 : key, &count, &fresh);
    return *rc == HW_OK && fresh;
}

/* /proc leads everywhere, and nothing in these was ever an installed file. */
static bool is_kernels_own(const char *path)
{
    struct statfs fs;
    if (statfs(path, &fs) < 0)
        return false;
    switch ((unsigned long)fs.f_type) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
    case SECURITYFS_MAGIC:
    case BPF_FS_MAGIC:
    case DEVPTS_SUPER_MAGIC:
        return true;
    default:
        return false;
    }
}

static int walk_entry(struct hw_binaries *b, FTS *fts, FTSENT *e)
{
    int rc = HW_OK;
    bool other_device = e->fts_level == 0 || e->fts_dev != e->fts_parent->fts_dev;
    if (e->fts_info == FTS_D &&
        (!see(b, e->fts_statp, &rc) || (other_device && is_kernels_own(e->fts_accpath))))
        (void)fts_set(fts, e, FTS_SKIP); /* fails for wrong arguments only */
    if (e->fts_info != FTS_F || !see(b, e->fts_statp, &rc))
        return rc;
    if ((b->n_seen_files++ & 255) == 0 && b->where.progress)
        b->where.progress(b->where.ctx, b->n_seen_files);
    return index_file(b, e->fts_path);
}

static bool is_stopped(const struct hw_binaries *b)
{
    return b->where.stopped && b->where.stopped(b->where.ctx);
}

static int walk(struct hw_binaries *b)
{
    b->walked = true;
    if (b->roots.n == 0)
        return HW_OK;
    if (hw_vec_push(&b->roots, NULL) < 0)
        return HW_ENOMEM;
    int links = b->where.no_paths ? FTS_PHYSICAL | FTS_COMFOLLOW : FTS_LOGICAL;
    FTS *fts = fts_open(b->roots.v, links | FTS_NOCHDIR, NULL);
    b->roots.n--;
    int rc = HW_OK;
    for (FTSENT *e; fts && rc == HW_OK && !is_stopped(b) && (e = fts_read(fts));)
        rc = walk_entry(b, fts, e);
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
    const struct hw_binaries *b;
};

static void tell_other(const struct offer *o, const char *path, struct hw_bytes id)
{
    if (!o->other || o->other->n)
        return;
    hw_strbuf_addf(o->other, "%s (Build ID: ", path);
    hw_hex_add(o->other, id);
    hw_strbuf_adds(o->other, id.n ? ")" : "none)");
}

/* Of the whole file: one that claims to be larger than debug info ever is, holes included, is
 * refused. */
static int sum_of(int fd, uint32_t *out)
{
    uint8_t block[65536];
    uLong sum = crc32(0, NULL, 0);
    uint64_t at = 0;
    ssize_t n;
    struct stat st;
    if (fstat(fd, &st) < 0 || (uint64_t)st.st_size > MAX_SUMMED)
        return HW_ELIMIT;
    while ((n = pread(fd, block, sizeof block, (off_t)at)) > 0) {
        sum = crc32(sum, block, (uInt)n);
        at += (uint64_t)n;
    }
    *out = (uint32_t)sum;
    return n < 0 ? HW_ESYS : HW_OK;
}

/* The file that a link names: of the same build, by its id or, without one, by its sum. */
static int offer_linked(const struct offer *o, const char *path, uint32_t sum)
{
    uint8_t id[HW_BUILD_ID_MAX];
    uint32_t n = 0, have;
    uint64_t bias;
    hw_autofd int fd = open_regular(o->b, path);
    if (fd < 0 || hw_elf_read_identity(fd, id, &n, &bias, NULL) < 0)
        return 0;
    bool fits = n ? hw_bytes_equal(hw_bytes_of(id, n), o->build_id)
                  : sum_of(fd, &have) == HW_OK && have == sum;
    return fits ? o->fn(o->ctx, fd, path) : 0;
}

/* .gnu_debuglink: a file name, padded to four bytes, and the CRC-32 of that file. */
static int read_link(int fd, char name[256], uint32_t *sum)
{
    struct hw_image img;
    uint8_t *p = NULL;
    size_t n = 0;
    if (hw_image_open(&img, fd, NULL, 0, /* with_sections = */ true, NULL) < 0)
        return HW_ENOTFOUND;
    const struct hw_image_section *s = hw_image_find(&img, ".gnu_debuglink");
    int rc = s ? hw_image_read_section(&img, s, 512, &p, &n, NULL) : HW_ENOTFOUND;
    hw_image_close(&img);
    size_t n_name = rc < 0 ? 0 : strnlen((const char *)p, n);
    size_t at = (n_name + 4) & ~(size_t)3;
    bool plain = n_name && n_name < 256 && n >= 4 && at <= n - 4 && !memchr(p, '/', n_name) &&
                 strncmp((const char *)p, "..", n_name) != 0 && (n_name > 1 || p[0] != '.');
    if (plain) {
        memcpy(name, p, n_name + 1);
        memcpy(sum, p + at, sizeof *sum);
    }
    free(p);
    return plain ? HW_OK : HW_ENOTFOUND;
}

/* Beside the file, in .debug beside it, and below each root and the system's by its directory. */
static int follow_link(const struct offer *o, int fd, const char *path)
{
    char name[256];
    uint32_t sum;
    struct hw_strbuf buf = {0};
    const char *slash = strrchr(path, '/');
    int n_dir = slash ? (int)(slash - path) : 1, rc = 0;
    const char *dir = slash ? path : ".";
    if ((slash && slash - path > 4096) || read_link(fd, name, &sum) < 0)
        return 0;
    for (size_t i = 0; rc == 0 && i < 3 + 2 * o->b->roots.n; i++) {
        hw_strbuf_clear(&buf);
        if (i < 2)
            hw_strbuf_addf(&buf, "%.*s/%s%s", n_dir, dir, i ? ".debug/" : "", name);
        else if (i == 2)
            hw_strbuf_addf(&buf, DEBUG_ROOT "/%.*s/%s", n_dir, dir, name);
        else if (i % 2)
            hw_strbuf_addf(&buf, "%s/%.*s/%s", o->b->roots.v[(i - 3) / 2], n_dir, dir, name);
        else
            hw_strbuf_addf(&buf, "%s/%s", o->b->roots.v[(i - 3) / 2], name);
        rc = buf.failed ? HW_ENOMEM : offer_linked(o, buf.p, sum);
    }
    hw_strbuf_done(&buf);
    return rc;
}

static int offer_file(const struct offer *o, const char *path)
{
    uint8_t id[HW_BUILD_ID_MAX];
    uint32_t n = 0;
    uint64_t bias;
    hw_autofd int fd = open_regular(o->b, path);
    enum hw_binaries_try how = fd < 0 ? HW_TRY_ABSENT : HW_TRY_FITS;
    if (fd >= 0 && hw_elf_read_identity(fd, id, &n, &bias, NULL) < 0)
        how = HW_TRY_NO_ELF;
    else if (fd >= 0 && o->build_id.n && !hw_bytes_equal(hw_bytes_of(id, n), o->build_id))
        how = HW_TRY_OTHER_ID;
    if (o->b->where.tried)
        o->b->where.tried(o->b->where.ctx, path, how, hw_bytes_of(id, n));
    if (how == HW_TRY_OTHER_ID)
        tell_other(o, path, hw_bytes_of(id, n));
    if (how != HW_TRY_FITS)
        return 0;
    int rc = o->fn(o->ctx, fd, path);
    return rc ? rc : follow_link(o, fd, path);
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

/* A name from a trace: no detours by "..". */
static bool is_plain(const char *path)
{
    size_t n = strlen(path);
    return !strstr(path, "/../") && strncmp(path, "../", 3) != 0 && strcmp(path, "..") != 0 &&
           (n < 3 || strcmp(path + n - 3, "/..") != 0);
}

static int offer_found(struct hw_binaries *b, const struct offer *o, const char *path)
{
    struct hw_strbuf buf = {0};
    bool plain = path[0] && is_plain(path);
    int rc = 0;
    if (plain && path[0] == '/' && !b->where.no_paths)
        rc = offer_file(o, path);
    for (size_t i = 0; rc == 0 && i < b->roots.n; i++)
        rc = plain ? offer_root(o, b->roots.v[i], path, &buf)
                   : offer_build_id_dir(o, b->roots.v[i], &buf);
    if (rc == 0)
        rc = offer_build_id_dir(o, DEBUG_ROOT, &buf);
    hw_strbuf_done(&buf);
    return rc;
}

int hw_binaries_offer(struct hw_binaries *b, const char *path, struct hw_bytes build_id,
                      hw_binaries_fn fn, void *ctx, struct hw_strbuf *other)
{
    const struct offer o = {build_id, fn, ctx, other, b};
    if (b->where.mode == HW_BINARIES_FIND)
        return offer_found(b, &o, path);
    int rc = b->walked ? HW_OK : walk(b);
    uint64_t at = 0;
    if (rc == HW_OK && b->where.paths_too && !b->where.no_paths && is_plain(path) && path[0] == '/')
        rc = offer_file(&o, path);
    if (rc == HW_OK)
        (void)hw_map64_get(&b->by_id, id_key(build_id.p, build_id.n), &at); /* absent: 0 */
    for (; rc == 0 && at; at = b->files.v[at - 1].next)
        rc = offer_file(&o, b->files.v[at - 1].path);
    return rc;
}

int hw_binaries_offer_kernel(struct hw_binaries *b, const char *release, struct hw_bytes build_id,
                             hw_binaries_fn fn, void *ctx, struct hw_strbuf *other)
{
    static const struct {
        const char *before, *behind;
    } places[] = {
        {"/boot/vmlinux-", ""},
        {"/usr/lib/debug/boot/vmlinux-", ""},
        {"/lib/modules/", "/build/vmlinux"},
        {"/usr/lib/debug/lib/modules/", "/vmlinux"},
        {"/usr/lib/debug/boot/vmlinux-", ".debug"},
    };
    const struct offer o = {build_id, fn, ctx, other, b};
    struct hw_strbuf buf = {0};
    int rc = 0;
    if (!release[0] || strchr(release, '/') || strcmp(release, "..") == 0)
        return 0; /* a name from a trace: one part of a path, no more */
    for (size_t r = 0; rc == 0 && r <= b->roots.n; r++)
        for (size_t i = 0; rc == 0 && i < HW_ARRAY_LEN(places); i++) {
            hw_strbuf_clear(&buf);
            hw_strbuf_addf(&buf, "%s%s%s%s", r < b->roots.n ? b->roots.v[r] : "", places[i].before,
                           release, places[i].behind);
            rc = buf.failed ? HW_ENOMEM : offer_file(&o, buf.p);
        }
    if (rc == 0 && build_id.n)
        rc = hw_binaries_offer(b, "", build_id, fn, ctx, other); /* a build-id directory */
    hw_strbuf_done(&buf);
    return rc;
}

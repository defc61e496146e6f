#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/progress.h"
#include "base/strbuf.h"
#include "codec/gzip.h"
#include "codec/source.h"
#include "import/bundle.h"
#include "import/collapsed.h"
#include "import/heaptrack.h"
#include "import/hprof.h"
#include "import/import.h"
#include "import/memory_infra.h"
#include "import/perfetto.h"
#include "import/pprof.h"
#include "model/profile.h"

#include "base/banned.h"

enum { HEAD = 4096 };
#define UNPACKING 0.3 /* of the time a packed file takes; measured on traces */
static const size_t max_file = (size_t)4 << 30; /* in memory: gzipped files and pipes */

const struct hw_importer *const hw_importers[] = {&hw_import_perfetto,     &hw_import_pprof,
                                                  &hw_import_bundle,       &hw_import_heaptrack,
                                                  &hw_import_hprof,
#ifdef HW_HAVE_JANSSON
                                                  &hw_import_memory_infra,
#endif
                                                  &hw_import_collapsed,    NULL};

const struct hw_importer *hw_importer_find(struct hw_bytes head)
{
    const struct hw_importer *best = NULL;
    int best_score = 0;
    for (size_t i = 0; hw_importers[i]; i++) {
        int score = hw_importers[i]->probe(head);
        if (score > best_score) {
            best = hw_importers[i];
            best_score = score;
        }
    }
    return best;
}

/* What a profile is often packed in, but not read from. */
static const struct container {
    const char *magic;
    size_t n;
    const char *what, *unpack;
} containers[] = {
    {"PK\3\4", 4, "a zip archive", "unzip"},
    {"PK\5\6", 4, "an empty zip archive", NULL},
    {"\xfd"
     "7zXZ\0",
     6, "packed by xz", "xz -d"},
    {"BZh", 3, "packed by bzip2", "bzip2 -d"},
    {"7z\xbc\xaf\x27\x1c", 6, "a 7z archive", "7z x"},
    {"\x04\x22\x4d\x18", 4, "packed by lz4", "lz4 -d"},
    {"LZIP", 4, "packed by lzip", "lzip -d"},
    {"\x1f\x9d", 2, "packed by compress", "gzip -d"},
    {"Rar!\x1a\x07", 6, "a rar archive", "unrar x"},
};

static int unknown_format(struct hw_bytes head, struct hw_error *err)
{
    if (head.n == 0)
        return hw_fail(err, HW_EFORMAT, 0, "the file is empty");
    for (size_t i = 0; i < HW_ARRAY_LEN(containers); i++) {
        const struct container *c = &containers[i];
        if (head.n < c->n || memcmp(head.p, c->magic, c->n) != 0)
            continue;
        return c->unpack ? hw_fail(err, HW_EFORMAT, 0, "this is %s; unpack it first (%s)", c->what,
                                   c->unpack)
                         : hw_fail(err, HW_EFORMAT, 0, "this is %s", c->what);
    }
    return hw_fail(err, HW_EFORMAT, 0, "no known format starts with the bytes %02x %02x", head.p[0],
                   head.n > 1 ? head.p[1] : 0);
}

static int import_bytes(struct hw_bytes file, struct hw_profile *into, struct hw_error *err)
{
    struct hw_bytes head = hw_bytes_of(file.p, file.n < HEAD ? file.n : HEAD);
    const struct hw_importer *importer = hw_importer_find(head);
    return importer ? importer->read(file, into, err) : unknown_format(head, err);
}

/* What was unpacked before an error is read. */
static int import_unpacked(int rc, const struct hw_strbuf *content, struct hw_profile *into,
                           struct hw_error *err)
{
    if ((rc == HW_EFORMAT || rc == HW_ETRUNCATED) && content->n)
        rc = hw_profile_stat_add(into, "trace_truncated", -1, HW_STAT_DATA_LOSS, 1);
    return rc < 0 ? rc : import_bytes(hw_bytes_of(content->p, content->n), into, err);
}

static bool is_zstd(struct hw_bytes head)
{
    return head.n >= 4 && hw_load_u32(head.p) == 0xfd2fb528u;
}

/* A file in memory, packed or not. */
static int import_memory(struct hw_bytes file, struct hw_profile *into, struct hw_error *err)
{
    struct hw_strbuf content = {0};
    int rc;
    if (hw_gzip_is(file))
        rc = import_unpacked(hw_inflate(file, max_file, &content, err), &content, into, err);
    else if (is_zstd(file))
        rc = import_unpacked(hw_zstd_inflate(file, max_file, &content, err), &content, into, err);
    else
        rc = import_bytes(file, into, err);
    hw_strbuf_done(&content);
    return rc;
}

static int import_whole(int fd, struct hw_profile *into, struct hw_error *err)
{
    char *raw = NULL;
    size_t n = 0;
    int rc = hw_fd_read_file(fd, max_file, &raw, &n, err);
    if (rc == HW_OK)
        rc = import_memory(hw_bytes_of(raw, n), into, err);
    free(raw);
    return rc;
}

/* The format inside; NULL = none is known. */
static const struct hw_importer *find_in_gzip(int fd)
{
    struct hw_source source;
    uint8_t head[HEAD];
    if (hw_source_gzip_fd(fd, &source) < 0)
        return NULL;
    int64_t n = source.read(source.ctx, head, sizeof head, NULL);
    hw_source_done(&source);
    return n > 0 ? hw_importer_find(hw_bytes_of(head, (size_t)n)) : NULL;
}

/* Piece by piece: what is packed is never in memory as a whole. */
static int import_gzip(int fd, struct hw_profile *into, struct hw_error *err)
{
    struct hw_strbuf content = {0};
    struct hw_source source;
    const struct hw_importer *importer = find_in_gzip(fd);
    if (importer && importer->read_from && lseek(fd, 0, SEEK_SET) == 0 &&
        hw_source_gzip_fd(fd, &source) == HW_OK) {
        int done = importer->read_from(&source, into, err);
        hw_source_done(&source);
        return done;
    }
    if (lseek(fd, 0, SEEK_SET) != 0)
        return hw_fail_sys(err, "cannot read");
    hw_progress_part(into->progress, 0, UNPACKING);
    int rc = hw_inflate_fd(fd, max_file, &content, into->progress, err);
    hw_progress_part(into->progress, UNPACKING, 1);
    rc = import_unpacked(rc, &content, into, err);
    hw_strbuf_done(&content);
    return rc;
}

bool hw_import_knows(int fd)
{
    uint8_t bytes[HEAD];
    ssize_t n = pread(fd, bytes, sizeof bytes, 0);
    if (n <= 0)
        return false;
    struct hw_bytes head = hw_bytes_of(bytes, (size_t)n);
    if (hw_gzip_is(head))
        return find_in_gzip(fd) != NULL;
    return is_zstd(head) || hw_importer_find(head) != NULL;
}

static int import_fd(int fd, struct hw_profile *into, struct hw_error *err)
{
    uint8_t bytes[HEAD];
    ssize_t n = pread(fd, bytes, sizeof bytes, 0);
    if (n < 0 && errno == ESPIPE)
        return import_whole(fd, into, err);
    if (n < 0)
        return hw_fail_sys(err, "cannot read");
    struct hw_bytes head = hw_bytes_of(bytes, (size_t)n);
    if (hw_gzip_is(head))
        return import_gzip(fd, into, err);
    if (is_zstd(head))
        return import_whole(fd, into, err);
    const struct hw_importer *importer = hw_importer_find(head);
    if (!importer)
        return unknown_format(head, err);
    return importer->read_fd ? importer->read_fd(fd, into, err) : import_whole(fd, into, err);
}

int hw_import_fd(int fd, const char *name, struct hw_profile **out, struct hw_error *err)
{
    return hw_import_fd_with(fd, name, NULL, out, err);
}

int hw_import_fd_with(int fd, const char *name, struct hw_progress *progress,
                      struct hw_profile **out, struct hw_error *err)
{
    struct hw_profile *p;
    int rc = hw_profile_new(&p);
    if (rc < 0)
        return hw_fail(err, rc, 0, "profile");
    p->progress = progress;
    rc = import_fd(fd, p, err);
    if (rc < 0) {
        if (err && (rc == HW_EFORMAT || rc == HW_ETRUNCATED) && err->offset)
            hw_error_prefix(err, "byte %llu", (unsigned long long)err->offset);
        hw_error_prefix(err, "'%s'", name);
    } else if ((rc = hw_profile_freeze(p)) < 0)
        (void)hw_fail(err, rc, 0, "profile of '%s'", name);
    if (rc < 0) {
        hw_profile_free(p);
        return rc;
    }
    p->progress = NULL;
    *out = p;
    return HW_OK;
}

int hw_import_file(const char *path, struct hw_profile **out, struct hw_error *err)
{
    struct stat st;
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return hw_fail_sys(err, "cannot open '%s'", path);
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        return hw_fail(err, HW_EINVAL, 0, "'%s' is a directory", path);
    return hw_import_fd(fd, path, out, err);
}

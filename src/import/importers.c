#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/progress.h"
#include "base/text/strbuf.h"
#include "codec/gzip.h"
#include "codec/source.h"
#include "codec/unpack.h"
#include "import/bundle.h"
#include "import/collapsed.h"
#include "import/heaptrack_reader.h"
#include "import/hprof/hprof_reader.h"
#include "import/import.h"
#include "import/memory_infra/memory_infra_reader.h"
#include "import/perfetto/perfetto_reader.h"
#include "import/pprof_reader.h"
#include "import/ruby_dump.h"
#include "import/v8/v8.h"
#include "model/profile.h"

#include "base/banned.h"

enum { HEAD = 4096, RAW_HEAD = 64 << 10 }; /* RAW_HEAD bytes unpack to at least HEAD */
#define UNPACKING 0.3                      /* share of a packed file's time; measured on traces */
static const size_t max_file = (size_t)4 << 30; /* in memory: pipes and packed files */

const struct hw_importer *const hw_importers[] = {&hw_import_perfetto,
                                                  &hw_import_pprof,
                                                  &hw_import_bundle,
                                                  &hw_import_heaptrack,
                                                  &hw_import_hprof,
                                                  &hw_import_memory_infra,
                                                  &hw_import_v8_snapshot,
                                                  &hw_import_v8_profile,
                                                  &hw_import_ruby,
                                                  &hw_import_collapsed,
                                                  NULL};

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

/* Containers that profiles often come in, but which are not unpacked here. */
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
    {"\x1f\x8b", 2, "packed twice, by gzip", "gzip -d"},
    {"\x28\xb5\x2f\xfd", 4, "packed twice, by zstd", "zstd -d"},
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
    return hw_fail(err, HW_EFORMAT, 0,
                   "no known format starts with the bytes %02x %02x; heapwise help convert lists "
                   "the formats that can be read",
                   head.p[0], head.n > 1 ? head.p[1] : 0);
}

static int import_bytes(struct hw_bytes file, struct hw_profile *into, struct hw_error *err)
{
    struct hw_bytes head = hw_bytes_of(file.p, file.n < HEAD ? file.n : HEAD);
    const struct hw_importer *importer = hw_importer_find(head);
    return importer ? importer->read(file, into, err) : unknown_format(head, err);
}

/* After an error, reads what was unpacked before it. */
static int import_unpacked(int rc, const struct hw_strbuf *content, struct hw_profile *into,
                           struct hw_error *err)
{
    if ((rc == HW_EFORMAT || rc == HW_ETRUNCATED) && content->n)
        rc = hw_profile_stat_add(into, "trace_truncated", -1, HW_STAT_DATA_LOSS, 1);
    return rc < 0 ? rc : import_bytes(hw_bytes_of(content->p, content->n), into, err);
}

static void unpack_head(struct hw_bytes raw, struct hw_strbuf *out)
{
    hw_unpack_head(hw_bytes_of(raw.p, raw.n < RAW_HEAD ? raw.n : RAW_HEAD), HEAD, out);
}

/* Rejects an unknown format before the rest is unpacked: a small file may unpack to gigabytes. A
 * damaged head passes here; unpacking the file will tell what is wrong. */
static int check_unpacked_head(struct hw_bytes raw, const struct hw_importer **out,
                               struct hw_error *err)
{
    struct hw_strbuf head = {0};
    unpack_head(raw, &head);
    struct hw_bytes bytes = hw_bytes_of(head.p, head.n);
    *out = hw_importer_find(bytes);
    int rc = *out || head.n == 0 ? HW_OK : unknown_format(bytes, err);
    hw_strbuf_done(&head);
    return rc;
}

/* A file in memory, packed or not. */
static int import_memory(struct hw_bytes file, struct hw_profile *into, struct hw_error *err)
{
    struct hw_strbuf content = {0};
    const struct hw_importer *importer;
    if (!hw_is_packed(file))
        return import_bytes(file, into, err);
    int rc = check_unpacked_head(file, &importer, err);
    if (rc == HW_OK)
        rc = import_unpacked(hw_unpack(file, &content, err), &content, into, err);
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

/* Reads until out holds n bytes or the pipe ends; 1 = it ended. */
static int read_up_to(int fd, size_t n, struct hw_strbuf *out, struct hw_error *err)
{
    while (out->n < n) {
        if (hw_strbuf_reserve(out, RAW_HEAD) < 0)
            return hw_fail(err, HW_ENOMEM, out->n, "read buffer");
        size_t room = out->cap - out->n - 1;
        ssize_t got = read(fd, out->p + out->n, room < n - out->n ? room : n - out->n);
        if (got < 0 && errno != EINTR)
            return hw_fail_sys(err, "read");
        if (got == 0)
            return 1;
        out->n += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

/* Checks the format by the head first: the rest may never end. */
static int import_pipe(int fd, struct hw_profile *into, struct hw_error *err)
{
    struct hw_strbuf raw = {0};
    const struct hw_importer *importer;
    int end = read_up_to(fd, RAW_HEAD, &raw, err), rc = end < 0 ? end : HW_OK;
    struct hw_bytes head = hw_bytes_of(raw.p, raw.n < HEAD ? raw.n : HEAD);
    if (rc == HW_OK && hw_is_packed(head))
        rc = check_unpacked_head(hw_bytes_of(raw.p, raw.n), &importer, err);
    else if (rc == HW_OK && !hw_importer_find(head))
        rc = unknown_format(head, err);
    if (rc == HW_OK && end == 0)
        rc = end = read_up_to(fd, max_file, &raw, err);
    if (rc == HW_OK && end == 0)
        rc = hw_fail(err, HW_ELIMIT, raw.n, "file is larger than %zu bytes", max_file);
    if (rc >= 0)
        rc = import_memory(hw_bytes_of(raw.p, raw.n), into, err);
    hw_strbuf_done(&raw);
    return rc;
}

static ssize_t read_head(int fd, uint8_t bytes[static RAW_HEAD])
{
    size_t n = 0;
    while (n < RAW_HEAD) {
        ssize_t got = pread(fd, bytes + n, RAW_HEAD - n, (off_t)n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return got;
        if (got == 0)
            break;
        n += (size_t)got;
    }
    return (ssize_t)n;
}

/* Streams where the importer can, so the unpacked content is never in memory as a whole. */
static int import_gzip(int fd, const struct hw_importer *importer, struct hw_profile *into,
                       struct hw_error *err)
{
    struct hw_strbuf content = {0};
    struct hw_source source;
    if (lseek(fd, 0, SEEK_SET) != 0)
        return hw_fail_sys(err, "cannot read");
    if (importer && importer->read_from && hw_source_gzip_fd(fd, &source) == HW_OK) {
        int done = importer->read_from(&source, into, err);
        hw_source_done(&source);
        return done;
    }
    hw_progress_part(into->progress, 0, UNPACKING);
    int rc = hw_unpack_gzip_fd(fd, &content, into->progress, err);
    hw_progress_part(into->progress, UNPACKING, 1);
    rc = import_unpacked(rc, &content, into, err);
    hw_strbuf_done(&content);
    return rc;
}

bool hw_import_knows(int fd)
{
    uint8_t bytes[RAW_HEAD];
    const struct hw_importer *importer;
    ssize_t n = read_head(fd, bytes);
    if (n <= 0)
        return false;
    struct hw_bytes raw = hw_bytes_of(bytes, (size_t)n);
    if (hw_is_packed(raw))
        return check_unpacked_head(raw, &importer, NULL) == HW_OK && importer;
    return hw_importer_find(hw_bytes_of(bytes, raw.n < HEAD ? raw.n : HEAD)) != NULL;
}

static int import_fd(int fd, struct hw_profile *into, struct hw_error *err)
{
    uint8_t bytes[RAW_HEAD];
    const struct hw_importer *importer;
    ssize_t n = read_head(fd, bytes);
    if (n < 0 && errno == ESPIPE)
        return import_pipe(fd, into, err);
    if (n < 0)
        return hw_fail_sys(err, "cannot read");
    struct hw_bytes raw = hw_bytes_of(bytes, (size_t)n);
    if (hw_is_packed(raw)) {
        int rc = check_unpacked_head(raw, &importer, err);
        if (rc < 0)
            return rc;
        return hw_gzip_is(raw) ? import_gzip(fd, importer, into, err) : import_whole(fd, into, err);
    }
    struct hw_bytes head = hw_bytes_of(bytes, raw.n < HEAD ? raw.n : HEAD);
    importer = hw_importer_find(head);
    if (!importer)
        return unknown_format(head, err);
    return importer->read_fd ? importer->read_fd(fd, into, err) : import_whole(fd, into, err);
}

int hw_import_refuse_directory(int fd, const char *name, struct hw_error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
        return HW_OK;
    return hw_fail(err, HW_EISDIR, 0,
                   "'%s' is a directory; name a trace in it, or ask all of them: "
                   "heapwise query --all %s SQL",
                   name, name);
}

int hw_import_fd(int fd, const char *name, struct hw_profile **out, struct hw_error *err)
{
    return hw_import_fd_with(fd, name, NULL, out, err);
}

int hw_import_fd_with(int fd, const char *name, struct hw_progress *progress,
                      struct hw_profile **out, struct hw_error *err)
{
    struct hw_profile *p;
    int rc = hw_import_refuse_directory(fd, name, err);
    if (rc < 0)
        return rc;
    rc = hw_profile_new(&p);
    if (rc < 0)
        return hw_fail(err, rc, 0, "profile:");
    p->progress = progress;
    rc = import_fd(fd, p, err);
    if (rc < 0) {
        if (err && (rc == HW_EFORMAT || rc == HW_ETRUNCATED) && err->offset)
            hw_error_prefix(err, "byte %llu", (unsigned long long)err->offset);
        hw_error_prefix(err, "'%s'", name);
    } else if ((rc = hw_profile_freeze(p)) < 0)
        (void)hw_fail(err, rc, 0, "profile of '%s':", name);
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
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return hw_fail_sys(err, "cannot open '%s'", path);
    return hw_import_fd(fd, path, out, err);
}

#include "fleet/push/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"

#include "base/banned.h"

#define NAME_MAX_BYTES 64u
#define SUFFIX         ".push"
#define HALF           "half" /* the file being written; never an entry */
#define DROPPED        "dropped"

static void name_of(const struct hw_spooled *e, char out[NAME_MAX_BYTES])
{
    (void)snprintf(out, NAME_MAX_BYTES, "%012" PRIu64 "-%016" PRIx64 SUFFIX, e->number, e->id);
}

/* Accepts only names made by name_of: other files are not ours. */
static bool parse_name(const char *name, struct hw_spooled *out)
{
    char again[NAME_MAX_BYTES];
    int end = 0;
    if (sscanf(name, "%" SCNu64 "-%" SCNx64 SUFFIX "%n", &out->number, &out->id, &end) != 2)
        return false;
    name_of(out, again);
    return strcmp(again, name) == 0;
}

static int by_number(const void *a, const void *b)
{
    const struct hw_spooled *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static int take_file(struct hw_spool *s, const char *name)
{
    struct hw_spooled e = {0};
    struct stat st;
    if (!parse_name(name, &e) || fstatat(s->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(st.st_mode))
        return HW_OK;
    e.bytes = (uint64_t)st.st_size;
    s->bytes += e.bytes;
    return hw_vec_push(&s->waiting, e) < 0 ? HW_ENOMEM : HW_OK;
}

static int list(struct hw_spool *s)
{
    int fd = openat(s->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        if (fd >= 0)
            (void)close(fd); /* only read */
        return HW_ESYS;
    }
    int rc = HW_OK;
    for (struct dirent *e; rc == 0 && (e = readdir(d));)
        rc = take_file(s, e->d_name);
    (void)closedir(d); /* only read */
    if (s->waiting.n)
        qsort(s->waiting.v, s->waiting.n, sizeof *s->waiting.v, by_number);
    s->next = s->waiting.n ? s->waiting.v[s->waiting.n - 1].number + 1 : 1;
    return rc;
}

/* Writes a file atomically: to a temporary name, fsync, rename. */
static int put_file(struct hw_spool *s, const char *name, const void *p, size_t n)
{
    hw_autofd int fd =
        openat(s->dirfd, HALF, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return HW_ESYS;
    int rc = hw_fd_write_all(fd, p, n);
    if (rc == 0 && fsync(fd) < 0)
        rc = HW_ESYS;
    if (rc == 0 && renameat(s->dirfd, HALF, s->dirfd, name) < 0)
        rc = HW_ESYS;
    int keep = errno;
    if (rc < 0)
        (void)unlinkat(s->dirfd, HALF, 0); /* it may not exist */
    else
        (void)fsync(s->dirfd); /* if it fails, a power loss may lose the name, nothing else */
    errno = keep;
    return rc;
}

static void put_dropped(struct hw_spool *s)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%" PRIu64 "\n", s->dropped);
    (void)put_file(s, DROPPED, text,
                   (size_t)n); /* on a full disk the count is this process's own */
}

static void read_dropped(struct hw_spool *s)
{
    char *text;
    size_t n;
    if (hw_file_read(s->dirfd, DROPPED, 64, &text, &n, NULL) < 0)
        return; /* none yet */
    s->dropped = strtoull(text, NULL, 10);
    free(text);
}

static int open_dir(struct hw_spool *s, const char *path, struct hw_error *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return hw_fail_sys(err, "cannot make spool '%s'", path);
    s->dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dirfd < 0)
        return hw_fail_sys(err, "cannot open spool '%s'", path);
    int rc = hw_fd_check_owner(s->dirfd, path, err); /* whoever can add entries can send as us */
    if (rc < 0)
        return rc;
    s->lockfd = openat(s->dirfd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lockfd < 0)
        return hw_fail_sys(err, "cannot write into spool '%s'", path);
    if (flock(s->lockfd, LOCK_EX | LOCK_NB) < 0)
        return hw_fail(err, HW_EBUSY, 0, "another push uses spool '%s'", path);
    return HW_OK;
}

int hw_spool_open(struct hw_spool *s, const char *path, uint64_t max_bytes, struct hw_error *err)
{
    *s = HW_SPOOL_NONE;
    s->max_bytes = max_bytes;
    int rc = open_dir(s, path, err);
    if (rc == 0 && !(s->path = strdup(path)))
        rc = hw_fail(err, HW_ENOMEM, 0, "spool");
    if (rc == 0) {
        (void)unlinkat(s->dirfd, HALF, 0); /* of a killed process; usually absent */
        read_dropped(s);
        rc = list(s);
        if (rc == HW_ESYS)
            (void)hw_fail_sys(err, "cannot read spool '%s'", path);
        else if (rc < 0)
            (void)hw_fail(err, rc, 0, "spool");
    }
    if (rc < 0)
        hw_spool_close(s);
    return rc;
}

void hw_spool_close(struct hw_spool *s)
{
    if (s->dirfd >= 0)
        (void)close(s->dirfd); /* only read */
    if (s->lockfd >= 0)
        (void)close(s->lockfd); /* releases the lock */
    free(s->path);
    hw_vec_done(&s->waiting);
    *s = HW_SPOOL_NONE;
}

void hw_spool_pop(struct hw_spool *s)
{
    char name[NAME_MAX_BYTES];
    if (hw_spool_count(s) == 0)
        return;
    struct hw_spooled *e = &s->waiting.v[s->first++];
    name_of(e, name);
    (void)unlinkat(s->dirfd, name, 0); /* if it stays, it is sent again, which adds nothing */
    s->bytes -= e->bytes;
    if (s->first == s->waiting.n)
        s->first = s->waiting.n = 0;
}

static void drop_oldest(struct hw_spool *s)
{
    hw_spool_pop(s);
    s->dropped++;
}

int hw_spool_add(struct hw_spool *s, const struct hw_entry *e, struct hw_error *err)
{
    struct hw_strbuf file = {0};
    struct hw_spooled made = {.number = s->next, .id = e->id};
    char name[NAME_MAX_BYTES];
    uint64_t before = s->dropped;
    int rc = hw_entry_pack(e, &file, err);
    if (rc < 0) {
        hw_strbuf_done(&file);
        return rc;
    }
    made.bytes = file.n;
    name_of(&made, name);
    bool fits = made.bytes <= s->max_bytes;
    while (fits && hw_spool_count(s) && s->bytes + made.bytes > s->max_bytes)
        drop_oldest(s);
    rc = fits ? put_file(s, name, file.p, file.n) : HW_ELIMIT;
    while (rc == HW_ESYS && (errno == ENOSPC || errno == EDQUOT) && hw_spool_count(s)) {
        drop_oldest(s);
        rc = put_file(s, name, file.p, file.n);
    }
    hw_strbuf_done(&file);
    if (rc == 0 && hw_vec_push(&s->waiting, made) < 0)
        rc = HW_ENOMEM; /* found when the spool is opened again */
    if (rc == 0) {
        s->bytes += made.bytes;
        s->next++;
    } else if (rc == HW_ESYS) {
        rc = hw_fail_sys(err, "cannot write into spool '%s'", s->path);
        s->dropped += errno == ENOSPC || errno == EDQUOT;
    } else if (rc == HW_ELIMIT) {
        s->dropped++;
        rc = hw_fail(err, rc, 0, "a request of %" PRIu64 " bytes is larger than spool '%s'",
                     made.bytes, s->path);
    }
    if (s->dropped != before)
        put_dropped(s);
    return rc;
}

int hw_spool_peek(struct hw_spool *s, struct hw_entry *out, struct hw_error *err)
{
    while (hw_spool_count(s)) {
        char name[NAME_MAX_BYTES], *text;
        size_t n;
        name_of(&s->waiting.v[s->first], name);
        int rc = hw_file_read(s->dirfd, name, HW_ENTRY_MAX_BYTES, &text, &n, err);
        if (rc == 0) {
            rc = hw_entry_unpack(hw_bytes_of(text, n), out, err);
            free(text);
        }
        if (rc == 0)
            return 1;
        if (rc == HW_ENOMEM)
            return rc;
        drop_oldest(s);
        put_dropped(s);
    }
    return 0;
}

uint64_t hw_spool_take_dropped(struct hw_spool *s)
{
    uint64_t n = s->dropped;
    s->dropped = 0;
    if (n)
        put_dropped(s);
    return n;
}

int hw_spool_keep(struct hw_spool *s, const char *name, struct hw_bytes content)
{
    return put_file(s, name, content.p, content.n);
}

int hw_spool_kept(struct hw_spool *s, const char *name, size_t max, char **out, size_t *n)
{
    return hw_file_read(s->dirfd, name, max, out, n, NULL);
}

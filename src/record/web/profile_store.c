#include "record/web/profile_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"

#include "base/banned.h"

#define SECOND INT64_C(1000000000)
enum { MAX_NAME = 64, MAX_PATH = 320, DAY_LENGTH = 10 };

/* ---- names ---- */

/* Characters allowed in a file name; others become '_'. */
static void add_word(struct hw_strbuf *b, const char *word)
{
    size_t n = strlen(word);
    const char *from = n > MAX_NAME ? word + n - MAX_NAME : word;
    for (const char *c = from; *c; c++) {
        bool good = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                    (*c >= '0' && *c <= '9') || *c == '.' || *c == '_';
        hw_strbuf_addc(b, good ? *c : '_');
    }
}

static void add_path(struct hw_strbuf *b, const struct hw_profile_name *name, unsigned again)
{
    struct tm tm;
    time_t t = (time_t)(name->time_ns / SECOND);
    const char *slash = strrchr(name->process, '/');
    if (!gmtime_r(&t, &tm))
        tm = (struct tm){.tm_year = 70, .tm_mday = 1};
    hw_strbuf_addf(b, "%04d-%02d-%02d/%02d%02d%02d.%03d-", tm.tm_year + 1900, tm.tm_mon + 1,
                   tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                   (int)(name->time_ns % SECOND / 1000000));
    add_word(b, slash ? slash + 1 : name->process);
    hw_strbuf_addf(b, "-%d-", name->pid);
    add_word(b, name->heap);
    if (again)
        hw_strbuf_addf(b, "-%u", again + 1); /* the clock was set back */
    hw_strbuf_adds(b, ".pb.gz");
}

/* -1: not ours. */
static int64_t time_of(const char *day, const char *file)
{
    struct tm tm = {0};
    char text[32];
    (void)snprintf(text, sizeof text, "%.10s %.6s", day, file);
    if (strlen(day) != DAY_LENGTH || strlen(file) < 14 || file[10] != '-' ||
        strcmp(file + strlen(file) - 6, ".pb.gz") != 0)
        return -1;
    const char *end = strptime(text, "%Y-%m-%d %H%M%S", &tm);
    return end && *end == '\0' ? (int64_t)timegm(&tm) : -1;
}

/* ---- listing the directory ---- */

static int by_time(const void *a, const void *b)
{
    const struct hw_stored_profile *x = a, *y = b;
    if (x->time_s != y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    return strcmp(x->path, y->path);
}

static int list_file(struct hw_profile_store *s, int day_fd, const char *day, const char *name)
{
    struct stat st;
    struct hw_stored_profile f = {.time_s = time_of(day, name)};
    char path[MAX_PATH];
    if (strstr(name, ".part")) {
        (void)unlinkat(day_fd, name, 0); /* left by a writer that was killed */
        return HW_OK;
    }
    if (f.time_s < 0 || fstatat(day_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return HW_OK;
    if (snprintf(path, sizeof path, "%s/%s", day, name) >= (int)sizeof path)
        return HW_OK;
    f.bytes = (uint64_t)st.st_size;
    f.path = strdup(path);
    if (!f.path || hw_vec_push(&s->files, f) < 0) {
        free(f.path);
        return HW_ENOMEM;
    }
    s->bytes += f.bytes;
    return HW_OK;
}

static int list_day(struct hw_profile_store *s, const char *day)
{
    int rc = HW_OK;
    int fd = openat(s->fd, day, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (const struct dirent *e; rc == HW_OK && d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            rc = list_file(s, dirfd(d), day, e->d_name);
    if (d)
        (void)closedir(d);
    else if (fd >= 0)
        (void)close(fd);
    return rc;
}

static int list_all(struct hw_profile_store *s)
{
    int rc = HW_OK;
    int fd = openat(s->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (const struct dirent *e; rc == HW_OK && d && (e = readdir(d));)
        if (strlen(e->d_name) == DAY_LENGTH && e->d_name[4] == '-')
            rc = list_day(s, e->d_name);
    if (d)
        (void)closedir(d);
    else if (fd >= 0)
        (void)close(fd);
    if (s->files.n)
        qsort(s->files.v, s->files.n, sizeof *s->files.v, by_time);
    return rc;
}

static int make_dirs(const char *dir, struct hw_error *err)
{
    char path[MAX_PATH];
    if (snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path)
        return hw_fail(err, HW_EINVAL, 0, "the directory's name is too long");
    for (char *c = path + 1;; c++) {
        char old = *c;
        if (old != '/' && old != '\0')
            continue;
        *c = '\0';
        if (mkdir(path, 0700) < 0 && errno != EEXIST)
            return hw_fail_sys(err, "cannot make '%s'", path);
        if (old == '\0')
            return HW_OK;
        *c = old;
    }
}

int hw_profile_store_open(struct hw_profile_store *s, const char *dir, struct hw_error *err)
{
    int rc = make_dirs(dir, err);
    if (rc < 0)
        return rc;
    s->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->fd < 0)
        return hw_fail_sys(err, "cannot open '%s'", dir);
    s->dir = strdup(dir);
    rc = hw_fd_check_owner(s->fd, dir, err); /* replacing the day by a link would make us delete
                                               elsewhere */
    if (rc == 0 && (!s->dir || (rc = list_all(s)) < 0))
        rc = hw_fail(err, HW_ENOMEM, 0, "list of '%s'", dir);
    if (rc < 0)
        hw_profile_store_close(s);
    return rc;
}

void hw_profile_store_close(struct hw_profile_store *s)
{
    for (size_t i = s->first; i < s->files.n; i++)
        free(s->files.v[i].path);
    hw_vec_done(&s->files);
    free(s->dir);
    if (s->fd >= 0)
        (void)close(s->fd);
    s->dir = NULL;
    s->fd = -1;
}

/* ---- removing old files ---- */

static void remove_first(struct hw_profile_store *s)
{
    struct hw_stored_profile *f = &s->files.v[s->first++];
    if (unlinkat(s->fd, f->path, 0) == 0 || errno == ENOENT)
        s->n_removed++;
    s->bytes -= f->bytes;
    f->path[DAY_LENGTH] = '\0';
    (void)unlinkat(s->fd, f->path, AT_REMOVEDIR); /* fails as long as it is not empty */
    free(f->path);
    if (s->first < 1024 || s->first < s->files.n / 2)
        return;
    memmove(s->files.v, s->files.v + s->first, (s->files.n - s->first) * sizeof *s->files.v);
    s->files.n -= s->first;
    s->first = 0;
}

void hw_profile_store_trim(struct hw_profile_store *s, int64_t now_s)
{
    while (s->first < s->files.n) {
        const struct hw_stored_profile *f = &s->files.v[s->first];
        bool old = now_s && s->max_age_s && now_s - f->time_s > (int64_t)s->max_age_s;
        bool much = s->max_bytes && s->bytes > s->max_bytes;
        if (!old && !much)
            return;
        remove_first(s);
    }
}

/* ---- adding files ---- */

/* All or nothing: neither a reader nor a crash leaves half a file. replace: an existing one too. */
static int write_whole(struct hw_profile_store *s, const char *path, const void *bytes, size_t n,
                       bool replace)
{
    char part[MAX_PATH + 8];
    if (snprintf(part, sizeof part, "%s.part", path) >= (int)sizeof part) {
        errno = ENAMETOOLONG;
        return HW_ESYS;
    }
    hw_autofd int fd =
        openat(s->fd, part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return HW_ESYS;
    int rc = hw_fd_write_all(fd, bytes, n);
    if (rc == HW_OK && (replace ? renameat(s->fd, part, s->fd, path)
                                : renameat2(s->fd, part, s->fd, path, RENAME_NOREPLACE)) < 0)
        rc = HW_ESYS;
    if (rc < 0) {
        int why = errno;
        (void)unlinkat(s->fd, part, 0);
        errno = why;
    }
    return rc;
}

static int write_new(struct hw_profile_store *s, const struct hw_profile_name *name,
                     const void *bytes, size_t n, struct hw_strbuf *path)
{
    int rc = HW_ESYS;
    for (unsigned again = 0; again < 100; again++) {
        char day[DAY_LENGTH + 1];
        hw_strbuf_clear(path);
        add_path(path, name, again);
        if (path->failed)
            return HW_ENOMEM;
        (void)snprintf(day, sizeof day, "%s", path->p); /* its day only */
        if (mkdirat(s->fd, day, 0700) < 0 && errno != EEXIST)
            return HW_ESYS;
        rc = write_whole(s, path->p, bytes, n, /* replace = */ false);
        if (rc == HW_OK || errno != EEXIST)
            return rc;
    }
    return rc;
}

/* After a failed write: whether it is worth another try. */
static bool makes_room(struct hw_profile_store *s)
{
    if ((errno != ENOSPC && errno != EDQUOT) || s->first == s->files.n)
        return false;
    remove_first(s);
    return true;
}

int hw_profile_store_add(struct hw_profile_store *s, const struct hw_profile_name *name,
                         const void *bytes, size_t n, char **path, struct hw_error *err)
{
    struct hw_strbuf to = {0};
    int rc;
    while ((rc = write_new(s, name, bytes, n, &to)) == HW_ESYS && makes_room(s))
        ;
    if (rc < 0) {
        s->n_dropped++;
        rc = rc == HW_ESYS
                 ? hw_fail_sys(err, "a profile of '%s' is dropped: '%s'", name->process, s->dir)
                 : hw_fail(err, rc, 0, "profile of '%s':", name->process);
        hw_strbuf_done(&to);
        return rc;
    }
    struct hw_stored_profile f = {
        .path = strdup(to.p), .bytes = n, .time_s = name->time_ns / SECOND};
    if (f.path && hw_vec_push(&s->files, f) == 0)
        s->bytes += n;
    else
        free(f.path); /* it stays until the next start lists it */
    *path = hw_strbuf_take(&to);
    return HW_OK;
}

int hw_profile_store_note(struct hw_profile_store *s, const char *name, const void *bytes, size_t n,
                          struct hw_error *err)
{
    int rc;
    while ((rc = write_whole(s, name, bytes, n, /* replace = */ true)) < 0 && makes_room(s))
        ;
    return rc < 0 ? hw_fail_sys(err, "cannot write '%s/%s'", s->dir, name) : HW_OK;
}

bool hw_profile_store_is_note(const char *name)
{
    static const char labels[] = ".labels";
    size_t n = strlen(name), m = sizeof labels - 1;
    return strcmp(name, HW_PROFILE_STORE_STATE) == 0 ||
           (n > m && strcmp(name + n - m, labels) == 0);
}

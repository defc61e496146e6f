/*
 * heapwise push --watch DIR: the writer and the sender of profiles are two processes that share a
 * directory and communicate by file names alone:
 *
 *   NAME          a finished profile of any format, put there by renaming
 *   NAME.labels   lines NAME=VALUE, added to those of the command line; may be missing, never later
 *                 than NAME
 *   .NAME, NAME.part, NAME.tmp    not finished, not looked at
 *
 * Whoever writes there may have fewer rights than we: links are not followed, as they could point
 * to any file of ours, whose lines would end up as labels in the store and text in our log.
 *
 * Nothing in the directory is changed: its writer also removes old files. Taken files are
 * remembered in the spool, by name, size and time, so that a restart continues where it was; a file
 * counts as taken once all of it was sent or waits in the spool.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "base/memory/vec.h"
#include "base/text/plural.h"
#include "base/text/strbuf.h"
#include "cli/cli.h"
#include "cli/push/push_command.h"
#include "record/web/profile_store.h"

#include "base/banned.h"

enum { LOOK_MS = 1000, MAX_LABELS_BYTES = 64 * 1024, MAX_TAKEN_BYTES = 64 << 20 };
#define TAKEN "taken"

struct seen {
    char *name; /* owned */
    uint64_t bytes;
    int64_t mtime_ns;
    bool taken;
};
typedef HW_VEC(struct seen) seen_list;

struct watch {
    struct hw_push_job *job;
    const char *path;
    seen_list files; /* of the last scan, by name */
};

static void list_done(seen_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i].name);
    hw_vec_done(l);
}

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

/* The list of taken files has one name per line, so names must not contain a newline. */
static bool is_finished(const char *name)
{
    return name[0] != '.' && !ends_with(name, ".part") && !ends_with(name, ".tmp") &&
           !hw_profile_store_is_note(name) && !strpbrk(name, "\n\t");
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct seen *)a)->name, ((const struct seen *)b)->name);
}

static int by_time(const void *a, const void *b)
{
    const struct seen *const *x = a, *const *y = b;
    if ((*x)->mtime_ns != (*y)->mtime_ns)
        return (*x)->mtime_ns < (*y)->mtime_ns ? -1 : 1;
    return strcmp((*x)->name, (*y)->name);
}

static bool was_taken(const seen_list *before, const struct seen *f)
{
    if (before->n == 0)
        return false;
    const struct seen *there = bsearch(f, before->v, before->n, sizeof *f, by_name);
    return there && there->taken && there->bytes == f->bytes && there->mtime_ns == f->mtime_ns;
}

static int add_file(seen_list *to, const seen_list *before, int dirfd, const char *name)
{
    struct stat st;
    if (!is_finished(name) || fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(st.st_mode))
        return HW_OK;
    struct seen f = {.name = strdup(name),
                     .bytes = (uint64_t)st.st_size,
                     .mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec};
    if (!f.name)
        return HW_ENOMEM;
    f.taken = was_taken(before, &f);
    if (hw_vec_push(to, f) == 0)
        return HW_OK;
    free(f.name);
    return HW_ENOMEM;
}

/* Taken files that are gone are forgotten here. */
static int look(struct watch *w, struct hw_error *err)
{
    seen_list now = {0};
    DIR *d = opendir(w->path);
    if (!d)
        return hw_fail_sys(err, "cannot read '%s'", w->path);
    int rc = HW_OK;
    for (struct dirent *e; rc == 0 && (e = readdir(d));)
        rc = add_file(&now, &w->files, dirfd(d), e->d_name);
    (void)closedir(d); /* only read */
    if (rc < 0) {
        list_done(&now);
        return hw_fail(err, rc, 0, "list of '%s'", w->path);
    }
    if (now.n)
        qsort(now.v, now.n, sizeof *now.v, by_name);
    list_done(&w->files);
    w->files = now;
    return HW_OK;
}

static void remember(struct watch *w)
{
    struct hw_strbuf b = {0};
    if (!w->job->has_spool)
        return; /* --dry-run */
    for (size_t i = 0; i < w->files.n; i++) {
        const struct seen *f = &w->files.v[i];
        if (f->taken)
            hw_strbuf_addf(&b, "%" PRIu64 "\t%" PRId64 "\t%s\n", f->bytes, f->mtime_ns, f->name);
    }
    /* If this fails, the file is taken again after a restart. */
    if (b.failed || hw_spool_keep(&w->job->spool, TAKEN, hw_bytes_of(b.p, b.n)) < 0)
        hw_log(WARN, "cannot write into spool '%s': after a restart files are sent again",
               w->job->spool.path);
    hw_strbuf_done(&b);
}

static int recall(struct watch *w)
{
    char *text, *rest, *line;
    size_t n;
    int rc = HW_OK;
    if (hw_spool_kept(&w->job->spool, TAKEN, MAX_TAKEN_BYTES, &text, &n) < 0)
        return HW_OK; /* the first time */
    rest = text;
    while (rc == 0 && (line = strsep(&rest, "\n"))) {
        struct seen f = {.taken = true};
        int at = 0;
        if (sscanf(line, "%" SCNu64 "\t%" SCNd64 "\t%n", &f.bytes, &f.mtime_ns, &at) != 2 || !at)
            continue;
        f.name = strdup(line + at);
        if (!f.name || hw_vec_push(&w->files, f) < 0) {
            free(f.name);
            rc = HW_ENOMEM;
        }
    }
    free(text);
    if (w->files.n)
        qsort(w->files.v, w->files.n, sizeof *w->files.v, by_name);
    return rc;
}

/* A regular file, not a link to one. */
static int open_plain(const struct watch *w, const char *name, const char *end,
                      struct hw_error *err)
{
    char path[4096];
    struct stat st;
    if (snprintf(path, sizeof path, "%s/%s%s", w->path, name, end) >= (int)sizeof path)
        return hw_fail(err, HW_ELIMIT, 0, "'%s': name too long", name);
    hw_autofd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return hw_fail_sys(err, "cannot open '%s%s'", name, end);
    if (!S_ISREG(st.st_mode))
        return hw_fail(err, HW_ENOTFOUND, 0, "'%s%s' is not a regular file", name, end);
    return hw_fd_take(&fd);
}

/* The labels point into *text, which the caller frees after the push. */
static int read_labels(struct watch *w, const char *name, char **text, struct hw_error *err)
{
    size_t n;
    hw_fleet_labels_done(&w->job->labels);
    int rc = hw_push_labels(w->job, err);
    *text = NULL;
    if (rc < 0)
        return rc;
    hw_autofd int fd = open_plain(w, name, ".labels", NULL);
    if (fd < 0 || hw_fd_read_file(fd, MAX_LABELS_BYTES, text, &n, NULL) < 0)
        return HW_OK; /* it has none */
    char *rest = *text, *line;
    while (rc == 0 && (line = strsep(&rest, "\n")))
        if (line[0] && line[0] != '#')
            rc = hw_fleet_labels_add(&w->job->labels, line, err);
    if (rc < 0)
        hw_error_prefix(err, "'%s.labels'", name);
    return rc;
}

/* An unreadable file is reported once, and counts as taken: it will not get better. */
static int push_one(struct watch *w, struct seen *f, struct hw_error *err)
{
    struct hw_error why = {0};
    char *text = NULL;
    int rc = read_labels(w, f->name, &text, &why);
    hw_autofd int fd = rc == 0 ? open_plain(w, f->name, "", &why) : -1;
    if (rc == 0)
        rc = fd < 0 ? fd : hw_push_opened(w->job, fd, f->name, &why);
    w->job->labels.service = w->job->labels.host = w->job->labels.version = NULL;
    free(text);
    if (rc == HW_EBUSY || rc == HW_ENOMEM) {
        if (err)
            *err = why;
        return rc;
    }
    if (rc < 0)
        hw_log(WARN, "not sent: %s", why.text);
    f->taken = true;
    return HW_OK;
}

/* Oldest first. */
static int push_new(struct watch *w, struct hw_error *err)
{
    HW_VEC(struct seen *) fresh = {0};
    int rc = HW_OK;
    for (size_t i = 0; rc == 0 && i < w->files.n; i++)
        if (!w->files.v[i].taken && hw_vec_push(&fresh, &w->files.v[i]) < 0)
            rc = hw_fail(err, HW_ENOMEM, 0, "new files");
    if (fresh.n)
        qsort(fresh.v, fresh.n, sizeof *fresh.v, by_time);
    const volatile sig_atomic_t *stop = w->job->delivery.stop;
    for (size_t i = 0; rc == 0 && i < fresh.n && !(stop && *stop); i++) {
        rc = push_one(w, fresh.v[i], err);
        if (rc == 0)
            remember(w);
    }
    hw_vec_done(&fresh);
    return rc;
}

int hw_push_watch(struct hw_push_job *j, const char *dir, struct hw_error *err)
{
    struct watch w = {.job = j, .path = dir};
    uint64_t wait_ms;
    int rc = recall(&w);
    if (rc < 0)
        (void)hw_fail(err, rc, 0, "spool"); /* the code is returned below */
    while (rc == 0) {
        rc = look(&w, err);
        if (rc == 0)
            rc = push_new(&w, err);
        if (rc == 0)
            rc = hw_delivery_step(&j->delivery, &wait_ms, err);
        uint64_t dropped = hw_spool_take_dropped(&j->spool);
        if (dropped)
            hw_log(WARN, "%" PRIu64 " request%s dropped from spool '%s' unsent", dropped,
                   dropped == 1 ? " was" : "s were", j->spool.path);
        if (rc == 0 && wait_ms)
            rc = hw_delivery_sleep(&j->delivery, wait_ms < LOOK_MS ? wait_ms : LOOK_MS, err);
        else if (rc == 0 && j->delivery.stop && *j->delivery.stop)
            rc = hw_fail(err, HW_EBUSY, 0, "stopped");
    }
    list_done(&w.files);
    return rc;
}

/*
 * The page's per-user data: recently opened traces, named filters, queries, the theme. A browser
 * stores data by origin, and the port differs each time, so it is stored here.
 *
 * The file has one line per entry, "key TAB text NEWLINE". Only the page interprets the text (JSON
 * without line breaks), and it validates it. Several servers of one user may write: under a lock on
 * the directory, to a new file that replaces the old one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "server/api/pages_internal.h"

#include "base/banned.h"

#define KEPT_FILE "page"

enum { MAX_KEY = 40, MAX_FILE = 1 << 20 };

/* Creates the directory and its parents, for the user only. */
static int make_dirs(const char *path)
{
    char *copy = strdup(path);
    if (!copy)
        return -1;
    for (char *p = copy + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        (void)mkdir(copy, 0700); /* it may exist; else open reports the failure */
        *p = '/';
    }
    (void)mkdir(copy, 0700);
    free(copy);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The stored entries; "" if there are none yet. The caller frees. */
static int read_kept(int dir, char **text, size_t *n, struct hw_error *err)
{
    int rc = hw_file_read(dir, KEPT_FILE, MAX_FILE, text, n, err);
    if (rc < 0 && errno == ENOENT) {
        *text = calloc(1, 1);
        *n = 0;
        rc = *text ? HW_OK : HW_ENOMEM;
    }
    return rc;
}

void hw_page_list_user_store(struct hw_http_request *req, void *ctx)
{
    const struct hw_pages *p = ctx;
    hw_autofd int dir =
        p->o.kept_dir ? open(p->o.kept_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    hw_autofree char *text = NULL;
    size_t n = 0;
    if (dir < 0 || read_kept(dir, &text, &n, NULL) < 0)
        n = 0; /* not essential: then nothing is stored */
    hw_http_reply(req, HTTP_OK, "text/plain; charset=utf-8", text ? text : "", n);
}

/* Copies everything except the key's line, and adds its new one unless it is empty. */
static void change(struct hw_strbuf *out, const char *text, size_t n, const char *key,
                   struct hw_bytes value)
{
    size_t n_key = strlen(key);
    for (size_t at = 0; at < n;) {
        const char *line = text + at, *end = memchr(line, '\n', n - at);
        size_t length = end ? (size_t)(end - line) : n - at;
        bool is_it = length > n_key && memcmp(line, key, n_key) == 0 && line[n_key] == '\t';
        if (!is_it && length)
            hw_strbuf_add(out, line, length), hw_strbuf_add(out, "\n", 1);
        at += length + 1;
    }
    if (value.n) {
        hw_strbuf_addf(out, "%s\t", key);
        hw_strbuf_add(out, value.p, value.n);
        hw_strbuf_add(out, "\n", 1);
    }
}

static int replace(int dir, const struct hw_strbuf *text, struct hw_error *err)
{
    char name[40];
    (void)snprintf(name, sizeof name, "." KEPT_FILE ".%ld", (long)getpid());
    hw_autofd int fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return hw_fail_sys(err, "cannot keep the page's settings");
    if (hw_fd_write_all(fd, text->p ? text->p : "", text->n) < 0 ||
        renameat(dir, name, dir, KEPT_FILE) < 0) {
        int rc = hw_fail_sys(err, "cannot keep the page's settings");
        (void)unlinkat(dir, name, 0); /* the old file stays */
        return rc;
    }
    return HW_OK;
}

static int keep(const struct hw_pages *p, const char *key, struct hw_bytes value,
                struct hw_error *err)
{
    hw_autofree char *text = NULL;
    struct hw_strbuf changed = {0};
    size_t n = 0;
    if (!p->o.kept_dir)
        return HW_OK; /* a user without a home */
    hw_autofd int dir = make_dirs(p->o.kept_dir);
    if (dir < 0)
        return hw_fail_sys(err, "cannot use the directory '%s'", p->o.kept_dir);
    if (flock(dir, LOCK_EX) < 0) /* until dir is closed */
        return hw_fail_sys(err, "cannot lock '%s'", p->o.kept_dir);
    int rc = read_kept(dir, &text, &n, err);
    if (rc == HW_OK) {
        change(&changed, text, n, key, value);
        rc =
            changed.failed ? hw_fail(err, HW_ENOMEM, 0, "settings")
            : changed.n > MAX_FILE
                ? hw_fail(err, HW_ELIMIT, 0, "the page keeps at most 1 MiB; forget something first")
                : replace(dir, &changed, err);
    }
    hw_strbuf_done(&changed);
    return rc;
}

static bool is_key(const char *key)
{
    size_t n = key ? strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-.") : 0;
    return n > 0 && n <= MAX_KEY && key[n] == '\0';
}

/* POST /api/v1/kept?key=…: the body replaces the key's entry. */
void hw_page_add_user_store(struct hw_http_request *req, void *ctx)
{
    const char *key = hw_http_query(req, "key");
    struct hw_bytes value = hw_http_body(req);
    struct hw_error err = {0};
    int rc = HW_OK;
    if (!is_key(key) || (value.n && memchr(value.p, '\n', value.n)))
        rc = hw_fail(&err, HW_EINVAL, 0, "a key of small letters, and text without line breaks");
    if (rc == HW_OK)
        rc = keep(ctx, key, value, &err);
    if (rc < 0)
        hw_page_reply_error(req, &err, rc);
    else
        hw_http_reply(req, HTTP_NO_CONTENT, NULL, NULL, 0);
}

#include "record/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"

#include "base/banned.h"

/* A command's name as part of a file name: bounded length, and no character that a shell or another system
 * reads as more than itself ("redis-server *:7101" becomes redis-server_7101). */
static bool is_safe(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           c >= 0x80 || strchr("+,-._", c);
}

static void add_name(struct hw_strbuf *b, const char *command)
{
    enum { MAX_NAME = 100 };
    const char *p = hw_base_name(command);
    bool replaced = false;
    for (size_t i = 0; p[i] && i < MAX_NAME; i++) {
        bool safe = is_safe((unsigned char)p[i]);
        if (safe || !replaced)
            hw_strbuf_addc(b, safe ? p[i] : '_');
        replaced = !safe;
    }
}

/* try 1 is the plain name; later ones get a number, in case a pid was reused. */
static char *default_name(const char *suffix, const char *command, int pid, unsigned try)
{
    struct hw_strbuf b = {0};
    hw_strbuf_adds(&b, "heap.");
    add_name(&b, command);
    hw_strbuf_addf(&b, ".%d", pid);
    if (try > 1)
        hw_strbuf_addf(&b, ".%u", try);
    hw_strbuf_adds(&b, suffix);
    return hw_strbuf_take(&b);
}

/* The first unused name: a process may be recorded more than once. */
static char *unused_name(const char *suffix, const char *command, int pid)
{
    enum { MAX_TRIES = 1000 };
    char *name = default_name(suffix, command, pid, 1);
    for (unsigned try = 2; name && try < MAX_TRIES && access(name, F_OK) == 0; try++) {
        free(name);
        name = default_name(suffix, command, pid, try);
    }
    return name;
}

static int open_unlinked(struct hw_error *err)
{
    const char *dir = getenv("TMPDIR");
    if (!dir || !dir[0])
        dir = "/tmp";
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/heapwise-XXXXXX", dir);
    if (n < 0 || (size_t)n >= sizeof path)
        return hw_fail(err, HW_EINVAL, 0, "TMPDIR is too long");
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        return hw_fail_sys(err, "cannot make a temporary file in '%s'", dir);
    (void)unlink(path);
    return fd;
}

/* A name that is not a regular file (a pipe, /dev/null) is written through a copy as well. */
static bool is_special(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* Finds now what would otherwise fail after the recording. A pipe's reader may come later. */
static int check_special(const char *path, struct hw_error *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return hw_fail_sys(err, "cannot write '%s'", path);
    if (S_ISDIR(st.st_mode))
        return hw_fail(err, HW_EINVAL, 0,
                       "'%s' is a directory; name a file in it: '%s%sNAME.trace'", path, path,
                       path[strlen(path) - 1] == '/' ? "" : "/");
    if (S_ISSOCK(st.st_mode))
        return hw_fail(err, HW_EINVAL, 0, "'%s' is a socket; name a file or a pipe", path);
    if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0)
        return hw_fail_sys(err, "cannot write '%s'", path);
    return HW_OK;
}

int hw_output_check(const char *path, struct hw_error *err)
{
    struct stat st;
    if (strcmp(path, "-") == 0)
        return HW_OK;
    if (stat(path, &st) == 0)
        return check_special(path, err);
    const char *slash = strrchr(path, '/');
    hw_autofree char *dir =
        slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    if (!dir)
        return hw_fail(err, HW_ENOMEM, 0, "name of the output");
    return faccessat(AT_FDCWD, dir, W_OK | X_OK, AT_EACCESS) < 0
               ? hw_fail_sys(err, "cannot create '%s'", path)
               : HW_OK;
}

static int open_part(struct hw_output *o, struct hw_error *err)
{
    struct hw_strbuf b = {0};
    hw_strbuf_adds(&b, o->final_name);
    hw_strbuf_adds(&b, ".part");
    o->part = hw_strbuf_take(&b);
    if (!o->part)
        return hw_fail(err, HW_ENOMEM, 0, "name of the output");
    if (!o->force && access(o->final_name, F_OK) == 0)
        return hw_fail(err, HW_EEXIST, 0, "'%s' exists; --force overwrites it", o->final_name);
    /* An old .part was left by a killed recording; its name may be reused. */
    if (unlink(o->part) < 0 && errno != ENOENT && errno != EROFS && errno != EACCES)
        return hw_fail_sys(err, "cannot remove '%s'", o->part);
    o->fd = open(o->part, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (o->fd < 0 && (errno == EACCES || errno == EROFS))
        return hw_fail_sys(err, "cannot write '%s' (-o FILE names another place)", o->part);
    return o->fd < 0 ? hw_fail_sys(err, "cannot write '%s'", o->part) : HW_OK;
}

int hw_output_open_as(const char *suffix, const char *path, const char *command, int pid,
                      bool force, struct hw_output *out, struct hw_error *err)
{
    struct hw_output o = {.fd = -1, .force = force, .named = path != NULL, .suffix = suffix};
    int rc = HW_OK;
    o.to_stdout = path && strcmp(path, "-") == 0;
    if (o.to_stdout && isatty(STDOUT_FILENO))
        return hw_fail(err, HW_EINVAL, 0, "a trace is not for a terminal: redirect it");
    if (!o.to_stdout) {
        o.final_name = path ? strdup(path) : unused_name(suffix, command, pid);
        if (!o.final_name)
            return hw_fail(err, HW_ENOMEM, 0, "name of the output");
    }
    if (o.to_stdout || is_special(o.final_name)) {
        rc = o.to_stdout ? HW_OK : check_special(o.final_name, err);
        if (rc == HW_OK)
            o.fd = rc = open_unlinked(err);
        rc = rc < 0 ? rc : HW_OK;
    } else {
        rc = open_part(&o, err);
    }
    if (rc < 0) {
        hw_output_done(&o);
        return rc;
    }
    *out = o;
    return HW_OK;
}

int hw_output_open(const char *path, const char *command, int pid, bool force,
                   struct hw_output *out, struct hw_error *err)
{
    return hw_output_open_as(".trace", path, command, pid, force, out, err);
}

/* ---- to a pipe or a device: whoever reads it may take his time, or never come ---- */

#define STEP_MS 100

bool hw_output_stop_requested(void)
{
    static const int stops[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t pending;
    if (sigpending(&pending) < 0)
        return false;
    for (size_t i = 0; i < HW_ARRAY_LEN(stops); i++)
        if (sigismember(&pending, stops[i]) == 1)
            return true;
    return false;
}

static int open_special(const char *path)
{
    for (bool told = false;; told = true) {
        int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0 || errno != ENXIO) /* a pipe without a reader */
            return fd;
        if (!told)
            fprintf(stderr,
                    "waiting for a reader of the pipe '%s'; Ctrl-C: the trace is kept in a file\n",
                    path);
        if (hw_output_stop_requested()) {
            errno = EINTR;
            return -1;
        }
        (void)usleep(STEP_MS * 1000);
    }
}

/* Not more than always fits into a pipe that has room. */
static int write_special(int to, const char *p, size_t n)
{
    while (n) {
        struct pollfd f = {.fd = to, .events = POLLOUT};
        if (poll(&f, 1, STEP_MS) <= 0) {
            if (hw_output_stop_requested()) {
                errno = EINTR;
                return -1;
            }
            continue;
        }
        ssize_t done = write(to, p, n < PIPE_BUF ? n : PIPE_BUF);
        if (done < 0 && errno != EINTR && errno != EAGAIN)
            return -1;
        p += done > 0 ? done : 0;
        n -= done > 0 ? (size_t)done : 0;
    }
    return 0;
}

static int copy_to(int from, int to, struct hw_error *err)
{
    enum { CHUNK = 1 << 16 };
    struct stat st;
    bool special = fstat(to, &st) == 0 && !S_ISREG(st.st_mode);
    hw_autofree char *buffer = malloc(CHUNK);
    if (!buffer)
        return hw_fail(err, HW_ENOMEM, 0, "copy buffer");
    off_t at = 0;
    for (;;) {
        ssize_t n = pread(from, buffer, CHUNK, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hw_fail_sys(err, "cannot read the trace");
        if (n == 0)
            return HW_OK;
        if ((special ? write_special(to, buffer, (size_t)n)
                     : hw_fd_write_all(to, buffer, (size_t)n)) < 0)
            return hw_fail_sys(err, "cannot write the trace");
        at += n;
    }
}

/* Renames without replacing a file unless force. */
static int rename_to(const struct hw_output *o, const char *name)
{
    if (o->force)
        return rename(o->part, name);
    if (renameat2(AT_FDCWD, o->part, AT_FDCWD, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    /* a file system without that flag: link() refuses an existing name, too */
    return link(o->part, name) == 0 && unlink(o->part) == 0 ? 0 : -1;
}

static int name_file(struct hw_output *o, const char *command, int pid, struct hw_error *err)
{
    enum { TRIES = 100 };
    for (unsigned try = 1; !o->named && try <= TRIES; try++) {
        char *name = default_name(o->suffix, command, pid, try);
        if (!name)
            return hw_fail(err, HW_ENOMEM, 0, "name of the output");
        free(o->final_name);
        o->final_name = name;
        if (rename_to(o, name) == 0)
            return HW_OK;
        if (errno != EEXIST)
            break;
    }
    if (o->named && rename_to(o, o->final_name) == 0)
        return HW_OK;
    return hw_fail_sys(err, "the trace is in '%s'; it cannot be renamed to '%s'", o->part,
                       o->final_name);
}

static int copy_out(const struct hw_output *o, struct hw_error *err)
{
    if (o->to_stdout)
        return copy_to(o->fd, STDOUT_FILENO, err);
    hw_autofd int to = open_special(o->final_name);
    if (to < 0)
        return hw_fail_sys(err, "cannot write '%s'", o->final_name);
    return copy_to(o->fd, to, err);
}

/* A file of the default name in dir; NULL if it cannot be written. */
static char *save_in(const struct hw_output *o, const char *dir, const char *command, int pid)
{
    enum { TRIES = 100 };
    for (unsigned try = 1; try <= TRIES; try++) {
        hw_autofree char *name = default_name(o->suffix, command, pid, try);
        struct hw_strbuf b = {0};
        hw_strbuf_addf(&b, "%s/%s", dir, name ? name : "");
        hw_autofree char *path = hw_strbuf_take(&b);
        if (!name || !path)
            return NULL;
        hw_autofd int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (to < 0 && errno == EEXIST)
            continue;
        if (to < 0)
            return NULL;
        if (copy_to(o->fd, to, NULL) == 0)
            return strdup(path);
        (void)unlink(path); /* half a trace must not have a whole one's name */
        return NULL;
    }
    return NULL;
}

/* The copy failed and the data is in an unnamed file: give it a name. */
static void rescue(struct hw_output *o, const char *command, int pid, struct hw_error *err)
{
    const char *tmp = getenv("TMPDIR");
    const char *dirs[] = {".", tmp && tmp[0] ? tmp : "/tmp"};
    char why[HW_ERROR_TEXT_MAX];
    (void)snprintf(why, sizeof why, "%s", err->text);
    for (size_t i = 0; i < HW_ARRAY_LEN(dirs); i++) {
        char *path = save_in(o, dirs[i], command, pid);
        if (!path)
            continue;
        free(o->final_name);
        o->final_name = path;
        o->to_stdout = false;
        o->rescued = true;
        (void)hw_fail(err, HW_ESYS, 0, "%.150s; the trace is in '%.100s' instead", why, path);
        return;
    }
}

int hw_output_finish(struct hw_output *o, const char *command, int pid, struct hw_error *err)
{
    if (!o->part) {
        struct hw_error mine = {0};
        int rc = copy_out(o, &mine);
        if (rc < 0)
            rescue(o, command, pid, &mine);
        if (rc < 0 && err)
            *err = mine;
        return rc;
    }
    int rc = name_file(o, command, pid, err);
    if (rc == 0) {
        free(o->part);
        o->part = NULL;
    }
    return rc;
}

void hw_output_discard(struct hw_output *o)
{
    if (o->part)
        (void)unlink(o->part); /* nobody needs it */
}

void hw_output_done(struct hw_output *o)
{
    if (o->fd >= 0)
        (void)close(o->fd);
    free(o->part);
    free(o->final_name);
    *o = HW_OUTPUT_NONE;
}

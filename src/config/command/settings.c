#include "config/command/settings.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "base/text/strbuf.h"
#include "config/command/command.h"

#include "base/banned.h"

enum { MAX_FILE = 1 << 20 };

struct file {
    const char *path;
    bool foreign; /* found in the current directory */
    struct hw_opts *opts;
    const struct hw_command *cmd;
    unsigned line;
};

/* The text lives as long as the options that point into it. */
static const char *keep(struct hw_opts *o, const char *text)
{
    char *copy = strdup(text);
    if (!copy || hw_vec_push(&o->kept, copy) < 0) {
        free(copy);
        return NULL;
    }
    return copy;
}

static char *trim(char *s)
{
    s += strspn(s, " \t\r");
    size_t n = strlen(s);
    while (n && strchr(" \t\r", s[n - 1]))
        s[--n] = 0;
    if (n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n - 1] == s[0]) {
        s[n - 1] = 0;
        s++;
    }
    return s;
}

/* What starts a program, writes a file, or opens a way in is never asked for by where a command was started: a directory's files
 * may come from a stranger's archive. */
static bool is_for_user_only(int id)
{
    const struct hw_option *o = &hw_options[id];
    return o->group == HW_OG_PARTS || o->group == HW_OG_SERVICE || (o->flags & HW_OF_WRITES);
}

static int apply(struct file *f, const char *key, const char *value, struct hw_error *err)
{
    size_t n = strlen(key);
    int id = hw_option_find(f->cmd, key, n, /* prefix = */ false);
    if (id < 0) {
        if (hw_option_find(NULL, key, n, false) >= 0)
            return HW_OK; /* another command's section */
        return hw_fail(err, HW_EINVAL, 0, "%s:%u: unknown key '%s'", f->path, f->line, key);
    }
    if (f->foreign && is_for_user_only(id))
        return hw_fail(err, HW_EINVAL, 0,
                       "%s:%u: '%s' cannot be set by a file in the current directory", f->path,
                       f->line, key);
    const char *kept = keep(f->opts, value), *origin = keep(f->opts, f->path);
    if (!kept || !origin)
        return hw_fail(err, HW_ENOMEM, 0, "settings");
    int rc = hw_opts_set(f->opts, (enum hw_option_id)id, kept, origin, err);
    if (rc < 0)
        hw_error_prefix(err, "%s:%u: %s", f->path, f->line, key);
    return rc;
}

static int read_lines(struct file *f, char *text, struct hw_error *err)
{
    bool mine = true; /* before the first section: for every command */
    for (char *p = text, *next; p; p = next) {
        next = strchr(p, '\n');
        if (next)
            *next++ = 0;
        f->line++;
        char *s = trim(p);
        size_t n = strlen(s);
        if (n == 0 || *s == '#' || *s == ';')
            continue;
        if (*s == '[' && s[n - 1] == ']') {
            s[n - 1] = 0;
            mine = strcmp(trim(s + 1), f->cmd->name) == 0;
            continue;
        }
        char *equals = strchr(s, '=');
        if (!equals)
            return hw_fail(err, HW_EINVAL, 0, "%s:%u: no '=' in '%s'", f->path, f->line, s);
        *equals = 0;
        int rc = mine ? apply(f, trim(s), trim(equals + 1), err) : HW_OK;
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

/*
 * A directory may belong to somebody who wants to be obeyed. He can give a link there any file of the user's or root's
 * with a text of his (the arguments of a set-user-id program, in /proc), and a file system of his own any owner.
 */
static bool is_own(int fd, const struct stat *st)
{
    struct stat dir;
    struct statfs fs;
    return S_ISREG(st->st_mode) && st->st_uid == geteuid() && st->st_nlink == 1 &&
           !(st->st_mode & (geteuid() == 0 ? S_IWGRP | S_IWOTH : S_IWOTH)) &&
           fstatfs(fd, &fs) == 0 && fs.f_type != FUSE_SUPER_MAGIC &&
           fs.f_type != PROC_SUPER_MAGIC && stat(".", &dir) == 0 &&
           (dir.st_uid == geteuid() || dir.st_uid == 0);
}

static int read_file(struct hw_opts *o, const struct hw_command *cmd, const char *path,
                     bool foreign, struct hw_error *err)
{
    struct file f = {.path = path, .foreign = foreign, .opts = o, .cmd = cmd};
    int link = foreign ? O_NOFOLLOW : 0;
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | link);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EACCES))
        return HW_OK;
    struct stat st = {0};
    if ((fd < 0 && (!foreign || errno != ELOOP)) || (fd >= 0 && fstat(fd, &st) < 0))
        return hw_fail_sys(err, "cannot read '%s'", path);
    if (foreign && (fd < 0 || !is_own(fd, &st))) {
        hw_log(
            WARN,
            "'%s' is not read: it must be a regular file of yours, no link, that nobody else can "
            "write, in a directory of yours or root's",
            path);
        return HW_OK;
    }
    hw_autofree char *text = NULL;
    size_t n;
    int rc = hw_fd_read_file(fd, MAX_FILE, &text, &n, err);
    if (rc < 0) {
        hw_error_prefix(err, "'%s'", path);
        return rc;
    }
    return read_lines(&f, text, err);
}

static int read_user_file(struct hw_opts *o, const struct hw_command *cmd, struct hw_error *err)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    struct hw_strbuf path = {0};
    if (config && config[0] == '/')
        hw_strbuf_addf(&path, "%s/heapwise/config", config);
    else if (home && home[0] == '/')
        hw_strbuf_addf(&path, "%s/.config/heapwise/config", home);
    int rc = path.n && !path.failed ? read_file(o, cmd, path.p, false, err) : HW_OK;
    hw_strbuf_done(&path);
    return rc;
}

/* HEAPWISE_CONTINUOUS_DUMP for --continuous-dump. */
static int read_environment(struct hw_opts *o, const struct hw_command *cmd, struct hw_error *err)
{
    for (int i = 0; i < HW_OPT_COUNT; i++) {
        const struct hw_option *def = &hw_options[i];
        if (!(def->commands & 1ull << cmd->id) || (def->flags & HW_OF_HIDDEN) || i == HW_OPT_HELP)
            continue;
        struct hw_strbuf name = {0};
        hw_strbuf_adds(&name, "HEAPWISE_");
        for (const char *p = def->name; *p; p++)
            hw_strbuf_addc(&name, *p == '-' ? '_' : (char)toupper((unsigned char)*p));
        const char *value = name.failed ? NULL : getenv(name.p);
        const char *origin = value ? keep(o, name.p) : NULL;
        hw_strbuf_done(&name);
        if (!value)
            continue;
        int rc = origin ? hw_opts_set(o, (enum hw_option_id)i, value, origin, err)
                        : hw_fail(err, HW_ENOMEM, 0, "settings");
        if (rc < 0) {
            if (origin)
                hw_error_prefix(err, "%s", origin);
            return rc;
        }
    }
    return HW_OK;
}

int hw_settings_apply(struct hw_opts *o, const struct hw_command *cmd, struct hw_error *err)
{
    int rc = read_file(o, cmd, "/etc/heapwise.conf", false, err);
    if (rc == 0)
        rc = read_user_file(o, cmd, err);
    if (rc == 0)
        rc = read_file(o, cmd, "./.heapwise.conf", true, err);
    return rc < 0 ? rc : read_environment(o, cmd, err);
}

char *hw_state_dir(void)
{
    const char *xdg = secure_getenv("XDG_STATE_HOME"), *home = secure_getenv("HOME");
    struct hw_strbuf b = {0};
    if (xdg && xdg[0] == '/')
        hw_strbuf_addf(&b, "%s/heapwise", xdg);
    else if (home && home[0] == '/')
        hw_strbuf_addf(&b, "%s/.local/state/heapwise", home);
    else
        return NULL;
    return hw_strbuf_take(&b);
}

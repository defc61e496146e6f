#include "server/api/files.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/root_path.h"

#include "base/banned.h"

/* The path as given, made absolute. */
static char *absolute(const char *path)
{
    char cwd[PATH_MAX], *out = NULL;
    if (path[0] == '/')
        return strdup(path);
    if (!getcwd(cwd, sizeof cwd) || asprintf(&out, "%s/%s", cwd, path) < 0)
        return NULL;
    return out;
}

int hw_files_dirs_add(hw_files_dirs *d, const char *path, struct hw_error *err)
{
    struct hw_files_dir dir = {.fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (dir.fd < 0)
        return hw_fail_sys(err, "cannot open the directory '%s'", path);
    dir.path = absolute(path);
    dir.real = realpath(path, NULL);
    if (dir.path && dir.real && hw_vec_push(d, dir) == 0)
        return HW_OK;
    free(dir.path);
    free(dir.real);
    (void)close(dir.fd);
    return hw_fail(err, HW_ENOMEM, 0, "the directory '%s'", path);
}

void hw_files_dirs_done(hw_files_dirs *d)
{
    for (size_t i = 0; i < d->n; i++) {
        free(d->v[i].path);
        free(d->v[i].real);
        (void)close(d->v[i].fd);
    }
    hw_vec_done(d);
}

/* Opens exactly the file that was checked: nothing is opened before it is known to be regular. */
static int open_regular(int at, const char *name, bool *there)
{
    struct stat st;
    hw_autofd int found = hw_root_find(at, name, HW_ROOT_NO_LINKS);
    *there = found >= 0;
    return found < 0 ? -1 : hw_root_read(found, &st);
}

/* The part of name below dir; "." for dir itself, NULL: not below it. */
static const char *below(const char *dir, const char *name)
{
    size_t n = strlen(dir);
    while (n > 0 && dir[n - 1] == '/')
        n--;
    if (strncmp(dir, name, n) != 0 || (name[n] != '/' && name[n] != '\0'))
        return NULL;
    name += n;
    while (*name == '/')
        name++;
    return *name ? name : ".";
}

static const char *below_either(const struct hw_files_dir *d, const char *name)
{
    const char *rest = name[0] == '/' ? below(d->path, name) : name;
    return rest ? rest : below(d->real, name);
}

int hw_files_open(const hw_files_dirs *d, const char *name, struct hw_error *err)
{
    for (size_t i = 0; i < d->n; i++) {
        const char *rest = below_either(&d->v[i], name);
        bool there = false;
        int fd = rest ? open_regular(d->v[i].fd, rest, &there) : -1;
        if (fd >= 0)
            return fd;
        if (there)
            return hw_fail(err, HW_EINVAL, 0, "'%s' is not a regular file that can be read", name);
    }
    return hw_fail(
        err, HW_ENOTFOUND, 0,
        "'%s' is not a file below the directories from which this server may open traces; "
        "%s, or send the trace itself",
        name, d->n ? "links are not followed" : "start it with --traces DIR");
}

bool hw_files_has_dir(const hw_files_dirs *d, const char *name)
{
    struct stat st;
    for (size_t i = 0; i < d->n; i++) {
        const char *rest = name[0] == '/' ? below_either(&d->v[i], name) : NULL;
        hw_autofd int fd = rest ? hw_root_find(d->v[i].fd, rest, HW_ROOT_NO_LINKS) : -1;
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
            return true;
    }
    return false;
}

int hw_files_open_below(const char *dir, const char *name)
{
    bool there;
    hw_autofd int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return at < 0 ? -1 : open_regular(at, name, &there);
}

int hw_files_open_real(const char *real)
{
    bool there;
    hw_autofd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root < 0 ? -1 : open_regular(root, real, &there);
}

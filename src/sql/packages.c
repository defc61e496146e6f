#include "sql/packages.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "sql/engine.h"

#include "base/banned.h"

enum { MAX_MODULES = 65536, MAX_MODULE = 8 << 20, MAX_DEPTH = 16 };

void hw_sql_packages_done(struct hw_sql_packages *k)
{
    for (size_t i = 0; i < k->modules.n; i++) {
        free(k->modules.v[i].name);
        free(k->modules.v[i].sql);
    }
    hw_vec_done(&k->modules);
}

/* Words of letters, digits and `_`, separated by dots. */
static bool is_module_name(const char *name)
{
    for (const char *p = name;; p++) {
        size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        if (n == 0)
            return false;
        p += n;
        if (*p != '.')
            return *p == 0;
    }
}

static struct hw_sql_package_module *find(const struct hw_sql_packages *k, struct hw_bytes name)
{
    for (size_t i = 0; i < k->modules.n; i++)
        if (hw_bytes_equal(hw_bytes_str(k->modules.v[i].name), name))
            return &k->modules.v[i];
    return NULL;
}

const char *hw_sql_packages_find(const struct hw_sql_packages *k, struct hw_bytes name)
{
    const struct hw_sql_package_module *m = find(k, name);
    return m ? m->sql : NULL;
}

int hw_sql_packages_add(struct hw_sql_packages *k, const char *name, struct hw_bytes sql,
                        bool override, struct hw_error *err)
{
    if (!is_module_name(name))
        return hw_fail(err, HW_EINVAL, 0, "'%.100s' cannot be the name of a module", name);
    if (sql.n > MAX_MODULE || (sql.n && memchr(sql.p, 0, sql.n)))
        return hw_fail(err, HW_ELIMIT, 0, "module %.100s: too long, or not text", name);
    struct hw_sql_package_module *old = find(k, hw_bytes_str(name));
    if (old && !override)
        return hw_fail(err, HW_EINVAL, 0, "module %.100s already exists", name);
    if (!old && k->modules.n >= MAX_MODULES)
        return hw_fail(err, HW_ELIMIT, 0, "too many modules");
    char *text = malloc(sql.n + 1), *copy = old ? NULL : strdup(name);
    if (!text || (!old && (!copy || hw_vec_reserve(&k->modules, k->modules.n + 1) < 0))) {
        free(text);
        free(copy);
        return hw_fail(err, HW_ENOMEM, 0, "module %.100s", name);
    }
    if (sql.n)
        memcpy(text, sql.p, sql.n);
    text[sql.n] = 0;
    if (old) {
        free(old->sql);
        old->sql = text;
    } else {
        k->modules.v[k->modules.n++] = (struct hw_sql_package_module){copy, text};
    }
    return HW_OK;
}

/* ---- directories ---- */

struct walk {
    struct hw_sql_packages *packages;
    bool override;
};

static int add_file(const struct walk *w, int dir, const char *file, const char *module,
                    struct hw_error *err)
{
    char *text;
    size_t n;
    int rc = hw_file_read(dir, file, MAX_MODULE, &text, &n, err);
    if (rc < 0)
        return rc;
    rc = hw_sql_packages_add(w->packages, module, hw_bytes_of(text, n), w->override, err);
    free(text);
    return rc;
}

static int add_tree(const struct walk *w, int parent, const char *name, const char *prefix,
                    unsigned depth, struct hw_error *err);

static int add_entry(const struct walk *w, int dir, const char *file, const char *prefix,
                     unsigned depth, struct hw_error *err)
{
    static const char ending[] = ".sql";
    struct stat st;
    size_t n = strlen(file), end = sizeof ending - 1;
    struct hw_strbuf module = {0};
    if (file[0] == '.' || fstatat(dir, file, &st, 0) < 0)
        return HW_OK;
    bool is_dir = S_ISDIR(st.st_mode);
    bool is_sql = S_ISREG(st.st_mode) && n > end && strcmp(file + n - end, ending) == 0;
    if (!is_dir && !is_sql)
        return HW_OK;
    hw_strbuf_addf(&module, "%s.", prefix);
    hw_strbuf_add(&module, file, is_dir ? n : n - end);
    int rc = HW_ENOMEM;
    if (!module.failed)
        rc = is_dir ? add_tree(w, dir, file, module.p, depth + 1, err)
                    : add_file(w, dir, file, module.p, err);
    hw_strbuf_done(&module);
    return rc;
}

static int add_tree(const struct walk *w, int parent, const char *name, const char *prefix,
                    unsigned depth, struct hw_error *err)
{
    if (depth > MAX_DEPTH)
        return hw_fail(err, HW_ELIMIT, 0, "directories below '%.100s' are too deep", name);
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int rc = hw_fail_sys(err, "cannot read the directory '%.200s'", name);
        if (fd >= 0)
            (void)close(fd);
        return rc;
    }
    const struct dirent *e;
    int rc = HW_OK;
    while (rc == HW_OK && (e = readdir(dir)))
        rc = add_entry(w, fd, e->d_name, prefix, depth, err);
    (void)closedir(dir);
    return rc;
}

static bool package_exists(const struct hw_sql_packages *k, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < k->modules.n; i++)
        if (strncmp(k->modules.v[i].name, name, n) == 0 && k->modules.v[i].name[n] == '.')
            return true;
    for (size_t i = 0; !k->without_own && i < hw_n_sql_modules; i++)
        if (strncmp(hw_sql_modules[i].name, name, n) == 0 && hw_sql_modules[i].name[n] == '.')
            return true;
    return false;
}

static int add_package(struct hw_sql_packages *k, const char *dir, const char *name, bool override,
                       struct hw_error *err)
{
    struct walk w = {k, override};
    if (!is_module_name(name) || strchr(name, '.'))
        return hw_fail(err, HW_EINVAL, 0, "'%.100s' cannot be the name of a package; use DIR@NAME",
                       name);
    if (!override && package_exists(k, name))
        return hw_fail(err, HW_EINVAL, 0,
                       "package '%.100s' already exists; to replace it: "
                       "--override-sql-package",
                       name);
    return add_tree(&w, AT_FDCWD, dir, name, 0, err);
}

int hw_sql_packages_add_dir(struct hw_sql_packages *k, const char *spec, bool override,
                            struct hw_error *err)
{
    hw_autofree char *dir = strdup(spec);
    if (!dir)
        return hw_fail(err, HW_ENOMEM, 0, "package");
    char *at = strrchr(dir, '@');
    if (at && !strchr(at, '/')) {
        *at = 0;
        return add_package(k, dir, at + 1, override, err);
    }
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        dir[--n] = 0;
    const char *slash = strrchr(dir, '/');
    return add_package(k, dir, slash ? slash + 1 : dir, override, err);
}

int hw_sql_packages_replace_own(struct hw_sql_packages *k, const char *path, struct hw_error *err)
{
    hw_autofd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : opendir(path);
    if (!dir)
        return hw_fail_sys(err, "cannot read the directory '%.200s'", path);
    struct walk w = {k, true};
    const struct dirent *e;
    struct stat st;
    int rc = HW_OK;
    k->without_own = true;
    while (rc == HW_OK && (e = readdir(dir)))
        if (e->d_name[0] != '.' && fstatat(fd, e->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode) &&
            is_module_name(e->d_name))
            rc = add_tree(&w, fd, e->d_name, e->d_name, 0, err);
    (void)closedir(dir);
    return rc;
}

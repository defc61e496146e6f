#include "enrich/symbols/breakpad_dir.h"

#include <ctype.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "enrich/binaries.h"
#include "enrich/symbols/breakpad.h"

#include "base/banned.h"

enum { HEAD = 4096, MAX_FILES = 100000 };
static const size_t max_file = (size_t)2 << 30;

struct module {
    char *path, *name, *id, *code_id; /* owned; code_id may be NULL */
};

struct hw_breakpad_dir {
    HW_VEC(struct module) modules;
};

void hw_breakpad_dir_close(struct hw_breakpad_dir *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->modules.n; i++) {
        free(d->modules.v[i].path);
        free(d->modules.v[i].name);
        free(d->modules.v[i].id);
        free(d->modules.v[i].code_id);
    }
    hw_vec_done(&d->modules);
    free(d);
}

/* "MODULE os arch id name" in the first line, "INFO CODE_ID hex [name]" in the second, if at all.
 */
static bool parse_head(char *head, struct module *m)
{
    char *line_end = strchr(head, '\n'), *rest = NULL, *id, *name;
    if (strncmp(head, "MODULE ", 7) != 0 || !line_end)
        return false;
    *line_end = 0;
    if (line_end > head && line_end[-1] == '\r')
        line_end[-1] = 0;
    if (!strtok_r(head + 7, " ", &rest) || !strtok_r(NULL, " ", &rest) ||
        !(id = strtok_r(NULL, " ", &rest)) || !(name = strtok_r(NULL, "", &rest)))
        return false;
    size_t n = strlen(name);
    if (n > 4 && strcasecmp(name + n - 4, ".pdb") == 0)
        name[n - 4] = 0;
    m->id = strdup(id);
    m->name = strdup(name);
    if (strncmp(line_end + 1, "INFO CODE_ID ", 13) == 0)
        m->code_id = strndup(line_end + 14, strspn(line_end + 14, "0123456789abcdefABCDEF"));
    return m->id && m->name;
}

static int take_file(struct hw_breakpad_dir *d, const char *path)
{
    char head[HEAD + 1];
    struct module m = {0};
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, head, HEAD);
    if (n < 7)
        return HW_OK;
    head[n] = 0;
    if (parse_head(head, &m) && (m.path = strdup(path)) && hw_vec_push(&d->modules, m) == 0)
        return HW_OK;
    bool no_memory = m.id && m.name;
    free(m.path);
    free(m.name);
    free(m.id);
    free(m.code_id);
    return no_memory ? HW_ENOMEM : HW_OK;
}

int hw_breakpad_dir_open(const char *dir, struct hw_breakpad_dir **out, struct hw_error *err)
{
    char *const roots[] = {(char *)(uintptr_t)dir, NULL};
    struct hw_breakpad_dir *d = calloc(1, sizeof *d);
    int rc = d ? HW_OK : HW_ENOMEM;
    if (access(dir, R_OK | X_OK) < 0) {
        free(d);
        return hw_fail_sys(err, "cannot read '%s'", dir);
    }
    FTS *walk = rc == HW_OK ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
    for (FTSENT *e; walk && rc == HW_OK && (e = fts_read(walk));)
        if (e->fts_info == FTS_F && d->modules.n < MAX_FILES)
            rc = take_file(d, e->fts_path);
    if (walk)
        (void)fts_close(walk);
    else if (rc == HW_OK)
        rc = HW_ENOMEM;
    if (rc < 0) {
        hw_breakpad_dir_close(d);
        return hw_fail(err, rc, 0, "'%s':", dir);
    }
    *out = d;
    return HW_OK;
}

/* The first 16 bytes as a GUID of Windows: the first three numbers are little-endian. */
static bool is_guid(const char *id, struct hw_bytes build_id)
{
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    char text[33];
    for (size_t i = 0; i < 16; i++)
        (void)snprintf(text + 2 * i, 3, "%02X", order[i] < build_id.n ? build_id.p[order[i]] : 0);
    return strncasecmp(id, text, 32) == 0;
}

static bool has_id(const struct module *m, struct hw_bytes build_id)
{
    struct hw_strbuf hex = {0};
    if (!m->code_id || !m->code_id[0])
        return is_guid(m->id, build_id);
    hw_hex_add(&hex, build_id);
    bool same = hex.p && strcasecmp(hex.p, m->code_id) == 0;
    hw_strbuf_done(&hex);
    return same || is_guid(m->id, build_id);
}

static int open_module(const struct module *m, struct hw_breakpad **out, struct hw_error *err)
{
    hw_autofree char *text = NULL;
    size_t n;
    int rc = hw_file_read(AT_FDCWD, m->path, max_file, &text, &n, err);
    if (rc == HW_OK && (rc = hw_breakpad_parse(hw_bytes_of(text, n), out, err)) < 0)
        hw_error_prefix(err, "%s", m->path);
    return rc;
}

int hw_breakpad_dir_find(struct hw_breakpad_dir *d, const char *path, struct hw_bytes build_id,
                         bool any_id, bool *other_id, struct hw_breakpad **out,
                         struct hw_error *err)
{
    const char *name = hw_base_name(path);
    *other_id = false;
    for (size_t i = 0; i < d->modules.n; i++) {
        const struct module *m = &d->modules.v[i];
        if (strcasecmp(m->name, name) != 0)
            continue;
        if (any_id || build_id.n == 0 || has_id(m, build_id))
            return open_module(m, out, err);
        *other_id = true;
    }
    return HW_ENOTFOUND;
}

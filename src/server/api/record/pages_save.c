/*
 * POST /api/v1/traces/ID/save?name=NAME: the trace and the names found for it, as a new file
 *
 * The file goes into the server's directory, like recordings. A name with a directory, of an
 * existing file, or without a trace's extension is refused: a client that may send requests is not
 * always one that may write files.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "server/api/pages_internal.h"
#include "trace/append.h"

#include "base/banned.h"

static int check_name(const char *name, struct hw_error *err)
{
    static const char *const ends[] = {".trace", ".pftrace", ".perfetto-trace"};
    size_t n = strlen(name);
    bool fits = false;
    for (size_t i = 0; i < HW_ARRAY_LEN(ends); i++) {
        size_t m = strlen(ends[i]);
        fits = fits || (n > m && strcmp(name + n - m, ends[i]) == 0);
    }
    for (size_t i = 0; i < n; i++)
        if (name[i] == '/' || (unsigned char)name[i] < 0x20 || name[i] == 0x7f)
            return hw_fail(
                err, HW_EINVAL, 0,
                "give a name without directories: the file is written into the server's");
    if (!fits || name[0] == '.' || n > NAME_MAX)
        return hw_fail(err, HW_EINVAL, 0,
                       "'%s' cannot be its name: it must end in .trace, .pftrace or "
                       ".perfetto-trace, and not begin with a dot",
                       name);
    return HW_OK;
}

static int save(const struct hw_page_trace *t, const char *name, struct hw_error *err)
{
    int rc = check_name(name, err);
    if (rc < 0)
        return rc;
    if (t->names.buf.failed)
        return hw_fail(err, HW_ENOMEM, 0, "names");
    if (hw_pb_view(&t->names).n == 0)
        return hw_fail(err, HW_EINVAL, 0,
                       "no names were found beyond those that the file has; name directories with "
                       "symbols first");
    hw_autofd int in = open(t->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (in < 0)
        return hw_fail_sys(err, "cannot open '%s'", t->name);
    hw_autofd int out = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (out < 0 && errno == EEXIST)
        return hw_fail(err, HW_EINVAL, 0, "'%s' already exists; give another name", name);
    if (out < 0)
        return hw_fail_sys(err, "cannot create '%s'", name);
    rc = hw_trace_copy_with(in, t->name, hw_pb_view(&t->names), out, err);
    if (rc == HW_OK && close(hw_fd_take(&out)) < 0)
        rc = hw_fail_sys(err, "cannot write '%s'", name);
    if (rc < 0)
        (void)unlink(name); /* a partial trace would look complete */
    return rc;
}

void hw_page_save(struct hw_http_request *req, struct hw_page_trace *t)
{
    const char *name = hw_http_query(req, "name");
    char dir[PATH_MAX];
    struct hw_error err = {0};
    int rc = save(t, name ? name : "", &err);
    if (rc < 0) {
        hw_page_reply_error(req, &err, rc == HW_EUNSUPPORTED ? HW_EINVAL : rc);
        return;
    }
    struct hw_strbuf path = {0};
    struct hw_json j;
    const char *cwd = getcwd(dir, sizeof dir);
    hw_strbuf_addf(&path, "%s/%s", cwd ? cwd : ".", name);
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_str(&j, "path", path.p);
    hw_json_end_object(&j);
    hw_page_reply_json(req, &j);
    hw_strbuf_done(&path);
}

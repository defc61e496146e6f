/*
 * heapwise check TRACE...: what a strict reader of the format objects to.
 *
 * Findings are kept up to a maximum per rule, and printed by severity and rule; the exit code is 1
 * if there are errors (--strict: or warnings), 2 if a file cannot be read. Of a bundle each member
 * that is made of packets (the trace, symbols, name maps) is a part of its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/vec.h"
#include "base/text/plural.h"
#include "base/text/strbuf.h"
#include "cli/cli.h"
#include "cli/parts/json_page.h"
#include "cli/parts/open_profile.h"
#include "cli/parts/pager.h"
#include "cli/parts/progress_line.h"
#include "codec/tar.h"
#include "codec/unpack.h"
#include "import/import.h"
#include "import/perfetto/perfetto_reader.h"
#include "trace/check/trace_check.h"
#include "trace/reader.h"

#include "base/banned.h"

enum { HEAD = 4096, RAW_HEAD = 64 << 10, EXIT_UNREADABLE = HW_EXIT_USAGE };
static const size_t max_file = (size_t)4 << 30; /* in memory: pipes and compressed files */

struct kept {
    struct hw_check_finding f;
    char *text; /* owned */
};

struct file_check {
    const char *path, *member; /* of a bundle; NULL: the file itself */
    struct hw_check_result result;
    HW_VEC(struct kept) kept;
    bool failed; /* no memory for a finding */
};

static void keep(void *ctx, const struct hw_check_finding *f)
{
    struct file_check *c = ctx;
    char *text = strdup(f->text);
    if (text && hw_vec_push(&c->kept, (struct kept){*f, text}) == 0)
        return;
    free(text);
    c->failed = true;
}

static void file_check_done(struct file_check *c)
{
    for (size_t i = 0; i < c->kept.n; i++)
        free(c->kept.v[i].text);
    hw_vec_done(&c->kept);
}

static uint64_t count_of(const struct file_check *c, enum hw_check_severity severity)
{
    uint64_t n = 0;
    for (int r = 0; r < HW_CHECK_RULE_COUNT; r++)
        if (hw_check_rule_severity((enum hw_check_rule)r) == severity)
            n += c->result.n[r];
    return n;
}

/* ---- reading ---- */

/* A file, as far as it is in memory: content is empty where it is read from fd in windows. */
struct input {
    int fd;
    struct hw_strbuf content; /* unpacked */
};

static bool is_trace(struct hw_bytes head)
{
    return hw_importer_find(head) == &hw_import_perfetto;
}

static struct hw_bytes head_of(struct hw_bytes b)
{
    return hw_bytes_of(b.p, b.n < HEAD ? b.n : HEAD);
}

/* The beginning of a file, or of a member of a bundle, unpacked. */
static int check_head(struct hw_bytes head, struct hw_error *err)
{
    if (head.n == 0)
        return hw_fail(err, HW_EFORMAT, 0, "the file is empty");
    if (!is_trace(head) && !hw_tar_is(head))
        return hw_fail(err, HW_EFORMAT, 0, "this is not a trace of packets");
    return HW_OK;
}

/* Files that are packed, bundles, or not seekable are read whole. */
static int read_whole(struct input *in, struct hw_error *err)
{
    char *raw = NULL;
    size_t n = 0;
    int rc = hw_fd_read_file(in->fd, max_file, &raw, &n, err);
    struct hw_bytes file = hw_bytes_of(raw, n);
    if (rc == HW_OK && hw_is_packed(file)) {
        struct hw_strbuf head = {0};
        hw_unpack_head(hw_bytes_of(raw, n < RAW_HEAD ? n : RAW_HEAD), HEAD, &head);
        rc = check_head(hw_bytes_of(head.p, head.n), err);
        hw_strbuf_done(&head);
        if (rc == HW_OK)
            rc = hw_unpack(file, &in->content, err);
    } else if (rc == HW_OK) {
        rc = check_head(head_of(file), err);
        if (rc == HW_OK)
            hw_strbuf_add(&in->content, raw, n);
        if (in->content.failed)
            rc = hw_fail(err, HW_ENOMEM, 0, "the file");
    }
    free(raw);
    return rc;
}

static int open_input(const char *path, struct input *in, struct hw_error *err)
{
    struct stat st;
    in->fd = open(hw_input_path(path), O_RDONLY | O_CLOEXEC);
    if (in->fd < 0)
        return hw_fail_sys(err, "cannot open '%s'", path);
    if (fstat(in->fd, &st) == 0 && S_ISDIR(st.st_mode))
        return hw_fail(err, HW_EINVAL, 0, "'%s' is a directory", path);
    return HW_OK;
}

static int read_input(struct input *in, struct hw_error *err)
{
    uint8_t head[HEAD];
    ssize_t n = pread(in->fd, head, sizeof head, 0);
    if (n < 0 && errno != ESPIPE)
        return hw_fail_sys(err, "cannot read");
    struct hw_bytes b = hw_bytes_of(head, n < 0 ? 0 : (size_t)n);
    if (n < 0 || hw_is_packed(b) || hw_tar_is(b))
        return read_whole(in, err);
    return check_head(b, err);
}

static void input_done(struct input *in)
{
    if (in->fd >= 0)
        (void)close(in->fd);
    hw_strbuf_done(&in->content);
}

static int check_reader(const struct hw_cli *cli, struct file_check *c, struct hw_trace_reader *r,
                        struct hw_error *err)
{
    struct hw_check_options o = {
        .max_each = hw_opt_num(&cli->opts, HW_OPT_CHECK_MAX), .found = keep, .ctx = c};
    int rc = hw_trace_check(r, &o, &c->result, err);
    if (rc == HW_OK && c->failed)
        rc = hw_fail(err, HW_ENOMEM, 0, "findings");
    hw_trace_reader_free(r);
    return rc;
}

static int check_bytes(const struct hw_cli *cli, struct file_check *c, struct hw_bytes packets,
                       struct hw_error *err)
{
    struct hw_trace_reader *r;
    int rc = hw_trace_reader_open_bytes(packets, &r, err);
    return rc < 0 ? rc : check_reader(cli, c, r, err);
}

static int check_single(const struct hw_cli *cli, struct file_check *c, const struct input *in,
                        struct hw_error *err)
{
    struct hw_trace_reader *r;
    if (in->content.n)
        return check_bytes(cli, c, hw_bytes_of(in->content.p, in->content.n), err);
    int rc = hw_trace_reader_open_fd(in->fd, &r, err);
    return rc < 0 ? rc : check_reader(cli, c, r, err);
}

/* ---- text ---- */

static void print_count(uint64_t n, const char *what, bool *first)
{
    if (n)
        printf("%s%" PRIu64 " %s%s", *first ? "" : ", ", n, what, hw_plural(n));
    *first = *first && n == 0;
}

static void print_rule(const struct file_check *c, enum hw_check_rule rule)
{
    uint64_t shown = 0;
    if (c->result.n[rule] == 0)
        return;
    printf("  %s %s: %s\n", hw_check_severity_name(hw_check_rule_severity(rule)),
           hw_check_rule_name(rule), hw_check_rule_summary(rule));
    for (size_t i = 0; i < c->kept.n; i++) {
        const struct hw_check_finding *f = &c->kept.v[i].f;
        if (f->rule != rule)
            continue;
        printf("    packet %" PRIu64 " at byte %" PRIu64 ": %s\n", f->packet, f->offset,
               c->kept.v[i].text);
        shown++;
    }
    if (c->result.n[rule] > shown)
        printf("    and %" PRIu64 " more\n", c->result.n[rule] - shown);
}

static int print_text(const struct file_check *c)
{
    struct hw_strbuf path = {0};
    bool first = true;
    hw_strbuf_add_escaped(&path, c->path, strlen(c->path));
    if (c->member) {
        hw_strbuf_adds(&path, ": ");
        hw_strbuf_add_escaped(&path, c->member, strlen(c->member));
    }
    printf("%s: ", path.failed ? "?" : path.p);
    hw_strbuf_done(&path);
    for (int s = HW_CHECK_SEVERITY_COUNT - 1; s >= 0; s--)
        print_count(count_of(c, (enum hw_check_severity)s),
                    hw_check_severity_name((enum hw_check_severity)s), &first);
    printf("%s in %" PRIu64 " packet%s", first ? "nothing found" : "", c->result.n_packets,
           hw_plural(c->result.n_packets));
    if (c->result.n_own_fields)
        printf("; %" PRIu64 " field%s of heapwise's own, which other readers skip",
               c->result.n_own_fields, hw_plural(c->result.n_own_fields));
    putchar('\n');
    for (int s = HW_CHECK_SEVERITY_COUNT - 1; s >= 0; s--)
        for (int r = 0; r < HW_CHECK_RULE_COUNT; r++)
            if (hw_check_rule_severity((enum hw_check_rule)r) == (enum hw_check_severity)s)
                print_rule(c, (enum hw_check_rule)r);
    return ferror(stdout) ? HW_ESYS : HW_OK;
}

/* ---- JSON ---- */

static void json_rule(struct hw_json *o, const struct file_check *c, enum hw_check_rule rule)
{
    hw_json_begin_object(o);
    hw_json_kv_str(o, "rule", hw_check_rule_name(rule));
    hw_json_kv_str(o, "severity", hw_check_severity_name(hw_check_rule_severity(rule)));
    hw_json_kv_uint(o, "count", c->result.n[rule]);
    hw_json_key(o, "findings");
    hw_json_begin_array(o);
    for (size_t i = 0; i < c->kept.n; i++) {
        const struct hw_check_finding *f = &c->kept.v[i].f;
        if (f->rule != rule)
            continue;
        hw_json_begin_object(o);
        hw_json_kv_uint(o, "packet", f->packet);
        hw_json_kv_uint(o, "offset", f->offset);
        hw_json_kv_str(o, "text", c->kept.v[i].text);
        hw_json_end_object(o);
    }
    hw_json_end_array(o);
    hw_json_end_object(o);
}

static void json_file(struct hw_json *o, const struct file_check *c)
{
    hw_json_begin_object(o);
    hw_json_kv_str(o, "path", c->path);
    if (c->member)
        hw_json_kv_str(o, "member", c->member);
    hw_json_kv_uint(o, "packets", c->result.n_packets);
    hw_json_kv_uint(o, "errors", count_of(c, HW_CHECK_ERROR));
    hw_json_kv_uint(o, "warnings", count_of(c, HW_CHECK_WARNING));
    hw_json_kv_uint(o, "notes", count_of(c, HW_CHECK_NOTE));
    hw_json_kv_uint(o, "own_fields", c->result.n_own_fields);
    hw_json_key(o, "rules");
    hw_json_begin_array(o);
    for (int r = 0; r < HW_CHECK_RULE_COUNT; r++)
        if (c->result.n[r])
            json_rule(o, c, (enum hw_check_rule)r);
    hw_json_end_array(o);
    hw_json_end_object(o);
}

/* ---- the command ---- */

static bool is_problem(const struct hw_cli *cli, const struct file_check *c)
{
    return count_of(c, HW_CHECK_ERROR) ||
           (hw_opt_flag(&cli->opts, HW_OPT_CHECK_STRICT) && count_of(c, HW_CHECK_WARNING));
}

/* What is told of the files, and where to. */
struct report {
    const struct hw_cli *cli;
    struct hw_json *page; /* NULL = text */
    int written;
    int status;
};

static void tell(struct report *to, const struct file_check *c)
{
    if (is_problem(to->cli, c) && to->status == HW_EXIT_OK)
        to->status = HW_EXIT_FAILED;
    if (to->page)
        json_file(to->page, c);
    else if (!hw_opt_flag(&to->cli->opts, HW_OPT_QUIET))
        to->written = print_text(c);
}

/* One member, if it is made of packets. *n: how many were. */
static int check_member(struct report *to, const char *path, const struct hw_tar_member *m,
                        size_t *n, struct hw_error *err)
{
    struct file_check c = {.path = path, .member = m->name};
    struct hw_strbuf unpacked = {0};
    struct hw_bytes packets = m->bytes;
    int rc = HW_OK;
    if (hw_is_packed(packets)) {
        rc = hw_unpack(packets, &unpacked, err);
        packets = hw_bytes_of(unpacked.p, unpacked.n);
    }
    if (rc == HW_OK && is_trace(head_of(packets))) {
        rc = check_bytes(to->cli, &c, packets, err);
        if (rc == HW_OK)
            tell(to, &c);
        ++*n;
    }
    if (rc < 0)
        hw_error_prefix(err, "member %zu of the archive", *n + 1);
    hw_strbuf_done(&unpacked);
    file_check_done(&c);
    return rc;
}

static int check_bundle(struct report *to, const char *path, struct hw_bytes archive,
                        struct hw_error *err)
{
    struct hw_tar t = {.file = archive};
    struct hw_tar_member m;
    size_t n = 0;
    int rc;
    while ((rc = hw_tar_next(&t, &m, err)) == 1) {
        rc = check_member(to, path, &m, &n, err);
        if (rc == HW_OK && m.truncated)
            rc = hw_fail(err, HW_ETRUNCATED, t.pos, "the archive ends inside a member");
        if (rc < 0)
            return rc;
    }
    if (rc == HW_OK && n == 0)
        return hw_fail(err, HW_EFORMAT, 0, "the archive contains no trace of packets");
    return rc;
}

static int check_input(struct report *to, const char *path, struct input *in, struct hw_error *err)
{
    int rc = read_input(in, err);
    if (rc < 0)
        return rc;
    struct hw_bytes content = hw_bytes_of(in->content.p, in->content.n);
    if (hw_tar_is(head_of(content)))
        return check_bundle(to, path, content, err);
    struct file_check c = {.path = path};
    rc = check_single(to->cli, &c, in, err);
    if (rc == HW_OK)
        tell(to, &c);
    file_check_done(&c);
    return rc;
}

static void check_file(struct report *to, const char *path)
{
    struct hw_error err = {0};
    struct hw_strbuf what = {0};
    struct hw_progress_line waiting = {0};
    struct input in = {.fd = -1};
    hw_strbuf_adds(&what, "checking ");
    hw_strbuf_add_escaped(&what, path, strlen(path));
    int rc = open_input(path, &in, &err);
    if (rc == HW_OK) {
        if (!hw_opt_flag(&to->cli->opts, HW_OPT_QUIET) && !what.failed)
            hw_progress_line_begin(&waiting, what.p, /* progress = */ NULL);
        rc = check_input(to, path, &in, &err);
        hw_progress_line_end(&waiting);
        if (rc < 0)
            hw_error_prefix(&err, "'%s'", path);
    }
    if (rc < 0) {
        (void)hw_cli_fail(to->cli, &err); /* its exit code becomes ours */
        to->status = EXIT_UNREADABLE;
    }
    input_done(&in);
    hw_strbuf_done(&what);
}

int hw_cmd_check(struct hw_cli *cli)
{
    struct hw_json page;
    struct report to = {.cli = cli};
    if (cli->opts.n_args == 0) {
        hw_cli_error(cli, NULL, "which trace?");
        hw_cli_hint("heapwise check TRACE...");
        return hw_cli_usage_exit(cli);
    }
    if (hw_opt_flag(&cli->opts, HW_OPT_JSON)) {
        to.page = &page;
        hw_json_page_begin(&page, stdout, "check", 0);
        hw_json_key(&page, "files");
        hw_json_begin_array(&page);
    }
    for (size_t i = 0; i < cli->opts.n_args && to.written == HW_OK; i++)
        check_file(&to, cli->opts.args[i]);
    if (to.page) {
        hw_json_end_array(&page);
        to.written = hw_json_page_end(&page);
    }
    int end = hw_cli_written(cli, to.written);
    return end == HW_EXIT_OK ? to.status : EXIT_UNREADABLE;
}

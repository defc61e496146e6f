/*
 * heapwise symbolize TRACE [OUT], heapwise deobfuscate TRACE [OUT]
 *
 * Without OUT the packets are appended to the trace itself: a trace is a sequence of packets, and
 * names may follow what they name. With OUT only they are written there, for `cat`.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "codec/pb.h"
#include "enrich/lines/line_worker.h"
#include "import/import.h"
#include "model/profile.h"
#include "open/symbol_options.h"
#include "open/whole_file.h"
#include "trace/append.h"

#include "base/banned.h"

static int open_to_append(const char *path, struct hw_error *err)
{
    int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
    if (fd < 0)
        return hw_fail_sys(err, "cannot write '%s'", path);
    if (hw_trace_is_plain(fd))
        return fd;
    (void)close(fd);
    return hw_fail(err, HW_EUNSUPPORTED, 0,
                   "'%s' is not an uncompressed trace, so nothing can be appended: name a second "
                   "file for the result",
                   path);
}

static int write_result(const char *in, const char *out, struct hw_bytes b, struct hw_error *err)
{
    if (out && strcmp(out, "-") == 0) {
        if (isatty(STDOUT_FILENO))
            return hw_fail(err, HW_EINVAL, 0,
                           "the result is binary and standard output a terminal");
        return hw_fd_write_all(STDOUT_FILENO, b.p, b.n) < 0 ? hw_fail_sys(err, "cannot write")
                                                            : HW_OK;
    }
    if (out) {
        struct hw_whole_file file;
        int rc = hw_whole_file_open(out, 0666, &file, err);
        if (rc == HW_OK && hw_fd_write_all(file.fd, b.p, b.n) < 0)
            return hw_whole_file_close(&file, hw_fail_sys(err, "cannot write '%s'", out), err);
        return rc < 0 ? rc : hw_whole_file_close(&file, HW_OK, err);
    }
    hw_autofd int fd = open_to_append(in, err);
    if (fd < 0)
        return fd;
    off_t before = lseek(fd, 0, SEEK_END);
    if (hw_fd_write_all(fd, b.p, b.n) == 0)
        return HW_OK;
    int saved = errno;
    if (before > 0)
        (void)ftruncate(fd, before); /* half a packet would corrupt the trace */
    errno = saved;
    return hw_fail_sys(err, "cannot write '%s'", in);
}

static bool check_words(const struct hw_cli *cli, const char *usage)
{
    if (cli->opts.n_args >= 1 && cli->opts.n_args <= 2)
        return true;
    hw_cli_error(cli, NULL, cli->opts.n_args ? "too many files" : "which trace?");
    hw_cli_hint("%s", usage);
    return false;
}

static int finish(const struct hw_cli *cli, struct hw_pb *made, int rc, struct hw_error *err)
{
    const char *out = cli->opts.n_args > 1 ? cli->opts.args[1] : NULL;
    if (rc == HW_OK)
        rc = write_result(cli->opts.args[0], out, hw_pb_view(made), err);
    hw_pb_done(made);
    return rc < 0 ? hw_cli_fail(cli, err) : HW_EXIT_OK;
}

int hw_cmd_symbolize(struct hw_cli *cli)
{
    struct hw_error err = {0};
    struct hw_profile *p = NULL;
    struct hw_pb made = {0};
    if (!check_words(cli, "heapwise symbolize TRACE [OUT]"))
        return hw_cli_usage_exit(cli);
    int rc = hw_import_file(hw_input_path(cli->opts.args[0]), &p, &err);
    if (rc == HW_OK)
        rc = hw_symbol_options_symbolize(
            cli, p, hw_opt_flag(&cli->opts, HW_OPT_QUIET) ? HW_SYMBOL_OPTIONS_QUIET : 0, &made,
            &err);
    hw_profile_free(p);
    return finish(cli, &made, rc, &err);
}

int hw_cmd_deobfuscate(struct hw_cli *cli)
{
    struct hw_error err = {0};
    struct hw_pb made = {0};
    const char *list = getenv("PERFETTO_PROGUARD_MAP");
    if (!check_words(cli, "PERFETTO_PROGUARD_MAP=PACKAGE=FILE heapwise deobfuscate TRACE [OUT]"))
        return hw_cli_usage_exit(cli);
    if (!list || !list[0]) {
        hw_cli_error(cli, NULL, "no name map: set PERFETTO_PROGUARD_MAP=PACKAGE=FILE[:...]");
        return HW_EXIT_FAILED;
    }
    int rc = hw_symbol_options_deobfuscate(list, NULL, &made, &err);
    return finish(cli, &made, rc, &err);
}

/* Hidden: symbolization starts this itself. */
int hw_cmd_lines(struct hw_cli *cli)
{
    (void)cli;
    return hw_line_worker_main();
}

/*
 * trace_processor_shell server http|stdio|unix|kill, and its older forms -D and --stdiod: the trace
 * for other front ends.
 *
 * So that `kill` can find it, a server holds a lock on a file with its name that contains its pid,
 * in the user's runtime directory: a dead server's pid is never taken for a live one's.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "cli/classic/cmd_server.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "cli/query/sql_session.h"
#include "open/symbol_options.h"
#include "server/http/http.h"
#include "server/rpc/metatrace.h"
#include "server/rpc/pipe_server.h"
#include "server/rpc/processor.h"
#include "server/rpc/rpc_results.h"
#include "server/rpc/rpc_routes.h"

#include "base/banned.h"

enum { DEFAULT_PORT = 9001, LOOK_MS = 200 };

struct serving {
    struct hw_cli *cli;
    struct hw_rpc_server rpc;
    const char *name; /* for kill */
    char default_name[16];
    int lock_fd, stop_fd, ready_fd;
    uint32_t idle_timeout_s;
    bool idle_start;
    bool loading; /* the trace of the command line */
};

/* ---- stop signals ---- */

static int stop_pipe[2] = {-1, -1};

static void on_stop(int sig)
{
    (void)sig;
    ssize_t n = write(stop_pipe[1], "", 1); /* full: a stop is already pending */
    (void)n;
}

static int catch_stops(struct serving *s, struct hw_error *err)
{
    struct sigaction act = {.sa_handler = on_stop};
    if (pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return hw_fail_sys(err, "pipe");
    (void)sigaction(SIGINT, &act, NULL);
    (void)sigaction(SIGTERM, &act, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* a client that disconnects shows as a write error */
    s->stop_fd = stop_pipe[0];
    return HW_OK;
}

/* ---- named servers ---- */

/* $XDG_RUNTIME_DIR/heapwise, or a private directory below /tmp. */
static int run_path(const char *name, const char *ending, struct hw_strbuf *out,
                    struct hw_error *err)
{
    const char *base = getenv("XDG_RUNTIME_DIR");
    struct stat st;
    if (!*name || strchr(name, '/') || name[0] == '.')
        return hw_fail(err, HW_EINVAL, 0, "'%.100s' cannot be the name of a server", name);
    if (base && *base)
        hw_strbuf_addf(out, "%s/heapwise", base);
    else
        hw_strbuf_addf(out, "/tmp/heapwise-%u", (unsigned)getuid());
    if (out->failed)
        return hw_fail(err, HW_ENOMEM, 0, "path");
    if (mkdir(out->p, 0700) < 0 && errno != EEXIST)
        return hw_fail_sys(err, "cannot make '%s'", out->p);
    if (lstat(out->p, &st) < 0 || !S_ISDIR(st.st_mode) || st.st_uid != getuid() || st.st_mode & 022)
        return hw_fail(err, HW_EPERM, 0, "'%s' is not a directory of this user alone", out->p);
    hw_strbuf_addf(out, "/trace-processor-%s.%s", name, ending);
    return out->failed ? hw_fail(err, HW_ENOMEM, 0, "path") : HW_OK;
}

static int claim_name(struct serving *s, struct hw_error *err)
{
    struct hw_strbuf path = {0};
    int rc = run_path(s->name, "pid", &path, err);
    if (rc == HW_OK) {
        s->lock_fd = open(path.p, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (s->lock_fd < 0)
            rc = hw_fail_sys(err, "cannot create '%s'", path.p);
        else if (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0)
            rc = hw_fail(err, HW_EBUSY, 0,
                         "a server '%s' is already running; end it with: server kill --name %s",
                         s->name, s->name);
    }
    char text[24];
    int n = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (rc == HW_OK &&
        (ftruncate(s->lock_fd, 0) < 0 || pwrite(s->lock_fd, text, (size_t)n, 0) != n))
        rc = hw_fail_sys(err, "cannot write '%s'", path.p);
    hw_strbuf_done(&path);
    return rc;
}

static int kill_server(const struct serving *s, struct hw_error *err)
{
    struct hw_strbuf path = {0};
    char text[24] = "";
    int rc = run_path(s->name, "pid", &path, err);
    hw_autofd int fd = rc == HW_OK ? open(path.p, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    hw_strbuf_done(&path);
    if (rc < 0)
        return rc;
    /* Nobody holds the lock: the pid is a dead server's. */
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0 || pread(fd, text, sizeof text - 1, 0) <= 0)
        return hw_fail(err, HW_ENOTFOUND, 0, "no server '%s' is running", s->name);
    long pid = strtol(text, NULL, 10);
    if (pid <= 1 || kill((pid_t)pid, SIGTERM) < 0)
        return hw_fail_sys(err, "cannot end the server '%s' (pid %ld)", s->name, pid);
    for (int i = 0; i < 100; i++) { /* 5 s */
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return HW_OK;
        (void)poll(NULL, 0, 50);
    }
    return hw_fail(err, HW_ETIMEOUT, 0, "the server '%s' (pid %ld) does not end", s->name, pid);
}

/* ---- daemonize ---- */

/* The parent waits until the child listens or has failed, and prints its pid. */
static int go_to_background(struct serving *s)
{
    int ready[2];
    if (!hw_opt_flag(&s->cli->opts, HW_OPT_TP_DAEMONIZE))
        return -1;
    if (pipe2(ready, O_CLOEXEC) < 0)
        return HW_EXIT_FAILED;
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        return HW_EXIT_FAILED;
    if (pid == 0) {
        (void)close(ready[0]);
        (void)setsid();
        s->ready_fd = ready[1];
        return -1;
    }
    char byte;
    (void)close(ready[1]);
    bool ok = read(ready[0], &byte, 1) == 1;
    (void)close(ready[0]);
    if (!ok) {
        (void)waitpid(pid, NULL, 0);
        return HW_EXIT_FAILED; /* the child said why */
    }
    printf("%d\n", (int)pid);
    return HW_EXIT_OK;
}

static void tell_ready(struct serving *s)
{
    if (s->ready_fd < 0)
        return;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; null >= 0 && fd < 3; fd++)
        (void)dup2(null, fd); /* whoever started it waits for EOF on these */
    ssize_t n = write(s->ready_fd, "", 1);
    (void)n;
    (void)close(s->ready_fd);
    s->ready_fd = -1;
}

/* ---- transports: HTTP, standard streams, Unix socket ---- */

static bool http_idle_too_long(const struct serving *s, const struct hw_http *h, bool *had_one)
{
    uint64_t last_end_ns;
    unsigned n = hw_http_connections(h, &last_end_ns);
    *had_one = *had_one || n > 0;
    if (!s->idle_timeout_s || n || (!*had_one && !s->idle_start))
        return false;
    return hw_now_monotonic_ns() - last_end_ns >= (uint64_t)s->idle_timeout_s * 1000000000;
}

static const char *text_of(const struct hw_opts *o, enum hw_option_id a, enum hw_option_id b)
{
    return o->v[a].set ? hw_opt_text(o, a) : hw_opt_text(o, b);
}

static uint16_t port_of(const struct hw_opts *o)
{
    if (o->v[HW_OPT_TP_PORT].set)
        return (uint16_t)hw_opt_num(o, HW_OPT_TP_PORT);
    return o->v[HW_OPT_TP_HTTP_PORT].set ? (uint16_t)hw_opt_num(o, HW_OPT_TP_HTTP_PORT)
                                         : DEFAULT_PORT;
}

static int collect_origins(const struct hw_opts *o, const char ***out, size_t *n)
{
    static const enum hw_option_id lists[] = {HW_OPT_TP_ORIGINS, HW_OPT_TP_HTTP_ORIGINS};
    size_t most = hw_n_rpc_origins + o->v[lists[0]].list.n + o->v[lists[1]].list.n;
    const char **all = calloc(most, sizeof *all);
    if (!all)
        return HW_ENOMEM;
    memcpy(all, hw_rpc_origins, hw_n_rpc_origins * sizeof *all);
    *n = hw_n_rpc_origins;
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < o->v[lists[k]].list.n; i++)
            all[(*n)++] = o->v[lists[k]].list.v[i];
    *out = all;
    return HW_OK;
}

static int serve_http(struct serving *s, struct hw_error *err)
{
    const struct hw_opts *o = &s->cli->opts;
    struct hw_http_options options = {.address =
                                          text_of(o, HW_OPT_TP_ADDRESS, HW_OPT_TP_HTTP_ADDRESS),
                                      .port = port_of(o),
                                      .listen_fd = -1,
                                      .routes = hw_rpc_routes,
                                      .n_routes = hw_n_rpc_routes,
                                      .ctx = &s->rpc,
                                      .max_upload = hw_opt_num(o, HW_OPT_UI_MAX_UPLOAD),
                                      .connection_new = hw_rpc_connection_new,
                                      .connection_free = hw_rpc_connection_free};
    const char **origins = NULL;
    struct hw_http *h = NULL;
    bool had_one = false;
    int rc = collect_origins(o, &origins, &options.n_origins);
    options.origins = origins;
    if (rc == HW_OK)
        rc = hw_http_start(&options, &h, err);
    if (rc == HW_OK && s->name)
        rc = claim_name(s, err);
    if (rc == HW_OK) {
        fprintf(stderr,
                "Serving the trace processor's RPC on http://%s:%u. It takes no token: every user "
                "of this machine can read the trace.\n",
                options.address ? options.address : "localhost", hw_http_port(h));
        tell_ready(s);
        struct pollfd stop = {.fd = s->stop_fd, .events = POLLIN};
        while (poll(&stop, 1, s->idle_timeout_s ? LOOK_MS : -1) <= 0)
            if (http_idle_too_long(s, h, &had_one))
                break;
    }
    hw_http_stop(h);
    free(origins);
    return rc;
}

static int serve_stdio(struct serving *s, struct hw_error *err)
{
    return hw_pipe_serve(&s->rpc, STDIN_FILENO, STDOUT_FILENO, err);
}

static int serve_unix(struct serving *s, struct hw_error *err)
{
    const char *given = hw_opt_text(&s->cli->opts, HW_OPT_TP_SERVER_PATH);
    struct hw_pipe_clients clients = {&s->rpc, s->idle_timeout_s, s->idle_start, s->stop_fd};
    struct hw_strbuf path = {0};
    int rc = claim_name(s, err);
    if (rc == HW_OK && given)
        hw_strbuf_adds(&path, given);
    else if (rc == HW_OK)
        rc = run_path(s->name, "sock", &path, err);
    if (rc == HW_OK && path.failed)
        rc = hw_fail(err, HW_ENOMEM, 0, "path");
    hw_autofd int fd = rc == HW_OK ? hw_pipe_listen(path.p, err) : -1;
    if (rc == HW_OK)
        rc = fd < 0 ? fd : HW_OK;
    if (rc == HW_OK) {
        fprintf(stderr, "Serving the trace processor's RPC at %s\n", path.p);
        tell_ready(s);
        rc = hw_pipe_serve_clients(fd, &clients, err);
        (void)unlink(path.p);
    }
    hw_strbuf_done(&path);
    return rc;
}

static const struct kind {
    const char *name;
    int (*serve)(struct serving *s, struct hw_error *err);
    bool named; /* also without --name */
} kinds[] = {
    {"http", serve_http, true},
    {"stdio", serve_stdio, false},
    {"unix", serve_unix, true},
};

/* ---- command line ---- */

static void add_names(void *ctx, struct hw_profile *p)
{
    const struct serving *s = ctx;
    bool away = !s->loading && geteuid() == 0; /* root may read files that the sender of a trace
                                                  may not */
    hw_symbol_options_by_environment_to(s->cli, p, away ? HW_SYMBOL_OPTIONS_AWAY : 0, NULL);
}

static int prepare(struct serving *s, const struct hw_sql_packages *packages, const char *trace,
                   struct hw_error *err)
{
    const struct hw_opts *o = &s->cli->opts;
    uint64_t memory = hw_opt_num(o, HW_OPT_TP_QUERY_MEMORY);
    struct hw_processor_options options = {
        .max_trace = hw_opt_num(o, HW_OPT_UI_MAX_UPLOAD),
        .limits = {.timeout_ms = (uint32_t)hw_opt_num(o, HW_OPT_TP_QUERY_TIMEOUT),
                   .max_bytes = memory},
        .packages = packages,
        .add_names = add_names,
        .ctx = s};
    hw_sql_limit_memory(memory);
    int rc = hw_processor_new(&options, &s->rpc.processor, err);
    if (rc == HW_OK && hw_metatrace_new(&s->rpc.metatrace) < 0)
        rc = hw_fail(err, HW_ENOMEM, 0, "metatrace");
    if (rc == HW_OK && hw_opt_text(o, HW_OPT_TP_METATRACE))
        hw_metatrace_enable(s->rpc.metatrace);
    if (rc == HW_OK && trace) {
        hw_metatrace_begin(s->rpc.metatrace, "load trace", hw_bytes_str(trace));
        s->loading = true;
        rc = hw_processor_load(s->rpc.processor, hw_input_path(trace), err);
        s->loading = false;
        hw_metatrace_end(s->rpc.metatrace);
    }
    return rc;
}

static const char *name_of(struct serving *s, const struct kind *kind)
{
    const char *given = hw_opt_text(&s->cli->opts, HW_OPT_TP_SERVER_NAME);
    if (given || (kind && !kind->named))
        return given;
    if (kind && kind->serve == serve_unix)
        return "default";
    bool has_port = s->cli->opts.v[HW_OPT_TP_PORT].set || s->cli->opts.v[HW_OPT_TP_HTTP_PORT].set;
    if (!kind && !has_port)
        return "default";
    unsigned port = port_of(&s->cli->opts);
    (void)snprintf(s->default_name, sizeof s->default_name, "%u", port);
    return port ? s->default_name : NULL;
}

static int run(struct serving *s, const struct kind *kind, const char *trace)
{
    const struct hw_opts *o = &s->cli->opts;
    const char *metatrace = hw_opt_text(o, HW_OPT_TP_METATRACE);
    struct hw_sql_packages packages = {0};
    struct hw_error err = {0};
    s->name = name_of(s, kind);
    s->idle_timeout_s = (uint32_t)hw_opt_num(o, HW_OPT_TP_IDLE_TIMEOUT);
    s->idle_start = hw_opt_flag(o, HW_OPT_TP_IDLE_START);
    int rc = catch_stops(s, &err);
    if (rc == HW_OK)
        rc = hw_sql_session_packages(s->cli, &packages, &err);
    if (rc == HW_OK)
        rc = prepare(s, &packages, trace, &err);
    if (rc == HW_OK)
        rc = kind->serve(s, &err);
    int status = rc < 0 ? hw_cli_fail(s->cli, &err) : HW_EXIT_OK;
    if (status == HW_EXIT_OK && metatrace)
        status = hw_sql_session_write_metatrace(s->cli, s->rpc.metatrace, metatrace);
    hw_processor_free(s->rpc.processor);
    hw_metatrace_free(s->rpc.metatrace);
    hw_sql_packages_done(&packages);
    return status;
}

int hw_cli_serve(struct hw_cli *cli, const char *word, const char *trace)
{
    struct serving s = {.cli = cli, .lock_fd = -1, .stop_fd = -1, .ready_fd = -1};
    struct hw_error err = {0};
    if (strcmp(word, "kill") == 0) {
        s.name = name_of(&s, NULL);
        return s.name && kill_server(&s, &err) == HW_OK ? HW_EXIT_OK : hw_cli_fail(cli, &err);
    }
    for (size_t i = 0; i < HW_ARRAY_LEN(kinds); i++) {
        if (strcmp(kinds[i].name, word) != 0)
            continue;
        if (kinds[i].serve == serve_stdio && hw_opt_flag(&cli->opts, HW_OPT_TP_DAEMONIZE)) {
            hw_cli_error(cli, NULL, "--daemonize has no standard input to serve");
            return hw_cli_usage_exit(cli);
        }
        int parent = go_to_background(&s);
        return parent >= 0 ? parent : run(&s, &kinds[i], trace);
    }
    hw_cli_error(cli, NULL, "unknown kind of server '%s'", word);
    hw_cli_hint("server http, stdio, unix or kill");
    return hw_cli_usage_exit(cli);
}

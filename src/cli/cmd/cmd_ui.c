/*
 * heapwise ui [TRACE...], heapwise serve [TRACE...]: the page, on loopback or at --listen.
 *
 * Other users of the machine can reach loopback too, so every request needs a random token. It
 * follows the `#` of the address: browsers never send that part. Everybody can read a program's
 * arguments, so the browser is given a private file that redirects there. Output that does not go
 * to a terminal is a log that others may read: then the address with the token goes to such a file
 * too, and only the file is named.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "cli/parts/ui.h"
#include "config/command/settings.h"
#include "config/memlog_modes.h"
#include "fleet/store/store.h"
#include "open/symbol_options.h"
#include "record/token.h"
#include "record/tracked/tracked_options.h"
#include "record/web/continuous.h"
#include "record/web/web_recorder.h"
#include "server/api/samples.h"
#include "server/http/http.h"
#include "server/pages.h"

#include "base/banned.h"

enum { URL_MAX = 512, MAX_PEM = 1 << 20, MAX_HOSTS = 16 };

static int stop_pipe[2] = {-1, -1};

static void on_stop(int sig)
{
    ssize_t n = write(stop_pipe[1], "", 1);
    (void)n;                    /* full: a stop is already pending */
    (void)signal(sig, SIG_DFL); /* the second one does not wait */
}

static int catch_stops(struct hw_error *err)
{
    struct sigaction act = {.sa_handler = on_stop};
    if (pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return hw_fail_sys(err, "pipe");
    (void)sigaction(SIGINT, &act, NULL);
    (void)sigaction(SIGTERM, &act, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* a browser that disconnects shows as a write error */
    return HW_OK;
}

/* ---- the browser ---- */

struct door {
    char dir[PATH_MAX], page[PATH_MAX + 16], address[PATH_MAX + 16]; /* "" = none */
};

static void close_door(struct door *d)
{
    if (d->page[0])
        (void)unlink(d->page);
    if (d->address[0])
        (void)unlink(d->address);
    if (d->dir[0])
        (void)rmdir(d->dir);
}

/* A private directory: the service's or session's runtime directory, else in /tmp. */
static int make_dir(struct door *d, struct hw_error *err)
{
    const char *base = secure_getenv("RUNTIME_DIRECTORY"); /* systemd's; a single one, as our
                                                              unit asks for */
    if (!base || base[0] != '/' || access(base, W_OK) < 0)
        base = secure_getenv("XDG_RUNTIME_DIR");
    if (!base || base[0] != '/' || access(base, W_OK) < 0)
        base = "/tmp";
    int n = snprintf(d->dir, sizeof d->dir, "%s/heapwise-ui-XXXXXX", base);
    if (n < (int)sizeof d->dir && mkdtemp(d->dir)) /* 0700 */
        return HW_OK;
    d->dir[0] = '\0';
    return hw_fail_sys(err, "cannot make a directory for the address in '%s'", base);
}

static int write_file(struct door *d, char *path, size_t size, const char *name, const char *text,
                      struct hw_error *err)
{
    int rc = d->dir[0] ? HW_OK : make_dir(d, err);
    if (rc < 0)
        return rc;
    (void)snprintf(path, size, "%s/%s", d->dir, name);
    hw_autofd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || hw_fd_write_all(fd, text, strlen(text)) < 0)
        return hw_fail_sys(err, "cannot write '%s'", path);
    return HW_OK;
}

static int write_page(struct door *d, const char *url, struct hw_error *err)
{
    char page[2 * URL_MAX];
    (void)snprintf(page, sizeof page,
                   "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=%s\">\n", url);
    return write_file(d, d->page, sizeof d->page, "open.html", page, err);
}

static int write_address(struct door *d, const char *url, struct hw_error *err)
{
    char text[URL_MAX + 2];
    (void)snprintf(text, sizeof text, "%s\n", url);
    return write_file(d, d->address, sizeof d->address, "address", text, err);
}

static bool open_browser(const struct door *d)
{
    char *argv[] = {(char[]){"xdg-open"}, (char *)(uintptr_t)d->page, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY") && !getenv("BROWSER"))
        return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    bool ok = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    return ok; /* it may live as long as the browser; it is reaped with us */
}

/* ---- serving ---- */

enum { MAX_MORE_DIRS = 32 };

/* more_dirs: all files below them, by build id. */
static void add_names(void *ctx, struct hw_profile *p, const char *more_dirs, bool away,
                      struct hw_pb *out)
{
    unsigned flags = away ? HW_SYMBOL_OPTIONS_AWAY : 0;
    const struct hw_cli *cli = ctx;
    const char *dirs[MAX_MORE_DIRS];
    char *copy = more_dirs ? strdup(more_dirs) : NULL, *save = NULL;
    struct hw_symbol_options_where w = {
        .binaries = {.more = dirs, .mode = HW_BINARIES_INDEX, .paths_too = true}};
    struct hw_error err = {0};
    hw_symbol_options_by_environment_to(cli, p, flags, out);
    for (char *d = copy ? strtok_r(copy, "\n", &save) : NULL;
         d && w.binaries.n_more < MAX_MORE_DIRS; d = strtok_r(NULL, "\n", &save))
        dirs[w.binaries.n_more++] = d;
    if (w.binaries.n_more && hw_symbol_options_symbolize_from(cli, p, &w, flags, out, &err) < 0)
        hw_cli_error(cli, NULL, "cannot symbolize: %s", err.text);
    free(copy);
}

static void wait_for_stop(void)
{
    struct pollfd stop = {.fd = stop_pipe[0], .events = POLLIN};
    while (poll(&stop, 1, -1) <= 0)
        ;
}

/* How to serve; texts are borrowed from the command line or owned by serve(). */
struct serving {
    struct hw_cli *cli;
    const char *address; /* to listen on */
    char host[256];      /* for the printed address */
    uint16_t port;
    uint64_t max_upload;
    bool everywhere; /* reachable from other machines */
    bool browser, commands;
    bool own;         /* only its own user is served, who can read those files anyway */
    char *cert, *key; /* owned */
    const char *hosts[MAX_HOSTS];
    size_t n_hosts;
    char address_text[256], own_name[256];
    struct hw_tracked_options memlog;
    struct hw_store store; /* of the fleet; without a base: none */
};

/* The token goes to the user's terminal, or to a private file. */
static int tell_address(const struct serving *s, const char *url, struct door *door,
                        struct hw_error *err)
{
    const char *kept = hw_opt_text(&s->cli->opts, HW_OPT_UI_TOKEN_FILE);
    int shown = (int)strcspn(url, "#");
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "%s\n", url);
        return HW_OK;
    }
    if (kept) {
        fprintf(stderr, "%.*s needs the token in '%s': %.*s#token=...\n", shown, url, kept, shown,
                url);
        return HW_OK;
    }
    int rc = write_address(door, url, err);
    if (rc == HW_OK)
        fprintf(stderr, "%.*s needs a token: the whole address is in '%s', for you alone\n", shown,
                url, door->address);
    return rc;
}

static void announce(const struct serving *s, const char *url, struct door *door)
{
    struct hw_error err = {0};
    if (tell_address(s, url, door, &err) < 0) {
        hw_cli_error(s->cli, NULL, "%s", err.text);
        hw_cli_hint("--token-file FILE keeps the token where it can be written");
    }
    if (s->browser && write_page(door, url, &err) < 0)
        hw_cli_error(s->cli, NULL, "%s", err.text);
    else if (s->browser && !open_browser(door))
        hw_cli_hint("no browser could be started; open the address above in one");
    if (s->everywhere && !s->cert) {
        fprintf(stderr,
                "warning: not encrypted. Whoever sees the traffic on its way learns the token, "
                "and with it%s can\nread the traces and record processes with your rights. "
                "Better: --cert and --key, or a tunnel:\n"
                "  ssh -L %u:localhost:%u %s heapwise serve --port %u\n",
                s->commands ? " can start programs," : "", s->port ? s->port : 8080u,
                s->port ? s->port : 8080u, s->own_name[0] ? s->own_name : "HOST",
                s->port ? s->port : 8080u);
    }
    fprintf(stderr, "Ctrl-C ends. Whoever has the address can read the traces and record.\n");
}

static int serve_pages(const struct serving *s, struct hw_pages *pages, struct hw_error *err)
{
    char token[HW_TOKEN_MAX], url[URL_MAX];
    const char *file = hw_opt_text(&s->cli->opts, HW_OPT_UI_TOKEN_FILE);
    struct hw_http_options o = {.address = s->address,
                                .port = s->port,
                                .listen_fd = -1,
                                .routes = hw_pages_routes,
                                .n_routes = hw_n_pages_routes,
                                .ctx = pages,
                                .hosts = s->hosts,
                                .n_hosts = s->n_hosts,
                                .token = token,
                                .cert = s->cert,
                                .key = s->key,
                                .max_upload = s->max_upload,
                                .headers = hw_pages_headers,
                                .n_headers = hw_n_pages_headers,
                                .connection_new = hw_pages_connection_new,
                                .connection_free = hw_pages_connection_free};
    struct door door = {0};
    struct hw_http *h;
    int rc = file ? hw_token_keep(file, token, err) : hw_token_make(token, err);
    if (rc == HW_OK)
        rc = hw_http_start(&o, &h, err);
    if (rc < 0)
        return rc;
    (void)snprintf(url, sizeof url, "http%s://%s:%u/#token=%s", s->cert ? "s" : "", s->host,
                   hw_http_port(h), token);
    announce(s, url, &door);
    wait_for_stop();
    close_door(&door);
    hw_http_stop(h);
    return HW_OK;
}

static int serve(const struct serving *s, const struct hw_sql_limits *limits, char *const *traces,
                 size_t n, struct hw_error *err)
{
    const struct hw_optval *sources = &s->cli->opts.v[HW_OPT_UI_SOURCES];
    const struct hw_optval *dirs = &s->cli->opts.v[HW_OPT_UI_TRACES];
    hw_autofree char *kept = hw_state_dir();
    struct hw_pages_options o = {.limits = *limits,
                                 .add_names = add_names,
                                 .ctx = s->cli,
                                 .kept_dir = kept,
                                 .symbols = hw_symbol_options_places(s->cli),
                                 .sources = (const char *const *)sources->list.v,
                                 .n_sources = sources->list.n,
                                 .traces = (const char *const *)dirs->list.v,
                                 .n_traces = dirs->list.n,
                                 .own = s->own,
                                 .store = s->store.base ? &s->store : NULL};
    struct hw_pages *pages = NULL;
    struct hw_web_recorder *recorder = NULL;
    struct hw_continuous *continuous = NULL;
    unsigned id;
    hw_sql_limit_memory(limits->max_bytes);
    int rc = catch_stops(err);
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        if (access(hw_input_path(traces[i]), R_OK) < 0)
            rc = hw_fail_sys(err, "cannot open '%s'", traces[i]);
    if (rc == HW_OK)
        rc = hw_web_recorder_new(s->cli, s->commands, &recorder, err);
    if (rc == HW_OK) {
        o.recorder = hw_web_recorder_recorder(recorder);
        o.internals = hw_web_recorder_page_tracked(recorder);
        rc = hw_pages_new(&o, &pages, err);
    }
    if (rc == HW_OK)
        hw_web_recorder_set_pages(recorder, pages);
    if (rc == HW_OK && s->memlog.mode)
        rc = hw_tracked_set_mode(hw_web_tracked(recorder), s->memlog.mode, &s->memlog.how, err);
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        rc = hw_pages_open(pages, hw_input_path(traces[i]), &id, err);
    for (size_t i = 0;
         rc == HW_OK && i < hw_n_samples && hw_opt_flag(&s->cli->opts, HW_OPT_UI_DEMO); i++)
        rc = hw_pages_open_sample(pages, &hw_samples[i], &id, err);
    if (rc == HW_OK && hw_opt_flag(&s->cli->opts, HW_OPT_CONTINUOUS_MODE))
        rc = hw_continuous_start(s->cli, &continuous, err);
    if (rc == HW_OK)
        rc = serve_pages(s, pages, err);
    hw_continuous_stop(continuous);
    hw_web_recorder_free(recorder); /* the pages open its recordings */
    if (!hw_pages_free(pages))
        _exit(rc < 0 ? HW_EXIT_FAILED : HW_EXIT_OK); /* a reader hangs and still uses our memory */
    return rc;
}

/* ---- address, port and certificate ---- */

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 ||
           strcmp(address, "localhost") == 0;
}

/* ADDR, ADDR:PORT, [V6], [V6]:PORT. */
static int read_listen(struct serving *s, const char *text, struct hw_error *err)
{
    size_t n = strlen(text);
    const char *end = text[0] == '[' ? strchr(text, ']') : NULL;
    const char *colon = strrchr(end ? end : text, ':');
    uint64_t port;
    if (text[0] == '[' && !end)
        return hw_fail(err, HW_EINVAL, 0, "--listen: '%s' lacks a ']'", text);
    if (!end && colon && strchr(text, ':') != colon)
        colon = NULL; /* a bare IPv6 address */
    if (colon) {
        if (hw_parse_uint(colon + 1, &port, err) < 0 || port > UINT16_MAX)
            return hw_fail(err, HW_EINVAL, 0, "--listen: '%s' is not a port", colon + 1);
        s->port = (uint16_t)port;
        n = (size_t)(colon - text);
    }
    if (end) {
        text++;
        n = (size_t)(end - text);
    }
    if (n == 0 || n >= sizeof s->address_text)
        return hw_fail(err, HW_EINVAL, 0, "--listen needs an address; 0.0.0.0 means all");
    (void)snprintf(s->address_text, sizeof s->address_text, "%.*s", (int)n, text);
    s->address = s->address_text;
    s->everywhere = !is_loopback(s->address);
    return HW_OK;
}

static void name_host(struct serving *s)
{
    bool all = strcmp(s->address, "0.0.0.0") == 0 || strcmp(s->address, "::") == 0;
    if (gethostname(s->own_name, sizeof s->own_name - 1) < 0)
        s->own_name[0] = '\0';
    if (s->everywhere && s->own_name[0] && s->n_hosts < MAX_HOSTS)
        s->hosts[s->n_hosts++] = s->own_name;
    const char *shown = all ? s->own_name[0] ? s->own_name : "localhost" : s->address;
    (void)snprintf(s->host, sizeof s->host, strchr(shown, ':') ? "[%.250s]" : "%.250s", shown);
}

static int read_pem(const char *path, char **out, struct hw_error *err)
{
    size_t n;
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return hw_fail_sys(err, "cannot open '%s'", path);
    return hw_fd_read_file(fd, MAX_PEM, out, &n, err); /* including the NUL */
}

static int read_where(struct serving *s, struct hw_error *err)
{
    const struct hw_opts *o = &s->cli->opts;
    const char *listen = hw_opt_text(o, HW_OPT_UI_LISTEN), *cert = hw_opt_text(o, HW_OPT_UI_CERT),
               *key = hw_opt_text(o, HW_OPT_UI_KEY);
    const struct hw_optval *hosts = &o->v[HW_OPT_UI_HOST];
    int rc = listen ? read_listen(s, listen, err) : HW_OK;
    for (size_t i = 0; i < hosts->list.n && s->n_hosts < MAX_HOSTS - 1; i++)
        s->hosts[s->n_hosts++] = hosts->list.v[i];
    if (rc == HW_OK && !cert != !key)
        rc = hw_fail(err, HW_EINVAL, 0, "--cert and --key belong together");
    if (rc == HW_OK && cert)
        rc = read_pem(cert, &s->cert, err);
    if (rc == HW_OK && key)
        rc = read_pem(key, &s->key, err);
    name_host(s);
    return rc;
}

/* From the options, else the variable; an unknown mode is a usage error. */
static int read_memlog(const struct hw_opts *o, struct hw_tracked_options *out,
                       struct hw_error *err)
{
    const char *variable = secure_getenv("MEMLOG");
    struct hw_memlog parsed = {0};
    int rc = hw_tracked_options(o, out, err);
    if (rc == HW_OK && !out->mode && variable && variable[0])
        out->mode = variable;
    if (rc == HW_OK && out->mode)
        rc = hw_memlog_parse(hw_bytes_str(out->mode), &parsed, err);
    hw_memlog_done(&parsed);
    return rc;
}

static int read_store(struct serving *s, struct hw_error *err)
{
    const char *url = hw_opt_text(&s->cli->opts, HW_OPT_STORE);
    bool given = url && url[0]; /* HEAPWISE_STORE= means none */
    int rc = given ? hw_store_init(&s->store, url, err) : HW_OK;
    return rc == HW_OK && given ? hw_store_check_queries(&s->store, err) : rc;
}

/* An option without effect is a mistake, most likely a forgotten --continuous. */
static int check_continuous(const struct hw_opts *o, struct hw_error *err)
{
    static const struct {
        enum hw_option_id id;
        const char *name;
    } its[] = {{HW_OPT_NAME, "name"},
               {HW_OPT_CONT_DIR, "profiles"},
               {HW_OPT_CONT_EVERY, "every"},
               {HW_OPT_CONT_KEEP, "keep-for"},
               {HW_OPT_CONT_KEEP_SIZE, "keep-size"},
               {HW_OPT_CONT_PUSH, "push-to"},
               {HW_OPT_CONT_CPU, "max-cpu"}};
    if (hw_opt_flag(o, HW_OPT_CONTINUOUS_MODE))
        return HW_OK;
    for (size_t i = 0; i < HW_ARRAY_LEN(its); i++) {
        const struct hw_optval *v = &o->v[its[i].id];
        if (v->set && v->origin && strcmp(v->origin, "command line") == 0)
            return hw_fail(err, HW_EINVAL, 0,
                           "--%s is for recording that is left on: add --continuous", its[i].name);
    }
    return HW_OK;
}

static int run(struct hw_cli *cli, bool browser, bool own)
{
    const struct hw_opts *o = &cli->opts;
    struct hw_sql_limits limits = {.timeout_ms = (uint32_t)hw_opt_num(o, HW_OPT_UI_QUERY_TIMEOUT),
                                   .max_bytes = hw_opt_num(o, HW_OPT_UI_QUERY_MEMORY)};
    struct serving s = {.cli = cli,
                        .address = "127.0.0.1",
                        .port = (uint16_t)hw_opt_num(o, HW_OPT_UI_PORT),
                        .max_upload = hw_opt_num(o, HW_OPT_UI_MAX_UPLOAD),
                        .browser = browser};
    struct hw_error err = {0};
    int rc = read_where(&s, &err);
    if (rc == HW_OK)
        rc = read_memlog(o, &s.memlog, &err);
    s.own = own || (!s.everywhere && geteuid() != 0);
    s.commands = s.own || hw_opt_flag(o, HW_OPT_UI_ALLOW_COMMANDS);
    if (rc == HW_OK)
        rc = check_continuous(o, &err);
    if (rc == HW_OK)
        rc = read_store(&s, &err);
    bool usage = rc == HW_EINVAL;
    if (rc == HW_OK)
        rc = serve(&s, &limits, o->args, o->n_args, &err);
    hw_store_done(&s.store);
    free(s.cert);
    free(s.key);
    if (usage) {
        hw_cli_error(cli, NULL, "%s", err.text);
        return HW_EXIT_USAGE;
    }
    return rc < 0 ? hw_cli_fail(cli, &err) : HW_EXIT_OK;
}

int hw_ui_show(struct hw_cli *cli, char *trace)
{
    struct hw_sql_limits limits = {.timeout_ms = 60000, .max_bytes = UINT64_C(1) << 30};
    struct serving s = {.cli = cli,
                        .address = "127.0.0.1",
                        .host = "127.0.0.1",
                        .browser = true,
                        .commands = true,
                        .own = true};
    struct hw_error err = {0};
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL); /* the recording listened to them by other means */
    int rc = serve(&s, &limits, &trace, 1, &err);
    return rc < 0 ? hw_cli_fail(cli, &err) : HW_EXIT_OK;
}

int hw_cmd_ui(struct hw_cli *cli)
{
    return run(cli, /* browser = */ !hw_opt_flag(&cli->opts, HW_OPT_UI_NO_OPEN), /* own = */ true);
}

int hw_cmd_serve(struct hw_cli *cli)
{
    return run(cli, /* browser = */ false, /* own = */ false);
}

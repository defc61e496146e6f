/*
 * heapwise ui [TRACE...], heapwise serve [TRACE...]: the page, on loopback.
 *
 * Other users of the machine reach loopback too, so every question needs a random token. It stands
 * behind the `#` of the address: browsers keep that part to themselves. The arguments of a program
 * can be read by everybody, so the browser is given a file of this user's alone that leads there.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "cli/cli.h"
#include "cli/desk.h"
#include "cli/names.h"
#include "cli/show.h"
#include "server/http.h"
#include "server/pages.h"

#include "base/banned.h"

enum { TOKEN_BYTES = 24, URL_MAX = 160 };

static int stop_pipe[2] = {-1, -1};

static void on_stop(int sig)
{
    ssize_t n = write(stop_pipe[1], "", 1);
    (void)n;                    /* full: the stop is known already */
    (void)signal(sig, SIG_DFL); /* the second one does not wait for anything */
}

static int catch_stops(struct hw_error *err)
{
    struct sigaction act = {.sa_handler = on_stop};
    if (pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) < 0)
        return hw_fail_sys(err, "pipe");
    (void)sigaction(SIGINT, &act, NULL);
    (void)sigaction(SIGTERM, &act, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* a browser that leaves is an error of write */
    return HW_OK;
}

static int make_token(char out[2 * TOKEN_BYTES + 1], struct hw_error *err)
{
    unsigned char bytes[TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return hw_fail_sys(err, "no random numbers for the token");
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return HW_OK;
}

/* ---- the browser ---- */

struct door {
    char dir[64], file[80]; /* "" = none */
};

static void close_door(struct door *d)
{
    if (d->file[0])
        (void)unlink(d->file);
    if (d->dir[0])
        (void)rmdir(d->dir);
}

static int make_door(struct door *d, const char *url, struct hw_error *err)
{
    *d = (struct door){.dir = "/tmp/heapwise-ui-XXXXXX"};
    if (!mkdtemp(d->dir)) { /* 0700 */
        d->dir[0] = '\0';
        return hw_fail_sys(err, "cannot make a directory in /tmp");
    }
    (void)snprintf(d->file, sizeof d->file, "%s/open.html", d->dir);
    hw_autofd int fd = open(d->file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    char page[2 * URL_MAX];
    int n = snprintf(page, sizeof page,
                     "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=%s\">\n", url);
    if (fd < 0 || hw_fd_write_all(fd, page, (size_t)n) < 0)
        return hw_fail_sys(err, "cannot write '%s'", d->file);
    return HW_OK;
}

static bool open_browser(const struct door *d)
{
    char *argv[] = {(char[]){"xdg-open"}, (char *)(uintptr_t)d->file, NULL};
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

static void add_names(void *ctx, struct hw_profile *p)
{
    hw_names_by_environment(ctx, p);
}

static void wait_for_stop(void)
{
    struct pollfd stop = {.fd = stop_pipe[0], .events = POLLIN};
    while (poll(&stop, 1, -1) <= 0)
        ;
}

static void announce(const struct hw_cli *cli, const char *url, struct door *door, bool browser)
{
    struct hw_error err = {0};
    fprintf(stderr, "%s\n", url);
    if (browser && make_door(door, url, &err) < 0)
        hw_cli_error(cli, NULL, "%s", err.text);
    else if (browser && !open_browser(door))
        hw_cli_hint("no browser could be started; open the address above in one");
    fprintf(stderr, "Ctrl-C ends. Whoever has the address can read the traces.\n");
}

static int serve_pages(struct hw_cli *cli, struct hw_pages *pages, bool browser,
                       struct hw_error *err)
{
    char token[2 * TOKEN_BYTES + 1], url[URL_MAX];
    struct hw_http_options o = {.address = "127.0.0.1",
                                .port = (uint16_t)hw_opt_num(&cli->opts, HW_OPT_UI_PORT),
                                .listen_fd = -1,
                                .routes = hw_pages_routes,
                                .n_routes = hw_n_pages_routes,
                                .ctx = pages,
                                .token = token,
                                .headers = hw_pages_headers,
                                .n_headers = hw_n_pages_headers,
                                .connection_new = hw_pages_connection_new,
                                .connection_free = hw_pages_connection_free};
    struct door door = {0};
    struct hw_http *h;
    int rc = make_token(token, err);
    if (rc == HW_OK)
        rc = hw_http_start(&o, &h, err);
    if (rc < 0)
        return rc;
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/#token=%s", hw_http_port(h), token);
    announce(cli, url, &door, browser);
    wait_for_stop();
    close_door(&door);
    hw_http_stop(h);
    return HW_OK;
}

static int run(struct hw_cli *cli, bool browser)
{
    uint64_t memory = hw_opt_num(&cli->opts, HW_OPT_UI_QUERY_MEMORY);
    struct hw_pages_options o = {
        .limits = {.timeout_ms = (uint32_t)hw_opt_num(&cli->opts, HW_OPT_UI_QUERY_TIMEOUT),
                   .max_bytes = memory},
        .add_names = add_names,
        .ctx = cli};
    struct hw_pages *pages = NULL;
    struct hw_desk *desk = NULL;
    struct hw_error err = {0};
    unsigned id;
    hw_sql_limit_memory(memory);
    int rc = catch_stops(&err);
    for (size_t i = 0; rc == HW_OK && i < cli->opts.n_args; i++)
        if (access(hw_input_path(cli->opts.args[i]), R_OK) < 0)
            rc = hw_fail_sys(&err, "cannot open '%s'", cli->opts.args[i]);
    if (rc == HW_OK)
        rc = hw_desk_new(cli, /* commands = */ true, &desk, &err);
    if (rc == HW_OK) {
        o.recorder = hw_desk_recorder(desk);
        rc = hw_pages_new(&o, &pages, &err);
    }
    if (rc == HW_OK)
        hw_desk_set_pages(desk, pages);
    for (size_t i = 0; rc == HW_OK && i < cli->opts.n_args; i++)
        rc = hw_pages_open(pages, hw_input_path(cli->opts.args[i]), &id, &err);
    if (rc == HW_OK)
        rc = serve_pages(cli, pages, browser, &err);
    hw_desk_free(desk); /* its recordings are opened in the pages */
    hw_pages_free(pages);
    return rc < 0 ? hw_cli_fail(cli, &err) : HW_EXIT_OK;
}

int hw_cmd_ui(struct hw_cli *cli)
{
    return run(cli, /* browser = */ !hw_opt_flag(&cli->opts, HW_OPT_UI_NO_OPEN));
}

int hw_cmd_serve(struct hw_cli *cli)
{
    return run(cli, /* browser = */ false);
}

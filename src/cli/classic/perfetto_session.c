/*
 * What perfetto does with recordings that are already running, and with its own output.
 *
 * A clone is a copy of bytes: the service dumps all processes of the session, then hands over the
 * session's file and how much of it is complete. That is copied here and finished with the packets
 * that end a trace.
 */
#include "cli/classic/perfetto_command.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "cli/cli.h"
#include "config/command/units.h"
#include "daemon/recorder.h"
#include "record/controller.h"
#include "record/service.h"
#include "trace/writer.h"

#include "base/banned.h"

enum { ANSWER_MS = 5000, CLONE_MS = 30000, NOT_DETACHED = 2 };

int hw_perfetto_connect(struct hw_perfetto *p)
{
    struct hw_error err = {0};
    int rc = hw_controller_connect(NULL, &p->controller, &err);
    if (rc == 0)
        return HW_EXIT_OK;
    fprintf(stderr, "Could not connect to the traced socket %s: %s [no-service]\n",
            hw_default_consumer_socket(), err.text);
    hw_cli_hint("start the service: traced (or heapprofd)");
    return HW_EXIT_FAILED;
}

/* ---- the output ---- */

int hw_perfetto_open_output(struct hw_perfetto *p)
{
    const struct hw_opts *o = &p->cli->opts;
    const char *out = hw_opt_text(o, HW_OPT_OUT);
    if (hw_opt_flag(o, HW_OPT_UPLOAD)) {
        hw_cli_error(p->cli, NULL, "--upload exists on Android only; use --out");
        return HW_EXIT_FAILED;
    }
    if (out && p->checked.output_path) {
        hw_cli_error(p->cli, NULL, "--out and output_path in the configuration exclude each other");
        return HW_EXIT_FAILED;
    }
    p->path = out ? out : p->checked.output_path;
    if (!p->path) {
        fprintf(stderr, "Either --out or --upload is required\n");
        return HW_EXIT_FAILED;
    }
    if (strcmp(p->path, "-") == 0) {
        if (isatty(STDOUT_FILENO)) {
            hw_cli_error(p->cli, NULL, "a trace is not for a terminal: redirect it");
            return HW_EXIT_FAILED;
        }
        p->fd = memfd_create("heapwise-trace", MFD_CLOEXEC);
    } else {
        bool fresh = !out || hw_opt_flag(o, HW_OPT_NO_CLOBBER);
        p->made_file = access(p->path, F_OK) != 0;
        p->fd = open(p->path, O_RDWR | O_CREAT | O_CLOEXEC | (fresh ? O_EXCL : O_TRUNC), 0600);
    }
    if (p->fd >= 0)
        return HW_EXIT_OK;
    hw_cli_error(p->cli, NULL, "cannot write '%s': %s", p->path, strerror(errno));
    return HW_EXIT_FAILED;
}

/* The first `bytes` of a file, or fewer if it has shrunk; by pread, as its owner keeps writing. */
static bool copy_file(int from, uint64_t bytes, int to)
{
    enum { CHUNK = 1 << 16 };
    char buffer[CHUNK];
    uint64_t at = 0;
    while (at < bytes) {
        ssize_t n =
            pread(from, buffer, bytes - at < CHUNK ? (size_t)(bytes - at) : CHUNK, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0;
        if (hw_fd_write_all(to, buffer, (size_t)n) < 0)
            return false;
        at += (uint64_t)n;
    }
    return true;
}

int hw_perfetto_copy_to_stdout(const struct hw_perfetto *p)
{
    return copy_file(p->fd, INT64_MAX, STDOUT_FILENO) ? HW_EXIT_OK : HW_EXIT_FAILED;
}

/* ---- the service's state ---- */

/* Names given by others: sessions, keys, files, programs. */
static void print_outside(const char *text)
{
    struct hw_strbuf b = {0};
    hw_strbuf_add_escaped(&b, text, strlen(text));
    (void)fputs(b.failed ? "?" : b.p ? b.p : "", stdout);
    hw_strbuf_done(&b);
}

static void print_fact(const char *what, const char *text)
{
    printf("       %s: ", what);
    print_outside(text);
    putchar('\n');
}

static void print_session(const struct hw_service_session *s, bool all)
{
    char time[HW_UNIT_MAX], samples[HW_UNIT_MAX];
    printf("%-6s %-6" PRIu64 " %-9s %9s %9s %6" PRIu64 " %6" PRIu64 " %9zu  ", s->ref, s->uid,
           s->detached[0] && strcmp(s->state, "running") == 0 ? "detached" : s->state,
           hw_fmt_clock(time, (int64_t)s->seconds * 1000000000),
           hw_fmt_count(samples, (double)s->samples), s->lost, s->dumps, s->targets.n);
    print_outside(s->name);
    putchar('\n');
    if (!all)
        return;
    print_fact("file", s->file[0] ? s->file : "?");
    if (s->detached[0])
        print_fact("detached with key", s->detached);
    else
        printf("       command: pid %d\n", s->controller_pid);
    if (s->duration_ms)
        printf("       duration: %s\n", hw_fmt_duration(time, (int64_t)s->duration_ms * 1000000));
    for (size_t i = 0; i < s->targets.n; i++) {
        printf("       process: %d ", s->targets.v[i].pid);
        print_outside(s->targets.v[i].name);
        printf(" (%s)\n", s->targets.v[i].state);
    }
}

static void print_state(const struct hw_service_state *s, bool all)
{
    printf("service: heapwise %s, pid %d\n", s->version, s->pid);
    printf("programs connect to: %s\n", s->producer_socket);
    printf("programs that wait for a session: %" PRIu64 "\n", s->waiting_clients);
    if (s->refused_clients)
        printf("programs refused since their user has too many: %" PRIu64 "\n", s->refused_clients);
    if (all)
        printf("data sources: android.heapprofd, linux.process_stats, linux.system_info, "
               "android.packages_list (empty)\n");
    printf("\n%-6s %-6s %-9s %9s %9s %6s %6s %9s  %s\n", "ID", "UID", "STATE", "TIME", "SAMPLES",
           "LOST", "DUMPS", "PROCESSES", "NAME");
    for (size_t i = 0; i < s->sessions.n; i++)
        print_session(&s->sessions.v[i], all);
}

static int print_raw(struct hw_perfetto *p, struct hw_error *err)
{
    struct hw_controller_event e;
    int rc = hw_controller_request_status(p->controller, err);
    if (rc == 0)
        rc = hw_controller_wait(p->controller, HW_CTL_STATUS_REPLY, ANSWER_MS, &e, err);
    if (rc == 0)
        printf("%.*s\n", (int)e.body.n, (const char *)e.body.p);
    return rc;
}

int hw_perfetto_query(struct hw_perfetto *p)
{
    struct hw_error err = {0};
    struct hw_service_state s;
    int status = hw_perfetto_connect(p);
    if (status != HW_EXIT_OK)
        return status;
    int rc;
    if (hw_opt_flag(&p->cli->opts, HW_OPT_QUERY_RAW)) {
        rc = print_raw(p, &err);
    } else {
        rc = hw_service_refresh(p->controller, &s, &err);
        if (rc == 0) {
            print_state(&s, hw_opt_flag(&p->cli->opts, HW_OPT_QUERY_LONG));
            hw_service_state_done(&s);
        }
    }
    return rc < 0 ? hw_cli_fail(p->cli, &err) : HW_EXIT_OK;
}

/* For scripts: the exit status is the answer, 0 yes, 2 no, 1 could not ask. */
int hw_perfetto_is_detached(struct hw_perfetto *p, const char *key)
{
    struct hw_error err = {0};
    struct hw_service_state s;
    int status = hw_perfetto_connect(p);
    if (status != HW_EXIT_OK)
        return status;
    if (hw_service_refresh(p->controller, &s, &err) < 0)
        return hw_cli_fail(p->cli, &err);
    bool found = false;
    for (size_t i = 0; i < s.sessions.n; i++)
        found |= s.sessions.v[i].uid == geteuid() && key[0] &&
                 strcmp(s.sessions.v[i].detached, key) == 0 &&
                 strcmp(s.sessions.v[i].state, "running") == 0;
    hw_service_state_done(&s);
    return found ? HW_EXIT_OK : NOT_DETACHED;
}

/* ---- clone ---- */

/* The end of a trace: packets that the original gets only later. */
static int write_end(int fd, struct hw_error *err)
{
    struct hw_trace_writer *w;
    int rc = hw_trace_writer_new(fd, &w, err);
    if (rc < 0)
        return rc;
    rc = hw_trace_write_event(w, 5 /* tracing_disabled */, err);
    if (rc == 0)
        rc = hw_trace_write_stats(w, /* n_missed = */ 0, err);
    hw_trace_writer_free(w);
    return rc;
}

static int copy_clone(struct hw_perfetto *p, const struct hw_control_cloned *c)
{
    struct hw_error err = {0};
    hw_autofd int from = hw_controller_take_fd(p->controller);
    if (from < 0 || !copy_file(from, c->bytes, p->fd)) {
        hw_cli_error(p->cli, NULL, "cannot copy the session's file: %s",
                     from < 0 ? "the service did not hand it over" : strerror(errno));
        return HW_EXIT_FAILED;
    }
    struct stat st = {0};
    if (write_end(p->fd, &err) < 0 || fstat(p->fd, &st) < 0 ||
        (strcmp(p->path, "-") == 0 && hw_perfetto_copy_to_stdout(p) != HW_EXIT_OK)) {
        hw_cli_error(p->cli, NULL, "cannot write '%s': %s", p->path,
                     err.text[0] ? err.text : strerror(errno));
        return HW_EXIT_FAILED;
    }
    if (c->n_missing)
        hw_cli_error(p->cli, NULL,
                     "%" PRIu32 " of %" PRIu32 " processes did not dump in time: they "
                     "are in the clone as their dump before left them",
                     c->n_missing, c->n_targets);
    fprintf(stderr, "Wrote %llu bytes into %s\n", (unsigned long long)st.st_size,
            strcmp(p->path, "-") == 0 ? "stdout" : p->path);
    return HW_EXIT_OK;
}

int hw_perfetto_clone(struct hw_perfetto *p)
{
    const struct hw_opts *o = &p->cli->opts;
    const char *name = hw_opt_text(o, HW_OPT_CLONE_NAME);
    uint64_t id = hw_opt_num(o, HW_OPT_CLONE);
    struct hw_error err = {0};
    struct hw_controller_event e;
    struct hw_control_cloned c;
    if (!name && id == 0) {
        hw_cli_error(p->cli, NULL, "--clone needs a session's number, from perfetto --query");
        return HW_EXIT_FAILED;
    }
    int status = hw_perfetto_connect(p);
    if (status == HW_EXIT_OK)
        status = hw_perfetto_open_output(p);
    if (status != HW_EXIT_OK)
        return status;
    int rc = hw_controller_clone(p->controller, id, name, &err);
    if (rc == 0)
        rc = hw_controller_wait(p->controller, HW_CTL_CLONED, CLONE_MS, &e, &err);
    if (rc == 0 && !hw_controller_body(&e, &c, sizeof c))
        rc = hw_fail(&err, HW_EFORMAT, 0, "the service's answer cannot be read");
    if (rc == 0)
        return copy_clone(p, &c);
    hw_cli_error(p->cli, "no-recording", "cannot clone session '%s': %s",
                 name ? name : hw_opt_text(o, HW_OPT_CLONE), err.text);
    if (p->made_file)
        (void)unlink(p->path); /* it is empty */
    return HW_EXIT_FAILED;
}

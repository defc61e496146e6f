/*
 * ps: running recordings (by whom, of what, for how long), then processes: whether they can be
 * profiled, why not, and which recording has them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "base/text/strbuf.h"
#include "base/text/utf8.h"
#include "cli/all_recorders.h"
#include "cli/cli.h"
#include "config/command/units.h"
#include "proc/pid.h"
#include "record/processes.h"
#include "record/running.h"
#include "record/service.h"

#include "base/banned.h"
#include "cli/parts/json_page.h"

/* ---- selection ---- */

static bool is_meant(void *ctx, int32_t pid, const char *argv0)
{
    const struct hw_cli *cli = ctx;
    for (size_t i = 0; i < cli->opts.n_args; i++)
        if (hw_running_is_meant(cli->opts.args[i], pid, argv0))
            return true;
    return cli->opts.n_args == 0;
}

/* ---- table ---- */

enum { NAME_COLUMNS = 24 };

/* What attach takes as its name, or else what people know it by; cut to its column. */
static void print_name(const struct hw_process_row *r, size_t width)
{
    struct hw_strbuf b = {0};
    char name[sizeof r->name];
    const char *shown = name;
    if (r->name[0] == '[' || !hw_running_name(r->pid, r->name, name, sizeof name))
        shown = hw_proc_shown_name(r->name);
    shown = shown[0] ? shown : r->name;
    hw_strbuf_add_escaped(&b, shown, strlen(shown));
    const char *text = b.failed || !b.p ? "?" : b.p;
    size_t n = 0, columns = 0, room = hw_text_width(text) > width ? width - 3 : width;
    for (size_t one; text[n] && columns < room; n += one ? one : 1, columns++)
        one = hw_utf8_len(text + n, strlen(text + n));
    printf("%.*s%-*s", (int)n, text, (int)(width - columns), text[n] ? "..." : "");
    hw_strbuf_done(&b);
}

/* "heapwise (4240)", "detached as 'key'", "perfetto (12)". */
static void command_text(const struct hw_service_session *s, char *out, size_t max)
{
    struct hw_pid p;
    struct hw_proc_status status = {0};
    if (s->detached[0]) {
        (void)snprintf(out, max, "detached as '%s'", s->detached);
        return;
    }
    if (s->controller_pid > 0 && hw_pid_open(s->controller_pid, &p, NULL) == 0) {
        (void)hw_proc_status(p.dir, &status); /* if it fails: the pid alone */
        hw_pid_done(&p);
    }
    (void)snprintf(out, max, "%s (%d)", status.name, s->controller_pid);
}

static void print_session(const struct hw_service_session *s)
{
    char text[160], by[512], user[32], time[HW_UNIT_MAX], samples[HW_UNIT_MAX];
    command_text(s, text, sizeof text);
    (void)hw_utf8_escape(by, sizeof by, text, ""); /* named by its user */
    printf("recording %s by %s, user %s: %s, %zu process%s, %s samples, %llu lost, %llu dump%s%s\n",
           s->ref, by, hw_user_name(s->uid, user),
           hw_fmt_clock(time, (int64_t)s->seconds * 1000000000), s->targets.n,
           s->targets.n == 1 ? "" : "es", hw_fmt_count(samples, (double)s->samples),
           (unsigned long long)s->lost, (unsigned long long)s->dumps, hw_plural(s->dumps),
           strcmp(s->state, "stopping") == 0 ? ", ending" : "");
    if (s->file[0]) {
        printf("    to ");
        struct hw_strbuf b = {0};
        hw_strbuf_add_escaped(&b, s->file, strlen(s->file));
        printf("%s\n", b.failed || !b.p ? "?" : b.p);
        hw_strbuf_done(&b);
    }
}

static void print_sessions(const struct hw_recorders *all)
{
    for (size_t r = 0; r < all->all.n; r++)
        for (size_t i = 0; i < all->all.v[r].state.sessions.n; i++)
            print_session(&all->all.v[r].state.sessions.v[i]);
    if (hw_recorders_sessions(all))
        putchar('\n');
}

static void print_rows(const hw_process_rows *rows)
{
    printf("%8s %-10s %10s  %-*s %s\n", "PID", "USER", "RSS MiB", NAME_COLUMNS, "NAME", "PROFILE");
    for (size_t i = 0; i < rows->n; i++) {
        const struct hw_process_row *r = &rows->v[i];
        char user[32];
        printf("%8d %-10s %10.1f  ", r->pid, hw_user_name(r->uid, user), (double)r->rss_kb / 1024);
        print_name(r, NAME_COLUMNS);
        if (r->session)
            printf(" in recording %s", r->session->ref);
        else
            printf(" %s", r->why.code ? r->why.code : "yes");
        if (r->inside)
            printf(" (%d in its namespace)", r->inside);
        putchar('\n');
    }
}

/* Prints the reasons for processes asked for by name, else where reasons are explained. */
static void print_reasons(const struct hw_cli *cli, const hw_process_rows *rows)
{
    bool any = false;
    for (size_t i = 0; i < rows->n; i++)
        any |= rows->v[i].why.code != NULL;
    if (!any)
        return;
    if (cli->opts.n_args == 0) {
        printf("\nwhat a word in the last column means: heapwise explain WORD\n");
        return;
    }
    putchar('\n');
    for (size_t i = 0; i < rows->n; i++)
        if (rows->v[i].why.code) {
            char text[2 * sizeof rows->v[i].why.text];
            (void)hw_utf8_escape(text, sizeof text, rows->v[i].why.text, "");
            printf("%d: %s [%s]\n", rows->v[i].pid, text, rows->v[i].why.code);
        }
}

static int print_text(struct hw_cli *cli, const hw_process_rows *rows,
                      const struct hw_recorders *all)
{
    if (rows->n == 0 && cli->opts.n_args) {
        hw_cli_error(cli, "no-process", "no such process: '%s'", cli->opts.args[0]);
        return HW_EXIT_FAILED;
    }
    print_sessions(all);
    if (rows->n)
        print_rows(rows);
    else
        printf("no process can be profiled now (--all shows every process and why not)\n");
    print_reasons(cli, rows);
    return HW_EXIT_OK;
}

/* ---- JSON ---- */

static void json_session(struct hw_json *j, const struct hw_recorder_seen *r,
                         const struct hw_service_session *s)
{
    hw_json_begin_object(j);
    hw_json_kv_str(j, "ref", s->ref);
    hw_json_kv_uint(j, "id", s->id);
    hw_json_kv_int(j, "recorder_pid", r->state.pid);
    hw_json_kv_bool(j, "embedded", r->embedded);
    hw_json_kv_int(j, "controller_pid", s->controller_pid);
    hw_json_kv_uint(j, "uid", s->uid);
    hw_json_kv_str(j, "state", s->state);
    hw_json_kv_str(j, "file", s->file[0] ? s->file : NULL);
    hw_json_kv_str(j, "detached", s->detached[0] ? s->detached : NULL);
    hw_json_kv_uint(j, "seconds", s->seconds);
    hw_json_kv_uint(j, "bytes", s->bytes);
    hw_json_kv_uint(j, "samples", s->samples);
    hw_json_kv_uint(j, "lost", s->lost);
    hw_json_kv_uint(j, "dumps", s->dumps);
    hw_json_key(j, "pids");
    hw_json_begin_array(j);
    for (size_t i = 0; i < s->targets.n; i++)
        hw_json_int(j, s->targets.v[i].pid);
    hw_json_end_array(j);
    hw_json_end_object(j);
}

static void json_row(struct hw_json *j, const struct hw_process_row *r)
{
    hw_json_begin_object(j);
    hw_json_kv_int(j, "pid", r->pid);
    hw_json_key(j, "inner_pid");
    if (r->inside)
        hw_json_int(j, r->inside);
    else
        hw_json_null(j);
    hw_json_kv_str(j, "name", r->name);
    hw_json_kv_uint(j, "uid", r->uid);
    hw_json_kv_uint(j, "rss_kb", r->rss_kb);
    hw_json_kv_bool(j, "eligible", !r->why.code);
    hw_json_kv_str(j, "code", r->why.code);
    hw_json_kv_str(j, "reason", r->why.code ? r->why.text : NULL);
    hw_json_key(j, "recording");
    if (r->session)
        hw_json_uint(j, r->session->id);
    else
        hw_json_null(j);
    hw_json_kv_str(j, "recording_ref", r->session ? r->session->ref : NULL);
    hw_json_end_object(j);
}

static int print_json(const hw_process_rows *rows, const struct hw_recorders *all)
{
    struct hw_json j;
    hw_json_page_begin(&j, stdout, "ps", 0);
    hw_json_kv_bool(&j, "service", all->all.n && !all->all.v[0].embedded);
    hw_json_key(&j, "silent_recorders");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < all->silent.n; i++)
        hw_json_int(&j, all->silent.v[i]);
    hw_json_end_array(&j);
    hw_json_key(&j, "recordings");
    hw_json_begin_array(&j);
    for (size_t r = 0; r < all->all.n; r++)
        for (size_t i = 0; i < all->all.v[r].state.sessions.n; i++)
            json_session(&j, &all->all.v[r], &all->all.v[r].state.sessions.v[i]);
    hw_json_end_array(&j);
    hw_json_key(&j, "processes");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < rows->n; i++)
        json_row(&j, &rows->v[i]);
    hw_json_end_array(&j);
    int rc = hw_json_page_end(&j);
    return rc < 0 ? HW_EXIT_FAILED : HW_EXIT_OK;
}

int hw_cmd_ps(struct hw_cli *cli)
{
    struct hw_error err = {0};
    struct hw_recorders all;
    hw_process_rows rows = {0};
    bool every = hw_opt_flag(&cli->opts, HW_OPT_ALL_PROCESSES) || cli->opts.n_args;
    if (hw_cli_query_recorders(cli, &all, &err) < 0 ||
        hw_processes_find(&all, is_meant, cli, every, /* known = */ NULL, &rows) < 0) {
        hw_cli_error(cli, NULL, "cannot read /proc");
        return HW_EXIT_FAILED;
    }
    int status = hw_opt_flag(&cli->opts, HW_OPT_JSON) ? print_json(&rows, &all)
                                                      : print_text(cli, &rows, &all);
    hw_vec_done(&rows);
    hw_recorders_done(&all);
    return status;
}

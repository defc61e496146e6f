/*
 * heapwise memory-internals: which processes are tracked for heap dumps, and what to do about it.
 *
 *   list              the table, as the page shows it
 *   start PID|NAME... these; `all`: every process and each new one; `new`: those that start
 *   mode [MODE]       what is tracked of those that start; without a word: which mode it is
 *   save [PID|NAME..] a dump of these, else of all that are tracked
 *   stop [PID|NAME..] these, else all, and no mode
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/strbuf.h"
#include "cli/cli.h"
#include "config/command/explain.h"
#include "config/command/units.h"
#include "proc/pid.h"
#include "record/record_options.h"
#include "record/running.h"
#include "record/tracked/tracked_options.h"
#include "record/tracked/tracked_processes.h"
#include "wire/handshake.h"

#include "base/banned.h"
#include "cli/parts/json_page.h"

struct run {
    struct hw_cli *cli;
    struct hw_tracked *m;
    char **words; /* after the verb */
    size_t n_words;
};

/* ---- list ---- */

static void tracked_text(const struct hw_tracked_row *r, char *out, size_t max)
{
    char time[HW_UNIT_MAX], rate[HW_UNIT_MAX];
    const struct hw_service_session *s = r->process->session;
    if (r->tracked)
        (void)snprintf(out, max, "%s, %s, %s",
                       hw_fmt_clock(time, (int64_t)r->target->seconds * 1000000000),
                       hw_fmt_bytes_exact(rate, s->interval),
                       hw_stack_mode_words[s->stack_mode < HW_STACKS_COUNT ? s->stack_mode : 0]);
    else if (s)
        (void)snprintf(out, max, "in recording %s", s->ref);
    else
        (void)snprintf(out, max, "%s", r->process->why.code ? r->process->why.code : "-");
}

static void print_row(const struct hw_tracked_row *r)
{
    char tracked[96], samples[HW_UNIT_MAX] = "", live[HW_UNIT_MAX] = "", lost[HW_UNIT_MAX] = "";
    struct hw_strbuf name = {0}, role = {0};
    const char *shown = hw_proc_shown_name(r->process->name);
    shown = shown[0] ? shown : r->process->name;
    hw_strbuf_add_escaped(&name, shown, strlen(shown));
    hw_strbuf_add_escaped(&role, r->role, strlen(r->role));
    tracked_text(r, tracked, sizeof tracked);
    if (r->tracked) {
        hw_fmt_count(samples, (double)r->target->samples);
        hw_fmt_bytes(live, (double)r->target->live);
        hw_fmt_count(lost, (double)r->target->lost);
    }
    printf("%8d  %-24.60s %-10.20s %-28s %10s %12s %8s\n", r->process->pid,
           name.p && !name.failed ? name.p : "?", role.p && !role.failed ? role.p : "", tracked,
           samples, live, lost);
    hw_strbuf_done(&name);
    hw_strbuf_done(&role);
}

static void print_list(const struct hw_tracked_list *l)
{
    char message[512];
    hw_tracked_message(l, message, sizeof message);
    if (l->unsupported.code)
        printf("Nothing can be profiled here: %s [%s]\n%s\n\n", l->unsupported.text,
               l->unsupported.code, hw_explain_remedy(l->unsupported.code));
    printf("%s\n\n", message);
    printf("%8s  %-24s %-10s %-28s %10s %12s %8s\n", "PID", "NAME", "ROLE", "TRACKED", "SAMPLES",
           "LIVE (EST.)", "DROPPED");
    for (size_t i = 0; i < l->rows.n; i++)
        print_row(&l->rows.v[i]);
}

static int list(struct run *x)
{
    struct hw_tracked_list l;
    struct hw_error err = {0};
    struct hw_json j;
    if (hw_tracked_query(x->m, &l, &err) < 0)
        return hw_cli_fail(x->cli, &err);
    int status = HW_EXIT_OK;
    if (hw_opt_flag(&x->cli->opts, HW_OPT_JSON)) {
        hw_json_page_begin(&j, stdout, "memory-internals", 0);
        hw_tracked_put(&j, &l);
        status = hw_json_page_end(&j) < 0 ? HW_EXIT_FAILED : HW_EXIT_OK;
    } else {
        print_list(&l);
    }
    hw_tracked_list_done(&l);
    return status;
}

/* ---- start, mode ---- */

static int start_one(struct run *x, int32_t pid, const struct hw_tracked_how *how)
{
    struct hw_finding why = {0};
    struct hw_error err = {0};
    hw_diagnose_pid(pid, &why);
    int rc = hw_tracked_start(x->m, pid, how, &err);
    if (rc == HW_EPERM && why.code) {
        hw_cli_error(x->cli, why.code, "%s", why.text);
        if (hw_explain_remedy(why.code))
            hw_cli_hint("%s", hw_explain_remedy(why.code));
        return hw_diagnose_exit(&why);
    }
    if (rc < 0)
        return hw_cli_fail(x->cli, &err);
    printf(rc ? "process %d is already tracked\n" : "process %d is tracked from now on\n", pid);
    return HW_EXIT_OK;
}

/* The processes that the words name; a word without a match is reported. */
static int find(const struct run *x, hw_running_pids *out)
{
    int status = HW_EXIT_OK;
    for (size_t i = 0; i < x->n_words; i++)
        if (hw_running_match(x->words[i], out) == 0) {
            hw_running_say_none(x->cli, x->words[i]);
            status = HW_EXIT_FAILED;
        }
    return status;
}

static int start_words(struct run *x, const struct hw_tracked_how *how)
{
    hw_running_pids pids = {0};
    int status = find(x, &pids);
    for (size_t i = 0; i < pids.n; i++) {
        int one = pids.v[i] > INT32_MAX ? HW_EXIT_FAILED : start_one(x, (int32_t)pids.v[i], how);
        status = one ? one : status;
    }
    hw_vec_done(&pids);
    return status;
}

static int show_mode(struct run *x)
{
    struct hw_tracked_list l;
    struct hw_error err = {0};
    char message[512];
    if (hw_tracked_query(x->m, &l, &err) < 0)
        return hw_cli_fail(x->cli, &err);
    hw_tracked_message(&l, message, sizeof message);
    printf("%s: %s\n", l.mode, message);
    hw_tracked_list_done(&l);
    return HW_EXIT_OK;
}

static int set_mode(struct run *x, const char *mode, const struct hw_tracked_how *how)
{
    struct hw_error err = {0};
    int rc = hw_tracked_set_mode(x->m, mode, how, &err);
    if (rc == HW_EINVAL) {
        hw_cli_error(x->cli, NULL, "%s", err.text);
        return hw_cli_usage_exit(x->cli);
    }
    return rc < 0 ? hw_cli_fail(x->cli, &err) : show_mode(x);
}

static int start(struct run *x)
{
    struct hw_tracked_options o;
    struct hw_error err = {0};
    if (hw_tracked_options(&x->cli->opts, &o, &err) < 0) {
        hw_cli_error(x->cli, NULL, "%s", err.text);
        return hw_cli_usage_exit(x->cli);
    }
    int status = o.mode ? set_mode(x, o.mode, &o.how) : HW_EXIT_OK;
    if (x->n_words == 0 && !o.mode) {
        hw_cli_error(x->cli, NULL, "which process?");
        hw_cli_hint("heapwise memory-internals start PID|NAME; all: every process; new: those that "
                    "start from now on");
        return hw_cli_usage_exit(x->cli);
    }
    if (x->n_words == 1 && strcmp(x->words[0], "new") == 0)
        return set_mode(x, "all", &o.how);
    if (x->n_words == 1 && strcmp(x->words[0], "all") == 0) {
        int rc = hw_tracked_start_all(x->m, &o.how, &err);
        if (rc < 0)
            return hw_cli_fail(x->cli, &err);
        printf(rc ? "all processes are already tracked\n"
                  : "all processes of yours that can be are tracked, and each new one\n");
        return status;
    }
    int words = start_words(x, &o.how);
    return words ? words : status;
}

static int mode(struct run *x)
{
    struct hw_tracked_options o;
    struct hw_error err = {0};
    if (x->n_words == 0)
        return show_mode(x);
    if (x->n_words > 1 || hw_tracked_options(&x->cli->opts, &o, &err) < 0) {
        hw_cli_error(x->cli, NULL, "%s",
                     err.code ? err.text : "give one mode; join several with commas");
        return hw_cli_usage_exit(x->cli);
    }
    return set_mode(x, x->words[0], &o.how);
}

/* ---- stop ---- */

static int stop(struct run *x)
{
    hw_running_pids pids = {0};
    struct hw_error err = {0};
    if (x->n_words == 0 || (x->n_words == 1 && strcmp(x->words[0], "all") == 0)) {
        int n = hw_tracked_stop(x->m, 0, &err);
        if (n < 0)
            return hw_cli_fail(x->cli, &err);
        printf("%d process%s no longer tracked\n", n, n == 1 ? " is" : "es are");
        return HW_EXIT_OK;
    }
    int status = find(x, &pids);
    for (size_t i = 0; i < pids.n; i++) {
        if (hw_tracked_stop(x->m, (int32_t)pids.v[i], &err) < 0)
            status = hw_cli_fail(x->cli, &err);
        else
            printf("process %d is no longer tracked\n", (int)pids.v[i]);
    }
    hw_vec_done(&pids);
    return status;
}

/* ---- save ---- */

static void on_progress(void *ctx, size_t n_done, size_t n_all)
{
    const struct hw_cli *cli = ctx;
    if (!hw_opt_flag(&cli->opts, HW_OPT_QUIET) && n_all > 1)
        fprintf(stderr, "%zu of %zu processes\n", n_done, n_all);
}

static int tell_saved(const struct run *x, const struct hw_tracked_save *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->all[i].state == HW_SAVED_FAILED)
            hw_cli_error(x->cli, NULL, "process %d ('%s') is not in the dump: %s", s->all[i].pid,
                         s->all[i].name, s->all[i].why);
    printf("%s\n%s\n", s->json, s->trace);
    if (!hw_opt_flag(&x->cli->opts, HW_OPT_QUIET))
        hw_cli_hint("heapwise infra %s; heapwise ui %s", s->json, s->json);
    return s->n_failed ? HW_EXIT_INCOMPLETE : HW_EXIT_OK;
}

static int save_these(struct run *x, const hw_running_pids *pids)
{
    struct hw_error err = {0};
    struct hw_tracked_save s = {.cli = x->cli,
                                .path = hw_opt_text(&x->cli->opts, HW_OPT_MI_OUTPUT),
                                .force = hw_opt_flag(&x->cli->opts, HW_OPT_FORCE),
                                .progress = on_progress,
                                .ctx = x->cli};
    int32_t *list = calloc(pids->n + 1, sizeof *list);
    if (!list) {
        hw_cli_error(x->cli, NULL, "out of memory");
        return HW_EXIT_FAILED;
    }
    for (size_t i = 0; i < pids->n; i++)
        list[i] = (int32_t)pids->v[i];
    s.pids = list;
    s.n_pids = pids->n;
    int rc = hw_tracked_save(x->m, &s, &err), status;
    if (rc == HW_ENOTFOUND) {
        hw_cli_error(x->cli, "not-tracked", "%s", err.text);
        hw_cli_hint("heapwise memory-internals start PID");
        status = HW_EXIT_NO_DATA;
    } else {
        status = rc < 0 ? hw_cli_fail(x->cli, &err) : tell_saved(x, &s);
    }
    hw_tracked_save_done(&s);
    free(list);
    return status;
}

static int save(struct run *x)
{
    hw_running_pids pids = {0};
    int status = find(x, &pids);
    if (status == HW_EXIT_OK)
        status = save_these(x, &pids);
    hw_vec_done(&pids);
    return status;
}

int hw_cmd_memory_internals(struct hw_cli *cli)
{
    static const struct {
        const char *verb;
        int (*run)(struct run *x);
    } verbs[] = {{"list", list}, {"start", start}, {"stop", stop}, {"save", save}, {"mode", mode}};
    struct run x = {.cli = cli};
    struct hw_error err = {0};
    const struct hw_opts *o = &cli->opts;
    const char *verb = o->n_args ? o->args[0]
                       : o->v[HW_OPT_MEMLOG].set || o->v[HW_OPT_ENABLE_HEAP_PROFILING].set ? "start"
                                                                                           : "list";
    x.words = o->args + (o->n_args > 0);
    x.n_words = o->n_args ? o->n_args - 1 : 0;
    if (hw_tracked_new(&x.m, &err) < 0)
        return hw_cli_fail(cli, &err);
    int status = -1;
    for (size_t i = 0; i < HW_ARRAY_LEN(verbs); i++)
        if (strcmp(verbs[i].verb, verb) == 0)
            status = verbs[i].run(&x);
    if (status < 0) {
        hw_cli_error(cli, NULL, "unknown order '%s': list, start, stop, save or mode", verb);
        status = hw_cli_usage_exit(cli);
    }
    hw_tracked_free(x.m);
    return status;
}

/* ps: processes, whether they can be profiled and why not; and the service's recordings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json_out.h"
#include "base/strbuf.h"
#include "cli/cli.h"
#include "cli/controller.h"
#include "cli/diagnose.h"
#include "cli/service.h"
#include "config/config.h"
#include "proc/pid.h"

#include "base/banned.h"

struct row {
    int32_t pid;
    uint64_t rss_kb;
    char name[256];
    struct hw_finding why; /* code NULL = can be profiled */
    uint64_t session;      /* 0 = none */
};

typedef HW_VEC(struct row) row_vec;

static uint64_t session_of(const struct hw_service_state *s, int32_t pid)
{
    for (size_t i = 0; i < s->sessions.n; i++)
        for (size_t k = 0; k < s->sessions.v[i].targets.n; k++)
            if (s->sessions.v[i].targets.v[k].pid == pid)
                return s->sessions.v[i].id;
    return 0;
}

static bool is_meant(const struct hw_cli *cli, int32_t pid, const char *argv0)
{
    for (size_t i = 0; i < cli->opts.n_args; i++) {
        uint64_t number;
        if (hw_parse_uint(cli->opts.args[i], &number, NULL) == 0
                ? number == (uint64_t)pid
                : hw_config_name_matches(cli->opts.args[i], argv0))
            return true;
    }
    return cli->opts.n_args == 0;
}

static void add_row(const struct hw_cli *cli, const struct hw_service_state *s, int32_t pid,
                    row_vec *rows)
{
    struct row row = {.pid = pid};
    struct hw_pid p;
    struct hw_proc_status status;
    if (hw_pid_open(pid, &p, NULL) < 0)
        return; /* ended meanwhile */
    hw_proc_argv0(p.dir, row.name, sizeof row.name);
    bool meant = is_meant(cli, pid, row.name);
    if (meant && hw_proc_status(p.dir, &status) == 0) {
        row.rss_kb = status.vm_rss_kb;
        if (!row.name[0])
            (void)snprintf(row.name, sizeof row.name, "[%s]", status.name);
    }
    hw_pid_done(&p);
    if (!meant)
        return;
    row.session = session_of(s, pid);
    hw_diagnose_pid(pid, &row.why);
    bool all = hw_opt_flag(&cli->opts, HW_OPT_ALL_PROCESSES) || cli->opts.n_args;
    if (row.why.code && !all)
        return;
    (void)hw_vec_push(rows, row); /* out of memory: the list is shorter, nothing else */
}

static void print_sessions(const struct hw_service_state *s)
{
    for (size_t i = 0; i < s->sessions.n; i++) {
        const struct hw_service_session *one = &s->sessions.v[i];
        printf("recording %llu: %llu s, %zu process%s, %llu samples, %llu lost, %llu dumps\n",
               (unsigned long long)one->id, (unsigned long long)one->seconds, one->targets.n,
               one->targets.n == 1 ? "" : "es", (unsigned long long)one->samples,
               (unsigned long long)one->lost, (unsigned long long)one->dumps);
    }
}

static void print_rows(const row_vec *rows)
{
    printf("%8s %10s  %-24s %s\n", "PID", "RSS MiB", "NAME", "PROFILE");
    for (size_t i = 0; i < rows->n; i++) {
        const struct row *r = &rows->v[i];
        struct hw_strbuf name = {0};
        const char *slash = strrchr(r->name, '/');
        const char *shown = slash && slash[1] ? slash + 1 : r->name;
        hw_strbuf_add_escaped(&name, shown, strlen(shown));
        printf("%8d %10.1f  %-24s ", r->pid, (double)r->rss_kb / 1024,
               name.failed ? "?"
               : name.p    ? name.p
                           : "");
        if (r->session)
            printf("in recording %llu\n", (unsigned long long)r->session);
        else
            printf("%s\n", r->why.code ? r->why.code : "yes");
        hw_strbuf_done(&name);
    }
}

static int print_json(const row_vec *rows, const struct hw_service_state *s, bool service)
{
    int fd = STDOUT_FILENO;
    struct hw_json j;
    hw_json_init(&j, hw_json_write_fd, &fd, /* pretty = */ true);
    hw_json_begin_object(&j);
    hw_json_kv_int(&j, "version", 1);
    hw_json_kv_bool(&j, "service", service);
    hw_json_key(&j, "recordings");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < s->sessions.n; i++) {
        hw_json_begin_object(&j);
        hw_json_kv_uint(&j, "id", s->sessions.v[i].id);
        hw_json_kv_uint(&j, "seconds", s->sessions.v[i].seconds);
        hw_json_kv_uint(&j, "samples", s->sessions.v[i].samples);
        hw_json_kv_uint(&j, "lost", s->sessions.v[i].lost);
        hw_json_kv_uint(&j, "dumps", s->sessions.v[i].dumps);
        hw_json_end_object(&j);
    }
    hw_json_end_array(&j);
    hw_json_key(&j, "processes");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < rows->n; i++) {
        const struct row *r = &rows->v[i];
        hw_json_begin_object(&j);
        hw_json_kv_int(&j, "pid", r->pid);
        hw_json_kv_str(&j, "name", r->name);
        hw_json_kv_uint(&j, "rss_kb", r->rss_kb);
        hw_json_kv_bool(&j, "eligible", !r->why.code);
        hw_json_kv_str(&j, "code", r->why.code);
        hw_json_kv_str(&j, "reason", r->why.code ? r->why.text : NULL);
        hw_json_key(&j, "recording");
        if (r->session)
            hw_json_uint(&j, r->session);
        else
            hw_json_null(&j);
        hw_json_end_object(&j);
    }
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    int rc = hw_json_finish(&j);
    hw_json_done(&j);
    return rc < 0 ? HW_EXIT_FAILED : HW_EXIT_OK;
}

int hw_cmd_ps(struct hw_cli *cli)
{
    struct hw_error err = {0};
    struct hw_controller *c = NULL;
    struct hw_service_state s = {0};
    hw_pid_list pids = {0};
    row_vec rows = {0};
    int status = HW_EXIT_OK;
    bool service = hw_service_ask(&c, &s, &err) == 0; /* without one the list is still useful */
    if (hw_proc_list(&pids) < 0) {
        hw_cli_error(cli, NULL, "cannot read /proc");
        status = HW_EXIT_FAILED;
    }
    for (size_t i = 0; i < pids.n; i++)
        add_row(cli, &s, pids.v[i], &rows);
    if (status == HW_EXIT_OK && hw_opt_flag(&cli->opts, HW_OPT_JSON)) {
        status = print_json(&rows, &s, service);
    } else if (status == HW_EXIT_OK) {
        print_sessions(&s);
        if (rows.n)
            print_rows(&rows);
        else
            printf("no process can be profiled now%s\n",
                   cli->opts.n_args ? "" : " (--all shows every one and why not)");
        for (size_t i = 0; i < rows.n && cli->opts.n_args; i++)
            if (rows.v[i].why.code)
                printf("%d: %s\n", rows.v[i].pid, rows.v[i].why.text);
    }
    hw_vec_done(&rows);
    hw_vec_done(&pids);
    hw_service_state_done(&s);
    hw_controller_free(c);
    return status;
}

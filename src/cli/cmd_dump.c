/*
 * dump and stop: snapshots and ends of recordings that run elsewhere, by the service, or for dumps
 * also by recorders that other commands have embedded (those listen to SIGUSR1).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/controller.h"
#include "cli/service.h"
#include "config/config.h"

#include "base/banned.h"

enum { ANSWER_MS = 10000 };

typedef HW_VEC(int32_t) pid_vec;

/* The profiled processes that the words mean: pids or names. False = a word means none. */
static bool choose(struct hw_cli *cli, const struct hw_service_state *s, pid_vec *out)
{
    for (size_t a = 0; a < cli->opts.n_args; a++) {
        const char *word = cli->opts.args[a];
        uint64_t pid = 0;
        bool is_pid = hw_parse_uint(word, &pid, NULL) == 0, found = false;
        for (size_t i = 0; i < s->sessions.n; i++)
            for (size_t k = 0; k < s->sessions.v[i].targets.n; k++) {
                const struct hw_service_target *t = &s->sessions.v[i].targets.v[k];
                if (is_pid ? (uint64_t)t->pid != pid : !hw_config_name_matches(word, t->name))
                    continue;
                found = hw_vec_push(out, t->pid) == 0;
            }
        if (!found) {
            hw_cli_error(cli, "no-process", "no recording of '%s' runs", word);
            return false;
        }
    }
    return true;
}

/* Waits for the answer; gives the number of dumps that were begun, < 0 on failure. */
static int64_t wait_dumped(struct hw_controller *c, struct hw_error *err)
{
    for (;;) {
        struct hw_controller_event e;
        uint32_t n;
        int rc = hw_controller_next(c, ANSWER_MS, &e, err);
        if (rc == 0)
            return hw_fail(err, HW_ETIMEOUT, 0, "the service does not answer");
        if (rc < 0)
            return rc;
        if (e.type == HW_CTL_ERROR)
            return hw_fail(err, HW_EINVAL, 0, "%.*s", (int)e.body.n, (const char *)e.body.p);
        if (e.type == HW_CTL_DUMPED && hw_controller_body(&e, &n, sizeof n))
            return n;
    }
}

/* An embedded recorder knows one command; words cannot choose among its processes. */
static size_t dump_embedded(void)
{
    hw_recorder_pids recorders = {0};
    size_t n = 0;
    if (hw_embedded_recorders(&recorders) == 0)
        for (size_t i = 0; i < recorders.n; i++)
            n += kill(recorders.v[i], SIGUSR1) == 0;
    hw_vec_done(&recorders);
    return n;
}

static int no_service(struct hw_cli *cli, const struct hw_error *err)
{
    if (err->code != HW_ENOTFOUND)
        return hw_cli_fail(cli, err);
    hw_cli_error(cli, "no-service", "%s", err->text);
    hw_cli_hint("recordings of `heapwise record` end with Ctrl-C and dump on SIGUSR1");
    return HW_EXIT_FAILED;
}

int hw_cmd_dump(struct hw_cli *cli)
{
    struct hw_error err = {0};
    struct hw_controller *c = NULL;
    struct hw_service_state s = {0};
    size_t embedded = cli->opts.n_args == 0 ? dump_embedded() : 0;
    if (hw_service_ask(&c, &s, &err) < 0) {
        if (embedded == 0)
            return no_service(cli, &err);
        printf("asked %zu recorder%s for a dump\n", embedded, embedded == 1 ? "" : "s");
        return HW_EXIT_OK;
    }
    pid_vec pids = {0};
    int status = choose(cli, &s, &pids) ? HW_EXIT_OK : HW_EXIT_FAILED;
    int64_t n = 0;
    if (status == HW_EXIT_OK && hw_controller_dump(c, pids.v, pids.n, &err) == 0)
        n = wait_dumped(c, &err);
    if (status == HW_EXIT_OK && err.code)
        status = hw_cli_fail(cli, &err);
    else if (status == HW_EXIT_OK && n + (int64_t)embedded == 0) {
        hw_cli_error(cli, "no-process", "nothing is being recorded");
        status = HW_EXIT_NO_DATA;
    } else if (status == HW_EXIT_OK) {
        printf("dumps of %lld process%s begun\n", (long long)n, n == 1 ? "" : "es");
        if (embedded)
            printf("asked %zu recorder%s for a dump\n", embedded, embedded == 1 ? "" : "s");
    }
    hw_vec_done(&pids);
    hw_service_state_done(&s);
    hw_controller_free(c);
    return status;
}

/* ---- stop ---- */

static int choose_session(struct hw_cli *cli, const struct hw_service_state *s, uint64_t *id)
{
    if (cli->opts.n_args) {
        if (hw_parse_uint(cli->opts.args[0], id, NULL) < 0) {
            hw_cli_error(cli, NULL, "'%s' is no recording's number", cli->opts.args[0]);
            return HW_EXIT_USAGE;
        }
        for (size_t i = 0; i < s->sessions.n; i++)
            if (s->sessions.v[i].id == *id)
                return HW_EXIT_OK;
        hw_cli_error(cli, NULL, "no recording %llu runs", (unsigned long long)*id);
        return HW_EXIT_FAILED;
    }
    if (s->sessions.n == 1) {
        *id = s->sessions.v[0].id;
        return HW_EXIT_OK;
    }
    hw_cli_error(cli, NULL, s->sessions.n ? "%zu recordings run; which one?" : "no recording runs",
                 s->sessions.n);
    for (size_t i = 0; i < s->sessions.n; i++)
        hw_cli_hint("heapwise stop %llu", (unsigned long long)s->sessions.v[i].id);
    return s->sessions.n ? HW_EXIT_USAGE : HW_EXIT_FAILED;
}

int hw_cmd_stop(struct hw_cli *cli)
{
    struct hw_error err = {0};
    struct hw_controller *c = NULL;
    struct hw_service_state s = {0};
    uint64_t id = 0;
    if (hw_service_ask(&c, &s, &err) < 0)
        return no_service(cli, &err);
    int status = choose_session(cli, &s, &id);
    if (status == HW_EXIT_OK) {
        if (hw_controller_stop(c, id, &err) < 0)
            status = hw_cli_fail(cli, &err);
        else
            printf("recording %llu is being ended\n", (unsigned long long)id);
    }
    hw_service_state_done(&s);
    hw_controller_free(c);
    return status;
}

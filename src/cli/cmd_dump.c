/*
 * dump and stop: snapshots and ends of recordings that run elsewhere, by the service, or for dumps
 * also by recorders that other commands have embedded: those listen to SIGUSR1 and, for one of
 * their processes, at a socket named by their pid.
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

/* The profiled processes that the words mean: pids or names. Sets found[] of words that mean one.
 */
static void choose(const struct hw_cli *cli, const struct hw_service_state *s, bool *found,
                   pid_vec *out)
{
    for (size_t a = 0; a < cli->opts.n_args; a++) {
        const char *word = cli->opts.args[a];
        uint64_t pid = 0;
        bool is_pid = hw_parse_uint(word, &pid, NULL) == 0;
        for (size_t i = 0; i < s->sessions.n; i++)
            for (size_t k = 0; k < s->sessions.v[i].targets.n; k++) {
                const struct hw_service_target *t = &s->sessions.v[i].targets.v[k];
                if (is_pid ? (uint64_t)t->pid == pid : hw_config_name_matches(word, t->name))
                    found[a] |= hw_vec_push(out, t->pid) == 0;
            }
    }
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

/* Without words: every embedded recorder dumps all it has. */
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

/* The chosen processes of one recorder; gives their number, < 0 on failure. */
static int64_t dump_chosen(const struct hw_cli *cli, struct hw_controller *c,
                           const struct hw_service_state *s, bool *found, struct hw_error *err)
{
    pid_vec pids = {0};
    choose(cli, s, found, &pids);
    int64_t n = 0;
    if (pids.n || cli->opts.n_args == 0) {
        n = hw_controller_dump(c, pids.v, pids.n, err);
        n = n == 0 ? wait_dumped(c, err) : n;
    }
    hw_vec_done(&pids);
    return n;
}

/* With words: every embedded recorder is asked for its processes. */
static int64_t dump_embedded_chosen(const struct hw_cli *cli, bool *found, struct hw_error *err)
{
    hw_recorder_pids recorders = {0};
    int64_t n = 0;
    (void)hw_embedded_recorders(&recorders); /* none then */
    for (size_t i = 0; i < recorders.n && n >= 0; i++) {
        struct hw_controller *c;
        struct hw_service_state s;
        if (hw_service_ask_embedded(recorders.v[i], &c, &s, NULL) < 0)
            continue; /* it is ending */
        int64_t k = dump_chosen(cli, c, &s, found, err);
        n = k < 0 ? k : n + k;
        hw_service_state_done(&s);
        hw_controller_free(c);
    }
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

static int dump_words(struct hw_cli *cli, bool *found)
{
    struct hw_error err = {0};
    struct hw_controller *c = NULL;
    struct hw_service_state s = {0};
    int64_t n = dump_embedded_chosen(cli, found, &err);
    if (n >= 0 && hw_service_ask(&c, &s, NULL) == 0) {
        int64_t k = dump_chosen(cli, c, &s, found, &err);
        n = k < 0 ? k : n + k;
        hw_service_state_done(&s);
        hw_controller_free(c);
    }
    if (n < 0)
        return hw_cli_fail(cli, &err);
    int status = HW_EXIT_OK;
    for (size_t a = 0; a < cli->opts.n_args; a++) {
        if (found[a])
            continue;
        hw_cli_error(cli, "no-process", "no recording of '%s' runs", cli->opts.args[a]);
        status = HW_EXIT_FAILED;
    }
    if (n)
        printf("dumps of %lld process%s begun\n", (long long)n, n == 1 ? "" : "es");
    return status;
}

static int dump_all(struct hw_cli *cli)
{
    struct hw_error err = {0};
    struct hw_controller *c = NULL;
    struct hw_service_state s = {0};
    size_t embedded = dump_embedded();
    int64_t n = 0;
    if (hw_service_ask(&c, &s, &err) == 0) {
        n = dump_chosen(cli, c, &s, NULL, &err);
        hw_service_state_done(&s);
        hw_controller_free(c);
        if (n < 0)
            return hw_cli_fail(cli, &err);
    } else if (embedded == 0) {
        return no_service(cli, &err);
    }
    if (n + (int64_t)embedded == 0) {
        hw_cli_error(cli, "no-process", "nothing is being recorded");
        return HW_EXIT_NO_DATA;
    }
    if (n)
        printf("dumps of %lld process%s begun\n", (long long)n, n == 1 ? "" : "es");
    if (embedded)
        printf("asked %zu recorder%s for a dump\n", embedded, embedded == 1 ? "" : "s");
    return HW_EXIT_OK;
}

int hw_cmd_dump(struct hw_cli *cli)
{
    if (cli->opts.n_args == 0)
        return dump_all(cli);
    bool *found = calloc(cli->opts.n_args, sizeof *found);
    if (!found) {
        hw_cli_error(cli, NULL, "out of memory");
        return HW_EXIT_FAILED;
    }
    int status = dump_words(cli, found);
    free(found);
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

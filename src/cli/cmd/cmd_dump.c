/* dump: snapshots from recordings that run elsewhere: the service's and those of other commands. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/all_recorders.h"
#include "cli/cli.h"
#include "config/config.h"
#include "record/controller.h"
#include "record/service.h"

#include "base/banned.h"

enum { ANSWER_MS = 70000 }; /* the recorder gives up earlier */

typedef HW_VEC(int32_t) pid_vec;

/* A word means a recording ("3", "r4211"), a pid, or a name. */
static bool is_meant(const char *word, const struct hw_service_session *s,
                     const struct hw_service_target *t)
{
    uint64_t pid = 0;
    if (strcmp(word, s->ref) == 0)
        return true;
    if (hw_parse_uint(word, &pid, NULL) == 0)
        return pid == (uint64_t)t->pid;
    return hw_config_name_matches(word, t->name);
}

/* The profiled processes that the words name. Sets found[] for words that match one. */
static int choose(const struct hw_cli *cli, const struct hw_service_state *state, bool *found,
                  pid_vec *out)
{
    for (size_t i = 0; i < state->sessions.n; i++) {
        const struct hw_service_session *s = &state->sessions.v[i];
        for (size_t k = 0; k < s->targets.n; k++) {
            bool meant = false;
            for (size_t a = 0; a < cli->opts.n_args; a++)
                if (is_meant(cli->opts.args[a], s, &s->targets.v[k]))
                    meant = found[a] = true;
            if (meant && hw_vec_push(out, s->targets.v[k].pid) < 0)
                return HW_ENOMEM;
        }
    }
    return HW_OK;
}

/* One recorder: the chosen processes, or all without arguments. Adds to out. */
static int dump_one(const struct hw_cli *cli, struct hw_recorder_seen *r, bool *found,
                    struct hw_control_dumped *out, struct hw_error *err)
{
    pid_vec pids = {0};
    struct hw_controller_event e;
    struct hw_control_dumped n = {0};
    int rc = choose(cli, &r->state, found, &pids);
    bool any = pids.n || (cli->opts.n_args == 0 && r->state.sessions.n);
    if (rc == 0 && any)
        rc = hw_controller_dump(r->controller, pids.v, pids.n, err);
    if (rc == 0 && any)
        rc = hw_controller_wait(r->controller, HW_CTL_DUMPED, ANSWER_MS, &e, err);
    hw_vec_done(&pids);
    if (rc == 0 && any && !hw_controller_body(&e, &n, sizeof n))
        rc = hw_fail(err, HW_EFORMAT, 0, "the recorder's answer cannot be read");
    out->n += n.n;
    out->n_missing += n.n_missing;
    return rc;
}

static int tell(struct hw_cli *cli, const struct hw_recorders *all, const bool *found,
                const struct hw_control_dumped *d)
{
    int status = HW_EXIT_OK;
    for (size_t a = 0; a < cli->opts.n_args; a++) {
        if (found[a])
            continue;
        hw_cli_error(cli, "no-process", "'%s' is not being recorded", cli->opts.args[a]);
        status = HW_EXIT_FAILED;
    }
    if (status)
        hw_cli_hint("heapwise ps shows the recordings");
    if (d->n > d->n_missing)
        printf("dumps of %u process%s written\n", d->n - d->n_missing,
               d->n - d->n_missing == 1 ? "" : "es");
    if (d->n_missing) {
        hw_cli_error(cli, NULL, "%u dump%s not in the file yet; the recorder is still writing",
                     d->n_missing, d->n_missing == 1 ? " is" : "s are");
        return HW_EXIT_INCOMPLETE;
    }
    if (d->n)
        return status;
    if (cli->opts.n_args == 0) {
        hw_cli_error(cli, "no-recording",
                     hw_recorders_sessions(all) ? "no recording has a process now"
                                                : "nothing is being recorded");
        status = HW_EXIT_NO_DATA;
    }
    return status;
}

static int dump(struct hw_cli *cli, bool *found)
{
    struct hw_error err = {0};
    struct hw_recorders all;
    if (hw_cli_query_recorders(cli, &all, &err) < 0)
        return hw_cli_fail(cli, &err);
    struct hw_control_dumped done = {0};
    int rc = HW_OK;
    for (size_t i = 0; i < all.all.n && rc >= 0; i++) {
        rc = dump_one(cli, &all.all.v[i], found, &done, &err);
        if (rc == HW_EGONE)
            rc = HW_OK; /* it has just ended, with a final dump */
    }
    int status = rc < 0 ? hw_cli_fail(cli, &err) : tell(cli, &all, found, &done);
    hw_recorders_done(&all);
    return status;
}

int hw_cmd_dump(struct hw_cli *cli)
{
    bool *found = calloc(cli->opts.n_args + 1, sizeof *found);
    if (!found) {
        hw_cli_error(cli, NULL, "out of memory");
        return HW_EXIT_FAILED;
    }
    int status = dump(cli, found);
    free(found);
    return status;
}

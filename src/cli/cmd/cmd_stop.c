/*
 * stop: ends recordings that run elsewhere: the service's, and those embedded in other commands,
 * which then print their report as if Ctrl-C had been pressed; their program runs on.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/all_recorders.h"
#include "cli/cli.h"
#include "config/config.h"
#include "record/controller.h"
#include "record/service.h"

#include "base/banned.h"

enum { END_MS = 30000, STEP_MS = 100 };

struct chosen {
    struct hw_recorder_seen *recorder;
    const struct hw_service_session *session;
};

typedef HW_VEC(struct chosen) chosen_vec;

static bool has_target(const struct hw_service_session *s, const char *word)
{
    uint64_t pid = 0;
    bool number = hw_parse_uint(word, &pid, NULL) == 0;
    for (size_t i = 0; i < s->targets.n; i++)
        if (number ? pid == (uint64_t)s->targets.v[i].pid
                   : hw_config_name_matches(word, s->targets.v[i].name))
            return true;
    return number ? s->controller_pid > 0 && pid == (uint64_t)s->controller_pid
                  : s->name[0] && strcmp(s->name, word) == 0;
}

/* Recording names come first: "3" is the service's third recording rather than pid 3. */
static int find(const struct hw_recorders *all, const char *word, bool by_ref, chosen_vec *out)
{
    for (size_t i = 0; i < all->all.n; i++) {
        struct hw_recorder_seen *r = &all->all.v[i];
        for (size_t k = 0; k < r->state.sessions.n; k++) {
            const struct hw_service_session *s = &r->state.sessions.v[k];
            /* Without an argument only one's own: root must name recordings of others. */
            bool meant = !word ? s->uid == geteuid()
                               : (by_ref ? strcmp(s->ref, word) == 0 : has_target(s, word));
            if (meant && hw_vec_push(out, (struct chosen){r, s}) < 0)
                return HW_ENOMEM;
        }
    }
    return HW_OK;
}

static void list(const chosen_vec *v)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct hw_service_session *s = v->v[i].session;
        hw_cli_hint("heapwise stop %s   (%s%s)", s->ref,
                    s->targets.n ? s->targets.v[0].name : "no process",
                    s->targets.n > 1 ? " and others" : "");
    }
}

/* Exactly one recording, or an exit code with its message. */
static int choose(struct hw_cli *cli, const struct hw_recorders *all, const char *word,
                  chosen_vec *v)
{
    int rc = find(all, word, /* by_ref = */ true, v);
    if (rc == 0 && v->n == 0 && word)
        rc = find(all, word, /* by_ref = */ false, v);
    if (rc < 0) {
        hw_cli_error(cli, NULL, "out of memory");
        return HW_EXIT_FAILED;
    }
    if (v->n == 1)
        return HW_EXIT_OK;
    if (v->n) {
        hw_cli_error(cli, NULL, "%zu recordings are running; which one?", v->n);
        list(v);
        return HW_EXIT_USAGE;
    }
    if (!word || hw_recorders_sessions(all) == 0) {
        hw_cli_error(cli, "no-recording", "no recording is running");
        return HW_EXIT_FAILED;
    }
    hw_cli_error(cli, "no-recording", "no recording '%s', nor one of such a process", word);
    (void)find(all, NULL, /* by_ref = */ true, v); /* out of memory: shorter hints */
    list(v);
    return HW_EXIT_FAILED;
}

/* Its file is complete once the recorder no longer lists it, or is gone. */
static bool wait_ended(const struct chosen *c)
{
    for (int ms = 0; ms < END_MS; ms += STEP_MS) {
        struct hw_service_state now;
        struct timespec step = {0, STEP_MS * 1000000};
        (void)nanosleep(&step, NULL); /* a signal only cuts it short */
        if (hw_service_refresh(c->recorder->controller, &now, NULL) < 0)
            return true;
        bool there = false;
        for (size_t i = 0; i < now.sessions.n; i++)
            there |= now.sessions.v[i].id == c->session->id;
        hw_service_state_done(&now);
        if (!there)
            return true;
    }
    return false;
}

static int stop(struct hw_cli *cli, const struct chosen *c)
{
    struct hw_error err = {0};
    const struct hw_service_session *s = c->session;
    if (hw_controller_stop(c->recorder->controller, s->id, &err) < 0)
        return hw_cli_fail(cli, &err);
    if (!wait_ended(c)) {
        hw_cli_error(cli, NULL,
                     "recording %s has not ended within %d s; it is still finishing its work",
                     s->ref, END_MS / 1000);
        return HW_EXIT_FAILED;
    }
    printf("recording %s has ended\n", s->ref);
    return HW_EXIT_OK;
}

int hw_cmd_stop(struct hw_cli *cli)
{
    struct hw_error err = {0};
    struct hw_recorders all;
    if (hw_cli_query_recorders(cli, &all, &err) < 0)
        return hw_cli_fail(cli, &err);
    int status = HW_EXIT_OK;
    size_t n = cli->opts.n_args ? cli->opts.n_args : 1;
    for (size_t a = 0; a < n; a++) {
        chosen_vec v = {0};
        int one = choose(cli, &all, cli->opts.n_args ? cli->opts.args[a] : NULL, &v);
        if (one == HW_EXIT_OK)
            one = stop(cli, &v.v[0]);
        status = status ? status : one;
        hw_vec_done(&v);
    }
    hw_recorders_done(&all);
    return status;
}

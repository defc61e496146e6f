/*
 * One thread runs the session: events of the recorder as they come, a round of snapshots each
 * period. Snapshots use a separate connection per process, so that no event is missed.
 */
#include "record/web/continuous.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "base/text/strbuf.h"
#include "config/command/command.h"
#include "daemon/policy/policy.h"
#include "daemon/recorder.h"
#include "import/import.h"
#include "model/profile.h"
#include "record/build_config.h"
#include "record/controller.h"
#include "record/live_source.h"
#include "record/web/continuous_file.h"
#include "record/web/continuous_guard.h"
#include "record/web/continuous_targets.h"

#include "base/banned.h"

#define SECOND    UINT64_C(1000000000)
#define LAST_NS   (60 * SECOND)
#define SILENT_NS UINT64_C(2500000000) /* then clients assume that their recorder has died */
enum { START_MS = 20000, TICK_MS = 500, PROCESS_STATS_MS = 0, LONGEST_YOUNG_S = 600 };
static const uint64_t longest_pause_ns = 60 * SECOND;

struct hw_continuous {
    const struct hw_cli *cli;
    pthread_t thread;
    int stop[2];
    struct hw_strbuf who; /* as a mode of config/memlog_modes.h */
    struct hw_continuous_files files;
    const char *policy; /* borrowed; NULL = the default */
    uint64_t period_ns, interval;
    uint64_t young_ns; /* a process that ends sooner is short-lived */
    struct hw_continuous_guard guard;
    uint64_t sampling_ns; /* the recorder's CPU time for samples, since the session began */

    struct hw_controller *controller; /* NULL = none */
    hw_continuous_targets targets;
    uint64_t next_round_ns, try_at_ns, pause_ns;
    int null_fd;
    bool ending;
};

/* ---- processes ---- */

static void add_target(struct hw_continuous *c, int32_t pid, struct hw_bytes name)
{
    struct hw_continuous_target *t = hw_continuous_targets_add(&c->targets, pid, name);
    if (t)
        hw_continuous_resume(&c->files, &t->who);
    else
        hw_log(WARN, "process %d is left out: no memory", pid);
}

/* ---- readings ---- */

/*
 * A process held by chance represents others that were not. One that lives on does not: those do
 * too, and are found then.
 */
static uint32_t share_of(const struct hw_continuous *c, const struct hw_continuous_target *t,
                         const struct hw_control_live *facts)
{
    bool young = hw_now_boottime_ns() - t->who.began_ns < c->young_ns;
    return young && !t->before ? facts->share : 0;
}

/* Takes over the profile: the next one is compared with it. */
static void keep(struct hw_continuous *c, struct hw_continuous_target *t, struct hw_profile *now,
                 const struct hw_control_live *facts)
{
    struct hw_error err = {0};
    struct hw_continuous_round look = {.now = now,
                                       .before = t->before,
                                       .n_lost = facts->n_lost,
                                       .share = share_of(c, t, facts),
                                       .at_ns = hw_now_boottime_ns()};
    if (hw_continuous_write(&c->files, &t->who, &look, &err) < 0)
        hw_log(WARN, "%s", err.text);
    hw_profile_free(t->before);
    t->before = now;
}

static struct hw_profile *read_look(int fd, const struct hw_continuous_target *t)
{
    struct hw_profile *p = NULL;
    struct hw_error err = {0};
    if (hw_import_fd(fd, t->who.name, &p, &err) < 0)
        hw_log(WARN, "a look at process %d: %s", t->who.pid, err.text);
    return p;
}

static void look_at(struct hw_continuous *c, struct hw_continuous_target *t)
{
    struct hw_error err = {0};
    struct hw_control_live facts;
    int fd = -1;
    int rc = t->source ? HW_OK
                       : hw_live_source_open(hw_controller_pid(c->controller), t->who.pid,
                                             &t->source, &err);
    if (rc == HW_OK)
        rc = hw_live_source_fetch(t->source, &fd, &facts, &err);
    if (rc < 0) { /* it is exiting and will be reported, or the next round has it */
        hw_log(DEBUG, "process %d: %s", t->who.pid, err.text);
        hw_live_source_free(t->source);
        t->source = NULL;
        return;
    }
    bool waits = share_of(c, t, &facts) && !c->ending; /* unknown whether it is short-lived */
    struct hw_profile *now = waits ? NULL : read_look(fd, t);
    (void)close(fd);
    if (now)
        keep(c, t, now, &facts);
}

static void last_look(struct hw_continuous *c, const struct hw_controller_event *e)
{
    struct hw_control_live facts;
    hw_autofd int fd = hw_controller_take_fd(c->controller);
    if (!hw_controller_body(e, &facts, sizeof facts))
        return;
    struct hw_continuous_target *t = hw_continuous_targets_find_ending(&c->targets, facts.pid);
    struct hw_profile *now = t && fd >= 0 ? read_look(fd, t) : NULL; /* none: it had no sample */
    if (t)
        t->who.ended = true;
    if (now)
        keep(c, t, now, &facts);
}

/* ---- the session ---- */

static void end_session(struct hw_continuous *c)
{
    hw_controller_free(c->controller);
    c->controller = NULL;
    hw_continuous_targets_clear(&c->targets);
}

/* A service has its own policy, which its callers cannot replace. */
static int connect_recorder(struct hw_continuous *c, struct hw_error *err)
{
    int rc = hw_controller_connect(NULL, &c->controller, err);
    if (c->policy && rc == HW_OK)
        return hw_fail(err, HW_EBUSY, 0,
                       "--policy: the running service has its own; omit --policy (names: "
                       "`continuous =` in %s, or --name), or stop the service",
                       HW_POLICY_FILE);
    return c->policy || rc == HW_ENOTFOUND
               ? hw_controller_spawn_with(hw_default_producer_socket(), c->policy, &c->controller,
                                          err)
               : rc;
}

static int build_config(const struct hw_continuous *c, struct hw_strbuf *out, struct hw_error *err)
{
    const struct hw_opts *o = &c->cli->opts;
    uint64_t max_rate = hw_opt_num(o, HW_OPT_CONT_RATE);
    struct hw_config_values v = {0};
    hw_config_set(&v, HW_HEAPPROFD_FIELD(sampling_interval_bytes), c->interval);
    hw_config_set(&v, HW_HEAPPROFD_FIELD(shmem_size_bytes), hw_opt_num(o, HW_OPT_CONT_SHMEM));
    hw_config_set(&v, HW_HEAPPROFD_FIELD(all), 1);
    if (max_rate)
        hw_config_set(&v, HW_HEAPPROFD_FIELD(max_samples_per_second), max_rate);
    if (c->who.p)
        hw_config_set_text(&v, HW_HEAPPROFD_FIELD(memlog), c->who.p);
    int rc = hw_build_config(&v, out, err);
    hw_config_values_done(&v);
    return rc;
}

static int begin_session(struct hw_continuous *c, struct hw_error *err)
{
    struct hw_strbuf config = {0};
    const struct hw_opts *o = &c->cli->opts;
    struct hw_control_start start = {
        .flags = HW_START_TELL_LAST | HW_START_RESCAN,
        .process_stats_ms = PROCESS_STATS_MS,
        .starts_per_minute = (uint16_t)hw_opt_num(o, HW_OPT_CONT_STARTS),
        .young_s = (uint16_t)(c->young_ns / SECOND),
    };
    struct hw_controller_event e;
    int rc = connect_recorder(c, err);
    hw_continuous_guard_begin(&c->guard);
    if (rc == HW_OK)
        rc = build_config(c, &config, err);
    if (rc == HW_OK)
        rc = hw_controller_start(c->controller, &start, hw_bytes_of(config.p, config.n), c->null_fd,
                                 err);
    hw_strbuf_done(&config);
    uint64_t deadline = hw_now_monotonic_ns() + START_MS * UINT64_C(1000000);
    while (rc >= 0 && hw_now_monotonic_ns() < deadline) {
        rc = hw_controller_next(c->controller, TICK_MS, &e, err);
        if (rc == 1 && e.type == HW_CTL_ERROR)
            return hw_fail(err, HW_EINVAL, 0, "%.*s", (int)e.body.n, (const char *)e.body.p);
        if (rc == 1 && e.type == HW_CTL_STARTED)
            return HW_OK;
        if (rc == 1 && e.type == HW_CTL_TARGET_STATE) {
            struct hw_control_target_state s;
            if (hw_controller_body(&e, &s, sizeof s) && s.state == HW_TARGET_CONNECTED)
                add_target(c, s.pid, hw_bytes_of(e.body.p + sizeof s, e.body.n - sizeof s));
        }
    }
    return rc < 0 ? rc : hw_fail(err, HW_ETIMEOUT, 0, "the recorder did not start in time");
}

/* After a failure, with doubling pauses. */
static void try_session(struct hw_continuous *c)
{
    struct hw_error err = {0};
    uint64_t now = hw_now_monotonic_ns();
    if (now < c->try_at_ns)
        return;
    if (begin_session(c, &err) == HW_OK) {
        c->pause_ns = 0;
        c->next_round_ns = now + c->period_ns;
        hw_log(INFO, "continuous recording runs, one sample in %llu bytes",
               (unsigned long long)c->interval);
        return;
    }
    end_session(c);
    c->pause_ns = c->pause_ns ? c->pause_ns * 2 : SECOND;
    if (c->pause_ns > longest_pause_ns)
        c->pause_ns = longest_pause_ns;
    c->try_at_ns = now + c->pause_ns;
    hw_log(ERROR, "%s; trying again in %llu s", err.text,
           (unsigned long long)(c->pause_ns / SECOND));
}

static void lost_session(struct hw_continuous *c, const char *why)
{
    hw_log(ERROR, "continuous recording: %s; starting again", why);
    end_session(c);
    hw_continuous_lost(&c->files);
    c->try_at_ns = hw_now_monotonic_ns() + SILENT_NS;
}

static void on_target(struct hw_continuous *c, const struct hw_controller_event *e)
{
    struct hw_control_target_state s;
    if (!hw_controller_body(e, &s, sizeof s))
        return;
    struct hw_bytes text = hw_bytes_of(e->body.p + sizeof s, e->body.n - sizeof s);
    struct hw_continuous_target *t = hw_continuous_targets_find(&c->targets, s.pid);
    switch ((enum hw_target_state)s.state) {
    case HW_TARGET_CONNECTED:
        add_target(c, s.pid, text);
        break;
    case HW_TARGET_REJECTED:
    case HW_TARGET_FAILED:
        hw_log(WARN, "process %d: %.*s", s.pid, (int)text.n, (const char *)text.p);
        break;
    case HW_TARGET_EXITED:
    case HW_TARGET_EXECED:
    case HW_TARGET_CALLED:
        break; /* its last snapshot comes before or after this; see drop_ended */
    }
    if (t && s.state == HW_TARGET_FAILED) {
        t->broke_off = true;
        hw_continuous_broke_off(&c->files, &t->who);
    }
}

static void on_progress(struct hw_continuous *c, const struct hw_controller_event *e)
{
    struct hw_control_progress p;
    if (hw_controller_body(e, &p, sizeof p))
        c->sampling_ns = p.sampling_ns;
}

/* False: the session is over. */
static bool on_event(struct hw_continuous *c, const struct hw_controller_event *e)
{
    switch ((int)e->type) {
    case HW_CTL_TARGET_STATE:
        on_target(c, e);
        break;
    case HW_CTL_LAST:
        last_look(c, e);
        break;
    case HW_CTL_WARNING:
        hw_log(WARN, "%.*s", (int)e->body.n, (const char *)e->body.p);
        break;
    case HW_CTL_PROGRESS:
        on_progress(c, e);
        break;
    case HW_CTL_ENDED:
        return false;
    default:
        break; /* figures of the session: snapshots have them */
    }
    return true;
}

/* ---- periods ---- */

/* Live samples stay valid: each carries the interval it was drawn with. */
static void guard_cost(struct hw_continuous *c)
{
    struct hw_error err = {0};
    uint32_t before = c->guard.doublings;
    if (!hw_continuous_guard_step(&c->guard, hw_now_monotonic_ns(), c->sampling_ns))
        return;
    if (hw_controller_rate(c->controller, c->guard.doublings, &err) < 0)
        hw_log(WARN, "%s", err.text); /* take_events reports the session's end */
    unsigned long long interval = (unsigned long long)c->interval << c->guard.doublings;
    if (c->guard.doublings > before)
        hw_log(WARN,
               "samples take the recorder more than %s %% of a core (--max-cpu): from now on one "
               "in %llu bytes",
               hw_opt_text(&c->cli->opts, HW_OPT_CONT_CPU), interval);
    else
        hw_log(INFO, "samples cost little: from now on one in %llu bytes", interval);
}

static void round_of_looks(struct hw_continuous *c)
{
    struct hw_error err = {0};
    uint64_t now = hw_now_monotonic_ns();
    if (now < c->next_round_ns)
        return;
    c->next_round_ns += c->period_ns;
    if (c->next_round_ns <= now) /* the machine was suspended */
        c->next_round_ns = now + c->period_ns;
    for (size_t i = 0; i < c->targets.n; i++)
        if (hw_continuous_target_is_there(&c->targets.v[i]))
            look_at(c, &c->targets.v[i]);
    hw_continuous_targets_drop(&c->targets, LAST_NS);
    for (size_t i = 0; i < c->targets.n; i++)
        if (hw_continuous_target_is_there(&c->targets.v[i]))
            hw_continuous_note(&c->files, &c->targets.v[i].who);
    if (hw_continuous_end_round(&c->files, &err) < 0)
        hw_log(WARN, "%s", err.text);
}

/* 0 = continue, 1 = stop. */
static int wait_for_more(struct hw_continuous *c)
{
    struct pollfd fds[] = {
        {.fd = c->stop[0], .events = POLLIN},
        {.fd = c->controller ? hw_controller_fd(c->controller) : -1, .events = POLLIN}};
    (void)poll(fds, 2, TICK_MS);
    return fds[0].revents != 0;
}

static void take_events(struct hw_continuous *c)
{
    struct hw_controller_event e;
    struct hw_error err = {0};
    int rc;
    while (c->controller && (rc = hw_controller_next(c->controller, 0, &e, &err)) != 0) {
        if (rc < 0)
            lost_session(c, "the recorder is gone");
        else if (!on_event(c, &e))
            lost_session(c, "the session ended");
    }
}

/* What came since the last round would otherwise be lost. */
static void keep_the_rest(struct hw_continuous *c)
{
    c->ending = true;
    c->next_round_ns = 0;
    if (c->controller)
        round_of_looks(c);
    end_session(c);
}

static void *run(void *ctx)
{
    struct hw_continuous *c = ctx;
    do {
        if (!c->controller)
            try_session(c);
        take_events(c);
        if (c->controller) {
            round_of_looks(c);
            guard_cost(c);
        }
    } while (!wait_for_more(c));
    keep_the_rest(c);
    return NULL;
}

/* ---- start and stop ---- */

/* Names may contain `*`; `cgroup:PATH` and `role:NAME` are as in memory internals. */
static void add_name(struct hw_continuous *c, const char *word)
{
    bool plain = strncmp(word, "cgroup:", 7) != 0 && strncmp(word, "role:", 5) != 0 &&
                 strncmp(word, "name:", 5) != 0;
    hw_strbuf_addf(&c->who, "%s%s%s", c->who.n ? "," : "", plain ? "name:" : "", word);
}

/* --name and the policy. */
static int choose_names(struct hw_continuous *c, struct hw_error *err)
{
    struct hw_policy policy;
    const struct hw_optval *given = &c->cli->opts.v[HW_OPT_NAME];
    int rc = hw_policy_read(c->policy, &policy, err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < policy.continuous.n; i++)
        add_name(c, policy.continuous.v[i]);
    for (size_t i = 0; i < given->list.n; i++)
        add_name(c, given->list.v[i]);
    hw_policy_done(&policy);
    if (c->who.failed)
        return hw_fail(err, HW_ENOMEM, 0, "names");
    if (c->who.n == 0)
        return hw_fail(err, HW_EINVAL, 0,
                       "--continuous: which programs? A line `continuous = NAME ...` in %s, or "
                       "--name NAME",
                       c->policy ? c->policy : HW_POLICY_FILE);
    return HW_OK;
}

static void free_all(struct hw_continuous *c)
{
    end_session(c);
    hw_vec_done(&c->targets);
    hw_strbuf_done(&c->who);
    hw_continuous_files_close(&c->files);
    for (size_t i = 0; i < 2; i++)
        if (c->stop[i] >= 0)
            (void)close(c->stop[i]);
    if (c->null_fd >= 0)
        (void)close(c->null_fd);
    free(c);
}

/* One period, but longer than a burst, and never so long that a storm lasts for hours. */
static uint64_t guard_window_ns(uint64_t period_ns)
{
    uint64_t least = SECOND / 2, most = LAST_NS;
    return period_ns < least ? least : period_ns > most ? most : period_ns;
}

/* Whole seconds, the unit of the configuration. */
static uint64_t young_ns(uint64_t period_ns)
{
    uint64_t s = (period_ns + SECOND - 1) / SECOND;
    return (s < LONGEST_YOUNG_S ? s : LONGEST_YOUNG_S) * SECOND;
}

static int read_percent(const char *text, uint32_t *ppm, struct hw_error *err)
{
    char *end;
    double percent = strtod(text, &end);
    if (end == text || *end || !(percent >= 0 && percent <= 100))
        return hw_fail(err, HW_EINVAL, 0, "--max-cpu: '%s' is not a percentage from 0 to 100",
                       text);
    *ppm = (uint32_t)(percent * 10000);
    return HW_OK;
}

int hw_continuous_start(const struct hw_cli *cli, struct hw_continuous **out, struct hw_error *err)
{
    const struct hw_opts *o = &cli->opts;
    struct hw_continuous *c = calloc(1, sizeof *c);
    if (!c)
        return hw_fail(err, HW_ENOMEM, 0, "continuous recording");
    *c = (struct hw_continuous){.cli = cli,
                                .policy = hw_opt_text(o, HW_OPT_POLICY),
                                .period_ns = hw_opt_num(o, HW_OPT_CONT_EVERY) * 1000000,
                                .interval = hw_opt_num(o, HW_OPT_CONT_INTERVAL),
                                .stop = {-1, -1},
                                .null_fd = open("/dev/null", O_RDWR | O_CLOEXEC)};
    c->guard.window_ns = guard_window_ns(c->period_ns);
    c->young_ns = young_ns(c->period_ns);
    int rc = read_percent(hw_opt_text(o, HW_OPT_CONT_CPU), &c->guard.max_ppm, err);
    if (rc == HW_OK)
        rc = choose_names(c, err);
    if (rc == HW_OK)
        rc = hw_continuous_check_push(&c->cli->opts, c->period_ns, err);
    if (rc == HW_OK)
        rc = hw_continuous_files_open(&c->files, cli, err);
    if (rc == HW_OK && (c->null_fd < 0 || pipe2(c->stop, O_CLOEXEC) < 0))
        rc = hw_fail_sys(err, "continuous recording");
    if (rc == HW_OK && (rc = begin_session(c, err)) == HW_OK) { /* its mistakes are the command's */
        c->next_round_ns = hw_now_monotonic_ns() + c->period_ns;
    }
    if (rc == HW_OK && pthread_create(&c->thread, NULL, run, c) != 0)
        rc = hw_fail_sys(err, "cannot start a thread");
    if (rc < 0)
        free_all(c);
    else
        *out = c;
    return rc;
}

void hw_continuous_stop(struct hw_continuous *c)
{
    if (!c)
        return;
    (void)close(c->stop[1]); /* its poll returns */
    c->stop[1] = -1;
    (void)pthread_join(c->thread, NULL);
    free_all(c);
}

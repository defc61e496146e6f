#include "record/recording.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "base/text/plural.h"
#include "base/text/text_parts.h"
#include "config/command/command.h"
#include "daemon/core.h"
#include "record/children/recording_end.h"

#include "base/banned.h"

enum {
    START_TIMEOUT_MS = 30000,
    TICK_MS = 200,
    GRACE_MS = 2000,         /* grace period of the program after Ctrl-C */
    OUTLIVED_MS = 500,       /* what lives longer than the program is worth a line */
    END_TIMEOUT_MS = 120000, /* for the final dumps, longer than any timeout of the recorder */
    HURRY_MS = 10000         /* for a recorder that was told to stop twice: it needs a second or
                                two */
};

static const uint64_t ms = 1000000; /* ns */

/* ---- signals ---- */

static void listened(sigset_t *s)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1};
    sigemptyset(s);
    for (size_t i = 0; i < HW_ARRAY_LEN(signals); i++)
        sigaddset(s, signals[i]);
}

int hw_recording_block_signals(sigset_t *old, struct hw_error *err)
{
    sigset_t s;
    listened(&s);
    return sigprocmask(SIG_BLOCK, &s, old) < 0 ? hw_fail_sys(err, "sigprocmask") : HW_OK;
}

bool hw_recording_program_runs(const struct hw_recording *r)
{
    return r->launch && r->launch->pid > 0 && r->program_status == -1;
}

void hw_recording_stop(struct hw_recording *r)
{
    if (r->stop_sent || !r->is_started || r->is_ended)
        return;
    r->stop_sent = true;
    r->stopped_ns = hw_now_monotonic_ns();
    r->stop_at_ns = r->stopped_ns + END_TIMEOUT_MS * ms;
    if (r->stopping)
        r->stopping(r->ctx);
    struct hw_error ignored;
    (void)hw_controller_stop(r->controller, 0, &ignored); /* its death shows as end of file */
}

void hw_recording_give_up(struct hw_recording *r)
{
    hw_recording_stop(r);
    r->gave_up = true;
}

/* Second request: the recorder finishes the file with what it has; do not wait for the program. */
static void hurry(struct hw_recording *r)
{
    struct hw_error ignored;
    hw_recording_stop(r);
    if (r->hurried || !r->stop_sent || r->is_ended)
        return;
    r->hurried = true;
    r->stop_at_ns = hw_now_monotonic_ns() + HURRY_MS * ms;
    (void)hw_controller_stop(r->controller, 0, &ignored); /* its death shows as end of file */
}

static void interrupted(struct hw_recording *r)
{
    r->n_interrupts++;
    if (r->n_interrupts > 1)
        hurry(r);
    else if (!hw_recording_program_runs(r))
        hw_recording_stop(r);
    else if (!r->stop_sent)
        r->stop_at_ns = hw_now_monotonic_ns() + GRACE_MS * ms;
}

/* We end when the program does; if it ignores the signal, so do we. */
static void pass_on(struct hw_recording *r, int number)
{
    (void)kill(r->launch->pid, number); /* not reaped yet, so it is that process */
    r->n_terms += number == SIGTERM;
    if (r->n_terms > 1)
        hurry(r);
}

static void on_signal(struct hw_recording *r, const struct signalfd_siginfo *s)
{
    int number = (int)s->ssi_signo;
    if (number == SIGUSR1) {
        struct hw_error ignored;
        (void)hw_controller_dump(r->controller, NULL, 0, &ignored);
        return;
    }
    if (number != SIGINT && hw_recording_program_runs(r)) {
        pass_on(r, number);
        return;
    }
    /* Ctrl-C on the terminal reached the program too; a SIGINT sent only to us did not. */
    if (number == SIGINT && hw_recording_program_runs(r) && s->ssi_code != SI_KERNEL)
        (void)kill(r->launch->pid, SIGINT);
    interrupted(r);
}

/* ---- events ---- */

static void progress_line_end(struct hw_recording *r)
{
    if (r->line_open)
        fputs("\r\033[K", stderr);
    r->line_open = false;
}

static void show_progress(struct hw_recording *r)
{
    uint64_t now = hw_now_monotonic_ns();
    if (!r->progress || now < r->next_progress_ns)
        return;
    bool terminal = isatty(STDERR_FILENO);
    bool first = r->next_progress_ns == 0;
    r->next_progress_ns = now + (terminal ? 500 * ms : 30000 * ms);
    if (first && !terminal)
        return; /* the first line after 30 s */
    double seconds = (double)(now - r->started_ns) / 1e9;
    fprintf(stderr, "%s%.0f s  %" PRIu64 " samples  %.1f MiB  %u dump%s  lost %" PRIu64 "%s",
            terminal ? "\r\033[K" : "", seconds, r->last.n_samples,
            (double)r->last.bytes_written / 1048576, r->last.n_dumps, hw_plural(r->last.n_dumps),
            r->last.n_lost, terminal ? "" : "\n");
    r->line_open = terminal;
}

static struct hw_seen_target *find_target(struct hw_recording *r, int32_t pid)
{
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i].pid == pid)
            return &r->targets.v[i];
    if (hw_vec_push(&r->targets, (struct hw_seen_target){.pid = pid}) < 0)
        return NULL;
    return &r->targets.v[r->targets.n - 1];
}

static void on_target(struct hw_recording *r, const struct hw_controller_event *e)
{
    struct hw_control_target_state s;
    if (!hw_controller_body(e, &s, sizeof s))
        return;
    struct hw_seen_target *t = find_target(r, s.pid);
    if (!t)
        return; /* out of memory: just a shorter list for messages */
    char *text = strndup((const char *)e->body.p + sizeof s, e->body.n - sizeof s);
    t->state = s.state;
    /* A failure or refusal comes with its reason, other events with the name. */
    char **slot =
        s.state == HW_TARGET_FAILED || s.state == HW_TARGET_REJECTED ? &t->reason : &t->name;
    t->connected |= s.state == HW_TARGET_CONNECTED;
    if (s.state == HW_TARGET_CONNECTED && t->connected_ns == 0)
        t->connected_ns = hw_now_monotonic_ns();
    if (s.state == HW_TARGET_CALLED && !t->called)
        t->called_ns = hw_now_monotonic_ns();
    t->called |= s.state == HW_TARGET_CALLED;
    if (s.state == HW_TARGET_EXECED)
        t->executed = hw_offspring_now(s.pid);
    if (text && text[0] && (slot == &t->reason || s.state == HW_TARGET_CONNECTED)) {
        free(*slot);
        *slot = text;
    } else {
        free(text);
    }
    if (s.state == HW_TARGET_FAILED || s.state == HW_TARGET_REJECTED) {
        progress_line_end(r);
        hw_log(WARN, "process %d: %s", s.pid,
               t->reason                       ? t->reason
               : s.state == HW_TARGET_REJECTED ? "another recording has it"
                                               : "profiling ended early");
    }
}

static bool is_of_descriptors(struct hw_bytes warning)
{
    static const char start[] = "no more descriptors";
    return hw_bytes_start_with(warning, start);
}

static void on_ended(struct hw_recording *r, const struct hw_controller_event *e)
{
    if (!hw_controller_body(e, &r->ended, sizeof r->ended))
        return;
    r->is_ended = true;
    if (r->stopped_ns == 0)
        r->stopped_ns = hw_now_monotonic_ns();
    (void)snprintf(r->reason, sizeof r->reason, "%.*s", (int)(e->body.n - sizeof r->ended),
                   (const char *)e->body.p + sizeof r->ended);
}

static void on_event(struct hw_recording *r, const struct hw_controller_event *e)
{
    switch (e->type) {
    case HW_CTL_WARNING:
        r->lacked_descriptors |= is_of_descriptors(e->body);
        progress_line_end(r);
        if (r->warned)
            r->warned(r->ctx, e->body);
        else
            hw_log(WARN, "%.*s", (int)e->body.n, (const char *)e->body.p);
        break;
    case HW_CTL_TARGET_STATE:
        on_target(r, e);
        break;
    case HW_CTL_PROGRESS:
        if (hw_controller_body(e, &r->last, sizeof r->last))
            show_progress(r);
        break;
    case HW_CTL_ENDED:
        on_ended(r, e);
        break;
    case HW_CTL_ERROR:
        progress_line_end(r);
        hw_log(ERROR, "%.*s", (int)e->body.n, (const char *)e->body.p);
        break;
    case HW_CTL_STATUS_REPLY:
        if (r->status)
            r->status(r->ctx, e->body);
        break;
    case HW_CTL_NONE:
    case HW_CTL_START:
    case HW_CTL_STOP:
    case HW_CTL_DUMP:
    case HW_CTL_STATUS:
    case HW_CTL_TARGET:
    case HW_CTL_FLUSH:
    case HW_CTL_DETACH:
    case HW_CTL_ATTACH:
    case HW_CTL_CLONE:
    case HW_CTL_LIVE:
    case HW_CTL_MARK:
    case HW_CTL_LEAVE:
    case HW_CTL_RATE:
    case HW_CTL_LIVE_REPLY:
    case HW_CTL_LEFT:
    case HW_CTL_LAST:
    case HW_CTL_DETACHED:
    case HW_CTL_ATTACHED:
    case HW_CTL_CLONED:
    case HW_CTL_STARTED:
    case HW_CTL_DUMPED:
    case HW_CTL_TYPE_COUNT:
        break;
    }
}

bool hw_recording_is_starter(const struct hw_seen_target *t)
{
    const char *name = t->name ? t->name : "";
    return hw_launch_is_launcher(hw_base_name(name));
}

bool hw_recording_left_out(const struct hw_recording *r, const struct hw_offspring_row *row)
{
    bool had = false;
    for (size_t i = 0; i < r->targets.n; i++)
        had |= r->targets.v[i].pid == row->pid && r->targets.v[i].connected;
    return !had && !hw_launch_is_launcher(row->name);
}

/* ---- the loop ---- */

static int drain_events(struct hw_recording *r, struct hw_error *err)
{
    struct hw_controller_event e;
    int rc = 0;
    while (!r->is_ended && (rc = hw_controller_next(r->controller, 0, &e, err)) > 0)
        on_event(r, &e);
    return rc;
}

static void drain_signals(struct hw_recording *r)
{
    struct signalfd_siginfo s;
    while (r->signal_fd >= 0 && read(r->signal_fd, &s, sizeof s) == (ssize_t)sizeof s)
        on_signal(r, &s);
}

static void reap_program(struct hw_recording *r)
{
    int status;
    pid_t pid;
    do
        pid = waitpid(r->launch->pid, &status, WNOHANG);
    while (pid < 0 && errno == EINTR);
    if (pid == r->launch->pid) {
        r->program_status = status;
        r->next_look_ns = 0;
        r->program_ended_ns = hw_now_monotonic_ns();
    }
}

static void tell_outlived(struct hw_recording *r)
{
    bool lasts = hw_now_monotonic_ns() >= r->program_ended_ns + OUTLIVED_MS * ms;
    if (!lasts || !r->outlived || r->told_outlived)
        return;
    progress_line_end(r);
    r->told_outlived = true;
    r->outlived(r->ctx);
}

/* --follow-fork */
static bool others_live(struct hw_recording *r, bool looked)
{
    if (!looked)
        return true;
    bool last = hw_recording_others_live(r);
    if (last && r->looks_in_vain == 0)
        tell_outlived(r);
    return last;
}

/* Timed events: stops that are due, the end of the last descendant. */
static void tick(struct hw_recording *r)
{
    uint64_t now = hw_now_monotonic_ns();
    bool looked = hw_recording_scan_children(r);
    if (!r->stop_sent && r->stop_at_ns && now >= r->stop_at_ns)
        hw_recording_stop(r);
    if (r->launch && !hw_recording_program_runs(r) && r->stop_with_program &&
        (!r->follow_fork || !others_live(r, looked)))
        hw_recording_stop(r);
    if (!r->stop_sent && hw_recording_awaited_ended(r))
        hw_recording_stop(r);
}

static bool finished(const struct hw_recording *r)
{
    bool written = r->is_ended || r->recorder_gone;
    return written &&
           (!hw_recording_program_runs(r) || r->n_interrupts > 1 || r->n_terms > 1 || r->gave_up);
}

static int wait_some(struct hw_recording *r)
{
    bool program = hw_recording_program_runs(r);
    bool recorder = !r->is_ended && !r->recorder_gone;
    struct pollfd p[3] = {
        {.fd = r->signal_fd, .events = POLLIN},
        {.fd = recorder ? hw_controller_fd(r->controller) : -1, .events = POLLIN},
        {.fd = program ? r->launch->pidfd : -1, .events = POLLIN},
    };
    bool timed = r->each || (recorder && (r->stop_at_ns || r->launch));
    bool soon = recorder && program && r->look_pause_ns < TICK_MS * ms;
    int pause = r->looks_in_vain && !r->stop_sent ? HW_RECORDING_SCAN_AGAIN_MS
                : soon                            ? (int)(r->look_pause_ns / ms) + 1
                                                  : TICK_MS;
    return poll(p, 3, timed ? pause : -1);
}

static void tell_written(struct hw_recording *r)
{
    progress_line_end(r);
    if (r->written && !r->told_written)
        r->written(r->ctx);
    r->told_written = true;
}

static int loop(struct hw_recording *r, struct hw_error *err)
{
    int rc = HW_OK;
    while (!finished(r)) {
        if (wait_some(r) < 0 && errno != EINTR)
            return hw_fail_sys(err, "poll");
        drain_signals(r);
        if (r->each)
            r->each(r->ctx);
        if (!r->is_ended && !r->recorder_gone && drain_events(r, err) < 0) {
            rc = HW_EGONE;
            r->recorder_gone = true;
        }
        if (hw_recording_program_runs(r))
            reap_program(r);
        if (r->is_ended || r->recorder_gone) {
            tell_written(r);
            continue;
        }
        tick(r);
        if (r->stop_sent && hw_now_monotonic_ns() >= r->stop_at_ns) {
            if (r->hurried)
                hw_controller_kill(r->controller);
            hw_controller_abandon(r->controller);
            r->recorder_gone = true;
            rc = hw_fail(err, HW_ETIMEOUT, 0, "the recorder is not ending the recording");
            tell_written(r);
        }
    }
    return rc;
}

/* ---- start and end ---- */

static int listen_to_signals(struct hw_recording *r, struct hw_error *err)
{
    sigset_t s;
    listened(&s);
    r->program_status = -1;
    r->signal_fd = r->own_signals ? -1 : signalfd(-1, &s, SFD_CLOEXEC | SFD_NONBLOCK);
    return r->signal_fd < 0 && !r->own_signals ? hw_fail_sys(err, "signalfd") : HW_OK;
}

int hw_recording_adopt(struct hw_recording *r, struct hw_error *err)
{
    r->is_started = r->is_adopted = true;
    r->started_ns = hw_now_monotonic_ns();
    return listen_to_signals(r, err);
}

int hw_recording_start(struct hw_recording *r, const struct hw_control_start *start,
                       struct hw_bytes config, int fd, struct hw_error *err)
{
    int rc = listen_to_signals(r, err);
    if (rc == 0 && r->launch)
        rc = hw_controller_target(r->controller, r->launch->pid, err);
    if (rc == 0)
        rc = hw_controller_start(r->controller, start, config, fd, err);
    uint64_t deadline = hw_now_monotonic_ns() + START_TIMEOUT_MS * ms;
    while (rc == 0 && !r->is_started && hw_now_monotonic_ns() < deadline) {
        struct hw_controller_event e;
        rc = hw_controller_next(r->controller, TICK_MS, &e, err);
        if (rc <= 0)
            continue;
        rc = HW_OK;
        if (e.type == HW_CTL_ERROR)
            return hw_controller_refused(&e, err);
        r->is_started = e.type == HW_CTL_STARTED;
        on_event(r, &e);
    }
    if (rc < 0)
        return rc;
    if (!r->is_started)
        return hw_fail(err, HW_ETIMEOUT, 0, "the recorder did not start within %d s",
                       START_TIMEOUT_MS / 1000);
    r->started_ns = hw_now_monotonic_ns();
    return HW_OK;
}

int hw_recording_run(struct hw_recording *r, struct hw_error *err)
{
    if (r->launch) {
        int rc = hw_launch_go(r->launch, err);
        if (rc < 0) {
            int status;
            (void)waitpid(r->launch->pid, &status, 0); /* its reason is known */
            r->launch->pid = -1;
            return rc;
        }
    }
    if (r->started)
        r->started(r->ctx);
    int rc = loop(r, err);
    progress_line_end(r);
    return rc;
}

void hw_recording_done(struct hw_recording *r)
{
    for (size_t i = 0; i < r->targets.n; i++) {
        free(r->targets.v[i].name);
        free(r->targets.v[i].reason);
    }
    hw_vec_done(&r->targets);
    hw_offspring_done(&r->offspring);
    if (r->signal_fd > 0)
        (void)close(r->signal_fd);
    *r = (struct hw_recording){0};
}

/*
 * How likely a target is the wanted one: not a mere launcher, the command itself rather than a
 * child, one that did not exec.
 */
static int rank(const struct hw_recording *r, const struct hw_seen_target *t)
{
    if (hw_recording_is_starter(t))
        return t->state != HW_TARGET_EXECED;
    return 2 + (t->state != HW_TARGET_EXECED) + 2 * (r->launch && t->pid == r->launch->pid);
}

bool hw_recording_is_empty(const struct hw_recording *r, const struct hw_seen_target *t)
{
    if (r->recorder_gone)
        return false; /* not counted: the file may have something */
    if (r->is_adopted)
        return r->ended.n_samples == 0;
    return !t || r->ended.n_samples == 0 ||
           (t->state == HW_TARGET_EXECED && hw_recording_is_starter(t));
}

size_t hw_recording_programs(const struct hw_recording *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->targets.n; i++)
        n += r->targets.v[i].connected && !hw_recording_is_starter(&r->targets.v[i]);
    return n;
}

const struct hw_seen_target *hw_recording_main_target(const struct hw_recording *r)
{
    const struct hw_seen_target *best = NULL;
    for (size_t i = 0; i < r->targets.n; i++) {
        const struct hw_seen_target *t = &r->targets.v[i];
        if (t->connected && (!best || rank(r, t) > rank(r, best)))
            best = t;
    }
    return best;
}

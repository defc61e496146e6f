/*
 * recorder.c - the event loop
 *
 * One epoll set; after each round a tick handles what depends on time. Objects are freed in the
 * tick only, never while events of the same round may still refer to them.
 */
#include "daemon/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "daemon/clients/blocking_fd.h"
#include "daemon/core.h"
#include "daemon/events.h"
#include "daemon/hello.h"
#include "daemon/policy/memory.h"
#include "daemon/policy/privilege.h"

#include "base/banned.h"

#define MS              UINT64_C(1000000)
#define TICK_MS         50
#define TICK_LEFT_ON_MS 200 /* nobody waits for the next step of a recording that is left on */
#define TICK_PREPARE_MS 2
#define TICK_YOUNG_MS   20
#define MAX_EVENTS      64
#define SWEEP_MS        200
#define MEASURE_MS      1000
#define ANSWERS_NS      UINT64_C(20000000) /* then the others have their turn */
#define WANTED_FILES    65536u             /* three descriptors a target */

/* ---- input events ---- */

static void on_signal(struct hw_watch *w, uint32_t events)
{
    struct hw_recorder *r = HW_OWNER_OF(w, struct hw_recorder, signals);
    struct signalfd_siginfo si;
    (void)events;
    while (read(w->fd, &si, sizeof si) == sizeof si) {
        if (si.ssi_signo == SIGCHLD)
            continue; /* perhaps the guard was stopped: the tick checks */
        if (si.ssi_signo == SIGUSR1) {
            for (size_t i = 0; i < r->sessions.n; i++) {
                r->sessions.v[i]->signalled = true;
                hw_session_dump(r->sessions.v[i], "signal", NULL, 0);
            }
            continue;
        }
        bool again = r->stopping;
        r->stopping = true;
        for (size_t i = 0; i < r->sessions.n; i++) {
            hw_session_stop(r->sessions.v[i], "interrupted");
            if (again)
                hw_session_hurry(r->sessions.v[i]);
        }
    }
}

/* 150 ms in which some task waited for memory, within one second. */
#define PRESSURE_TRIGGER "some 150000 1000000"

static void on_pressure(struct hw_watch *w, uint32_t events)
{
    struct hw_recorder *r = HW_OWNER_OF(w, struct hw_recorder, pressure);
    if (events & EPOLLPRI)
        hw_triggers_pressure(r);
    if (events & (EPOLLERR | EPOLLHUP))
        hw_watch_remove(r, w);
}

/* Optional: kernels without PSI, or that keep it to root, report nothing. */
static void watch_pressure(struct hw_recorder *r)
{
    int fd = open("/proc/pressure/memory", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return;
    r->pressure = (struct hw_watch){fd, on_pressure};
    if (write(fd, PRESSURE_TRIGGER, sizeof PRESSURE_TRIGGER) < 0 ||
        hw_watch_add(r, &r->pressure, EPOLLPRI) < 0) {
        (void)close(fd); /* nothing was written to it */
        r->pressure.fd = -1;
    }
}

static void on_workers(struct hw_watch *w, uint32_t events)
{
    struct hw_recorder *r = HW_OWNER_OF(w, struct hw_recorder, workers_watch);
    hw_modules_answers(r->modules);
    if (events & (EPOLLHUP | EPOLLERR))
        hw_watch_remove(r, w);
}

static void on_module(void *ctx, struct hw_module_file *m)
{
    struct hw_recorder *r = ctx;
    for (size_t i = 0; i < r->targets.n; i++)
        hw_target_module_changed(r->targets.v[i], m);
}

static void on_answer(const struct hw_msg *m)
{
    struct hw_target *t = m->who;
    switch ((enum hw_drained_type)m->type) {
    case HW_DRAINED_STACKS:
        hw_target_stacks(t, m->data, m->n);
        break;
    case HW_DRAINED_NAMES:
        hw_target_names(t, m->data, m->n);
        break;
    case HW_DRAINED_SNAP:
        hw_dump_snapshot(t, m->data, m->flags);
        break;
    case HW_DRAINED_MAPS:
        hw_target_maps_wanted(t, m->flags);
        break;
    case HW_DRAINED_FORKED:
        hw_target_forked(t, m->data);
        break;
    case HW_DRAINED_SHARED:
        hw_target_shared_wanted(t, m->flags);
        break;
    case HW_DRAINED_BROKEN:
        hw_target_finish(t, HW_END_BROKEN);
        break;
    case HW_DRAINED_STUCK:
        hw_target_finish(t, HW_END_STUCK);
        break;
    case HW_DRAINED_HOLE:
        hw_target_hole(t, (int32_t)m->flags);
        break;
    case HW_DRAINED_FULL:
        hw_target_too_big(t);
        break;
    case HW_DRAINED_EVENTS:
        hw_dump_events(t, m->data, m->n);
        break;
    case HW_DRAINED_SLICES:
        hw_target_slices(t, m->data, m->n);
        break;
    case HW_DRAINED_MINFO:
        hw_proc_poll_malloc_info(t, m->data);
        free(m->data);
        break;
    }
}

/* Targets live until their feed's last answer, so every message refers to a living one. A
 * target's messages take as long as it likes: signals and commands come in between. */
static void hear_answers(struct hw_recorder *r)
{
    uint64_t end = hw_now_monotonic_ns() + ANSWERS_NS;
    do {
        struct hw_msg *m = r->answered;
        if (!m && !(m = hw_message_queue_take(&r->answers)))
            return;
        r->answered = m->next;
        on_answer(m);
        free(m);
    } while (hw_now_monotonic_ns() < end);
}

static void on_answers(struct hw_watch *w, uint32_t events)
{
    (void)events;
    hear_answers(HW_OWNER_OF(w, struct hw_recorder, answers_watch));
}

/* ---- time ---- */

static void mark_files(const struct hw_target *t)
{
    for (size_t i = 0; i < t->frames.ranges.n; i++)
        if (t->frames.ranges.v[i].file)
            t->frames.ranges.v[i].file->used = true;
    for (size_t i = 0; i < t->frames.gone.ranges.n; i++)
        if (t->frames.gone.ranges.v[i].file)
            t->frames.gone.ranges.v[i].file->used = true;
}

static void sweep_files(struct hw_recorder *r, uint64_t now)
{
    if (!r->sweep_due || now < r->next_sweep_ns)
        return;
    r->sweep_due = false;
    r->next_sweep_ns = now + SWEEP_MS * UINT64_C(1000000);
    for (size_t i = 0; i < r->targets.n; i++)
        mark_files(r->targets.v[i]);
    for (size_t i = 0; i < r->attaching.n; i++)
        r->attaching.v[i].library->used = true;
    hw_inject_mark_files(r);
    hw_modules_sweep(r->modules);
    if (r->targets.n == 0 && r->attaching.n == 0 && r->injecting.n == 0 && r->sessions.n == 0)
        hw_modules_forget(r->modules);
}

/* One at a time: its end gives memory back, but not at once. */
static void weigh(struct hw_recorder *r, uint64_t now)
{
    struct hw_target *most = NULL;
    if (r->targets.n == 0 || now < r->next_measure_ns)
        return;
    r->next_measure_ns = now + MEASURE_MS * UINT64_C(1000000);
    if (hw_memory_own() < hw_memory_of_recorder())
        return;
    for (size_t i = 0; i < r->targets.n; i++) {
        struct hw_target *t = r->targets.v[i];
        if (t->phase == HW_PHASE_FINISHING && t->hit_guardrail)
            return;
        if (t->phase == HW_PHASE_RUNNING && (!most || hw_target_bytes(t) > hw_target_bytes(most)))
            most = t;
    }
    if (most)
        hw_target_too_big(most);
}

/* An embedded recorder keeps only those that it will record again. */
static void keep_client(struct hw_target *t)
{
    if (!t->rec->embedded || hw_record_again_rests(t->session, &t->pid))
        hw_clients_take_back(t);
}

static void tick(struct hw_recorder *r)
{
    uint64_t now = hw_now_monotonic_ns();
    hw_blocking_fd_tick();
    hw_hello_tick(r, now);
    hw_clients_tick(r, now);
    hw_exec_watch_tick(r);
    hw_attach_tick(r, now);
    hw_namespace_sockets_tick(r, now);
    hw_inject_tick(r, now);
    hw_targets_resolve(r);
    for (size_t i = 0; i < r->targets.n; i++)
        hw_target_tick(r->targets.v[i], now);
    hw_targets_write(r);
    for (size_t i = 0; i < r->targets.n;) {
        if (r->targets.v[i]->phase == HW_PHASE_DONE && !r->targets.v[i]->with_thread) {
            keep_client(r->targets.v[i]);
            hw_target_free(r->targets.v[i]);
            r->targets.v[i] = r->targets.v[--r->targets.n];
            r->sweep_due = true;
        } else {
            i++;
        }
    }
    for (size_t i = 0; i < r->sessions.n; i++)
        hw_session_tick(r->sessions.v[i], now);
    for (size_t i = 0; i < r->sessions.n;) {
        if (r->sessions.v[i]->ended) {
            hw_session_free(r->sessions.v[i]);
            r->sessions.v[i] = r->sessions.v[--r->sessions.n];
            r->sweep_due = true;
        } else {
            i++;
        }
    }
    weigh(r, now);
    sweep_files(r, now);
    hw_session_detach_tick(r, now);
    hw_live_view_tick(r, now);
    hw_dumps_tick(r, now);
    for (size_t i = 0; i < r->controls.n;) {
        if (r->controls.v[i]->closed) {
            free(r->controls.v[i]);
            r->controls.v[i] = r->controls.v[--r->controls.n];
        } else {
            i++;
        }
    }
}

/* Until programs are checked that started and are not ready yet. */
static int found_ms(const struct hw_recorder *r, int at_most)
{
    uint64_t next = hw_attach_found_ns(r), now = hw_now_monotonic_ns();
    if (next <= now)
        return 0;
    return next - now < (uint64_t)at_most * MS ? (int)((next - now) / MS) + 1 : at_most;
}

static bool has_conditions(const struct hw_session *s)
{
    for (size_t i = 0; i < s->sources.n; i++)
        if (s->sources.v[i].config->conditions.n)
            return true;
    return s->config.duration_ms != 0;
}

static int sessions_ms(const struct hw_recorder *r)
{
    if (r->attaching.n)
        return TICK_MS; /* tried again each turn */
    for (size_t i = 0; i < r->sessions.n; i++) {
        const struct hw_session *s = r->sessions.v[i];
        if (!(s->start.flags & HW_START_RESCAN) || s->stopping || s->closed || has_conditions(s))
            return TICK_MS;
    }
    for (size_t i = 0; i < r->controls.n; i++)
        if (r->controls.v[i]->live_key)
            return TICK_MS;
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i]->phase != HW_PHASE_RUNNING)
            return TICK_MS;
    return TICK_LEFT_ON_MS;
}

static int targets_ms(const struct hw_recorder *r)
{
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i]->phase == HW_PHASE_PREPARING)
            return TICK_PREPARE_MS;
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i]->maps_due)
            return TICK_PREPARE_MS; /* its next samples wait for the answer */
    for (size_t i = 0; i < r->targets.n; i++)
        if (hw_target_seeks_generated(r->targets.v[i]))
            return TICK_YOUNG_MS;
    if (r->sweep_due && r->sessions.n == 0)
        return SWEEP_MS;
    return r->sessions.n ? sessions_ms(r) : r->conns.n || r->accept_paused ? 500 : 5000;
}

static int wait_ms(const struct hw_recorder *r)
{
    if (hw_attach_busy(r) || hw_proc_poll_busy(r) || r->stacks_left || r->dumps_left || r->answered)
        return 0;
    return found_ms(r, hw_inject_preparing(r) ? TICK_PREPARE_MS : targets_ms(r));
}

static bool finished(const struct hw_recorder *r)
{
    if (r->sessions.n)
        return false;
    return r->stopping || (r->embedded && r->controller_gone);
}

static void loop(struct hw_recorder *r)
{
    while (!finished(r)) {
        struct epoll_event e[MAX_EVENTS];
        int n = epoll_wait(r->epoll_fd, e, MAX_EVENTS, wait_ms(r));
        hw_blocking_reader_turn(r->blocking_reader);
        for (int i = 0; i < n; i++) {
            struct hw_watch *w = e[i].data.ptr;
            w->fn(w, e[i].events);
        }
        if (r->answered)
            hear_answers(r);
        tick(r);
    }
}

/* ---- start and end ---- */

const char *hw_default_producer_socket(void)
{
    const char *e = secure_getenv("PERFETTO_PRODUCER_SOCK_NAME");
    if (e && e[0])
        return e;
    return access("/run/perfetto", W_OK) == 0 ? HW_SOCKET_OF_SERVICE : HW_SOCKET_OF_USER;
}

const char *hw_default_consumer_socket(void)
{
    const char *e = secure_getenv("PERFETTO_CONSUMER_SOCK_NAME");
    if (e && e[0])
        return e;
    return access("/run/perfetto", W_OK) == 0 ? "/run/perfetto/traced-consumer.sock"
                                              : "/tmp/perfetto-consumer";
}

static int open_private_dir(const char *path)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return -1;
    int fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 077))) {
        (void)close(fd); /* not ours alone: no cache */
        fd = -1;
    }
    return fd;
}

static int open_cache(const char *dir)
{
    char path[4096];
    if (dir)
        return open_private_dir(dir);
    const char *xdg = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    if (geteuid() == 0)
        return open_private_dir("/var/cache/heapwise");
    if (xdg && xdg[0] == '/')
        (void)snprintf(path, sizeof path, "%s/heapwise", xdg);
    else if (home && home[0] == '/')
        (void)snprintf(path, sizeof path, "%s/.cache/heapwise", home);
    else
        return -1;
    return open_private_dir(path);
}

static int watch_signals(struct hw_recorder *r, struct hw_error *err)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return hw_fail_sys(err, "signals");
    (void)signal(SIGPIPE, SIG_IGN); /* cannot fail */
    (void)signal(SIGXFSZ, SIG_IGN); /* `ulimit -f`: the write says so */
    r->signals = (struct hw_watch){signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), on_signal};
    if (r->signals.fd < 0 || hw_watch_add(r, &r->signals, EPOLLIN) < 0)
        return hw_fail_sys(err, "signals");
    return HW_OK;
}

static void raise_limits(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) < 0)
        return;
    struct rlimit more = {WANTED_FILES, WANTED_FILES};
    if (l.rlim_max < WANTED_FILES && setrlimit(RLIMIT_NOFILE, &more) == 0)
        return; /* with privilege */
    l.rlim_cur = l.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &l); /* then fewer targets */
}

static unsigned thread_count(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return cpus > 16 ? 4 : cpus > 4 ? 2 : 1;
}

static int set_up(struct hw_recorder *r, struct hw_error *err)
{
    const struct hw_recorder_options *o = &r->options;
    int rc = hw_workers_start(&r->workers, err); /* first: no thread may exist yet */
    if (rc == HW_OK)
        rc = hw_exec_watch_init(r, err); /* the same */
    if (rc < 0)
        return rc;
    hw_privilege_keep_needed(); /* workers became another user, which we cannot become any more */
    r->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (r->epoll_fd < 0)
        return hw_fail_sys(err, "cannot set the recorder up");
    r->cache_fd = open_cache(o->cache_dir);
    watch_pressure(r);
    if ((rc = watch_signals(r, err)) < 0)
        return rc;
    if (hw_message_queue_init(&r->answers) < 0)
        return hw_fail_sys(err, "cannot set the recorder up");
    r->answers_watch = (struct hw_watch){r->answers.fd, on_answers};
    r->workers_watch = (struct hw_watch){r->workers.fd, on_workers};
    if (hw_watch_add(r, &r->answers_watch, EPOLLIN) < 0 ||
        hw_watch_add(r, &r->workers_watch, EPOLLIN) < 0)
        return hw_fail_sys(err, "cannot set the recorder up");
    if ((rc = hw_inject_init(r)) < 0 || (rc = hw_blocking_reader_new(&r->blocking_reader)) < 0 ||
        (rc = hw_modules_new(&r->workers, r->cache_fd, on_module, r, &r->modules)) < 0 ||
        (rc = hw_drain_new(thread_count(), &r->answers, &r->drain)) < 0)
        return rc == HW_ESYS ? hw_fail_sys(err, "cannot set the recorder up")
                             : hw_fail(err, rc, 0, "cannot set the recorder up:");
    rc = hw_hello_listen(r, o->producer_socket ? o->producer_socket : hw_default_producer_socket(),
                         err);
    if (rc < 0)
        return rc;
    if (r->embedded)
        hw_namespace_socket_open_file(r);
    else
        return hw_control_listen(
            r, o->consumer_socket ? o->consumer_socket : hw_default_consumer_socket(), err);
    char name[64];
    struct hw_error ignored; /* without it: `heapwise dump NAME` does not find us, a signal does */
    (void)snprintf(name, sizeof name, HW_CONTROL_EMBEDDED "%d", (int)getpid());
    (void)hw_control_listen(r, name, &ignored);
    return hw_control_add(r, o->controller_fd, /* controller = */ true);
}

static void tear_down(struct hw_recorder *r)
{
    hw_exec_watch_done(r);
    hw_inject_done(r);
    hw_drain_free(r->drain);
    hw_clients_done(r);
    hw_namespace_sockets_done(r);
    hw_control_done(r);
    hw_modules_free(r->modules);
    hw_blocking_reader_free(r->blocking_reader);
    hw_workers_stop(&r->workers);
    for (size_t i = 0; i < r->targets.n; i++)
        hw_target_free(r->targets.v[i]);
    hw_vec_done(&r->targets);
    hw_vec_done(&r->sessions);
    hw_vec_done(&r->attaching);
    for (size_t i = 0; i < r->found.n; i++)
        hw_pid_done(&r->found.v[i].pid);
    hw_vec_done(&r->found);
    for (struct hw_msg *m = r->answered, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    if (r->answers.last)
        hw_message_queue_done(&r->answers);
    if (r->signals.fd >= 0)
        (void)close(r->signals.fd); /* nothing is pending on these */
    if (r->pressure.fd >= 0)
        (void)close(r->pressure.fd); /* nothing is pending on it */
    if (r->cache_fd >= 0)
        (void)close(r->cache_fd);
    if (r->epoll_fd >= 0)
        (void)close(r->epoll_fd);
}

int hw_recorder_run(const struct hw_recorder_options *o, struct hw_error *err)
{
    struct hw_recorder r = {
        .options = *o, .events = &hw_target_events, .epoll_fd = -1, .cache_fd = -1};
    r.starts.order = -1;
    r.pressure.fd = r.signals.fd = r.inject_watch.fd = r.producers.fd = r.consumers.fd =
        r.workers.fd = -1;
    r.embedded = o->controller_fd >= 0;
    /* Not where another recorder began: its generations may still be in threads' words. */
    if (getrandom(&r.next_generation, sizeof r.next_generation, GRND_NONBLOCK) !=
        sizeof r.next_generation)
        r.next_generation = (uint32_t)hw_now_monotonic_ns();
    r.next_generation &= 0x3fffffff;
    (void)prctl(PR_SET_NAME, "heapprofd"); /* `killall -USR1 heapprofd` reaches embedded ones too */
    raise_limits();
    hw_hello_limit(&r);
    int rc = hw_policy_read(o->policy, &r.policy, err);
    if (rc < 0)
        return rc;
    rc = set_up(&r, err);
    if (rc == HW_OK)
        loop(&r);
    tear_down(&r);
    hw_policy_done(&r.policy);
    return rc;
}

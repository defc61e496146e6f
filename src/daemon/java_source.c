#include "daemon/java_source.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/vec.h"
#include "daemon/core.h"
#include "daemon/java/java_dump.h"
#include "daemon/procfs_packets.h"
#include "java/jvm/jvm_attach.h"
#include "java/name.h"
#include "proc/pid.h"
#include "proc/smaps.h"
#include "trace/writer.h"

#include "base/banned.h"

#define MS UINT64_C(1000000)

enum {
    LOOK_MS = 100,        /* for JVMs that this session records */
    SCAN_MS = 1000,       /* for others, by name, and for those that could not be watched yet */
    START_MS = 3000,      /* a JVM that is not ready then is no longer starting */
    BY_CLIENT_MS = 10000, /* the client has that long to load the library */
    HOLD_MS = 30000       /* the longest silence of ours that a JVM waits for */
};

/* One selected JVM; its connection lives as long as the source. */
struct jvm {
    struct hw_pid pid;
    struct hw_java_dump *dump; /* owned; NULL = it failed */
    struct hw_java_dump_figures figures;
    struct hw_smaps smaps;
    bool has_smaps;
    bool due;     /* a graph of this round is wanted */
    bool watched; /* it reports moments */
    bool ready;   /* a graph waits to be written */
    bool failed;  /* error says why; tried again in the next round */
    bool told, described, dumped;
    bool is_held; /* moment: it waits for the graph of this */
    struct hw_java_moment moment;
    bool over; /* its last graph was taken, or nothing more can come */
    uint64_t met_ns, tried_ns;
    struct hw_error error;
};

struct asked { /* recorded, and a JVM */
    int32_t pid;
    uint64_t start_ticks;
};

struct hw_java_source {
    struct hw_session *session;
    const struct hw_java_config *config;        /* borrowed from the session's */
    struct hw_blocking_reader *blocking_reader; /* owned; the thread's: a JVM may never answer */
    uint32_t sequence;
    uint64_t next_ns, every_ns; /* 0 = no more rounds */
    uint64_t next_look_ns;      /* for JVMs whose moments are watched */
    uint32_t events;            /* moments: bits 1 << enum hw_java_event */
    bool wanted, begun, ending;
    unsigned n_skipped;
    HW_VEC(struct asked) asked; /* the thread's while it runs, from the tick */
    bool dumps;                 /* this round: of all */
    bool by_client;             /* it brings the library in */
    bool scanned;

    pthread_t thread;
    bool running; /* the thread was made and not joined */

    pthread_mutex_t lock; /* what follows; the thread and the tick */
    bool finished;        /* the thread has nothing more to do */
    bool none;            /* the round found no JVM */
    struct jvm *given;    /* the thread waits until the tick has written it */
    pthread_cond_t taken;
    bool leave;
    HW_VEC(struct jvm *) jvms; /* the thread's while it runs */
};

/* ---- the thread: which JVMs ---- */

static bool is_named(const struct hw_java_source *j, const struct hw_reading_who *who)
{
    const struct hw_java_config *c = j->config;
    char argv0[512], name[512];
    hw_autofree char *cmdline = NULL;
    size_t n = 0;
    hw_reading_argv0(j->blocking_reader, *who, argv0, sizeof argv0);
    name[0] = 0;
    if (argv0[0] && hw_reading_cmdline(j->blocking_reader, *who, &cmdline, &n) == 0 && n)
        hw_java_main_name(cmdline, n, name, sizeof name);
    for (size_t i = 0; i < c->process_cmdline.n; i++)
        if (hw_config_name_matches(c->process_cmdline.v[i], argv0) ||
            hw_java_name_matches(c->process_cmdline.v[i], name))
            return true;
    return false;
}

/* Its mappings can be read: what follows reads them without a time limit. */
static bool answers(const struct hw_java_source *j, const struct hw_reading_who *who)
{
    struct hw_reading_image i;
    int rc = hw_reading_image(j->blocking_reader, *who, HW_READING_NO_FILES, NULL, NULL, 0, &i);
    if (rc == HW_OK)
        hw_reading_image_done(&i);
    return rc != HW_ETIMEOUT;
}

/* If selected by number, a process that is no JVM is reported, too; by name only JVMs. */
static bool is_meant(const struct hw_java_source *j, const struct hw_pid *pid,
                     const struct hw_proc_status *st)
{
    struct hw_reading_who who = hw_reading_at(pid, st->uid);
    struct hw_jvm jvm;
    bool numbered = !hw_session_is_later(j->session, pid); /* as in session.c */
    for (size_t i = 0; numbered && i < j->config->pids.n; i++)
        if (j->config->pids.v[i] == (uint64_t)pid->pid)
            return true;
    if (hw_permission_hides(&j->session->asking, st) &&
        hw_permission_profile(&j->session->asking, pid, st, NULL) < 0)
        return false; /* its name would be revealed */
    if (!j->config->process_cmdline.n || !is_named(j, &who) || !answers(j, &who) ||
        hw_jvm_inspect(pid, &jvm, NULL))
        return false;
    return st->rss_anon_kb + st->vm_swap_kb >= j->config->min_anonymous_memory_kb;
}

static bool is_known(const struct hw_java_source *j, const struct hw_pid *pid)
{
    for (size_t i = 0; i < j->jvms.n; i++)
        if (j->jvms.v[i]->pid.pid == pid->pid && j->jvms.v[i]->pid.start_ticks == pid->start_ticks)
            return true;
    return false;
}

static void add(struct hw_java_source *j, struct hw_pid *pid)
{
    struct jvm *v = calloc(1, sizeof *v);
    if (!v || hw_vec_push(&j->jvms, v) < 0) {
        free(v);
        return;
    }
    v->pid = *pid;
    v->met_ns = hw_now_monotonic_ns();
    *pid = HW_PID_NONE;
}

static void meet_recorded(struct hw_java_source *j)
{
    for (size_t i = 0; i < j->asked.n; i++) {
        struct hw_pid pid;
        if (hw_pid_open(j->asked.v[i].pid, &pid, NULL) < 0)
            continue;
        if (pid.start_ticks == j->asked.v[i].start_ticks && !is_known(j, &pid))
            add(j, &pid);
        hw_pid_done(&pid);
    }
}

static void scan(struct hw_java_source *j)
{
    hw_pid_list all = {0};
    if (hw_proc_list(&all) < 0)
        return;
    for (size_t i = 0; i < all.n; i++) {
        struct hw_pid pid;
        struct hw_proc_status st;
        if (hw_pid_open(all.v[i], &pid, NULL) < 0)
            continue;
        if (!is_known(j, &pid) && hw_proc_status(pid.dir, &st) == 0 && is_meant(j, &pid, &st))
            add(j, &pid);
        hw_pid_done(&pid);
    }
    hw_vec_done(&all);
}

/* ---- the thread: dumps ---- */

static int come_in(struct hw_java_source *j, struct jvm *v, const struct hw_proc_status *st)
{
    uint64_t age = hw_now_monotonic_ns() - v->met_ns;
    int rc = hw_permission_profile(&j->session->asking, &v->pid, st, &v->error);
    if (rc == 0 && !v->dump) {
        const struct hw_java_dump_options o = {
            .pid = &v->pid,
            .later = j->events != 0,
            .only_by_client = j->by_client && !v->due && age < BY_CLIENT_MS * MS,
            .min_heap_bytes = (uint64_t)j->config->min_java_heap_size_kb << 10,
            .ignored_types = (const char *const *)j->config->ignored_types.v,
            .n_ignored = j->config->ignored_types.n};
        rc = hw_java_dump_open(&o, &v->dump, &v->error);
    }
    if (rc == 0 && j->events && !v->watched) {
        rc = hw_java_dump_watch(v->dump, j->events, HOLD_MS, &v->error);
        v->watched = rc == 0;
    }
    return rc;
}

static int walk(struct hw_java_source *j, struct jvm *v, const struct hw_proc_status *st)
{
    uint64_t anon_kb = st->rss_anon_kb + st->vm_swap_kb;
    if (anon_kb < j->config->min_anonymous_memory_kb)
        return hw_fail(&v->error, HW_EUNSUPPORTED, 0,
                       "it has %" PRIu64 " KiB of anonymous memory, less than "
                       "min_anonymous_memory_kb asks for",
                       anon_kb);
    hw_java_dump_allow_pause(v->dump, v->is_held); /* it is paused already */
    return hw_java_dump_take(v->dump, &v->figures, &v->error);
}

/* Enters JVMs that it is not in yet; walks those that are due. */
static int take(struct hw_java_source *j, struct jvm *v)
{
    struct hw_proc_status st;
    v->error = (struct hw_error){0};
    v->tried_ns = hw_now_monotonic_ns();
    int rc = hw_proc_status(v->pid.dir, &st);
    if (rc < 0)
        return hw_fail(&v->error, rc, 0, "the process has ended");
    struct hw_reading_who who = hw_reading_at(&v->pid, st.uid);
    if (!answers(j, &who))
        return hw_fail(&v->error, HW_ETIMEOUT, 0, "it may not be inspected");
    rc = come_in(j, v, &st);
    if (rc == 0 && v->due)
        rc = walk(j, v, &st);
    if (rc < 0) {
        hw_java_dump_free(v->dump);
        v->dump = NULL;
        v->watched = false;
        return rc;
    }
    if (!v->due)
        return HW_OK;
    v->has_smaps = j->config->dump_smaps &&
                   hw_reading_smaps(j->blocking_reader, who, /* rollup = */ 0, &v->smaps) == HW_OK;
    return HW_OK;
}

static void *round_of_dumps(void *arg)
{
    struct hw_java_source *j = arg;
    if (j->config->recorded)
        meet_recorded(j);
    bool names = j->config->pids.n || j->config->process_cmdline.n;
    if (names && (!j->scanned || !j->config->scan_pids_only_on_start))
        scan(j);
    j->scanned = true;
    for (size_t i = 0; i < j->jvms.n; i++) {
        struct jvm *v = j->jvms.v[i];
        v->due = v->is_held || (j->dumps && !v->over);
        if (!v->due && (v->over || v->watched || !j->events))
            continue;
        if (!hw_pid_alive(&v->pid) && v->told)
            continue; /* its end is known */
        v->failed = take(j, v) < 0;
        v->ready = v->due && !v->failed;
        (void)pthread_mutex_lock(&j->lock);
        j->given = v;
        while (j->given && !j->leave)
            (void)pthread_cond_wait(&j->taken, &j->lock);
        bool leave = j->leave;
        (void)pthread_mutex_unlock(&j->lock);
        if (leave)
            break;
    }
    (void)pthread_mutex_lock(&j->lock);
    j->none = j->jvms.n == 0;
    j->finished = true;
    (void)pthread_mutex_unlock(&j->lock);
    return NULL;
}

/* ---- the recorder's side ---- */

int hw_java_source_new(struct hw_session *s, uint32_t index, uint64_t now,
                       struct hw_java_source **out, struct hw_error *err)
{
    struct hw_java_source *j = calloc(1, sizeof *j);
    if (!j || hw_blocking_reader_new(&j->blocking_reader) < 0) {
        free(j);
        return hw_fail(err, HW_ENOMEM, 0, "session");
    }
    j->session = s;
    j->config = &s->config.java.v[index];
    j->sequence = hw_trace_writer_sequence(s->writer);
    j->every_ns = j->config->dump_interval_ms * MS;
    j->wanted = !j->config->recorded && !j->config->only_oome;
    j->events = (j->config->recorded ? 1u << HW_JAVA_END : 0) |
                (j->config->at_oome ? 1u << HW_JAVA_OUT_OF_MEMORY : 0);
    j->by_client = j->config->recorded;
    for (size_t i = 0; i < s->config.heapprofd.n; i++)
        j->by_client &= !s->config.heapprofd.v[i].no_managed_frames;
    if (j->every_ns)
        j->next_ns = now + (j->config->dump_phase_ms ? j->config->dump_phase_ms * MS : j->every_ns);
    (void)pthread_mutex_init(&j->lock, NULL); /* both cannot fail without attributes */
    (void)pthread_cond_init(&j->taken, NULL);
    *out = j;
    return HW_OK;
}

void hw_java_source_free(struct hw_java_source *j)
{
    if (!j)
        return;
    if (j->running) {
        (void)pthread_mutex_lock(&j->lock);
        j->leave = true;
        (void)pthread_cond_signal(&j->taken);
        (void)pthread_mutex_unlock(&j->lock);
        (void)pthread_join(j->thread, NULL);
    }
    for (size_t i = 0; i < j->jvms.n; i++) {
        struct jvm *v = j->jvms.v[i];
        hw_java_dump_free(v->dump);
        if (v->has_smaps)
            hw_smaps_done(&v->smaps);
        hw_java_moment_done(&v->moment);
        hw_pid_done(&v->pid);
        free(v);
    }
    hw_vec_done(&j->jvms);
    hw_vec_done(&j->asked);
    hw_blocking_reader_free(j->blocking_reader);
    (void)pthread_cond_destroy(&j->taken);
    (void)pthread_mutex_destroy(&j->lock);
    free(j);
}

static int write_graph(struct hw_java_source *j, struct jvm *v, struct hw_error *err)
{
    struct hw_session *s = j->session;
    int rc = HW_OK;
    if (!v->described && hw_write_process(s->writer, j->sequence, &v->pid, NULL) == 0)
        v->described = true; /* else it has ended meanwhile: it has no name then */
    if (v->has_smaps)
        rc = hw_write_smaps(s->writer, j->sequence, v->figures.boottime_ns, v->pid.pid, &v->smaps,
                            err);
    if (rc == 0)
        rc = hw_java_dump_write(v->dump, s->writer, j->sequence, &v->figures,
                                v->is_held ? &v->moment : NULL, err);
    for (size_t i = 0; rc == 0 && i < s->rec->targets.n; i++) {
        struct hw_target *t = s->rec->targets.v[i];
        if (t->session == s && t->pid.pid == v->pid.pid && t->pid.start_ticks == v->pid.start_ticks)
            hw_dump_for_graph(t, v->figures.boottime_ns, hw_java_dump_natives(v->dump));
    }
    return rc;
}

/* The JVM continues as soon as its profile's dump was requested, which covers what happened
 * before. */
static void let_go(struct jvm *v)
{
    if (!v->is_held)
        return;
    if (v->dump)
        hw_java_dump_release(v->dump, &v->moment);
    v->over |= v->moment.event == HW_JAVA_END;
    hw_java_moment_done(&v->moment);
    v->is_held = false;
}

static void take_over(struct hw_java_source *j, struct jvm *v)
{
    struct hw_session *s = j->session;
    struct hw_error err = {0};
    if (v->ready && !s->closed) {
        int rc = write_graph(j, v, &err);
        if (rc < 0)
            hw_session_write_failed(s, rc, &err);
        else
            s->n_dumps++;
        v->dumped = true;
    }
    bool late = !j->config->recorded && hw_now_monotonic_ns() - v->met_ns > START_MS * MS;
    if (v->failed && (v->due || late) && !v->told) {
        hw_session_warn(s, "no heap graph of process %d: %s", v->pid.pid, v->error.text);
        v->told = true;
    }
    let_go(v);
    if (v->has_smaps)
        hw_smaps_done(&v->smaps);
    v->has_smaps = v->ready = v->due = false;
}

static void look(struct hw_java_source *j)
{
    (void)pthread_mutex_lock(&j->lock);
    struct jvm *given = j->given;
    bool finished = j->finished;
    (void)pthread_mutex_unlock(&j->lock);
    if (given) {
        take_over(j, given);
        (void)pthread_mutex_lock(&j->lock);
        j->given = NULL;
        (void)pthread_cond_signal(&j->taken);
        (void)pthread_mutex_unlock(&j->lock);
    }
    if (!finished)
        return;
    (void)pthread_join(j->thread, NULL);
    j->running = j->finished = false;
    if (!j->none || !j->dumps || j->begun)
        return;
    if (j->config->recorded)
        hw_session_warn(j->session, "no heap graph: no JVM was recorded");
    else
        hw_session_warn(j->session, "no JVM with a name or pid in java_hprof_config is running");
}

static void begin_round(struct hw_java_source *j, bool dumps)
{
    j->begun |= j->dumps; /* an earlier round was one of dumps */
    j->dumps = dumps;
    j->running = pthread_create(&j->thread, NULL, round_of_dumps, j) == 0;
    if (!j->running)
        hw_session_warn(j->session, "no heap graphs: cannot start a thread to make them");
}

static void begin_dumps(struct hw_java_source *j)
{
    if (!j->running) {
        begin_round(j, /* dumps = */ true);
        return;
    }
    if (!j->dumps) { /* it only inspects: the dumps come after it */
        j->wanted = true;
        return;
    }
    if (j->n_skipped++ == 0)
        hw_session_warn(
            j->session,
            "making a heap graph takes longer than the time between two: some are left out");
}

/* Have JVMs reached their moments? Not while the thread runs, which owns their connections. */
static bool poll_moments(struct hw_java_source *j)
{
    bool any = false;
    for (size_t i = 0; i < j->jvms.n; i++) {
        struct jvm *v = j->jvms.v[i];
        if (!v->watched || v->is_held || !v->dump)
            continue;
        int rc = hw_java_dump_moment(v->dump, &v->moment);
        v->is_held = rc > 0;
        any |= v->is_held;
        if (rc < 0) { /* it has ended, or was killed */
            hw_java_dump_free(v->dump);
            v->dump = NULL;
            v->watched = false;
            v->over |= !hw_pid_alive(&v->pid);
        }
    }
    return any;
}

/* The new ones among the recorded processes; the thread enters them. */
static bool ask_recorded(struct hw_java_source *j)
{
    const struct hw_session *s = j->session;
    bool fresh = false;
    j->asked.n = 0;
    for (size_t i = 0; i < s->rec->targets.n; i++) {
        const struct hw_target *t = s->rec->targets.v[i];
        if (t->session != s || !t->is_jvm ||
            hw_vec_push(&j->asked, ((struct asked){t->pid.pid, t->pid.start_ticks})) < 0)
            continue;
        fresh |= !is_known(j, &t->pid);
    }
    return fresh;
}

static bool look_for_jvms(struct hw_java_source *j, uint64_t now)
{
    if (!j->events || now < j->next_look_ns)
        return false;
    j->next_look_ns = now + (j->config->recorded ? LOOK_MS : SCAN_MS) * MS;
    if (!j->config->recorded)
        return true;
    bool due = ask_recorded(j) || (j->config->pids.n && !j->scanned);
    for (size_t i = 0; i < j->jvms.n; i++) {
        struct jvm *v = j->jvms.v[i];
        due |= !v->watched && !v->over && now >= v->tried_ns + SCAN_MS * MS;
    }
    return due;
}

void hw_java_source_tick(struct hw_java_source *j, uint64_t now)
{
    if (j->running)
        look(j);
    if (j->next_ns && now >= j->next_ns) {
        begin_dumps(j);
        j->next_ns = j->next_ns + j->every_ns > now ? j->next_ns + j->every_ns : now + j->every_ns;
    }
    if (j->running)
        return;
    bool held = poll_moments(j);
    if (j->wanted) {
        j->wanted = false;
        if (j->config->recorded)
            (void)ask_recorded(j);
        begin_round(j, /* dumps = */ true);
    } else if (look_for_jvms(j, now) || held) {
        begin_round(j, /* dumps = */ false);
    }
}

void hw_java_source_dump(struct hw_java_source *j)
{
    j->wanted = true;
}

void hw_java_source_end(struct hw_java_source *j)
{
    if (j->config->recorded) {
        j->wanted = j->ending = true;
        return;
    }
    j->wanted &= !j->begun && !j->dumps; /* the session ends before its first tick */
}

/* JVMs that have ended without one. */
static void tell_missing(struct hw_java_source *j)
{
    for (size_t i = 0; i < j->jvms.n; i++) {
        struct jvm *v = j->jvms.v[i];
        if (!j->config->recorded || v->dumped || v->told)
            continue;
        hw_session_warn(j->session, "no heap graph of process %d: it ended %s%s", v->pid.pid,
                        v->error.text[0] ? "before heapwise's library was in it; the last attempt: "
                                         : "and gave no reason",
                        v->error.text);
        v->told = true;
    }
}

bool hw_java_source_busy(struct hw_java_source *j)
{
    if (j->running)
        look(j);
    if (j->running)
        return true;
    bool held = poll_moments(j);
    if (j->wanted) {
        j->wanted = false;
        if (j->config->recorded)
            (void)ask_recorded(j);
        begin_round(j, /* dumps = */ true);
    } else if (held) {
        begin_round(j, /* dumps = */ false);
    } else if (j->ending) {
        tell_missing(j);
    }
    return j->running;
}

#include "daemon/java/java_dump.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "daemon/policy/memory.h"
#include "java/jvm/jvm_dump_fallback.h"
#include "java/jvm/jvm_link.h"
#include "model/profile.h"
#include "proc/pid.h"
#include "trace/graph_model.h"
#include "trace/graph_writer.h"
#include "trace/process_writer.h"
#include "trace/writer.h"

#include "base/banned.h"

struct hw_java_dump {
    struct hw_java_dump_options options;
    struct hw_jvm jvm;
    struct hw_java_link *link; /* owned */
    struct hw_jgraph *graph;   /* owned */
    struct hw_java_taking taking;
    int no_fork;    /* why; enum hw_java_reason */
    int no_library; /* why; then there is no link, and the JVM's own dump is taken */
};

/* What a graph takes here, estimated from what its heap takes there: an object of two words 3
 * times as much. */
#define GRAPH_FACTOR 8u
#define GRAPH_ALWAYS (UINT64_C(64) << 20)

static int begin(void *ctx, struct hw_java_classes *classes, struct hw_java_graph **out)
{
    struct hw_java_dump *d = ctx;
    uint64_t ours = hw_memory_of_recorder(),
             theirs = GRAPH_ALWAYS + d->jvm.held_kb * 1024 * GRAPH_FACTOR;
    return hw_jgraph_begin(d->graph, classes, ours < theirs ? ours : theirs, out);
}

/* err was filled by hw_java_fail; a reason is no code of errors. */
static int code_of(int reason, const struct hw_error *err)
{
    return reason > 0 ? (err && err->code ? err->code : HW_EUNSUPPORTED) : reason;
}

/* Reasons for which the JVM's own dump is the alternative. */
static bool is_refusal(int reason)
{
    return reason == HW_JAVA_AGENT_DISABLED || reason == HW_JAVA_AGENT_OPEN ||
           reason == HW_JAVA_UNSUPPORTED;
}

static bool may_own_dump(const struct hw_java_dump *d)
{
    return d->options.allow_pause && d->options.read_hprof;
}

int hw_java_dump_open(const struct hw_java_dump_options *o, struct hw_java_dump **out,
                      struct hw_error *err)
{
    struct hw_error own = {0};
    hw_autofree char *library = NULL;
    err = err ? err : &own;
    struct hw_java_dump *d = calloc(1, sizeof *d);
    if (!d)
        return hw_fail(err, HW_ENOMEM, 0, "heap graph");
    d->options = *o;
    int rc = hw_jvm_inspect(o->pid, &d->jvm, err);
    if (rc == 0) {
        d->taking.modes = hw_java_modes(&d->jvm, o->allow_pause, &d->no_fork);
        if (!d->taking.modes && !o->later)
            rc = hw_java_fail(err, d->no_fork, "pid %d", o->pid->pid);
    }
    if (rc == 0)
        rc = hw_java_find_library(&library, err);
    if (rc == 0)
        rc = hw_jgraph_new(o->ignored_types, o->n_ignored, &d->graph, err);
    if (rc == 0)
        rc = hw_java_link_open(&d->jvm, library, o->only_by_client, &d->link, err);
    if (is_refusal(rc) && may_own_dump(d)) {
        d->no_library = rc;
        rc = 0;
        *err = (struct hw_error){0};
    }
    if (rc) {
        hw_java_dump_free(d);
        return code_of(rc, err);
    }
    d->taking.fail = o->fail;
    d->taking.stall_ms = o->stall_ms;
    d->taking.min_heap_bytes = o->min_heap_bytes;
    d->taking.begin = begin;
    d->taking.ctx = d;
    *out = d;
    return HW_OK;
}

void hw_java_dump_allow_pause(struct hw_java_dump *d, bool allow)
{
    d->options.allow_pause = allow;
}

void hw_java_dump_free(struct hw_java_dump *d)
{
    if (!d)
        return;
    hw_java_link_free(d->link);
    hw_jgraph_free(d->graph);
    free(d);
}

/* A dump of one graph, or it is none. */
static int import(struct hw_java_dump *d, int fd, struct hw_java_dump_figures *out,
                  struct hw_error *err)
{
    struct hw_profile *p = NULL;
    struct hw_graph_model_sums sums;
    struct stat st;
    int rc = d->options.read_hprof(fd, "the JVM's heap dump", &p, err);
    if (rc == HW_ENOMEM)
        return rc;
    if (rc < 0) {
        struct hw_error read = *err;
        return code_of(hw_java_fail(err, HW_JAVA_HPROF_MALFORMED, "at byte %" PRIu64 ": %.100s",
                                    read.offset, read.text),
                       err);
    }
    if (p->graphs.n != 1)
        rc = hw_fail(err, HW_EFORMAT, 0, "the JVM's heap dump has no objects");
    if (rc == 0)
        rc = hw_graph_write_model(hw_jgraph_writer(d->graph), p->graphs.v[0], p->callsites,
                                  d->options.ignored_types, d->options.n_ignored, &sums, err);
    hw_profile_free(p);
    if (rc < 0)
        return rc;
    out->sums =
        (struct hw_jgraph_sums){.objects = sums.objects, .refs = sums.refs, .bytes = sums.bytes};
    out->stream_bytes = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    return HW_OK;
}

static int take_own_dump(struct hw_java_dump *d, struct hw_java_dump_figures *out,
                         struct hw_error *err)
{
    hw_autofd int fd = -1;
    *out = (struct hw_java_dump_figures){.mode = HW_JAVA_OWN_DUMP,
                                         .boottime_ns = hw_now_boottime_ns()};
    uint64_t begun = hw_now_monotonic_ns();
    int rc = hw_java_own_dump(&d->jvm, &fd, err);
    out->call_ns = out->walk_ns = hw_now_monotonic_ns() - begun;
    return rc ? code_of(rc, err) : import(d, fd, out, err);
}

int hw_java_dump_take(struct hw_java_dump *d, struct hw_java_dump_figures *out,
                      struct hw_error *err)
{
    struct hw_error own = {0};
    err = err ? err : &own;
    if (!d->link)
        return take_own_dump(d, out, err);
    int reason = hw_jvm_inspect(d->options.pid, &d->jvm, err); /* memory may have become short */
    if (reason)
        return code_of(reason, err);
    d->taking.modes = hw_java_modes(&d->jvm, d->options.allow_pause, &d->no_fork);
    if (!d->taking.modes)
        return code_of(hw_java_fail(err, d->no_fork, "pid %d", d->options.pid->pid), err);
    int rc = hw_java_link_dump(d->link, &d->taking, err);
    if (rc > 0 && rc != HW_JAVA_GONE && rc != HW_JAVA_RUNNING && may_own_dump(d)) {
        *err = (struct hw_error){0};
        return take_own_dump(d, out, err);
    }
    *out = (struct hw_java_dump_figures){0};
    if (rc == 0)
        rc = hw_jgraph_end(d->graph, d->taking.holders, &out->sums, err);
    if (rc)
        return code_of(rc, err);
    const struct hw_java_message *e = &d->taking.ended;
    out->boottime_ns = d->taking.started_ns;
    out->stop_ns = e->stop_ns;
    out->fork_ns = e->fork_ns;
    out->call_ns = e->call_ns;
    out->walk_ns = e->walk_ns;
    out->stream_bytes = d->taking.stream_bytes;
    out->heap_bytes = d->taking.heap_bytes;
    out->heap_left = d->taking.heap_left;
    out->mode = e->mode;
    return HW_OK;
}

void hw_java_dump_steps(const struct hw_java_dump *d, struct hw_strbuf *out)
{
    char code[HW_JAVA_CODE_MAX];
    if (d->no_fork)
        hw_strbuf_addf(out, "no fork: %s", hw_java_reason_code(d->no_fork));
    if (d->no_library)
        hw_strbuf_addf(out, "%slibrary: %s", out->n ? "; " : "",
                       hw_java_reason_code(d->no_library));
    for (unsigned i = 0; i < d->taking.n_steps; i++)
        if (d->taking.steps[i].reason)
            hw_strbuf_addf(
                out, "%s%s: %s", out->n ? "; " : "", hw_java_mode_text(d->taking.steps[i].mode),
                hw_java_reason_with(d->taking.steps[i].reason, d->taking.steps[i].detail, code));
}

static void add_lack(struct hw_strbuf *b, int reason, uint64_t n)
{
    char code[HW_JAVA_CODE_MAX];
    int shown = n > INT_MAX ? INT_MAX : (int)n;
    if (n)
        hw_strbuf_addf(b, "%s%s", b->n ? "; " : "", hw_java_reason_with(reason, shown, code));
}

static int write_steps(struct hw_java_dump *d, struct hw_trace_writer *w, uint32_t sequence,
                       const struct hw_java_dump_figures *f, struct hw_error *err)
{
    struct hw_strbuf steps = {0}, missing = {0};
    char way[64], before[64], lacks[64];
    int32_t pid = d->options.pid->pid;
    hw_java_dump_steps(d, &steps);
    (void)snprintf(way, sizeof way, "java_heap_graph.%d.way", pid);
    (void)snprintf(before, sizeof before, "java_heap_graph.%d.failed_before", pid);
    (void)snprintf(lacks, sizeof lacks, "java_heap_graph.%d.lacks", pid);
    struct hw_trace_attribute all[3] = {{way, hw_java_mode_text(f->mode)}};
    size_t n = 1;
    if (steps.n)
        all[n++] = (struct hw_trace_attribute){before, steps.p};
    add_lack(&missing, HW_JAVA_STALE_CLASSES, f->sums.stale);
    add_lack(&missing, HW_JAVA_FIELDS_UNVERIFIED, f->sums.doubtful);
    add_lack(&missing, HW_JAVA_ROOTS_UNTOLD, f->sums.untold_roots);
    add_lack(&missing, HW_JAVA_ROOTS_UNNAMED, f->sums.unnamed_roots);
    if (missing.n)
        all[n++] = (struct hw_trace_attribute){lacks, missing.p};
    int rc = hw_trace_attributes(w, sequence, f->boottime_ns, all, n, err);
    hw_strbuf_done(&steps);
    hw_strbuf_done(&missing);
    return rc;
}

static int write_oome(struct hw_java_dump *d, struct hw_trace_writer *w, uint32_t sequence,
                      const struct hw_java_dump_figures *f, const struct hw_java_moment *m,
                      struct hw_error *err)
{
    struct hw_java_frame frames[HW_JAVA_MAX_STACK];
    for (size_t i = 0; i < m->n_frames; i++)
        frames[i] =
            (struct hw_java_frame){m->frames[i].method, m->frames[i].file, m->frames[i].line};
    const struct hw_java_oome o = {.pid = d->options.pid->pid,
                                   .free_bytes = f->heap_bytes ? f->heap_left : HW_ABSENT,
                                   .message = m->words,
                                   .frames = frames,
                                   .n_frames = m->n_frames};
    return hw_trace_java_oome(w, sequence, f->boottime_ns, &o, err);
}

int hw_java_dump_write(struct hw_java_dump *d, struct hw_trace_writer *w, uint32_t sequence,
                       struct hw_java_dump_figures *figures, const struct hw_java_moment *moment,
                       struct hw_error *err)
{
    int rc = write_steps(d, w, sequence, figures, err);
    if (rc == 0 && moment && moment->event == HW_JAVA_OUT_OF_MEMORY)
        rc = write_oome(d, w, sequence, figures, moment, err);
    if (rc == 0)
        rc = hw_graph_writer_commit(hw_jgraph_writer(d->graph), w, sequence, figures->boottime_ns,
                                    d->options.pid->pid, figures->heap_bytes, &figures->trace_bytes,
                                    err);
    return rc;
}

int hw_java_dump_watch(struct hw_java_dump *d, uint32_t events, uint32_t hold_ms,
                       struct hw_error *err)
{
    if (!d->link)
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "only heapwise's library inside the JVM can tell when its memory runs out, "
                       "and the JVM does not have it");
    int rc = hw_java_link_watch(d->link, events, hold_ms, err);
    return rc ? code_of(rc, err) : HW_OK;
}

int hw_java_dump_moment(struct hw_java_dump *d, struct hw_java_moment *out)
{
    return d->link ? hw_java_link_moment(d->link, out) : 0;
}

void hw_java_dump_release(struct hw_java_dump *d, const struct hw_java_moment *m)
{
    if (d->link)
        (void)hw_java_link_release(d->link, m->event); /* else its deadline ends it */
}

const hw_native_blocks *hw_java_dump_natives(const struct hw_java_dump *d)
{
    return hw_jgraph_natives(d->graph);
}

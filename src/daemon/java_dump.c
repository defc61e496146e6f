#include "daemon/java_dump.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/fd.h"
#include "java/jvm_link.h"
#include "proc/pid.h"
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
    int no_fork; /* why; enum hw_java_reason */
};

static int begin(void *ctx, struct hw_java_classes *classes, struct hw_java_graph **out)
{
    struct hw_java_dump *d = ctx;
    return hw_jgraph_begin(d->graph, classes, out);
}

/* err was filled by hw_java_fail; a reason is no code of errors. */
static int code_of(int reason, const struct hw_error *err)
{
    return reason > 0 ? (err && err->code ? err->code : HW_EUNSUPPORTED) : reason;
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
    int rc = hw_jvm_look(o->pid, &d->jvm, err);
    if (rc == 0) {
        d->taking.modes = hw_java_modes(&d->jvm, o->allow_pause, &d->no_fork);
        if (!d->taking.modes)
            rc = hw_java_fail(err, d->no_fork, "pid %d", o->pid->pid);
    }
    if (rc == 0)
        rc = hw_java_find_library(&library, err);
    if (rc == 0)
        rc = hw_jgraph_new(o->ignored_types, o->n_ignored, &d->graph, err);
    if (rc == 0)
        rc = hw_java_link_open(&d->jvm, library, &d->link, err);
    if (rc) {
        hw_java_dump_free(d);
        return code_of(rc, err);
    }
    d->taking.fail = o->fail;
    d->taking.stall_ms = o->stall_ms;
    d->taking.begin = begin;
    d->taking.ctx = d;
    *out = d;
    return HW_OK;
}

void hw_java_dump_free(struct hw_java_dump *d)
{
    if (!d)
        return;
    hw_java_link_free(d->link);
    hw_jgraph_free(d->graph);
    free(d);
}

int hw_java_dump_take(struct hw_java_dump *d, struct hw_java_dump_figures *out,
                      struct hw_error *err)
{
    struct hw_error own = {0};
    err = err ? err : &own;
    int rc = hw_java_link_dump(d->link, &d->taking, err);
    *out = (struct hw_java_dump_figures){0};
    if (rc == 0)
        rc = hw_jgraph_end(d->graph, &out->sums, err);
    if (rc)
        return code_of(rc, err);
    const struct hw_java_say *e = &d->taking.ended;
    out->boottime_ns = e->started_ns;
    out->stop_ns = e->stop_ns;
    out->fork_ns = e->fork_ns;
    out->call_ns = e->call_ns;
    out->walk_ns = e->walk_ns;
    out->stream_bytes = d->taking.stream_bytes;
    out->mode = e->mode;
    return HW_OK;
}

void hw_java_dump_steps(const struct hw_java_dump *d, struct hw_strbuf *out)
{
    if (d->no_fork)
        hw_strbuf_addf(out, "no fork: %s", hw_java_reason_code(d->no_fork));
    for (unsigned i = 0; i < d->taking.n_steps; i++)
        if (d->taking.steps[i].reason)
            hw_strbuf_addf(out, "%s%s: %s", out->n ? "; " : "",
                           hw_java_mode_text(d->taking.steps[i].mode),
                           hw_java_reason_code(d->taking.steps[i].reason));
}

static int write_steps(struct hw_java_dump *d, struct hw_trace_writer *w, uint32_t sequence,
                       const struct hw_java_dump_figures *f, struct hw_error *err)
{
    struct hw_strbuf steps = {0};
    char way[64], before[64];
    int32_t pid = d->options.pid->pid;
    hw_java_dump_steps(d, &steps);
    (void)snprintf(way, sizeof way, "java_heap_graph.%d.way", pid);
    (void)snprintf(before, sizeof before, "java_heap_graph.%d.failed_before", pid);
    const struct hw_trace_attribute all[] = {{way, hw_java_mode_text(f->mode)},
                                             {before, steps.n ? steps.p : ""}};
    int rc = hw_trace_attributes(w, sequence, f->boottime_ns, all, steps.n ? 2 : 1, err);
    hw_strbuf_done(&steps);
    return rc;
}

int hw_java_dump_write(struct hw_java_dump *d, struct hw_trace_writer *w, uint32_t sequence,
                       struct hw_java_dump_figures *figures, struct hw_error *err)
{
    int rc = write_steps(d, w, sequence, figures, err);
    if (rc == 0)
        rc = hw_graph_writer_commit(hw_jgraph_writer(d->graph), w, sequence, figures->boottime_ns,
                                    d->options.pid->pid, /* heap_bytes = */ 0,
                                    &figures->trace_bytes, err);
    return rc;
}

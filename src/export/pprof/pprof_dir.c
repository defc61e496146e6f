#include "export/pprof/pprof_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "export/export.h"
#include "views/flame/cpu_counts.h"
#include "views/time/series.h"

#include "base/banned.h"

#define MAX_HEAP_NAME 64u

static void file_name(struct hw_strbuf *out, size_t n, int64_t pid, const char *heap, bool gzip)
{
    hw_strbuf_addf(out, "heap_dump.%zu.%lld", n, (long long)pid);
    if (strcmp(heap, "libc.malloc") != 0) {
        hw_strbuf_addc(out, '.');
        for (size_t i = 0; heap[i] && i < MAX_HEAP_NAME; i++) {
            unsigned char c = (unsigned char)heap[i];
            bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c >= 0x80;
            hw_strbuf_addc(out, plain ? (char)c : '_');
        }
    }
    hw_strbuf_adds(out, gzip ? ".pb.gz" : ".pb");
}

static const struct {
    const char *stat, *text;
} warnings[] = {
    {"heapprofd_buffer_corrupted",
     "ended early due to a buffer corruption. This is always a bug in the profiler or memory "
     "corruption in the profiled program."},
    {"heapprofd_buffer_overran", "ended early due to a buffer overrun."},
    {"heapprofd_rejected_concurrent", "was rejected due to a concurrent profile."},
};

static size_t write_warnings(const struct hw_profile *p, int64_t pid, FILE *to)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    size_t n = 0;
    for (size_t w = 0; w < HW_ARRAY_LEN(warnings); w++) {
        for (size_t i = 0; i < p->stats.n; i++) {
            const struct hw_stat_row *s = &p->stats.v[i];
            if (s->key != pid || s->value <= 0 ||
                !hw_bytes_equal(hw_strings_get(strings, s->name), hw_bytes_str(warnings[w].stat)))
                continue;
            fprintf(to, "WARNING: The profile for %lld %s\n", (long long)pid, warnings[w].text);
            n++;
            break;
        }
    }
    return n;
}

static bool is_wanted(const struct hw_profile *p, const struct hw_pprof_dir *o, hw_upid upid,
                      int64_t ts_ns)
{
    if (o->pid >= 0 && p->processes.v[upid.v].pid != o->pid)
        return false;
    for (size_t i = 0; i < o->n_timestamps; i++)
        if (o->timestamps_ns[i] == ts_ns)
            return true;
    return o->n_timestamps == 0;
}

struct writer {
    const struct hw_profile *p;
    const struct hw_pprof_dir *o;
    int dirfd;
    struct hw_sum **sums; /* by series; made when first needed */
    size_t n_files, n_warnings;
    struct hw_strbuf name;
    hw_values values;
};

/* A new file of the name in w->name. */
static int open_file(struct writer *w, FILE **out, struct hw_error *err)
{
    if (w->name.failed)
        return hw_fail(err, HW_ENOMEM, 0, "file name");
    hw_autofd int fd =
        openat(w->dirfd, w->name.p, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return hw_fail_sys(err, "cannot create '%s/%s'", w->o->dir, w->name.p);
    *out = fdopen(fd, "w");
    if (!*out)
        return hw_fail_sys(err, "cannot write '%s/%s'", w->o->dir, w->name.p);
    (void)hw_fd_take(&fd); /* the stream owns it now */
    return HW_OK;
}

static int close_file(struct writer *w, FILE *f, int rc, struct hw_error *err)
{
    if (rc < 0)
        hw_error_prefix(err, "'%s/%s'", w->o->dir, w->name.p);
    if (fclose(f) != 0 && rc == 0)
        rc = hw_fail_sys(err, "cannot write '%s/%s'", w->o->dir, w->name.p);
    if (rc < 0) /* leave no partial profile */
        (void)unlinkat(w->dirfd, w->name.p, 0);
    w->n_files += rc == 0;
    return rc;
}

static int write_file(struct writer *w, const struct hw_heap_dump *d, struct hw_error *err)
{
    int64_t pid = w->p->processes.v[d->upid.v].pid;
    const char *heap = hw_strings_cstr(hw_callsites_strings(w->p->callsites), d->heap_name);
    FILE *f;
    hw_strbuf_clear(&w->name);
    file_name(&w->name, w->n_files + 1, pid, heap, w->o->gzip);
    int rc = open_file(w, &f, err);
    if (rc < 0)
        return rc;
    struct hw_export_input in = {.profile = w->p,
                                 .values = &w->values,
                                 .upid = d->upid,
                                 .heap_name = d->heap_name,
                                 .ts_ns = d->ts_ns,
                                 .interval_bytes = d->interval_bytes,
                                 .namer = w->o->namer,
                                 .raw_counts = w->o->raw_counts,
                                 .new_names = w->o->new_names,
                                 .no_annotations = w->o->no_annotations,
                                 .gzip = w->o->gzip};
    rc = close_file(w, f, hw_export_pprof.write(&in, f, err), err);
    if (rc == 0 && w->o->warnings)
        w->n_warnings += write_warnings(w->p, pid, w->o->warnings);
    return rc;
}

static int values_of(struct writer *w, const struct hw_series_list *list, const struct hw_moment *m)
{
    const struct hw_series *s = &list->v.v[m->series];
    if (w->p->dumps.v[m->dump].flags & HW_DUMP_AT_MAX)
        return hw_values_at(w->p, s, m->dump, &w->values);
    int rc = HW_OK;
    if (!w->sums[m->series])
        rc = hw_sum_new(w->p, s, &w->sums[m->series]);
    if (rc == 0)
        rc = hw_sum_advance(w->sums[m->series], m->dump);
    return rc < 0 ? rc : hw_sum_values(w->sums[m->series], &w->values);
}

static int write_all(struct writer *w, const struct hw_series_list *list,
                     const hw_moment_list *moments, struct hw_error *err)
{
    for (size_t i = 0; i < moments->n; i++) {
        const struct hw_moment *m = &moments->v[i];
        const struct hw_heap_dump *d = &w->p->dumps.v[m->dump];
        if (!is_wanted(w->p, w->o, d->upid, d->ts_ns))
            continue;
        int rc = values_of(w, list, m);
        if (rc < 0)
            return hw_fail(err, rc, 0, "values of a dump:");
        if (w->values.n == 0)
            continue; /* no file for a heap that never allocated */
        rc = write_file(w, d, err);
        if (rc < 0)
            return rc;
    }
    if (w->n_warnings)
        fprintf(w->o->warnings,
                "See doc/guide/troubleshooting.md#buffer-overrun, or: heapwise explain\n");
    return HW_OK;
}

int hw_pprof_dir_write(const struct hw_profile *p, const struct hw_pprof_dir *o, size_t *n_files,
                       struct hw_error *err)
{
    struct hw_series_list list = {0};
    hw_moment_list moments = {0};
    hw_autofd int dirfd = open(o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return hw_fail_sys(err, "cannot open directory '%s'", o->dir);
    struct writer w = {.p = p, .o = o, .dirfd = dirfd};
    int rc = hw_series_list_init(&list, p);
    if (rc == 0)
        rc = hw_moments(p, &list, &moments);
    w.sums = calloc(list.v.n + 1, sizeof *w.sums);
    if (rc == 0 && !w.sums)
        rc = HW_ENOMEM;
    if (rc < 0)
        (void)hw_fail(err, rc, 0, "list of dumps:"); /* the code is returned below */
    else
        rc = write_all(&w, &list, &moments, err);
    *n_files = w.n_files;
    for (size_t i = 0; w.sums && i < list.v.n; i++)
        hw_sum_free(w.sums[i]);
    free(w.sums);
    hw_strbuf_done(&w.name);
    hw_vec_done(&w.values);
    hw_vec_done(&moments);
    hw_series_list_done(&list);
    return rc;
}

int hw_pprof_dir_write_graphs(const struct hw_profile *p, const struct hw_pprof_dir *o,
                              size_t *n_files, struct hw_error *err)
{
    hw_autofd int dirfd = open(o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return hw_fail_sys(err, "cannot open directory '%s'", o->dir);
    struct writer w = {.p = p, .o = o, .dirfd = dirfd};
    int rc = HW_OK;
    for (size_t i = 0; rc == 0 && i < p->graphs.n; i++) {
        const struct hw_heap_graph *g = p->graphs.v[i];
        FILE *f;
        if (g->n_objects == 0 || !is_wanted(p, o, g->upid, g->ts_ns))
            continue;
        hw_strbuf_clear(&w.name);
        hw_strbuf_addf(&w.name, "java_heap_dump.%zu.%lld.pb%s", w.n_files + 1,
                       (long long)p->processes.v[g->upid.v].pid, o->gzip ? ".gz" : "");
        rc = open_file(&w, &f, err);
        if (rc == 0)
            rc = close_file(&w, f, hw_pprof_graph_write(p, g, o->gzip, f, err), err);
    }
    *n_files = w.n_files;
    hw_strbuf_done(&w.name);
    return rc;
}

/* Writes the samples of one process, if there are any. */
static int write_samples(struct writer *w, hw_upid upid, int64_t *counts, struct hw_error *err)
{
    const struct hw_profile *p = w->p;
    const struct hw_cpu_query q = {.from_ns = INT64_MIN,
                                   .to_ns = INT64_MAX,
                                   .times_ns = w->o->timestamps_ns,
                                   .n_times = w->o->n_timestamps,
                                   .upids = &upid,
                                   .n_upids = 1};
    size_t n = hw_callsites_count(p->callsites);
    FILE *f;
    memset(counts, 0, n * sizeof *counts);
    if (hw_cpu_sample_counts(p, &q, counts) == 0)
        return HW_OK;
    w->values.n = 0;
    for (uint32_t c = 0; c < n; c++) {
        struct hw_value v = {.alloc_objects = counts[c], .alloc_samples = counts[c]};
        if (counts[c] && hw_vec_push(&w->values, ((struct hw_callsite_value){{c}, v})) < 0)
            return hw_fail(err, HW_ENOMEM, 0, "CPU samples");
    }
    hw_strbuf_clear(&w->name);
    hw_strbuf_addf(&w->name, "profile.%zu.pid.%lld.pb%s", w->n_files + 1,
                   (long long)p->processes.v[upid.v].pid, w->o->gzip ? ".gz" : "");
    struct hw_export_input in = {.profile = p,
                                 .values = &w->values,
                                 .upid = upid,
                                 .namer = w->o->namer,
                                 .cpu_samples = true,
                                 .no_annotations = w->o->no_annotations,
                                 .gzip = w->o->gzip};
    int rc = open_file(w, &f, err);
    return rc < 0 ? rc : close_file(w, f, hw_export_pprof.write(&in, f, err), err);
}

int hw_pprof_dir_write_cpu(const struct hw_profile *p, const struct hw_pprof_dir *o,
                           size_t *n_files, struct hw_error *err)
{
    hw_autofd int dirfd = open(o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return hw_fail_sys(err, "cannot open directory '%s'", o->dir);
    hw_autofree uint8_t *sampled = calloc(p->processes.n + 1, 1);
    hw_autofree int64_t *counts = calloc(hw_callsites_count(p->callsites) + 1, sizeof *counts);
    if (!sampled || !counts)
        return hw_fail(err, HW_ENOMEM, 0, "CPU samples");
    for (size_t i = 0; i < p->cpu.samples.n; i++) {
        hw_upid upid = hw_cpu_sample_process(p, &p->cpu.samples.v[i]);
        if (upid.v != HW_ID_NONE && (o->pid < 0 || p->processes.v[upid.v].pid == o->pid))
            sampled[upid.v] = 1;
    }
    struct writer w = {.p = p, .o = o, .dirfd = dirfd};
    int rc = HW_OK;
    for (uint32_t i = 0; rc == HW_OK && i < p->processes.n; i++)
        if (sampled[i])
            rc = write_samples(&w, (hw_upid){i}, counts, err);
    *n_files = w.n_files;
    hw_strbuf_done(&w.name);
    hw_vec_done(&w.values);
    return rc;
}

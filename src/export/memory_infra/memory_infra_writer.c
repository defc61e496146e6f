/*
 * All processes and dumps of a profile as one JSON trace of memory dumps.
 *
 * A global dump collects the dumps within a twentieth of a second, each heap once. Global dumps do
 * not overlap in time, and the profile's own ones are kept unchanged.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "codec/gzip.h"
#include "export/export.h"
#include "export/memory_infra/memory_infra_job.h"
#include "views/infra/global_dumps.h"

#include "base/banned.h"

struct job {
    const struct hw_export_input *in;
    const struct hw_profile *p;
    bool v1;
    struct hw_json j;
    struct hw_series_list list;
    HW_VEC(struct hw_type_sum) sums; /* by series */
    hw_global_items items;
    struct hw_infra_regions regions;
    struct hw_infra_out *heaps;
    uint64_t guid_seed, n_dumps;
    struct hw_error *err;
    FILE *out;
    struct hw_gzip_writer *gzip;
};

static struct hw_bytes str(const struct job *w, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(w->p->callsites), id);
}

static int by_process(const void *pa, const void *pb)
{
    const struct hw_global_item *a = pa, *b = pb;
    if (a->upid.v != b->upid.v)
        return a->upid.v < b->upid.v ? -1 : 1;
    if (a->ts_ns != b->ts_ns)
        return a->ts_ns < b->ts_ns ? -1 : 1;
    return a->dump < b->dump ? -1 : a->dump > b->dump;
}

static void put_str(struct job *w, const char *key, struct hw_bytes text)
{
    hw_json_key(&w->j, key);
    hw_json_strn(&w->j, text.p, text.n);
}

/* ---- events ---- */

static void begin_event(struct job *w, const char *phase, hw_upid upid, const char *name)
{
    struct hw_json *j = &w->j;
    bool meta = phase[0] == 'M';
    hw_json_begin_object(j);
    hw_json_kv_str(j, "ph", phase);
    hw_json_kv_str(j, "cat", meta ? "__metadata" : "disabled-by-default-memory-infra");
    hw_json_kv_str(j, "name", name);
    hw_json_kv_int(j, "pid", w->p->processes.v[upid.v].pid);
    hw_json_kv_int(j, "tid", meta ? 0 : -1);
}

static void put_metadata(struct job *w, hw_upid upid, const char *name, const char *key,
                         struct hw_bytes text)
{
    if (text.n == 0)
        return;
    begin_event(w, "M", upid, name);
    hw_json_kv_int(&w->j, "ts", 0);
    hw_json_key(&w->j, "args");
    hw_json_begin_object(&w->j);
    put_str(w, key, text);
    hw_json_end_object(&w->j);
    hw_json_end_object(&w->j);
}

static void put_processes(struct job *w)
{
    for (uint32_t i = 0; i < w->p->processes.n; i++) {
        const struct hw_process *x = &w->p->processes.v[i];
        put_metadata(w, (hw_upid){i}, "process_name", "name", str(w, x->name));
        put_metadata(w, (hw_upid){i}, "process_labels", "labels", str(w, x->labels));
    }
    for (size_t i = 0; i < w->p->threads.rows.n; i++) {
        const struct hw_thread *t = &w->p->threads.rows.v[i];
        if (!t->name.v)
            continue;
        hw_json_begin_object(&w->j);
        hw_json_kv_str(&w->j, "ph", "M");
        hw_json_kv_str(&w->j, "cat", "__metadata");
        hw_json_kv_str(&w->j, "name", "thread_name");
        hw_json_kv_int(&w->j, "pid", w->p->processes.v[t->upid.v].pid);
        hw_json_kv_int(&w->j, "tid", t->tid);
        hw_json_kv_int(&w->j, "ts", 0);
        hw_json_key(&w->j, "args");
        hw_json_begin_object(&w->j);
        put_str(w, "name", str(w, t->name));
        hw_json_end_object(&w->j);
        hw_json_end_object(&w->j);
    }
}

/* The viewer's name of a heap. It is the root node of an allocator, so it has no '/'. */
static int heap_name(const struct job *w, hw_str_id id, struct hw_strbuf *out)
{
    struct hw_bytes name = str(w, id);
    if (hw_bytes_equal(name, hw_bytes_str("libc.malloc")))
        name = hw_bytes_str("malloc");
    if (name.n == 0)
        name = hw_bytes_str("heap");
    hw_strbuf_clear(out);
    hw_strbuf_add(out, name.p, name.n);
    for (size_t i = 0; !out->failed && i < out->n; i++)
        if (out->p[i] == '/')
            out->p[i] = '_';
    return out->failed ? HW_ENOMEM : HW_OK;
}

struct process_dump {
    HW_VEC(struct hw_infra_heap) heaps;
    HW_VEC(char *) names; /* owned: of the heaps */
    uint32_t process;     /* of the model's memory dumps */
};

static void process_dump_done(struct process_dump *d)
{
    for (size_t i = 0; i < d->heaps.n; i++)
        hw_vec_done(&d->heaps.v[i].values);
    for (size_t i = 0; i < d->names.n; i++)
        free(d->names.v[i]);
    hw_vec_done(&d->heaps);
    hw_vec_done(&d->names);
}

static int add_heap(struct job *w, const struct hw_global_item *x, struct process_dump *d)
{
    struct hw_infra_heap heap = {0};
    struct hw_strbuf name = {0};
    const struct hw_series *s = &w->list.v.v[x->series];
    int rc = heap_name(w, s->heap_name, &name);
    heap.name.n = name.n;
    char *text = hw_strbuf_take(&name);
    heap.name.p = (const uint8_t *)text;
    if (rc == HW_OK)
        rc = hw_type_sum_at(&w->sums.v[x->series], w->p, s, x->dump, &heap.values);
    if (rc == HW_OK && hw_vec_push(&d->names, text) < 0)
        rc = HW_ENOMEM;
    else if (rc == HW_OK)
        text = NULL;
    if (rc == HW_OK && hw_vec_push(&d->heaps, heap) < 0)
        rc = HW_ENOMEM;
    if (rc < 0)
        hw_vec_done(&heap.values);
    free(text);
    return rc;
}

static bool has_rows(const struct process_dump *d)
{
    for (size_t i = 0; i < d->heaps.n; i++)
        if (d->heaps.v[i].values.n)
            return true;
    return false;
}

static int put_process_dump(struct job *w, const struct hw_global_item *x,
                            const struct process_dump *d, const char *level, bool has_global)
{
    static const char *const types[] = {"periodic_interval", "explicitly_triggered"};
    struct hw_json *j = &w->j;
    struct hw_infra_moment m = {.upid = x->upid,
                                .ts_ns = x->ts_ns,
                                .dump = w->guid_seed + w->n_dumps,
                                .process = d->process,
                                .global_process =
                                    has_global ? hw_global_process(w->p, d->process) : HW_ID_NONE,
                                .heaps = d->heaps.v,
                                .n_heaps = d->heaps.n};
    bool was_triggered = x->dump != HW_ID_NONE && w->p->dumps.v[x->dump].trigger.v;
    int rc = HW_OK;
    begin_event(w, "v", x->upid, types[was_triggered]);
    hw_json_kv_double(j, "ts", (double)x->ts_ns / 1000);
    char id[24];
    (void)snprintf(id, sizeof id, "0x%llx",
                   (unsigned long long)(w->guid_seed + w->n_dumps) & 0xffffffffffffu);
    hw_json_kv_str(j, "id", id);
    hw_json_key(j, "args");
    hw_json_begin_object(j);
    hw_json_key(j, "dumps");
    hw_json_begin_object(j);
    hw_json_kv_str(j, "level_of_detail", level);
    hw_infra_put_totals(w->p, j, x->upid, x->ts_ns, d->process != HW_ID_NONE);
    if (level[0] == 'd')
        rc = hw_infra_regions_put(&w->regions, j, x->upid, x->ts_ns);
    if (rc == HW_OK && has_rows(d)) {
        hw_json_key(j, w->v1 ? "heaps" : "heaps_v2");
        rc = w->v1 ? hw_infra_out_v1(w->heaps, j, x->upid, d->heaps.v, d->heaps.n)
                   : hw_infra_out_v2(w->heaps, j, x->upid, d->heaps.v, d->heaps.n, &m.folded);
    }
    hw_infra_put_allocators(w->p, j, &m);
    hw_json_end_object(j);
    hw_json_end_object(j);
    hw_json_end_object(j);
    return rc;
}

/* Writes one global dump, process by process. */
static int put_group(struct job *w, struct hw_global_item *v, size_t n)
{
    static const char *const words[] = {"detailed", "light", "background"};
    const char *level = words[hw_global_detail(w->p, v, n)];
    bool wrote_global = false;
    int rc = HW_OK;
    w->n_dumps++;
    qsort(v, n, sizeof *v, by_process);
    for (size_t i = 0, end; rc == HW_OK && i < n; i = end) {
        struct process_dump d = {.process = HW_ID_NONE};
        struct hw_global_item head = v[i];
        for (end = i; rc == HW_OK && end < n && v[end].upid.v == v[i].upid.v; end++) {
            if (v[end].process != HW_ID_NONE)
                d.process = v[end].process;
            else if ((rc = add_heap(w, &v[end], &d)) == HW_OK)
                head.dump = v[end].dump;
        }
        bool has_global = d.process != HW_ID_NONE && !wrote_global;
        if (rc == HW_OK)
            rc = put_process_dump(w, &head, &d, level, has_global);
        wrote_global |= has_global;
        process_dump_done(&d);
    }
    return rc;
}

static void put_v1_maps(struct job *w)
{
    for (uint32_t i = 0; i < w->p->processes.n; i++) {
        hw_upid upid = {i};
        begin_event(w, "M", upid, "stackFrames");
        hw_json_kv_int(&w->j, "ts", 0);
        hw_json_key(&w->j, "args");
        hw_json_begin_object(&w->j);
        hw_json_key(&w->j, "stackFrames");
        hw_infra_out_stack_frames(w->heaps, &w->j, upid);
        hw_json_end_object(&w->j);
        hw_json_end_object(&w->j);
        begin_event(w, "M", upid, "typeNames");
        hw_json_kv_int(&w->j, "ts", 0);
        hw_json_key(&w->j, "args");
        hw_json_begin_object(&w->j);
        hw_json_key(&w->j, "typeNames");
        hw_infra_out_type_names(w->heaps, &w->j, upid);
        hw_json_end_object(&w->j);
        hw_json_end_object(&w->j);
    }
}

/* ---- the file ---- */

static bool metadata_of(const struct job *w, const char *name, struct hw_bytes *out)
{
    bool found = false;
    for (size_t k = 0; k < w->p->metadata.n; k++)
        if (hw_bytes_equal(str(w, w->p->metadata.v[k].name), hw_bytes_str(name))) {
            *out = str(w, w->p->metadata.v[k].text);
            found = true;
        }
    return found;
}

/* Symbolizers fail without these four. */
static void put_file_metadata(struct job *w)
{
    static const struct {
        const char *name, *in_traces, *by_default;
    } members[] = {{"product-version", NULL, "Heapwise/" HW_VERSION},
                   {"os-name", "system_name", "Linux"},
                   {"os-arch", "system_machine", "unknown"},
                   {"user-agent", NULL, ""},
                   {"clock-domain", NULL, "LINUX_CLOCK_MONOTONIC"}};
    hw_json_key(&w->j, "metadata");
    hw_json_begin_object(&w->j);
    for (size_t i = 0; i < HW_ARRAY_LEN(members); i++) {
        struct hw_bytes value = hw_bytes_str(members[i].by_default);
        if (!metadata_of(w, members[i].name, &value) && members[i].in_traces)
            (void)metadata_of(w, members[i].in_traces, &value); /* else keeps the default */
        put_str(w, members[i].name, value);
    }
    hw_json_end_object(&w->j);
}

static int put_all(struct job *w)
{
    int rc = HW_OK;
    hw_json_begin_object(&w->j);
    hw_json_key(&w->j, "traceEvents");
    hw_json_begin_array(&w->j);
    put_processes(w);
    for (size_t i = 0, end; rc == HW_OK && i < w->items.n; i = end) {
        end = hw_global_end(&w->items, i);
        rc = put_group(w, &w->items.v[i], end - i);
    }
    if (w->v1)
        put_v1_maps(w);
    hw_json_end_array(&w->j);
    put_file_metadata(w);
    hw_json_end_object(&w->j);
    return rc < 0 ? rc : hw_json_finish(&w->j);
}

static int put_bytes(void *ctx, const void *p, size_t n)
{
    struct job *w = ctx;
    if (w->gzip)
        return hw_gzip_write(w->gzip, hw_bytes_of(p, n), w->err);
    (void)fwrite(p, 1, n, w->out); /* the stream remembers a failure */
    return HW_OK;
}

static int prepare(struct job *w)
{
    int rc = hw_series_list_init(&w->list, w->p);
    while (rc == HW_OK && w->sums.n < w->list.v.n)
        if (hw_vec_push(&w->sums, (struct hw_type_sum){0}) < 0)
            rc = HW_ENOMEM;
    if (rc == HW_OK)
        rc = hw_global_items_init(w->p, &w->list, &w->items);
    if (rc == HW_OK)
        rc = hw_infra_regions_find(&w->regions, w->p);
    return rc < 0 ? rc : hw_infra_out_new(w->in, hw_infra_regions_pc, &w->regions, &w->heaps);
}

static void done(struct job *w)
{
    for (size_t i = 0; i < w->sums.n; i++)
        hw_type_sum_done(&w->sums.v[i]);
    hw_vec_done(&w->sums);
    hw_vec_done(&w->items);
    hw_infra_regions_done(&w->regions);
    hw_series_list_done(&w->list);
    hw_infra_out_free(w->heaps);
    hw_json_done(&w->j);
    hw_gzip_writer_free(w->gzip);
}

static int write_trace(const struct hw_export_input *in, bool v1, FILE *out, struct hw_error *err)
{
    struct job w = {.in = in, .p = in->profile, .v1 = v1, .out = out, .err = err};
    int rc = HW_OK;
    hw_json_init(&w.j, put_bytes, &w, /* pretty = */ false);
    w.guid_seed = hw_hash_u64((uint64_t)w.p->first_ns + 1) & 0xffffffffff00u;
    if (in->gzip && fflush(out) == 0)
        rc = hw_gzip_writer_new(fileno(out), &w.gzip, err);
    if (rc == HW_OK && (rc = prepare(&w)) == HW_OK)
        rc = put_all(&w);
    if (rc == HW_OK && w.gzip)
        rc = hw_gzip_writer_end(w.gzip, err);
    done(&w);
    if (rc < 0)
        return err && err->code ? rc : hw_fail(err, rc, 0, "memory-infra trace:");
    return hw_export_finish(out, err);
}

static int write_v2(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    return write_trace(in, /* v1 = */ false, out, err);
}

static int write_v1(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    return write_trace(in, /* v1 = */ true, out, err);
}

const struct hw_exporter hw_export_memory_infra = {
    .name = "memory-infra",
    .summary =
        "JSON trace with memory and heap dumps, for Chrome's trace viewer; all processes and dumps",
    .extension = ".memory-infra.json",
    .whole = true,
    .write = write_v2,
};

const struct hw_exporter hw_export_memory_infra_v1 = {
    .name = "memory-infra-v1",
    .summary = "the same with heap dumps in their first version",
    .extension = ".memory-infra-v1.json",
    .whole = true,
    .write = write_v1,
};

/*
 * The format is columnar: {"length": n, "name": [...], "line": [...]}. So a thread's tables are
 * built in memory first (firefox_tables.c), then written column by column.
 */
#include "export/firefox/firefox.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "export/firefox/firefox_tables.h"

#include "base/banned.h"

enum { PROCESSED_VERSION = 48, GECKO_VERSION = 29, RESOURCE_LIBRARY = 1 };

/* ---- writing ---- */

static struct hw_bytes text_of(const struct hw_firefox *x, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(x->p->callsites), id);
}

static void put_text(struct hw_firefox *x, const char *key, struct hw_bytes text)
{
    hw_json_key(&x->j, key);
    hw_json_strn(&x->j, text.p, text.n);
}

static void put_ms(struct hw_firefox *x, int64_t ts_ns)
{
    hw_json_double(&x->j, (double)(ts_ns - x->p->first_ns) / 1e6);
}

static void put_index(struct hw_firefox *x, uint32_t v)
{
    if (v == HW_ID_NONE)
        hw_json_null(&x->j);
    else
        hw_json_uint(&x->j, v);
}

static void put_empty(struct hw_firefox *x, const char *key)
{
    hw_json_key(&x->j, key);
    hw_json_begin_array(&x->j);
    hw_json_end_array(&x->j);
}

static void begin_table(struct hw_firefox *x, const char *key, size_t length)
{
    hw_json_key(&x->j, key);
    hw_json_begin_object(&x->j);
    hw_json_kv_uint(&x->j, "length", length);
}

/* A column of n rows: `value` writes the cell of row i. */
#define PUT_COLUMN(x, key, n, value)                                                               \
    do {                                                                                           \
        hw_json_key(&(x)->j, key);                                                                 \
        hw_json_begin_array(&(x)->j);                                                              \
        for (size_t i = 0; i < (n); i++)                                                           \
            value;                                                                                 \
        hw_json_end_array(&(x)->j);                                                                \
    } while (0)

static void put_stacks(struct hw_firefox *x, const struct hw_ff_thread *t)
{
    size_t n = t->stacks.n;
    begin_table(x, "stackTable", n);
    PUT_COLUMN(x, "prefix", n, put_index(x, t->stacks.v[i].prefix));
    PUT_COLUMN(x, "frame", n, hw_json_uint(&x->j, t->stacks.v[i].frame));
    PUT_COLUMN(x, "category", n, hw_json_uint(&x->j, 0));
    PUT_COLUMN(x, "subcategory", n, hw_json_uint(&x->j, 0));
    hw_json_end_object(&x->j);
}

static void put_address(struct hw_firefox *x, const struct hw_ff_frame *f)
{
    if (f->mapping.v == HW_ID_NONE)
        hw_json_int(&x->j, -1);
    else
        hw_json_uint(&x->j, f->rel_pc);
}

static void put_frames(struct hw_firefox *x, const struct hw_ff_thread *t)
{
    size_t n = t->frames.n;
    const struct hw_ff_frame *f = t->frames.v;
    begin_table(x, "frameTable", n);
    PUT_COLUMN(x, "address", n, put_address(x, &f[i]));
    PUT_COLUMN(x, "inlineDepth", n, hw_json_uint(&x->j, f[i].depth));
    PUT_COLUMN(x, "func", n, hw_json_uint(&x->j, f[i].func));
    PUT_COLUMN(x, "line", n, put_index(x, f[i].line ? f[i].line : HW_ID_NONE));
    PUT_COLUMN(x, "category", n, hw_json_uint(&x->j, 0));
    PUT_COLUMN(x, "subcategory", n, hw_json_uint(&x->j, 0));
    PUT_COLUMN(x, "nativeSymbol", n, hw_json_null(&x->j));
    PUT_COLUMN(x, "innerWindowID", n, hw_json_uint(&x->j, 0));
    PUT_COLUMN(x, "implementation", n, hw_json_null(&x->j));
    PUT_COLUMN(x, "column", n, hw_json_null(&x->j));
    hw_json_end_object(&x->j);
}

static void put_funcs(struct hw_firefox *x, const struct hw_ff_thread *t)
{
    size_t n = t->funcs.n;
    const struct hw_ff_func *f = t->funcs.v;
    begin_table(x, "funcTable", n);
    PUT_COLUMN(x, "name", n, hw_json_uint(&x->j, f[i].name));
    PUT_COLUMN(x, "isJS", n, hw_json_bool(&x->j, false));
    PUT_COLUMN(x, "relevantForJS", n, hw_json_bool(&x->j, false));
    PUT_COLUMN(x, "resource", n,
               hw_json_int(&x->j, f[i].resource == HW_ID_NONE ? -1 : (int64_t)f[i].resource));
    PUT_COLUMN(x, "fileName", n, put_index(x, f[i].file));
    PUT_COLUMN(x, "lineNumber", n, hw_json_null(&x->j));
    PUT_COLUMN(x, "columnNumber", n, hw_json_null(&x->j));
    hw_json_end_object(&x->j);
}

static void put_resources(struct hw_firefox *x, const struct hw_ff_thread *t)
{
    size_t n = t->resources.n;
    begin_table(x, "resourceTable", n);
    PUT_COLUMN(x, "lib", n, hw_json_uint(&x->j, t->resources.v[i].lib));
    PUT_COLUMN(x, "name", n, hw_json_uint(&x->j, t->resources.v[i].name));
    PUT_COLUMN(x, "host", n, hw_json_null(&x->j));
    PUT_COLUMN(x, "type", n, hw_json_uint(&x->j, RESOURCE_LIBRARY));
    hw_json_end_object(&x->j);
}

static void put_rows(struct hw_firefox *x, const struct hw_ff_thread *t)
{
    size_t n = t->rows.n;
    begin_table(x, "nativeAllocations", n);
    PUT_COLUMN(x, "time", n, put_ms(x, t->rows.v[i].ts_ns));
    PUT_COLUMN(x, "stack", n, put_index(x, t->rows.v[i].stack));
    PUT_COLUMN(x, "weight", n, hw_json_int(&x->j, t->rows.v[i].bytes));
    hw_json_kv_str(&x->j, "weightType", "bytes");
    hw_json_end_object(&x->j);
}

/* Required tables for which a heap profile has no data. */
static void put_empty_tables(struct hw_firefox *x)
{
    static const struct {
        const char *name, *columns[7];
    } tables[] = {
        {"samples", {"stack", "time"}},
        {"markers", {"data", "name", "startTime", "endTime", "phase", "category"}},
        {"nativeSymbols", {"libIndex", "address", "name", "functionSize"}},
    };
    for (size_t t = 0; t < HW_ARRAY_LEN(tables); t++) {
        begin_table(x, tables[t].name, 0);
        for (size_t c = 0; tables[t].columns[c]; c++)
            put_empty(x, tables[t].columns[c]);
        if (t == 0) {
            hw_json_key(&x->j, "weight");
            hw_json_null(&x->j);
            hw_json_kv_str(&x->j, "weightType", "samples");
        }
        hw_json_end_object(&x->j);
    }
}

static void put_string(struct hw_firefox *x, const struct hw_ff_thread *t,
                       const struct hw_ff_string *s, struct hw_strbuf *label)
{
    const struct hw_callsites *cs = x->p->callsites;
    hw_strbuf_clear(label);
    if (s->function != HW_ID_NONE) {
        hw_program_label(t->program, label, cs, hw_functions_get(x->fns, s->function), x->namer);
        hw_json_strn(&x->j, label->p, label->n);
        return;
    }
    struct hw_bytes text =
        s->last_part ? hw_program_module_shown(t->program, cs, s->text) : text_of(x, s->text);
    hw_json_strn(&x->j, text.p, text.n);
}

static void put_strings(struct hw_firefox *x, const struct hw_ff_thread *t)
{
    struct hw_strbuf label = {0};
    PUT_COLUMN(x, "stringArray", t->strings.n, put_string(x, t, &t->strings.v[i], &label));
    if (label.failed)
        x->j.buf.failed = true;
    hw_strbuf_done(&label);
}

static void put_pid(struct hw_firefox *x, hw_upid upid)
{
    struct hw_strbuf pid = {0};
    hw_strbuf_addf(&pid, "%lld", (long long)x->p->processes.v[upid.v].pid);
    hw_json_kv_str(&x->j, "pid", pid.p ? pid.p : "");
    hw_strbuf_done(&pid);
}

static void put_thread(struct hw_firefox *x, const struct hw_ff_thread *t, bool is_main)
{
    const struct hw_process *process = &x->p->processes.v[t->upid.v];
    hw_json_begin_object(&x->j);
    hw_json_kv_str(&x->j, "processType", "default");
    hw_json_kv_int(&x->j, "processStartupTime", 0);
    hw_json_key(&x->j, "processShutdownTime");
    hw_json_null(&x->j);
    hw_json_kv_int(&x->j, "registerTime", 0);
    hw_json_key(&x->j, "unregisterTime");
    hw_json_null(&x->j);
    put_empty(x, "pausedRanges");
    put_text(x, "name", text_of(x, t->heap));
    put_text(x, "processName", text_of(x, process->name));
    hw_json_kv_bool(&x->j, "isMainThread", is_main);
    put_pid(x, t->upid);
    hw_json_kv_int(&x->j, "tid", process->pid);
    put_empty_tables(x);
    put_rows(x, t);
    put_stacks(x, t);
    put_frames(x, t);
    put_funcs(x, t);
    put_resources(x, t);
    put_strings(x, t);
    hw_json_end_object(&x->j);
}

/* ---- the heaps ---- */

typedef HW_VEC(struct hw_ff_thread) ff_threads;

static int find_heaps(const struct hw_profile *p, ff_threads *out)
{
    for (size_t i = 0; i < p->dumps.n; i++) {
        const struct hw_heap_dump *d = &p->dumps.v[i];
        bool at_max = d->flags & HW_DUMP_AT_MAX;
        size_t k = 0;
        while (k < out->n && (out->v[k].upid.v != d->upid.v || out->v[k].heap.v != d->heap_name.v))
            k++;
        if (k == out->n &&
            hw_vec_push(out, (struct hw_ff_thread){
                                 .upid = d->upid, .heap = d->heap_name, .peaks_only = true}) < 0)
            return HW_ENOMEM;
        out->v[k].peaks_only = out->v[k].peaks_only && at_max;
    }
    return HW_OK;
}

static bool is_first_of_process(const ff_threads *ts, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (ts->v[k].upid.v == ts->v[i].upid.v)
            return false;
    return true;
}

/* Live bytes as the change at each dump: counters of the format hold deltas. */
static void put_counter(struct hw_firefox *x, const struct hw_ff_thread *t, size_t index)
{
    hw_json_begin_object(&x->j);
    put_text(x, "name", text_of(x, t->heap));
    hw_json_kv_str(&x->j, "category", "Memory");
    hw_json_kv_str(&x->j, "description", "Live bytes of the heap at its dumps");
    put_pid(x, t->upid);
    hw_json_kv_uint(&x->j, "mainThreadIndex", index);
    HW_VEC(struct hw_ff_row) steps = {0};
    for (size_t i = 0; i < t->rows.n; i++) {
        const struct hw_ff_row *r = &t->rows.v[i];
        if (steps.n && steps.v[steps.n - 1].ts_ns == r->ts_ns)
            steps.v[steps.n - 1].bytes += r->bytes;
        else if (hw_vec_push(&steps, *r) < 0)
            x->j.buf.failed = true;
    }
    begin_table(x, "samples", steps.n);
    PUT_COLUMN(x, "time", steps.n, put_ms(x, steps.v[i].ts_ns));
    PUT_COLUMN(x, "count", steps.n, hw_json_int(&x->j, steps.v[i].bytes));
    hw_json_end_object(&x->j);
    hw_json_end_object(&x->j);
    hw_vec_done(&steps);
}

static void put_meta(struct hw_firefox *x)
{
    hw_json_key(&x->j, "meta");
    hw_json_begin_object(&x->j);
    hw_json_kv_int(&x->j, "version", GECKO_VERSION);
    hw_json_kv_int(&x->j, "preprocessedProfileVersion", PROCESSED_VERSION);
    hw_json_kv_int(&x->j, "interval", 1);
    hw_json_kv_int(&x->j, "startTime", 0);
    hw_json_kv_int(&x->j, "processType", 0);
    hw_json_kv_int(&x->j, "stackwalk", 1);
    hw_json_kv_str(&x->j, "product", "heapwise " HW_VERSION);
    hw_json_kv_str(&x->j, "importedFrom", "heapwise");
    hw_json_kv_str(&x->j, "platform", "Linux");
    hw_json_kv_bool(&x->j, "debug", false);
    hw_json_kv_bool(&x->j, "symbolicated", true);
    hw_json_kv_bool(&x->j, "usesOnlyOneStackType", true);
    hw_json_kv_bool(&x->j, "doesNotUseFrameImplementation", true);
    hw_json_kv_bool(&x->j, "sourceCodeIsNotOnSearchfox", true);
    hw_json_kv_bool(&x->j, "keepProfileThreadOrder", true);
    hw_json_key(&x->j, "categories");
    hw_json_begin_array(&x->j);
    hw_json_begin_object(&x->j);
    hw_json_kv_str(&x->j, "name", "Other");
    hw_json_kv_str(&x->j, "color", "grey");
    hw_json_key(&x->j, "subcategories");
    hw_json_begin_array(&x->j);
    hw_json_str(&x->j, "Other");
    hw_json_end_array(&x->j);
    hw_json_end_object(&x->j);
    hw_json_end_array(&x->j);
    put_empty(x, "markerSchema");
    begin_table(x, "extensions", 0);
    put_empty(x, "baseURL");
    put_empty(x, "id");
    put_empty(x, "name");
    hw_json_end_object(&x->j);
    hw_json_end_object(&x->j);
}

static void put_lib(struct hw_firefox *x, const struct hw_ff_lib *l)
{
    struct hw_bytes path = text_of(x, l->path), build_id = text_of(x, l->build_id);
    struct hw_bytes base = hw_module_base(x->p->callsites, l->path);
    struct hw_strbuf hex = {0};
    hw_build_id_add(&hex, build_id);
    hw_json_begin_object(&x->j);
    put_text(x, "name", base);
    put_text(x, "path", path);
    put_text(x, "debugName", base);
    put_text(x, "debugPath", path);
    hw_json_kv_str(&x->j, "arch", "");
    hw_json_kv_str(&x->j, "breakpadId", "");
    hw_json_kv_str(&x->j, "codeId", hex.n ? hex.p : NULL);
    hw_json_end_object(&x->j);
    hw_strbuf_done(&hex);
}

static void put_all(struct hw_firefox *x, const ff_threads *threads)
{
    hw_json_begin_object(&x->j);
    put_meta(x);
    PUT_COLUMN(x, "libs", x->libs.n, put_lib(x, &x->libs.v[i]));
    put_empty(x, "pages");
    PUT_COLUMN(x, "counters", threads->n, put_counter(x, &threads->v[i], i));
    PUT_COLUMN(x, "threads", threads->n,
               put_thread(x, &threads->v[i], is_first_of_process(threads, i)));
    hw_json_end_object(&x->j);
}

int hw_export_firefox(const struct hw_profile *p, const struct hw_namer *namer, int fd,
                      struct hw_error *err)
{
    struct hw_firefox x = {.p = p, .namer = namer};
    ff_threads threads = {0};
    int rc = hw_functions_new(p->callsites, NULL, &x.fns);
    if (rc == HW_OK)
        rc = hw_ff_add_libs(&x);
    if (rc == HW_OK)
        rc = find_heaps(p, &threads);
    if (rc == HW_OK)
        rc = hw_programs_find(p, &x.programs);
    for (size_t i = 0; rc == HW_OK && i < threads.n; i++) {
        threads.v[i].program = &x.programs[threads.v[i].upid.v];
        rc = hw_ff_add_rows(&x, &threads.v[i]);
    }
    if (rc == HW_OK) {
        hw_json_init(&x.j, hw_json_write_fd, &fd, /* pretty = */ false);
        put_all(&x, &threads);
        rc = hw_json_finish(&x.j);
        hw_json_done(&x.j);
    }
    for (size_t i = 0; i < threads.n; i++)
        hw_ff_thread_done(&threads.v[i]);
    hw_vec_done(&threads);
    hw_vec_done(&x.libs);
    hw_map64_done(&x.lib_of);
    hw_map64_done(&x.lib_at);
    hw_functions_free(x.fns);
    free(x.programs);
    return rc == HW_ESYS ? hw_fail_sys(err, "cannot write the output")
           : rc < 0      ? hw_fail(err, rc, 0, "Firefox profile:")
                         : HW_OK;
}

/*
 * Everything in the format is a column: {"length": n, "name": [...], "line": [...]}. So a thread's
 * tables are made in memory first, from the callsites that its rows use, and then written by
 * column. Strings of a thread are numbered as they are first asked for: names of functions, files,
 * libraries.
 */
#include "export/firefox.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/json_out.h"
#include "model/profile.h"
#include "views/flame/functions.h"
#include "views/flame/program.h"

#include "base/banned.h"

enum { PROCESSED_VERSION = 48, GECKO_VERSION = 29, RESOURCE_LIBRARY = 1 };

struct ff_lib {
    hw_str_id path, build_id;
};

struct ff_stack {
    uint32_t prefix; /* HW_ID_NONE = root */
    uint32_t frame;
};

struct ff_frame {
    uint32_t func, line, depth; /* depth: 0 = the outermost of an address */
    hw_mapping_id mapping;
    uint64_t rel_pc;
};

struct ff_func {
    uint32_t name, file; /* strings; file HW_ID_NONE = unknown */
    uint32_t resource;   /* HW_ID_NONE = none */
};

struct ff_resource {
    uint32_t lib, name;
};

struct ff_row {
    int64_t ts_ns, bytes;
    uint32_t stack;
};

struct ff_string {
    uint32_t function; /* HW_ID_NONE: it is text */
    hw_str_id text;
    bool last_part; /* of a path */
};

/* A heap of a process. */
struct ff_thread {
    hw_upid upid;
    const struct hw_shown_program *program; /* of the process; borrowed */
    hw_str_id heap;
    bool peaks_only;
    HW_VEC(struct ff_stack) stacks;
    HW_VEC(struct ff_frame) frames;
    HW_VEC(struct ff_func) funcs;
    HW_VEC(struct ff_resource) resources;
    HW_VEC(struct ff_row) rows;
    HW_VEC(struct ff_string) strings;
    struct hw_map64 stack_of;    /* callsite -> its last stack */
    struct hw_map64 frame_of;    /* frame -> its first one; those of a chain follow */
    struct hw_map64 func_of;     /* function */
    struct hw_map64 resource_of; /* lib */
    struct hw_map64 string_of;   /* text, or 1 << 32 | function, or 2 << 32 | path */
};

struct firefox {
    const struct hw_profile *p;
    const struct hw_namer *namer;
    struct hw_functions *fns;
    struct hw_shown_program *programs; /* owned; by upid */
    struct hw_json j;
    HW_VEC(struct ff_lib) libs;
    struct hw_map64 lib_of; /* path << 32 | build id -> index */
    struct hw_map64 lib_at; /* path -> the first of it */
};

static void thread_done(struct ff_thread *t)
{
    hw_vec_done(&t->stacks);
    hw_vec_done(&t->frames);
    hw_vec_done(&t->funcs);
    hw_vec_done(&t->resources);
    hw_vec_done(&t->rows);
    hw_vec_done(&t->strings);
    hw_map64_done(&t->stack_of);
    hw_map64_done(&t->frame_of);
    hw_map64_done(&t->func_of);
    hw_map64_done(&t->resource_of);
    hw_map64_done(&t->string_of);
}

/* ---- tables of a thread ---- */

static int string_at(struct ff_thread *t, uint32_t function, hw_str_id text, bool last_part,
                     uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    uint64_t key = function != HW_ID_NONE ? 1ull << 32 | function
                   : last_part            ? 2ull << 32 | text.v
                                          : text.v;
    int rc = hw_map64_at(&t->string_of, key, &at, &fresh);
    if (rc == HW_OK && fresh) {
        *at = t->strings.n;
        if (hw_vec_push(&t->strings, (struct ff_string){function, text, last_part}) < 0)
            rc = HW_ENOMEM;
    }
    if (rc == HW_OK)
        *out = (uint32_t)*at;
    return rc;
}

static int resource_at(struct firefox *x, struct ff_thread *t, hw_str_id module, uint32_t *out)
{
    uint64_t lib, *at;
    bool fresh;
    *out = HW_ID_NONE;
    if (!module.v || !hw_map64_get(&x->lib_at, module.v, &lib))
        return HW_OK;
    int rc = hw_map64_at(&t->resource_of, lib, &at, &fresh);
    if (rc == HW_OK && fresh) {
        struct ff_resource r = {.lib = (uint32_t)lib};
        *at = t->resources.n;
        rc = string_at(t, HW_ID_NONE, module, /* last_part = */ true, &r.name);
        if (rc == HW_OK && hw_vec_push(&t->resources, r) < 0)
            rc = HW_ENOMEM;
    }
    if (rc == HW_OK)
        *out = (uint32_t)*at;
    return rc;
}

static int func_at(struct firefox *x, struct ff_thread *t, const struct hw_function_at *f,
                   uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&t->func_of, f->function, &at, &fresh);
    if (rc == HW_OK && fresh) {
        struct ff_func func = {.file = HW_ID_NONE};
        *at = t->funcs.n;
        rc = string_at(t, f->function, (hw_str_id){0}, /* last_part = */ false, &func.name);
        if (rc == HW_OK && f->file.v)
            rc = string_at(t, HW_ID_NONE, f->file, /* last_part = */ false, &func.file);
        if (rc == HW_OK)
            rc = resource_at(x, t, hw_functions_get(x->fns, f->function)->module, &func.resource);
        if (rc == HW_OK && hw_vec_push(&t->funcs, func) < 0)
            rc = HW_ENOMEM;
    }
    if (rc == HW_OK)
        *out = (uint32_t)*at;
    return rc;
}

/* The functions of an address, outermost first: *first and the n - 1 behind it. */
static int frames_of(struct firefox *x, struct ff_thread *t, hw_frame_id id, uint32_t *first,
                     size_t *n)
{
    const struct hw_function_at *chain = hw_functions_chain(x->fns, id, n);
    const struct hw_frame *f = hw_callsites_get_frame(x->p->callsites, id);
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&t->frame_of, id.v, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh)
        *at = t->frames.n;
    *first = (uint32_t)*at;
    for (size_t i = 0; fresh && rc == HW_OK && i < *n; i++) {
        struct ff_frame frame = {.line = chain[i].line,
                                 .depth = (uint32_t)i,
                                 .mapping = f->mapping,
                                 .rel_pc = f->rel_pc};
        rc = func_at(x, t, &chain[i], &frame.func);
        if (rc == HW_OK && hw_vec_push(&t->frames, frame) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}

static int add_callsite(struct firefox *x, struct ff_thread *t, hw_callsite_id id, uint32_t prefix,
                        uint32_t *out)
{
    uint32_t first;
    size_t n;
    int rc = frames_of(x, t, hw_callsites_get(x->p->callsites, id)->frame, &first, &n);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        if (hw_vec_push(&t->stacks, (struct ff_stack){prefix, first + (uint32_t)i}) < 0)
            rc = HW_ENOMEM;
        prefix = (uint32_t)(t->stacks.n - 1);
    }
    *out = prefix;
    return rc == HW_OK ? hw_map64_put(&t->stack_of, id.v, prefix) : rc;
}

/* The stack of a callsite; what is missing of its path is added, root first. */
static int stack_at(struct firefox *x, struct ff_thread *t, hw_callsite_id leaf, uint32_t *out)
{
    hw_callsite_id missing[HW_MAX_CALLSITE_DEPTH];
    size_t n = 0;
    uint64_t known = HW_ID_NONE;
    for (hw_callsite_id c = leaf;
         c.v != HW_ID_NONE && n < HW_ARRAY_LEN(missing) && !hw_map64_get(&t->stack_of, c.v, &known);
         c = hw_callsites_get(x->p->callsites, c)->parent)
        missing[n++] = c;
    int rc = HW_OK;
    *out = (uint32_t)known;
    while (rc == HW_OK && n > 0) {
        uint32_t prefix = *out;
        rc = add_callsite(x, t, missing[--n], prefix, out);
    }
    return rc;
}

static int add_rows(struct firefox *x, struct ff_thread *t)
{
    const struct hw_profile *p = x->p;
    int rc = HW_OK;
    for (uint32_t i = 0; i < p->dumps.n; i++) {
        const struct hw_heap_dump *d = &p->dumps.v[i];
        bool at_max = d->flags & HW_DUMP_AT_MAX;
        if (d->upid.v != t->upid.v || d->heap_name.v != t->heap.v || at_max != t->peaks_only)
            continue;
        if (t->peaks_only)
            t->rows.n = 0;
        size_t first, n;
        hw_profile_dump_rows(p, i, &first, &n);
        for (size_t k = first; rc == HW_OK && k < first + n; k++) {
            struct ff_row r = {.ts_ns = d->ts_ns, .bytes = hw_alloc_size(&p->allocs, k)};
            if (r.bytes == 0)
                continue;
            rc = stack_at(x, t, (hw_callsite_id){p->allocs.callsite[k]}, &r.stack);
            if (rc == HW_OK && hw_vec_push(&t->rows, r) < 0)
                rc = HW_ENOMEM;
        }
    }
    return rc;
}

static int add_libs(struct firefox *x)
{
    for (uint32_t i = 0; i < hw_callsites_n_mappings(x->p->callsites); i++) {
        const struct hw_mapping *m = hw_callsites_get_mapping(x->p->callsites, (hw_mapping_id){i});
        uint64_t *at, *first;
        bool fresh, first_of_path;
        int rc = hw_map64_at(&x->lib_of, (uint64_t)m->path.v << 32 | m->build_id.v, &at, &fresh);
        if (rc == HW_OK && fresh) {
            *at = x->libs.n;
            rc = hw_map64_at(&x->lib_at, m->path.v, &first, &first_of_path);
            if (rc == HW_OK && first_of_path)
                *first = x->libs.n;
            if (rc == HW_OK && hw_vec_push(&x->libs, (struct ff_lib){m->path, m->build_id}) < 0)
                rc = HW_ENOMEM;
        }
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

/* ---- writing ---- */

static struct hw_bytes text_of(const struct firefox *x, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(x->p->callsites), id);
}

static void put_text(struct firefox *x, const char *key, struct hw_bytes text)
{
    hw_json_key(&x->j, key);
    hw_json_strn(&x->j, text.p, text.n);
}

static void put_ms(struct firefox *x, int64_t ts_ns)
{
    hw_json_double(&x->j, (double)(ts_ns - x->p->first_ns) / 1e6);
}

static void put_index(struct firefox *x, uint32_t v)
{
    if (v == HW_ID_NONE)
        hw_json_null(&x->j);
    else
        hw_json_uint(&x->j, v);
}

static void put_empty(struct firefox *x, const char *key)
{
    hw_json_key(&x->j, key);
    hw_json_begin_array(&x->j);
    hw_json_end_array(&x->j);
}

static void begin_table(struct firefox *x, const char *key, size_t length)
{
    hw_json_key(&x->j, key);
    hw_json_begin_object(&x->j);
    hw_json_kv_uint(&x->j, "length", length);
}

/* A column: `value` puts what row i of n has in it. */
#define PUT_COLUMN(x, key, n, value)                                                               \
    do {                                                                                           \
        hw_json_key(&(x)->j, key);                                                                 \
        hw_json_begin_array(&(x)->j);                                                              \
        for (size_t i = 0; i < (n); i++)                                                           \
            value;                                                                                 \
        hw_json_end_array(&(x)->j);                                                                \
    } while (0)

static void put_stacks(struct firefox *x, const struct ff_thread *t)
{
    size_t n = t->stacks.n;
    begin_table(x, "stackTable", n);
    PUT_COLUMN(x, "prefix", n, put_index(x, t->stacks.v[i].prefix));
    PUT_COLUMN(x, "frame", n, hw_json_uint(&x->j, t->stacks.v[i].frame));
    PUT_COLUMN(x, "category", n, hw_json_uint(&x->j, 0));
    PUT_COLUMN(x, "subcategory", n, hw_json_uint(&x->j, 0));
    hw_json_end_object(&x->j);
}

static void put_address(struct firefox *x, const struct ff_frame *f)
{
    if (f->mapping.v == HW_ID_NONE)
        hw_json_int(&x->j, -1);
    else
        hw_json_uint(&x->j, f->rel_pc);
}

static void put_frames(struct firefox *x, const struct ff_thread *t)
{
    size_t n = t->frames.n;
    const struct ff_frame *f = t->frames.v;
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

static void put_funcs(struct firefox *x, const struct ff_thread *t)
{
    size_t n = t->funcs.n;
    const struct ff_func *f = t->funcs.v;
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

static void put_resources(struct firefox *x, const struct ff_thread *t)
{
    size_t n = t->resources.n;
    begin_table(x, "resourceTable", n);
    PUT_COLUMN(x, "lib", n, hw_json_uint(&x->j, t->resources.v[i].lib));
    PUT_COLUMN(x, "name", n, hw_json_uint(&x->j, t->resources.v[i].name));
    PUT_COLUMN(x, "host", n, hw_json_null(&x->j));
    PUT_COLUMN(x, "type", n, hw_json_uint(&x->j, RESOURCE_LIBRARY));
    hw_json_end_object(&x->j);
}

static void put_rows(struct firefox *x, const struct ff_thread *t)
{
    size_t n = t->rows.n;
    begin_table(x, "nativeAllocations", n);
    PUT_COLUMN(x, "time", n, put_ms(x, t->rows.v[i].ts_ns));
    PUT_COLUMN(x, "stack", n, put_index(x, t->rows.v[i].stack));
    PUT_COLUMN(x, "weight", n, hw_json_int(&x->j, t->rows.v[i].bytes));
    hw_json_kv_str(&x->j, "weightType", "bytes");
    hw_json_end_object(&x->j);
}

/* Tables of what a heap profile does not have. */
static void put_empty_tables(struct firefox *x)
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

static void put_string(struct firefox *x, const struct ff_thread *t, const struct ff_string *s,
                       struct hw_strbuf *label)
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

static void put_strings(struct firefox *x, const struct ff_thread *t)
{
    struct hw_strbuf label = {0};
    PUT_COLUMN(x, "stringArray", t->strings.n, put_string(x, t, &t->strings.v[i], &label));
    if (label.failed)
        x->j.buf.failed = true;
    hw_strbuf_done(&label);
}

static void put_pid(struct firefox *x, hw_upid upid)
{
    struct hw_strbuf pid = {0};
    hw_strbuf_addf(&pid, "%lld", (long long)x->p->processes.v[upid.v].pid);
    hw_json_kv_str(&x->j, "pid", pid.p ? pid.p : "");
    hw_strbuf_done(&pid);
}

static void put_thread(struct firefox *x, const struct ff_thread *t, bool is_main)
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

typedef HW_VEC(struct ff_thread) ff_threads;

static int find_heaps(const struct hw_profile *p, ff_threads *out)
{
    for (size_t i = 0; i < p->dumps.n; i++) {
        const struct hw_heap_dump *d = &p->dumps.v[i];
        bool at_max = d->flags & HW_DUMP_AT_MAX;
        size_t k = 0;
        while (k < out->n && (out->v[k].upid.v != d->upid.v || out->v[k].heap.v != d->heap_name.v))
            k++;
        if (k == out->n &&
            hw_vec_push(out, (struct ff_thread){
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

/* Live bytes: what each dump changed, which is what such counters hold. */
static void put_counter(struct firefox *x, const struct ff_thread *t, size_t index)
{
    hw_json_begin_object(&x->j);
    put_text(x, "name", text_of(x, t->heap));
    hw_json_kv_str(&x->j, "category", "Memory");
    hw_json_kv_str(&x->j, "description", "Live bytes of the heap at its dumps");
    put_pid(x, t->upid);
    hw_json_kv_uint(&x->j, "mainThreadIndex", index);
    HW_VEC(struct ff_row) steps = {0};
    for (size_t i = 0; i < t->rows.n; i++) {
        const struct ff_row *r = &t->rows.v[i];
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

static void put_meta(struct firefox *x)
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

static void put_lib(struct firefox *x, const struct ff_lib *l)
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

static void put_all(struct firefox *x, const ff_threads *threads)
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
    struct firefox x = {.p = p, .namer = namer};
    ff_threads threads = {0};
    int rc = hw_functions_new(p->callsites, NULL, &x.fns);
    if (rc == HW_OK)
        rc = add_libs(&x);
    if (rc == HW_OK)
        rc = find_heaps(p, &threads);
    if (rc == HW_OK)
        rc = hw_programs_find(p, &x.programs);
    for (size_t i = 0; rc == HW_OK && i < threads.n; i++) {
        threads.v[i].program = &x.programs[threads.v[i].upid.v];
        rc = add_rows(&x, &threads.v[i]);
    }
    if (rc == HW_OK) {
        hw_json_init(&x.j, hw_json_write_fd, &fd, /* pretty = */ false);
        put_all(&x, &threads);
        rc = hw_json_finish(&x.j);
        hw_json_done(&x.j);
    }
    for (size_t i = 0; i < threads.n; i++)
        thread_done(&threads.v[i]);
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

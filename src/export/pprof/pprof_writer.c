/*
 * profile.proto: strings by index, samples leaf first. Ids are the model's + 1, so they are never 0
 * and two exports of one trace agree. Only what samples refer to is written: mappings, locations
 * and functions are marked while the samples are written, and follow them; readers accept any
 * order.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "codec/gzip.h"
#include "codec/pb.h"
#include "export/export.h"
#include "views/flame/annotations.h"

#include "base/banned.h"

enum { /* Profile */
       F_SAMPLE_TYPE = 1,
       F_SAMPLE = 2,
       F_MAPPING = 3,
       F_LOCATION = 4,
       F_FUNCTION = 5,
       F_STRING_TABLE = 6,
       F_TIME_NANOS = 9,
       F_DURATION_NANOS = 10,
       F_PERIOD_TYPE = 11,
       F_PERIOD = 12,
       F_COMMENT = 13,
       F_DEFAULT_SAMPLE_TYPE = 14
};

struct function {
    uint32_t name, system_name, filename;
    uint32_t next; /* with the same hash: index + 1, 0 = none */
};

struct job {
    const struct hw_export_input *in;
    const struct hw_callsites *cs;
    struct hw_pb out;
    struct hw_strings *strings; /* the file's string table */
    bool annotates;
    uint8_t *frame_used, *mapping_used; /* frame_used: a bit for each annotation it has */
    struct hw_map64 function_of; /* hash of the three names → newest function; then by next */
    HW_VEC(struct function) functions;
    struct hw_strbuf label;
    int rc; /* first failure of interning */
};

static uint32_t str(struct job *j, struct hw_bytes text)
{
    hw_str_id id = {0};
    int rc = hw_strings_intern(j->strings, text, &id);
    if (rc < 0 && j->rc == 0)
        j->rc = rc;
    return id.v;
}

static struct hw_bytes model_str(const struct job *j, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(j->in->profile->callsites), id);
}

/* ---- sample types ---- */

enum column { C_ALLOC_OBJECTS, C_ALLOC_SPACE, C_OBJECTS, C_SPACE, C_COUNT };

static const char *const seed_names[C_COUNT] = {"alloc_objects", "alloc_space", "objects", "space"};
static const char *const scrape_names[C_COUNT] = {"alloc_objects", "alloc_space", "inuse_objects",
                                                  "inuse_space"};
static const char *const malloc_names[C_COUNT] = {
    "Total malloc count", "Total malloc size", "Unreleased malloc count", "Unreleased malloc size"};
static const char *const other_names[C_COUNT] = {"Total count", "Total size", "Unreleased count",
                                                 "Unreleased size"};
static const char *const art_names[C_COUNT] = {"Total allocation count", "Total allocation size"};

static bool is_heap(const struct job *j, const char *name)
{
    return hw_bytes_equal(model_str(j, j->in->heap_name), hw_bytes_str(name));
}

/* The managed heap's frees are not recorded, so it has no unreleased columns; CPU samples are only
 * counted. */
static int n_columns(const struct job *j)
{
    if (j->in->cpu_samples)
        return 1;
    return is_heap(j, "com.android.art") && !j->in->scrape ? 2 : C_COUNT;
}

static bool has_column(const struct job *j, int c)
{
    bool is_alloc = c == C_ALLOC_OBJECTS || c == C_ALLOC_SPACE;
    enum hw_scrape_columns wanted = j->in->scrape ? j->in->scrape->columns : HW_SCRAPE_ALL;
    return wanted == HW_SCRAPE_ALL || is_alloc == (wanted == HW_SCRAPE_ALLOC);
}

static bool has_base(const struct job *j)
{
    return j->in->scrape && j->in->scrape->base;
}

static void put_value_type(struct job *j, uint32_t field, const char *name, const char *unit)
{
    hw_pb_begin(&j->out, field);
    hw_pb_uint(&j->out, 1, str(j, hw_bytes_str(name)));
    hw_pb_uint(&j->out, 2, str(j, hw_bytes_str(unit)));
    hw_pb_end(&j->out);
}

static void put_scrape(struct job *j, const struct hw_scrape_form *s)
{
    bool allocs = s->allocs || s->columns == HW_SCRAPE_ALLOC;
    const char *first = scrape_names[allocs ? C_ALLOC_SPACE : C_SPACE];
    hw_pb_uint(&j->out, F_TIME_NANOS, (uint64_t)s->time_ns);
    if (s->duration_ns)
        hw_pb_uint(&j->out, F_DURATION_NANOS, (uint64_t)s->duration_ns);
    put_value_type(j, F_PERIOD_TYPE, "space", "bytes");
    hw_pb_uint(&j->out, F_PERIOD, j->in->interval_bytes);
    hw_pb_uint(&j->out, F_DEFAULT_SAMPLE_TYPE, str(j, hw_bytes_str(first)));
    for (size_t i = 0; i < s->n_comments; i++)
        hw_pb_uint(&j->out, F_COMMENT, str(j, hw_bytes_str(s->comments[i])));
}

static void put_sample_types(struct job *j)
{
    static const char *const cpu_names[] = {"samples"};
    const char *const *names = j->in->cpu_samples ? cpu_names : seed_names;
    if (j->in->scrape)
        names = scrape_names;
    else if (j->in->new_names && !j->in->cpu_samples)
        names = is_heap(j, "com.android.art") ? art_names
                : is_heap(j, "libc.malloc")   ? malloc_names
                                              : other_names;
    for (int c = 0; c < n_columns(j); c++) {
        bool bytes = c == C_ALLOC_SPACE || c == C_SPACE;
        if (has_column(j, c))
            put_value_type(j, F_SAMPLE_TYPE, names[c], bytes ? "bytes" : "count");
    }
    if (has_base(j)) {
        put_value_type(j, F_SAMPLE_TYPE, "base_objects", "count");
        put_value_type(j, F_SAMPLE_TYPE, "base_space", "bytes");
    }
    if (j->in->scrape)
        put_scrape(j, j->in->scrape);
}

/* ---- samples ---- */

/* A frame is one location per annotation. Without annotation its id is the frame's. */
static uint64_t location_id(const struct job *j, uint32_t frame, unsigned annotation)
{
    return (uint64_t)annotation * hw_callsites_n_frames(j->cs) + frame + 1;
}

static void put_annotated(struct job *j, hw_callsite_id callsite)
{
    hw_frame_id *frames;
    uint8_t *annotations;
    size_t n;
    if (hw_annotate_path(j->in->profile, callsite, &frames, &annotations, &n) < 0) {
        j->rc = HW_ENOMEM;
        return;
    }
    for (size_t i = n; i-- > 0;) {
        hw_pb_raw_varint(&j->out, location_id(j, frames[i].v, annotations[i]));
        j->frame_used[frames[i].v] |= (uint8_t)(1u << annotations[i]);
    }
    free(frames);
    free(annotations);
}

static void put_plain(struct job *j, hw_callsite_id callsite)
{
    for (hw_callsite_id c = callsite; c.v != HW_ID_NONE;) {
        const struct hw_callsite *s = hw_callsites_get(j->cs, c);
        hw_pb_raw_varint(&j->out, location_id(j, s->frame.v, HW_ANNOTATION_NONE));
        j->frame_used[s->frame.v] |= 1u << HW_ANNOTATION_NONE;
        c = s->parent;
    }
}

static void put_sample(struct job *j, size_t row)
{
    const struct hw_callsite_value *cv = &j->in->values->v[row];
    hw_pb_begin(&j->out, F_SAMPLE);
    hw_pb_begin(&j->out, 1);
    if (j->annotates)
        put_annotated(j, cv->callsite);
    else
        put_plain(j, cv->callsite);
    hw_pb_end(&j->out);
    struct hw_value v = hw_export_value(j->in, &cv->v);
    const int64_t column[C_COUNT] = {[C_ALLOC_OBJECTS] = v.alloc_objects,
                                     [C_ALLOC_SPACE] = v.alloc_space,
                                     [C_OBJECTS] = v.objects,
                                     [C_SPACE] = v.space};
    hw_pb_begin(&j->out, 2);
    for (int c = 0; c < n_columns(j); c++)
        if (has_column(j, c))
            hw_pb_raw_varint(&j->out, (uint64_t)column[c]);
    if (has_base(j)) {
        const struct hw_value *base = &j->in->scrape->base->v[row].v;
        hw_pb_raw_varint(&j->out, (uint64_t)base->objects);
        hw_pb_raw_varint(&j->out, (uint64_t)base->space);
    }
    hw_pb_end(&j->out);
    hw_pb_end(&j->out);
}

/* ---- what the samples refer to ---- */

/* The name to show: of one of the frame's functions, or (no name) of an unsymbolized frame. */
static uint32_t shown_name(struct job *j, const struct hw_frame *f, hw_str_id name,
                           unsigned annotation)
{
    struct hw_function fn = {.name = name.v ? name : f->name};
    if (f->mapping.v != HW_ID_NONE)
        fn.module = hw_callsites_get_mapping(j->cs, f->mapping)->path;
    if (fn.name.v == 0)
        fn.rel_pc = f->rel_pc;
    hw_strbuf_clear(&j->label);
    hw_function_label(&j->label, j->cs, &fn, j->in->namer);
    if (annotation != HW_ANNOTATION_NONE)
        hw_strbuf_addf(&j->label, " [%s]", hw_annotation_name((enum hw_annotation)annotation));
    if (j->label.failed && j->rc == 0)
        j->rc = HW_ENOMEM;
    return str(j, hw_bytes_str(j->label.p ? j->label.p : ""));
}

static uint64_t function_id(struct job *j, struct function fn)
{
    uint64_t key = hw_hash_mix((uint64_t)fn.name << 32 | fn.system_name, fn.filename), first = 0;
    key -= key == HW_MAP64_NO_KEY;
    (void)hw_map64_get(&j->function_of, key, &first); /* absent: an empty chain */
    for (uint64_t i = first; i; i = j->functions.v[i - 1].next) {
        const struct function *have = &j->functions.v[i - 1];
        if (have->name == fn.name && have->system_name == fn.system_name &&
            have->filename == fn.filename)
            return i;
    }
    fn.next = (uint32_t)first;
    if (hw_vec_push(&j->functions, fn) < 0 ||
        hw_map64_put(&j->function_of, key, j->functions.n) < 0) {
        j->rc = HW_ENOMEM;
        return 0;
    }
    return j->functions.n;
}

static void put_line(struct job *j, struct function fn, uint32_t line)
{
    hw_pb_begin(&j->out, 4);
    hw_pb_uint(&j->out, 1, function_id(j, fn));
    if (line)
        hw_pb_uint(&j->out, 2, line);
    hw_pb_end(&j->out);
}

/* Innermost first, as symbol sets are. */
static void put_lines(struct job *j, hw_frame_id id, const struct hw_frame *f, unsigned annotation)
{
    const struct hw_symbol_sets *sets = hw_callsites_get_symbol_sets(j->cs);
    const struct hw_symbol_line *lines;
    size_t n = hw_symbol_sets_get(sets, id, &lines);
    for (size_t i = 0; i < n; i++) {
        uint32_t name = shown_name(j, f, lines[i].function, annotation);
        put_line(j, (struct function){name, name, str(j, model_str(j, lines[i].file)), 0},
                 lines[i].line);
    }
    if (n == 0)
        put_line(j,
                 (struct function){
                     shown_name(j, f, hw_symbol_sets_get_deobfuscated(sets, id), annotation),
                     str(j, model_str(j, f->name)), 0, 0},
                 0);
}

static void put_location(struct job *j, uint32_t frame, unsigned annotation)
{
    const struct hw_frame *f = hw_callsites_get_frame(j->cs, (hw_frame_id){frame});
    hw_pb_begin(&j->out, F_LOCATION);
    hw_pb_uint(&j->out, 1, location_id(j, frame, annotation));
    if (f->mapping.v != HW_ID_NONE) {
        hw_pb_uint(&j->out, 2, (uint64_t)f->mapping.v + 1);
        j->mapping_used[f->mapping.v] = 1;
    }
    put_lines(j, (hw_frame_id){frame}, f, annotation);
    hw_pb_end(&j->out);
}

static void put_locations(struct job *j)
{
    for (uint32_t i = 0; i < hw_callsites_n_frames(j->cs); i++)
        for (unsigned a = 0; a < HW_ANNOTATION_COUNT; a++)
            if (j->frame_used[i] >> a & 1)
                put_location(j, i, a);
}

static uint32_t hex_str(struct job *j, struct hw_bytes raw)
{
    hw_strbuf_clear(&j->label);
    hw_build_id_add(&j->label, raw);
    if (j->label.failed && j->rc == 0)
        j->rc = HW_ENOMEM;
    return str(j, hw_bytes_of(j->label.p, j->label.n));
}

static void put_mappings(struct job *j)
{
    for (uint32_t i = 0; i < hw_callsites_n_mappings(j->cs); i++) {
        if (!j->mapping_used[i])
            continue;
        const struct hw_mapping *m = hw_callsites_get_mapping(j->cs, (hw_mapping_id){i});
        hw_pb_begin(&j->out, F_MAPPING);
        hw_pb_uint(&j->out, 1, (uint64_t)i + 1);
        hw_pb_uint(&j->out, 2, m->start);
        hw_pb_uint(&j->out, 3, m->end);
        hw_pb_uint(&j->out, 4, m->exact_offset);
        hw_pb_uint(&j->out, 5, str(j, model_str(j, m->path)));
        hw_pb_uint(&j->out, 6, hex_str(j, model_str(j, m->build_id)));
        hw_pb_end(&j->out);
    }
}

static void put_functions(struct job *j)
{
    for (size_t i = 0; i < j->functions.n; i++) {
        const struct function *f = &j->functions.v[i];
        hw_pb_begin(&j->out, F_FUNCTION);
        hw_pb_uint(&j->out, 1, i + 1);
        hw_pb_uint(&j->out, 2, f->name);
        hw_pb_uint(&j->out, 3, f->system_name);
        hw_pb_uint(&j->out, 4, f->filename);
        hw_pb_end(&j->out);
    }
}

static void put_strings(struct job *j)
{
    for (uint32_t i = 0; i < hw_strings_count(j->strings); i++) {
        struct hw_bytes s = hw_strings_get(j->strings, (hw_str_id){i});
        hw_pb_bytes(&j->out, F_STRING_TABLE, s.p, s.n);
    }
}

static int build(struct job *j, struct hw_error *err)
{
    put_sample_types(j);
    for (size_t i = 0; i < j->in->values->n; i++)
        put_sample(j, i);
    put_locations(j);
    put_mappings(j);
    put_functions(j);
    put_strings(j);
    if (j->rc == 0 && hw_pb_failed(&j->out))
        j->rc = HW_ENOMEM;
    return j->rc < 0 ? hw_fail(err, j->rc, 0, "pprof profile:") : HW_OK;
}

static int job_init(struct job *j, const struct hw_export_input *in)
{
    *j = (struct job){.in = in, .cs = in->profile->callsites};
    j->annotates = !in->no_annotations && hw_has_managed_code(in->profile);
    j->frame_used = calloc(hw_callsites_n_frames(j->cs) + 1, 1);
    j->mapping_used = calloc(hw_callsites_n_mappings(j->cs) + 1, 1);
    if (!j->frame_used || !j->mapping_used)
        return HW_ENOMEM;
    return hw_strings_new(&j->strings);
}

static void job_done(struct job *j)
{
    hw_pb_done(&j->out);
    hw_strings_free(j->strings);
    free(j->frame_used);
    free(j->mapping_used);
    hw_map64_done(&j->function_of);
    hw_vec_done(&j->functions);
    hw_strbuf_done(&j->label);
}

static int put_file(const struct job *j, FILE *out, struct hw_error *err)
{
    struct hw_bytes all = hw_pb_view(&j->out);
    if (!j->in->gzip) {
        (void)fwrite(all.p, 1, all.n, out); /* the stream remembers a failure */
        return HW_OK;
    }
    struct hw_strbuf packed = {0};
    int rc = hw_deflate(all, HW_GZIP_GZIP, &packed, err);
    if (rc == 0)
        (void)fwrite(packed.p, 1, packed.n, out);
    hw_strbuf_done(&packed);
    return rc;
}

static int pprof_write(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    struct job j;
    int rc = job_init(&j, in);
    if (rc < 0)
        rc = hw_fail(err, rc, 0, "pprof profile:");
    else
        rc = build(&j, err);
    if (rc == 0)
        rc = put_file(&j, out, err);
    job_done(&j);
    return rc < 0 ? rc : hw_export_finish(out, err);
}

const struct hw_exporter hw_export_pprof = {
    .name = "pprof",
    .summary = "pprof's profile.proto: go tool pprof, speedscope",
    .extension = ".pb",
    .binary = true,
    .write = pprof_write,
};

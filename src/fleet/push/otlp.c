#include "fleet/push/otlp.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "codec/pb.h"
#include "fleet/push/dumps.h"
#include "fleet/push/posts.h"
#include "model/profile.h"

#include "base/banned.h"

enum { /* ExportProfilesServiceRequest */
       F_RESOURCE_PROFILES = 1,
       F_DICTIONARY = 2,
       /* ResourceProfiles, ScopeProfiles, Resource, InstrumentationScope, KeyValue, AnyValue */
       F_RESOURCE = 1,
       F_SCOPE_PROFILES = 2,
       F_SCOPE = 1,
       F_PROFILES = 2,
       F_ATTRIBUTES = 1,
       F_SCOPE_NAME = 1,
       F_SCOPE_VERSION = 2,
       F_KEY = 1,
       F_VALUE = 2,
       F_STRING_VALUE = 1,
       /* Profile, ValueType, Sample */
       F_SAMPLE_TYPE = 1,
       F_SAMPLES = 2,
       F_TIME = 3,
       F_DURATION = 4,
       F_PERIOD_TYPE = 5,
       F_PERIOD = 6,
       F_TYPE = 1,
       F_UNIT = 2,
       F_STACK_INDEX = 1,
       F_VALUES = 4,
       /* ProfilesDictionary */
       F_MAPPING_TABLE = 1,
       F_LOCATION_TABLE = 2,
       F_FUNCTION_TABLE = 3,
       F_LINK_TABLE = 4,
       F_STRING_TABLE = 5,
       F_ATTRIBUTE_TABLE = 6,
       F_STACK_TABLE = 7
};

struct hw_otlp {
    const struct hw_profile *p;
    const struct hw_namer *namer;
    struct hw_functions *functions;
    struct hw_pb pb, tables;    /* the request; its dictionary */
    struct hw_strings *strings; /* the dictionary's */
    uint32_t *location_of;      /* by frame: row of the table, 0 = not added yet */
    uint32_t *function_of;      /* by function */
    uint32_t *mapping_of;       /* by mapping */
    uint32_t n_locations, n_functions, n_mappings;
    struct hw_strbuf label;
    int rc; /* the first failure of interning */
};

static uint32_t str(struct hw_otlp *o, struct hw_bytes text)
{
    hw_str_id id = {0};
    int rc = hw_strings_intern(o->strings, text, &id);
    if (rc < 0 && o->rc == 0)
        o->rc = rc;
    return id.v;
}

static struct hw_bytes model_str(const struct hw_otlp *o, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(o->p->callsites), id);
}

/* ---- tables ---- */

static uint32_t mapping_row(struct hw_otlp *o, hw_mapping_id id)
{
    if (id.v == HW_ID_NONE)
        return 0;
    if (o->mapping_of[id.v] == 0) {
        const struct hw_mapping *m = hw_callsites_get_mapping(o->p->callsites, id);
        hw_pb_begin(&o->tables, F_MAPPING_TABLE);
        hw_pb_uint(&o->tables, 1, m->start);
        hw_pb_uint(&o->tables, 2, m->end);
        hw_pb_uint(&o->tables, 3, m->exact_offset);
        hw_pb_uint(&o->tables, 4, str(o, model_str(o, m->path)));
        hw_pb_end(&o->tables);
        o->mapping_of[id.v] = ++o->n_mappings;
    }
    return o->mapping_of[id.v];
}

static uint32_t function_row(struct hw_otlp *o, const struct hw_function_at *at)
{
    if (o->function_of[at->function] == 0) {
        const struct hw_function *fn = hw_functions_get(o->functions, at->function);
        hw_strbuf_clear(&o->label);
        hw_function_label(&o->label, o->p->callsites, fn, o->namer);
        if (o->label.failed && o->rc == 0)
            o->rc = HW_ENOMEM;
        hw_pb_begin(&o->tables, F_FUNCTION_TABLE);
        hw_pb_uint(&o->tables, 1, str(o, hw_bytes_of(o->label.p, o->label.n)));
        hw_pb_uint(&o->tables, 2, str(o, model_str(o, fn->name)));
        hw_pb_uint(&o->tables, 3, str(o, model_str(o, at->file)));
        hw_pb_end(&o->tables);
        o->function_of[at->function] = ++o->n_functions;
    }
    return o->function_of[at->function];
}

static uint32_t location_row(struct hw_otlp *o, hw_frame_id frame)
{
    if (o->location_of[frame.v])
        return o->location_of[frame.v];
    const struct hw_frame *f = hw_callsites_get_frame(o->p->callsites, frame);
    size_t n;
    const struct hw_function_at *at = hw_functions_chain(o->functions, frame, &n);
    uint32_t mapping = mapping_row(o, f->mapping);
    for (size_t i = 0; i < n; i++)
        (void)function_row(o, &at[i]); /* adds their rows before this one begins */
    hw_pb_begin(&o->tables, F_LOCATION_TABLE);
    hw_pb_uint(&o->tables, 1, mapping);
    hw_pb_uint(&o->tables, 2, f->rel_pc);
    for (size_t i = n; i-- > 0;) { /* innermost first */
        hw_pb_begin(&o->tables, 3);
        hw_pb_uint(&o->tables, 1, function_row(o, &at[i]));
        if (at[i].line)
            hw_pb_uint(&o->tables, 2, at[i].line);
        hw_pb_end(&o->tables);
    }
    hw_pb_end(&o->tables);
    return o->location_of[frame.v] = ++o->n_locations;
}

static void put_stack(struct hw_otlp *o, hw_callsite_id leaf)
{
    const struct hw_callsites *cs = o->p->callsites;
    for (hw_callsite_id c = leaf; c.v != HW_ID_NONE; c = hw_callsites_get(cs, c)->parent)
        (void)location_row(o, hw_callsites_get(cs, c)->frame); /* adds its row first */
    hw_pb_begin(&o->tables, F_STACK_TABLE);
    hw_pb_begin(&o->tables, 1);
    for (hw_callsite_id c = leaf; c.v != HW_ID_NONE; c = hw_callsites_get(cs, c)->parent)
        hw_pb_raw_varint(&o->tables, location_row(o, hw_callsites_get(cs, c)->frame));
    hw_pb_end(&o->tables);
    hw_pb_end(&o->tables);
}

static void put_empty(struct hw_pb *pb, uint32_t field)
{
    hw_pb_begin(pb, field);
    hw_pb_end(pb);
}

static void put_tables(struct hw_otlp *o, const hw_values *values)
{
    static const uint32_t fields[] = {F_MAPPING_TABLE, F_LOCATION_TABLE,  F_FUNCTION_TABLE,
                                      F_LINK_TABLE,    F_ATTRIBUTE_TABLE, F_STACK_TABLE};
    for (size_t i = 0; i < HW_ARRAY_LEN(fields); i++)
        put_empty(&o->tables, fields[i]);
    for (size_t i = 0; i < values->n; i++)
        put_stack(o, values->v[i].callsite);
}

static void put_strings(struct hw_otlp *o)
{
    for (uint32_t i = 0; i < hw_strings_count(o->strings); i++) {
        struct hw_bytes s = hw_strings_get(o->strings, (hw_str_id){i});
        hw_pb_bytes(&o->tables, F_STRING_TABLE, s.p, s.n);
    }
}

/* ---- profiles ---- */

static int64_t column_of(const struct hw_value *v, int column)
{
    const int64_t all[] = {v->alloc_objects, v->alloc_space, v->objects, v->space};
    return all[column];
}

static void put_type(struct hw_otlp *o, uint32_t field, const char *type, const char *unit)
{
    hw_pb_begin(&o->pb, field);
    hw_pb_uint(&o->pb, F_TYPE, str(o, hw_bytes_str(type)));
    hw_pb_uint(&o->pb, F_UNIT, str(o, hw_bytes_str(unit)));
    hw_pb_end(&o->pb);
}

static void put_profile(struct hw_otlp *o, const struct hw_fleet_dump *d, int column)
{
    static const char *const names[] = {"alloc_objects", "alloc_space", "inuse_objects",
                                        "inuse_space"};
    hw_pb_begin(&o->pb, F_PROFILES);
    put_type(o, F_SAMPLE_TYPE, names[column], column % 2 ? "bytes" : "count");
    for (size_t i = 0; i < d->values->n; i++) {
        int64_t v = column_of(&d->values->v[i].v, column);
        if (v == 0)
            continue;
        hw_pb_begin(&o->pb, F_SAMPLES);
        hw_pb_uint(&o->pb, F_STACK_INDEX, i + 1);
        hw_pb_begin(&o->pb, F_VALUES);
        hw_pb_raw_varint(&o->pb, (uint64_t)v);
        hw_pb_end(&o->pb);
        hw_pb_end(&o->pb);
    }
    hw_pb_fixed64(&o->pb, F_TIME, (uint64_t)d->since_ns);
    hw_pb_uint(&o->pb, F_DURATION,
               d->wall_ns > d->since_ns ? (uint64_t)(d->wall_ns - d->since_ns) : 0);
    put_type(o, F_PERIOD_TYPE, "space", "bytes");
    hw_pb_uint(&o->pb, F_PERIOD, d->dump->interval_bytes);
    hw_pb_end(&o->pb);
}

/* The names of our labels in OpenTelemetry's semantic conventions. */
static const char *attribute_name(const char *label)
{
    static const char *const names[][2] = {
        {"host", "host.name"},          {"pid", "process.pid"},
        {"version", "service.version"}, {"build_id", "process.executable.build_id.gnu"},
        {"heap", "heapwise.heap"},      {"interval", "heapwise.interval"}};
    for (size_t i = 0; i < HW_ARRAY_LEN(names); i++)
        if (strcmp(names[i][0], label) == 0)
            return names[i][1];
    return label;
}

static void put_resource(struct hw_otlp *o, const struct hw_post_labels *labels)
{
    hw_pb_begin(&o->pb, F_RESOURCE);
    for (size_t i = 1; i < labels->v.n; i++) { /* the first is the name of the metric */
        const struct hw_post_label *l = &labels->v.v[i];
        hw_pb_begin(&o->pb, F_ATTRIBUTES);
        hw_pb_str(&o->pb, F_KEY, attribute_name(l->name));
        hw_pb_begin(&o->pb, F_VALUE);
        hw_pb_bytes(&o->pb, F_STRING_VALUE, l->value.p, l->value.n);
        hw_pb_end(&o->pb);
        hw_pb_end(&o->pb);
    }
    hw_pb_end(&o->pb);
}

static void put_request(struct hw_otlp *o, const struct hw_fleet_dump *d,
                        const struct hw_post_labels *labels)
{
    hw_pb_begin(&o->pb, F_RESOURCE_PROFILES);
    put_resource(o, labels);
    hw_pb_begin(&o->pb, F_SCOPE_PROFILES);
    hw_pb_begin(&o->pb, F_SCOPE);
    hw_pb_str(&o->pb, F_SCOPE_NAME, "heapwise");
    hw_pb_str(&o->pb, F_SCOPE_VERSION, HW_VERSION);
    hw_pb_end(&o->pb);
    for (int column = 0; column < 4; column++)
        put_profile(o, d, column);
    hw_pb_end(&o->pb);
    hw_pb_end(&o->pb);
    put_tables(o, d->values);
    put_strings(o);
    struct hw_bytes tables = hw_pb_view(&o->tables);
    hw_pb_bytes(&o->pb, F_DICTIONARY, tables.p, tables.n);
}

static int begin(struct hw_otlp *o)
{
    const struct hw_callsites *cs = o->p->callsites;
    hw_pb_clear(&o->pb);
    hw_pb_clear(&o->tables);
    hw_strings_free(o->strings);
    o->strings = NULL;
    memset(o->location_of, 0, hw_callsites_n_frames(cs) * sizeof *o->location_of);
    memset(o->function_of, 0, hw_functions_count(o->functions) * sizeof *o->function_of);
    memset(o->mapping_of, 0, hw_callsites_n_mappings(cs) * sizeof *o->mapping_of);
    o->n_locations = o->n_functions = o->n_mappings = 0;
    o->rc = 0;
    return hw_strings_new(&o->strings);
}

int hw_otlp_add(struct hw_otlp *o, struct hw_strbuf *out, const struct hw_fleet_dump *d,
                const struct hw_post_labels *labels, struct hw_error *err)
{
    int rc = begin(o);
    if (rc == 0) {
        put_request(o, d, labels);
        struct hw_bytes all = hw_pb_view(&o->pb);
        hw_strbuf_add(out, all.p, all.n);
        rc = o->rc;
        if (rc == 0 && (hw_pb_failed(&o->pb) || hw_pb_failed(&o->tables) || out->failed))
            rc = HW_ENOMEM;
    }
    return rc < 0 ? hw_fail(err, rc, 0, "OpenTelemetry profile") : HW_OK;
}

int hw_otlp_new(const struct hw_profile *p, const struct hw_namer *namer, struct hw_otlp **out)
{
    const struct hw_callsites *cs = p->callsites;
    struct hw_otlp *o = calloc(1, sizeof *o);
    if (!o)
        return HW_ENOMEM;
    o->p = p;
    o->namer = namer;
    int rc = hw_functions_new(cs, NULL, &o->functions);
    if (rc == 0) {
        o->location_of = calloc(hw_callsites_n_frames(cs) + 1, sizeof *o->location_of);
        o->function_of = calloc(hw_functions_count(o->functions) + 1, sizeof *o->function_of);
        o->mapping_of = calloc(hw_callsites_n_mappings(cs) + 1, sizeof *o->mapping_of);
        if (!o->location_of || !o->function_of || !o->mapping_of)
            rc = HW_ENOMEM;
    }
    if (rc < 0) {
        hw_otlp_free(o);
        return rc;
    }
    *out = o;
    return HW_OK;
}

void hw_otlp_free(struct hw_otlp *o)
{
    if (!o)
        return;
    hw_functions_free(o->functions);
    hw_pb_done(&o->pb);
    hw_pb_done(&o->tables);
    hw_strings_free(o->strings);
    free(o->location_of);
    free(o->function_of);
    free(o->mapping_of);
    hw_strbuf_done(&o->label);
    free(o);
}

#include "record/build_config.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/text_parts.h"
#include "codec/pb.h"
#include "config/command/options.h"
#include "config/config.h"
#include "schema/schema.h"

#include "base/banned.h"

enum { BUFFER_KB = 63488, FLUSH_TIMEOUT_MS = 30000 };
static const uint64_t flush_period_ms = 604800000;

/* ---- fields ---- */

#define H(name) HW_F_HeapprofdConfig_##name
#define T(name) HW_F_TraceConfig_##name

/* Fields that are not written in order of number. */
static const struct {
    const char *message;
    uint32_t first[16];
} orders[] = {
    {"HeapprofdConfig",
     {H(shmem_size_bytes), H(sampling_interval_bytes), H(block_client), H(block_client_timeout_us),
      H(no_startup), H(no_running), H(dump_at_max), H(disable_fork_teardown), H(all_heaps), H(all),
      H(pid), H(process_cmdline), H(heaps), H(continuous_dump_config)}},
    {"TraceConfig", {T(duration_ms), T(write_into_file), T(flush_timeout_ms), T(flush_period_ms)}},
};

/* 0 = by number. */
static size_t place_of(const struct hw_schema_message *m, uint32_t number)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(orders); i++)
        for (size_t k = 0; strcmp(orders[i].message, m->name) == 0 && orders[i].first[k]; k++)
            if (orders[i].first[k] == number)
                return k + 1;
    return 0;
}

static const struct hw_schema_message *message_of(const struct hw_schema_field *f)
{
    return f && f->type == HW_T_MESSAGE ? f->message : NULL;
}

const struct hw_schema_field *hw_config_field(const char *path)
{
    const struct hw_schema_message *m = hw_schema_message_find("DataSourceConfig");
    size_t n = strcspn(path, ".");
    if (!path[n] || !m || !message_of(hw_schema_field_by_name(m, hw_bytes_of(path, n))))
        m = hw_schema_message_find("TraceConfig");
    while (m) {
        const struct hw_schema_field *f = hw_schema_field_by_name(m, hw_bytes_of(path, n));
        if (!path[n])
            return f;
        path += n + 1;
        n = strcspn(path, ".");
        m = message_of(f);
    }
    return NULL;
}

/* ---- values ---- */

static struct hw_config_value *find(const struct hw_config_values *c, const char *field)
{
    for (size_t i = 0; i < c->v.n; i++)
        if (strcmp(c->v.v[i].field, field) == 0)
            return &c->v.v[i];
    return NULL;
}

static void put(struct hw_config_values *c, struct hw_config_value value)
{
    struct hw_config_value *there = find(c, value.field);
    if (there)
        *there = value;
    else if (hw_vec_push(&c->v, value) < 0)
        c->failed = true;
}

void hw_config_set(struct hw_config_values *c, const char *field, uint64_t number)
{
    put(c, (struct hw_config_value){.field = field, .number = number});
}

void hw_config_set_text(struct hw_config_values *c, const char *field, const char *text)
{
    put(c, (struct hw_config_value){.field = field, .text = text});
}

void hw_config_set_texts(struct hw_config_values *c, const char *field, char *const *v, size_t n)
{
    if (n)
        put(c, (struct hw_config_value){.field = field, .texts = v, .n = n});
    else
        hw_config_unset(c, field);
}

void hw_config_set_numbers(struct hw_config_values *c, const char *field, const uint64_t *v,
                           size_t n)
{
    if (n)
        put(c, (struct hw_config_value){.field = field, .numbers = v, .n = n});
    else
        hw_config_unset(c, field);
}

void hw_config_unset(struct hw_config_values *c, const char *field)
{
    struct hw_config_value *there = find(c, field);
    if (there)
        *there = c->v.v[--c->v.n];
}

void hw_config_values_done(struct hw_config_values *c)
{
    hw_vec_done(&c->v);
}

static void take_option(struct hw_config_values *c, const struct hw_option *def,
                        const struct hw_optval *v)
{
    switch (def->kind) {
    case HW_OK_FLAG:
        if (v->num && def->flags & HW_OF_UNSETS)
            hw_config_unset(c, def->field);
        else if (v->num)
            hw_config_set(c, def->field, 1);
        break;
    case HW_OK_UINT:
    case HW_OK_SIZE:
    case HW_OK_TIME:
        if (v->num || !def->default_text || strcmp(def->default_text, "0") != 0)
            hw_config_set(c, def->field, v->num);
        break;
    case HW_OK_TEXT:
        hw_config_set_text(c, def->field, v->text);
        break;
    case HW_OK_LIST:
    case HW_OK_REPEAT:
        hw_config_set_texts(c, def->field, v->list.v, v->list.n);
        break;
    case HW_OK_COUNT:
        break;
    }
}

void hw_config_take_options(struct hw_config_values *c, const struct hw_opts *o)
{
    for (int i = 0; i < HW_OPT_COUNT; i++) {
        const struct hw_optval *v = &o->v[i];
        bool has_default = v->text != NULL; /* of an option the command takes */
        if (hw_options[i].field && (v->set || has_default))
            take_option(c, &hw_options[i], v);
    }
    if (find(c, "heapprofd_config.continuous_dump_config.dump_interval_ms")) /* as heap_profile */
        hw_config_set(c, "heapprofd_config.continuous_dump_config.dump_phase_ms", 0);
}

/* ---- writing ---- */

static bool is_number(const struct hw_schema_field *f)
{
    return f->type == HW_T_BOOL || f->type == HW_T_UINT32 || f->type == HW_T_UINT64;
}

static int check(const struct hw_config_value *v, struct hw_error *err)
{
    const struct hw_schema_field *f = hw_config_field(v->field);
    bool is_text = v->text || v->texts;
    if (!f)
        return hw_fail(err, HW_ENOTFOUND, 0, "no field '%s' in TraceConfig", v->field);
    if (is_text ? f->type != HW_T_STRING : !is_number(f))
        return hw_fail(err, HW_EINVAL, 0, "field '%s' takes no %s", v->field,
                       is_text ? "text" : "number");
    if (v->n > 1 && !f->repeated)
        return hw_fail(err, HW_EINVAL, 0, "field '%s' takes one value", v->field);
    return HW_OK;
}

static void put_value(struct hw_pb *w, uint32_t number, const struct hw_config_value *v)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->texts)
            hw_pb_str(w, number, v->texts[i]);
        else
            hw_pb_uint(w, number, v->numbers[i]);
    if (v->n)
        return;
    if (v->text)
        hw_pb_str(w, number, v->text);
    else
        hw_pb_uint(w, number, v->number);
}

static void put_message(struct hw_pb *w, const struct hw_schema_message *m, const char *path,
                        size_t n, const struct hw_config_values *c);

/* The values of one field of m; the first n bytes of `path` lead to m. */
static void put_field(struct hw_pb *w, const struct hw_schema_message *m,
                      const struct hw_schema_field *f, const char *path, size_t n,
                      const struct hw_config_values *c)
{
    bool put_below = false;
    for (size_t i = 0; i < c->v.n; i++) {
        const struct hw_config_value *v = &c->v.v[i];
        if (strncmp(v->field, path, n) != 0)
            continue;
        size_t len = strcspn(v->field + n, ".");
        if (hw_schema_field_by_name(m, hw_bytes_of(v->field + n, len)) != f)
            continue;
        if (!v->field[n + len]) {
            put_value(w, f->number, v);
        } else if (!put_below) {
            put_below = true;
            hw_pb_begin(w, f->number);
            put_message(w, f->message, v->field, n + len + 1, c);
            hw_pb_end(w);
        }
    }
}

static void put_message(struct hw_pb *w, const struct hw_schema_message *m, const char *path,
                        size_t n, const struct hw_config_values *c)
{
    for (size_t place = 1; place <= HW_ARRAY_LEN(orders[0].first); place++)
        for (size_t i = 0; i < m->n_fields; i++)
            if (place_of(m, m->fields[i].number) == place)
                put_field(w, m, &m->fields[i], path, n, c);
    for (size_t i = 0; i < m->n_fields; i++)
        if (!place_of(m, m->fields[i].number))
            put_field(w, m, &m->fields[i], path, n, c);
}

int hw_config_put_source(struct hw_pb *w, const char *name, const char *field,
                         const struct hw_config_values *c, struct hw_error *err)
{
    const struct hw_schema_message *m = hw_schema_message_find("DataSourceConfig");
    const struct hw_schema_field *f =
        m && field ? hw_schema_field_by_name(m, hw_bytes_str(field)) : NULL;
    int rc = c->failed ? hw_fail(err, HW_ENOMEM, 0, "configuration") : HW_OK;
    for (size_t i = 0; field && i < c->v.n && rc == HW_OK; i++)
        if (hw_starts_with(c->v.v[i].field, field))
            rc = check(&c->v.v[i], err);
    if (rc < 0)
        return rc;
    hw_pb_begin(w, HW_F_TraceConfig_data_sources);
    hw_pb_begin(w, HW_F_TraceConfig_DataSource_config);
    hw_pb_str(w, HW_F_DataSourceConfig_name, name);
    if (f)
        put_field(w, m, f, "", 0, c);
    hw_pb_end(w);
    hw_pb_end(w);
    return HW_OK;
}

/* Is there a value below this field? */
static bool has_below(const struct hw_config_values *c, const char *field)
{
    size_t n = strlen(field);
    for (size_t i = 0; i < c->v.n; i++)
        if (strncmp(c->v.v[i].field, field, n) == 0 && c->v.v[i].field[n] == '.')
            return true;
    return false;
}

static void put_attribute(struct hw_pb *w, const char *key, const char *value)
{
    hw_pb_begin(w, HW_F_TraceConfig_trace_attributes);
    hw_pb_begin(w, HW_F_TraceAttributes_attribute);
    hw_pb_str(w, HW_F_TraceAttributes_Attribute_key, key);
    hw_pb_str(w, HW_F_TraceAttributes_Attribute_string_value, value);
    hw_pb_end(w);
    hw_pb_end(w);
}

static int put_all(struct hw_pb *w, const struct hw_config_values *c, struct hw_error *err)
{
    const struct hw_schema_message *root = hw_schema_message_find("TraceConfig");
    hw_pb_begin(w, HW_F_TraceConfig_buffers);
    hw_pb_uint(w, HW_F_TraceConfig_BufferConfig_size_kb, BUFFER_KB);
    hw_pb_end(w);
    int rc = root ? HW_OK : hw_fail(err, HW_ENOTFOUND, 0, "no TraceConfig in the schema");
    for (size_t i = 0; rc == HW_OK && i < c->v.n; i++)
        rc = check(&c->v.v[i], err);
    if (rc == HW_OK)
        rc = hw_config_put_source(w, "android.heapprofd", "heapprofd_config", c, err);
    if (rc == HW_OK && has_below(c, "java_hprof_config"))
        rc = hw_config_put_source(w, "android.java_hprof", "java_hprof_config", c, err);
    if (rc == HW_OK)
        put_message(w, root, "", 0, c);
    if (rc == HW_OK && c->packages_list)
        rc = hw_config_put_source(w, "android.packages_list", NULL, c, err);
    if (rc == HW_OK && c->python_allocators)
        put_attribute(w, HW_ATTRIBUTE_PYTHON, "1");
    return rc;
}

/* What applies to every recording. */
static void set_common(struct hw_config_values *c)
{
    if (!find(c, "duration_ms"))
        hw_config_set(c, "duration_ms", 0);
    hw_config_set(c, "write_into_file", 1);
    hw_config_set(c, "flush_timeout_ms", FLUSH_TIMEOUT_MS);
    hw_config_set(c, "flush_period_ms", flush_period_ms);
}

int hw_build_config(struct hw_config_values *c, struct hw_strbuf *out, struct hw_error *err)
{
    struct hw_pb w = {0};
    set_common(c);
    int rc = put_all(&w, c, err);
    if (rc == HW_OK)
        hw_strbuf_add(out, w.buf.p, w.buf.n);
    if (rc == HW_OK && (hw_pb_failed(&w) || out->failed))
        rc = hw_fail(err, HW_ENOMEM, 0, "configuration");
    hw_pb_done(&w);
    return rc;
}

int hw_print_config(const struct hw_strbuf *binary, struct hw_error *err)
{
    struct hw_strbuf text = {0};
    int rc = hw_config_binary_to_text(hw_bytes_of(binary->p, binary->n), &text, err);
    if (rc == 0 && text.n)
        fwrite(text.p, 1, text.n, stdout); /* main checks ferror */
    hw_strbuf_done(&text);
    return rc;
}

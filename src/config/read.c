/*
 * Reads a binary TraceConfig. What depends on several fields is checked after the last one, so
 * their order does not matter. A filter or limit that we cannot apply is refused; a setting without
 * meaning on Linux gets a warning.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "codec/gzip.h"
#include "codec/pb.h"
#include "config/reading.h"
#include "schema/fields.h"

#include "base/banned.h"

enum { MAX_SOURCES = 256, MAX_SEMAPHORES = 64 };

/* ---- warnings, strings, cleanup ---- */

void hw_config_warn(struct hw_trace_config *c, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap); /* a truncated warning will do */
    va_end(ap);
    hw_strbuf_adds(&c->warnings, line);
    hw_strbuf_addc(&c->warnings, '\n');
}

int hw_config_take_string(struct hw_bytes text, char **out, struct hw_error *err)
{
    if (text.n && memchr(text.p, 0, text.n))
        return hw_fail(err, HW_EINVAL, 0, "a name in the configuration contains a NUL byte");
    char *copy = malloc(text.n + 1);
    if (!copy)
        return hw_fail(err, HW_ENOMEM, 0, "configuration");
    if (text.n)
        memcpy(copy, text.p, text.n);
    copy[text.n] = 0;
    free(*out);
    *out = copy;
    return HW_OK;
}

void hw_config_take_number(const struct hw_config_number *table, size_t n,
                           const struct hw_pb_field *f, void *out)
{
    for (size_t i = 0; i < n && f->wire == HW_PB_VARINT; i++) {
        char *to = (char *)out + table[i].at;
        if (table[i].field != f->number)
            continue;
        if (table[i].kind == HW_NUMBER_BOOL)
            *(bool *)to = f->value != 0;
        else if (table[i].kind == HW_NUMBER_32)
            *(uint32_t *)to = hw_config_u32(f->value);
        else
            *(uint64_t *)to = f->value;
    }
}

int hw_config_read_numbers(struct hw_bytes message, const struct hw_config_number *table, size_t n,
                           void *out)
{
    struct hw_pb_reader in = hw_pb_read(message);
    struct hw_pb_field f;
    int rc;
    while ((rc = hw_pb_next(&in, &f)) > 0)
        hw_config_take_number(table, n, &f, out);
    return rc;
}

static void source_done(struct hw_config_source *s)
{
    free(s->name);
    free(s->target_buffer_name);
    hw_heapprofd_raw_done(&s->heapprofd);
    hw_java_config_done(&s->java);
}

static void reading_done(struct hw_config_reading *r)
{
    for (size_t i = 0; i < r->sources.n; i++)
        source_done(&r->sources.v[i]);
    for (size_t i = 0; i < r->buffer_names.n; i++)
        free(r->buffer_names.v[i]);
    for (size_t i = 0; i < r->trigger_names.n; i++)
        free(r->trigger_names.v[i]);
    hw_vec_done(&r->sources);
    hw_vec_done(&r->buffer_names);
    hw_vec_done(&r->trigger_names);
}

/* Keeps the message given where the failure was found, else says what is broken. */
static int broken(struct hw_config_reading *r, int rc, const char *what, uint64_t offset)
{
    if (rc == HW_EFORMAT || rc == HW_ETRUNCATED)
        return hw_fail(r->err, HW_EINVAL, offset, "%s is not a valid message", what);
    return rc;
}

/* ---- parts of the message ---- */

static int read_buffer(struct hw_config_reading *r, struct hw_bytes message)
{
    struct hw_pb_reader in = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t size_kb = 0;
    char *name = NULL;
    int rc = hw_config_take_string(hw_bytes_of("", 0), &name, r->err);
    while (rc >= 0 && (rc = hw_pb_next(&in, &f)) > 0) {
        if (f.number == HW_F_TraceConfig_BufferConfig_size_kb && f.wire == HW_PB_VARINT)
            size_kb = hw_config_u32(f.value);
        else if (f.number == HW_F_TraceConfig_BufferConfig_name && f.wire == HW_PB_BYTES)
            rc = hw_config_take_string(f.bytes, &name, r->err);
    }
    if (rc >= 0 && hw_vec_push(&r->buffer_names, name) < 0)
        rc = hw_fail(r->err, HW_ENOMEM, 0, "configuration");
    if (rc < 0) {
        free(name);
        return broken(r, rc, "buffers", 0);
    }
    r->total_buffer_kb += size_kb;
    return HW_OK;
}

static int read_process_stats(struct hw_bytes message, struct hw_process_stats_config *p)
{
#define ROW(name, member)                                                                          \
    HW_CONFIG_NUMBER(HW_F_ProcessStatsConfig_##name, struct hw_process_stats_config, member)
    static const struct hw_config_number numbers[] = {
        ROW(proc_stats_poll_ms, poll_ms),
        ROW(scan_all_processes_on_start, scan_all_processes_on_start),
        ROW(record_thread_names, record_thread_names),
        ROW(scan_smaps_rollup, scan_smaps_rollup),
        ROW(record_process_age, record_process_age),
        ROW(record_process_runtime, record_process_runtime),
        ROW(resolve_process_fds, resolve_process_fds),
    };
#undef ROW
    return hw_config_read_numbers(message, numbers, HW_ARRAY_LEN(numbers), p);
}

static int read_source_config(struct hw_config_reading *r, struct hw_config_source *s,
                              struct hw_bytes message)
{
    struct hw_pb_reader in = hw_pb_read(message);
    struct hw_pb_field f;
    int rc;
    while ((rc = hw_pb_next(&in, &f)) > 0) {
        if (f.number == HW_F_DataSourceConfig_target_buffer && f.wire == HW_PB_VARINT) {
            s->target_buffer = hw_config_u32(f.value);
            s->has_target_buffer = true;
        }
        if (f.wire != HW_PB_BYTES)
            continue;
        if (f.number == HW_F_DataSourceConfig_name)
            rc = hw_config_take_string(f.bytes, &s->name, r->err);
        else if (f.number == HW_F_DataSourceConfig_target_buffer_name)
            rc = hw_config_take_string(f.bytes, &s->target_buffer_name, r->err);
        else if (f.number == HW_F_DataSourceConfig_heapprofd_config)
            rc = hw_heapprofd_read(f.bytes, &s->heapprofd, r->err);
        else if (f.number == HW_F_DataSourceConfig_java_hprof_config)
            rc = hw_java_config_read(f.bytes, &s->java, r->c, r->err);
        else if (f.number == HW_F_DataSourceConfig_process_stats_config)
            rc = read_process_stats(f.bytes, &s->process_stats);
        if (rc < 0)
            break;
    }
    return broken(r, rc, "data_sources.config", 0);
}

static int read_source(struct hw_config_reading *r, struct hw_bytes message)
{
    if (r->sources.n >= MAX_SOURCES)
        return hw_fail(r->err, HW_EINVAL, 0, "more than %d data sources", MAX_SOURCES);
    if (hw_vec_push(&r->sources, (struct hw_config_source){0}) < 0)
        return hw_fail(r->err, HW_ENOMEM, 0, "configuration");
    struct hw_config_source *s = &r->sources.v[r->sources.n - 1];
    struct hw_pb_reader in = hw_pb_read(message);
    struct hw_pb_field f;
    int rc;
    bool filtered = false;
    while ((rc = hw_pb_next(&in, &f)) > 0) {
        if (f.wire != HW_PB_BYTES)
            continue;
        if (f.number == HW_F_TraceConfig_DataSource_config)
            rc = read_source_config(r, s, f.bytes);
        else
            filtered = true;
        if (rc < 0)
            break;
    }
    if (rc == 0 && filtered)
        hw_config_warn(r->c,
                       "data source '%.60s': producer and machine filters are not looked at; "
                       "there is one producer here",
                       s->name ? s->name : "");
    return broken(r, rc, "data_sources", 0);
}

static int read_trigger(struct hw_config_reading *r, struct hw_bytes message)
{
    struct hw_pb_reader in = hw_pb_read(message);
    struct hw_pb_field f;
    char *name = NULL;
    int rc = hw_config_take_string(hw_bytes_of("", 0), &name, r->err);
    while (rc >= 0 && (rc = hw_pb_next(&in, &f)) > 0)
        if (f.number == HW_F_TraceConfig_TriggerConfig_Trigger_name && f.wire == HW_PB_BYTES)
            rc = hw_config_take_string(f.bytes, &name, r->err);
    if (rc >= 0 && hw_vec_push(&r->trigger_names, name) < 0)
        rc = hw_fail(r->err, HW_ENOMEM, 0, "configuration");
    if (rc < 0)
        free(name);
    return rc < 0 ? rc : HW_OK;
}

static int read_triggers(struct hw_config_reading *r, struct hw_bytes message)
{
    struct hw_pb_reader in = hw_pb_read(message);
    struct hw_pb_field f;
    int rc;
    r->has_triggers = true;
    while ((rc = hw_pb_next(&in, &f)) > 0) {
        if (f.number == HW_F_TraceConfig_TriggerConfig_trigger_mode && f.wire == HW_PB_VARINT)
            r->trigger_mode = hw_config_u32(f.value);
        else if (f.number == HW_F_TraceConfig_TriggerConfig_trigger_timeout_ms &&
                 f.wire == HW_PB_VARINT)
            r->trigger_timeout_ms = hw_config_u32(f.value);
        else if (f.number == HW_F_TraceConfig_TriggerConfig_triggers && f.wire == HW_PB_BYTES)
            rc = read_trigger(r, f.bytes);
        if (rc < 0)
            break;
    }
    return broken(r, rc, "trigger_config", 0);
}

static int read_zstd(struct hw_config_reading *r, struct hw_bytes message)
{
    static const struct hw_config_number level = HW_CONFIG_NUMBER(
        HW_F_TraceConfig_Compression_Zstd_level, struct hw_trace_config, zstd_level);
    return broken(r, hw_config_read_numbers(message, &level, 1, r->c), "compression.zstd", 0);
}

/* `compression` names its algorithm by which of two submessages is present. */
static int read_compression(struct hw_config_reading *r, struct hw_bytes message)
{
    struct hw_pb_reader in = hw_pb_read(message);
    struct hw_pb_field f;
    int rc;
    while ((rc = hw_pb_next(&in, &f)) > 0) {
        if (f.wire != HW_PB_BYTES)
            continue;
        bool zstd = f.number == HW_F_TraceConfig_Compression_zstd;
        if (zstd && !hw_zstd_is_here())
            hw_config_warn(r->c, "compression: this build has no zstd; deflate is used");
        if (zstd || f.number == HW_F_TraceConfig_Compression_deflate)
            r->c->compression = zstd && hw_zstd_is_here() ? 2 : 1;
        if (zstd && (rc = read_zstd(r, f.bytes)) < 0)
            return rc;
    }
    return broken(r, rc, "compression", 0);
}

/* The one field the trace writer does not read itself: how often to snapshot clocks. */
static int read_builtin(struct hw_config_reading *r, struct hw_bytes message)
{
#define ROW(name, member)                                                                          \
    HW_CONFIG_NUMBER(HW_F_TraceConfig_BuiltinDataSource_##name, struct hw_trace_config, member)
    static const struct hw_config_number numbers[] = {
        ROW(snapshot_interval_ms, clock_interval_ms),
        ROW(disable_clock_snapshotting, no_clocks),
    };
#undef ROW
    int rc = hw_config_read_numbers(message, numbers, HW_ARRAY_LEN(numbers), r->c);
    return broken(r, rc, "builtin_data_sources", 0);
}

static int read_overrides(struct hw_config_reading *r, struct hw_bytes message)
{
    static const struct hw_config_number size =
        HW_CONFIG_NUMBER(HW_F_TraceConfig_GuardrailOverrides_max_tracing_buffer_size_kb,
                         struct hw_config_reading, max_buffer_kb);
    return broken(r, hw_config_read_numbers(message, &size, 1, r), "guardrail_overrides", 0);
}

static int read_semaphore(struct hw_config_reading *r, struct hw_bytes message)
{
    struct hw_session_semaphore one = {0};
    struct hw_pb_reader in = hw_pb_read(message);
    struct hw_pb_field f;
    int rc;
    if (r->c->semaphores.n >= MAX_SEMAPHORES)
        return hw_fail(r->err, HW_EINVAL, 0, "more than %d session_semaphores", MAX_SEMAPHORES);
    while ((rc = hw_pb_next(&in, &f)) > 0) {
        if (f.number == HW_F_TraceConfig_SessionSemaphore_name && f.wire == HW_PB_BYTES)
            rc = hw_config_take_string(f.bytes, &one.name, r->err);
        else if (f.number == HW_F_TraceConfig_SessionSemaphore_max_other_session_count &&
                 f.wire == HW_PB_VARINT)
            one.max_others = f.value;
        if (rc < 0)
            break;
    }
    if (rc == 0 && hw_vec_push(&r->c->semaphores, one) == 0)
        return HW_OK;
    free(one.name);
    return rc < 0 ? broken(r, rc, "session_semaphores", 0)
                  : hw_fail(r->err, HW_ENOMEM, 0, "configuration");
}

/* ---- the message ---- */

#define F(name) HW_F_TraceConfig_##name

/* Each is mentioned once; none changes what is recorded. */
static const struct {
    uint32_t number;
    const char *text;
} without_effect[] = {
    {F(lockdown_mode), "lockdown_mode has no effect: only programs of your own are recorded"},
    {F(producers), "producers has no effect: the buffer's size is shmem_size_bytes"},
    {F(statsd_metadata), "statsd_metadata has no effect on Linux"},
    {F(notify_traceur), "notify_traceur has no effect on Linux"},
    {F(activate_triggers), "activate_triggers: there are no trigger sessions here"},
    {F(deferred_start), "deferred_start: the recording starts at once"},
    {F(incremental_state_config), "incremental_state_config has no effect: nothing is ever dropped "
                                  "from the file"},
    {F(incident_report_config), "incident_report_config has no effect on Linux"},
    {F(statsd_logging), "statsd_logging has no effect on Linux"},
    {F(android_report_config), "android_report_config has no effect on Linux"},
    {F(priority_boost), "priority_boost has no effect"},
    {F(exclusive_prio), "exclusive_prio has no effect: sessions do not push each other out"},
    {F(trace_all_machines), "trace_all_machines has no effect: there is one machine"},
};

static void warn_without_effect(struct hw_config_reading *r, const struct hw_pb_field *f,
                                uint64_t *said)
{
    if (f->wire == HW_PB_VARINT && f->value == 0)
        return;
    for (size_t i = 0; i < HW_ARRAY_LEN(without_effect); i++)
        if (without_effect[i].number == f->number && !(*said & 1ull << i)) {
            *said |= 1ull << i;
            hw_config_warn(r->c, "%s", without_effect[i].text);
        }
}

static int read_bytes_field(struct hw_config_reading *r, const struct hw_pb_field *f)
{
    switch (f->number) {
    case F(buffers):
        return read_buffer(r, f->bytes);
    case F(data_sources):
        return read_source(r, f->bytes);
    case F(trigger_config):
        return read_triggers(r, f->bytes);
    case F(builtin_data_sources):
        return read_builtin(r, f->bytes);
    case F(compression):
        return read_compression(r, f->bytes);
    case F(guardrail_overrides):
        return read_overrides(r, f->bytes);
    case F(session_semaphores):
        return read_semaphore(r, f->bytes);
    case F(unique_session_name):
        return hw_config_take_string(f->bytes, &r->c->unique_session_name, r->err);
    case F(output_path):
        return hw_config_take_string(f->bytes, &r->c->output_path, r->err);
    case F(trace_filter):
        return hw_fail(r->err, HW_EINVAL, 0,
                       "trace_filter cannot be obeyed here: more would be recorded than it lets "
                       "through");
    default:
        return HW_OK;
    }
}

static void read_number_field(struct hw_config_reading *r, const struct hw_pb_field *f)
{
#define ROW(name, member) HW_CONFIG_NUMBER(F(name), struct hw_trace_config, member)
    static const struct hw_config_number numbers[] = {
        ROW(duration_ms, duration_ms),
        ROW(write_into_file, write_into_file),
        ROW(file_write_period_ms, file_write_period_ms),
        ROW(max_file_size_bytes, max_file_size_bytes),
        ROW(flush_period_ms, flush_period_ms),
        ROW(flush_timeout_ms, flush_timeout_ms),
        ROW(data_source_stop_timeout_ms, stop_timeout_ms),
        ROW(trace_uuid_msb, uuid_msb),
        ROW(trace_uuid_lsb, uuid_lsb),
    };
#undef ROW
    hw_config_take_number(numbers, HW_ARRAY_LEN(numbers), f, r->c);
    if (f->number == F(enable_extra_guardrails))
        r->guardrails = f->value != 0;
    if (f->number == F(compression_type) && f->value == 1 && !r->c->compression)
        r->c->compression = 1; /* the newer field wins */
}

static int read_fields(struct hw_config_reading *r, struct hw_bytes binary)
{
    struct hw_pb_reader in = hw_pb_read(binary);
    struct hw_pb_field f = {0};
    uint64_t said = 0;
    int rc;
    while ((rc = hw_pb_next(&in, &f)) > 0) {
        warn_without_effect(r, &f, &said);
        rc = HW_OK;
        if (f.wire == HW_PB_BYTES)
            rc = read_bytes_field(r, &f);
        else if (f.wire == HW_PB_VARINT)
            read_number_field(r, &f);
        if (rc < 0)
            return rc;
    }
    return broken(r, rc, "the configuration", f.offset);
}

int hw_config_read(struct hw_bytes binary, struct hw_trace_config *out, struct hw_error *err)
{
    struct hw_trace_config c = {0};
    struct hw_config_reading r = {.c = &c, .err = err};
    int rc = read_fields(&r, binary);
    if (rc == 0)
        rc = hw_config_check(&r);
    reading_done(&r);
    if (rc < 0) {
        hw_trace_config_done(&c);
        return rc;
    }
    *out = c;
    return HW_OK;
}

void hw_trace_config_done(struct hw_trace_config *c)
{
    for (size_t i = 0; i < c->heapprofd.n; i++)
        hw_heapprofd_config_done(&c->heapprofd.v[i]);
    hw_vec_done(&c->heapprofd);
    for (size_t i = 0; i < c->java.n; i++)
        hw_java_config_done(&c->java.v[i]);
    hw_vec_done(&c->java);
    free(c->output_path);
    free(c->unique_session_name);
    for (size_t i = 0; i < c->semaphores.n; i++)
        free(c->semaphores.v[i].name);
    hw_vec_done(&c->semaphores);
    hw_strbuf_done(&c->warnings);
    *c = (struct hw_trace_config){0};
}

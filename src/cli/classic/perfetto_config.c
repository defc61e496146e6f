/*
 * The configuration of a perfetto recording: a file, text or binary, or the short form `-t TIME -b
 * SIZE -s SIZE -a APP CATEGORY...`, which means a configuration of ftrace events. The service has
 * no ftrace and says so; processes, their memory and the system are recorded.
 */
#include "cli/classic/perfetto_command.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "cli/cli.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "schema/schema.h"

#include "base/banned.h"

enum { MAX_CONFIG = 16 << 20 };

static const char test_config[] = "buffers { size_kb: 1024 }\n"
                                  "data_sources { config { name: \"linux.system_info\" } }\n"
                                  "duration_ms: 2000\n";

/* ---- a file ---- */

static int read_source(const char *name, char **text, size_t *n, struct hw_error *err)
{
    if (strcmp(name, ":test") == 0) {
        *text = strdup(test_config);
        *n = sizeof test_config - 1;
        return *text ? HW_OK : hw_fail(err, HW_ENOMEM, 0, "configuration");
    }
    if (strcmp(name, "-") == 0)
        return hw_fd_read_file(STDIN_FILENO, MAX_CONFIG, text, n, err);
    return hw_file_read(AT_FDCWD, name, MAX_CONFIG, text, n, err);
}

/* A binary TraceConfig has at least one field that the schema knows; no text does. */
static bool looks_like_config(struct hw_bytes binary)
{
    const struct hw_schema_message *m = hw_schema_message_find("TraceConfig");
    struct hw_pb_reader r = hw_pb_read(binary);
    struct hw_pb_field f;
    struct hw_strbuf text = {0};
    bool known = false;
    while (hw_pb_next(&r, &f) > 0)
        known |= m && hw_schema_field_by_number(m, f.number) != NULL;
    bool whole = hw_config_binary_to_text(binary, &text, NULL) == 0;
    hw_strbuf_done(&text);
    return known && whole;
}

static bool looks_like_text(struct hw_bytes b)
{
    for (size_t i = 0; i < b.n; i++)
        if (b.p[i] < 0x20 && !(b.p[i] >= '\t' && b.p[i] <= '\r'))
            return false;
    return true;
}

static int to_binary(struct hw_perfetto *p, const char *name, struct hw_bytes raw)
{
    const struct hw_opts *o = &p->cli->opts;
    struct hw_error err = {0};
    bool lossy = hw_opt_flag(o, HW_OPT_TXT_LOSSY);
    if (hw_opt_flag(o, HW_OPT_TXT) || lossy || strcmp(name, ":test") == 0) {
        if (hw_config_text_to_binary(name, raw, lossy, &p->config, &err) == 0)
            return HW_EXIT_OK;
        fprintf(stderr, "%s\n", err.text);
        return HW_EXIT_FAILED;
    }
    if (raw.n && !looks_like_config(raw)) {
        fprintf(stderr, "The trace config is invalid, bailing out.\n");
        if (looks_like_text(raw))
            hw_cli_hint("it looks like text: add --txt");
        return HW_EXIT_FAILED;
    }
    hw_strbuf_add(&p->config, raw.p, raw.n);
    return HW_EXIT_OK;
}

/* Takes over the message; returns an exit code. */
static int append(struct hw_perfetto *p, struct hw_pb *w)
{
    hw_strbuf_add(&p->config, w->buf.p, w->buf.n);
    bool failed = hw_pb_failed(w) || p->config.failed;
    hw_pb_done(w);
    if (failed)
        hw_cli_error(p->cli, NULL, "out of memory");
    return failed ? HW_EXIT_FAILED : HW_EXIT_OK;
}

/* Moves the file's attributes into w; the rest of the configuration remains. */
static void take_attributes(struct hw_strbuf *config, struct hw_pb *w)
{
    struct hw_pb_reader r = hw_pb_read(hw_bytes_of(config->p, config->n));
    struct hw_pb_field f;
    struct hw_strbuf rest = {0};
    const uint8_t *from = r.pos;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_TraceConfig_trace_attributes && f.wire == HW_PB_BYTES)
            hw_strbuf_add(&w->buf, f.bytes.p, f.bytes.n);
        else
            hw_strbuf_add(&rest, from, (size_t)(r.pos - from));
        from = r.pos;
    }
    hw_strbuf_add(&rest, from, (size_t)(r.end - from));
    rest.failed |= config->failed;
    hw_strbuf_done(config);
    *config = rest;
}

/* The field is not repeated: those of the file and of the options become one message. */
static int add_attributes(struct hw_perfetto *p)
{
    const struct hw_optval *v = &p->cli->opts.v[HW_OPT_ADD_ATTRIBUTE];
    struct hw_pb w = {0};
    if (v->list.n == 0)
        return HW_EXIT_OK;
    hw_pb_begin(&w, HW_F_TraceConfig_trace_attributes);
    take_attributes(&p->config, &w);
    for (size_t i = 0; i < v->list.n; i++) {
        const char *text = v->list.v[i];
        size_t key = strcspn(text, "=");
        hw_pb_begin(&w, HW_F_TraceAttributes_attribute);
        hw_pb_bytes(&w, HW_F_TraceAttributes_Attribute_key, text, key);
        hw_pb_str(&w, HW_F_TraceAttributes_Attribute_string_value, text[key] ? text + key + 1 : "");
        hw_pb_end(&w);
    }
    hw_pb_end(&w);
    return append(p, &w);
}

static int from_file(struct hw_perfetto *p, const char *name)
{
    struct hw_error err = {0};
    hw_autofree char *text = NULL;
    size_t n = 0;
    if (read_source(name, &text, &n, &err) < 0)
        return hw_cli_fail(p->cli, &err);
    int status = to_binary(p, name, hw_bytes_of(text, n));
    if (status == HW_EXIT_OK && p->config.n == 0) {
        fprintf(stderr, "The TraceConfig is empty\n");
        return HW_EXIT_FAILED;
    }
    return status;
}

/* ---- the short form ---- */

static const enum hw_option_id short_options[] = {HW_OPT_SHORT_TIME, HW_OPT_SHORT_BUFFER,
                                                  HW_OPT_SHORT_SIZE, HW_OPT_SHORT_APP};

static bool is_short_form(const struct hw_opts *o)
{
    bool any = o->n_args > 0;
    for (size_t i = 0; i < HW_ARRAY_LEN(short_options); i++)
        any |= o->v[short_options[i]].set;
    return any;
}

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit time_units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
static const struct unit size_units[] = {{"kb", 1}, {"mb", 1024}, {"gb", 1024 * 1024}};

/* A number and a mandatory unit: in this form a bare 10 means nothing. */
static bool read_amount(const struct hw_perfetto *p, enum hw_option_id id, const struct unit *units,
                        size_t n, uint64_t *out)
{
    const char *text = hw_opt_text(&p->cli->opts, id);
    char digits[24];
    size_t len = strspn(text, "0123456789");
    (void)snprintf(digits, sizeof digits, "%.*s", (int)len, text); /* longer ones would overflow */
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(text + len, units[i].name) == 0 && hw_parse_uint(digits, out, NULL) == 0 &&
            !__builtin_mul_overflow(*out, units[i].factor, out) && *out <= UINT32_MAX)
            return true;
    hw_cli_error(p->cli, NULL, "--%s: '%s' is not a number with a unit (%s)", hw_options[id].name,
                 text, units == time_units ? "ms, s, m, h" : "kb, mb, gb");
    return false;
}

/* `sched/sched_switch` is an event of ftrace, `sched` a category of atrace. */
static void put_ftrace(struct hw_pb *w, const struct hw_opts *o)
{
    hw_pb_begin(w, HW_F_TraceConfig_data_sources);
    hw_pb_begin(w, HW_F_TraceConfig_DataSource_config);
    hw_pb_str(w, HW_F_DataSourceConfig_name, "linux.ftrace");
    hw_pb_begin(w, HW_F_DataSourceConfig_ftrace_config);
    for (size_t i = 0; i < o->n_args; i++)
        hw_pb_str(w,
                  strchr(o->args[i], '/') ? HW_F_FtraceConfig_ftrace_events
                                          : HW_F_FtraceConfig_atrace_categories,
                  o->args[i]);
    for (size_t i = 0; i < o->v[HW_OPT_SHORT_APP].list.n; i++)
        hw_pb_str(w, HW_F_FtraceConfig_atrace_apps, o->v[HW_OPT_SHORT_APP].list.v[i]);
    hw_pb_end(w);
    hw_pb_end(w);
    hw_pb_end(w);
}

static void put_source(struct hw_pb *w, const char *name)
{
    hw_pb_begin(w, HW_F_TraceConfig_data_sources);
    hw_pb_begin(w, HW_F_TraceConfig_DataSource_config);
    hw_pb_str(w, HW_F_DataSourceConfig_name, name);
    if (strcmp(name, "linux.process_stats") == 0) {
        hw_pb_begin(w, HW_F_DataSourceConfig_process_stats_config);
        hw_pb_uint(w, HW_F_ProcessStatsConfig_scan_all_processes_on_start, 1);
        hw_pb_end(w);
    }
    hw_pb_end(w);
    hw_pb_end(w);
}

static int from_options(struct hw_perfetto *p)
{
    const struct hw_opts *o = &p->cli->opts;
    uint64_t ms, buffer_kb, file_kb = 0;
    if (!read_amount(p, HW_OPT_SHORT_TIME, time_units, HW_ARRAY_LEN(time_units), &ms) ||
        !read_amount(p, HW_OPT_SHORT_BUFFER, size_units, HW_ARRAY_LEN(size_units), &buffer_kb) ||
        (o->v[HW_OPT_SHORT_SIZE].set &&
         !read_amount(p, HW_OPT_SHORT_SIZE, size_units, HW_ARRAY_LEN(size_units), &file_kb)))
        return HW_EXIT_FAILED;
    struct hw_pb w = {0};
    hw_pb_begin(&w, HW_F_TraceConfig_buffers);
    hw_pb_uint(&w, HW_F_TraceConfig_BufferConfig_size_kb, buffer_kb);
    hw_pb_end(&w);
    if (o->n_args || o->v[HW_OPT_SHORT_APP].set)
        put_ftrace(&w, o);
    put_source(&w, "linux.process_stats");
    put_source(&w, "linux.system_info");
    hw_pb_uint(&w, HW_F_TraceConfig_duration_ms, ms);
    if (file_kb) {
        hw_pb_uint(&w, HW_F_TraceConfig_write_into_file, 1);
        hw_pb_uint(&w, HW_F_TraceConfig_max_file_size_bytes, file_kb * 1024);
    }
    return append(p, &w);
}

int hw_perfetto_load_config(struct hw_perfetto *p)
{
    const char *name = hw_opt_text(&p->cli->opts, HW_OPT_CONFIG_FILE);
    struct hw_error err = {0};
    bool short_form = is_short_form(&p->cli->opts);
    if (name && short_form) {
        hw_cli_error(p->cli, NULL,
                     "-c and the short form (-t, -b, -s, -a, categories) exclude "
                     "each other");
        return HW_EXIT_FAILED;
    }
    if (!name && !short_form) {
        hw_cli_error(p->cli, NULL, "no configuration: -c FILE, or -c - for standard input");
        return HW_EXIT_FAILED;
    }
    int status = name ? from_file(p, name) : from_options(p);
    if (status == HW_EXIT_OK)
        status = add_attributes(p);
    if (status != HW_EXIT_OK)
        return status;
    if (hw_config_read(hw_bytes_of(p->config.p, p->config.n), &p->checked, &err) < 0) {
        hw_cli_error(p->cli, NULL, "the configuration is refused: %s", err.text);
        return HW_EXIT_FAILED;
    }
    p->is_checked = true; /* its warnings come from the service */
    return HW_EXIT_OK;
}

/* cmd_trace_start_delay: a random pause, so that many machines do not start at once. */
void hw_perfetto_delay_start(const struct hw_perfetto *p)
{
    struct hw_pb_reader r = hw_pb_read(hw_bytes_of(p->config.p, p->config.n));
    struct hw_pb_field f, g;
    uint64_t low = 0, high = 0, random = 0;
    while (hw_pb_next(&r, &f) > 0) {
        if (f.number != HW_F_TraceConfig_cmd_trace_start_delay || f.wire != HW_PB_BYTES)
            continue;
        struct hw_pb_reader inner = hw_pb_read(f.bytes);
        while (hw_pb_next(&inner, &g) > 0) {
            if (g.number == HW_F_TraceConfig_CmdTraceStartDelay_min_delay_ms)
                low = (uint32_t)g.value;
            else if (g.number == HW_F_TraceConfig_CmdTraceStartDelay_max_delay_ms)
                high = (uint32_t)g.value;
        }
    }
    if (high < low)
        high = low;
    if (high == 0 || getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return;
    uint64_t ms = low + random % (high - low + 1);
    struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL); /* a signal only cuts it short */
}

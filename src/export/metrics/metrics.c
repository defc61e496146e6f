/* The list of metrics, and their three output forms. */
#include "export/metrics/metrics.h"

#include <string.h>

#include "base/error.h"
#include "export/metrics/metric_list.h"
#include "schema/fields.h"
#include "schema/print.h"
#include "schema/schema.h"

#include "base/banned.h"

static const struct metric {
    const char *name;
    uint32_t field; /* of TraceMetrics */
    int (*write)(const struct hw_profile *p, struct hw_pb *out);
} metrics[] = {
#define X(name) {#name, HW_F_TraceMetrics_##name, hw_metric_##name},
    HW_METRICS(X)
#undef X
};

bool hw_metrics_format_parse(const char *word, enum hw_metrics_format *out)
{
    static const char *const words[] = {"binary", "text", "json"};
    for (size_t i = 0; i < HW_ARRAY_LEN(words); i++)
        if (strcmp(words[i], word) == 0) {
            *out = (enum hw_metrics_format)i;
            return true;
        }
    return false;
}

void hw_metric_put_str(struct hw_pb *out, uint32_t field, const struct hw_profile *p, hw_str_id str)
{
    struct hw_bytes b = hw_strings_get(hw_callsites_strings(p->callsites), str);
    if (b.n)
        hw_pb_bytes(out, field, b.p, b.n);
}

/* ---- processes ---- */

enum { USER_RANGE = 100000 }; /* uid = user * USER_RANGE + app */

static bool starts_with(struct hw_bytes text, struct hw_bytes with)
{
    return text.n >= with.n && memcmp(text.p, with.p, with.n) == 0;
}

/* The kernel truncates names to 15 characters: takes the command line instead if it matches. */
static hw_str_id full_name(const struct hw_profile *p, const struct hw_process *process)
{
    enum { CUT = 15 };
    static const char *const forks[] = {"zygote", "zygote64", "<pre-initialized>"};
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    struct hw_bytes name = hw_strings_get(strings, process->name);
    struct hw_bytes cmdline = hw_strings_get(strings, process->cmdline);
    if (name.n != CUT)
        return process->name;
    bool belongs = cmdline.n >= CUT && memcmp(hw_bytes_end(cmdline) - CUT, name.p, CUT) == 0;
    for (size_t i = 0; i < HW_ARRAY_LEN(forks); i++)
        belongs |= hw_bytes_equal(cmdline, hw_bytes_str(forks[i]));
    return belongs ? process->cmdline : process->name;
}

static bool is_kernel_task(const struct hw_profile *p, const struct hw_process *process)
{
    uint64_t parent;
    if (process->pid == 0 || process->ppid == 0)
        return true;
    if (process->ppid < 0 || !hw_map64_get(&p->process_by_pid, (uint64_t)process->ppid, &parent))
        return false;
    return hw_bytes_equal(
        hw_strings_get(hw_callsites_strings(p->callsites), p->processes.v[parent].name),
        hw_bytes_str("kthreadd"));
}

/* The uid an app is installed under; its cache and shared groups have other ids. -1 = isolated. */
static int64_t base_app(int64_t uid)
{
    enum { OWN_END = 20000, CACHE_END = 30000, SHARED_END = 40000, ISOLATED = 90000, STEP = 10000 };
    int64_t app = uid % USER_RANGE;
    if (app >= OWN_END && app < CACHE_END)
        return app - STEP;
    if (app >= CACHE_END && app < SHARED_END)
        return app - 2 * STEP;
    return app >= ISOLATED ? -1 : app;
}

/* Isolated processes are matched by name only, others by uid, and also by name if several packages
 * share the uid. */
static bool is_package_of(const struct hw_profile *p, const struct hw_package_row *row,
                          struct hw_bytes name, int64_t app, size_t n_of_app)
{
    struct hw_bytes package = hw_strings_get(hw_callsites_strings(p->callsites), row->name);
    if (app >= 0)
        return row->uid == app && (n_of_app == 1 || starts_with(name, package));
    const uint8_t *colon = name.n ? memchr(name.p, ':', name.n) : NULL;
    if (colon)
        name.n = (size_t)(colon - name.p);
    return starts_with(name, package);
}

static const struct hw_package_row *package_of(const struct hw_profile *p,
                                               const struct hw_process *process)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    const struct hw_package_row *best = NULL;
    int64_t app = process->uid < 0 ? 0 : base_app(process->uid);
    struct hw_bytes name = hw_strings_get(strings, full_name(p, process));
    size_t n_of_app = 0, longest = 0;
    for (size_t i = 0; i < p->packages.n; i++)
        n_of_app += p->packages.v[i].uid == app;
    for (size_t i = 0; process->uid >= 0 && i < p->packages.n; i++) {
        const struct hw_package_row *row = &p->packages.v[i];
        size_t n = hw_strings_get(strings, row->name).n;
        if (n > longest && is_package_of(p, row, name, app, n_of_app)) {
            best = row;
            longest = n;
        }
    }
    return best;
}

static void put_package(const struct hw_profile *p, const struct hw_process *process,
                        struct hw_pb *out)
{
    const struct hw_package_row *row = package_of(p, process);
    if (!row)
        return;
    hw_pb_begin(out, HW_F_AndroidProcessMetadata_package);
    hw_metric_put_str(out, HW_F_AndroidProcessMetadata_Package_package_name, p, row->name);
    hw_pb_sint64(out, HW_F_AndroidProcessMetadata_Package_apk_version_code, row->version_code);
    hw_pb_uint(out, HW_F_AndroidProcessMetadata_Package_debuggable, row->debuggable);
    hw_pb_end(out);
}

static void put_user_type(const struct hw_profile *p, int64_t uid, struct hw_pb *out)
{
    uint64_t row;
    int64_t user = uid / USER_RANGE;
    if (uid >= 0 && user <= INT32_MAX && hw_map64_get(&p->user_by_id, (uint32_t)user, &row) &&
        p->users.v[row].type.v)
        hw_metric_put_str(out, HW_F_AndroidProcessMetadata_android_user_type, p,
                          p->users.v[row].type);
}

void hw_metric_put_process(struct hw_pb *out, uint32_t field, const struct hw_profile *p,
                           hw_upid upid)
{
    const struct hw_process *process = &p->processes.v[upid.v];
    hw_pb_begin(out, field);
    hw_metric_put_str(out, HW_F_AndroidProcessMetadata_name, p, full_name(p, process));
    if (process->uid >= 0)
        hw_pb_sint64(out, HW_F_AndroidProcessMetadata_uid, process->uid % USER_RANGE);
    put_package(p, process, out);
    hw_pb_sint64(out, HW_F_AndroidProcessMetadata_pid, process->pid);
    if (process->uid >= 0)
        hw_pb_sint64(out, HW_F_AndroidProcessMetadata_android_user_id, process->uid / USER_RANGE);
    hw_pb_uint(out, HW_F_AndroidProcessMetadata_is_kernel_task, is_kernel_task(p, process));
    put_user_type(p, process->uid, out);
    hw_pb_end(out);
}

static const struct metric *find(const char *name)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(metrics); i++)
        if (strcmp(metrics[i].name, name) == 0)
            return &metrics[i];
    return NULL;
}

static int fail_unknown(const char *name, struct hw_error *err)
{
    struct hw_strbuf known = {0};
    for (size_t i = 0; i < HW_ARRAY_LEN(metrics); i++)
        hw_strbuf_addf(&known, "%s%s", i ? ", " : "", metrics[i].name);
    int rc = hw_fail(err, HW_ENOTFOUND, 0, "unknown metric '%.100s'; there are: %s", name,
                     known.failed ? "" : known.p);
    hw_strbuf_done(&known);
    return rc;
}

static bool is_repeated(const char *const *names, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(names[k], names[i]) == 0)
            return true;
    return false;
}

static int convert(struct hw_bytes message, enum hw_metrics_format format, struct hw_strbuf *out,
                   struct hw_error *err)
{
    const struct hw_schema_message *m = hw_schema_message_find("TraceMetrics");
    switch (format) {
    case HW_METRICS_BINARY:
        hw_strbuf_add(out, message.p, message.n);
        return out->failed ? hw_fail(err, HW_ENOMEM, 0, "metrics") : HW_OK;
    case HW_METRICS_TEXT:
        return hw_schema_print(m, message, /* indent = */ 0, out, NULL, err);
    case HW_METRICS_JSON:
        return hw_schema_print_json(m, message, out, err);
    }
    return HW_EINVAL;
}

int hw_metrics_run(const struct hw_profile *p, const char *const *names, size_t n_names,
                   enum hw_metrics_format format, struct hw_strbuf *out, struct hw_error *err)
{
    struct hw_pb message = {0};
    struct hw_strbuf text = {0};
    int rc = HW_OK;
    for (size_t i = 0; i < n_names && rc == HW_OK; i++)
        if (!find(names[i]))
            rc = fail_unknown(names[i], err);
    for (size_t i = 0; i < n_names && rc == HW_OK; i++) {
        const struct metric *m = find(names[i]);
        if (is_repeated(names, i))
            continue;
        hw_pb_begin(&message, m->field);
        rc = m->write(p, &message);
        hw_pb_end(&message);
        if (rc < 0 || hw_pb_failed(&message))
            rc = hw_fail(err, rc < 0 ? rc : HW_ENOMEM, 0, "metric '%s'", m->name);
    }
    if (rc == HW_OK)
        rc = convert(hw_pb_view(&message), format, &text, err);
    if (rc == HW_OK)
        hw_strbuf_add(out, text.p, text.n);
    if (rc == HW_OK && out->failed)
        rc = hw_fail(err, HW_ENOMEM, 0, "metrics");
    hw_pb_done(&message);
    hw_strbuf_done(&text);
    return rc;
}

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

void hw_metric_put_process(struct hw_pb *out, uint32_t field, const struct hw_profile *p,
                           hw_upid upid)
{
    const struct hw_process *process = &p->processes.v[upid.v];
    hw_pb_begin(out, field);
    hw_metric_put_str(out, HW_F_AndroidProcessMetadata_name, p, process->name);
    if (process->uid >= 0)
        hw_pb_sint64(out, HW_F_AndroidProcessMetadata_uid, process->uid);
    hw_pb_sint64(out, HW_F_AndroidProcessMetadata_pid, process->pid);
    hw_pb_end(out);
}

static const struct metric *find(const char *name)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(metrics); i++)
        if (strcmp(metrics[i].name, name) == 0)
            return &metrics[i];
    return NULL;
}

static int no_such(const char *name, struct hw_error *err)
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

static int shape(struct hw_bytes message, enum hw_metrics_format format, struct hw_strbuf *out,
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
            rc = no_such(names[i], err);
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
        rc = shape(hw_pb_view(&message), format, &text, err);
    if (rc == HW_OK)
        hw_strbuf_add(out, text.p, text.n);
    if (rc == HW_OK && out->failed)
        rc = hw_fail(err, HW_ENOMEM, 0, "metrics");
    hw_pb_done(&message);
    hw_strbuf_done(&text);
    return rc;
}

#include "export/figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/banned.h"

static int scaled(char *out, double v, double step, const char *const *units, size_t n)
{
    size_t u = 0;
    while (u + 1 < n && fabs(v) >= step * 0.99995) {
        v /= step;
        u++;
    }
    return snprintf(out, 32, "%.*f%s%s",
                    u == 0            ? 0
                    : fabs(v) < 9.995 ? 2
                                      : 1,
                    v, units[u][0] ? " " : "", units[u]);
}

void hw_json_put_errors(struct hw_json *j, const struct hw_value *v, uint64_t interval_bytes)
{
    char key[32];
    for (int m = 0; m < (int)hw_value_metrics(v); m++) {
        (void)snprintf(key, sizeof key, "%s_error", hw_metric_name((enum hw_metric)m));
        hw_json_kv_double(j, key, hw_figure_error(v, (enum hw_metric)m, interval_bytes));
    }
}

void hw_figure_with_error(char out[HW_FIGURE_MAX], const struct hw_value *v, enum hw_metric m,
                          uint64_t interval_bytes)
{
    static const char *const bytes[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    static const char *const counts[] = {"", "k", "M", "G", "T", "P", "E"};
    double x = (double)hw_value_get(v, m), error = hw_figure_error(v, m, interval_bytes);
    bool is_bytes = hw_metric_is_bytes(m);
    int n = scaled(out, x, is_bytes ? 1024 : 1000, is_bytes ? bytes : counts, 7);
    if (error > 0 && x > 0 && n > 0 && !isfinite(error))
        (void)snprintf(out + n, HW_FIGURE_MAX - (size_t)n, ", error unknown");
    else if (error > 0 && x > 0 && n > 0)
        (void)snprintf(out + n, HW_FIGURE_MAX - (size_t)n, " \xc2\xb1%.*f%%",
                       error / x < 0.0995 ? 1 : 0, 100 * error / x);
}

void hw_export_title(const struct hw_export_input *in, struct hw_strbuf *out)
{
    char figure[HW_FIGURE_MAX];
    struct hw_value total = {0};
    for (size_t i = 0; i < in->values->n; i++) {
        struct hw_value v = hw_export_value(in, &in->values->v[i].v);
        hw_value_add(&total, &v);
    }
    if (in->upid.v < in->profile->processes.n) {
        const struct hw_process *p = &in->profile->processes.v[in->upid.v];
        struct hw_bytes name = hw_module_base(in->profile->callsites, p->name);
        hw_strbuf_add(out, name.p, name.n);
        hw_strbuf_addf(out, "%s(%lld): ", name.n ? " " : "", (long long)p->pid);
    }
    hw_figure_with_error(figure, &total, in->metric, in->interval_bytes);
    hw_strbuf_addf(out, "%s, %s", hw_metric_name(in->metric), figure);
}

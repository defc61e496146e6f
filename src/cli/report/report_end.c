#include "cli/report/report_end.h"

#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include "base/text/json_out.h"
#include "cli/report/report_data.h"
#include "config/command/units.h"
#include "views/time/process_view.h"

#include "base/banned.h"

enum { NEAR = 90 }; /* percent */

static bool figure(const struct hw_report_data *d, const char *counter, double *out, int64_t *at_ns)
{
    return hw_process_counter(d->p, d->upid, counter, INT64_MAX, out, at_ns);
}

/* As wait() gives it; a trace may say anything. */
static bool find_status(const struct hw_report_data *d, int *out)
{
    double v;
    if (!figure(d, "exit.status", &v, NULL) || v < 0 || v > 0xffff || v != floor(v))
        return false;
    *out = (int)v;
    return WIFSIGNALED(*out) || WIFEXITED(*out);
}

static bool find_group(const struct hw_report_data *d, double *current, double *limit)
{
    int64_t read_ns, at_ns;
    return figure(d, "cgroup.current", current, &read_ns) &&
           figure(d, "cgroup.limit", limit, &at_ns) && read_ns == at_ns && *limit > 0;
}

static void put_status(int status, FILE *out)
{
    if (WIFEXITED(status)) {
        fprintf(out, "exited with status %d", WEXITSTATUS(status));
        return;
    }
    const char *name = sigabbrev_np(WTERMSIG(status));
    if (name)
        fprintf(out, "killed by SIG%s", name);
    else
        fprintf(out, "killed by signal %d", WTERMSIG(status));
}

void hw_report_end_text(const struct hw_report_data *d, FILE *out)
{
    double current, limit;
    int status = 0;
    bool ended_badly = find_status(d, &status) && status != 0;
    bool is_near = find_group(d, &current, &limit) && current >= limit * NEAR / 100;
    char a[HW_UNIT_MAX], b[HW_UNIT_MAX];
    if (!ended_badly && !is_near)
        return;
    if (ended_badly)
        put_status(status, out);
    if (is_near)
        fprintf(out, "%smemory group at %s of its limit %s", ended_badly ? ", " : "",
                hw_fmt_bytes(a, current), hw_fmt_bytes(b, limit));
    fputc('\n', out);
}

void hw_report_end_json(const struct hw_report_data *d, struct hw_json *j)
{
    double current, limit;
    int status;
    if (find_status(d, &status)) {
        hw_json_key(j, "exit");
        hw_json_begin_object(j);
        if (WIFSIGNALED(status))
            hw_json_kv_int(j, "signal", WTERMSIG(status));
        else
            hw_json_kv_int(j, "status", WEXITSTATUS(status));
        hw_json_end_object(j);
    }
    if (find_group(d, &current, &limit)) {
        hw_json_key(j, "memory_group");
        hw_json_begin_object(j);
        hw_json_kv_double(j, "current_bytes", current);
        hw_json_kv_double(j, "limit_bytes", limit);
        hw_json_end_object(j);
    }
}

/*
 * Checks that need the whole configuration, and defaults for what it leaves out.
 */
#include <string.h>

#include "base/error.h"
#include "config/reading.h"

#include "base/banned.h"

enum { MAX_BUFFERS = 128 };
static const uint32_t seven_days_ms = 7u * 24 * 3600 * 1000;
static const uint32_t one_day_ms = 24u * 3600 * 1000;

static int check_duration(const struct hw_config_reading *r)
{
    uint32_t max = r->guardrails ? one_day_ms : seven_days_ms;
    if (r->c->duration_ms > max)
        return hw_fail(r->err, HW_EINVAL, 0, "Requested too long trace (%ums > %ums)",
                       r->c->duration_ms, max);
    return HW_OK;
}

static int duplicate(char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++)
            if (names[i][0] && strcmp(names[i], names[k]) == 0)
                return (int)i;
    return -1;
}

static int check_buffers(const struct hw_config_reading *r)
{
    if (r->buffer_names.n > MAX_BUFFERS)
        return hw_fail(r->err, HW_EINVAL, 0, "Too many buffers configured (%zu)",
                       r->buffer_names.n);
    int twice = duplicate(r->buffer_names.v, r->buffer_names.n);
    if (twice >= 0)
        return hw_fail(r->err, HW_EINVAL, 0, "two buffers have the name '%.60s'",
                       r->buffer_names.v[twice]);
    uint64_t max_kb = r->max_buffer_kb ? r->max_buffer_kb : 128 * 1024;
    if (r->guardrails && r->total_buffer_kb > max_kb)
        return hw_fail(r->err, HW_EINVAL, 0,
                       "with enable_extra_guardrails all buffers together may have %llu KiB, not "
                       "%llu KiB",
                       (unsigned long long)max_kb, (unsigned long long)r->total_buffer_kb);
    return HW_OK;
}

static int check_target_buffer(const struct hw_config_reading *r, const struct hw_config_source *s)
{
    size_t n = r->buffer_names.n, named = 0;
    const char *name = s->name ? s->name : "";
    if (n == 0)
        return hw_fail(r->err, HW_EINVAL, 0,
                       "data source '%.60s' has no buffer: add `buffers { "
                       "size_kb: 63488 }`",
                       name);
    if (s->target_buffer >= n)
        return hw_fail(r->err, HW_EINVAL, 0,
                       "data source '%.60s': target_buffer %u is out of range (%zu buffers)", name,
                       s->target_buffer, n);
    if (!s->target_buffer_name || !s->target_buffer_name[0])
        return HW_OK;
    while (named < n && strcmp(r->buffer_names.v[named], s->target_buffer_name) != 0)
        named++;
    if (named == n)
        return hw_fail(r->err, HW_EINVAL, 0, "data source '%.60s': no buffer has the name '%.60s'",
                       name, s->target_buffer_name);
    if (s->has_target_buffer && s->target_buffer != named)
        return hw_fail(r->err, HW_EINVAL, 0,
                       "data source '%.60s': target_buffer and target_buffer_name differ", name);
    return HW_OK;
}

static int check_triggers(const struct hw_config_reading *r)
{
    enum { STOP_TRACING = 2, CLONE_SNAPSHOT = 4 };
    if (!r->has_triggers)
        return HW_OK;
    if (r->trigger_timeout_ms == 0 || r->trigger_timeout_ms > seven_days_ms)
        return hw_fail(r->err, HW_EINVAL, 0, "trigger_timeout_ms must be 1 to %u", seven_days_ms);
    if (r->c->duration_ms)
        return hw_fail(r->err, HW_EINVAL, 0, "trigger_config and duration_ms exclude each other");
    if (r->c->write_into_file &&
        (r->trigger_mode == STOP_TRACING || r->trigger_mode == CLONE_SNAPSHOT))
        return hw_fail(r->err, HW_EINVAL, 0,
                       "trigger_mode STOP_TRACING or CLONE_SNAPSHOT excludes write_into_file");
    int twice = duplicate(r->trigger_names.v, r->trigger_names.n);
    if (twice >= 0)
        return hw_fail(r->err, HW_EINVAL, 0, "two triggers have the name '%.60s'",
                       r->trigger_names.v[twice]);
    return hw_fail(r->err, HW_EINVAL, 0,
                   "trigger_config: sessions started or stopped by triggers are not supported");
}

static int accept_source(struct hw_config_reading *r, struct hw_config_source *s)
{
    struct hw_trace_config *c = r->c;
    int rc = check_target_buffer(r, s);
    if (rc < 0)
        return rc;
    const char *name = s->name ? s->name : "";
    if (strcmp(name, "android.heapprofd") == 0) {
        rc = hw_heapprofd_derive(&s->heapprofd, c, r->err);
        if (rc < 0)
            return rc;
        if (hw_vec_push(&c->heapprofd, s->heapprofd.c) < 0)
            return hw_fail(r->err, HW_ENOMEM, 0, "configuration");
        s->heapprofd.c = (struct hw_heapprofd_config){0}; /* ownership moved */
    } else if (strcmp(name, "android.java_hprof") == 0 ||
               strcmp(name, "android.java_hprof.oom") == 0) {
        s->java.only_oome = name[strlen("android.java_hprof")] != 0;
        s->java.at_oome |= s->java.only_oome;
        if (hw_vec_push(&c->java, s->java) < 0)
            return hw_fail(r->err, HW_ENOMEM, 0, "configuration");
        s->java = (struct hw_java_config){0}; /* ownership moved */
    } else if (strcmp(name, "linux.process_stats") == 0) {
        if (c->has_process_stats)
            hw_config_warn(c, "linux.process_stats is given twice: the last one counts");
        c->has_process_stats = true;
        c->process_stats = s->process_stats;
    } else if (strcmp(name, "linux.system_info") == 0) {
        c->has_system_info = true;
    } else if (strcmp(name, "android.packages_list") == 0) {
        c->has_packages_list = true;
    } else {
        hw_config_warn(c, "no data source '%.60s' here; the rest is recorded", name);
    }
    return HW_OK;
}

int hw_config_check(struct hw_config_reading *r)
{
    struct hw_trace_config *c = r->c;
    int rc = check_duration(r);
    if (rc == 0)
        rc = check_buffers(r);
    if (rc == 0)
        rc = check_triggers(r);
    for (size_t i = 0; i < r->sources.n && rc == 0; i++)
        rc = accept_source(r, &r->sources.v[i]);
    if (rc < 0)
        return rc;
    if (c->output_path && !c->write_into_file)
        return hw_fail(r->err, HW_EINVAL, 0, "output_path needs write_into_file: true");
    if (c->file_write_period_ms == 0)
        c->file_write_period_ms = 5000;
    else if (c->file_write_period_ms < 100)
        c->file_write_period_ms = 100;
    if (c->flush_timeout_ms == 0)
        c->flush_timeout_ms = 5000;
    if (c->stop_timeout_ms == 0)
        c->stop_timeout_ms = 5000;
    return c->warnings.failed ? hw_fail(r->err, HW_ENOMEM, 0, "configuration") : HW_OK;
}

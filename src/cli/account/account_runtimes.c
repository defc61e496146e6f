#include "cli/account/account_runtimes.h"

#include <stdio.h>

#include "base/text/json_out.h"
#include "config/command/units.h"
#include "views/time/process_view.h"

#include "base/banned.h"

#define V8(what, space)                                                                            \
    {                                                                                              \
        "V8's " what, "v8." space ".used", "v8." space ".committed", NULL, "; ",                   \
        {                                                                                          \
            {                                                                                      \
                "resident_bytes", "in memory", "v8." space ".resident"                             \
            }                                                                                      \
        }                                                                                          \
    }

static const struct {
    const char *what, *used, *committed, *max; /* NULL: it has none */
    const char *begin;                         /* of its parts */
    struct {
        const char *key, *words, *counter;
    } parts[2];
} runtimes[] = {
    {"Java heap",
     "jvm.heap.used",
     "jvm.heap.committed",
     "jvm.heap.max",
     NULL,
     {{NULL, NULL, NULL}}},
    {"metaspace, at the last collection",
     "jvm.metaspace.used",
     "jvm.metaspace.committed",
     NULL,
     NULL,
     {{NULL, NULL, NULL}}},
    {"code cache", "jvm.code.used", "jvm.code.committed", NULL, NULL, {{NULL, NULL, NULL}}},
    {"Python's objects",
     "python.heap.used",
     "python.heap.committed",
     NULL,
     "; free: ",
     {{"free_blocks_bytes", "in pools in use", "python.heap.free_blocks"},
      {"free_pools_bytes", "in free pools", "python.heap.free_pools"}}},
    {"Go's heap",
     "go.heap.in_use",
     "go.heap.committed",
     NULL,
     "; used: ",
     {{"objects_bytes", "by objects", "go.heap.objects"}}},
    {"Go's stacks", "go.heap.stacks", NULL, NULL, NULL, {{NULL, NULL, NULL}}},
    {"Go's own tables", "go.heap.metadata", NULL, NULL, NULL, {{NULL, NULL, NULL}}},
    V8("read-only space", "read_only"),
    V8("space of new objects", "new"),
    V8("large new objects", "new_large"),
    V8("space of old objects", "old"),
    V8("large objects", "large"),
    V8("code space", "code"),
    V8("large code objects", "code_large"),
    V8("map space", "map"),
    V8("shared space", "shared"),
    V8("large shared objects", "shared_large"),
    V8("trusted space", "trusted"),
    V8("large trusted objects", "trusted_large"),
};

/* Of the nearest reading of that runtime; *at: when. */
static bool figure_at(const struct hw_account_runtimes *r, const char *counter, double *out,
                      int64_t *at)
{
    return counter && hw_process_counter(r->p, r->upid, counter, r->parts->ts_ns, out, at);
}

static bool figure(const struct hw_account_runtimes *r, const char *counter, double *out)
{
    int64_t at;
    return figure_at(r, counter, out, &at);
}

/* What is used is not of an older reading than what it is used of. */
static bool figure_with(const struct hw_account_runtimes *r, const char *counter, const char *whole,
                        double *out)
{
    double all;
    int64_t at, whole_at;
    return figure_at(r, counter, out, &at) &&
           (!figure_at(r, whole, &all, &whole_at) || whole_at == at);
}

static void put_parts(const struct hw_account_runtimes *r, size_t i)
{
    char buf[HW_UNIT_MAX];
    double v;
    for (size_t k = 0; k < sizeof runtimes[i].parts / sizeof *runtimes[i].parts; k++)
        if (figure(r, runtimes[i].parts[k].counter, &v))
            printf("%s%s %s", k ? ", " : runtimes[i].begin, hw_fmt_bytes(buf, v),
                   runtimes[i].parts[k].words);
}

/* Arenas are not read each time. */
static void put_age(const struct hw_account_runtimes *r, const char *counter)
{
    char buf[HW_UNIT_MAX];
    double v;
    int64_t at;
    if (!figure_at(r, counter, &v, &at) || at == r->parts->ts_ns)
        return;
    bool is_before = at < r->parts->ts_ns;
    printf(" (%s %s)", hw_fmt_clock(buf, is_before ? r->parts->ts_ns - at : at - r->parts->ts_ns),
           is_before ? "before" : "later");
}

void hw_account_runtimes_put(const struct hw_account_runtimes *r, size_t indent)
{
    char buf[HW_UNIT_MAX];
    double used, committed, max;
    for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++) {
        bool has_all = figure(r, runtimes[i].committed, &committed);
        bool has_used = figure_with(r, runtimes[i].used, runtimes[i].committed, &used);
        if ((!has_used && !has_all) || (runtimes[i].committed && !has_all))
            continue;
        printf("%*s%s: ", (int)indent, "", runtimes[i].what);
        if (has_used)
            printf("%s used%s", hw_fmt_bytes(buf, used), has_all ? ", " : "");
        if (has_used && has_all)
            printf("%s free of ", hw_fmt_bytes(buf, committed > used ? committed - used : 0));
        if (has_all)
            printf("%s committed", hw_fmt_bytes(buf, committed));
        if (figure(r, runtimes[i].max, &max))
            printf(", at most %s", hw_fmt_bytes(buf, max));
        put_parts(r, i);
        put_age(r, runtimes[i].committed ? runtimes[i].committed : runtimes[i].used);
        putchar('\n');
    }
    if (r->parts->unsaid)
        printf("%*s%s\n", (int)indent, "", r->parts->unsaid);
}

void hw_account_runtimes_json(const struct hw_account_runtimes *r, struct hw_json *j)
{
    double v;
    hw_json_key(j, "managed");
    hw_json_begin_array(j);
    for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++) {
        const char *first = runtimes[i].committed ? runtimes[i].committed : runtimes[i].used;
        if (!figure(r, first, &v))
            continue;
        hw_json_begin_object(j);
        hw_json_kv_str(j, "name", runtimes[i].what);
        int64_t at;
        if (figure_at(r, first, &v, &at))
            hw_json_kv_int(j, "later_ns", at - r->parts->ts_ns);
        if (figure_with(r, runtimes[i].used, runtimes[i].committed, &v))
            hw_json_kv_double(j, "used_bytes", v);
        if (figure(r, runtimes[i].committed, &v))
            hw_json_kv_double(j, "committed_bytes", v);
        if (figure(r, runtimes[i].max, &v))
            hw_json_kv_double(j, "max_bytes", v);
        for (size_t k = 0; k < sizeof runtimes[i].parts / sizeof *runtimes[i].parts; k++)
            if (figure(r, runtimes[i].parts[k].counter, &v))
                hw_json_kv_double(j, runtimes[i].parts[k].key, v);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    if (r->parts->unsaid)
        hw_json_kv_str(j, "managed_unknown", r->parts->unsaid);
}

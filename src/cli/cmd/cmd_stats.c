/* heapwise stats TRACE: what is in a trace, how complete it is, how well symbolized. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/plural.h"
#include "cli/cli.h"
#include "cli/parts/loss_text.h"
#include "cli/parts/open_profile.h"
#include "cli/parts/pager.h"
#include "config/command/units.h"
#include "import/import.h"
#include "model/profile.h"
#include "views/findings/losses.h"
#include "views/findings/sizes.h"
#include "views/flame/functions.h"
#include "views/time/process_view.h"
#include "views/time/series.h"

#include "base/banned.h"
#include "cli/parts/json_page.h"

enum { MAX_FUNCTIONS = 50, BAR = 40 }; /* of a process, in JSON; characters */

struct process_stats {
    struct hw_process_view view;
    struct hw_value total;
    size_t n_callstacks;
    uint64_t lost, heap_samples, unwinding_errors, map_reparses, unwinding_us, blocked_us;
    /* Shares of alloc_samples whose site has a name, and whose stack reaches the root. */
    int64_t named_samples, moduled_samples;
    hw_size_rows sizes;
};

struct job {
    const struct hw_cli *cli;
    struct hw_profile *p;
    struct hw_series_list list;
    hw_process_ranks ranks;
    struct hw_functions *functions;
    hw_losses losses;
};

static void stats_done(struct process_stats *s)
{
    hw_process_view_done(&s->view);
    hw_vec_done(&s->sizes);
}

static void see_dumps(const struct job *j, hw_upid upid, struct process_stats *s)
{
    const struct hw_process_rows dumps = hw_by_process_of(&j->p->dumps_of, upid);
    for (size_t i = 0; i < dumps.n; i++) {
        const struct hw_heap_dump *d = &j->p->dumps.v[dumps.v[i]];
        /* The recorder accumulates these: the last dump has the sum. */
        s->heap_samples = d->heap_samples > s->heap_samples ? d->heap_samples : s->heap_samples;
        s->unwinding_errors =
            d->unwinding_errors > s->unwinding_errors ? d->unwinding_errors : s->unwinding_errors;
        s->map_reparses = d->map_reparses > s->map_reparses ? d->map_reparses : s->map_reparses;
        s->unwinding_us =
            d->unwinding_time_us > s->unwinding_us ? d->unwinding_time_us : s->unwinding_us;
        s->blocked_us = d->blocked_us > s->blocked_us ? d->blocked_us : s->blocked_us;
        s->lost = d->lost_samples > s->lost ? d->lost_samples : s->lost;
    }
}

static int collect(const struct job *j, hw_upid upid, struct process_stats *s)
{
    *s = (struct process_stats){0};
    hw_values values = {0};
    int rc = hw_process_view_init(&s->view, j->p, &j->list, upid);
    if (rc < 0)
        return rc;
    bool at_max = s->view.moments.n == 0;
    const struct hw_process_moment *m =
        at_max ? hw_process_view_peak(&s->view) : &s->view.moments.v[s->view.moments.n - 1];
    if (m)
        rc = hw_process_values(j->p, &j->list, upid, m->ts_ns, m->at_max, &values);
    s->n_callstacks = values.n;
    for (size_t i = 0; rc == 0 && i < values.n; i++) {
        const struct hw_value *v = &values.v[i].v;
        const struct hw_function *fn =
            hw_functions_get(j->functions, hw_functions_site(j->functions, values.v[i].callsite));
        hw_value_add(&s->total, v);
        s->named_samples += fn->name.v ? v->alloc_samples : 0;
        s->moduled_samples += fn->module.v ? v->alloc_samples : 0;
    }
    const struct hw_sizes_query q = {.p = j->p,
                                     .list = &j->list,
                                     .fns = j->functions,
                                     .upid = upid,
                                     .ts_ns = m ? m->ts_ns : 0,
                                     .at_max = m && m->at_max};
    if (rc == 0 && m)
        rc = hw_sizes_find(&q, &s->sizes);
    see_dumps(j, upid, s);
    hw_vec_done(&values);
    if (rc < 0)
        stats_done(s);
    return rc;
}

static const char *text_of(const struct job *j, hw_str_id id)
{
    return hw_strings_cstr(hw_callsites_strings(j->p->callsites), id);
}

static double percent(int64_t part, int64_t whole)
{
    return whole > 0 ? 100 * (double)part / (double)whole : 100;
}

/* ---- text ---- */

static void put_escaped(const char *s)
{
    struct hw_strbuf b = {0};
    hw_strbuf_add_escaped(&b, s, strlen(s));
    fputs(b.p ? b.p : "", stdout);
    hw_strbuf_done(&b);
}

/* Of one heap, or HW_ID_NONE = all. */
static void put_sizes(const struct process_stats *s, uint32_t series)
{
    char a[HW_UNIT_MAX], b[HW_UNIT_MAX], c[HW_UNIT_MAX];
    struct hw_size_value v[HW_SIZE_CLASSES];
    hw_sizes_sum(&s->sizes, series, HW_ID_NONE, v);
    struct hw_size_value total = hw_sizes_total(v);
    printf("sizes (%.0f%% of the allocations exactly, others by their average):\n",
           percent(total.exact_objects, total.alloc_objects));
    for (unsigned i = 0; i < HW_SIZE_CLASSES; i++) {
        if (v[i].alloc_objects <= 0)
            continue;
        double share =
            total.alloc_space > 0 ? (double)v[i].alloc_space / (double)total.alloc_space : 0;
        printf("    to %-9s", hw_fmt_bytes_exact(a, hw_size_up_to(i)));
        printf(" %9s allocations %11s  ", hw_fmt_count(b, (double)v[i].alloc_objects),
               hw_fmt_bytes(c, (double)v[i].alloc_space));
        for (int k = 0; k < (int)(share * BAR + 0.5); k++)
            putchar('#');
        putchar('\n');
    }
}

static size_t count_heaps(const struct process_stats *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->sizes.n; i++)
        n += i == 0 || s->sizes.v[i].series != s->sizes.v[i - 1].series;
    return n;
}

static void put_all_sizes(const struct job *j, const struct process_stats *s)
{
    if (s->sizes.n)
        fputs("  ", stdout);
    if (s->sizes.n)
        put_sizes(s, HW_ID_NONE);
    for (size_t i = 0; count_heaps(s) > 1 && i < s->sizes.n; i++) {
        uint32_t series = s->sizes.v[i].series;
        if (i && series == s->sizes.v[i - 1].series)
            continue;
        fputs("  ", stdout);
        put_escaped(text_of(j, j->list.v.v[series].heap_name));
        fputs(" ", stdout);
        put_sizes(s, series);
    }
}

static void put_heaps(const struct job *j, hw_upid upid, const struct hw_process_view *view)
{
    const struct hw_process_rows heaps = hw_series_of(&j->list, upid);
    for (size_t i = 0; i < heaps.n; i++) {
        const struct hw_series *s = &j->list.v.v[heaps.v[i]];
        fputs("  heap ", stdout);
        put_escaped(text_of(j, s->heap_name));
        printf(": %zu dump%s", s->shown.n, hw_plural(s->shown.n));
        if (s->all.n != s->shown.n)
            printf(", %zu checkpoints", s->all.n - s->shown.n);
        if (s->peaks.n)
            printf(", %zu at the peak", s->peaks.n);
        const struct hw_value *v =
            s->shown.n ? hw_process_view_dump(view, s->shown.v[s->shown.n - 1]) : NULL;
        char buf[HW_UNIT_MAX];
        if (v && s->kind != view->kind) { /* for the others see the process's figures */
            if (s->kind != HW_HEAP_CHURN)
                printf("; live %s", hw_fmt_bytes(buf, (double)v->space));
            printf("; allocated %s; samples %lld; not in the figures below",
                   hw_fmt_bytes(buf, (double)v->alloc_space), (long long)v->alloc_samples);
        }
        putchar('\n');
    }
}

/* What the recorder noted about it (attributes of the trace). */
static void put_recorded(const struct job *j, int64_t pid)
{
    char start[64];
    size_t n = (size_t)snprintf(start, sizeof start, "trace_attribute.note.%lld.", (long long)pid);
    for (size_t i = 0; i < j->p->metadata.n; i++) {
        const struct hw_metadata_row *m = &j->p->metadata.v[i];
        if (!m->text.v || strncmp(text_of(j, m->name), start, n) != 0)
            continue;
        fputs("  note: ", stdout);
        put_escaped(text_of(j, m->text));
        putchar('\n');
    }
}

static void put_process(const struct job *j, hw_upid upid, const struct process_stats *s)
{
    const struct hw_process *proc = &j->p->processes.v[upid.v];
    char a[HW_UNIT_MAX], b[HW_UNIT_MAX];
    putchar('\n');
    put_escaped(text_of(j, proc->name));
    printf(" (%lld)\n", (long long)proc->pid);
    put_recorded(j, proc->pid);
    put_heaps(j, upid, &s->view);
    printf("  interval %s", hw_fmt_bytes_exact(a, s->view.interval_bytes));
    printf("   samples %lld   lost %llu", (long long)s->total.alloc_samples,
           (unsigned long long)s->lost);
    printf("   callstacks %zu\n", s->n_callstacks);
    printf("  allocated %s in %s allocations", hw_fmt_bytes(a, (double)s->total.alloc_space),
           hw_fmt_count(b, (double)s->total.alloc_objects));
    printf("   live %s in %s\n", hw_fmt_bytes(a, (double)s->total.space),
           hw_fmt_count(b, (double)s->total.objects));
    printf("  coverage: %.1f%% of samples have a module, %.1f%% a function name\n",
           percent(s->moduled_samples, s->total.alloc_samples),
           percent(s->named_samples, s->total.alloc_samples));
    printf("  stacks cut short: %llu   maps read again: %llu\n",
           (unsigned long long)s->unwinding_errors, (unsigned long long)s->map_reparses);
    if (s->heap_samples && s->unwinding_us * 100 >= s->heap_samples)
        printf("  unwinding: %.2f us a sample\n",
               (double)s->unwinding_us / (double)s->heap_samples);
    if (s->blocked_us)
        printf("  program waited for the recorder: %s\n",
               hw_fmt_duration(a, (int64_t)(s->blocked_us * 1000)));
    put_all_sizes(j, s);
}

static void put_losses(const struct job *j)
{
    struct hw_strbuf text = {0};
    if (j->losses.n)
        putchar('\n');
    for (size_t i = 0; i < j->losses.n; i++) {
        const struct hw_loss *l = &j->losses.v[i];
        hw_strbuf_clear(&text);
        hw_loss_text(&text, j->p, l);
        printf("%s: %s\n", hw_loss_is_incomplete(l) ? "incomplete" : "note", text.p ? text.p : "");
    }
    if (j->losses.n == 0)
        puts("\nno losses");
    hw_strbuf_done(&text);
}

static const char *const severities[HW_STAT_SEVERITY_COUNT] = {"info", "data_loss", "error"};

static void put_stat_rows(const struct job *j, bool all)
{
    bool head = false;
    for (size_t i = 0; i < j->p->stats.n; i++) {
        const struct hw_stat_row *s = &j->p->stats.v[i];
        if (!all && (s->severity == HW_STAT_INFO || s->value == 0))
            continue;
        if (!head)
            puts(
                "\nSTATISTIC                                         INDEX  SEVERITY        VALUE");
        head = true;
        struct hw_strbuf b = {0};
        hw_strbuf_add_escaped(&b, text_of(j, s->name), strlen(text_of(j, s->name)));
        printf("%-46s ", b.p ? b.p : "");
        hw_strbuf_done(&b);
        if (s->key >= 0)
            printf("%8lld", (long long)s->key);
        else
            printf("%8s", "-");
        printf("  %-9s %11lld\n", severities[s->severity], (long long)s->value);
    }
}

static int print_text(const struct job *j)
{
    char a[HW_UNIT_MAX];
    size_t n_dumps;
    int rc = hw_process_count_dumps(j->p, &j->list, &n_dumps);
    if (rc < 0)
        return rc;
    printf("%zu process%s, %zu dump%s of %zu heap%s, %zu row%s, over %s\n", j->ranks.n,
           j->ranks.n == 1 ? "" : "es", n_dumps, hw_plural(n_dumps), j->list.v.n,
           hw_plural(j->list.v.n), j->p->allocs.n, hw_plural(j->p->allocs.n),
           hw_fmt_duration(a, hw_sat_sub(j->p->last_ns, j->p->first_ns)));
    printf("%zu callstack nodes, %zu frames, %zu mappings\n", hw_callsites_count(j->p->callsites),
           hw_callsites_n_frames(j->p->callsites), hw_callsites_n_mappings(j->p->callsites));
    for (size_t i = 0; i < j->ranks.n; i++) {
        struct process_stats s;
        rc = collect(j, j->ranks.v[i].upid, &s);
        if (rc < 0)
            return rc;
        put_process(j, j->ranks.v[i].upid, &s);
        stats_done(&s);
    }
    put_losses(j);
    put_stat_rows(j, hw_opt_flag(&j->cli->opts, HW_OPT_ALL_STATS));
    return HW_OK;
}

/* ---- JSON ---- */

static void json_sizes(struct hw_json *o, const hw_size_rows *rows, uint32_t series,
                       uint32_t function)
{
    struct hw_size_value v[HW_SIZE_CLASSES];
    hw_sizes_sum(rows, series, function, v);
    hw_json_key(o, "sizes");
    hw_json_begin_array(o);
    for (unsigned i = 0; i < HW_SIZE_CLASSES; i++) {
        if (v[i].alloc_objects == 0 && v[i].objects == 0 && v[i].space == 0)
            continue;
        hw_json_begin_object(o);
        hw_json_kv_uint(o, "up_to", hw_size_up_to(i));
        hw_json_kv_int(o, "alloc_objects", v[i].alloc_objects);
        hw_json_kv_int(o, "alloc_space", v[i].alloc_space);
        hw_json_kv_int(o, "exact_objects", v[i].exact_objects);
        hw_json_kv_int(o, "objects", v[i].objects);
        hw_json_kv_int(o, "space", v[i].space);
        hw_json_end_object(o);
    }
    hw_json_end_array(o);
}

static void json_heaps(struct hw_json *o, const struct job *j, const struct process_stats *s)
{
    hw_json_key(o, "heaps");
    hw_json_begin_array(o);
    for (size_t i = 0; i < s->sizes.n; i++) {
        uint32_t series = s->sizes.v[i].series;
        if (i && series == s->sizes.v[i - 1].series)
            continue;
        hw_json_begin_object(o);
        hw_json_kv_str(o, "name", text_of(j, j->list.v.v[series].heap_name));
        json_sizes(o, &s->sizes, series, HW_ID_NONE);
        hw_json_end_object(o);
    }
    hw_json_end_array(o);
}

struct function_sum {
    uint32_t function;
    int64_t alloc_space;
};

static int by_space(const void *a, const void *b)
{
    const struct function_sum *x = a, *y = b;
    if (x->alloc_space != y->alloc_space)
        return x->alloc_space > y->alloc_space ? -1 : 1;
    return x->function < y->function ? -1 : x->function > y->function;
}

static int by_function(const void *a, const void *b)
{
    const struct function_sum *x = a, *y = b;
    return x->function < y->function ? -1 : x->function > y->function;
}

/* One row per function, largest first; none if out of memory. */
static size_t rank_functions(const hw_size_rows *rows, struct function_sum **out)
{
    size_t kept = 0;
    struct function_sum *v = malloc((rows->n ? rows->n : 1) * sizeof *v);
    *out = v;
    if (!v || rows->n == 0)
        return 0;
    for (size_t i = 0; i < rows->n; i++)
        v[i] = (struct function_sum){rows->v[i].function, rows->v[i].v.alloc_space};
    qsort(v, rows->n, sizeof *v, by_function);
    for (size_t i = 1; i < rows->n; i++) {
        if (v[i].function == v[kept].function)
            v[kept].alloc_space = hw_sat_add(v[kept].alloc_space, v[i].alloc_space);
        else
            v[++kept] = v[i];
    }
    qsort(v, kept + 1, sizeof *v, by_space);
    return kept + 1;
}

static void json_functions(struct hw_json *o, const struct job *j, const struct process_stats *s)
{
    struct function_sum *v;
    struct hw_strbuf label = {0};
    size_t n = rank_functions(&s->sizes, &v), shown = n < MAX_FUNCTIONS ? n : MAX_FUNCTIONS;
    hw_json_key(o, "functions");
    hw_json_begin_array(o);
    for (size_t i = 0; i < shown; i++) {
        hw_strbuf_clear(&label);
        hw_function_label(&label, j->p->callsites, hw_functions_get(j->functions, v[i].function),
                          NULL);
        hw_json_begin_object(o);
        hw_json_kv_str(o, "name", label.p);
        hw_json_kv_int(o, "alloc_space", v[i].alloc_space);
        json_sizes(o, &s->sizes, HW_ID_NONE, v[i].function);
        hw_json_end_object(o);
    }
    hw_json_end_array(o);
    hw_json_kv_uint(o, "left_out_functions", n - shown);
    hw_strbuf_done(&label);
    free(v);
}

static void json_process(struct hw_json *o, const struct job *j, hw_upid upid,
                         const struct process_stats *s)
{
    const struct hw_process *proc = &j->p->processes.v[upid.v];
    hw_json_begin_object(o);
    hw_json_kv_int(o, "pid", proc->pid);
    hw_json_kv_str(o, "name", text_of(j, proc->name));
    hw_json_kv_uint(o, "dumps", s->view.n_dumps);
    hw_json_kv_uint(o, "interval_bytes", s->view.interval_bytes);
    for (int m = 0; m < (int)hw_value_metrics(&s->total); m++)
        hw_json_kv_int(o, hw_metric_name((enum hw_metric)m),
                       hw_value_get(&s->total, (enum hw_metric)m));
    hw_json_kv_int(o, "samples", s->total.alloc_samples);
    hw_json_kv_uint(o, "lost", s->lost);
    hw_json_kv_uint(o, "callstacks", s->n_callstacks);
    hw_json_kv_int(o, "named_samples", s->named_samples);
    hw_json_kv_uint(o, "unwinding_errors", s->unwinding_errors);
    hw_json_kv_uint(o, "unwinding_us", s->unwinding_us);
    hw_json_kv_uint(o, "blocked_us", s->blocked_us);
    json_sizes(o, &s->sizes, HW_ID_NONE, HW_ID_NONE);
    json_heaps(o, j, s);
    json_functions(o, j, s);
    hw_json_end_object(o);
}

static void json_stats(struct hw_json *o, const struct job *j)
{
    hw_json_key(o, "stats");
    hw_json_begin_array(o);
    for (size_t i = 0; i < j->p->stats.n; i++) {
        const struct hw_stat_row *s = &j->p->stats.v[i];
        hw_json_begin_object(o);
        hw_json_kv_str(o, "name", text_of(j, s->name));
        if (s->key >= 0)
            hw_json_kv_int(o, "index", s->key);
        hw_json_kv_str(o, "severity", severities[s->severity]);
        hw_json_kv_int(o, "value", s->value);
        hw_json_end_object(o);
    }
    hw_json_end_array(o);
}

static int print_json(const struct job *j)
{
    struct hw_json o;
    int rc = HW_OK;
    hw_json_page_begin(&o, stdout, "stats", 0);
    hw_json_key(&o, "processes");
    hw_json_begin_array(&o);
    for (size_t i = 0; i < j->ranks.n && rc == 0; i++) {
        struct process_stats s;
        rc = collect(j, j->ranks.v[i].upid, &s);
        if (rc < 0)
            break;
        json_process(&o, j, j->ranks.v[i].upid, &s);
        stats_done(&s);
    }
    hw_json_end_array(&o);
    json_stats(&o, j);
    int written = hw_json_page_end(&o);
    return rc < 0 ? rc : written;
}

static int run(struct job *j)
{
    int rc = hw_series_list_init(&j->list, j->p);
    if (rc == 0)
        rc = hw_process_rank_all(j->p, &j->list, &j->ranks);
    if (rc == 0)
        rc = hw_functions_new(j->p->callsites, NULL, &j->functions);
    if (rc == 0)
        rc = hw_losses_find(j->p, &j->losses);
    if (rc == 0)
        rc = hw_opt_flag(&j->cli->opts, HW_OPT_JSON) ? print_json(j) : print_text(j);
    bool incomplete = false;
    for (size_t i = 0; i < j->losses.n; i++)
        incomplete |= hw_loss_is_incomplete(&j->losses.v[i]);
    bool empty = j->ranks.n == 0;
    hw_series_list_done(&j->list);
    hw_vec_done(&j->ranks);
    hw_functions_free(j->functions);
    hw_vec_done(&j->losses);
    if (rc < 0)
        return rc;
    return empty ? HW_EXIT_NO_DATA : incomplete ? HW_EXIT_INCOMPLETE : HW_EXIT_OK;
}

int hw_cmd_stats(struct hw_cli *cli)
{
    if (cli->opts.n_args != 1) {
        hw_cli_error(cli, NULL, cli->opts.n_args ? "more than one trace" : "which trace?");
        hw_cli_hint("heapwise stats TRACE");
        return hw_cli_usage_exit(cli);
    }
    struct hw_error err = {0};
    struct job j = {.cli = cli};
    int rc = hw_import_file(hw_input_path(cli->opts.args[0]), &j.p, &err);
    if (rc == 0) {
        hw_pager_begin(cli);
        rc = run(&j);
        if (rc < 0)
            (void)hw_fail(&err, rc, 0, "cannot read '%s'", cli->opts.args[0]);
        else if (fflush(stdout) != 0)
            rc = hw_fail_sys(&err, "cannot write");
    }
    hw_profile_free(j.p);
    return rc < 0 ? hw_cli_fail(cli, &err) : rc;
}

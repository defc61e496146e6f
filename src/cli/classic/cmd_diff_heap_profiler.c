/*
 * diff_heap_profiler TRACE [TRACE2] - callstacks that hold much memory, as JSON below output/
 *
 * One trace: what is live at one dump of each process. Two: what the second has more than the
 * first, process by process; a heap that only one side has is empty on the other. Values are self
 * values of a callstack, so a function that both allocates and calls others that allocate is right.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/classic/leak_files.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "enrich/lines/demangle.h"
#include "export/large_stacks.h"
#include "import/import.h"
#include "views/infra/heap_details.h"

#include "base/banned.h"

struct side {
    struct hw_profile *p;
    struct hw_demangler *demangler;
    struct hw_series_list list;
};

struct run {
    const struct hw_cli *cli;
    struct side old, now; /* old: the first of two traces */
    bool two;
    struct hw_large_stacks leaks;
    struct hw_leak_files files;
    struct hw_error err;
};

static struct hw_bytes str(const struct side *s, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(s->p->callsites), id);
}

static int open_side(struct run *r, const char *path, struct side *s)
{
    int rc = hw_import_file(hw_input_path(path), &s->p, &r->err);
    if (rc < 0)
        return rc;
    rc = hw_demangler_new(hw_callsites_strings(s->p->callsites), &s->demangler);
    if (rc == HW_OK)
        rc = hw_series_list_init(&s->list, s->p);
    return rc < 0 ? hw_fail(&r->err, rc, 0, "'%s':", path) : HW_OK;
}

static void close_side(struct side *s)
{
    hw_series_list_done(&s->list);
    hw_demangler_free(s->demangler);
    hw_profile_free(s->p);
}

/* ---- heaps ---- */

static const struct hw_series *find_series(const struct side *s, hw_upid upid, const char *heap)
{
    const struct hw_process_rows heaps = hw_series_of(&s->list, upid);
    for (size_t i = 0; i < heaps.n; i++) {
        const struct hw_series *x = &s->list.v.v[heaps.v[i]];
        if (x->shown.n && hw_bytes_equal(str(s, x->heap_name), hw_bytes_str(heap)))
            return x;
    }
    return NULL;
}

static int add_side(struct run *r, const struct side *s, hw_upid upid, const char *heap,
                    enum hw_detail_side to, struct hw_heap_details *d)
{
    const char *which = hw_opt_text(&r->cli->opts, HW_OPT_DHP_DUMP);
    const struct hw_series *series = find_series(s, upid, heap);
    struct hw_type_sum sum = {0};
    hw_values_by_type values = {0};
    struct hw_namer namer = {hw_demangle_shown, s->demangler};
    uint64_t n = 1;
    if (!series)
        return HW_OK;
    if (strcmp(which, "last") == 0)
        n = series->shown.n;
    else if (strcmp(which, "first") != 0 && hw_parse_uint(which, &n, &r->err) < 0)
        return HW_EINVAL;
    if (n < 1 || n > series->shown.n)
        return HW_OK; /* a process that ended earlier */
    int rc = hw_type_sum_at(&sum, s->p, series, series->shown.v[n - 1], &values);
    if (rc == HW_OK)
        rc = hw_heap_details_add(d, s->p, &values, &namer, to);
    hw_type_sum_done(&sum);
    hw_vec_done(&values);
    return rc;
}

static int do_heap(struct run *r, hw_upid old, hw_upid now, const char *heap)
{
    const struct hw_process *x = &r->now.p->processes.v[now.v];
    const struct hw_leak_heap h = {x->pid, heap, str(&r->now, x->name), str(&r->now, x->labels)};
    struct hw_heap_details *d;
    int rc = hw_heap_details_new(&d);
    if (rc < 0)
        return hw_fail(&r->err, rc, 0, "heap '%s':", heap);
    if (r->two)
        rc = add_side(r, &r->old, old, heap, HW_DETAIL_EARLIER, d);
    if (rc == HW_OK)
        rc = add_side(r, &r->now, now, heap, HW_DETAIL_NOW, d);
    if (rc == HW_OK)
        rc = hw_heap_details_finish(d);
    if (rc == HW_OK)
        rc = hw_large_stacks_find(&r->leaks, d);
    if (rc == HW_OK && r->leaks.v.n) {
        struct hw_strbuf line = {0};
        hw_strbuf_add_escaped(&line, heap, strlen(heap));
        printf("  %s: %zu potential leaks found.\n", line.p ? line.p : "", r->leaks.v.n);
        hw_strbuf_done(&line);
        rc = hw_leak_files_add(&r->files, &h, &r->leaks, d, &r->err);
    }
    hw_heap_details_free(d);
    return rc < 0 && !r->err.code ? hw_fail(&r->err, rc, 0, "heap '%s':", heap) : rc;
}

/* Only heaps of the second side can have grown: those of the first alone shrank to nothing. */
static int do_process(struct run *r, hw_upid old, hw_upid now)
{
    const struct hw_process *x = &r->now.p->processes.v[now.v];
    struct hw_strbuf line = {0};
    int rc = HW_OK;
    hw_strbuf_addf(&line, "Process[%lld] ", (long long)x->pid);
    hw_strbuf_add_escaped(&line, str(&r->now, x->name).p, str(&r->now, x->name).n);
    hw_strbuf_adds(&line, ": ");
    hw_strbuf_add_escaped(&line, str(&r->now, x->labels).p, str(&r->now, x->labels).n);
    puts(line.p ? line.p : "");
    hw_strbuf_done(&line);
    const struct hw_process_rows heaps = hw_series_of(&r->now.list, now);
    for (size_t i = 0; rc == HW_OK && i < heaps.n; i++)
        rc = do_heap(r, old, now,
                     (const char *)str(&r->now, r->now.list.v.v[heaps.v[i]].heap_name).p);
    return rc;
}

/* ---- processes ---- */

static bool has_heaps(const struct side *s, uint32_t upid)
{
    const struct hw_process_rows heaps = hw_series_of(&s->list, (hw_upid){upid});
    for (size_t i = 0; i < heaps.n; i++)
        if (s->list.v.v[heaps.v[i]].shown.n)
            return true;
    return false;
}

static bool is_wanted(const struct run *r, const struct hw_process *x)
{
    const char *name = hw_opt_text(&r->cli->opts, HW_OPT_DHP_NAME);
    const char *labels = hw_opt_text(&r->cli->opts, HW_OPT_DHP_LABELS);
    struct hw_bytes have = str(&r->now, x->labels);
    if (name && !hw_bytes_equal(str(&r->now, x->name), hw_bytes_str(name)))
        return false;
    return !labels || !labels[0] ||
           (have.n && memmem(have.p, have.n, labels, strlen(labels)) != NULL);
}

static bool belong_together(const struct run *r, const struct hw_process *a,
                            const struct hw_process *b)
{
    struct hw_bytes name = str(&r->now, b->name);
    if (!hw_opt_flag(&r->cli->opts, HW_OPT_DHP_MATCH))
        return a->pid == b->pid;
    if (!hw_bytes_equal(str(&r->old, a->name), name))
        return false;
    return hw_bytes_equal(name, hw_bytes_str("Browser")) ||
           hw_bytes_equal(name, hw_bytes_str("GPU")) ||
           hw_bytes_equal(str(&r->old, a->labels), str(&r->now, b->labels));
}

static int do_all(struct run *r)
{
    int rc = HW_OK;
    for (uint32_t i = 0; rc == HW_OK && i < r->now.p->processes.n; i++) {
        uint32_t old = 0;
        if (!has_heaps(&r->now, i) || !is_wanted(r, &r->now.p->processes.v[i]))
            continue;
        while (r->two && old < r->old.p->processes.n &&
               (!has_heaps(&r->old, old) ||
                !belong_together(r, &r->old.p->processes.v[old], &r->now.p->processes.v[i])))
            old++;
        if (!r->two || old < r->old.p->processes.n)
            rc = do_process(r, (hw_upid){old}, (hw_upid){i});
    }
    return rc;
}

/* What is missing in the files; the exit status stays the original tool's. */
static int put_losses(struct run *r)
{
    bool incomplete = false;
    int rc = HW_OK;
    (void)fflush(stdout);
    if (r->two)
        rc = hw_open_profile_all_losses(r->old.p, stderr, &incomplete);
    if (rc == HW_OK)
        rc = hw_open_profile_all_losses(r->now.p, stderr, &incomplete);
    return rc < 0 ? hw_fail(&r->err, rc, 0, "what is missing") : HW_OK;
}

static bool parse_format(const char *text, enum hw_leak_format *out)
{
    static const char *const words[] = {"json", "text", "pprof"};
    for (size_t i = 0; i < HW_ARRAY_LEN(words); i++)
        if (strcmp(words[i], text) == 0) {
            *out = (enum hw_leak_format)i;
            return true;
        }
    return false;
}

int hw_cmd_diff_heap_profiler(struct hw_cli *cli)
{
    struct run r = {.cli = cli};
    size_t n = cli->opts.n_args;
    if (n < 1 || n > 2) {
        hw_cli_error(cli, NULL, n ? "too many traces" : "which trace?");
        hw_cli_hint("diff_heap_profiler TRACE [TRACE2]");
        return hw_cli_usage_exit(cli);
    }
    if (!parse_format(hw_opt_text(&cli->opts, HW_OPT_DHP_FORMAT), &r.files.format)) {
        hw_cli_error(cli, NULL, "--format takes json, text or pprof");
        return hw_cli_usage_exit(cli);
    }
    r.files.graph = hw_opt_flag(&cli->opts, HW_OPT_DHP_GRAPH);
    r.leaks.form = r.files.format == HW_LEAKS_TEXT ? HW_LARGE_TEXT : HW_LARGE_JSON;
    r.two = n == 2;
    r.leaks.min_count = (int64_t)hw_opt_num(&cli->opts, HW_OPT_DHP_COUNT);
    r.leaks.min_size = (int64_t)hw_opt_num(&cli->opts, HW_OPT_DHP_SIZE);
    if (r.leaks.min_count == 0 && r.leaks.min_size == 0)
        r.leaks.min_count = 1000;
    int rc = r.two ? open_side(&r, cli->opts.args[0], &r.old) : HW_OK;
    if (rc == HW_OK)
        rc = open_side(&r, cli->opts.args[n - 1], &r.now);
    if (rc == HW_OK)
        rc = hw_leak_files_begin(&r.files, &r.err);
    if (rc == HW_OK)
        rc = do_all(&r);
    if (rc == HW_OK)
        rc = hw_leak_files_end(&r.files, &r.err);
    if (rc == HW_OK)
        rc = put_losses(&r);
    hw_leak_files_done(&r.files);
    hw_large_stacks_done(&r.leaks);
    close_side(&r.now);
    close_side(&r.old);
    return rc < 0 ? hw_cli_fail(cli, &r.err) : HW_EXIT_OK;
}

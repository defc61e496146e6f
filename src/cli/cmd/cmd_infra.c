/*
 * heapwise infra DUMP - heap details of memory-infra: one heap by callstack and by type
 *
 * One line a place: bytes, objects, then the tree; ƒ is a function, Ⓣ a type. With --diff the
 * figures are changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/parts/open_profile.h"
#include "cli/parts/pager.h"
#include "config/command/units.h"
#include "enrich/lines/demangle.h"
#include "import/import.h"
#include "views/infra/heap_details.h"

#include "base/banned.h"

enum by { BY_FRAMES = 1, BY_TYPES = 2, TYPES_FIRST = 4 };

struct source {
    struct hw_profile *p;
    struct hw_demangler *demangler;
    hw_upid upid;
    int64_t ts_ns;
};

struct line {
    struct hw_detail_row row;
    unsigned indent;
};

struct infra {
    const struct hw_cli *cli;
    struct hw_heap_details *details;
    struct source now, earlier;
    bool diff;
    unsigned by; /* enum by */
    enum hw_detail_rule rule;
    int64_t threshold;
    uint64_t max_depth;
    bool incomplete;
    HW_VEC(struct line) todo; /* index of the line after the last */
};

static bool parse_by(const char *text, unsigned *out)
{
    static const struct {
        const char *word;
        unsigned by;
    } words[] = {{"backtrace", BY_FRAMES},
                 {"type", BY_TYPES},
                 {"backtrace,type", BY_FRAMES | BY_TYPES},
                 {"type,backtrace", BY_FRAMES | BY_TYPES | TYPES_FIRST}};
    for (size_t i = 0; i < HW_ARRAY_LEN(words); i++)
        if (strcmp(words[i].word, text) == 0) {
            *out = words[i].by;
            return true;
        }
    return false;
}

/* ---- which dump ---- */

static bool is_heap(const struct hw_profile *p, hw_str_id name, const char *wanted)
{
    struct hw_bytes have = hw_strings_get(hw_callsites_strings(p->callsites), name);
    if (strcmp(wanted, "malloc") == 0 && hw_bytes_equal(have, hw_bytes_str("libc.malloc")))
        return true;
    return hw_bytes_equal(have, hw_bytes_str(wanted));
}

static int by_effective(const void *pa, const void *pb)
{
    const struct hw_memory_node *a = *(const struct hw_memory_node *const *)pa,
                                *b = *(const struct hw_memory_node *const *)pb;
    if (a->effective_size != b->effective_size)
        return a->effective_size > b->effective_size ? -1 : 1;
    return (a > b) - (a < b);
}

/* Processes × allocators of the last memory dump, for a file without a heap dump.
 */
static void put_allocators(const struct hw_profile *p)
{
    const struct hw_memory_dumps *m = &p->memory;
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    HW_VEC(const struct hw_memory_node *) roots = {0};
    uint32_t last = 0;
    for (uint32_t i = 0; i < m->snapshots.n; i++)
        if (m->snapshots.v[i].ts_ns > m->snapshots.v[last].ts_ns)
            last = i;
    for (size_t i = 0; i < m->nodes.n; i++)
        if (m->nodes.v[i].parent == HW_ID_NONE && m->nodes.v[i].has_size &&
            m->processes.v[m->nodes.v[i].process].snapshot == last &&
            hw_vec_push(&roots, &m->nodes.v[i]) < 0)
            break; /* the error has the details */
    if (roots.n) {
        qsort(roots.v, roots.n, sizeof *roots.v, by_effective);
        printf("%14s %14s %8s  ALLOCATOR\n", "EFFECTIVE", "SIZE", "PID");
    }
    for (size_t i = 0; i < roots.n; i++) {
        struct hw_strbuf name = {0};
        struct hw_bytes path = hw_strings_get(strings, roots.v[i]->path);
        hw_upid upid = m->processes.v[roots.v[i]->process].upid;
        hw_strbuf_add_escaped(&name, path.p, path.n);
        printf("%14llu %14llu ", (unsigned long long)roots.v[i]->effective_size,
               (unsigned long long)roots.v[i]->size);
        if (upid.v == HW_ID_NONE)
            printf("%8s", "all");
        else
            printf("%8lld", (long long)p->processes.v[upid.v].pid);
        printf("  %s\n", name.p ? name.p : "");
        hw_strbuf_done(&name);
    }
    hw_vec_done(&roots);
}

static void list_heaps(const struct hw_profile *p)
{
    struct hw_series_list list;
    if (hw_series_list_init(&list, p) < 0)
        return;
    for (size_t i = 0; i < list.v.n; i++)
        hw_cli_hint("--pid %lld --heap %s", (long long)p->processes.v[list.v.v[i].upid.v].pid,
                    hw_strings_cstr(hw_callsites_strings(p->callsites), list.v.v[i].heap_name));
    hw_series_list_done(&list);
}

/* The process asked for, else the one whose heap of that name has the most bytes at its end. */
static const struct hw_series *pick_series(const struct hw_optval *pid, const struct hw_profile *p,
                                           const struct hw_series_list *list, const char *heap)
{
    const struct hw_series *best = NULL;
    int64_t most = -1;
    for (size_t i = 0; i < list->v.n; i++) {
        const struct hw_series *s = &list->v.v[i];
        struct hw_sum *sum;
        if (!is_heap(p, s->heap_name, heap) || s->shown.n == 0 ||
            (pid->set && p->processes.v[s->upid.v].pid != (int64_t)pid->num) ||
            hw_sum_new(p, s, &sum) < 0)
            continue;
        if (hw_sum_advance(sum, s->shown.v[s->shown.n - 1]) == HW_OK &&
            hw_sum_total(sum).space > most) {
            most = hw_sum_total(sum).space;
            best = s;
        }
        hw_sum_free(sum);
    }
    return best;
}

/* The last dump, or the one with that number, from 1. */
static int pick_dump(const struct hw_series *s, const char *which, uint32_t *out,
                     struct hw_error *err)
{
    uint64_t n = s->shown.n;
    if (which && strcmp(which, "first") == 0)
        n = 1;
    else if (which && strcmp(which, "last") != 0 && hw_parse_uint(which, &n, err) < 0)
        return HW_EINVAL;
    if (n < 1 || n > s->shown.n)
        return hw_fail(err, HW_ENOTFOUND, 0, "there is no dump %llu: the file has %zu",
                       (unsigned long long)n, s->shown.n);
    *out = s->shown.v[n - 1];
    return HW_OK;
}

static int add_side(struct infra *x, struct source *from, const char *which,
                    enum hw_detail_side side, struct hw_error *err)
{
    struct hw_series_list list;
    struct hw_type_sum sum = {0};
    hw_values_by_type values = {0};
    const char *heap = hw_opt_text(&x->cli->opts, HW_OPT_INFRA_HEAP);
    uint32_t dump = 0;
    int rc = hw_series_list_init(&list, from->p);
    if (rc < 0)
        return hw_fail(err, rc, 0, "heaps:");
    const struct hw_optval *pid = &x->cli->opts.v[HW_OPT_SHOW_PID];
    if (side == HW_DETAIL_EARLIER && x->cli->opts.v[HW_OPT_INFRA_DIFF_PID].set)
        pid = &x->cli->opts.v[HW_OPT_INFRA_DIFF_PID];
    const struct hw_series *s = pick_series(pid, from->p, &list, heap);
    if (!s)
        rc = hw_fail(err, HW_ENOTFOUND, 0, "no heap dump of '%s'", heap);
    if (rc == HW_OK)
        rc = pick_dump(s, which, &dump, err);
    if (rc == HW_OK && (rc = hw_type_sum_at(&sum, from->p, s, dump, &values)) < 0)
        (void)hw_fail(err, rc, 0, "heap dump:");
    if (rc == HW_OK) {
        struct hw_namer namer = {hw_demangle_shown, from->demangler};
        from->upid = s->upid;
        from->ts_ns = from->p->dumps.v[dump].ts_ns;
        rc = hw_heap_details_add(x->details, from->p, &values, &namer, side);
        if (rc < 0)
            (void)hw_fail(err, rc, 0, "heap details:");
    }
    hw_type_sum_done(&sum);
    hw_vec_done(&values);
    hw_series_list_done(&list);
    return rc;
}

static int open_source(const char *path, struct source *out, struct hw_error *err)
{
    int rc = hw_import_file(hw_input_path(path), &out->p, err);
    if (rc == HW_OK &&
        (rc = hw_demangler_new(hw_callsites_strings(out->p->callsites), &out->demangler)) < 0)
        (void)hw_fail(err, rc, 0, "names:");
    return rc;
}

static bool is_number(const char *text)
{
    return text[0] && strspn(text, "0123456789") == strlen(text);
}

/*
 * EARLIER is the number of a dump in the same file, or another file; --diff-pid names another
 * process, which on its own means the same file.
 */
static int open_both(struct infra *x, struct hw_error *err)
{
    const char *diff = hw_opt_text(&x->cli->opts, HW_OPT_INFRA_DIFF);
    const char *which = hw_opt_text(&x->cli->opts, HW_OPT_INFRA_DUMP);
    int rc = open_source(x->cli->opts.args[0], &x->now, err);
    if (rc == HW_OK)
        rc = add_side(x, &x->now, which, HW_DETAIL_NOW, err);
    if (!diff && x->cli->opts.v[HW_OPT_INFRA_DIFF_PID].set)
        diff = which ? which : "last";
    if (rc < 0 || !diff)
        return rc;
    x->diff = true;
    if (is_number(diff) || strcmp(diff, "last") == 0 || strcmp(diff, "first") == 0) {
        struct source same = x->now;
        return add_side(x, &same, diff, HW_DETAIL_EARLIER, err);
    }
    rc = open_source(diff, &x->earlier, err);
    return rc < 0 ? rc : add_side(x, &x->earlier, NULL, HW_DETAIL_EARLIER, err);
}

/* ---- the tree ---- */

static void put_number(const struct infra *x, const int64_t v[HW_DETAIL_SIDES], int width)
{
    if (x->diff)
        printf("%+*lld ", width, (long long)hw_sat_sub(v[HW_DETAIL_NOW], v[HW_DETAIL_EARLIER]));
    else
        printf("%*lld ", width, (long long)v[HW_DETAIL_NOW]);
}

static void put_line(const struct infra *x, const struct line *l)
{
    static const char *const symbols[] = {"", "\u0192 ", "\u24c9 ", "\u0192 ", ""};
    struct hw_strbuf label = {0};
    const struct hw_detail_row *r = &l->row;
    if (r->kind == HW_DETAIL_ROOT)
        hw_strbuf_adds(&label, hw_opt_text(&x->cli->opts, HW_OPT_INFRA_HEAP));
    else
        hw_strbuf_add_escaped(&label, r->label.p, r->label.n);
    put_number(x, r->v.size, 14);
    put_number(x, r->v.count, 10);
    printf("%*s%s%s", (int)(2 * (l->indent < 200 ? l->indent : 200)), "", symbols[r->kind],
           label.p ? label.p : "");
    if (r->kind == HW_DETAIL_OTHER)
        printf(" (%zu)", r->n_folded);
    putchar('\n');
    hw_strbuf_done(&label);
}

static int ask_below(const struct infra *x, const struct hw_detail_row *r, hw_detail_rows *out)
{
    bool frames = x->by & BY_FRAMES, types = x->by & BY_TYPES;
    if (x->by & TYPES_FIRST) {
        frames = r->kind != HW_DETAIL_ROOT;
        types = r->kind == HW_DETAIL_ROOT;
    } else if (r->kind == HW_DETAIL_TYPE) {
        return HW_OK; /* its callers are above it */
    }
    int rc = frames ? hw_heap_details_frames(x->details, r, x->rule, x->threshold, out) : HW_OK;
    return rc == HW_OK && types ? hw_heap_details_types(x->details, r, x->rule, x->threshold, out)
                                : rc;
}

static int put_tree(struct infra *x)
{
    hw_detail_rows below = {0};
    struct line top = {hw_heap_details_root(x->details), 0};
    int rc = hw_vec_push(&x->todo, top) < 0 ? HW_ENOMEM : HW_OK;
    while (rc == HW_OK && x->todo.n) {
        struct line l = x->todo.v[--x->todo.n];
        put_line(x, &l);
        hw_vec_clear(&below);
        if (x->max_depth && l.indent >= x->max_depth)
            continue;
        rc = ask_below(x, &l.row, &below);
        for (size_t i = below.n; rc == HW_OK && i-- > 0;)
            if (hw_vec_push(&x->todo, (struct line){below.v[i], l.indent + 1}) < 0)
                rc = HW_ENOMEM;
    }
    hw_vec_done(&below);
    return rc;
}

static const int64_t together_ns = 50 * 1000 * 1000;

/* Why the heap's sum differs from what the allocator itself reports, with figures if available. */
static void put_note(const struct infra *x)
{
    const struct hw_profile *p = x->now.p;
    double arena, mmap = 0, in_use;
    char a[HW_UNIT_MAX], b[HW_UNIT_MAX], c[HW_UNIT_MAX], d[HW_UNIT_MAX];
    char when[HW_UNIT_MAX + 16] = "";
    int64_t ts = x->now.ts_ns, at;
    double asked = (double)hw_heap_details_root(x->details).v.size[HW_DETAIL_NOW];
    if (hw_opt_flag(&x->cli->opts, HW_OPT_QUIET) ||
        strcmp(hw_opt_text(&x->cli->opts, HW_OPT_INFRA_HEAP), "malloc") != 0 ||
        !hw_process_counter(p, x->now.upid, "malloc_info.in_use", ts, &in_use, &at) ||
        !hw_process_counter(p, x->now.upid, "malloc_info.arena", ts, &arena, NULL))
        return;
    (void)hw_process_counter(p, x->now.upid, "malloc_info.mmap", ts, &mmap, NULL);
    double more = in_use + mmap - asked;
    int64_t away = at < ts ? hw_sat_sub(ts, at) : hw_sat_sub(at, ts);
    if (away > together_ns)
        (void)snprintf(when, sizeof when, " (%s %s)", hw_fmt_duration(a, away),
                       at < ts ? "before" : "later");
    printf(
        "\nmalloc itself%s: %s from the kernel, %s in use; requested: %s. The difference of %s is "
        "%s.\n",
        when, hw_fmt_bytes(a, arena + mmap), hw_fmt_bytes(b, in_use + mmap), hw_fmt_bytes(c, asked),
        hw_fmt_bytes(d, more < 0 ? -more : more),
        more < 0 ? "what the program allocated since malloc's figures were read, or sampling error"
                 : "its overhead, and memory from before the recording");
}

/* What is missing in the files, on standard error: the tree's format has no place for it. */
static int put_losses(struct infra *x)
{
    int rc = HW_OK;
    (void)fflush(stdout);
    if (x->now.p)
        rc = hw_open_profile_all_losses(x->now.p, stderr, &x->incomplete);
    if (rc == HW_OK && x->earlier.p)
        rc = hw_open_profile_all_losses(x->earlier.p, stderr, &x->incomplete);
    return rc;
}

static int show(struct infra *x, struct hw_error *err)
{
    int rc = hw_heap_details_new(&x->details);
    if (rc < 0)
        return hw_fail(err, rc, 0, "heap details:");
    rc = open_both(x, err);
    if (rc == HW_OK && (rc = hw_heap_details_finish(x->details)) < 0)
        (void)hw_fail(err, rc, 0, "heap details:");
    if (rc < 0)
        return rc;
    printf("%14s %10s %s\n", x->diff ? "CHANGE" : "BYTES", "OBJECTS",
           x->by & TYPES_FIRST ? "TYPE, BACKTRACE" : "HEAP");
    rc = put_tree(x);
    if (rc == HW_OK)
        put_note(x);
    return rc < 0 ? hw_fail(err, rc, 0, "heap details:") : HW_OK;
}

int hw_cmd_infra(struct hw_cli *cli)
{
    struct infra x = {.cli = cli, .threshold = (int64_t)hw_opt_num(&cli->opts, HW_OPT_INFRA_MIN)};
    struct hw_error err = {0};
    if (cli->opts.n_args != 1) {
        hw_cli_error(cli, NULL, cli->opts.n_args ? "more than one file" : "which file?");
        hw_cli_hint("heapwise infra DUMP");
        return hw_cli_usage_exit(cli);
    }
    x.max_depth = hw_opt_num(&cli->opts, HW_OPT_MAX_DEPTH);
    if (!parse_by(hw_opt_text(&cli->opts, HW_OPT_INFRA_BY), &x.by) ||
        !hw_detail_rule_named(hw_opt_text(&cli->opts, HW_OPT_INFRA_RULE), &x.rule)) {
        hw_cli_error(cli, NULL, "--by and --other take one of the words of `heapwise help infra`");
        return hw_cli_usage_exit(cli);
    }
    hw_pager_begin(cli);
    int rc = show(&x, &err);
    if (rc == HW_ENOTFOUND && x.now.p) {
        if (x.now.p->dumps.n == 0)
            put_allocators(x.now.p);
        (void)fflush(stdout); /* flushed before the error */
        hw_cli_error(cli, "no-data", "%s", err.text);
        list_heaps(x.now.p);
    } else if (rc < 0) {
        rc = hw_cli_fail(cli, &err);
    }
    if ((rc >= 0 || rc == HW_ENOTFOUND) && put_losses(&x) < 0)
        rc = HW_EXIT_FAILED;
    hw_heap_details_free(x.details);
    hw_demangler_free(x.now.demangler);
    hw_profile_free(x.now.p);
    hw_demangler_free(x.earlier.demangler);
    hw_profile_free(x.earlier.p);
    hw_vec_done(&x.todo);
    if (rc == HW_ENOTFOUND)
        return HW_EXIT_NO_DATA;
    return rc == HW_EXIT_OK && x.incomplete ? HW_EXIT_INCOMPLETE : rc;
}

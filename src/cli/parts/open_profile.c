#include "cli/parts/open_profile.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/saturate.h"
#include "base/text/text_parts.h"
#include "cli/cli.h"
#include "cli/parts/loss_text.h"
#include "cli/parts/site_text.h"
#include "daemon/core.h"
#include "import/import.h"
#include "open/symbol_options.h"

#include "base/banned.h"

const char *hw_input_path(const char *arg)
{
    return strcmp(arg, "-") == 0 ? "/dev/stdin" : arg;
}

bool hw_open_profile_metric(const struct hw_cli *cli, enum hw_metric *out)
{
    const char *name = hw_opt_text(&cli->opts, HW_OPT_METRIC);
    if (hw_metric_find(name, out))
        return true;
    hw_cli_error(cli, NULL, "unknown metric '%s'", name);
    hw_cli_hint("space, objects, alloc_space, alloc_objects, temporary_space or temporary_objects");
    return false;
}

int hw_open_profile_has_metric(enum hw_metric m, enum hw_metric known, struct hw_error *err)
{
    return m < known
               ? HW_OK
               : hw_fail(err, HW_ENOTFOUND, 0,
                         "the profile does not say what was freed within a second: only "
                         "recordings of heapwise do, not those of mappings or Java objects, with "
                         "--dump-at-max, or older ones");
}

static int no_data(const struct hw_cli *cli, const struct hw_open_profile_want *w,
                   const struct hw_profile *p)
{
    if (w->has_pid)
        hw_cli_error(cli, "no-data", "no heap profile of pid %lld in '%s'", (long long)w->pid,
                     w->path);
    else
        hw_cli_error(cli, "no-data", "no heap profile in '%s'", w->path);
    hw_cli_hint_path(p->graphs.n ? "it holds a managed heap: heapwise graph" : "heapwise stats",
                     w->path);
    return HW_EXIT_NO_DATA;
}

void hw_open_profile_hint_graph(const struct hw_profile *p, bool has_pid)
{
    enum { MAX_HINTS = 5 };
    size_t n = 0;
    for (size_t i = 0; has_pid && i < p->graphs.n && n < MAX_HINTS; i++) {
        hw_upid upid = p->graphs.v[i]->upid;
        bool told = false;
        for (size_t k = 0; k < i; k++)
            told |= p->graphs.v[k]->upid.v == upid.v;
        if (told)
            continue;
        hw_cli_hint("--pid %lld", (long long)p->processes.v[upid.v].pid);
        n++;
    }
    if (n == 0)
        hw_cli_hint("heapwise java dump PID makes one of a running JVM, heapwise node dump PID of "
                    "Node.js; record and attach add one to a profile by --java-graph");
}

static bool pick_process(struct hw_open_profile *s, const struct hw_open_profile_want *w,
                         const hw_process_ranks *ranks)
{
    for (size_t i = 0; i < ranks->n; i++) {
        s->upid = ranks->v[i].upid;
        if (!w->has_pid || s->p->processes.v[s->upid.v].pid == w->pid)
            return true;
    }
    return false;
}

/* Of the processes whose mappings were read, the one with the most resident memory. */
static bool pick_mapped(struct hw_open_profile *s, const struct hw_open_profile_want *w)
{
    const struct hw_profile *p = s->p;
    double most = -1;
    if (!w->as_mapped)
        return false;
    for (uint32_t i = 0; i < p->processes.n; i++) {
        double rss = 0;
        int64_t ts_ns;
        bool is_read = hw_process_counter(p, (hw_upid){i}, "account.rss", INT64_MAX, &rss, &ts_ns);
        if (!is_read || rss <= most || (w->has_pid && p->processes.v[i].pid != w->pid))
            continue;
        most = rss;
        s->upid.v = i;
    }
    return most >= 0;
}

bool hw_open_profile_is_starter(const struct hw_profile *p, hw_upid upid)
{
    const char *name =
        hw_strings_cstr(hw_callsites_strings(p->callsites), p->processes.v[upid.v].name);
    return hw_launch_is_launcher(hw_base_name(name));
}

static void add_heap_names(struct hw_strbuf *text, const struct hw_series_list *list,
                           const struct hw_profile *p)
{
    enum { MAX_NAMES = 8 };
    size_t n = 0;
    for (size_t i = 0; i < list->v.n && n < MAX_NAMES; i++) {
        struct hw_bytes name =
            hw_strings_get(hw_callsites_strings(p->callsites), list->v.v[i].heap_name);
        bool known = false;
        for (size_t k = 0; k < i; k++)
            known |= list->v.v[k].heap_name.v == list->v.v[i].heap_name.v;
        if (known)
            continue;
        hw_strbuf_adds(text, n++ ? ", " : "; there is ");
        hw_strbuf_add_escaped(text, name.p, name.n);
    }
}

bool hw_open_profile_choose_heap(struct hw_series_list *list, const struct hw_profile *p,
                                 const char *heap, struct hw_error *err)
{
    int rc = heap ? hw_series_list_choose(list, p, heap) : HW_OK;
    if (rc == HW_OK)
        return true;
    if (rc != HW_ENOTFOUND) {
        (void)hw_fail(err, rc, 0, "heap '%s'", heap);
        return false;
    }
    struct hw_strbuf names = {0};
    add_heap_names(&names, list, p);
    (void)hw_fail(err, HW_ENOTFOUND, 0, "no profile of a heap '%s'%s", heap,
                  names.p ? names.p : "");
    hw_strbuf_done(&names);
    return false;
}

int hw_open_profile_rank(const struct hw_profile *p, const struct hw_series_list *list,
                         hw_process_ranks *out)
{
    int rc = hw_process_rank_all(p, list, out);
    hw_process_ranks starters = {0};
    size_t kept = 0;
    for (size_t i = 0; rc == 0 && i < out->n; i++) {
        if (!hw_open_profile_is_starter(p, out->v[i].upid))
            out->v[kept++] = out->v[i];
        else if (hw_vec_push(&starters, out->v[i]) < 0)
            rc = HW_ENOMEM;
    }
    for (size_t i = 0; rc == 0 && i < starters.n; i++)
        out->v[kept++] = starters.v[i];
    hw_vec_done(&starters);
    return rc;
}

int hw_open_profile_filters(const struct hw_cli *cli, hw_filters *out)
{
    const struct hw_optval *v = &cli->opts.v[HW_OPT_FILTER];
    struct hw_error err = {0};
    for (size_t i = 0; i < v->list.n; i++) {
        if (hw_filters_add(out, v->list.v[i], &err) < 0) {
            hw_cli_error(cli, NULL, "%s", err.code ? err.text : hw_errc_text(HW_ENOMEM));
            return hw_cli_usage_exit(cli);
        }
    }
    if (hw_filters_have_heap(out)) {
        hw_cli_error(cli,
                     "heapwise query TRACE \"select * from heapwise_tree((select min(upid) from"
                     " heap_profile), null, null, 'HEAP')\"",
                     "a filter on heaps (H:) is one of the page and of SQL");
        return hw_cli_usage_exit(cli);
    }
    return 0;
}

int hw_open_profile_site_names(const struct hw_open_profile *s, const struct hw_functions *fns,
                               struct hw_site_names *out)
{
    const struct hw_strings *strings = hw_callsites_strings(s->p->callsites);
    const char *name = s->label ? "" : hw_strings_cstr(strings, s->p->processes.v[s->upid.v].name);
    *out = (struct hw_site_names){
        .cs = s->p->callsites, .fns = fns, .namer = &s->namer, .process_name = name};
    return hw_site_names_find(out, &s->values, s->metric);
}

struct hw_wrappers hw_open_profile_wrappers(const struct hw_cli *cli)
{
    const struct hw_optval *v = &cli->opts.v[HW_OPT_WRAPPER];
    return (struct hw_wrappers){(const char *const *)v->list.v, v->list.n};
}

static bool wants_peak(const struct hw_open_profile *s, const struct hw_open_profile_want *w)
{
    if ((w->moment && strcmp(w->moment, "peak") == 0) || s->view.moments.n == 0)
        return true;
    bool live = hw_metric_is_live(s->metric);
    return !w->moment && w->as_report && live && hw_process_view_cleaned_up(&s->view);
}

/* The n-th moment that is a dump; NULL if there are fewer. */
static const struct hw_process_moment *dump_number(const struct hw_process_view *v, uint64_t n)
{
    for (size_t i = 0; i < v->moments.n; i++)
        if (!v->moments.v[i].is_peak && n-- == 1)
            return &v->moments.v[i];
    return NULL;
}

static const struct hw_process_moment *last_until(const struct hw_process_view *v, uint64_t ms)
{
    const struct hw_process_moment *best = NULL;
    for (size_t i = 0; i < v->moments.n; i++)
        if ((double)hw_sat_sub(v->moments.v[i].ts_ns, v->start_ns) <= (double)ms * 1e6)
            best = &v->moments.v[i];
    return best;
}

static const struct hw_process_moment *pick_moment(const struct hw_open_profile *s,
                                                   const struct hw_open_profile_want *w,
                                                   struct hw_error *err)
{
    const struct hw_process_view *v = &s->view;
    const struct hw_process_moment *m;
    uint64_t n;
    if (wants_peak(s, w))
        return hw_process_view_peak(v);
    if (!w->moment || strcmp(w->moment, "last") == 0)
        return &v->moments.v[v->moments.n - 1];
    if (strcmp(w->moment, "first") == 0)
        m = dump_number(v, 1);
    else if (hw_parse_uint(w->moment, &n, NULL) == 0)
        m = dump_number(v, n);
    else if (hw_parse_time_ms(w->moment, &n, NULL) == 0)
        m = last_until(v, n);
    else {
        (void)hw_fail(err, HW_EINVAL, 0, "'%s' is not first, last, peak, a number or a time",
                      w->moment);
        return NULL;
    }
    if (!m)
        (void)hw_fail(err, HW_EINVAL, 0, "no dump '%s' among the %zu of '%s'", w->moment,
                      v->moments.n, w->path);
    return m;
}

static int load(struct hw_open_profile *s, const struct hw_cli *cli,
                const struct hw_open_profile_want *w, struct hw_error *err)
{
    hw_process_ranks ranks = {0};
    int rc = hw_series_list_init(&s->list, s->p);
    if (rc == 0 && !hw_open_profile_choose_heap(&s->list, s->p, w->heap, err))
        return HW_ENOTFOUND;
    if (rc == 0)
        rc = hw_open_profile_rank(s->p, &s->list, &ranks);
    bool found = rc == 0 && (pick_process(s, w, &ranks) || pick_mapped(s, w));
    hw_vec_done(&ranks);
    if (rc == 0 && !found)
        return no_data(cli, w, s->p);
    if (rc == 0)
        rc = hw_process_view_init(&s->view, s->p, &s->list, s->upid);
    if (rc < 0)
        return rc;
    bool is_mapped = w->as_mapped && s->view.moments.n + s->view.peaks.n == 0;
    s->moment = is_mapped ? NULL : pick_moment(s, w, err);
    if (!s->moment && !is_mapped)
        return err->code ? err->code : no_data(cli, w, s->p);
    if (s->moment)
        rc = hw_process_values(s->p, &s->list, s->upid, s->moment->ts_ns, s->moment->at_max,
                               &s->values);
    if (rc == 0)
        rc = hw_open_profile_has_metric(s->metric, hw_values_metrics(&s->values), err);
    if (rc == 0)
        rc = hw_demangler_new(hw_callsites_strings(s->p->callsites), &s->demangler);
    s->namer = (struct hw_namer){hw_demangle_shown, s->demangler};
    return rc;
}

int hw_open_profile_file_at(struct hw_open_profile *s, const struct hw_cli *cli,
                            const struct hw_open_profile_want *w)
{
    struct hw_error err = {0};
    *s = (struct hw_open_profile){
        .metric = w->metric, .p = w->profile, .borrowed = w->profile != NULL, .label = w->label};
    int rc = HW_OK;
    if (!s->p)
        rc = hw_import_file(hw_input_path(w->path), &s->p, &err);
    if (rc == 0) {
        if (!w->profile)
            hw_symbol_options_by_environment(cli, s->p);
        rc = load(s, cli, w, &err);
        if (rc < 0 && !err.code)
            (void)hw_fail(&err, rc, 0, "cannot read '%s'", w->path); /* printed below */
    }
    if (rc < 0)
        rc = hw_cli_fail(cli, &err);
    if (rc != 0)
        hw_open_profile_done(s);
    return rc;
}

int hw_open_profile_file(struct hw_open_profile *s, const struct hw_cli *cli, const char *path,
                         bool as_report)
{
    const struct hw_optval *pid = &cli->opts.v[HW_OPT_SHOW_PID];
    struct hw_open_profile_want w = {.path = path,
                                     .heap = hw_opt_text(&cli->opts, HW_OPT_SHOW_HEAP),
                                     .has_pid = pid->set,
                                     .pid = (int64_t)pid->num,
                                     .moment = hw_opt_flag(&cli->opts, HW_OPT_PEAK) ? "peak" : NULL,
                                     .as_report = as_report};
    *s = (struct hw_open_profile){0};
    if (hw_opt_text(&cli->opts, HW_OPT_METRIC) && !hw_open_profile_metric(cli, &w.metric))
        return hw_cli_usage_exit(cli);
    return hw_open_profile_file_at(s, cli, &w);
}

int64_t hw_open_profile_since_start(const struct hw_open_profile *s, int64_t ts_ns)
{
    return hw_sat_sub(ts_ns, s->view.start_ns);
}

void hw_open_profile_label(const struct hw_open_profile *s, struct hw_strbuf *out)
{
    const struct hw_process *proc = &s->p->processes.v[s->upid.v];
    const char *name = hw_strings_cstr(hw_callsites_strings(s->p->callsites), proc->name);
    if (s->label) {
        hw_strbuf_adds(out, s->label);
        return;
    }
    name = hw_base_name(name);
    if (!name[0]) {
        hw_strbuf_addf(out, "pid %lld", (long long)proc->pid);
        return;
    }
    hw_strbuf_add_escaped(out, name, strlen(name));
    hw_strbuf_addf(out, " (%lld)", (long long)proc->pid);
}

/* Of which process it would have been nobody knows. */
static bool is_of_reading(const struct hw_profile *p, const struct hw_loss *l)
{
    const char *name = hw_loss_word(p, l);
    return l->kind == HW_LOSS_STAT &&
           (strncmp(name, "trace_", 6) == 0 || strncmp(name, "bundle_", 7) == 0);
}

static int put_losses(const struct hw_profile *p, const hw_upid *only, bool of_reading, FILE *out,
                      bool *incomplete)
{
    hw_losses losses = {0};
    struct hw_strbuf text = {0};
    int rc = hw_losses_find(p, &losses);
    for (size_t i = 0; rc == 0 && i < losses.n; i++) {
        const struct hw_loss *l = &losses.v[i];
        if ((only && l->upid.v != only->v && l->upid.v != HW_ID_NONE) ||
            (of_reading && !is_of_reading(p, l)))
            continue;
        bool bad = hw_loss_is_incomplete(l);
        *incomplete |= bad;
        hw_strbuf_clear(&text);
        hw_loss_text(&text, p, l);
        fprintf(out, "%s: %s\n", bad ? "incomplete" : "note", text.p ? text.p : "");
    }
    hw_strbuf_done(&text);
    hw_vec_done(&losses);
    return rc;
}

int hw_open_profile_losses(const struct hw_open_profile *s, FILE *out, bool *incomplete)
{
    return put_losses(s->p, &s->upid, /* of_reading = */ false, out, incomplete);
}

int hw_open_profile_all_losses(const struct hw_profile *p, FILE *out, bool *incomplete)
{
    return put_losses(p, /* only = */ NULL, /* of_reading = */ false, out, incomplete);
}

int hw_open_profile_reading_losses(const struct hw_profile *p, FILE *out)
{
    bool unused = false;
    return put_losses(p, /* only = */ NULL, /* of_reading = */ true, out, &unused);
}

void hw_open_profile_done(struct hw_open_profile *s)
{
    hw_series_list_done(&s->list);
    hw_process_view_done(&s->view);
    hw_vec_done(&s->values);
    hw_demangler_free(s->demangler);
    if (!s->borrowed)
        hw_profile_free(s->p);
    *s = (struct hw_open_profile){0};
}

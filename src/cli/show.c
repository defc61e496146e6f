#include "cli/show.h"

#include <string.h>

#include "base/error.h"
#include "cli/cli.h"
#include "cli/names.h"
#include "daemon/core.h"
#include "import/import.h"

#include "base/banned.h"

const char *hw_input_path(const char *arg)
{
    return strcmp(arg, "-") == 0 ? "/dev/stdin" : arg;
}

bool hw_show_metric(const struct hw_cli *cli, enum hw_metric *out)
{
    const char *name = hw_opt_text(&cli->opts, HW_OPT_METRIC);
    if (hw_metric_find(name, out))
        return true;
    hw_cli_error(cli, NULL, "unknown metric '%s'", name);
    hw_cli_hint("space, objects, alloc_space or alloc_objects");
    return false;
}

static int no_data(const struct hw_cli *cli, const char *path)
{
    const struct hw_optval *pid = &cli->opts.v[HW_OPT_SHOW_PID];
    if (pid->set)
        hw_cli_error(cli, "no-data", "no heap profile of pid %llu in '%s'",
                     (unsigned long long)pid->num, path);
    else
        hw_cli_error(cli, "no-data", "no heap profile in '%s'", path);
    hw_cli_hint("heapwise stats %s", path);
    return HW_EXIT_NO_DATA;
}

static bool pick_process(struct hw_show *s, const struct hw_cli *cli, const hw_process_ranks *ranks)
{
    const struct hw_optval *pid = &cli->opts.v[HW_OPT_SHOW_PID];
    for (size_t i = 0; i < ranks->n; i++) {
        s->upid = ranks->v[i].upid;
        if (!pid->set || s->p->processes.v[s->upid.v].pid == (int64_t)pid->num)
            return true;
    }
    return false;
}

bool hw_show_is_starter(const struct hw_profile *p, hw_upid upid)
{
    const char *name =
        hw_strings_cstr(hw_callsites_strings(p->callsites), p->processes.v[upid.v].name);
    const char *slash = strrchr(name, '/');
    return hw_launch_is_launcher(slash ? slash + 1 : name);
}

int hw_show_rank(const struct hw_profile *p, const struct hw_series_list *list,
                 hw_process_ranks *out)
{
    int rc = hw_process_rank_all(p, list, out);
    hw_process_ranks starters = {0};
    size_t kept = 0;
    for (size_t i = 0; rc == 0 && i < out->n; i++) {
        if (!hw_show_is_starter(p, out->v[i].upid))
            out->v[kept++] = out->v[i];
        else if (hw_vec_push(&starters, out->v[i]) < 0)
            rc = HW_ENOMEM;
    }
    for (size_t i = 0; rc == 0 && i < starters.n; i++)
        out->v[kept++] = starters.v[i];
    hw_vec_done(&starters);
    return rc;
}

struct hw_wrappers hw_show_wrappers(const struct hw_cli *cli)
{
    const struct hw_optval *v = &cli->opts.v[HW_OPT_WRAPPER];
    return (struct hw_wrappers){(const char *const *)v->list.v, v->list.n};
}

static bool wants_peak(const struct hw_show *s, const struct hw_cli *cli, bool as_report)
{
    if (hw_opt_flag(&cli->opts, HW_OPT_PEAK) || s->view.moments.n == 0)
        return true;
    bool live = s->metric == HW_METRIC_SPACE || s->metric == HW_METRIC_OBJECTS;
    return as_report && live && hw_process_view_cleaned_up(&s->view);
}

static int load(struct hw_show *s, const struct hw_cli *cli, const char *path, bool as_report)
{
    hw_process_ranks ranks = {0};
    int rc = hw_series_list_init(&s->list, s->p);
    if (rc == 0)
        rc = hw_show_rank(s->p, &s->list, &ranks);
    bool found = rc == 0 && pick_process(s, cli, &ranks);
    hw_vec_done(&ranks);
    if (rc == 0 && !found)
        return no_data(cli, path);
    if (rc == 0)
        rc = hw_process_view_init(&s->view, s->p, &s->list, s->upid);
    if (rc < 0)
        return rc;
    if (wants_peak(s, cli, as_report))
        s->moment = hw_process_view_peak(&s->view);
    else
        s->moment = &s->view.moments.v[s->view.moments.n - 1];
    if (!s->moment)
        return no_data(cli, path);
    rc =
        hw_process_values(s->p, &s->list, s->upid, s->moment->ts_ns, s->moment->at_max, &s->values);
    if (rc == 0)
        rc = hw_demangler_new(hw_callsites_strings(s->p->callsites), &s->demangler);
    s->namer = (struct hw_namer){hw_demangle_shown, s->demangler};
    return rc;
}

int hw_show_open(struct hw_show *s, const struct hw_cli *cli, const char *path, bool as_report)
{
    struct hw_error err = {0};
    *s = (struct hw_show){0};
    if (!hw_show_metric(cli, &s->metric))
        return hw_cli_usage_exit(cli);
    int rc = hw_import_file(hw_input_path(path), &s->p, &err);
    if (rc == 0) {
        hw_names_by_environment(cli, s->p);
        rc = load(s, cli, path, as_report);
        if (rc < 0)
            (void)hw_fail(&err, rc, 0, "cannot read '%s'", path); /* printed below */
    }
    if (rc < 0)
        rc = hw_cli_fail(cli, &err);
    if (rc != 0)
        hw_show_done(s);
    return rc;
}

void hw_show_done(struct hw_show *s)
{
    hw_series_list_done(&s->list);
    hw_process_view_done(&s->view);
    hw_vec_done(&s->values);
    hw_demangler_free(s->demangler);
    hw_profile_free(s->p);
    *s = (struct hw_show){0};
}

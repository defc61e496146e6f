/*
 * show.h - what report, tree and convert share: open a trace, pick a process and a moment
 *
 * Owns:    all of it; hw_show_done frees it.
 * Errors:  printed; hw_show_open gives an exit code of cli.h, 0 = go on.
 */
#ifndef HW_CLI_SHOW_H
#define HW_CLI_SHOW_H

#include <stdbool.h>

#include "enrich/demangle.h"
#include "model/profile.h"
#include "views/functions.h"
#include "views/process.h"
#include "views/series.h"
#include "views/values.h"

struct hw_cli;

struct hw_show {
    struct hw_profile *p;
    struct hw_series_list list;
    hw_upid upid;
    struct hw_process_view view;
    const struct hw_process_moment *moment; /* the last one, or the peak */
    hw_values values;                       /* all heaps of the process at that moment */
    struct hw_demangler *demangler;
    struct hw_namer namer;
    enum hw_metric metric;
};

/* Reads --metric, --pid, --peak of the command. as_report: where the report would show the peak
 * because most was freed by the end, so does this. */
int hw_show_open(struct hw_show *s, const struct hw_cli *cli, const char *path, bool as_report);
void hw_show_done(struct hw_show *s);
/* The process one wants first: most allocated, behind them those that only start others (shells,
 * env, make, compiler drivers). */
int hw_show_rank(const struct hw_profile *p, const struct hw_series_list *list,
                 hw_process_ranks *out);
bool hw_show_is_starter(const struct hw_profile *p, hw_upid upid);
/* --wrapper of the command; borrowed from it. */
struct hw_wrappers hw_show_wrappers(const struct hw_cli *cli);
/* What to open for an argument: "-" is standard input. */
const char *hw_input_path(const char *arg);
/* --metric of the command; false and a message when it is none. */
bool hw_show_metric(const struct hw_cli *cli, enum hw_metric *out);

#endif

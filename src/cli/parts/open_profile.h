/*
 * open_profile.h - shared by commands that show a profile: open a trace, pick a process and a
 * moment
 *
 * Owns:    all of it; hw_open_profile_done frees it.
 * Errors:  printed; hw_open_profile_file returns an exit code of cli.h, 0 = continue.
 */
#ifndef HW_CLI_PARTS_OPEN_PROFILE_H
#define HW_CLI_PARTS_OPEN_PROFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/text/strbuf.h"
#include "enrich/lines/demangle.h"
#include "model/profile.h"
#include "views/filter.h"
#include "views/flame/functions.h"
#include "views/time/process_view.h"
#include "views/time/series.h"
#include "views/time/values.h"

struct hw_cli;
struct hw_error;
struct hw_site_names;

struct hw_open_profile {
    struct hw_profile *p;
    bool borrowed; /* p belongs to another hw_open_profile */
    struct hw_series_list list;
    const char *label; /* in place of the process's name and pid; borrowed, NULL = those */
    hw_upid upid;
    struct hw_process_view view;
    const struct hw_process_moment *moment; /* the last one, or the peak */
    hw_values values;                       /* all heaps of the process at that moment */
    struct hw_demangler *demangler;
    struct hw_namer namer;
    enum hw_metric metric;
};

/* Which moment of which process of which file. */
struct hw_open_profile_want {
    const char *path;
    struct hw_profile *profile; /* read already, borrowed; NULL = read path */
    const char *label;          /* what the profile is of, if not a process; borrowed */
    enum hw_metric metric;
    const char *heap; /* only this one; NULL = those of the first kind (views/time/series.h) */
    bool has_pid;
    int64_t pid;
    const char *moment; /* NULL = the end; first, last, peak, the number of a dump, or a time
                           since the start as in options: the last dump before it */
    bool as_mapped;     /* accept a process whose mappings were read but that has no dump; moment is
                       then NULL */
    bool as_report; /* choose the peak where the report would because most was freed by the end */
};
int hw_open_profile_file_at(struct hw_open_profile *s, const struct hw_cli *cli,
                            const struct hw_open_profile_want *w);
/* Reads --metric, --heap, --pid, --peak of the command. */
int hw_open_profile_file(struct hw_open_profile *s, const struct hw_cli *cli, const char *path,
                         bool as_report);
void hw_open_profile_done(struct hw_open_profile *s);
/* How to get the missing heap graph: of this process (has_pid), or any. */
void hw_open_profile_hint_graph(const struct hw_profile *p, bool has_pid);
/*
 * The process most likely wanted: the most allocated, with mere launchers (shells, env, make,
 * compiler drivers) last.
 */
int hw_open_profile_rank(const struct hw_profile *p, const struct hw_series_list *list,
                         hw_process_ranks *out);
/* Keeps the heaps with this name (NULL: all); false with a message that lists the existing ones. */
bool hw_open_profile_choose_heap(struct hw_series_list *list, const struct hw_profile *p,
                                 const char *heap, struct hw_error *err);
bool hw_open_profile_is_starter(const struct hw_profile *p, hw_upid upid);
/* Since view.start_ns. */
int64_t hw_open_profile_since_start(const struct hw_open_profile *s, int64_t ts_ns);
/* "server (4211)" */
void hw_open_profile_label(const struct hw_open_profile *s, struct hw_strbuf *out);
/* Prints a line for everything of the file that could not be read, whatever it held. */
int hw_open_profile_reading_losses(const struct hw_profile *p, FILE *out);
/*
 * Prints a line for everything the process's profile lacks. *incomplete is set if data is missing
 * (HW_EXIT_INCOMPLETE), and otherwise left alone.
 */
int hw_open_profile_losses(const struct hw_open_profile *s, FILE *out, bool *incomplete);
/* The same of every process. */
int hw_open_profile_all_losses(const struct hw_profile *p, FILE *out, bool *incomplete);
/* --filter of the command; an exit code of cli.h after a message, 0 = continue. */
int hw_open_profile_filters(const struct hw_cli *cli, hw_filters *out);
/* The callers of the profile's sites and their names; the caller frees it (site_text.h). */
int hw_open_profile_site_names(const struct hw_open_profile *s, const struct hw_functions *fns,
                               struct hw_site_names *out);
/* --wrapper of the command; borrowed from it. */
struct hw_wrappers hw_open_profile_wrappers(const struct hw_cli *cli);
/* What to open for an argument: "-" is standard input. */
const char *hw_input_path(const char *arg);
/* --metric of the command; false and a message if unknown. */
bool hw_open_profile_metric(const struct hw_cli *cli, enum hw_metric *out);
/* HW_ENOTFOUND if the metric is not among the first `known`: not every trace has temporary allocations. */
int hw_open_profile_has_metric(enum hw_metric m, enum hw_metric known, struct hw_error *err);

#endif

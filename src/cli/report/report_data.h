/*
 * report_data.h - what a report says, gathered; text and JSON only print it
 *
 * Owns:    all of it; hw_report_data_done frees it.
 * Errors:  HW_ENOMEM; HW_ENOTFOUND when no process of the pid asked for has a dump.
 */
#ifndef HW_CLI_REPORT_REPORT_DATA_H
#define HW_CLI_REPORT_REPORT_DATA_H

#include "cli/parts/site_text.h"
#include "cli/report/report.h"
#include "enrich/lines/demangle.h"
#include "views/findings/losses.h"
#include "views/findings/sites.h"
#include "views/findings/trend.h"
#include "views/flame/functions.h"
#include "views/time/process.h"
#include "views/time/series.h"

struct hw_report_heap {
    hw_str_id name;
    enum hw_heap_kind kind;
    struct hw_value now; /* at its last dump */
};

struct hw_report_data {
    const struct hw_profile *p;
    const struct hw_report_options *o;
    struct hw_series_list list;
    hw_process_ranks ranks;               /* of all processes with dumps */
    hw_upid upid;                         /* the one shown */
    HW_VEC(struct hw_report_heap) beside; /* heaps of it that are not in the figures */
    struct hw_process_view view;
    struct hw_process_moment now;           /* its last moment */
    struct hw_process_moment peak;          /* the moment with most live bytes, its end included */
    bool shows_peak;                        /* the sites' live figures are those of the peak */
    const struct hw_process_moment *before; /* the dump before the last one; NULL = none */
    struct hw_functions *functions;
    struct hw_demangler *demangler;
    struct hw_namer namer;
    hw_sites sites;             /* ranked; all of them */
    size_t n_rows;              /* of them in the table */
    struct hw_site_names names; /* at the moment that is shown */
    enum hw_trend *trends;      /* of the rows */
    hw_losses losses;           /* of the process and of the whole trace */
    uint64_t n_lost, n_samples;
    bool incomplete;
    bool has_rss, has_minfo;
    bool rss_is_peak; /* the highest of all, where live bytes were highest, too */
    bool rss_is_near; /* of the moment whose live bytes are shown: the two can be compared */
    double rss;
    int64_t rss_ns;                  /* when it was read */
    double minfo_in_use, minfo_free; /* the allocator's own figures, blocks of mmap included */
};

int hw_report_data_init(struct hw_report_data *d, const struct hw_profile *p,
                        const struct hw_report_options *o, struct hw_error *err);
void hw_report_data_done(struct hw_report_data *d);

const char *hw_report_process_name(const struct hw_report_data *d, hw_upid upid); /* "" unknown */

int hw_report_text(const struct hw_report_data *d, FILE *out);
int hw_report_json(const struct hw_report_data *d, FILE *out);

#endif

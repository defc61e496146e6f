/*
 * report_data.h - the contents of a report; text and JSON only print it
 *
 * Owns:    all of it; hw_report_data_done frees it.
 * Errors:  HW_ENOMEM; HW_ENOTFOUND if no process with the requested pid has a dump.
 */
#ifndef HW_CLI_REPORT_REPORT_DATA_H
#define HW_CLI_REPORT_REPORT_DATA_H

#include "cli/parts/site_text.h"
#include "cli/report/report.h"
#include "enrich/lines/demangle.h"
#include "views/account/memory_parts.h"
#include "views/findings/losses.h"
#include "views/findings/sites.h"
#include "views/findings/trend.h"
#include "views/flame/functions.h"
#include "views/time/process_view.h"
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
    HW_VEC(struct hw_report_heap) beside; /* its heaps that the figures leave out */
    struct hw_process_view view;
    struct hw_process_moment now;  /* its last moment */
    struct hw_process_moment peak; /* the moment with most live bytes, its end included */
    bool is_over;    /* the program has freed most of it: the peak tells more than the end */
    bool shows_peak; /* the sites' live figures are those of the peak */
    const struct hw_process_moment *before; /* the dump before the last one; NULL = none */
    struct hw_functions *functions;
    struct hw_demangler *demangler;
    struct hw_namer namer;
    hw_sites sites;             /* ranked; all of them */
    size_t n_rows;              /* of them in the table */
    struct hw_site_names names; /* at the moment that is shown */
    enum hw_trend *trends;      /* of the rows */
    hw_losses losses;           /* of the process and the whole trace */
    uint64_t n_lost, n_samples;
    struct hw_losses_sum others; /* what the other processes lost */
    bool incomplete;
    bool has_rss, has_minfo;
    bool rss_is_peak; /* the highest overall, which live bytes reached at the same time */
    bool rss_is_near; /* same moment as the live bytes: comparable */
    double rss;
    int64_t rss_ns;                  /* when it was read */
    double minfo_in_use, minfo_free; /* the allocator's own figures, including mmapped blocks */
    int64_t minfo_ns;
    bool minfo_is_near;         /* of the moment that is shown; else shown with its time */
    bool has_account;           /* of the process's memory, by the reading next to what is shown */
    bool account_is_of_another; /* another moment's, or other live bytes: shown with its time */
    struct hw_memory_parts account;
};

int hw_report_data_init(struct hw_report_data *d, const struct hw_profile *p,
                        const struct hw_report_options *o, struct hw_error *err);
void hw_report_data_done(struct hw_report_data *d);

const char *hw_report_process_name(const struct hw_report_data *d, hw_upid upid); /* "" unknown */

int hw_report_text(const struct hw_report_data *d, FILE *out);
int hw_report_json(const struct hw_report_data *d, FILE *out);

#endif

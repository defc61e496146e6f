/* pages_diff.h - two selections side by side, for the graph and the table that compare them */
#ifndef HW_SERVER_API_GRAPH_PAGES_DIFF_H
#define HW_SERVER_API_GRAPH_PAGES_DIFF_H

#include "server/api/pages_internal.h"
#include "views/findings/diff.h"

enum { HW_PAGE_A, HW_PAGE_B, HW_PAGE_SIDES };

struct hw_page_diff_side {
    struct hw_page_trace *t;
    struct hw_page_selection sel;
    hw_values values;
    struct hw_filter_matches matches;
    struct hw_namer namer;
    int64_t begin_ns;
};

struct hw_page_diff {
    struct hw_page_diff_side side[HW_PAGE_SIDES];
    struct hw_diff diff;
    enum hw_metric metric;
};

/* Both sides of a request and their difference. False: the request was answered with the error. */
bool hw_page_diff_init(struct hw_page_diff *q, struct hw_http_request *req,
                       struct hw_page_trace *t);
void hw_page_diff_done(struct hw_page_diff *q);
/* The length of the side's time range. */
double hw_page_diff_seconds(const struct hw_page_diff_side *s);

#endif

/*
 * diff_page.h - a comparison of two profiles, ready to be written in one of several formats
 *
 * Why:     people read text, pull requests Markdown, pipelines JUnit or SARIF, scripts JSON: all
 *          from one comparison, with the same rows and the same verdict of the gate.
 * Shapes:  order[0..n_changed) are the rows to show, order[n_changed] is the number of further
 *          ones.
 * Owns:    nothing; cmd/cmd_diff.c makes and frees it.
 * Errors:  writers return 0 or HW_E…; *incomplete: the profiles lack data.
 * Source:  doc/guide/leaks.md, "In a pipeline"; SARIF 2.1.0 (OASIS); the JUnit XML that CI systems read
 */
#ifndef HW_CLI_REPORT_DIFF_PAGE_H
#define HW_CLI_REPORT_DIFF_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/strbuf.h"
#include "cli/parts/open_profile.h"
#include "cli/parts/site_text.h"
#include "cli/report/diff_account.h"
#include "cli/report/report.h"
#include "config/command/options.h"
#include "config/command/units.h"
#include "views/findings/diff.h"

enum { HW_DIFF_A, HW_DIFF_B, HW_DIFF_SIDES };

struct hw_diff_page {
    const struct hw_cli *cli;
    struct hw_open_profile show[HW_DIFF_SIDES];
    const char *path[HW_DIFF_SIDES]; /* what the sides are called; borrowed */
    struct hw_functions *fns[HW_DIFF_SIDES];
    struct hw_site_names names[HW_DIFF_SIDES];
    struct hw_diff diff;
    struct hw_diff_account account;
    struct hw_report_options look;
    enum hw_metric metric;
    uint32_t *order;
    size_t n_hidden, n_changed;
    bool has_limit, failed, has_callers;
    struct hw_limit limit; /* of the metric */
    struct hw_strbuf line;
    int (*put)(struct hw_diff_page *pg, bool *incomplete); /* in the requested format */
};

#define HW_DIFF_CHANGE_MAX (2 * HW_UNIT_MAX + 4)

bool hw_diff_page_at_peak(const struct hw_open_profile *s);
const struct hw_diff_row *hw_diff_page_row(const struct hw_diff_page *pg, size_t i);
bool hw_diff_page_is_sure(const struct hw_diff_page *pg, const struct hw_diff_row *r);
/* The side whose callers a row names: B, or A if B has none of it. */
int hw_diff_page_side(const struct hw_diff_page *pg, const struct hw_diff_row *r);
const char *hw_diff_page_status(const struct hw_diff_page *pg,
                                const struct hw_diff_value *v); /* "new", "gone", … */
char *hw_diff_page_amount(const struct hw_diff_page *pg, char out[HW_UNIT_MAX], double v);
/* "+3.2 MiB ±0.4 MiB" */
void hw_diff_page_change(const struct hw_diff_page *pg, const struct hw_diff_value *v,
                         char out[HW_DIFF_CHANGE_MAX]);
/* "passed: space changed by +1.2 MiB, the limit is 5% of A"; nothing without a limit. */
void hw_diff_page_verdict(const struct hw_diff_page *pg, struct hw_strbuf *out);

/* Text as a code span in a Markdown cell. */
void hw_diff_markdown_code(struct hw_strbuf *out, const void *p, size_t n);

int hw_diff_put_text(struct hw_diff_page *pg, bool *incomplete);
int hw_diff_put_json(struct hw_diff_page *pg, bool *incomplete);
int hw_diff_put_markdown(struct hw_diff_page *pg, bool *incomplete);
int hw_diff_put_junit(struct hw_diff_page *pg, bool *incomplete);
int hw_diff_put_sarif(struct hw_diff_page *pg, bool *incomplete);

#endif

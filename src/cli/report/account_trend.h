/*
 * account_trend.h - the account over time as a table, and verdicts on the parts that grow
 *
 * Why:     `account --at all` shows each reading, `leaks` says which part besides the live heap
 *          grows and, where known, who causes it: whose blocks pin free memory, who maps.
 * Owns:    all of struct hw_account_growth; hw_account_growth_done frees it.
 * Errors:  HW_ENOMEM.
 */
#ifndef HW_CLI_REPORT_ACCOUNT_TREND_H
#define HW_CLI_REPORT_ACCOUNT_TREND_H

#include <stdint.h>

#include "cli/parts/account_pins.h"
#include "cli/parts/account_sites.h"
#include "views/findings/parts_series.h"

struct hw_json;
struct hw_open_profile;

struct hw_account_growth {
    struct hw_parts_series series;
    struct hw_account_pins pins;    /* if free memory grows */
    struct hw_account_sites mapped; /* if mappings do */
};

int hw_account_growth_find(const struct hw_open_profile *s, struct hw_account_growth *out);
void hw_account_growth_done(struct hw_account_growth *g);
/* Lines of the parts that grow; nothing when none does. */
void hw_account_growth_put(const struct hw_account_growth *g);
/* "parts": {"readings":, "seconds":, "rss_grown_bytes":, "live_grown_bytes":, "growing": [...]} */
void hw_account_growth_json(const struct hw_account_growth *g, struct hw_json *j);

/* A row for each reading. */
void hw_account_series_put(const struct hw_parts_series *s, int64_t start_ns);
void hw_account_series_json(const struct hw_parts_series *s, int64_t start_ns, struct hw_json *j);

#endif

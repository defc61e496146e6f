/*
 * account_rounding.h - which sites' blocks the allocator rounds up, and by how much
 *
 * Shapes:  a row has what the allocator adds to a site's live blocks, headers included. Newer recorders keep it
 *          by each sample's own size; of older traces nothing is shown by site.
 * Owns:    all of it; hw_account_rounding_done frees it.
 * Errors:  HW_ENOMEM.
 */
#ifndef HW_CLI_ACCOUNT_ACCOUNT_ROUNDING_H
#define HW_CLI_ACCOUNT_ACCOUNT_ROUNDING_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/parts/site_text.h"
#include "views/findings/sites.h"

struct hw_cli;
struct hw_json;
struct hw_open_profile;

struct hw_account_rounding {
    bool is_known;
    double bytes, error; /* of all sites; two standard errors */
    struct hw_functions *fns;
    struct hw_site_names names;
    hw_sites sites; /* most rounding first */
    uint64_t interval_bytes;
};

int hw_account_rounding_find(const struct hw_open_profile *s, struct hw_account_rounding *out);
void hw_account_rounding_done(struct hw_account_rounding *a);
/* Two standard errors of a site's rounding. */
double hw_account_rounding_error(const struct hw_account_rounding *a, const struct hw_site *s);
/* A table; top 0: all. */
void hw_account_rounding_put(const struct hw_account_rounding *a, bool unicode, size_t width,
                             size_t top);
/* All of an answer about a dump whose process's mappings were not read. */
int hw_account_rounding_alone(const struct hw_cli *cli, const struct hw_account_rounding *a,
                              const struct hw_open_profile *s, bool unicode, size_t width,
                              size_t top);
/* "rounding": {"bytes":, "error_bytes":, "sites": [...]}; nothing if it is not known. */
void hw_account_rounding_json(const struct hw_account_rounding *a, struct hw_json *j);

#endif

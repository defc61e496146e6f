/*
 * account_pins.h - why free memory inside the allocator stays resident: the sites whose blocks pin it
 *
 * Shapes:  a row has what the site's blocks pin and how much of the site is live; sites with few
 *          live bytes that pin much are the interesting ones. Without a measurement it points to
 *          record --pinned.
 * Owns:    all of it; hw_account_pins_done frees it.
 * Errors:  HW_ENOMEM.
 */
#ifndef HW_CLI_PARTS_ACCOUNT_PINS_H
#define HW_CLI_PARTS_ACCOUNT_PINS_H

#include <stdbool.h>

#include "cli/parts/site_text.h"
#include "views/account/pinned.h"
#include "views/findings/sites.h"

struct hw_json;
struct hw_open_profile;

struct hw_account_pins {
    bool is_known;
    struct hw_pinned pinned;
    struct hw_functions *fns;
    struct hw_site_names names;
    hw_sites sites; /* by what they pin, largest first */
    hw_sites live;  /* of their live bytes; in order of functions */
};

int hw_account_pins_find(const struct hw_open_profile *s, const struct hw_memory_parts *m,
                         struct hw_account_pins *out);
void hw_account_pins_done(struct hw_account_pins *a);
/* A table below the account's; at_text: the measurement's time. width: of the page; top 0: all. */
void hw_account_pins_put(const struct hw_account_pins *a, const struct hw_memory_parts *m,
                         const char *at_text, size_t width, size_t top);
/* "pinned": {"at_ns":, "pinned_bytes":, "whole_pages_bytes":, "sites": [...]} */
void hw_account_pins_json(const struct hw_account_pins *a, int64_t at_ns, struct hw_json *j);

#endif

/*
 * account_sites.h - who mapped the memory that is not malloc's
 *
 * Why:     the account knows how much of a process's own mappings is resident, the heap mmap.anon
 *          which calls made them, and mmap.anon.resident what of each call's is in memory.
 * Owns:    all of it; hw_account_sites_done frees it.
 * Errors:  HW_ENOMEM. Without such a heap there are none.
 */
#ifndef HW_CLI_PARTS_ACCOUNT_SITES_H
#define HW_CLI_PARTS_ACCOUNT_SITES_H

#include "cli/parts/site_text.h"
#include "views/findings/sites.h"

struct hw_json;
struct hw_open_profile;

struct hw_account_sites {
    struct hw_functions *fns;
    hw_values values;
    struct hw_site_names names;
    hw_sites sites;    /* most resident memory first, then most address space */
    bool has_resident; /* it was measured: older recorders do not */
    hw_sites resident; /* in order of functions */
    int64_t resident_ns;
    bool has_calls;        /* the process has mapped something by calls, at some time */
    double resident_bytes; /* of all */
};

/* Names for the sites of values; *fns and out are the caller's also if it fails. */
int hw_account_names_find(const struct hw_open_profile *s, const hw_values *values,
                          struct hw_functions **fns, struct hw_site_names *out);

/* At a moment: what was mapped then, and the last measurement of what of it is in memory. */
int hw_account_sites_find(const struct hw_open_profile *s, int64_t ts_ns,
                          struct hw_account_sites *out);
void hw_account_sites_done(struct hw_account_sites *a);
/* Was what is in memory of them measured with the reading of all mappings at this time? */
bool hw_account_sites_are_of(const struct hw_account_sites *a, int64_t reading_ns);
int64_t hw_account_resident(const struct hw_account_sites *a, const struct hw_site *s);
/* "read_index < main  (libindex.so)" */
void hw_account_site_name(const struct hw_site_names *names, const struct hw_site *s, size_t width,
                          struct hw_strbuf *out);
/* "mapped_by": [{"function":, "callers":, "mapped_bytes":, "resident_bytes":, "calls":}, …] */
void hw_account_sites_json(const struct hw_account_sites *a, struct hw_json *j);

#endif

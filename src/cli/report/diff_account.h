/*
 * diff_account.h - what changed in all memory of the process, by owner, next to what changed by
 * site
 *
 * Why:     a process that grew while its profile did not grew elsewhere: in free memory kept by the
 *          allocator, stacks, mappings.
 * Shapes:  only for whole processes (no --heap, no moment of a service) whose traces have readings
 *          of all mappings; two moments with the same reading are not compared. The readings
 *          closest to the dumps are used, and their times shown.
 * Owns:    struct hw_diff_account; hw_diff_account_done frees it.
 * Errors:  HW_ENOMEM.
 */
#ifndef HW_CLI_REPORT_DIFF_ACCOUNT_H
#define HW_CLI_REPORT_DIFF_ACCOUNT_H

#include <stdbool.h>

#include "views/account/memory_parts.h"
#include "views/account/parts_diff.h"

struct hw_diff_page;
struct hw_json;
struct hw_strbuf;

struct hw_diff_account {
    struct hw_memory_parts parts[2];
    struct hw_parts_diff diff;
    bool is_there; /* else there is nothing to show */
    bool is_same;  /* both moments have the same reading */
};

int hw_diff_account_find(struct hw_diff_page *pg);
void hw_diff_account_done(struct hw_diff_account *a);

void hw_diff_account_text(struct hw_diff_page *pg);
void hw_diff_account_json(const struct hw_diff_page *pg, struct hw_json *j);
void hw_diff_account_markdown(const struct hw_diff_page *pg, struct hw_strbuf *out);

#endif

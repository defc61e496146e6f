/*
 * owner_names.h - as many names of mappings as a trace is worth
 *
 * Shapes:  of more than HW_OWNERS_MAX_NAMES, those with the least memory become one of each kind:
 *          "[other files]", "[anon:other]", "/memfd:other". Names are literals then; no figure
 *          changes.
 * Errors:  HW_ENOMEM.
 * Threads: pure.
 */
#ifndef HW_PROC_OWNER_NAMES_H
#define HW_PROC_OWNER_NAMES_H

#include <stddef.h>

struct hw_smaps_entry;

int hw_owner_names_limit(struct hw_smaps_entry *entries, size_t n);

#endif

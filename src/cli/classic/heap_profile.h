/*
 * heap_profile.h - heap_profile in two halves: the request, and carrying it out
 */
#ifndef HW_CLI_CLASSIC_HEAP_PROFILE_H
#define HW_CLI_CLASSIC_HEAP_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/strbuf.h"

struct hw_cli;

struct hw_heap_profile {
    struct hw_cli *cli;
    bool host;
    char *const *command; /* host: NULL-terminated; borrowed */
    HW_VEC(uint64_t) pids;
    char *default_names[1];  /* host: the command's base name; borrowed */
    struct hw_strbuf config; /* binary */
    bool launched_only;      /* host without -n: the command and its descendants, whatever their
                                names */
};

/* Records, converts, reports; returns the exit code. */
int hw_heap_profile_run(struct hw_heap_profile *h);

#endif

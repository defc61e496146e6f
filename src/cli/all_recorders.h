/*
 * all_recorders.h - the recorders of this machine, and a word about those that do not answer
 *
 * Why:     a recorder that is stopped, or starved, keeps its recordings to itself: lists without
 *          them look complete.
 */
#ifndef HW_CLI_ALL_RECORDERS_H
#define HW_CLI_ALL_RECORDERS_H

#include "record/service.h"

struct hw_cli;

/* hw_recorders_query, with a warning for each that is silent. */
int hw_cli_query_recorders(const struct hw_cli *cli, struct hw_recorders *out,
                           struct hw_error *err);

#endif

/*
 * findings.h - `diff` and `leaks` for profiles that are not files
 *
 * Why:     profiles from the fleet's store are compared and classified like traces, with the same
 *          tables, JSON and gates.
 * Shapes:  the options are those of the two commands; each want has a profile and a label.
 * Errors:  printed; an exit code of cli.h.
 */
#ifndef HW_CLI_REPORT_FINDINGS_H
#define HW_CLI_REPORT_FINDINGS_H

#include "cli/parts/open_profile.h"

/* want[0] is A. */
int hw_diff_of(struct hw_cli *cli, const struct hw_open_profile_want want[2]);
int hw_leaks_of(struct hw_cli *cli, const struct hw_open_profile_want *want);

#endif

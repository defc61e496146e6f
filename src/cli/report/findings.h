/*
 * findings.h - `diff` and `leaks` of profiles that are no files
 *
 * Why:     what the fleet's store answers is compared and judged as traces are, with the same
 *          tables, the same JSON and the same gates.
 * Shapes:  the options are those of the two commands; a want with a profile and a label.
 * Errors:  printed; an exit code of cli.h.
 */
#ifndef HW_CLI_REPORT_FINDINGS_H
#define HW_CLI_REPORT_FINDINGS_H

#include "cli/parts/open_profile.h"

/* want[0] is A. */
int hw_diff_of(struct hw_cli *cli, const struct hw_open_profile_want want[2]);
int hw_leaks_of(struct hw_cli *cli, const struct hw_open_profile_want *want);

#endif

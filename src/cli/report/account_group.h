/*
 * account_group.h - `heapwise account --group`: who filled the memory group
 *
 * Errors: printed; the result is an exit code of cli.h.
 */
#ifndef HW_CLI_REPORT_ACCOUNT_GROUP_H
#define HW_CLI_REPORT_ACCOUNT_GROUP_H

struct hw_cli;
struct hw_open_profile;

int hw_account_group(const struct hw_cli *cli, const struct hw_open_profile *show);

#endif

/*
 * push.h - the parts of `heapwise push`
 *
 * Errors:  printed; exit codes of cli.h.
 */
#ifndef HW_CLI_PUSH_H
#define HW_CLI_PUSH_H

struct hw_cli;
struct hw_store;

/* --init-schema: makes the store's tables, or prints the statements. */
int hw_push_schema(const struct hw_cli *cli, const struct hw_store *store);

#endif

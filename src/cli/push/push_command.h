/*
 * push_command.h - the parts of `heapwise push`
 *
 * Errors:  functions with an hw_error: as in fleet/; the others print and return exit codes of
 *          cli.h.
 */
#ifndef HW_CLI_PUSH_PUSH_COMMAND_H
#define HW_CLI_PUSH_PUSH_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "fleet/push/deliver.h"
#include "fleet/push/labels.h"

struct hw_cli;
struct hw_error;
struct hw_store;

struct hw_push_job {
    const struct hw_cli *cli;
    const struct hw_store *store;
    struct hw_fleet_labels labels;
    struct hw_spool spool;
    bool has_spool;
    struct hw_delivery delivery;
    bool dry_run;
    uint64_t n_entries;
};

/* --init-schema: makes the store's tables, or prints the statements. */
int hw_push_schema(const struct hw_cli *cli, const struct hw_store *store);
/* The labels of the command line, replacing those of the job. */
int hw_push_labels(struct hw_push_job *j, struct hw_error *err);
/* The same for an open file; name is for messages. */
int hw_push_opened(struct hw_push_job *j, int fd, const char *name, struct hw_error *err);
/* --watch: pushes each file that appears in the directory, until *stop: HW_EBUSY. */
int hw_push_watch(struct hw_push_job *j, const char *dir, struct hw_error *err);

#endif

/*
 * perfetto_command.h - what the parts of the perfetto command share
 *
 * Shapes:  cmd_perfetto.c records; perfetto_config.c makes the configuration (a file, or the short
 *          form of options); perfetto_session.c queries, hands over and copies running sessions.
 * Errors:  printed; functions return an exit code of cli.h.
 */
#ifndef HW_CLI_CLASSIC_PERFETTO_COMMAND_H
#define HW_CLI_CLASSIC_PERFETTO_COMMAND_H

#include <stdbool.h>

#include "base/text/strbuf.h"
#include "config/config.h"
#include "record/recording.h"

struct hw_cli;

struct hw_perfetto {
    struct hw_cli *cli;
    struct hw_strbuf config; /* binary */
    struct hw_trace_config checked;
    bool is_checked;
    const char *path; /* of the output; "-" */
    int fd;
    bool made_file; /* by us: removed if nothing starts */
    int ready_fd;   /* -D: reports to the parent; -1 */
    struct hw_controller *controller;
    struct hw_recording recording;
};

/* Fills config and checked from -c or the short form. */
int hw_perfetto_load_config(struct hw_perfetto *p);
/* cmd_trace_start_delay: a random pause, so that many machines do not start at once. */
void hw_perfetto_delay_start(const struct hw_perfetto *p);

int hw_perfetto_connect(struct hw_perfetto *p);
/* --out, or output_path of the configuration. */
int hw_perfetto_open_output(struct hw_perfetto *p);
/* A trace for "-" was written to a file in memory first. */
int hw_perfetto_copy_to_stdout(const struct hw_perfetto *p);

int hw_perfetto_query(struct hw_perfetto *p);
int hw_perfetto_is_detached(struct hw_perfetto *p, const char *key);
int hw_perfetto_clone(struct hw_perfetto *p);

#endif

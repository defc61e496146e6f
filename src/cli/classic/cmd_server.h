/* cmd_server.h - `server KIND` and its older forms, for cmd_trace_processor.c */
#ifndef HW_CLI_CLASSIC_CMD_SERVER_H
#define HW_CLI_CLASSIC_CMD_SERVER_H

struct hw_cli;

/* word: http, stdio, unix, kill; trace may be NULL. Returns an exit code. */
int hw_cli_serve(struct hw_cli *cli, const char *word, const char *trace);

#endif

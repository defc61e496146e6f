/*
 * ui.h - opens the web page for another command that has just made a trace
 *
 * Errors:  printed; an exit code of cli.h.
 */
#ifndef HW_CLI_PARTS_UI_H
#define HW_CLI_PARTS_UI_H

struct hw_cli;

/* Shows the trace in a browser, on loopback, until Ctrl-C. */
int hw_ui_show(struct hw_cli *cli, char *trace);

#endif

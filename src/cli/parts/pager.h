/*
 * pager.h - long output on a terminal goes through $PAGER
 *
 * Shapes:  nothing happens when standard output is no terminal, with --no-pager, --json, TERM=dumb,
 *          or a pager set to "" or "cat". $HEAPWISE_PAGER, else $PAGER, else less, which is told
 *          (unless $LESS is set) to end at once when everything fits and to keep colours. Whoever
 *          looks at the terminal (width, colour) does so before.
 * Errors:  a pager that cannot be started leaves standard output as it was.
 */
#ifndef HW_CLI_PARTS_PAGER_H
#define HW_CLI_PARTS_PAGER_H

struct hw_cli;

void hw_pager_begin(struct hw_cli *cli);
/* Waits until the person has finished reading. */
void hw_pager_end(struct hw_cli *cli);

#endif

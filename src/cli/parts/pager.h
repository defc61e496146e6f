/*
 * pager.h - long output on a terminal goes through $PAGER
 *
 * Shapes:  does nothing if standard output is not a terminal, with --no-pager, --json, TERM=dumb,
 *          or a pager set to "" or "cat". $HEAPWISE_PAGER, else $PAGER, else less, which (unless
 *          $LESS is set) quits if everything fits on a screen and keeps colours. Ask for the
 *          terminal's width and colours before starting it.
 * Errors:  if the pager cannot be started, standard output is unchanged.
 */
#ifndef HW_CLI_PARTS_PAGER_H
#define HW_CLI_PARTS_PAGER_H

struct hw_cli;

void hw_pager_begin(struct hw_cli *cli);
/* Waits until the user quits the pager. */
void hw_pager_end(struct hw_cli *cli);

#endif

/*
 * live_view.h - live snapshots of a process for commands
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_DUMP_LIVE_VIEW_H
#define HW_DAEMON_DUMP_LIVE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_control_conn;
struct hw_recorder;
struct hw_target;
struct hw_dump_turn;

void hw_handle_live_view(struct hw_control_conn *c, struct hw_bytes pid);
/* Makes what the job's snapshot is wanted for: 1 = the turn is over, 0 = everything is sent. */
int hw_live_view_turn(struct hw_target *t, struct hw_dump_turn *turn);
/* Is the final snapshot to be sent to the session's command (HW_START_TELL_LAST)? For a process
 * without a sample it is reported at once. */
bool hw_live_view_begins_last(const struct hw_target *t);
/* Those for whom its dump was made: the drain thread had no memory. */
void hw_live_view_no_memory(struct hw_target *t);
void hw_live_view_drop(struct hw_target *t);
void hw_live_view_tick(struct hw_recorder *r, uint64_t now);

#endif

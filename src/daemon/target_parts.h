/*
 * target_parts.h - shared by the files of a target
 */
#ifndef HW_DAEMON_TARGET_PARTS_H
#define HW_DAEMON_TARGET_PARTS_H

#include "daemon/core.h"

/* target_fork.c */
bool hw_target_is_a_parent(const struct hw_target *t);
void hw_session_keep_parent(struct hw_session *s, struct hw_page *p);
int hw_target_make_ring(const struct hw_target *t, uint64_t bytes, struct hw_ring_reader *out);
/* What its parent executes: in a child, the same files lie there. NULL: its parent is none of ours. */
const struct hw_frames *hw_target_frames_of_parent(const struct hw_target *t);
bool hw_target_tables_ready(const struct hw_target *t);
/* For what a child has inherited: it is on its way while the child is prepared. */
void hw_target_ask_parent(const struct hw_target *t);
/* A child that is prepared: true while what it has inherited is still on its way. */
bool hw_target_awaits_parent(struct hw_target *t, uint64_t now);
void hw_target_shared_if_due(struct hw_target *t, uint64_t now);
void hw_target_refresh_if_due(struct hw_target *t, uint64_t now);
void hw_target_answer_maps(struct hw_target *t);

#endif

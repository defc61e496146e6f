/*
 * target_parts.h - shared by the files of a target
 */
#ifndef HW_DAEMON_TARGET_PARTS_H
#define HW_DAEMON_TARGET_PARTS_H

#include "daemon/core.h"

bool hw_target_tables_ready(const struct hw_target *t);
void hw_target_refresh_if_due(struct hw_target *t, uint64_t now);
void hw_target_answer_maps(struct hw_target *t);

#endif

/*
 * live_source.h - live snapshots of a process that is being recorded, by any recorder
 *
 * Shapes:  open finds the recorder that has the process, the user's own or the service; each
 *          snapshot is a trace with one dump per heap in a memory file (wire/control.h:
 *          HW_CTL_LIVE).
 * Owns:    the connection; a snapshot's descriptor belongs to the caller.
 * Errors:  HW_ENOTFOUND (nobody records it), HW_EGONE (the recorder ended), HW_EINVAL (refused).
 * Threads: one owner at a time.
 */
#ifndef HW_RECORD_LIVE_SOURCE_H
#define HW_RECORD_LIVE_SOURCE_H

#include <stdint.h>

#include "wire/control.h"

struct hw_controller;
struct hw_error;
struct hw_live_source;

/* recorder: pid of the embedded recorder that has it; 0 = any. */
int hw_live_source_open(int32_t recorder, int32_t pid, struct hw_live_source **out,
                        struct hw_error *err);
void hw_live_source_free(struct hw_live_source *s);
int hw_live_source_fetch(struct hw_live_source *s, int *fd, struct hw_control_live *facts,
                         struct hw_error *err);
/* For dumps and clones. */
struct hw_controller *hw_live_source_controller(const struct hw_live_source *s);
uint64_t hw_live_source_id(const struct hw_live_source *s);      /* of the recording */
const char *hw_live_source_name(const struct hw_live_source *s); /* of the process */
const char *hw_live_source_ref(const struct hw_live_source *s);  /* of the recording, for people */

#endif

/*
 * live_source.h - looks at a process that is being recorded, by whomever
 *
 * Shapes:  open finds the recorder that has the process, one's own or the service; each look is a
 *          trace with one dump of each heap in a memory file (wire/control.h: HW_CTL_LIVE).
 * Owns:    the connection; a look's descriptor is the caller's.
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

/* recorder: pid of an embedded one that has it; 0 = any that has. */
int hw_live_source_open(int32_t recorder, int32_t pid, struct hw_live_source **out,
                        struct hw_error *err);
void hw_live_source_free(struct hw_live_source *s);
int hw_live_source_look(struct hw_live_source *s, int *fd, struct hw_control_live *facts,
                        struct hw_error *err);
/* For dumps and clones. */
struct hw_controller *hw_live_source_controller(const struct hw_live_source *s);
uint64_t hw_live_source_id(const struct hw_live_source *s);      /* of the recording */
const char *hw_live_source_name(const struct hw_live_source *s); /* of the process */
const char *hw_live_source_ref(const struct hw_live_source *s);  /* of the recording, for people */

#endif

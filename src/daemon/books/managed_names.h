/*
 * managed_names.h - frames that a runtime in the target names itself
 *
 * Why:     no ELF file knows Java or Python functions. The target sends ids in its stacks and, a
 *          moment before or after, the name of each id (wire/records.h).
 * Shapes:  hw_managed_names is the drain thread's half: names as they came, and which ids still
 *          lack one. hw_managed_frames is the main thread's: id → frame, and the stacks that wait
 *          for names. Text comes from the target: of bounded length, any bytes.
 * Owns:    maps and lists; a name's text lies in the feed's arena and never moves or changes.
 * Errors:  HW_ENOMEM, HW_ELIMIT; what does not fit is counted, its frames show as unnamed.
 * Threads: see above.
 */
#ifndef HW_DAEMON_BOOKS_MANAGED_NAMES_H
#define HW_DAEMON_BOOKS_MANAGED_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/arena.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "model/callsites.h"
#include "wire/records.h"

#define HW_MAX_MANAGED_NAMES (1u << 20) /* of one target */

struct hw_managed_name {
    uint64_t id;
    uint32_t line; /* 0 = unknown */
    uint16_t n_function, n_file, n_module;
    char text[]; /* the three, one after the other */
};

/* ---- drain thread ---- */

struct hw_managed_names {
    struct hw_map64 ids; /* seen → has a name */
    HW_VEC(const struct hw_managed_name *) names;
    size_t n_told;      /* the names below this were reported to the main thread */
    uint64_t n_unnamed; /* ids in stacks whose names have not come yet */
    uint64_t n_lost;    /* names without room or memory */
};

void hw_managed_names_done(struct hw_managed_names *m);
/* An id is in a stack. */
int hw_managed_seen(struct hw_managed_names *m, uint64_t id);
/* A record of the ring, copied; false = damaged. */
bool hw_managed_name_record(struct hw_managed_names *m, struct hw_arena *arena, const uint8_t *rec,
                            uint32_t size);
size_t hw_managed_names_bytes(const struct hw_managed_names *m);

/* ---- main thread ---- */

struct hw_managed_frames {
    struct hw_map64 frames; /* id → frame */
    hw_mapping_id mappings[HW_MANAGED_KIND_COUNT];
    hw_frame_id unnamed[HW_MANAGED_KIND_COUNT];
};

void hw_managed_frames_init(struct hw_managed_frames *m);
void hw_managed_frames_done(struct hw_managed_frames *m);
int hw_managed_frames_name(struct hw_managed_frames *m, struct hw_callsites *cs,
                           const struct hw_managed_name *n);
bool hw_managed_frames_has(const struct hw_managed_frames *m, uint64_t id);
/* The frame of an id; of one without a name that of its kind's unnamed functions. */
int hw_managed_frames_get(struct hw_managed_frames *m, struct hw_callsites *cs, uint64_t id,
                          hw_frame_id *out);

#endif

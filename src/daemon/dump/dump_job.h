/*
 * dump_job.h - the interface between the parts of a dump's job
 *
 *     dump.c ──ready──> dump_turns.c ──rows──> dump_write.c
 *       ^                 │  └──live samples──> dump_samples.c
 *       └────finished─────┘
 *
 * Threads: the main thread.
 */
#ifndef HW_DAEMON_DUMP_DUMP_JOB_H
#define HW_DAEMON_DUMP_DUMP_JOB_H

#include <stdbool.h>
#include <stdint.h>

struct hw_error;
struct hw_snapshot;
struct hw_target;

/* ---- dump.c ---- */

/* Is the job in progress a live view (hw_dump_live)? */
bool hw_dump_is_live_view(const struct hw_target *t);
/* Its snapshot has arrived. False: an image that did nothing but start another (env, nice, a shell's
 * exec), which is not shown. */
bool hw_dump_is_worth(const struct hw_target *t);
/* Its snapshot has arrived. True: so have its stacks' frames and names, and it is its turn. */
bool hw_dump_is_ready(struct hw_target *t, uint64_t now);
/* It was written, or cannot be; starts the job that waits, if there is one. */
void hw_dump_finish(struct hw_target *t);

/* ---- dump_order.c ---- */

/* Another process that had the same number and is still to be written: readers identify a
 * process by its number and by what the trace last said about that. NULL = none. */
const struct hw_target *hw_dump_number_before(const struct hw_target *t);
/* The image before this one whose last dump is still to be written, or such a process; NULL =
 * none. */
const struct hw_target *hw_dump_image_before(const struct hw_target *t);
/* The next image, and the next process with this number, start after the last dump of this one. */
void hw_dump_begin_next(const struct hw_target *t);

/* ---- dump_samples.c ---- */

/* Which of its samples were not used since the last dump; t->idle says whether that is known. */
void hw_dump_find_idle(struct hw_target *t, const struct hw_snapshot *s);
/* dump_pins.c: adds the heap of what live blocks pin to the snapshot, if requested and known. */
void hw_dump_find_pins(struct hw_target *t, struct hw_snapshot *s);
/* dump_resident.c: adds the heap of what is resident of mmap.anon, if its mappings were read for
 * this dump, and writes what is not exact in it. */
int hw_dump_find_resident(struct hw_target *t, struct hw_snapshot *s, struct hw_error *err);
int hw_dump_answer_questions(struct hw_target *t, const struct hw_snapshot *s,
                             struct hw_error *err);

#endif

/*
 * dump_write.h - a snapshot → the dumps of a process's heaps, some rows at a time
 *
 * Why:     a process with a million callstacks has a million rows, and the thread that writes them
 *          serves every other session, too.
 * Shapes:  new → turns until one gives 0 → free. What is written was fixed before: totals by the
 *          snapshot, flags and counters by new. Between turns the process may continue, end or
 *          execute another program; its totals belong to the dump that is being written.
 * Owns:    of the snapshot: nothing, but its cells are freed as they are added up (unless kept).
 * Errors:  those of trace/writer.h; HW_ENOMEM. After an error there are no more turns.
 * Threads: the main thread.
 */
#ifndef HW_DAEMON_DUMP_DUMP_WRITE_H
#define HW_DAEMON_DUMP_DUMP_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_error;
struct hw_profile_writer;
struct hw_snapshot;
struct hw_target;

/* What one turn may do: rows (added up, written or ticked off), and until when. */
struct hw_dump_turn {
    size_t rows;
    uint64_t end_ns;
};

enum hw_dump_kind {
    HW_DUMP_CHANGES, /* what changed since the last one; the peak before it, if there is one */
    HW_DUMP_ALL,     /* the same with all rows: the last dump */
    HW_DUMP_FREED,   /* everything written before is freed (exec) */
    HW_DUMP_LIVE     /* a trace of its own, which the session's dumps do not notice */
};

struct hw_dump_order {
    enum hw_dump_kind kind;
    const char *trigger; /* constant */
    uint64_t moment_ns;  /* HW_DUMP_LIVE: its time */
    bool reason;         /* there are no books: a dump without heaps that says why */
    bool keep_cells;     /* they are needed again */
};

struct hw_dump_writing;

uint64_t hw_dump_lost_samples(const struct hw_target *t, const struct hw_snapshot *s);

int hw_dump_writing_new(struct hw_target *t, struct hw_snapshot *s, struct hw_profile_writer *w,
                        const struct hw_dump_order *ask, struct hw_dump_writing **out);
void hw_dump_writing_free(struct hw_dump_writing *x); /* NULL is fine */
/* 1 = there is more to do, 0 = everything is written. */
int hw_dump_writing_turn(struct hw_dump_writing *x, struct hw_dump_turn *turn,
                         struct hw_error *err);
/* No more rows: what was written can be read, and is no whole dump. There may be more turns: if
 * other dumps follow this one (not HW_DUMP_ALL), they need what this one knew. */
int hw_dump_writing_cut(struct hw_dump_writing *x, struct hw_error *err);

#endif

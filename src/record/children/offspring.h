/*
 * offspring.h - the processes below a started command, recorded or not
 *
 * Why:     a command may leave the work to a process that it forks, and end. With --follow-fork the
 *          recording lasts as long as that one; without, the user must know what was left out.
 * Shapes:  found in ways that the processes do not notice: as children of those known
 *          (/proc/PID/task/TID/children); and, if their parent is gone, by the recorder's control
 *          page, which each forked child has mapped, or the recording's socket in their
 *          environment, which what they execute has. One that comes and goes between two looks is
 *          not found: the number is a least one.
 * Owns:    its list.
 * Cost:    look: a few files a known process. find: two files a process that began after us.
 */
#ifndef HW_RECORD_CHILDREN_OFFSPRING_H
#define HW_RECORD_CHILDREN_OFFSPRING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"

struct hw_offspring_row {
    int32_t pid;
    uint64_t start_ticks;
    char name[64]; /* of its program */
};

struct hw_offspring {
    HW_VEC(struct hw_offspring_row) rows;
};

/* Adds what is below the process and below those known. */
void hw_offspring_scan(struct hw_offspring *o, int32_t root);
/* Adds what has a page of that recorder, or its socket in the environment. */
void hw_offspring_find(struct hw_offspring *o, int32_t root, int32_t recorder, const char *socket);
/* Does it run, with our library in it? */
bool hw_offspring_lives(const struct hw_offspring_row *row);
/* Does it run, whatever it is by now? */
bool hw_offspring_runs(const struct hw_offspring_row *row);
/* The process that has this number now, by its present name; a start of 0 = none has, which never runs. */
struct hw_offspring_row hw_offspring_now(int32_t pid);
void hw_offspring_done(struct hw_offspring *o);

#endif

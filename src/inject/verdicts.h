/*
 * verdicts.h - whether the allocator in a file can be changed in place, remembered by the file
 *
 * Why:     finding out takes going through all of the code. A browser is twenty processes of one file of
 *          200 MB, and whoever lists processes asks again every few seconds.
 * Shapes:  a few files, the one kept longest ago makes room. A file that changed is another one.
 * Threads: any.
 */
#ifndef HW_INJECT_VERDICTS_H
#define HW_INJECT_VERDICTS_H

#include <stdbool.h>
#include <stdint.h>

struct hw_error;

/* at: where in the file the code begins. rc, and for a failure why, are what was kept. */
bool hw_verdict_find(int fd, uint64_t at, int *rc, struct hw_error *why);
/* Passing failures, as a lack of memory, are not kept. */
void hw_verdict_keep(int fd, uint64_t at, int rc, const struct hw_error *why);

#endif

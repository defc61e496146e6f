/*
 * patchable_files.h - whether the allocator in a file can be changed in place, remembered by the file
 *
 * Why:     finding out means reading all of the code. A browser is twenty processes of one file of
 *          200 MB, and a process list asks again every few seconds.
 * Shapes:  a few files; the oldest entry makes room. A file that changed is another one. One thread
 *          inspects a file; others that ask meanwhile are told so.
 * Threads: any.
 */
#ifndef HW_INJECT_PATCHABLE_FILES_H
#define HW_INJECT_PATCHABLE_FILES_H

#include <stdint.h>

struct hw_error;

enum hw_patchable {
    HW_PATCHABLE_KNOWN,
    HW_PATCHABLE_SOUGHT,  /* another thread is inspecting it: ask again later */
    HW_PATCHABLE_UNKNOWN, /* inspect it, and call hw_patchable_keep whatever the result */
};

/* at: where in the file the code begins. rc, and for a failure its reason, are what was kept. */
enum hw_patchable hw_patchable_find(int fd, uint64_t at, int *rc, struct hw_error *why);
/* Passing failures, such as a lack of memory, are not kept: the next one who asks inspects it
 * again. */
void hw_patchable_keep(int fd, uint64_t at, int rc, const struct hw_error *why);

#endif

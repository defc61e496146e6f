/*
 * profile_store.h - the directory of continuous recording's profiles, with limits
 *
 * Shapes:  DIR/YYYY-MM-DD/HHMMSS.mmm-PROCESS-PID-HEAP.pb.gz (UTC), each complete or absent. Excess
 *          by age or size is deleted, oldest first. The list of files is in memory.
 * Errors:  HW_ESYS, HW_ENOMEM, HW_EPERM (a directory that others may write). On a full disk the
 *          oldest are deleted; what still does not fit is dropped and counted.
 * Cost:    O(files) once; then O(1) per file.
 * Threads: one owner.
 */
#ifndef HW_RECORD_WEB_PROFILE_STORE_H
#define HW_RECORD_WEB_PROFILE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"

/* Next to the profiles, the recorder's state: `continuous_file.h`. */
#define HW_PROFILE_STORE_STATE "state.json"

struct hw_error;

struct hw_stored_profile {
    char *path; /* owned; below the directory */
    uint64_t bytes;
    int64_t time_s; /* since 1970, from its name */
};

struct hw_profile_store {
    char *dir; /* owned */
    int fd;
    uint64_t max_bytes, max_age_s; /* 0 = no limit */
    HW_VEC(struct hw_stored_profile) files;
    size_t first; /* earlier ones are deleted */
    uint64_t bytes, n_dropped, n_removed;
};

/* Creates the directory if missing. */
int hw_profile_store_open(struct hw_profile_store *s, const char *dir, struct hw_error *err);
void hw_profile_store_close(struct hw_profile_store *s);
struct hw_profile_name {
    int64_t time_ns; /* since 1970 */
    const char *process, *heap;
    int32_t pid;
};
/* *path: the file's, the caller's; HW_ESYS: dropped. */
int hw_profile_store_add(struct hw_profile_store *s, const struct hw_profile_name *name,
                         const void *bytes, size_t n, char **path, struct hw_error *err);
/* now_s 0: the clock cannot be trusted, so only the size counts. */
void hw_profile_store_trim(struct hw_profile_store *s, int64_t now_s);
/* Writes a small file next to them, atomically. */
int hw_profile_store_note(struct hw_profile_store *s, const char *name, const void *bytes, size_t n,
                          struct hw_error *err);
/*
 * A file of ours among the profiles that is not one: the state, a FILE.labels of `heapwise push`.
 */
bool hw_profile_store_is_note(const char *name);

#endif

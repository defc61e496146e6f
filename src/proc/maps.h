/*
 * maps.h - the text of /proc/PID/maps → sorted ranges
 *
 * Why:     unwinding, naming and the table service ask "what lies at this address?". The text is
 *          the target's: names may hold anything, so every line is checked and bad ones are
 *          dropped.
 * Shapes:  entries sorted by start, disjoint. path is "" for anonymous memory, without the "
 *          (deleted)" suffix, with the kernel's octal escapes undone.
 * Units:   addresses are the target's; offset is the file offset of start.
 * Owns:    its entries and one copy of the names.
 * Errors:  HW_ENOMEM, HW_ELIMIT (more than HW_MAPS_MAX_ENTRIES), HW_ESYS, HW_EGONE.
 * Threads: one owner at a time; any number of readers once filled.
 */
#ifndef HW_PROC_MAPS_H
#define HW_PROC_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/vec.h"

struct hw_error;

#define HW_MAPS_MAX_ENTRIES (1u << 20)
#define HW_MAPS_MAX_BYTES   (256u * 1024 * 1024)

enum hw_map_flags {
    HW_MAP_READ = 1,
    HW_MAP_WRITE = 2,
    HW_MAP_EXEC = 4,
    HW_MAP_SHARED = 8,
    HW_MAP_DELETED = 16
};

struct hw_map {
    uint64_t start, end;
    uint64_t offset;
    uint64_t inode;
    uint32_t dev_major, dev_minor;
    uint32_t flags;   /* enum hw_map_flags */
    const char *path; /* borrowed from the struct hw_maps */
};

struct hw_maps {
    HW_VEC(struct hw_map) maps;
    char *text;   /* owned; the paths point into it */
    size_t n_bad; /* lines dropped: malformed, empty or overlapping */
};

/* Takes over text (malloc'ed, text[n] must be 0), also on failure. */
int hw_maps_parse(char *text, size_t n, struct hw_maps *out);
/* Reads `maps` below an open /proc/PID directory. */
int hw_maps_read(int proc_dir, struct hw_maps *out, struct hw_error *err);
void hw_maps_done(struct hw_maps *m);

/* The entry that holds addr, or NULL. O(log n). */
const struct hw_map *hw_maps_find(const struct hw_maps *m, uint64_t addr);

/* The code of a file of that name, without directories, or NULL. A file of which only other parts
 * are mapped is not loaded: a debugger reads it so, and a loader that fails leaves its first part.
 */
const struct hw_map *hw_maps_find_code(const struct hw_maps *m, const char *name);

#endif

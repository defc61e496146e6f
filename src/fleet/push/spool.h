/*
 * spool.h - a bounded directory of entries that wait to be sent
 *
 * Why:     a store may be down for an hour, and the machine may restart meanwhile.
 * Shapes:  one file per entry, NUMBER-ID.push, sent in order of numbers. A file gets its name once
 *          its bytes are on the disk, so a kill or crash at any time leaves only whole entries; the
 *          next open removes a partial file. Above max_bytes, or when the disk is full, the oldest
 *          are dropped: `dropped` counts them until that is reported. Only one process at a time
 *          has a spool open.
 * Errors:  HW_ESYS, HW_EBUSY (another process has it open), HW_ENOMEM; adding fails with HW_ELIMIT
 *          if the entry itself is dropped (counted): too large, or no space on the disk.
 * Threads: one owner at a time.
 */
#ifndef HW_FLEET_PUSH_SPOOL_H
#define HW_FLEET_PUSH_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "fleet/push/entry.h"

struct hw_error;

struct hw_spooled {
    uint64_t number, id;
    uint64_t bytes; /* of its file */
};

struct hw_spool {
    char *path; /* owned; for messages */
    int dirfd, lockfd;
    uint64_t max_bytes, bytes, next;
    HW_VEC(struct hw_spooled) waiting; /* oldest first from `first` on */
    size_t first;
    uint64_t dropped; /* not reported yet */
};

#define HW_SPOOL_NONE ((struct hw_spool){.dirfd = -1, .lockfd = -1})

/* Creates the directory if needed. */
int hw_spool_open(struct hw_spool *s, const char *path, uint64_t max_bytes, struct hw_error *err);
void hw_spool_close(struct hw_spool *s);
static inline size_t hw_spool_count(const struct hw_spool *s)
{
    return s->waiting.n - s->first;
}
int hw_spool_add(struct hw_spool *s, const struct hw_entry *e, struct hw_error *err);
/* The oldest entry: 1, 0 = empty. Invalid files are removed and counted as dropped. */
int hw_spool_peek(struct hw_spool *s, struct hw_entry *out, struct hw_error *err);
void hw_spool_pop(struct hw_spool *s); /* removes the oldest: it was sent or refused */
/* Returns `dropped` for a report, and resets it. */
uint64_t hw_spool_take_dropped(struct hw_spool *s);

/* Writes a small file of the caller's beside the entries, atomically. */
int hw_spool_keep(struct hw_spool *s, const char *name, struct hw_bytes content);
int hw_spool_kept(struct hw_spool *s, const char *name, size_t max, char **out, size_t *n);

#endif

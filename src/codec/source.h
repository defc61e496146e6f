/*
 * source.h - a stream of bytes: from a file, unpacked if necessary, or from memory
 *
 * Why:     readers that do not need a whole file at once use it, so that the unpacked file need not
 *          be in memory either.
 * Owns:    the state of unpacking, until hw_source_done; not what it reads from.
 * Errors:  read returns the number of bytes, 0 = the end, negative HW_E…: HW_ESYS, HW_EFORMAT and
 *          HW_ETRUNCATED (damaged gzip), HW_ELIMIT (unpack.h), HW_ENOMEM.
 * Threads: one owner at a time.
 */
#ifndef HW_CODEC_SOURCE_H
#define HW_CODEC_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_error;

struct hw_source {
    int64_t (*read)(void *ctx, void *p, size_t n, struct hw_error *err);
    void *ctx;
    void (*done)(void *ctx); /* NULL = nothing to do */
    int fd;                  /* what it reads from, borrowed; -1 = memory */
};

int hw_source_fd(int fd, struct hw_source *out);      /* from its current position */
int hw_source_gzip_fd(int fd, struct hw_source *out); /* unpacks; also several members */
int hw_source_bytes(struct hw_bytes b, struct hw_source *out);
/* The position in its file, for progress; false: not a file of known size. */
bool hw_source_tell(const struct hw_source *s, uint64_t *at, uint64_t *size);
void hw_source_done(struct hw_source *s);

#endif

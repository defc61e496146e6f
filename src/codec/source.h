/*
 * source.h - bytes that come one piece after the other: a file, unpacked or not, or memory
 *
 * Why:     readers that need not see a whole file take it from here, so that what is packed need
 *          not be in memory either.
 * Owns:    nothing of what it reads from; hw_source_done frees what unpacking needs.
 * Errors:  read gives how many bytes came, 0 = the end, negative HW_E…: HW_ESYS, HW_EFORMAT and
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

int hw_source_fd(int fd, struct hw_source *out);      /* from where it stands */
int hw_source_gzip_fd(int fd, struct hw_source *out); /* unpacks, several members too */
int hw_source_bytes(struct hw_bytes b, struct hw_source *out);
/* How far in its file it is, for progress; false: no file of known size. */
bool hw_source_tell(const struct hw_source *s, uint64_t *at, uint64_t *size);
void hw_source_done(struct hw_source *s);

#endif

/*
 * tar.h - tar archives
 *
 * Shapes:  reader: over bytes in memory; members are views. Regular files only: directories, links
 *          and devices are skipped. Names by ustar (with prefix), pax and GNU headers. Writer:
 *          one header block; the caller writes the bytes and pads them to HW_TAR_BLOCK, and two
 *          blocks of zeros at the end.
 * Errors:  HW_EFORMAT with offset (a header with a wrong sum), HW_ETRUNCATED (the archive ends
 *          inside a header), HW_EINVAL (a name that does not fit into a header).
 * Source:  POSIX.1-2001 pax(1), "ustar Interchange Format"
 */
#ifndef HW_CODEC_TAR_H
#define HW_CODEC_TAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_error;

#define HW_TAR_BLOCK    512u
#define HW_TAR_MAX_NAME 1024u

struct hw_tar {
    struct hw_bytes file;
    uint64_t pos;
};

struct hw_tar_member {
    char name[HW_TAR_MAX_NAME + 1]; /* cut if longer */
    struct hw_bytes bytes;
    bool truncated; /* the archive ends before the member does */
};

bool hw_tar_is(struct hw_bytes head);
/* 1 = a member, 0 = the end, < 0 = damage; members read before stay valid. */
int hw_tar_next(struct hw_tar *t, struct hw_tar_member *out, struct hw_error *err);

int hw_tar_header(const char *name, uint64_t size, int64_t mtime_s, uint8_t out[HW_TAR_BLOCK]);
/* Zeros to write after a member of that size. */
static inline size_t hw_tar_padding(uint64_t size)
{
    return (size_t)(-size & (HW_TAR_BLOCK - 1));
}

#endif

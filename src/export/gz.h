/*
 * gz.h - packs a buffer as one gzip member
 *
 * Shapes:  no name and no time in the header: the same input gives the same bytes.
 * Errors:  HW_ENOMEM, HW_ESYS from the stream.
 */
#ifndef HW_EXPORT_GZ_H
#define HW_EXPORT_GZ_H

#include <stdio.h>

#include "base/bytes.h"

struct hw_error;

int hw_gz_write(struct hw_bytes in, FILE *out, struct hw_error *err);

#endif

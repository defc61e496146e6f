/*
 * unpack.h - files and members that may be packed, with a limit on the unpacked size
 *
 * Why:     a few bytes can unpack to gigabytes: wherever untrusted data is unpacked, the output is
 *          limited by the input's size and the machine's memory.
 * Shapes:  gzip or zstd, recognized by its magic.
 * Errors:  HW_ELIMIT (its text names the limit and HEAPWISE_UNPACK_MB, which sets it), and those of
 *          gzip.h. What was unpacked before an error stays in out.
 * Threads: one owner at a time.
 */
#ifndef HW_CODEC_UNPACK_H
#define HW_CODEC_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"

struct hw_error;
struct hw_progress;

bool hw_is_packed(struct hw_bytes head);
/* How many bytes so many packed ones may unpack to, if they are streamed. */
uint64_t hw_unpack_max_passing(uint64_t packed_bytes);
/* HW_ELIMIT with its text. */
int hw_unpack_refuse(uint64_t max, uint64_t offset, struct hw_error *err);

/* Appends the first max unpacked bytes, or fewer if the data is damaged or head ends. */
void hw_unpack_head(struct hw_bytes head, size_t max, struct hw_strbuf *out);
int hw_unpack(struct hw_bytes in, struct hw_strbuf *out, struct hw_error *err);
/* A gzip file from its current position. progress (may be NULL): packed bytes that were read. */
int hw_unpack_gzip_fd(int fd, struct hw_strbuf *out, struct hw_progress *progress,
                      struct hw_error *err);

#endif

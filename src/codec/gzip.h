/*
 * gzip.h - deflate streams with their wrappers, whole or piece by piece
 *
 * Why:     traces contain deflated packets, pprof files are gzipped; zlib does the work, this code
 *          limits the output.
 * Errors:  HW_EFORMAT (damaged), HW_ETRUNCATED (ends early), HW_ELIMIT (inflates to more than
 *          max_out), HW_ENOMEM, HW_ESYS. What was inflated before an error stays in out.
 * Threads: one owner at a time.
 */
#ifndef HW_CODEC_GZIP_H
#define HW_CODEC_GZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"

struct hw_error;
struct hw_progress;

enum hw_gzip_wrapper { HW_GZIP_ZLIB, HW_GZIP_GZIP };

static inline bool hw_gzip_is(struct hw_bytes head)
{
    return head.n >= 2 && head.p[0] == 0x1f && head.p[1] == 0x8b;
}

/* Appends the inflated content; the wrapper may be zlib's or gzip's. Consecutive gzip members are
 * concatenated. */
int hw_inflate(struct hw_bytes in, size_t max_out, struct hw_strbuf *out, struct hw_error *err);
/* The same for the rest of a file. progress (may be NULL): packed bytes that were read. */
int hw_inflate_fd(int fd, size_t max_out, struct hw_strbuf *out, struct hw_progress *progress,
                  struct hw_error *err);
int hw_deflate(struct hw_bytes in, enum hw_gzip_wrapper wrapper, struct hw_strbuf *out,
               struct hw_error *err);

/* Streaming gzip into a descriptor. Nothing is complete before hw_gzip_writer_end. */
struct hw_gzip_writer;
int hw_gzip_writer_new(int fd, struct hw_gzip_writer **out, struct hw_error *err);
int hw_gzip_write(struct hw_gzip_writer *w, struct hw_bytes in, struct hw_error *err);
int hw_gzip_writer_end(struct hw_gzip_writer *w, struct hw_error *err);
void hw_gzip_writer_free(struct hw_gzip_writer *w); /* NULL is fine; does not end the stream */

/* zstd is optional: HW_EUNSUPPORTED in a build without it. */
int hw_zstd_inflate(struct hw_bytes in, size_t max_out, struct hw_strbuf *out,
                    struct hw_error *err);
/* level: zstd's, 0 = its default; clamped to its range. */
int hw_zstd_deflate(struct hw_bytes in, int level, struct hw_strbuf *out, struct hw_error *err);
bool hw_zstd_is_here(void);

#endif

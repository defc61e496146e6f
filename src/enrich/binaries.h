/*
 * binaries.h - the files that may belong to a mapping of a trace
 *
 * Why:     a trace names a path and a build id; the file with that build id may lie anywhere.
 * Shapes:  find: per root the five places of the classic order, then the build-id directory of
 *          /usr/lib/debug; before all of them the path itself (a trace of this machine). index:
 *          every file below the roots, by build id alone. Only regular files with exactly the
 *          build id asked for are offered, best place first; the caller says when it is content.
 * Owns:    the index and the texts; an offered descriptor is closed after the callback.
 * Errors:  HW_ENOMEM. What cannot be read is as if it were not there.
 * Source:  spec/symbolization.md 2
 */
#ifndef HW_ENRICH_BINARIES_H
#define HW_ENRICH_BINARIES_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/strbuf.h"

enum hw_binaries_mode { HW_BINARIES_FIND, HW_BINARIES_INDEX };

struct hw_binaries;

/* roots: separated by ':'; NULL or "" = none. */
int hw_binaries_new(const char *roots, enum hw_binaries_mode mode, struct hw_binaries **out);
void hw_binaries_free(struct hw_binaries *b);

/* 0 = try the next one, 1 = content, < 0 = error. The callback may keep a dup() of fd. */
typedef int (*hw_binaries_fn)(void *ctx, int fd, const char *path);
/* 1 = the callback was content, 0 = not. other: where a file of that name with another build id is,
 * and its id in hexadecimal, as "PATH (Build ID: HEX)"; may be NULL. */
int hw_binaries_offer(struct hw_binaries *b, const char *path, struct hw_bytes build_id,
                      hw_binaries_fn fn, void *ctx, struct hw_strbuf *other);

void hw_hex_add(struct hw_strbuf *out, struct hw_bytes raw); /* lower case */

#endif

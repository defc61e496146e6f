/*
 * binaries.h - finds the file that belongs to a mapping of a trace
 *
 * Why:     a trace has a path and a build id; the file with that build id may be anywhere.
 * Shapes:  find: per root the five places of the classic order, then the build-id directory of
 *          /usr/lib/debug; before all of them the path itself (a trace of this machine). index:
 *          every file below the roots, by build id alone; links are followed, but no directory or
 *          file is visited twice, and the kernel's own file systems are skipped. Only regular files
 *          with exactly the build id asked for are offered, best place first; the caller says when
 *          to stop. A file that keeps its debug info in another one (.gnu_debuglink) is followed by
 *          that: of the same build id, or without any and of the sum the link names. Somebody
 *          else's trace names paths of another machine, or of ours to learn what is there: with
 *          no_paths files are searched only by build id or below a root, and links that lead out of
 *          the roots give nothing.
 * Owns:    the index and the texts; an offered descriptor is closed after the callback.
 * Errors:  HW_ENOMEM. What cannot be read is as if it were not there.
 * Source:  doc/design/symbolization.md
 */
#ifndef HW_ENRICH_BINARIES_H
#define HW_ENRICH_BINARIES_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"

enum hw_binaries_mode { HW_BINARIES_FIND, HW_BINARIES_INDEX };

struct hw_binaries;

enum hw_binaries_try { HW_TRY_ABSENT, HW_TRY_NO_ELF, HW_TRY_OTHER_ID, HW_TRY_FITS };

struct hw_binaries_where {
    const char *roots;       /* separated by ':'; NULL or "" = none */
    const char *const *more; /* roots one by one; borrowed while new runs */
    size_t n_more;
    enum hw_binaries_mode mode;
    bool paths_too; /* index: first the mapping's path itself */
    bool no_paths;  /* both: never that path itself */
    /* index: every few hundred files; may be NULL */
    void (*progress)(void *ctx, size_t files);
    /* each place that was tried, in order; id: of what is there. May be NULL */
    void (*tried)(void *ctx, const char *path, enum hw_binaries_try how, struct hw_bytes id);
    bool (*stopped)(void *ctx); /* index: true = examine no further files; may be NULL */
    void *ctx;
};

int hw_binaries_new(const struct hw_binaries_where *w, struct hw_binaries **out);
void hw_binaries_free(struct hw_binaries *b);

/* 0 = try the next one, 1 = accepted, < 0 = error. The callback may keep a dup() of fd. */
typedef int (*hw_binaries_fn)(void *ctx, int fd, const char *path);
/* 1 = the callback was content, 0 = not. other: where a file of that name with another build id is,
 * and its id in hexadecimal, as "PATH (Build ID: HEX)"; may be NULL. */
int hw_binaries_offer(struct hw_binaries *b, const char *path, struct hw_bytes build_id,
                      hw_binaries_fn fn, void *ctx, struct hw_strbuf *other);

/* The same for the kernel of that release: its image in the usual places, in each root and on this
 * machine. A build id of 0 bytes fits every file. */
int hw_binaries_offer_kernel(struct hw_binaries *b, const char *release, struct hw_bytes build_id,
                             hw_binaries_fn fn, void *ctx, struct hw_strbuf *other);

void hw_hex_add(struct hw_strbuf *out, struct hw_bytes raw); /* lower case */

#endif

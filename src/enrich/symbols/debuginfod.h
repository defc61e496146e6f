/*
 * debuginfod.h - debug files from the servers that DEBUGINFOD_URLS names
 *
 * Why:     distributions keep the debug info of everything they ship on such servers.
 * Shapes:  libdebuginfod is loaded at its first use and only with DEBUGINFOD_URLS set: it brings a
 *          whole HTTP client along. It keeps what it fetched in a cache of its own.
 * Units:   a file may be 4 GiB and take ten minutes, and must grow by 16 KiB in 90 seconds;
 *          DEBUGINFOD_MAXSIZE, DEBUGINFOD_MAXTIME and DEBUGINFOD_TIMEOUT, the library's own
 *          variables, change that.
 * Errors:  HW_ENOTFOUND (no server configured, or none has the file), HW_EUNSUPPORTED (servers are
 *          configured, but the library is not installed), HW_ETIMEOUT, HW_ELIMIT (too large),
 *          HW_EGONE (no server answers, or stopped). After one of the last three nobody is asked
 *          again: HW_ENOTFOUND.
 * Threads: one owner at a time.
 */
#ifndef HW_ENRICH_SYMBOLS_DEBUGINFOD_H
#define HW_ENRICH_SYMBOLS_DEBUGINFOD_H

#include <stdbool.h>

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_debuginfod;
struct hw_error;

/* DEBUGINFOD_URLS is set. */
bool hw_debuginfod_configured(void);
/* libdebuginfod can be loaded. */
bool hw_debuginfod_installed(void);

/* Called about once a second while something is fetched: bytes that came, of how many (0 =
 * unknown). true = stop. */
typedef bool (*hw_debuginfod_wait_fn)(void *ctx, uint64_t done, uint64_t total);

/* wait may be NULL. */
int hw_debuginfod_new(hw_debuginfod_wait_fn wait, void *ctx, struct hw_debuginfod **out);
void hw_debuginfod_free(struct hw_debuginfod *d); /* NULL is fine */
/* The file with debug info, else the program itself. The caller closes *fd. */
int hw_debuginfod_find(struct hw_debuginfod *d, struct hw_bytes build_id, int *fd,
                       struct hw_error *err);

#endif

/*
 * debuginfod.h - debug files from the servers that DEBUGINFOD_URLS names
 *
 * Why:     distributions keep the debug info of everything they ship on such servers.
 * Shapes:  libdebuginfod is loaded when it is asked for the first time and only with
 *          DEBUGINFOD_URLS set: it brings a whole HTTP client along. It keeps what it fetched in a
 *          cache of its own and waits as long as DEBUGINFOD_TIMEOUT says.
 * Errors:  HW_ENOTFOUND (no server configured, or none has the file), HW_EUNSUPPORTED (servers are
 *          configured, but the library is not installed).
 * Threads: one owner at a time.
 */
#ifndef HW_ENRICH_DEBUGINFOD_H
#define HW_ENRICH_DEBUGINFOD_H

#include <stdbool.h>

#include "base/bytes.h"

struct hw_debuginfod;

/* DEBUGINFOD_URLS is set. */
bool hw_debuginfod_configured(void);
/* libdebuginfod can be loaded. */
bool hw_debuginfod_installed(void);

int hw_debuginfod_new(struct hw_debuginfod **out);
void hw_debuginfod_free(struct hw_debuginfod *d); /* NULL is fine */
/* The file with debug info, else the program itself. The caller closes *fd. */
int hw_debuginfod_find(struct hw_debuginfod *d, struct hw_bytes build_id, int *fd);

#endif

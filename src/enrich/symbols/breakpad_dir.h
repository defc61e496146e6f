/*
 * breakpad_dir.h - a tree of Breakpad's .sym files, looked up by module name and id
 *
 * Shapes:  every file that begins with a MODULE record is one; links are not followed. A module is
 *          found by the base name of its path, letters of either case, without ".pdb". Of several
 *          the one with the build id is taken: INFO CODE_ID, else the 32 digits of MODULE, which
 *          are the id's first 16 bytes as a GUID.
 * Owns:    the index; an opened symbol file belongs to the caller.
 * Errors:  HW_ESYS (the directory cannot be read), HW_ENOMEM.
 * Source:  doc/formats/memory-infra.md, "Names"
 */
#ifndef HW_ENRICH_SYMBOLS_BREAKPAD_DIR_H
#define HW_ENRICH_SYMBOLS_BREAKPAD_DIR_H

#include <stdbool.h>

#include "base/bytes.h"

struct hw_breakpad;
struct hw_breakpad_dir;
struct hw_error;

int hw_breakpad_dir_open(const char *dir, struct hw_breakpad_dir **out, struct hw_error *err);
void hw_breakpad_dir_close(struct hw_breakpad_dir *d); /* NULL is fine */

/* HW_ENOTFOUND: no such module; *other_id: there is one of the name with another id. any_id: the
 * name is enough. */
int hw_breakpad_dir_find(struct hw_breakpad_dir *d, const char *path, struct hw_bytes build_id,
                         bool any_id, bool *other_id, struct hw_breakpad **out,
                         struct hw_error *err);

#endif

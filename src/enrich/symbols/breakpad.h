/*
 * breakpad.h - Breakpad's symbol files
 *
 * Shapes:  text: FILE and FUNC records, line records below their FUNC, PUBLIC symbols. An address
 *          belongs to the FUNC that covers it, else to the nearest PUBLIC before it, which reaches
 *          to the next symbol and at most 0xffff bytes. No inlined functions.
 * Owns:    the file's text; answers live as long.
 * Errors:  HW_ENOTFOUND (no file for the build id), HW_EFORMAT with file and line in the
 *          text and the line as offset, HW_ESYS, HW_ELIMIT (2 GiB), HW_ENOMEM.
 * Source:  doc/design/symbolization.md, "Formats of names"
 */
#ifndef HW_ENRICH_SYMBOLS_BREAKPAD_H
#define HW_ENRICH_SYMBOLS_BREAKPAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "elf/lines.h"

struct hw_breakpad;
struct hw_error;

/* DIR/<BUILD ID>.breakpad. */
int hw_breakpad_open(const char *dir, struct hw_bytes build_id, struct hw_breakpad **out,
                     struct hw_error *err);
int hw_breakpad_parse(struct hw_bytes text, struct hw_breakpad **out, struct hw_error *err);
void hw_breakpad_free(struct hw_breakpad *b);
bool hw_breakpad_at(const struct hw_breakpad *b, uint64_t address, struct hw_line *out);

#endif

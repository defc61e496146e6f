/*
 * addr2line.h - names from addr2line, for users who want another reader of debug info than ours
 *
 * Why:     an address of a foreign architecture's file or of a new DWARF is sometimes better read
 *          by the addr2line that came with the compiler.
 * Shapes:  one process a file: `PROGRAM -a -f -i -e FILE`, addresses by standard input. Answers are
 *          as those of elf/lines.h, without a file and line.
 * Errors:  HW_ESYS (not started), HW_EFORMAT (it answers something else), HW_EGONE (it failed).
 * Threads: any.
 */
#ifndef HW_ENRICH_LINES_ADDR2LINE_H
#define HW_ENRICH_LINES_ADDR2LINE_H

#include <stddef.h>
#include <stdint.h>

#include "elf/lines.h"

struct hw_error;

int hw_addr2line(const char *program, const char *path, const uint64_t *addresses, size_t n,
                 hw_lines_fn answer, void *ctx, struct hw_error *err);

#endif

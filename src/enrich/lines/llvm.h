/*
 * llvm.h - functions, files and lines from a running llvm-symbolizer
 *
 * Why:     a second reader of debug info, for users who trust it more or have a newer one than this
 *          machine's elfutils.
 * Shapes:  one process for all files, asked through a pipe: `"PATH" 0xADDRESS` a line, answered by
 *          one line of JSON. Many requests are in flight at a time. Answers are as those of
 *          elf/lines.h, names as in the file (mangled).
 * Errors:  the process cannot be started: HW_ESYS. It ends (HW_EGONE), says nothing for the time
 *          limit (HW_ETIMEOUT) or something else than an answer (HW_EFORMAT): it is killed, and
 *          hw_llvm_is_broken from then on. Built without a JSON reader: HW_EUNSUPPORTED.
 * Threads: one owner at a time.
 * Source:  doc/design/symbolization.md, "llvm-symbolizer"
 */
#ifndef HW_ENRICH_LINES_LLVM_H
#define HW_ENRICH_LINES_LLVM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/lines.h"

struct hw_error;
struct hw_llvm;

/* program: a path, or a name to look up in PATH. limit_ms: the longest silence. */
int hw_llvm_start(const char *program, unsigned limit_ms, struct hw_llvm **out,
                  struct hw_error *err);
void hw_llvm_stop(struct hw_llvm *l); /* NULL is fine */
bool hw_llvm_is_broken(const struct hw_llvm *l);

/* Calls answer once for each address, in order; what it returns, if not 0, ends the questions and
 * is returned. A path with line breaks or both kinds of quotes: HW_EINVAL. */
int hw_llvm_resolve(struct hw_llvm *l, const char *path, const uint64_t *addresses, size_t n,
                    hw_lines_fn answer, void *ctx, struct hw_error *err);

#endif

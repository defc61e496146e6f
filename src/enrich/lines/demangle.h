/*
 * demangle.h - names as people write them
 *
 * Why:     ELF symbols are mangled; readers want `Cache::insert(int)`. The trace keeps the raw
 *          name.
 * Shapes:  C++ (Itanium ABI), Rust (legacy and v0) and D. A name that is none of these, is broken,
 *          longer than HW_DEMANGLE_MAX_IN, would become longer than HW_DEMANGLE_MAX_OUT or takes
 *          100 ms stays as it is: a few dozen bytes of substitutions can stand for gigabytes. So do
 *          the rest of a demangler's names behind 256 MiB of text, or, of those with many back
 *          references, 5 s of processor time.
 * Owns:    the answers, until hw_demangler_free; each name id is demangled once.
 * Errors:  only from new (HW_ENOMEM); later a failure means the raw name.
 * Threads: one owner at a time. Takes SIGVTALRM, for the time it works.
 */
#ifndef HW_ENRICH_LINES_DEMANGLE_H
#define HW_ENRICH_LINES_DEMANGLE_H

#include <stddef.h>

#include "base/text/strings.h"

#define HW_DEMANGLE_MAX_IN  4096u
#define HW_DEMANGLE_MAX_OUT 16384u

struct hw_demangler;

int hw_demangler_new(const struct hw_strings *names, struct hw_demangler **out);
void hw_demangler_free(struct hw_demangler *d);
/* The name to show; the raw one if there is no better one. Never NULL. */
const char *hw_demangle(struct hw_demangler *d, hw_str_id raw);
/* The same as a callback (views/flame/functions.h: hw_namer); ctx is the demangler. */
const char *hw_demangle_shown(void *ctx, hw_str_id raw);

/* One name without a cache: malloc'ed, or NULL when it stays as it is. */
char *hw_demangle_text(const char *raw);

#endif

/*
 * jit_code.h - which generated code is at an address now
 *
 * Why:     programs that generate code describe it in files (perf maps, jitdump). Code is freed and
 *          its memory reused, so a later entry hides the parts of earlier ones that it overlaps.
 * Shapes:  disjoint ranges with a name each, and optionally the lines of its source by address.
 * Owns:    copies of names, files and lines, until done; a find stays valid until then as well.
 * Errors:  HW_ENOMEM, HW_ELIMIT (a range that is empty, too large or wraps; too much in all).
 */
#ifndef HW_PROC_JIT_JIT_CODE_H
#define HW_PROC_JIT_JIT_CODE_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/arena.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"

#define HW_JIT_MAX_CODE_BYTES  (UINT64_C(1) << 30) /* of one entry */
#define HW_JIT_MAX_NAME        4096u               /* longer ones are cut */
#define HW_JIT_MAX_ENTRIES     (1u << 20)
#define HW_JIT_MAX_TOTAL_BYTES (256u * 1024 * 1024)

/* From this address to the next entry's. */
struct hw_jit_line {
    uint64_t address;
    const char *file; /* with NUL */
    uint32_t line;
};

struct hw_jit_entry {
    const char *name;                /* with NUL */
    const struct hw_jit_line *lines; /* ascending */
    uint64_t made_at;                /* where its addresses begin; code is moved afterwards */
    uint32_t n_lines;
};

struct hw_jit_range {
    uint64_t lo, hi;
    uint64_t moved; /* address now - address in the entry */
    const struct hw_jit_entry *entry;
};

typedef HW_VEC(struct hw_jit_range) hw_jit_ranges;

struct hw_jit_code {
    hw_jit_ranges settled; /* sorted, disjoint */
    hw_jit_ranges middle;  /* the same, fewer, and in front of settled */
    hw_jit_ranges recent;  /* the same, few, and in front of middle */
    uint64_t n_moved;      /* ranges that were written again: what adding costs */
    struct hw_arena arena;
    struct hw_map64 files; /* hash of a file's name → the copy */
    uint32_t n_entries;
};

void hw_jit_code_done(struct hw_jit_code *c); /* all zero is empty */

/* lines: n_lines by ascending address, or NULL. Name and lines are copied; the name ends at its
 * first NUL or control character. */
int hw_jit_code_add(struct hw_jit_code *c, uint64_t at, uint64_t size, struct hw_bytes name,
                    const struct hw_jit_line *lines, uint32_t n_lines);
/* The code that began at `from` now begins at `to`. Unknown code: nothing happens. */
int hw_jit_code_move(struct hw_jit_code *c, uint64_t from, uint64_t to, uint64_t size);

const struct hw_jit_range *hw_jit_code_find(const struct hw_jit_code *c, uint64_t address);
/* The line that an address in the range belongs to, or NULL. */
const struct hw_jit_line *hw_jit_line_of(const struct hw_jit_range *r, uint64_t address);

/* A copy of a file's name, the same for the same name; NULL = no memory. */
const char *hw_jit_code_file(struct hw_jit_code *c, struct hw_bytes name);

size_t hw_jit_code_bytes(const struct hw_jit_code *c); /* of memory */

#endif

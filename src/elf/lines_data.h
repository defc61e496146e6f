/*
 * lines_data.h - what the files that read debug info share
 *
 * Source: elf/lines.h, elf/new_types.h
 */
#ifndef HW_ELF_LINES_DATA_H
#define HW_ELF_LINES_DATA_H

#include <elfutils/libdw.h>

#include "base/memory/arena.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "elf/lines.h"
#include "elf/needed.h"
#include "elf/packed.h"

struct hw_unit_range {
    uint64_t low, high;
    Dwarf_Off unit; /* of the unit's DIE */
};

struct hw_function_range {
    uint64_t low, high;
    Dwarf_Die die;
};

struct hw_lines {
    struct hw_elf *symbols;
    Elf *elf;
    Dwarf *dwarf;                  /* NULL = no debug info */
    struct hw_packed *info, *line; /* NULL = not packed, or whole from the start */
    Elf_Scn *aranges;              /* NULL = none */
    struct hw_needed_units needed;
    HW_VEC(struct hw_unit_range) units; /* sorted by low */
    bool units_ready;

    /* the current unit */
    Dwarf_Off unit;
    bool has_unit, is_deep;
    Dwarf_Die unit_die, tree; /* tree: where its functions are, elsewhere in split debug info */
    Dwarf_Files *files;
    HW_VEC(struct hw_function_range) functions; /* sorted by low */
    struct hw_line chain[HW_MAX_INLINE_DEPTH];

    const char *directory; /* where the unit was compiled; NULL = unknown */
    struct hw_map64 whole; /* address of a relative file name -> the whole path */
    struct hw_arena paths;
};

/* What may follow references anywhere begins with this; answers given before become invalid. */
void hw_lines_unpack_all(struct hw_lines *l);

/* The function that covers va, in the unit that becomes the current one; *out NULL: none.
 * Borrowed until the next call. */
int hw_lines_function(struct hw_lines *l, uint64_t va, Dwarf_Die **out);
#define HW_DIE_DEPTH 64

/* Entries below one, without recursion: the path is an array, as deep as real programs nest. */
struct hw_die_walk {
    Dwarf_Die open[HW_DIE_DEPTH];
    size_t depth;
};

/* The first child; NULL: it has none. */
Dwarf_Die *hw_die_walk_begin(struct hw_die_walk *w, Dwarf_Die *of);
/* The next entry, with `inside` first those in this one; NULL at the end. */
Dwarf_Die *hw_die_walk_next(struct hw_die_walk *w, bool inside);

#endif

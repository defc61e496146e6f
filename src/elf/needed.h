/*
 * needed.h - which parts of packed debug info the units of some addresses need
 *
 * Why:     a unit's entries refer to each other, but for some that name another unit; so its own
 *          part of .debug_info and of .debug_line is enough, and .debug_aranges says which unit it
 *          is. Where that is not so, everything is unpacked.
 * Owns:    nothing; what is unpacked belongs to elf/packed.h.
 * Errors:  none: what is damaged is empty afterwards.
 */
#ifndef HW_ELF_NEEDED_H
#define HW_ELF_NEEDED_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "elf/packed.h"

/* Where their headers are, or their first entries. */
struct hw_needed_units {
    Dwarf_Off *v;
    size_t n, cap;
};

/* The headers of the units of all addresses, which ascend; HW_ENOTFOUND: that of one is unknown.
 * HW_ENOMEM. */
int hw_needed_find(struct hw_bytes aranges, const uint64_t *ascending, size_t n,
                   struct hw_needed_units *out);

/* Unpacks the unit, or its part of .debug_line, that begins there. */
void hw_needed_unpack(struct hw_packed *section, Dwarf_Off at, bool *changed);

/* The first entry of the unit that begins there. */
bool hw_needed_enter(Dwarf *dwarf, Dwarf_Off at, Dwarf_Die *out);
/* It has entries that refer to other units, or nobody can say. */
bool hw_needed_has_others(Dwarf_Die *unit);
/* Where its part of .debug_line begins. */
bool hw_needed_lines(Dwarf_Die *unit, Dwarf_Off *out);

#endif

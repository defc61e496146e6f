/*
 * packed.h - a packed section of debug info, unpacked from its start as far as somebody reads it
 *
 * Why:     a debug package has megabytes of debug info for each file, packed by zlib; the few stacks
 *          of a recording need one part in a hundred of it. libelf unpacks all or nothing.
 * Shapes:  libdw is given a section that ends where unpacking has got to, and has to begin anew after
 *          more was unpacked, or one that is zeros from there on.
 * Owns:    the unpacked bytes; they stay in place, and have to outlive the Elf.
 * Errors:  HW_EFORMAT: damaged; from then on the section is empty.
 * Threads: one owner at a time.
 */
#ifndef HW_ELF_PACKED_H
#define HW_ELF_PACKED_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_packed;

enum hw_packed_end { HW_PACKED_GROWS, HW_PACKED_ZEROS };

/* NULL: the section is not packed, or in a way that is left to libelf. Borrows fd and the Elf. */
struct hw_packed *hw_packed_new(Elf *elf, Elf_Scn *scn, int fd, enum hw_packed_end end);
void hw_packed_free(struct hw_packed *s);

/* Unpacks the first n bytes, or all there are; *changed is set if there were fewer before. */
int hw_packed_reach(struct hw_packed *s, uint64_t n, bool *changed);

bool hw_packed_is_whole(const struct hw_packed *s);
struct hw_bytes hw_packed_bytes(const struct hw_packed *s); /* what is unpacked */

#endif

/*
 * symbols.h - function symbols of one image, sorted by address
 *
 * Why:     a report asks for the function of thousands of addresses; a linear walk over a symbol
 *          table per question (as libraries do) costs milliseconds each in large files.
 * Shapes:  one entry per address and function; at equal addresses the best name stays: global
 *          before weak before local, then the one with a size, then the shorter. *Folded* is an
 *          entry at whose address other functions were: linkers and compilers keep one of several
 *          with the same code. Aliases (other spellings of one name, weak names of C functions,
 *          variants of a constructor) are not that.
 * Owns:    entries and string tables; names are borrowed until hw_symbols_done.
 * Errors:  HW_ENOMEM, HW_ELIMIT; damaged tables are left out as if absent.
 * Threads: one owner at a time; lookups after hw_symbols_sort change nothing.
 */
#ifndef HW_ELF_SYMBOLS_H
#define HW_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"

struct hw_error;
struct hw_image;

struct hw_symbol {
    uint64_t start;
    uint64_t end;     /* after sort: where it stops covering */
    uint64_t reaches; /* after sort: the greatest end of this and all before */
    const char *name;
    uint8_t rank; /* greater is better */
    bool sized;
    bool folded; /* after sort */
};

struct hw_symbols {
    HW_VEC(struct hw_symbol) list;
    HW_VEC(char *) strings; /* owned */
};

/* Adds the defined functions of `.symtab` or `.dynsym`; absent = nothing added. */
int hw_symbols_add(struct hw_symbols *s, const struct hw_image *img, const char *section,
                   struct hw_error *err);
void hw_symbols_sort(struct hw_symbols *s);
void hw_symbols_done(struct hw_symbols *s);

/* The function that covers va, or NULL. O(log n). */
const struct hw_symbol *hw_symbols_at(const struct hw_symbols *s, uint64_t va);

/* Is there a defined function or object of that name in the section? O(symbols). */
bool hw_symbols_find(const struct hw_image *img, const char *section, const char *name,
                     uint64_t *va);
bool hw_symbols_find_sized(const struct hw_image *img, const char *section, const char *name,
                           uint64_t *va, uint64_t *size);
/* Is a sanitizer's allocator in the program (base/sanitizers.def)? The section's strings name
 * its runtime (.dynsym's, as a needed library) or what instrumented code calls. */
bool hw_symbols_have_sanitizer(const struct hw_image *img, const char *section);
/* Is this the file of such a runtime? */
bool hw_symbols_is_sanitizer(const char *path);

#endif

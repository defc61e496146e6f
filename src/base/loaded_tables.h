/*
 * loaded_tables.h - the symbols and slots of an object that the loader has mapped
 *
 * Why:     who puts a function of his own behind another object's calls needs the slots through
 *          which it calls, by name: the client and the library for JVMs, each in a program of others.
 * Shapes:  slots[0] are those of data and eager calls, slots[1] those of lazy calls; either may be
 *          absent. Everything is in the object's memory, and trusted like its code.
 * Errors:  symbols or names NULL: it has none.
 */
#ifndef HW_BASE_LOADED_TABLES_H
#define HW_BASE_LOADED_TABLES_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_loaded_tables {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *names;
    struct {
        const ElfW(Rela) * v;
        size_t n;
    } slots[2];
};

static inline void hw_loaded_tables_take(struct hw_loaded_tables *t, const ElfW(Dyn) * d)
{
    uintptr_t v = d->d_un.d_ptr; /* glibc has made it absolute, musl has not */
    const void *p = (const void *)(v < t->base ? v + t->base : v);
    if (d->d_tag == DT_SYMTAB)
        t->symbols = p;
    else if (d->d_tag == DT_STRTAB)
        t->names = p;
    else if (d->d_tag == DT_RELA)
        t->slots[0].v = p;
    else if (d->d_tag == DT_RELASZ)
        t->slots[0].n = d->d_un.d_val / sizeof *t->slots[0].v;
    else if (d->d_tag == DT_JMPREL)
        t->slots[1].v = p;
    else if (d->d_tag == DT_PLTRELSZ)
        t->slots[1].n = d->d_un.d_val / sizeof *t->slots[1].v;
}

static inline void hw_loaded_tables_read(struct hw_loaded_tables *t,
                                         const struct dl_phdr_info *info)
{
    *t = (struct hw_loaded_tables){.base = info->dlpi_addr};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        const ElfW(Dyn) *d = (const void *)(t->base + info->dlpi_phdr[i].p_vaddr);
        for (; d->d_tag != DT_NULL; d++)
            hw_loaded_tables_take(t, d);
    }
}

/* The name of what is called through a slot; NULL: it is no slot of a function. 64-bit objects. */
static inline const char *hw_loaded_slot_name(const struct hw_loaded_tables *t,
                                              const ElfW(Rela) * slot)
{
    uint64_t type = ELF64_R_TYPE((uint64_t)slot->r_info);
#if defined(__x86_64__)
    bool is_function = type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
    bool is_function = type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
#else
    bool is_function = false && type; /* none is known of others */
#endif
    return is_function ? t->names + t->symbols[ELF64_R_SYM((uint64_t)slot->r_info)].st_name : NULL;
}

#endif

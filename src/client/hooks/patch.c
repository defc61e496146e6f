/*
 * patch.c - hooks by changing the words through which modules call the allocator
 *
 * For a running program all of the hooks; for a preloaded one operator new and delete, and only
 * where the allocator has some of its own (see new_delete_hooks.c). Modules that are loaded later
 * call these by name, since boot.c shows the names then.
 *
 * A module calls a function of another through a word that the loader has filled: a slot of its
 * procedure linkage table (JUMP_SLOT), of its global offset table (GLOB_DAT, also for `&free`), or
 * of its data (64, tables of functions). Each word that the loader would have pointed at one of our
 * hooks, had we been preloaded, is pointed there now:
 *
 *      word == true definition              -> hook     the first in load order, as for a preload
 *      word in its own module, lazy         -> hook     not called so far
 *      anything else                        -> left     the program's own doing, or RTLD_DEEPBIND
 *
 * and back: word == hook -> true definition. Nothing is remembered, so a module that was unloaded
 * meanwhile cannot be damaged. Not looked at: ourselves, the loader, and the allocator's own module
 * unless that is libc, whose other functions call malloc as any program does.
 *
 * A word is stored atomically, as other threads keep running. Pages that the loader has made
 * read-only (RELRO) are made writable for that time.
 */
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/hooks/patch.h"

#if defined(__x86_64__)
#define RELOC_SLOT R_X86_64_JUMP_SLOT
#define RELOC_GLOB R_X86_64_GLOB_DAT
#define RELOC_WORD R_X86_64_64
#elif defined(__i386__)
#define RELOC_SLOT R_386_JMP_SLOT
#define RELOC_GLOB R_386_GLOB_DAT
#define RELOC_WORD R_386_32
#else
#define RELOC_SLOT R_AARCH64_JUMP_SLOT
#define RELOC_GLOB R_AARCH64_GLOB_DAT
#define RELOC_WORD R_AARCH64_ABS64
#endif

#if defined(__i386__) /* addends are in place, where the loader has consumed them */
typedef ElfW(Rel) relocation;
#define RELOC_TYPE(r)   ELF32_R_TYPE((r)->r_info)
#define RELOC_SYMBOL(r) ELF32_R_SYM((r)->r_info)
#define RELOC_ADDEND(r) 0
#define RELOC_TABLE     DT_REL
#define RELOC_BYTES     DT_RELSZ
#else
typedef ElfW(Rela) relocation;
#define RELOC_TYPE(r)   ELF64_R_TYPE((r)->r_info)
#define RELOC_SYMBOL(r) ELF64_R_SYM((r)->r_info)
#define RELOC_ADDEND(r) ((r)->r_addend)
#define RELOC_TABLE     DT_RELA
#define RELOC_BYTES     DT_RELASZ
#endif

#if __SIZEOF_SIZE_T__ == 8
#define OPERATOR_NEW "_Znwm"
#else
#define OPERATOR_NEW "_Znwj"
#endif

enum kind { ALWAYS, OWN_ONLY, TABLE_ONLY, CALLS };

enum {
#define X(name, kind) N_##name,
#include "wire/hooked.def"
#include "wire/hooked_maps.def"
#undef X
    N_NAMES
};

static const struct {
    const char *name;
    enum kind kind;
} names[] = {
#define X(name, kind) {#name, kind},
#include "wire/hooked.def"
#include "wire/hooked_maps.def"
#undef X
};

static uintptr_t real[N_NAMES]; /* 0 = there is none, or it is not to be hooked */
static uintptr_t hooks[N_NAMES];
static uint8_t firsts[256]; /* is there a name with this first byte? */

static void find_real(bool operators_only)
{
    for (size_t i = 0; i < N_NAMES; i++) {
        bool own;
        if (operators_only && names[i].kind != OWN_ONLY)
            continue;
        void *p = hw_boot_first(names[i].name, &own);
        /* By the name's own address the linker would give us libc's, as it does for everybody. */
        hooks[i] = (uintptr_t)hw_boot_own_symbol(names[i].name);
        real[i] = p && hooks[i] && (own || names[i].kind != OWN_ONLY) ? (uintptr_t)p : 0;
        firsts[(unsigned char)names[i].name[0]] = 1;
    }
}

static size_t name_index(const char *s)
{
    if (!firsts[(unsigned char)s[0]])
        return N_NAMES;
    for (size_t i = 0; i < N_NAMES; i++)
        if (s[0] == names[i].name[0] && s[1] == names[i].name[1] && strcmp(s, names[i].name) == 0)
            return i;
    return N_NAMES;
}

/* ---- one module ---- */

struct module {
    uintptr_t base, lo, hi;       /* of its image */
    uintptr_t relro_lo, relro_hi; /* whole pages that are read-only by now */
    const ElfW(Dyn) * dynamic;
    const ElfW(Sym) * symbols;
    const char *strings;
    const relocation *plt, *rela;
    size_t n_plt, n_rela;
    uintptr_t opened; /* the page that is writable now; 0 = none */
};

struct job {
    bool on;
    uintptr_t page;
    struct hw_patch_counts *counts;
};

static void page_close(struct module *m, uintptr_t page_bytes)
{
    if (m->opened)
        (void)mprotect((void *)m->opened, page_bytes, PROT_READ); /* as the loader left it */
    m->opened = 0;
}

static bool page_open(struct module *m, uintptr_t at, uintptr_t page_bytes)
{
    uintptr_t page = at & ~(page_bytes - 1);
    if (at < m->relro_lo || at >= m->relro_hi || page == m->opened)
        return true;
    page_close(m, page_bytes);
    if (mprotect((void *)page, page_bytes, PROT_READ | PROT_WRITE) != 0)
        return false;
    m->opened = page;
    return true;
}

static bool inside(const struct module *m, uintptr_t a)
{
    return a - m->lo < m->hi - m->lo;
}

static void patch_word(struct job *j, struct module *m, const relocation *r)
{
    unsigned type = (unsigned)RELOC_TYPE(r);
    if (type != RELOC_SLOT && type != RELOC_GLOB && (type != RELOC_WORD || RELOC_ADDEND(r) != 0))
        return;
    const ElfW(Sym) *sym = &m->symbols[RELOC_SYMBOL(r)];
    size_t i = name_index(m->strings + sym->st_name);
    uintptr_t at = m->base + r->r_offset;
    if (i == N_NAMES || real[i] == 0 || at % sizeof(uintptr_t) != 0 || !inside(m, at))
        return;
    uintptr_t hook = hooks[i];
    uintptr_t now = __atomic_load_n((uintptr_t *)at, __ATOMIC_RELAXED);
    if (j->on && now == hook) {
        j->counts->n_slots++;
        return;
    }
    bool lazy = type == RELOC_SLOT && sym->st_shndx == SHN_UNDEF && inside(m, now);
    if (j->on ? now != real[i] && !lazy : now != hook)
        return;
    if (!page_open(m, at, j->page))
        return;
    __atomic_store_n((uintptr_t *)at, j->on ? hook : real[i], __ATOMIC_RELEASE);
    j->counts->n_changed++;
    j->counts->n_slots += j->on;
}

/* As in boot.c: libc relocates the addresses in the dynamic section, but not the vdso's. */
static const void *pointer(uintptr_t base, ElfW(Addr) v)
{
    return (const void *)(v < base ? v + base : v);
}

static bool module_open(const struct dl_phdr_info *info, uintptr_t page, struct module *m)
{
    *m = (struct module){.base = info->dlpi_addr, .lo = UINTPTR_MAX};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t at = m->base + p->p_vaddr;
        if (p->p_type == PT_LOAD) {
            m->lo = at < m->lo ? at : m->lo;
            m->hi = at + p->p_memsz > m->hi ? at + p->p_memsz : m->hi;
        } else if (p->p_type == PT_GNU_RELRO) {
            m->relro_lo = at & ~(page - 1);
            m->relro_hi = (at + p->p_memsz) & ~(page - 1);
        } else if (p->p_type == PT_DYNAMIC) {
            m->dynamic = (const ElfW(Dyn) *)at;
        }
    }
    if (!m->dynamic || m->lo > m->hi)
        return false;
    bool is_rela = true;
    for (const ElfW(Dyn) *d = m->dynamic; d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            m->symbols = pointer(m->base, d->d_un.d_ptr);
        else if (d->d_tag == DT_STRTAB)
            m->strings = pointer(m->base, d->d_un.d_ptr);
        else if (d->d_tag == DT_JMPREL)
            m->plt = pointer(m->base, d->d_un.d_ptr);
        else if (d->d_tag == DT_PLTRELSZ)
            m->n_plt = d->d_un.d_val / sizeof *m->plt;
        else if (d->d_tag == RELOC_TABLE)
            m->rela = pointer(m->base, d->d_un.d_ptr);
        else if (d->d_tag == RELOC_BYTES)
            m->n_rela = d->d_un.d_val / sizeof *m->rela;
        else if (d->d_tag == DT_PLTREL)
            is_rela = d->d_un.d_val == RELOC_TABLE;
    }
    return is_rela && m->symbols && m->strings;
}

extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

static int patch_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct job *j = arg;
    struct module m;
    bool libc;
    (void)size;
    if (!module_open(info, j->page, &m) || m.dynamic == _DYNAMIC || m.base == _r_debug.r_ldbase)
        return 0;
    libc = inside(&m, (uintptr_t)hw_boot_libc());
    if (m.base == hw_boot_allocator_base() && !libc)
        return 0;
    j->counts->n_modules++;
    for (size_t i = 0; m.plt && i < m.n_plt; i++)
        patch_word(j, &m, &m.plt[i]);
    for (size_t i = 0; m.rela && i < m.n_rela; i++)
        if (RELOC_TYPE(&m.rela[i]) != 0)
            patch_word(j, &m, &m.rela[i]);
    page_close(&m, j->page);
    return 0;
}

static void patch(bool on, struct hw_patch_counts *out)
{
    struct job j = {.on = on, .page = (uintptr_t)sysconf(_SC_PAGESIZE), .counts = out};
    (void)dl_iterate_phdr(patch_module, &j); /* return the previous call's result */
}

void hw_patch_all(bool on, struct hw_patch_counts *out)
{
    find_real(/* operators_only = */ false);
    patch(on, out);
}

void hw_patch_operators(void)
{
    const char *shown[N_NAMES];
    struct hw_patch_counts counts = {0};
    size_t n = 0;
    if (!hw_boot_allocator_defines(OPERATOR_NEW)) /* libc's, nearly everywhere */
        return;
    find_real(/* operators_only = */ true);
    for (size_t i = 0; i < N_NAMES; i++)
        if (real[i] != 0)
            shown[n++] = names[i].name;
    if (n == 0)
        return;
    patch(/* on = */ true, &counts);
    hw_boot_export(shown, n);
}

void *hw_operator_real(const char *name)
{
    size_t i = name_index(name);
    return i == N_NAMES ? NULL : (void *)real[i];
}

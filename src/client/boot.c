/*
 * boot.c - finds the real functions in the loader's own data
 *
 *      _r_debug -> link_map list (load order) -> our entry -> everything behind it is "next"
 *
 * A link_map gives the dynamic section: symbol table, string table, hash table (GNU or System V)
 * and versions. glibc has these addresses relocated in place; the kernel's vdso has not, which
 * shows in addresses below the load address. Indirect functions are called to learn their address.
 * The objects are mapped and relocated already, so they are as trusted as the loader is.
 */
#include "client/boot.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"
#include "client/kernel/write_stderr.h"
#include "client/sample/live_set.h"

/* ---- one object's symbols ---- */

struct object {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *sysv_hash;
    const ElfW(Half) * versions;
};

static const void *dyn_pointer(uintptr_t base, ElfW(Addr) v)
{
    return (const void *)(v < base ? v + base : v);
}

static bool object_open(uintptr_t base, const ElfW(Dyn) * dynamic, struct object *o)
{
    *o = (struct object){.base = base};
    for (const ElfW(Dyn) *d = dynamic; d && d->d_tag != DT_NULL; d++) {
        if (d->d_tag == DT_SYMTAB)
            o->symbols = dyn_pointer(base, d->d_un.d_ptr);
        else if (d->d_tag == DT_STRTAB)
            o->strings = dyn_pointer(base, d->d_un.d_ptr);
        else if (d->d_tag == DT_GNU_HASH)
            o->gnu_hash = dyn_pointer(base, d->d_un.d_ptr);
        else if (d->d_tag == DT_HASH)
            o->sysv_hash = dyn_pointer(base, d->d_un.d_ptr);
        else if (d->d_tag == DT_VERSYM)
            o->versions = dyn_pointer(base, d->d_un.d_ptr);
    }
    return o->symbols && o->strings && (o->gnu_hash || o->sysv_hash);
}

/* Not libc's: the program may have its own in its place, not relocated yet. */
static bool same_text(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static const ElfW(Sym) * symbol_if(const struct object *o, uint32_t i, const char *name)
{
    const ElfW(Sym) *s = &o->symbols[i];
    unsigned type = ELF64_ST_TYPE(s->st_info); /* the same bits in both classes */
    if (s->st_shndx == SHN_UNDEF || s->st_value == 0 ||
        (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
        return NULL;
    if (o->versions && (o->versions[i] & 0x8000)) /* an old version, kept for old binaries */
        return NULL;
    return same_text(o->strings + s->st_name, name) ? s : NULL;
}

static const ElfW(Sym) * find_gnu(const struct object *o, const char *name)
{
    uint32_t h = 5381;
    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        h = h * 33 + *p;
    uint32_t n_buckets = o->gnu_hash[0], first = o->gnu_hash[1], n_bloom = o->gnu_hash[2];
    const uint32_t *buckets =
        (const uint32_t *)(const void *)((const ElfW(Addr) *)(const void *)(o->gnu_hash + 4) +
                                         n_bloom);
    const uint32_t *chain = buckets + n_buckets;
    if (n_buckets == 0)
        return NULL;
    uint32_t i = buckets[h % n_buckets];
    if (i < first)
        return NULL;
    for (;; i++) {
        uint32_t c = chain[i - first];
        const ElfW(Sym) * s;
        if ((c | 1) == (h | 1) && (s = symbol_if(o, i, name)))
            return s;
        if (c & 1)
            return NULL;
    }
}

static const ElfW(Sym) * find_sysv(const struct object *o, const char *name)
{
    uint32_t h = 0;
    for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
        h = (h << 4) + *p;
        h = (h ^ (h >> 24 & 0xf0)) & 0x0fffffff;
    }
    uint32_t n_buckets = o->sysv_hash[0], n_chain = o->sysv_hash[1];
    const uint32_t *buckets = o->sysv_hash + 2, *chain = buckets + n_buckets;
    if (n_buckets == 0)
        return NULL;
    uint32_t steps = 0;
    for (uint32_t i = buckets[h % n_buckets]; i != 0 && i < n_chain && steps++ < n_chain;
         i = chain[i]) {
        const ElfW(Sym) *s = symbol_if(o, i, name);
        if (s)
            return s;
    }
    return NULL;
}

/* ---- the loader's list ---- */

extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

/* We were put into a running program: nothing comes after us, and the first in the list is the
 * one that the program calls. */
static bool late;

bool hw_boot_is_us(const struct link_map *m)
{
    return m->l_ld == _DYNAMIC;
}

bool hw_boot_defines(const struct link_map *m, const char *name)
{
    struct object o;
    return object_open(m->l_addr, m->l_ld, &o) &&
           (o.gnu_hash ? find_gnu(&o, name) : find_sysv(&o, name)) != NULL;
}

bool hw_boot_imports(const struct link_map *m, const char *begin)
{
    struct object o;
    if (!object_open(m->l_addr, m->l_ld, &o))
        return false;
    uint32_t n = o.gnu_hash ? o.gnu_hash[1] : o.sysv_hash[1]; /* the first that is defined; all */
    for (uint32_t i = 1; i < n; i++) {
        const char *name = o.strings + o.symbols[i].st_name, *p = begin;
        while (*p && *name == *p)
            name++, p++;
        if (!*p)
            return true;
    }
    return false;
}

static const struct link_map *first_candidate(void)
{
    const struct link_map *m = _r_debug.r_map;
    while (!late && m && m->l_ld != _DYNAMIC)
        m = m->l_next;
    return late ? m : m ? m->l_next : NULL;
}

static const ElfW(Sym) * find_symbol(const struct object *o, const char *name)
{
    return o->gnu_hash ? find_gnu(o, name) : find_sysv(o, name);
}

static void *find_in(uintptr_t base, const ElfW(Dyn) * dynamic, const char *name)
{
    struct object o;
    if (!object_open(base, dynamic, &o))
        return NULL;
    const ElfW(Sym) *s = find_symbol(&o, name);
    if (!s)
        return NULL;
    uintptr_t at = o.base + s->st_value;
    if (ELF64_ST_TYPE(s->st_info) == STT_GNU_IFUNC)
        at = ((uintptr_t(*)(void))at)();
    return (void *)at;
}

static void *find_from(const struct link_map *m, const char *name, uintptr_t *base)
{
    for (; m; m = m->l_next) {
        void *p = m->l_ld == _DYNAMIC ? NULL : find_in(m->l_addr, m->l_ld, name);
        if (p) {
            *base = m->l_addr;
            return p;
        }
    }
    return NULL;
}

static void *find(const char *name, uintptr_t *base)
{
    return find_from(first_candidate(), name, base);
}

static uintptr_t allocator_base;

void *hw_boot_find(const char *name, bool *own)
{
    uintptr_t base = 0;
    hw_boot();
    void *p = find(name, &base);
    *own = p && base == allocator_base;
    return p;
}

void *hw_boot_first(const char *name, bool *own)
{
    uintptr_t base = 0;
    void *p = find_from(_r_debug.r_map, name, &base);
    *own = p && base == allocator_base;
    return p;
}

bool hw_boot_allocator_defines(const char *name)
{
    for (const struct link_map *m = _r_debug.r_map; m; m = m->l_next)
        if (m->l_addr == allocator_base && m->l_ld != _DYNAMIC)
            return find_in(m->l_addr, m->l_ld, name) != NULL;
    return false;
}

static const ElfW(Sym) * own_symbol(const char *name, const ElfW(Half) * *versions, uintptr_t *base)
{
    extern const char __ehdr_start[] __attribute__((visibility("hidden")));
    struct object o;
    if (!object_open((uintptr_t)__ehdr_start, _DYNAMIC, &o))
        return NULL;
    *base = o.base;
    *versions = o.versions;
    o.versions = NULL; /* hidden ones, too */
    const ElfW(Sym) *s = find_symbol(&o, name);
    *versions += s ? s - o.symbols : 0;
    return s;
}

void *hw_boot_own_symbol(const char *name)
{
    const ElfW(Half) * version;
    uintptr_t base;
    const ElfW(Sym) *s = own_symbol(name, &version, &base);
    return s ? (void *)(base + s->st_value) : NULL;
}

static void show(const ElfW(Half) * version, uintptr_t page_bytes)
{
    const ElfW(Half) any = 1; /* VER_NDX_GLOBAL */
    void *page = (void *)((uintptr_t)version & ~(page_bytes - 1));
    if (mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0)
        return; /* then only calls through tables that exist by now are seen */
    memcpy((void *)(uintptr_t)version, &any, sizeof any);
    (void)mprotect(page, page_bytes, PROT_READ); /* as the loader left it */
}

void hw_boot_export(const char *const *names, size_t n)
{
    uintptr_t base, page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    const ElfW(Half) * version;
    for (size_t i = 0; i < n; i++)
        if (own_symbol(names[i], &version, &base))
            show(version, page_bytes);
}

bool hw_boot_is_built_in(void)
{
    return _r_debug.r_map && _r_debug.r_map->l_addr == allocator_base;
}

const void *hw_boot_libc(void)
{
    uintptr_t base;
    return find("__libc_start_main", &base);
}

bool hw_boot_is_injected(void)
{
    return late;
}

uint64_t hw_boot_allocator_base(void)
{
    return allocator_base;
}

/* ---- the next dlclose ---- */

/*
 * The libraries that the program starts with never go away, nor does libc. If dlclose is defined
 * elsewhere (libc had none before 2.34, and libdl came and went), it is looked up at each call,
 * under the loader's lock, since the list may change at any time: a lock that dlclose itself does
 * not take for a module that stays.
 */
static void *lasting_dlclose;

static void find_dlclose(void)
{
    uintptr_t base, libc_base;
    void *p = find("dlclose", &base);
    if (p && (!late || (find("__libc_start_main", &libc_base) && base == libc_base)))
        lasting_dlclose = p;
}

struct late {
    const char *name;
    void *found;
    bool behind_us;
};

static int find_late(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct late *l = arg;
    const ElfW(Dyn) *dynamic = NULL;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    if (dynamic == _DYNAMIC) {
        l->behind_us = true;
        return 0;
    }
    if (!dynamic || !l->behind_us)
        return 0;
    l->found = find_in(info->dlpi_addr, dynamic, l->name);
    return l->found != NULL;
}

void *hw_boot_dlclose(void)
{
    struct late l = {.name = "dlclose", .behind_us = late};
    hw_boot();
    if (!lasting_dlclose)
        (void)dl_iterate_phdr(find_late, &l); /* return the previous call's result */
    return lasting_dlclose ? lasting_dlclose : l.found;
}

/* ---- memory while resolving ---- */

/*
 * An indirect function's resolver may allocate. Such a block is marked in the live counters, so
 * that the hooks' one probe sends its free and realloc here and no other block pays for a
 * comparison.
 */
static _Alignas(64) char arena[8192];
static _Atomic size_t arena_used;

static void *arena_take(size_t n)
{
    if (n > sizeof arena)
        return NULL;
    size_t whole = ((n + 15) & ~(size_t)15) + 16;
    size_t at = atomic_fetch_add(&arena_used, whole);
    if (at > sizeof arena - whole)
        return NULL;
    memcpy(arena + at, &n, sizeof n);
    char *p = arena + at + 16;
    hw_live_set_mark((uint64_t)(uintptr_t)p);
    return p;
}

bool hw_boot_arena_owns(const void *p)
{
    return (uintptr_t)p - (uintptr_t)arena < sizeof arena;
}

void *hw_boot_arena_move(void *p, size_t n)
{
    size_t old;
    memcpy(&old, (char *)p - 16, sizeof old);
    void *q = hw_real.malloc(n);
    if (q)
        memcpy(q, p, old < n ? old : n);
    return q;
}

/* ---- before they are known ---- */

static bool resolving(void)
{
    return (hw_here.flags & HW_TLS_RESOLVING) != 0;
}

static void *boot_malloc(size_t n)
{
    if (resolving())
        return arena_take(n);
    hw_boot();
    return hw_real.malloc(n);
}

static void boot_free(void *p)
{
    if (resolving())
        return; /* of the arena, or of an allocator that we do not know yet: left alone */
    hw_boot();
    hw_real.free(p);
}

static void *boot_calloc(size_t n, size_t size)
{
    size_t whole;
    if (resolving()) /* static memory is zero */
        return __builtin_mul_overflow(n, size, &whole) ? NULL : arena_take(whole);
    hw_boot();
    return hw_real.calloc(n, size);
}

static void *boot_realloc(void *p, size_t n)
{
    if (resolving())
        return p ? NULL : arena_take(n);
    hw_boot();
    return hw_real.realloc(p, n);
}

static void *boot_reallocarray(void *p, size_t n, size_t size)
{
    hw_boot();
    return hw_real.reallocarray(p, n, size);
}

static int boot_posix_memalign(void **out, size_t align, size_t n)
{
    hw_boot();
    return hw_real.posix_memalign(out, align, n);
}

static void *boot_aligned_alloc(size_t align, size_t n)
{
    hw_boot();
    return hw_real.aligned_alloc(align, n);
}

static void *boot_memalign(size_t align, size_t n)
{
    hw_boot();
    return hw_real.memalign(align, n);
}

static void *boot_valloc(size_t n)
{
    hw_boot();
    return hw_real.valloc(n);
}

static void *boot_pvalloc(size_t n)
{
    hw_boot();
    return hw_real.pvalloc(n);
}

static void boot_free_sized(void *p, size_t n)
{
    hw_boot();
    hw_real.free_sized(p, n);
}

static void boot_free_aligned_sized(void *p, size_t align, size_t n)
{
    hw_boot();
    hw_real.free_aligned_sized(p, align, n);
}

struct hw_real hw_real = {
    boot_malloc,       boot_free,           boot_calloc,        boot_realloc,
    boot_reallocarray, boot_posix_memalign, boot_aligned_alloc, boot_memalign,
    boot_valloc,       boot_pvalloc,        boot_free_sized,    boot_free_aligned_sized,
};

/* ---- what an allocator may lack ---- */

static void *made_reallocarray(void *p, size_t n, size_t size)
{
    size_t whole;
    if (__builtin_mul_overflow(n, size, &whole)) {
        errno = ENOMEM;
        return NULL;
    }
    return hw_real.realloc(p, whole);
}

static void made_free_sized(void *p, size_t n)
{
    (void)n;
    hw_real.free(p);
}

static void made_free_aligned_sized(void *p, size_t align, size_t n)
{
    (void)align, (void)n;
    hw_real.free(p);
}

/* A member of the family in the allocator's own object; another object's would mix two
 * allocators, or call back into us through the member that we hook. */
static void *member(const char *name)
{
    uintptr_t base;
    void *p = find(name, &base);
    return p && base == allocator_base ? p : NULL;
}

#define SET(f, p)                                                                                  \
    do {                                                                                           \
        void *found_ = (p);                                                                        \
        if (found_)                                                                                \
            *(void **)&hw_real.f = found_;                                                         \
    } while (0)

void hw_boot(void)
{
    uintptr_t base = 0;
    if (hw_real.malloc != boot_malloc || resolving())
        return;
    hw_here.flags |= HW_TLS_RESOLVING;
    void *real_malloc = find("malloc", &base);
    if (!real_malloc) {
        late = true;
        real_malloc = find("malloc", &base);
    }
    if (!real_malloc) {
        hw_write_stderr("heapwise: no malloc after the preloaded library; cannot continue");
        __builtin_trap();
    }
    allocator_base = base;
    uintptr_t other;
    SET(free, find("free", &other));
    SET(calloc, find("calloc", &other));
    SET(realloc, find("realloc", &other));
    SET(posix_memalign, find("posix_memalign", &other));
    SET(aligned_alloc, find("aligned_alloc", &other));
    SET(memalign, find("memalign", &other));
    SET(valloc, find("valloc", &other));
    SET(pvalloc, find("pvalloc", &other));
    hw_real.reallocarray = made_reallocarray;
    hw_real.free_sized = made_free_sized;
    hw_real.free_aligned_sized = made_free_aligned_sized;
    SET(reallocarray, member("reallocarray"));
    SET(free_sized, member("free_sized"));
    SET(free_aligned_sized, member("free_aligned_sized"));
    find_dlclose();
    /* Last: once it is set, all are. */
    atomic_signal_fence(memory_order_seq_cst);
    *(void **)&hw_real.malloc = real_malloc;
    hw_here.flags &= ~(uint32_t)HW_TLS_RESOLVING;
}

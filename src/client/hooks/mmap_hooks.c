/*
 * mmap_hooks.c - mmap, mremap, munmap, brk, sbrk, shmat, shmdt of programs and libraries
 *
 * A mapping is told after the call, and what goes before it, as its addresses may have another
 * owner right after; of a call that fails it is told that it did. All that the recorder needs is
 * which range belongs to whom: it keeps the ranges, and nothing is looked up here.
 *
 * No hook makes a system call that the program did not ask for: a filter may have been set since the
 * recorder looked. What only the kernel knows (is a shared file memory? how large is a segment?) the
 * record leaves open, and the recorder looks.
 *
 * Not seen: what libc and the loader map for themselves, which does not go by these names (arenas,
 * large blocks, libraries, threads' stacks), and system calls that a program makes by itself. What
 * an allocator maps is passed over, by the caller's address or by a frame in between: its blocks
 * are in malloc's heap.
 *
 * Unlike malloc's hooks these have frames: a system call takes a hundred times as long.
 */
#include "client/hooks/mmap_hooks.h"

#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/hooks/python_objects.h"
#include "client/kernel/sys.h"
#include "client/ring/push.h"
#include "client/sample/capture.h"
#include "client/session/client_session.h"
#include "client/thread/client_guard.h"
#include "client/thread/stack_bounds.h"

#undef mmap /* the program's calls */
#undef munmap

#define DEFAULT_HUGE_LOG2 21
#define HUGE_LOG2_SHIFT   26 /* MAP_HUGE_SHIFT */

typedef void *mmap_fn(void *, size_t, int, int, int, long);
typedef void *mmap64_fn(void *, size_t, int, int, int, int64_t);
typedef int munmap_fn(void *, size_t);
typedef void *mremap_fn(void *, size_t, size_t, int, ...);
typedef int brk_fn(void *);
typedef void *sbrk_fn(intptr_t);
typedef void *shmat_fn(int, const void *, int);
typedef int shmdt_fn(const void *);

/* ---- until the next definitions are known: constructors of libraries run before ours ---- */

static void *raw_mmap64(void *at, size_t n, int prot, int flags, int fd, int64_t off)
{
    return hw_kernel_mmap(at, n, prot, flags, fd, (off_t)off);
}

static void *raw_mmap(void *at, size_t n, int prot, int flags, int fd, long off)
{
    return hw_kernel_mmap(at, n, prot, flags, fd, off);
}

static int raw_munmap(void *at, size_t n)
{
    return hw_kernel_munmap(at, n);
}

static void *raw_mremap(void *at, size_t n, size_t wanted, int flags, ...)
{
    __builtin_va_list l;
    __builtin_va_start(l, flags);
    void *to = __builtin_va_arg(l, void *);
    __builtin_va_end(l);
    return (void *)hw_kernel(SYS_mremap, at, n, wanted, flags, to);
}

static struct {
    mmap_fn *mmap;
    mmap64_fn *mmap64;
    munmap_fn *munmap;
    mremap_fn *mremap;
    brk_fn *brk;
    sbrk_fn *sbrk;
    shmat_fn *shmat;
    shmdt_fn *shmdt;
} real = {.mmap = raw_mmap, .mmap64 = raw_mmap64, .munmap = raw_munmap, .mremap = raw_mremap};

static int find_allocator(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct hw_walk_range all = {UINT64_MAX, 0};
    uintptr_t libc = (uintptr_t)hw_boot_libc();
    (void)size, (void)arg;
    if (info->dlpi_addr != hw_boot_allocator_base() || hw_boot_is_built_in())
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uint64_t lo = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD)
            continue;
        all.lo = lo < all.lo ? lo : all.lo;
        all.hi = lo + p->p_memsz > all.hi ? lo + p->p_memsz : all.hi;
    }
    if (all.lo < all.hi)
        hw_allocator_is_libc = libc - all.lo < all.hi - all.lo;
    if (all.lo < all.hi && !hw_allocator_is_libc)
        hw_allocator_code = all;
    return 1;
}

#define FIND(name)                                                                                 \
    do {                                                                                           \
        bool own_;                                                                                 \
        void *found_ = hw_boot_find(#name, &own_);                                                 \
        if (found_)                                                                                \
            *(void **)&real.name = found_;                                                         \
    } while (0)

/* In the constructor, or in that of a library that runs before ours: as hw_boot() does. */
static void find_all(void)
{
    FIND(mmap);
    FIND(mmap64);
    FIND(munmap);
    FIND(mremap);
    FIND(brk);
    FIND(sbrk);
    FIND(shmat);
    FIND(shmdt);
}

/* libc keeps the break's place: a call past it would not do. */
static bool has_found(void)
{
    if (hw_unlikely(!real.sbrk || !real.brk || !real.shmat || !real.shmdt))
        find_all();
    return real.sbrk && real.brk && real.shmat && real.shmdt;
}

void hw_mappings_init(void)
{
    find_all();
    (void)dl_iterate_phdr(find_allocator, NULL);
}

/* ---- who is asking, and is anybody interested? ---- */

static bool is_allocators(const struct hw_call_site *site)
{
    return site->pc - hw_allocator_code.lo < hw_allocator_code.hi - hw_allocator_code.lo;
}

/* Where nothing is recorded, this is all that happens. */
static bool is_due(const struct hw_call_site *site)
{
    uint32_t generation = atomic_load_explicit(&hw_control.generation, memory_order_acquire);
    if (hw_likely(generation == 0) || is_allocators(site))
        return false;
    struct hw_tls *t = &hw_here;
    if (hw_unlikely(t->generation != generation || hw_client_session_is_unanswered()) &&
        t->busy == 0 && hw_stack_has_room(site->sp)) {
        int saved = errno;
        hw_client_session_sync(t, generation);
        errno = saved;
    }
    return atomic_load_explicit(&hw_process_page.session, memory_order_relaxed) != NULL;
}

static uint64_t whole_pages(uint64_t n)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (n + page - 1) & ~(page - 1);
}

/* ---- what is told ---- */

static void tell_map(const void *at, uint64_t n, uint32_t heap_id, uint32_t flags,
                     const struct hw_call_site *site)
{
    struct hw_event e = {.id = (uintptr_t)at,
                         .size = n,
                         .weight = n,
                         .heap_id = heap_id,
                         .flags = flags,
                         .site = site};
    if (n != 0)
        hw_record_mapping(&e);
}

/* False: there is nothing to take back if the call fails. */
static bool tell_unmap(uint64_t at, uint64_t n, const struct hw_call_site *site)
{
    bool possible = n != 0 && at == whole_pages(at) && at + n > at;
    return possible && is_due(site) && hw_push_unmap(at, n, HW_UNMAP_RANGE);
}

static void tell_failed(uint64_t at, uint64_t n)
{
    (void)hw_push_unmap(at, n, HW_UNMAP_FAILED);
}

/* Shared memory has files, too: memfd, /dev/shm, huge pages. The recorder tells them apart. */
static uint32_t heap_of(int flags, uint32_t *asked)
{
    bool is_private = (flags & MAP_TYPE) == MAP_PRIVATE;
    if (flags & MAP_ANONYMOUS)
        return is_private ? HW_HEAP_ID_ANON : HW_HEAP_ID_SHARED;
    *asked = is_private ? 0 : HW_ALLOC_SHARED_FILE;
    return HW_HEAP_ID_FILE;
}

static uint64_t mapped_bytes(size_t n, int flags)
{
    uint32_t log2 = (uint32_t)flags >> HUGE_LOG2_SHIFT & 63;
    uint64_t unit = UINT64_C(1) << (log2 ? log2 : DEFAULT_HUGE_LOG2);
    return flags & MAP_HUGETLB ? (n + unit - 1) & ~(unit - 1) : whole_pages(n);
}

/* ---- the hooks ---- */

#define HOOK(result, name, ...)                                                                    \
    HW_EXPORT result hook_##name(__VA_ARGS__) __asm__(#name);                                      \
    HW_EXPORT result hook_##name(__VA_ARGS__)

static void mapped(const void *p, size_t n, int flags, const struct hw_call_site *site)
{
    uint32_t asked = 0, heap_id = heap_of(flags, &asked);
    if (p != MAP_FAILED && is_due(site))
        tell_map(p, mapped_bytes(n, flags), heap_id, asked, site);
    if (hw_unlikely(hw_python_objects_due())) /* perhaps an arena */
        hw_python_objects_place();
}

HOOK(void *, mmap, void *at, size_t n, int prot, int flags, int fd, long off)
{
    HW_SITE(site);
    void *p = real.mmap(at, n, prot, flags, fd, off);
    mapped(p, n, flags, &site);
    return p;
}

HOOK(void *, mmap64, void *at, size_t n, int prot, int flags, int fd, int64_t off)
{
    HW_SITE(site);
    void *p = real.mmap64(at, n, prot, flags, fd, off);
    mapped(p, n, flags, &site);
    return p;
}

HOOK(int, munmap, void *at, size_t n)
{
    HW_SITE(site);
    uint64_t whole = whole_pages(n);
    bool told = tell_unmap((uintptr_t)at, whole, &site);
    int rc = real.munmap(at, n);
    if (rc != 0 && told)
        tell_failed((uintptr_t)at, whole);
    return rc;
}

/* The new address is looked at with MREMAP_FIXED only, but always passed on. */
HOOK(void *, mremap, void *at, size_t n, size_t wanted, int flags, void *to)
{
    HW_SITE(site);
    uint64_t lo = (uintptr_t)at, old = whole_pages(n), new = whole_pages(wanted);
    bool stays = old == 0 || (flags & MREMAP_DONTUNMAP);
    bool is_cut = !stays && new <= old && !(flags & MREMAP_FIXED);
    uint64_t gone = is_cut ? lo + new : lo, n_gone = is_cut ? old - new : old;
    bool told = !stays && tell_unmap(gone, n_gone, &site);
    void *p = real.mremap(at, n, wanted, flags, to);
    if (p == MAP_FAILED && told)
        tell_failed(gone, n_gone);
    if (p == MAP_FAILED || is_cut || new == 0 || !is_due(&site))
        return p;
    struct hw_event e = {.id = (uintptr_t)p,
                         .size = new,
                         .weight = lo,
                         .heap_id = HW_HEAP_ID_ANON,
                         .flags = HW_ALLOC_REMAPPED | (stays ? HW_ALLOC_DOUBLED : 0u),
                         .site = &site};
    hw_record_mapping(&e);
    return p;
}

/* ---- the break ---- */

static uint64_t top(void)
{
    return whole_pages((uintptr_t)real.sbrk(0));
}

static void top_moved(uint64_t from, bool told, uint64_t wanted, const struct hw_call_site *site)
{
    uint64_t to = top();
    if (told && to > wanted)
        tell_failed(wanted, from - wanted);
    else if (to > from && is_due(site))
        tell_map((void *)(uintptr_t)from, to - from, HW_HEAP_ID_ANON, 0, site);
}

HOOK(int, brk, void *end)
{
    HW_SITE(site);
    if (!has_found()) {
        errno = ENOMEM;
        return -1;
    }
    uint64_t from = top(), wanted = whole_pages((uintptr_t)end);
    bool told = wanted < from && tell_unmap(wanted, from - wanted, &site);
    int rc = real.brk(end);
    top_moved(from, told, wanted, &site);
    return rc;
}

HOOK(void *, sbrk, intptr_t by)
{
    HW_SITE(site);
    if (!has_found()) {
        errno = ENOMEM;
        return (void *)-1;
    }
    if (by == 0)
        return real.sbrk(by);
    uint64_t now = (uintptr_t)real.sbrk(0), from = whole_pages(now);
    uint64_t wanted = whole_pages(now + (uint64_t)(int64_t)by);
    bool told = wanted < from && tell_unmap(wanted, from - wanted, &site);
    void *p = real.sbrk(by);
    top_moved(from, told, wanted, &site);
    return p;
}

/* ---- System V's shared memory ---- */

/* Its size is the kernel's: the recorder finds it by the number. */
static void tell_segment(const void *at, int id, const struct hw_call_site *site)
{
    struct hw_event e = {.id = (uintptr_t)at,
                         .size = whole_pages(1),
                         .weight = (uint32_t)id,
                         .heap_id = HW_HEAP_ID_SHARED,
                         .flags = HW_ALLOC_SEGMENT,
                         .site = site};
    hw_record_mapping(&e);
}

HOOK(void *, shmat, int id, const void *at, int flags)
{
    HW_SITE(site);
    void *p = has_found() ? real.shmat(id, at, flags) : (void *)-1;
    if (p != (void *)-1 && is_due(&site))
        tell_segment(p, id, &site);
    return p;
}

HOOK(int, shmdt, const void *at)
{
    HW_SITE(site);
    uint64_t lo = (uintptr_t)at;
    bool told = is_due(&site) && hw_push_unmap(lo, 0, HW_UNMAP_SEGMENT);
    int rc = has_found() ? real.shmdt(at) : -1;
    if (rc != 0 && told)
        (void)hw_push_unmap(lo, 0, HW_UNMAP_FAILED);
    return rc;
}

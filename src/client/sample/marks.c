/*
 * marks.c - the scopes and types that the program begins and ends
 *
 *      program                                    client
 *      heapwise_marks_here ---- one load -------> marks { on, begin, end }
 *      static struct heapwise_mark  <------------ state: generation << 1 | its category is wanted
 *
 * A scope begins without a visit: it touches the thread's slab and the program's mark, never the
 * session; if slices are wanted, a visit follows. Marks of an earlier session become invalid when
 * the generation changes, so nothing has to be cleaned up. Names are hashed at their first begin in
 * the process and sent once a session, with the sample that needs them.
 */
#include "client/sample/marks.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#include "client/client.h"
#include "client/kernel/sys.h"
#include "client/ring/mark_names.h"
#include "client/ring/thread_slices.h"
#include "client/thread/client_guard.h"
#include "client/thread/slabs.h"
#include "heapwise/marks.h"

#define NOTE_NAME  "heapwise"
#define NOTE_LINK  1u
#define TOKEN_TYPE (1u << 31)
#define TOKEN_SENT (1u << 30) /* its beginning is in the ring */

/* Written under the session's lock. */
static char wanted[HW_MAX_SCOPE_TEXT]; /* categories; "" = all */
static _Atomic uint32_t wants_scopes, wants_types, wants_slices;

static uint32_t on(void)
{
    return __atomic_load_n(&hw_marks_shown.on, __ATOMIC_ACQUIRE);
}

/* ---- categories ---- */

/* Bytes before the first c, or the end. (The bare client has no strchr.) */
static size_t until(const char *p, char c)
{
    size_t n = 0;
    while (p[n] && p[n] != c)
        n++;
    return n;
}

/* Is the category, of n bytes, one of the list's? */
static bool is_listed(const char *list, const char *category, size_t n)
{
    while (*list) {
        size_t k = until(list, ',');
        bool any = k > 0 && list[k - 1] == '*';
        size_t same = any ? k - 1 : k;
        if (same <= n && (any || same == n) && strncmp(list, category, same) == 0)
            return true;
        list += k + (list[k] == ',');
    }
    return false;
}

/* A mark may belong to several categories, separated by commas. */
static bool is_wanted(const struct heapwise_mark *m)
{
    if (!m->category)
        return atomic_load_explicit(&wants_types, memory_order_relaxed);
    if (!atomic_load_explicit(&wants_scopes, memory_order_relaxed))
        return false;
    if (!wanted[0])
        return true;
    for (const char *c = m->category; *c;) {
        size_t n = until(c, ',');
        if (is_listed(wanted, c, n))
            return true;
        c += n + (c[n] == ',');
    }
    return false;
}

/* ---- scopes ---- */

/* A mark's or a thread's first scope in this session. False: the thread has no slab. */
static HW_COLD bool prepare_mark(struct heapwise_mark *m, uint32_t generation)
{
    if (!hw_here.slab) {
        struct hw_client_guard v;
        hw_enter(&v);
        if (!v.nested)
            (void)hw_slab_get();
        hw_leave(&v);
    }
    struct hw_slab *slab = hw_here.slab;
    if (!slab)
        return false;
    if (slab->marks.generation != generation) {
        slab->marks.n_scopes = slab->marks.n_types = 0;
        bool ask = atomic_load_explicit(&wants_slices, memory_order_relaxed) && !hw_sandbox();
        slab->marks.slot = NULL;
        slab->marks.tid = ask ? (int32_t)hw_kernel(SYS_gettid) : 0;
        slab->marks.names_thread = ask;
        atomic_signal_fence(memory_order_seq_cst);
        slab->marks.generation = generation;
    }
    if (__atomic_load_n(&m->id, __ATOMIC_RELAXED) == 0)
        __atomic_store_n(
            &m->id,
            hw_mark_id(m->category ? HW_MANAGED_SCOPE : HW_MANAGED_TYPE, hw_mark_text_of(m)),
            __ATOMIC_RELAXED);
    __atomic_store_n(&m->state, generation << 1 | is_wanted(m), __ATOMIC_RELEASE);
    return true;
}

/* The pair is complete before it counts: a handler's sample in between sees a whole one. */
static inline uint64_t push(struct hw_open_mark *stack, uint32_t most, uint32_t *n,
                            struct hw_open_mark mark)
{
    uint32_t depth = *n;
    if (hw_likely(depth < most))
        stack[depth] = mark;
    atomic_signal_fence(memory_order_seq_cst);
    *n = depth + 1;
    return depth;
}

static uint64_t marks_begin(struct heapwise_mark *m, const void *return_address)
{
    uint32_t generation = on();
    struct hw_slab *slab = hw_here.slab;
    if (hw_unlikely(!slab || slab->marks.generation != generation ||
                    (m->state ^ generation << 1) > 1)) {
        if (generation == 0 || !prepare_mark(m, generation))
            return 0;
        slab = hw_here.slab;
    }
    if (!(m->state & 1))
        return 0;
    struct hw_marks *k = &slab->marks;
    struct hw_open_mark mark = {m, (uint64_t)(uintptr_t)return_address,
                                (uint64_t)(uintptr_t)__builtin_dwarf_cfa()};
    uint64_t token = (uint64_t)generation << 32;
    if (m->category) {
        uint64_t depth = push(k->scopes, HW_MAX_SCOPES, &k->n_scopes, mark);
        bool slices = atomic_load_explicit(&wants_slices, memory_order_relaxed);
        if (slices && hw_slice_begin(slab, m, (uint32_t)depth))
            token |= TOKEN_SENT;
        return token | depth;
    }
    return token | TOKEN_TYPE | push(k->types, HW_MAX_TYPES, &k->n_types, mark);
}

/* To the depth before it: what was begun inside and left by longjmp has ended, too. */
static void marks_end(uint64_t token)
{
    struct hw_slab *slab = hw_here.slab;
    if (!slab || slab->marks.generation != (uint32_t)(token >> 32))
        return;
    uint32_t depth = (uint32_t)token & (TOKEN_SENT - 1);
    uint32_t *n = token & TOKEN_TYPE ? &slab->marks.n_types : &slab->marks.n_scopes;
    if (depth < *n)
        *n = depth;
    if (hw_unlikely(token & TOKEN_SENT))
        hw_slice_end(slab, depth);
}

/* ---- notes ---- */

/* Before a module can see it: a module that finds `on` set finds the functions, too. */
static const struct heapwise_marks *shown(void)
{
    __atomic_store_n(&hw_marks_shown.begin, marks_begin, __ATOMIC_RELAXED);
    __atomic_store_n(&hw_marks_shown.end, marks_end, __ATOMIC_RELAXED);
    return &hw_marks_shown;
}

/* A pointer in the module's data, relative to the place of the note. */
static void join_note(const char *desc)
{
    int32_t offset;
    memcpy(&offset, desc, sizeof offset);
    const struct heapwise_marks **here = (const struct heapwise_marks **)(uintptr_t)(desc + offset);
    __atomic_store_n(here, shown(), __ATOMIC_RELEASE);
}

static bool in_data(const struct dl_phdr_info *info, uintptr_t at)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t lo = info->dlpi_addr + p->p_vaddr;
        if (p->p_type == PT_LOAD && (p->p_flags & PF_W) && at >= lo &&
            at + sizeof(void *) <= lo + p->p_memsz)
            return true;
    }
    return false;
}

static void join_notes(const struct dl_phdr_info *info, const char *p, size_t n)
{
    while (n >= 12) {
        uint32_t h[3];
        memcpy(h, p, sizeof h);
        size_t name = ((size_t)h[0] + 3) & ~(size_t)3, desc = ((size_t)h[1] + 3) & ~(size_t)3;
        if (h[0] > n || h[1] > n || name + desc > n - 12)
            return;
        const char *d = p + 12 + name;
        int32_t offset = 0;
        if (h[0] == sizeof NOTE_NAME && h[1] == 4 && h[2] == NOTE_LINK &&
            memcmp(p + 12, NOTE_NAME, sizeof NOTE_NAME) == 0) {
            memcpy(&offset, d, sizeof offset);
            if (in_data(info, (uintptr_t)(d + offset)))
                join_note(d);
        }
        p += 12 + name + desc;
        n -= 12 + name + desc;
    }
}

static int join_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size, (void)arg;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_NOTE && p->p_align <= 4)
            join_notes(info, (const char *)(uintptr_t)(info->dlpi_addr + p->p_vaddr), p->p_memsz);
    }
    return 0;
}

void hw_marks_start(struct hw_client_session *s)
{
    bool slices = (s->config.flags & HW_CC_SLICES) != 0;
    if (!hw_marks_wanted(s) && !slices)
        return;
    memcpy(wanted, s->config.scopes, sizeof wanted);
    wanted[sizeof wanted - 1] = '\0';
    bool scopes = s->config.stack_mode == HW_STACKS_PSEUDO ||
                  s->config.stack_mode == HW_STACKS_MIXED || slices;
    atomic_store_explicit(&wants_slices, slices, memory_order_relaxed);
    atomic_store_explicit(&wants_scopes, scopes, memory_order_relaxed);
    atomic_store_explicit(&wants_types, (s->config.flags & HW_CC_TYPES) != 0, memory_order_relaxed);
    __atomic_store_n(&hw_marks_shown.on, s->generation & HW_MARKS_GENERATION, __ATOMIC_RELEASE);
}

/* Not when a session begins: that is inside a program's allocation, perhaps under a lock that
 * another thread waits for while it holds the loader's. */
void hw_marks_join_loaded(void)
{
    (void)dl_iterate_phdr(join_module, NULL); /* return the previous call's result */
}

HW_EXPORT void heapwise_marks_join(const struct heapwise_marks **here)
{
    __atomic_store_n(here, shown(), __ATOMIC_RELEASE);
}

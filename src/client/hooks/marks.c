/*
 * marks.c - from the program's notes to frames of a sampled stack
 *
 *      program                                    client
 *      heapwise_marks_here ---- one load -------> marks { on, begin, end }
 *      static struct heapwise_mark  <------------ state: generation << 1 | its category is wanted
 *
 * A scope begins without a visit: it touches the thread's slab and the program's mark, never the
 * session; where slices are wanted, a visit follows. Marks of an earlier session are gone once the
 * generation differs, so nothing is tidied up anywhere. Names are hashed at their first begin in
 * the process and told once a session, by the sample that needs them.
 *
 * Where a scope belongs in a native stack is told by the return address of the function that began
 * it: in the walked stack that function is the entry before it (leaf first). Scopes with the same
 * stack pointer at their begin are of one frame; with another one and the same return address, of a
 * recursion's next frame. A recursion of which only some levels have scopes is thus taken for one
 * whose first levels have them.
 */
#include "client/hooks/marks.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/prctl.h>

#include "client/client.h"
#include "client/kernel/sys.h"
#include "heapwise/marks.h"

#define NOTE_NAME  "heapwise"
#define NOTE_LINK  1u
#define TOKEN_TYPE (1u << 31)
#define TOKEN_TOLD (1u << 30) /* its beginning is in the ring */

static uint64_t marks_begin(struct heapwise_mark *m, const void *return_address);
static void marks_end(uint64_t token);

/* Both words are written under the session's lock; `on` is the generation that wants marks. */
static struct heapwise_marks marks = {HEAPWISE_MARKS_VERSION, 0, marks_begin, marks_end};
static char wanted[HW_MAX_SCOPE_TEXT]; /* categories; "" = all */
static _Atomic uint32_t wants_scopes, wants_types, wants_slices;

static uint32_t on(void)
{
    return __atomic_load_n(&marks.on, __ATOMIC_ACQUIRE);
}

/* ---- names ---- */

static bool is_one_of(char c, const char *set)
{
    while (*set && *set != c)
        set++;
    return *set != '\0';
}

/* Bytes before the first c, or the end. (The bare client has no strchr.) */
static size_t until(const char *p, char c)
{
    size_t n = 0;
    while (p[n] && p[n] != c)
        n++;
    return n;
}

static size_t length_of_type(const char *p)
{
    size_t n = 0;
    int depth = 0;
    for (; p[n]; n++) {
        if (is_one_of(p[n], "<([{"))
            depth++;
        else if (depth > 0 && is_one_of(p[n], ">)]}"))
            depth--;
        else if (depth == 0 && is_one_of(p[n], ";,]"))
            break;
    }
    return n;
}

/* "... [with T = X; F = ...]" of GCC, "... [T = X, F = ...]" of Clang. */
struct hw_mark_text hw_mark_text_of(const struct heapwise_mark *m)
{
    const char *p = m->name;
    if (m->flags & HEAPWISE_MARK_PRETTY)
        for (const char *at = p; *(at += until(at, '[')); at++) {
            size_t with = strncmp(at + 1, "with ", 5) == 0 ? 6 : 1;
            if (strncmp(at + with, "T = ", 4) == 0)
                return (struct hw_mark_text){at + with + 4, length_of_type(at + with + 4)};
        }
    return (struct hw_mark_text){p, strlen(p)};
}

static uint64_t id_of(enum hw_managed_kind kind, struct hw_mark_text t)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < t.n; i++)
        h = (h ^ (unsigned char)t.p[i]) * 0x100000001b3u;
    h ^= h >> 32;
    return hw_managed_id(kind, h * 0x9e3779b97f4a7c15u);
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

/* A mark may be of several categories, with commas. */
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

/* A mark's first time in this session, or a thread's. False: there is nowhere to keep it. */
static HW_COLD bool settle(struct heapwise_mark *m, uint32_t generation)
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
            &m->id, id_of(m->category ? HW_MANAGED_SCOPE : HW_MANAGED_TYPE, hw_mark_text_of(m)),
            __ATOMIC_RELAXED);
    __atomic_store_n(&m->state, generation << 1 | is_wanted(m), __ATOMIC_RELEASE);
    return true;
}

/* The pair is kept before it counts: a handler's sample in between sees what is whole. */
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
        if (generation == 0 || !settle(m, generation))
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
            token |= TOKEN_TOLD;
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
    uint32_t depth = (uint32_t)token & (TOKEN_TOLD - 1);
    uint32_t *n = token & TOKEN_TYPE ? &slab->marks.n_types : &slab->marks.n_scopes;
    if (depth < *n)
        *n = depth;
    if (hw_unlikely(token & TOKEN_TOLD))
        hw_slice_end(slab, depth);
}

/* ---- samples ---- */

bool hw_marks_wanted(const struct hw_client_session *s)
{
    return s->config.stack_mode != HW_STACKS_NATIVE || (s->config.flags & HW_CC_TYPES);
}

bool hw_marks_alone(const struct hw_client_session *s)
{
    return s->config.stack_mode == HW_STACKS_PSEUDO;
}

void hw_marks_tell(struct hw_client_session *s, uint64_t id, struct hw_mark_text t,
                   struct hw_mark_text file)
{
    _Atomic uint64_t *named = &s->named[id % HW_NAMED_SLOTS];
    struct heapwise_managed_text name = {
        .function = t.p, .n_function = t.n, .file = file.p, .n_file = file.n};
    if (!hw_marks_is_told(s, id) && hw_push_name(s, id, &name))
        atomic_store_explicit(named, id, memory_order_relaxed);
}

static void tell(struct hw_client_session *s, uint64_t id, struct hw_mark_text t)
{
    hw_marks_tell(s, id, t, (struct hw_mark_text){NULL, 0});
}

static uint64_t told_id(struct hw_client_session *s, const struct heapwise_mark *m)
{
    tell(s, m->id, hw_mark_text_of(m));
    return m->id;
}

/* Into 16 bytes; false: there is none, or none that we may ask for. */
bool hw_marks_thread_name(char *out)
{
    bool known = !hw_sandbox() && hw_kernel(SYS_prctl, PR_GET_NAME, out) == 0;
    out[known ? 15 : 0] = '\0';
    return known && out[0];
}

static void put_thread(struct hw_client_session *s, struct hw_mixed *m)
{
    char name[48] = "[Thread: ";
    size_t n = strlen(name);
    if (!hw_marks_thread_name(name + n))
        memcpy(name + n, "?", 2);
    n = strlen(name);
    name[n++] = ']';
    struct hw_mark_text t = {name, n};
    uint64_t id = id_of(HW_MANAGED_SCOPE, t);
    tell(s, id, t);
    hw_mixed_splice(m, m->n_frames, 0, &id, 1);
}

static uint32_t kept(uint32_t n, uint32_t most)
{
    return n < most ? n : most;
}

static void put_all(struct hw_client_session *s, const struct hw_marks *k, struct hw_mixed *m)
{
    for (uint32_t i = 0, n = kept(k->n_scopes, HW_MAX_SCOPES); i < n; i++) {
        uint64_t id = told_id(s, k->scopes[i].mark);
        hw_mixed_splice(m, 0, 0, &id, 1);
    }
}

#define NOWHERE UINT32_MAX

/* The frame that began a scope: the one that returns to the address, leafwards of `from`. */
static uint32_t frame_of(const struct hw_mixed *m, uint32_t from, uint64_t return_address)
{
    uint32_t i = from;
    while (i > 0 && (m->entry[i - 1] != HW_ENTRY_RETURN || m->at[i - 1] != return_address))
        i--;
    if (i == 0)
        return NOWHERE;
    for (i--; i > 0; i--) /* scopes of its caller stand in between */
        if (m->entry[i - 1] != HW_ENTRY_MANAGED)
            return i - 1;
    return NOWHERE;
}

/*
 *      leaf                                              root
 *      ... callee | scope 2 | scope 1 | begins them | its caller ...
 *                 ^ at                               ^ from: the next is searched left of it
 */
static void put_among(struct hw_client_session *s, const struct hw_marks *k, struct hw_mixed *m)
{
    uint32_t from = m->n_frames, at = m->n_frames; /* the next scope's place, if it has no frame */
    uint64_t sp = 0;
    for (uint32_t i = 0, n = kept(k->n_scopes, HW_MAX_SCOPES); i < n; i++) {
        const struct hw_open_mark *open = &k->scopes[i];
        uint32_t frame = open->sp == sp ? NOWHERE : frame_of(m, from, open->return_address);
        sp = open->sp;
        if (frame != NOWHERE) {
            at = frame;
            from = frame + 1;
        }
        uint64_t id = told_id(s, open->mark);
        hw_mixed_splice(m, at, 0, &id, 1);
        from++;
    }
}

void hw_marks_put_in(struct hw_client_session *s, const struct hw_marks *k, struct hw_mixed *m)
{
    bool mine = k->generation == (s->generation & HW_MARKS_GENERATION);
    if (hw_marks_alone(s)) {
        m->n_frames = m->n_managed = 0;
        m->stop = HW_STOP_END;
    }
    if (s->config.stack_mode == HW_STACKS_PSEUDO && mine)
        put_all(s, k, m);
    if (s->config.stack_mode == HW_STACKS_MIXED && mine)
        put_among(s, k, m);
    if (s->config.stack_mode == HW_STACKS_PSEUDO || s->config.stack_mode == HW_STACKS_THREADS)
        put_thread(s, m);
    if (mine && k->n_types && (s->config.flags & HW_CC_TYPES)) {
        uint64_t id = told_id(s, k->types[kept(k->n_types, HW_MAX_TYPES) - 1].mark);
        hw_mixed_splice(m, 0, 0, &id, 1);
    }
}

/* ---- notes ---- */

#ifdef HW_BARE

void hw_marks_start(struct hw_client_session *s)
{
    (void)s;
}

#else

/* A pointer of the module, in its data; where the note lies says what it is relative to. */
static void join_note(const char *desc)
{
    int32_t offset;
    memcpy(&offset, desc, sizeof offset);
    const struct heapwise_marks **here = (const struct heapwise_marks **)(uintptr_t)(desc + offset);
    __atomic_store_n(here, &marks, __ATOMIC_RELEASE);
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
    __atomic_store_n(&marks.on, s->generation & HW_MARKS_GENERATION, __ATOMIC_RELEASE);
}

/* Not when a session begins: that is inside a program's allocation, perhaps under a lock that
 * another thread waits for with the loader's in its hands. */
void hw_marks_join_loaded(void)
{
    (void)dl_iterate_phdr(join_module, NULL); /* gives what the last call gave */
}

HW_EXPORT void heapwise_marks_join(const struct heapwise_marks **here)
{
    __atomic_store_n(here, &marks, __ATOMIC_RELEASE);
}

#endif

/* Unless the next session has begun already. */
void hw_marks_stop(const struct hw_client_session *s)
{
    uint32_t generation = s->generation & HW_MARKS_GENERATION;
    (void)__atomic_compare_exchange_n(&marks.on, &generation, 0, /* weak = */ false,
                                      __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

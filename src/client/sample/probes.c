/*
 * probes.c - the nops, their notes, and sampling without a session
 *
 * The note of a probe (type 3, name "stapsdt"), words as wide as addresses:
 *
 *      pc of the nop | address of .stapsdt.base | address of the semaphore
 *      provider\0 name\0 args\0
 *
 * A prelinked file may have moved since: the base's distance from its former address tells. args is
 * "size@operand ..." in the assembler's own spelling. Neither note nor base is loaded; `strip`
 * keeps both. Each probe is in a function of its own, lest the compiler make copies of it.
 *
 * Nothing tells a thread without a session that there is a reader. The hot path subtracts from
 * `left` all the same, so that is LOOK_BYTES and not infinite; when it is used up the thread checks
 * the semaphore, one load. Until then only allocations below the interval are missed, and the draw
 * begins with the check, so no size is sampled more often than it should be.
 */
#include "client/sample/probes.h"

#include "client/kernel/sys.h"
#include "client/sample/capture.h"
#include "client/sample/live_set.h"
#include "client/sample/sampler.h"

#define LOOK_BYTES HW_PROBES_INTERVAL

/* Where the kernel counts: ordinary data of the file, writable and private. */
#define SEMAPHORE __attribute__((section(".probes"), aligned(2))) HW_HIDDEN volatile uint16_t
SEMAPHORE hw_probes_alloc_semaphore;
SEMAPHORE hw_probes_free_semaphore;

#if defined(__i386__)
#define WORD ".4byte"
#define ARG  "4@%"
#else
#define WORD ".8byte"
#define ARG  "8@%"
#endif

#define NOTE(name, semaphore, args)                                                                \
    "990: nop\n"                                                                                   \
    ".pushsection .note.stapsdt,\"\",\"note\"\n"                                                   \
    ".balign 4\n"                                                                                  \
    ".4byte 992f-991f, 994f-993f, 3\n"                                                             \
    "991: .asciz \"stapsdt\"\n"                                                                    \
    "992: .balign 4\n"                                                                             \
    "993: " WORD " 990b\n" WORD " _.stapsdt.base\n" WORD " " semaphore "\n"                        \
    ".asciz \"otel_memory\"\n"                                                                     \
    ".asciz \"" name "\"\n"                                                                        \
    ".asciz \"" args "\"\n"                                                                        \
    "994: .balign 4\n"                                                                             \
    ".popsection\n"                                                                                \
    ".ifndef _.stapsdt.base\n"                                                                     \
    ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                        \
    ".weak _.stapsdt.base\n"                                                                       \
    ".hidden _.stapsdt.base\n"                                                                     \
    "_.stapsdt.base: .space 1\n"                                                                   \
    ".size _.stapsdt.base, 1\n"                                                                    \
    ".popsection\n"                                                                                \
    ".endif\n"

__attribute__((noinline)) void hw_probes_alloc(const struct hw_event *e)
{
    uintptr_t id = (uintptr_t)e->id, size = (uintptr_t)e->size, weight = (uintptr_t)e->weight;
    __asm__ volatile(NOTE("alloc", "hw_probes_alloc_semaphore", ARG "0 " ARG "1 " ARG "2")
                     :
                     : "r"(id), "r"(size), "r"(weight)
                     : "memory");
}

__attribute__((noinline)) void hw_probes_free(uint64_t id)
{
    uintptr_t address = (uintptr_t)id;
    __asm__ volatile(NOTE("free", "hw_probes_free_semaphore", ARG "0") : : "r"(address) : "memory");
}

/* ---- sampling without a session ---- */

static bool wanted(void)
{
    return hw_probes_want_alloc() || hw_probes_want_free();
}

static void look_later(struct hw_tls *t)
{
    t->flags = (t->flags & ~(uint32_t)HW_TLS_PROBING) | HW_TLS_LOOKING;
    t->interval = 0;
    t->left = LOOK_BYTES;
    t->reserve = 0;
}

static void sample(struct hw_tls *t)
{
    static _Atomic uint64_t n_draws;
    uint64_t n = atomic_fetch_add_explicit(&n_draws, 1, memory_order_relaxed) + 1;
    uint64_t seed = hw_local_sandbox_ns() ^ (uint64_t)(uintptr_t)t ^ n << 48;
    t->flags = (t->flags & ~(uint32_t)HW_TLS_LOOKING) | HW_TLS_PROBING;
    hw_sampler_begin(t, hw_sampler_mix(seed), HW_PROBES_INTERVAL);
}

bool hw_probes_are_current(struct hw_tls *t)
{
    const uint32_t both = HW_TLS_LOOKING | HW_TLS_PROBING;
    if ((t->flags & both) == 0)
        return false;
    /* A forked child finds started 0 and settles that first. */
    if (t->generation != atomic_load_explicit(&hw_control.generation, memory_order_relaxed) ||
        atomic_load_explicit(&hw_process_page.session, memory_order_relaxed) ||
        !atomic_load_explicit(&hw_process_page.started, memory_order_relaxed)) {
        t->flags &= ~both;
        t->interval = 0;
        return false;
    }
    bool on = wanted();
    if (!on)
        look_later(t);
    else if (t->flags & HW_TLS_LOOKING)
        sample(t);
    return true;
}

void hw_probes_join(struct hw_tls *t)
{
    if (wanted())
        sample(t);
    else
        look_later(t);
}

/* ---- samples ---- */

bool hw_probes_count(const struct hw_event *e)
{
    return e->heap_id == HW_HEAP_ID_LIBC && (hw_here.flags & HW_TLS_PROBING) &&
           (hw_here.flags & (HW_TLS_OURS | HW_TLS_SUPPRESSED)) == 0;
}

bool hw_probes_remember(const struct hw_event *e)
{
    uint64_t val;
    if (hw_live_set_epoch() & 1) /* no session says that the set is there */
        return false;
    if (hw_live_set_maybe(e->id)) {
        struct hw_live_set_slot *old = hw_live_set_take(e->heap_id, e->id, &val);
        if (old) /* its free was missed */
            hw_live_set_drop(old, e->id);
    }
    struct hw_live_set_slot *slot = hw_live_set_claim(e->heap_id, e->id, e->size);
    if (!slot)
        return false;
    hw_live_set_publish(slot, e->heap_id, e->id, hw_live_set_val(HW_PROBES_TAG, 8));
    return true;
}

/*
 * freestanding.c - the bare client's own parts: threads, real functions, commands
 *
 *      outside                                        in the stopped thread
 *      maps the library, fills heapwise_bare_block
 *      calls heapwise_bare_run  ------------------->  HOOK: takes the real functions, prepares
 *      changes the program's code                     the control page: the next allocation shakes
 *      ...                                            hands
 *      changes it back
 *      calls heapwise_bare_run  ------------------->  UNHOOK: ends the recording
 *
 * The program's code leads to our hooks only while the block says hooked.
 */
#include <string.h>
#include <sys/mman.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/kernel/now.h"
#include "client/sample/live.h"
#include "client/sample/stacks.h"
#include "wire/attach.h"
#include "wire/records.h"

#define PROBES 64u

HW_EXPORT struct hw_bare_block heapwise_bare_block = {
    .attach = {.magic = HW_ATTACH_MAGIC, .version = HW_WIRE_VERSION}};
extern HW_HIDDEN void *__libc_stack_end;

/* ---- threads ---- */

struct hw_bare_thread hw_bare_threads[1u << HW_BARE_BITS];
struct hw_tls hw_bare_nobody;

struct hw_tls *hw_bare_find(uintptr_t tp)
{
    uint32_t mask = (1u << HW_BARE_BITS) - 1, i = hw_bare_index(tp);
    for (uint32_t n = 0; n < PROBES; n++, i = (i + 1) & mask) {
        uintptr_t owner = atomic_load_explicit(&hw_bare_threads[i].tp, memory_order_relaxed);
        if (owner == tp ||
            (owner == 0 &&
             (atomic_compare_exchange_strong(&hw_bare_threads[i].tp, &owner, tp) || owner == tp)))
            return &hw_bare_threads[i].tls;
    }
    hw_bare_nobody.left = 0; /* due, and then not sampled */
    return &hw_bare_nobody;
}

/* Their words name slabs that are free again. */
void hw_bare_forget_others(void)
{
    const struct hw_tls *mine = &hw_here;
    for (uint32_t i = 0; i <= (1u << HW_BARE_BITS) - 1; i++) {
        struct hw_bare_thread *t = &hw_bare_threads[i];
        if (atomic_load_explicit(&t->tp, memory_order_relaxed) != 0 && &t->tls != mine)
            memset(&t->tls, 0, sizeof t->tls);
    }
}

/* ---- the real functions ---- */

struct hw_real hw_real;

static void take_real(void)
{
    const uint64_t *r = heapwise_bare_block.real;
#define TAKE(name) *(void **)&hw_real.name = (void *)(uintptr_t)r[HW_HOOKED_##name]
    TAKE(malloc);
    TAKE(free);
    TAKE(calloc);
    TAKE(realloc);
    TAKE(reallocarray);
    TAKE(posix_memalign);
    TAKE(aligned_alloc);
    TAKE(memalign);
    TAKE(valloc);
    TAKE(pvalloc);
    TAKE(free_sized);
    TAKE(free_aligned_sized);
#undef TAKE
}

void hw_boot(void)
{
}

void *hw_operator_real(const char *name)
{
    static const char *const names[] = {
#define X(name, kind) #name,
#include "wire/hooked.def"
#undef X
    };
    for (size_t i = 0; i < HW_HOOKED_COUNT; i++)
        if (strcmp(name, names[i]) == 0)
            return (void *)(uintptr_t)heapwise_bare_block.real[i];
    return NULL;
}

void *hw_boot_find(const char *name, bool *own)
{
    *own = true;
    return hw_operator_real(name);
}

uint64_t hw_boot_allocator_base(void)
{
    return heapwise_bare_block.allocator_base;
}

bool hw_boot_arena_is_used(void)
{
    return false;
}

bool hw_boot_arena_owns(const void *p)
{
    (void)p;
    return false;
}

void *hw_boot_arena_move(void *p, size_t n)
{
    return hw_real.realloc(p, n);
}

/* ---- what this build does not have ---- */

bool hw_minfo_due(struct hw_client_session *s, const struct hw_walk_out *o)
{
    (void)s, (void)o;
    return false;
}

void hw_java_bring_in(void)
{
} /* no thread here, and no loader */

void hw_minfo_make(uint32_t generation)
{
    (void)generation;
}

/* Nothing of ours is in the environment of a program that was not prepared. */
void hw_env_strip(void)
{
}

/* ---- commands ---- */

int hw_client_prepare(void)
{
    static bool prepared;
    if (prepared)
        return 0;
    (void)madvise(&hw_process_page_block, sizeof hw_process_page_block,
                  MADV_WIPEONFORK); /* before 4.14: none */
    hw_stacks_init();
    if (hw_slabs_init() != 0 || hw_live_set_init() != 0)
        return -1;
    prepared = true;
    return 0;
}

/* The generation last: who sees it must see the name. */
static void call_recorder(const struct hw_attach_block *b)
{
    hw_control.magic = HW_CONTROL_MAGIC;
    hw_control.version = HW_WIRE_VERSION;
    memcpy(hw_control.socket_path, b->socket_path, sizeof hw_control.socket_path);
    hw_control.socket_path[sizeof hw_control.socket_path - 1] = '\0';
    atomic_store(&hw_control.ended, 0);
    hw_recorder_heard(hw_local_ns());
    atomic_store_explicit(&hw_control.generation, b->generation, memory_order_release);
}

static uint32_t hook(const struct hw_bare_block *b)
{
    if (hw_client_session_busy())
        return HW_ATTACHED_BUSY;
    __libc_stack_end = (void *)(uintptr_t)b->main_stack_hi;
    take_real();
    hw_sandbox_init();
    hw_clock_init();
    if (hw_client_prepare() != 0)
        return HW_ATTACHED_NO_MEMORY;
    hw_client_session_detach(); /* what a recorder that died has left */
    hw_client_session_init(b->attach.socket_path, "");
    call_recorder(&b->attach);
    return HW_ATTACHED_OK;
}

HW_EXPORT uint64_t heapwise_bare_run(void);
HW_EXPORT uint64_t heapwise_bare_run(void)
{
    struct hw_bare_block *b = &heapwise_bare_block;
    uint32_t command = b->attach.command;
    b->attach.result = HW_ATTACHED_OK;
    if (command == HW_ATTACH_HOOK)
        b->attach.result = hook(b);
    else if (command == HW_ATTACH_UNHOOK)
        hw_client_session_detach();
    else if (command != HW_ATTACH_REFRESH) /* nothing comes later */
        b->attach.result = HW_ATTACHED_UNKNOWN;
    b->attach.command = HW_ATTACH_NONE;
    return b->attach.result;
}

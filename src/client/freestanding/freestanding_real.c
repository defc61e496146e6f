/* freestanding_real.c - the real functions, as the injector found them */
#include <string.h>

#include "client/boot.h"
#include "client/client.h"
#include "client/hooks/patch.h"
#include "client/sample/marks.h"
#include "client/sample/minfo.h"
#include "wire/attach.h"

HW_EXPORT struct hw_bare_block heapwise_bare_block = {
    .attach = {.magic = HW_ATTACH_MAGIC, .version = HW_WIRE_VERSION}};

struct hw_real hw_real;

void hw_bare_take_real(void)
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

void hw_minfo_make(uint32_t generation)
{
    (void)generation;
}

void hw_marks_start(struct hw_client_session *s)
{
    (void)s;
}

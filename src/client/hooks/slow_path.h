/*
 * slow_path.h - what a hook jumps to when there is something to do
 *
 * Why:     the hooks keep no frame and end in a jump, so that a slow function finds the stack as
 *          the program's call left it: its return address and frame are the caller's (HW_SITE).
 * Errors:  as the function that the program called, errno included.
 */
#ifndef HW_CLIENT_HOOKS_SLOW_PATH_H
#define HW_CLIENT_HOOKS_SLOW_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Arguments in registers: a call that is left by a jump has no more stack for arguments than the
 * program provided. */
#if defined(__i386__)
#define HW_SLOW __attribute__((regparm(3), visibility("hidden")))
#else
#define HW_SLOW
#endif

/* One size: malloc, operator new. */
HW_SLOW void *hw_slow_alloc(size_t n, void *(*real)(size_t));
HW_SLOW void *hw_slow_valloc(size_t n, void *(*real)(size_t));
HW_SLOW void *hw_slow_pvalloc(size_t n, void *(*real)(size_t));
/* operator new with nothrow or alignment. */
HW_SLOW void *hw_slow_new_nothrow(size_t n, size_t nothrow, void *(*real)(size_t, size_t));
HW_SLOW void *hw_slow_new_aligned(size_t n, size_t align, void *(*real)(size_t, size_t));
HW_SLOW void *hw_slow_new_aligned_nothrow(size_t n, size_t align, size_t nothrow,
                                          void *(*real)(size_t, size_t, size_t));
HW_SLOW void *hw_slow_calloc(size_t n, size_t size);
HW_SLOW void *hw_slow_aligned(size_t align, size_t n, void *(*real)(size_t, size_t));
HW_SLOW int hw_slow_posix_memalign(void **out, size_t align, size_t n);
HW_SLOW void *hw_slow_realloc(void *p, size_t n);

/* A live sample while its realloc runs. */
struct hw_live_set_slot;
struct hw_held {
    struct hw_live_set_slot *slot; /* NULL = not sampled */
    uint64_t val;
    uint32_t epoch;
};
struct hw_held hw_hold(uint32_t heap_id, const void *p);
/* After the real call. failed: the old block still exists. */
void hw_let_go(const struct hw_held *h, uint32_t heap_id, uint64_t id, bool failed);

HW_SLOW void hw_slow_free(void *p, void (*real)(void *));
HW_SLOW void hw_slow_free_arg(void *p, size_t a, void (*real)(void *, size_t));
HW_SLOW void hw_slow_free_args(void *p, size_t a, size_t b, void (*real)(void *, size_t, size_t));

#endif

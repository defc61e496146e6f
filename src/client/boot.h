/*
 * boot.h - the real functions behind ours
 *
 * Why:     libraries' constructors run before ours and allocate, so the first call of any hook
 *          finds the rest. dlsym allocates and locks; we walk the loader's list ourselves.
 * Shapes:  hw_real's pointers lead into boot.c until resolved, so the hooks need no test. A
 *          function that the allocator lacks is built from those that it has; a pointer is never
 *          NULL.
 * Threads: any number may resolve at a time; all store the same values.
 */
#ifndef HW_CLIENT_BOOT_H
#define HW_CLIENT_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link_map;

struct hw_real {
    void *(*malloc)(size_t);
    void (*free)(void *);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*reallocarray)(void *, size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    void (*free_sized)(void *, size_t);
    void (*free_aligned_sized)(void *, size_t, size_t);
};
extern __attribute__((visibility("hidden"))) struct hw_real hw_real;

/* While the program is being relocated; calls no other function. Is this object our library, and
 * does it have such a function? */
bool hw_boot_is_us(const struct link_map *m);
bool hw_boot_defines(const struct link_map *m, const char *name);
/* Does it have an undefined symbol of that name? */
bool hw_boot_imports(const struct link_map *m, const char *begin);

void hw_boot(void);
/* Were we put into a running program (client/start/injected.c), not preloaded? After hw_boot. */
bool hw_boot_is_injected(void);
/* Our own definition, even if others have one; also of a hidden name. */
void *hw_boot_own_symbol(const char *name);
/* From now on the loader sees our definitions of these names (exports.map). In the constructor. */
void hw_boot_export(const char *const *names, size_t n);
/* Is the allocator part of the program's own file? */
bool hw_boot_is_built_in(void);
/* An address in libc's image. Likewise. */
const void *hw_boot_libc(void);
uint64_t hw_boot_allocator_base(void); /* load address of the object behind hw_real.malloc */

/* Does the object behind hw_real.malloc define that name? */
bool hw_boot_allocator_defines(const char *name);
/* The definition that the program would get without us. *own as below; likewise. */
void *hw_boot_first(const char *name, bool *own);
/* A symbol's next definition after ours, NULL = none. *own = it is in the allocator's object.
 * Only in the constructor: the loader's list is walked without its lock. */
void *hw_boot_find(const char *name, bool *own);
/* The next dlclose, NULL = none. At any time, but without a lock of ours held. */
void *hw_boot_dlclose(void);

/* Memory that was handed out while the real functions were being looked up; never freed. */
bool hw_boot_arena_owns(const void *p);
void *hw_boot_arena_move(void *p, size_t n); /* realloc of such a block */

#endif

/* patch.h - hooks by changing words */
#ifndef HW_CLIENT_HOOKS_PATCH_H
#define HW_CLIENT_HOOKS_PATCH_H

#include "client/client.h"

struct hw_patch_counts {
    uint32_t n_modules, n_changed;
    uint32_t n_slots; /* that lead to us now */
};
/* The loader's lock is held. on: they lead to our hooks, else to the real functions. */
void hw_patch_all(bool on, struct hw_patch_counts *out);
/* In the constructor of a preloaded client: the allocator's own operators, if it has some. */
void hw_patch_operators(void);
void *hw_operator_real(const char *name); /* NULL = not hooked */

#endif

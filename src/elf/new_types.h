/*
 * new_types.h - what type a call of operator new allocates for
 *
 * Why:     memory-infra shows memory by type; a C++ program gives types only where it uses
 *          HEAPWISE_TYPED. Debug info knows more.
 * Shapes:  an address lies in the call (the frame's own: one before the return address). Answers
 *          are chains of one entry whose function is the type; n = 0: the debug info does not say.
 *          The answer is, in this order: the type that the compiler noted at the call site
 *          (DW_AT_LLVM_alloc_type); the class whose constructor runs after the call, in the same
 *          line, if its size is the requested one and no other class fits.
 * Owns:    as elf/lines.h.
 * Errors:  HW_ENOMEM. Damaged debug info is as if absent.
 */
#ifndef HW_ELF_NEW_TYPES_H
#define HW_ELF_NEW_TYPES_H

#include "elf/lines.h"

int hw_lines_new_types(struct hw_lines *l, const uint64_t *ascending, size_t n, hw_lines_fn answer,
                       void *ctx);

#endif

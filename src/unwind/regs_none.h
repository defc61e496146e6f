/*
 * regs_none.h - an architecture without unwind rules: every walk gives its first frame and UNSUP
 *
 * Why:     the client is built for i386 too; its samples are one frame deep and say so.
 */
#ifndef HW_UNWIND_REGS_NONE_H
#define HW_UNWIND_REGS_NONE_H

#include <stdint.h>

#define HW_REGS_SUPPORTED 0
#define HW_REGS_HAVE_LR   0
#define HW_REGS_CFA_ALIGN 8u
#define HW_SIGNAL_FP      0
#define HW_SIGNAL_SP      0
#define HW_SIGNAL_PC      0
#define HW_SIGNAL_LR      0

static inline uint64_t hw_regs_strip(uint64_t ra)
{
    return ra;
}

#endif

/* regs_arm64.h - see regs.h */
#ifndef HW_UNWIND_REGS_ARM64_H
#define HW_UNWIND_REGS_ARM64_H

#include <stdint.h>

#define HW_REGS_SUPPORTED 1
#define HW_REGS_WORD      8u
#define HW_REGS_HAVE_LR   1
#define HW_REGS_CFA_ALIGN 16u

/* sp is at the siginfo (128 bytes); the ucontext's mcontext is 176 bytes into it, x0 at +8. */
#define HW_SIGNAL_X0       (128 + 176 + 8)
#define HW_SIGNAL_FP(rule) (HW_SIGNAL_X0 + 8 * 29)
#define HW_SIGNAL_LR(rule) (HW_SIGNAL_X0 + 8 * 30)
#define HW_SIGNAL_SP(rule) (HW_SIGNAL_X0 + 8 * 31)
#define HW_SIGNAL_PC(rule) (HW_SIGNAL_X0 + 8 * 32)

typedef uint64_t hw_regs_word;

/*
 * Return addresses may be signed. xpaclri is in the hint space, so it does nothing on a core
 * without pointer authentication and is right for every size of the signature on the others.
 */
static inline uint64_t hw_regs_strip(uint64_t ra)
{
    register uint64_t x30 __asm__("x30") = ra;
    __asm__("hint #7" : "+r"(x30));
    return x30;
}

#endif

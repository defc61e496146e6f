/* regs_x86_64.h - see regs.h */
#ifndef HW_UNWIND_REGS_X86_64_H
#define HW_UNWIND_REGS_X86_64_H

#include <stdint.h>

#define HW_REGS_SUPPORTED 1
#define HW_REGS_WORD      8u
#define HW_REGS_HAVE_LR   0 /* the call pushes the return address: always at CFA - 8 */
#define HW_REGS_CFA_ALIGN 8u

/* sp is where the handler's return left it: at the ucontext; its registers begin at 40. */
#define HW_SIGNAL_FP(rule) (40 + 8 * 10)
#define HW_SIGNAL_SP(rule) (40 + 8 * 15)
#define HW_SIGNAL_PC(rule) (40 + 8 * 16)
#define HW_SIGNAL_LR(rule) HW_SIGNAL_PC(rule) /* none; read and ignored */

typedef uint64_t hw_regs_word;

static inline uint64_t hw_regs_strip(uint64_t ra)
{
    return ra;
}

#endif

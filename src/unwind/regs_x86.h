/* regs_x86.h - see regs.h; i386 */
#ifndef HW_UNWIND_REGS_X86_H
#define HW_UNWIND_REGS_X86_H

#include <stdint.h>

#define HW_REGS_SUPPORTED 1
#define HW_REGS_WORD      4u
#define HW_REGS_HAVE_LR   0 /* the call pushes the return address: always at CFA - 4 */
#define HW_REGS_CFA_ALIGN 4u

/* There are two frames, with and without siginfo; the table says how far above sp (which is where
 * the handler's return left it) the saved sp is. The other registers lie round it as in struct
 * sigcontext. */
#define HW_SIGNAL_SP(rule) (4ull * (rule).cfa_off)
#define HW_SIGNAL_FP(rule) (HW_SIGNAL_SP(rule) - 4)
#define HW_SIGNAL_PC(rule) (HW_SIGNAL_SP(rule) + 28)
#define HW_SIGNAL_LR(rule) HW_SIGNAL_PC(rule) /* none; read and ignored */

typedef uint32_t hw_regs_word;

static inline uint64_t hw_regs_strip(uint64_t ra)
{
    return ra;
}

#endif

/*
 * x86.h - how long an x86-64 instruction is, and where it leads
 *
 * Why:     a hook in a function's first bytes means that the instructions there move elsewhere, and
 *          that branches into them are found. That takes lengths and relative addresses, and
 *          nothing else of the instruction set.
 * Shapes:  reads at most 15 bytes. Prefixes, REX, VEX and EVEX are understood; anything that is not
 *          an instruction of 64-bit mode gives 0.
 * Errors:  none: 0 = not understood.
 */
#ifndef HW_INJECT_REMOTE_X86_H
#define HW_INJECT_REMOTE_X86_H

#include <stdint.h>

#include "base/bytes.h"

enum hw_x86_kind {
    HW_X86_PLAIN = 0,
    HW_X86_CALL,  /* relative */
    HW_X86_JUMP,  /* relative, always */
    HW_X86_IF,    /* relative, conditional */
    HW_X86_LOOP,  /* relative, one byte only: loop, jrcxz */
    HW_X86_BEGIN, /* xbegin: relative, too */
    HW_X86_CALL_AT,
    HW_X86_JUMP_AT, /* through a register or memory */
    HW_X86_END      /* ret, hlt, ud2, int3: execution does not continue after it */
};

struct hw_x86 {
    uint8_t bytes;
    uint8_t kind;        /* enum hw_x86_kind */
    uint8_t rel_at;      /* offset of the relative distance, */
    uint8_t rel_bytes;   /* its size, 0 = there is none; counted from the next instruction */
    uint8_t rip_disp_at; /* offset of a displacement from the next instruction; 0 = none */
    uint8_t opcode;
    int32_t rel, rip_disp;
};

int hw_x86_decode(struct hw_bytes code, struct hw_x86 *out); /* its bytes, or 0 */

#endif

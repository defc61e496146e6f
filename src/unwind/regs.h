/*
 * regs.h - what the walker must know about one architecture
 *
 * Why:     the stepping code is the same everywhere; word size, the place of the return address,
 *          its signature bits and the kernel's signal frame are not.
 * Shapes:  constants in bytes, offsets from sp of a frame whose rule is SIGNAL.
 * Source:  the kernel's struct rt_sigframe; doc/design/unwinding.md
 */
#ifndef HW_UNWIND_REGS_H
#define HW_UNWIND_REGS_H

#if defined(__x86_64__)
#include "unwind/regs_x86_64.h"
#elif defined(__aarch64__)
#include "unwind/regs_arm64.h"
#else
#include "unwind/regs_none.h"
#endif

#endif

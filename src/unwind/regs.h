/*
 * regs.h - what the walker must know about one architecture
 *
 * Why:     the stepping code is the same everywhere; word size, the place of the return address,
 *          its signature bits and the kernel's signal frame are not.
 *          On x86-64 the walker is compiled a second time for i386 (HW_UNWIND_X86), for copies
 *          that come from 32-bit programs.
 * Shapes:  constants in bytes, offsets from sp of a frame whose rule is SIGNAL.
 * Source:  the kernel's struct rt_sigframe; doc/design/unwinding.md
 */
#ifndef HW_UNWIND_REGS_H
#define HW_UNWIND_REGS_H

#if defined(HW_UNWIND_X86) || defined(__i386__)
#include "unwind/regs_x86.h"
#elif defined(__x86_64__)
#include "unwind/regs_x86_64.h"
#elif defined(__aarch64__)
#include "unwind/regs_arm64.h"
#else
#error "this architecture has no registers yet"
#endif

#endif

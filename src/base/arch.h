/* arch.h - the enum made from arch.def, and which one this code is compiled for */
#ifndef HW_BASE_ARCH_H
#define HW_BASE_ARCH_H

#include "base/arch.def"

enum hw_arch {
#define X(name, number, elf, text, n_regs, pc, sp, fp) HW_ARCH_##name = (number),
    HW_ARCHS(X)
#undef X
};

#define HW_MAX_REGS 33

#if defined(__x86_64__)
#define HW_ARCH_HERE HW_ARCH_X86_64
#elif defined(__aarch64__)
#define HW_ARCH_HERE HW_ARCH_ARM64
#elif defined(__i386__)
#define HW_ARCH_HERE HW_ARCH_X86
#else
#error "this architecture has no line in base/arch.def yet"
#endif

#endif

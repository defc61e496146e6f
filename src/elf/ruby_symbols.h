/*
 * ruby_symbols.h - where CRuby's interpreter is in an ELF file
 *
 * Why:     releases are stripped, so what its exported symbols do not say is taken from its code and
 *          relocations: the function that runs bytecode is the large one that rb_vm_exec calls.
 * Errors:  what is not found is 0; of a file without exec nothing else is of interest.
 * Threads: any; run it in an unprivileged worker.
 * Source:  doc/design/ruby.md
 */
#ifndef HW_ELF_RUBY_SYMBOLS_H
#define HW_ELF_RUBY_SYMBOLS_H

#include <stdint.h>

struct hw_elf;

/* Link-time addresses. */
struct hw_ruby_symbols {
    uint32_t version;  /* 100 * major + minor */
    uint32_t objspace; /* where the VM has it, by the code of rb_during_gc; 0 = not seen */
    uint64_t exec, exec_bytes, core, core_bytes; /* rb_vm_exec, and what it calls */
    uint64_t vm;                                 /* ruby_current_vm_ptr */
    uint64_t tls_at, tls_offset; /* the loader's two words, or 0: of the program's own variable */
};

void hw_ruby_symbols_find(struct hw_elf *e, int elf_fd, struct hw_ruby_symbols *out);

#endif

/*
 * python_symbols.h - where CPython's interpreter is in an ELF file
 *
 * Why:     the client finds Python's frames and objects by these addresses (wire/python.def).
 * Shapes:  link-time addresses, 0 = not found; without eval nothing else is of interest.
 * Threads: any; run it in an unprivileged worker.
 * Source:  doc/design/python.md
 */
#ifndef HW_ELF_PYTHON_SYMBOLS_H
#define HW_ELF_PYTHON_SYMBOLS_H

#include <stdint.h>

struct hw_elf;

#define HW_PYTHON_RELEASED 0xf0u /* the last byte of a version, neither alpha nor beta */

struct hw_python_symbols {
    uint64_t version; /* PY_VERSION_HEX (before 3.11: of the first release); 0 = older than 3.8 */
    uint64_t eval, eval_bytes, cold, cold_bytes, runtime, code_type;
    uint64_t get_allocator, data, data_bytes;
    uint64_t is_free_threaded; /* its objects begin with other words */
};

void hw_python_symbols_find(struct hw_elf *e, int elf_fd, struct hw_python_symbols *out);

#endif

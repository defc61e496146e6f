/*
 * php_symbols.h - where PHP's engine is in an ELF file
 *
 * Why:     the version and whether the engine has threads are in no exported symbol, but in the
 *          build's id, which each extension is compared with: "API20220829,NTS".
 * Errors:  what is not found is 0; of a file without exec nothing else is of interest.
 * Threads: any; run it in an unprivileged worker.
 * Source:  doc/design/php.md
 */
#ifndef HW_ELF_PHP_SYMBOLS_H
#define HW_ELF_PHP_SYMBOLS_H

#include <stdint.h>

/* Link-time addresses. */
struct hw_php_symbols {
    uint64_t exec, exec_bytes;       /* execute_ex */
    uint64_t globals, globals_bytes; /* executor_globals; 0 in an engine with threads */
    uint32_t api;                    /* 0: not seen, or a build with threads or for debugging */
};

void hw_php_symbols_find(int elf_fd, struct hw_php_symbols *out);

#endif

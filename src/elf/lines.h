/*
 * lines.h - functions, files and lines of many addresses of one file
 *
 * Why:     debug info says which functions were inlined where an address is, and the line in each.
 *          Asking address by address reads the same units again and again; here the addresses come
 *          sorted, so each unit is parsed once.
 * Shapes:  addresses ascend. The answer of one is a chain, innermost inlined function first, the
 *          function that has the code last; a file without lines for the address gives the symbol
 *          alone (one entry without file), an unknown address gives n = 0.
 * Units:   va are link-time addresses.
 * Owns:    every answer lives until the callback returns; names are mangled as in the file.
 * Errors:  HW_ENOMEM and what hw_elf_open gives. Damaged debug info is as if absent.
 * Threads: one owner at a time.
 */
#ifndef HW_ELF_LINES_H
#define HW_ELF_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_error;
struct hw_lines;

#define HW_MAX_INLINE_DEPTH 256

struct hw_line {
    const char *function; /* mangled where the file has it so; NULL = unknown */
    const char *file;     /* NULL = unknown */
    uint32_t line;        /* 0 = unknown */
};

/* index: which address of the array. Not 0 stops with that value. */
typedef int (*hw_lines_fn)(void *ctx, size_t index, const struct hw_line *chain, size_t n);

int hw_lines_open(int fd, struct hw_lines **out, struct hw_error *err); /* borrows fd */
void hw_lines_close(struct hw_lines *l);
bool hw_lines_has_debug_info(const struct hw_lines *l);
int hw_lines_resolve(struct hw_lines *l, const uint64_t *ascending, size_t n, hw_lines_fn answer,
                     void *ctx);

/* The function at the address may have another one's name: hw_elf_is_folded. */
bool hw_lines_is_folded(struct hw_lines *l, uint64_t va);

/* Resolves "." and ".." of a path by the text alone, in place: the sources need not be on
 * this machine. */
void hw_simplify_path(char *path);

#endif

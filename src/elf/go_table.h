/*
 * go_table.h - the functions, files and lines of a Go program, from the table that its runtime uses itself
 *
 * Why:     Go programs have this table (.gopclntab) even when they are stripped, and their runtime's
 *          own profiles name code by it: so do we, with the same names.
 * Shapes:  read piece by piece from the file. A return address is one frame, of the innermost of the
 *          functions that were inlined there, as Go lists the others by addresses of their own; only
 *          of the last address of a stack all are expanded. hw_go_table_frames does both.
 *          Layouts are those of 1.19 to 1.23 (1.20 was not tried); others are refused.
 * Units:   va are link-time addresses.
 * Owns:    a borrowed descriptor, and a copy of some of the table.
 * Errors:  HW_ENOTFOUND: it is no Go program; HW_EUNSUPPORTED: of a version that is not known;
 *          HW_EFORMAT, HW_ETRUNCATED, HW_ESYS, HW_ENOMEM. Everything is checked: the file may be anything.
 * Threads: one owner at a time.
 * Source:  Go's runtime/symtab.go (pcHeader, findfunc, pcvalue, inlinedCall), runtime2.go (_func),
 *          debug/buildinfo
 */
#ifndef HW_ELF_GO_TABLE_H
#define HW_ELF_GO_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hw_error;
struct hw_go_table;

#define HW_GO_NAME_MAX 1024u

struct hw_go_frame {
    char function[HW_GO_NAME_MAX], file[HW_GO_NAME_MAX]; /* longer ones are cut; "" = unknown */
    uint32_t line;                                       /* 0 = unknown */
};

/* Is that a Go program's file? Cheaper than opening it. */
bool hw_go_table_is_in(int fd);
int hw_go_table_open(int fd, struct hw_go_table **out, struct hw_error *err);
void hw_go_table_close(struct hw_go_table *t); /* NULL is fine */

const char *hw_go_table_version(const struct hw_go_table *t); /* "go1.19.8" */
/* Link-time address of the program's first byte in memory, rounded down to a page: for the bias. */
uint64_t hw_go_table_first(const struct hw_go_table *t);
/* Where the table is in memory, and which word behind its address in the runtime's own record of the module
 * (moduledata) is the address that functions' data are counted from. */
uint64_t hw_go_table_va(const struct hw_go_table *t);
uint64_t hw_go_table_bytes(const struct hw_go_table *t); /* at most */
uint32_t hw_go_table_data_word(const struct hw_go_table *t);
/* The range of the code. */
void hw_go_table_text(const struct hw_go_table *t, uint64_t *lo, uint64_t *hi);
/* Address of the runtime's sampling rate by its symbol, or, after hw_go_table_place, from the code that reads it; 0: not
 * found. */
uint64_t hw_go_table_rate(struct hw_go_table *t);
/* A word as it is in the file, before the program runs. */
bool hw_go_table_word(const struct hw_go_table *t, uint64_t va, uint64_t *out);

/* What only the running program knows: where its code begins (of position-independent ones the
 * file does not say), and where functions' data are. Without the second, inlined functions have their callers' names. */
void hw_go_table_place(struct hw_go_table *t, uint64_t text, uint64_t data);

/* The frames of a return address, innermost first; is_last: of the outermost one of a stack. How many; 0: no Go code. */
size_t hw_go_table_frames(struct hw_go_table *t, uint64_t va, bool is_last, struct hw_go_frame *out,
                          size_t max);

#endif

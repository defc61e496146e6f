/*
 * allocator.h - whose malloc a process uses, judging by its mappings
 *
 * Why:     users want to know before recording; the allocator's own figures depend on it.
 * Shapes:  the name of the first library that brings a malloc, in the order in which they win:
 *          "jemalloc", "tcmalloc", "mimalloc", "glibc", "musl", "bionic". NULL: none of them is
 *          mapped, so an allocator is linked into the program, if it has one.
 * Threads: pure.
 */
#ifndef HW_PROC_ALLOCATOR_H
#define HW_PROC_ALLOCATOR_H

struct hw_maps;

const char *hw_allocator_name(const struct hw_maps *m);

#endif

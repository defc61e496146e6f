/*
 * own_calls.h - the client's own mappings do not go through its own hooks
 *
 * Why:     mmap and munmap are exported (hooks/mmap_hooks.c), so the client's own calls, also those of
 *          sources shared with the recorder, need other names. Included before every source of it.
 */
#ifndef HW_CLIENT_KERNEL_OWN_CALLS_H
#define HW_CLIENT_KERNEL_OWN_CALLS_H

#include <stddef.h>
#include <sys/mman.h>
#include <sys/types.h>

__attribute__((visibility("hidden"))) void *hw_kernel_mmap(void *at, size_t n, int prot, int flags,
                                                           int fd, off_t off);
__attribute__((visibility("hidden"))) int hw_kernel_munmap(void *at, size_t n);

#define mmap(...)   hw_kernel_mmap(__VA_ARGS__)
#define munmap(...) hw_kernel_munmap(__VA_ARGS__)

#endif

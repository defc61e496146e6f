/*
 * mmap_hooks.h - mmap and its like
 */
#ifndef HW_CLIENT_HOOKS_MMAP_HOOKS_H
#define HW_CLIENT_HOOKS_MMAP_HOOKS_H

/* In the constructor, or by the injector's command: finds the real functions. */
void hw_mappings_init(void);

#endif

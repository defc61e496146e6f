/*
 * mappings.h - mmap and its like
 */
#ifndef HW_CLIENT_HOOKS_MAPPINGS_H
#define HW_CLIENT_HOOKS_MAPPINGS_H

/* In the constructor, or by the injector's command: finds the real functions. */
void hw_mappings_init(void);

#endif

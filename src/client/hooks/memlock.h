/*
 * memlock.h - a program locks its memory
 */
#ifndef HW_CLIENT_HOOKS_MEMLOCK_H
#define HW_CLIENT_HOOKS_MEMLOCK_H

#include "client/client.h"

void hw_memlock_init(void *real); /* in the constructor; NULL = by the kernel's number */
int hw_memlock(int flags, bool by_number);

#endif

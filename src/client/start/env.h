/*
 * env.h - our variables in the environment
 */
#ifndef HW_CLIENT_START_ENV_H
#define HW_CLIENT_START_ENV_H

#include "client/client.h"

/* sanitizer.c: of a program held at its exec, whose environment no longer has them; NULL = not
 * there. And the entry that the kernel's array repeats in the place of each; NULL = none. */
const char *hw_start_variable(const char *name);
const char *hw_start_repeated_entry(void);
void hw_env_init(void); /* in the constructor */
void hw_env_strip(void);

#endif

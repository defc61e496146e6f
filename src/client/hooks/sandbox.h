/* sandbox.h - a program restricts its system calls */
#ifndef HW_CLIENT_HOOKS_SANDBOX_H
#define HW_CLIENT_HOOKS_SANDBOX_H

#include "client/client.h"

void hw_sandbox_init(void); /* in the constructor */

#endif

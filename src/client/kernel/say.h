/*
 * say.h - one line to stderr, without stdio
 */
#ifndef HW_CLIENT_KERNEL_SAY_H
#define HW_CLIENT_KERNEL_SAY_H

#include "client/client.h"

void hw_say(const char *text); /* one line to stderr; only what the user has to know */

#endif

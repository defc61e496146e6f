/*
 * write_stderr.h - one line to stderr, without stdio
 */
#ifndef HW_CLIENT_KERNEL_WRITE_STDERR_H
#define HW_CLIENT_KERNEL_WRITE_STDERR_H

#include "client/client.h"

void hw_write_stderr(const char *text); /* one line to stderr; only what the user has to know */

#endif

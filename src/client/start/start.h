/*
 * start.h - what the constructor and attaching share
 */
#ifndef HW_CLIENT_START_START_H
#define HW_CLIENT_START_START_H

#include "client/client.h"

int hw_client_prepare(void); /* everything before the first handshake; 0, or -1 = no memory */
void hw_fork_init(void);
/* How long a start may wait for the recorder: so long, or, in a child that a library's constructor has
 * forked, what is left of that since the program was loaded, and at least the second. sanitizer.c */
uint64_t hw_start_tree_timeout_ns(uint64_t timeout_ns, uint64_t least_ns);
/* In the constructor of a library that was put into a running program: how dlsym knows it. Here,
 * as the process that loads it may be killed after the dlopen. */
void hw_attach_note_handle(void);

#endif

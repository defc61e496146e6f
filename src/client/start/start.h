/*
 * start.h - what the constructor and attaching share
 */
#ifndef HW_CLIENT_START_START_H
#define HW_CLIENT_START_START_H

#include "client/client.h"

int hw_client_prepare(void); /* everything before the first handshake; 0, or -1 = no memory */
void hw_fork_init(void);
/* In the constructor of a library that was put into a running program: how dlsym knows it. Here,
 * as the process that loads it may be killed after the dlopen. */
void hw_attach_note_handle(void);

#endif

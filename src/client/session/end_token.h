/*
 * end_token.h - the descriptor whose end tells the recorder that we exec'd, exited or closed it
 *
 * Why:     nothing is read or written through it after the handshake. While an answer is pending it is
 *          the connection.
 * Threads: under the session's lock, or in a forked child.
 */
#ifndef HW_CLIENT_SESSION_END_TOKEN_H
#define HW_CLIENT_SESSION_END_TOKEN_H

#include <stdbool.h>

#define HW_FEW_DESCRIPTORS 64

long hw_descriptor_limit(void); /* of the program's; 1024 if it is more */
bool hw_token_is_ours(void);
void hw_token_keep(int fd); /* replaces the previous one */
void hw_token_drop(void);   /* closes it, if it is still ours */
int hw_token_take(void);    /* now owned by the caller; -1: the program has closed it */

#endif

/*
 * retire.h - a session is over
 */
#ifndef HW_CLIENT_RING_RETIRE_H
#define HW_CLIENT_RING_RETIRE_H

#include "client/client.h"

/* Puts it out of sight; false: somebody else has. */
bool hw_client_session_retire(struct hw_client_session *s);
/* Those that were, and that nobody has collected so far. Under the session's lock. */
struct hw_client_session *hw_client_session_collect(void);
void hw_client_session_give_up(struct hw_client_session *s, enum hw_client_error why);

#endif

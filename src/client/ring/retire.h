/*
 * retire.h - a session is over
 */
#ifndef HW_CLIENT_RING_RETIRE_H
#define HW_CLIENT_RING_RETIRE_H

#include "client/client.h"

/* Unpublishes it; false: another thread has done so. */
bool hw_client_session_retire(struct hw_client_session *s);
/* Takes the list of retired sessions. Under the session's lock. */
struct hw_client_session *hw_client_session_collect(void);
void hw_client_session_give_up(struct hw_client_session *s, enum hw_client_error why);

#endif

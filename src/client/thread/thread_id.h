/*
 * thread_id.h - a thread as the ring wants to know it
 */
#ifndef HW_CLIENT_THREAD_THREAD_ID_H
#define HW_CLIENT_THREAD_THREAD_ID_H

#include "client/client.h"

struct hw_ring_thread hw_push_this_thread(void); /* this one, as the ring wants to know it */
/* A visit of this thread was abandoned: skips the record that it had reserved last. */
void hw_push_skip_abandoned(struct hw_client_session *s);

#endif

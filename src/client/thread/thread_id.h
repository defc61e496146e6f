/*
 * thread_id.h - a thread as the ring wants to know it
 */
#ifndef HW_CLIENT_THREAD_THREAD_ID_H
#define HW_CLIENT_THREAD_THREAD_ID_H

#include "client/client.h"

struct hw_ring_thread hw_push_thread(void); /* this one, as the ring wants to know it */
/* A visit of this thread was left in the middle: its last record will not be finished by it. */
void hw_push_abandoned(struct hw_client_session *s);

#endif

/* adaptive.h - intervals that change during a session */
#ifndef HW_CLIENT_SAMPLE_ADAPTIVE_H
#define HW_CLIENT_SAMPLE_ADAPTIVE_H

#include "client/client.h"

/* After it was doubled or halved. */
void hw_interval_refresh(struct hw_client_session *s, uint32_t heap_id);
/* Is the ring nearly full? */
void hw_adapt_interval(struct hw_client_session *s, uint32_t heap_id);
/* One more sample in this second. */
void hw_adapt_to_rate(struct hw_client_session *s, uint32_t heap_id, uint64_t now_ns);
/* The recorder wants another rate for all. */
void hw_adapt_to_recorder(struct hw_client_session *s, uint32_t wanted);

#endif

/*
 * capture.h - one sampled allocation, and its free
 */
#ifndef HW_CLIENT_SAMPLE_CAPTURE_H
#define HW_CLIENT_SAMPLE_CAPTURE_H

#include "client/client.h"

struct hw_event {
    uint64_t id; /* address or alloc_id */
    uint64_t size, weight;
    uint32_t heap_id, flags;
    const struct hw_call_site *site;
};

bool hw_record_alloc(const struct hw_event *e);
void hw_report_free(uint32_t heap_id, uint64_t id);
void hw_adapt_interval(struct hw_client_session *s, uint32_t heap_id);
/* After it was doubled or halved. */
void hw_interval_refresh(struct hw_client_session *s, uint32_t heap_id);

#endif

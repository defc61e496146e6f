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

/* The allocator's module, unless that is libc or the program; lo 0 = none. What it maps is for
 * its blocks. */
extern HW_HIDDEN struct hw_walk_range hw_allocator_code;
/* malloc is libc's own: what is before a block is its chunk's header. */
extern HW_HIDDEN bool hw_allocator_is_libc;

bool hw_record_alloc(const struct hw_event *e);
void hw_report_free(uint32_t heap_id, uint64_t id);
/* id, size and heap of a mapping; weight is the size, or what HW_ALLOC_REMAPPED says. */
void hw_record_mapping(const struct hw_event *e);

#endif

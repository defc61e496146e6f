/*
 * minfo.h - the allocator's own figures (malloc_info)
 */
#ifndef HW_CLIENT_SAMPLE_MINFO_H
#define HW_CLIENT_SAMPLE_MINFO_H

#include "client/client.h"

void hw_minfo_init(void);
/* In a visit, with the sample's stack: is a request for the allocator's figures pending, and can
 * this thread serve it? Claims the request. */
bool hw_minfo_due(struct hw_client_session *s, const struct hw_walk_out *o);
void hw_minfo_make(uint32_t generation); /* outside of any visit */

#endif

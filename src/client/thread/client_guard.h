/*
 * client_guard.h - threads inside our code: nothing is unmapped meanwhile
 */
#ifndef HW_CLIENT_THREAD_CLIENT_GUARD_H
#define HW_CLIENT_THREAD_CLIENT_GUARD_H

#include "client/client.h"

struct hw_client_guard {
    uint64_t mark;                     /* both: of an active visit */
    struct hw_client_session *session; /* NULL: nobody is recording */
    uintptr_t tls_before, slab_before;
    uint32_t last_pos_before;
    struct hw_slab *slab; /* whose busy word was set; NULL = the common counter */
    bool nested;          /* a signal handler inside another visit: record frees only */
    uint64_t end_mark;
};

/* *v is on the caller's stack: its address tells inner visits from abandoned ones. */
void hw_enter(struct hw_client_guard *v);
void hw_leave(struct hw_client_guard *v);
void hw_visit_abandon(struct hw_tls *t); /* the outermost visit of this thread will never end */

#endif

/* mark_names.h - the names of marks, also those of slices */
#ifndef HW_CLIENT_RING_MARK_NAMES_H
#define HW_CLIENT_RING_MARK_NAMES_H

#include "client/client.h"

struct hw_mark_text {
    const char *p;
    size_t n;
};
struct hw_mark_text hw_mark_text_of(const struct heapwise_mark *m);
uint64_t hw_mark_id(enum hw_managed_kind kind, struct hw_mark_text t);
void hw_name_send(struct hw_client_session *s, uint64_t id, struct hw_mark_text text,
                  struct hw_mark_text file);
/* Into 16 bytes; false: there is none, or none that we may request. */
bool hw_marks_thread_name(char *out);

static inline bool hw_name_is_sent(const struct hw_client_session *s, uint64_t id)
{
    return atomic_load_explicit(&s->named[id % HW_NAMED_SLOTS], memory_order_relaxed) == id;
}

#endif

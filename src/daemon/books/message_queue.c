#include "daemon/books/message_queue.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"

#include "base/banned.h"

int hw_message_queue_init(struct hw_message_queue *m)
{
    *m = (struct hw_message_queue){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    m->last = &m->first;
    if (m->fd < 0)
        return HW_ESYS;
    return pthread_mutex_init(&m->lock, NULL) ? HW_ENOMEM : HW_OK;
}

void hw_message_queue_done(struct hw_message_queue *m)
{
    for (struct hw_msg *q = hw_message_queue_take(m); q;) {
        struct hw_msg *next = q->next;
        free(q);
        q = next;
    }
    (void)close(m->fd);                    /* nothing is lost with it */
    (void)pthread_mutex_destroy(&m->lock); /* no thread holds it */
}

int hw_message_queue_put(struct hw_message_queue *m, uint32_t type, void *who, void *data,
                         uint64_t n, uint32_t flags)
{
    struct hw_msg *q = malloc(sizeof *q);
    if (!q)
        return HW_ENOMEM;
    *q = (struct hw_msg){.type = type, .flags = flags, .who = who, .data = data, .n = n};
    pthread_mutex_lock(&m->lock);
    *m->last = q;
    m->last = &q->next;
    pthread_mutex_unlock(&m->lock);
    uint64_t one = 1;
    (void)!write(m->fd, &one, sizeof one); /* full means that it is readable already */
    return HW_OK;
}

struct hw_msg *hw_message_queue_take(struct hw_message_queue *m)
{
    uint64_t n;
    (void)!read(m->fd, &n, sizeof n); /* empty is fine */
    pthread_mutex_lock(&m->lock);
    struct hw_msg *q = m->first;
    m->first = NULL;
    m->last = &m->first;
    pthread_mutex_unlock(&m->lock);
    return q;
}

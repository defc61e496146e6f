/*
 * message_queue.h - messages between two threads of the recorder
 *
 * Why:     objects move by message; nothing else is shared. The descriptor becomes readable when a
 *          message waits, so both sides can sleep in poll.
 * Owns:    messages on their way; hw_message_queue_put takes one over, hw_message_queue_take gives
 *          it away.
 * Threads: any number put, one takes.
 */
#ifndef HW_DAEMON_BOOKS_MESSAGE_QUEUE_H
#define HW_DAEMON_BOOKS_MESSAGE_QUEUE_H

#include <pthread.h>
#include <stdint.h>

struct hw_msg {
    struct hw_msg *next;
    uint32_t type;
    uint32_t flags;
    void *who;  /* the object it is about */
    void *data; /* its meaning depends on the type */
    uint64_t n;
};

struct hw_message_queue {
    pthread_mutex_t lock;
    struct hw_msg *first, **last;
    int fd; /* eventfd, non-blocking */
};

int hw_message_queue_init(struct hw_message_queue *m);
void hw_message_queue_done(struct hw_message_queue *m);
/* HW_ENOMEM: nothing was sent. */
int hw_message_queue_put(struct hw_message_queue *m, uint32_t type, void *who, void *data,
                         uint64_t n, uint32_t flags);
/* All waiting messages, oldest first, or NULL; clears the descriptor. The caller frees each. */
struct hw_msg *hw_message_queue_take(struct hw_message_queue *m);

#endif

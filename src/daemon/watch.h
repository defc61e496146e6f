/*
 * watch.h - descriptors in the epoll set of the main thread
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_WATCH_H
#define HW_DAEMON_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct hw_recorder;

/* A descriptor in the epoll set. Embedded in its object; fn gets it back. */
struct hw_watch {
    int fd;
    void (*fn)(struct hw_watch *w, uint32_t events);
};

#define HW_OWNER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

int hw_watch_add(struct hw_recorder *r, struct hw_watch *w, uint32_t events);
void hw_watch_remove(struct hw_recorder *r, struct hw_watch *w);

#endif

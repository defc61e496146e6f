/* Descriptors in the epoll set of the main thread. */
#include <sys/epoll.h>

#include "daemon/core.h"

#include "base/banned.h"

int hw_watch_add(struct hw_recorder *r, struct hw_watch *w, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = w};
    return epoll_ctl(r->epoll_fd, EPOLL_CTL_ADD, w->fd, &e) < 0 ? HW_ESYS : HW_OK;
}

void hw_watch_remove(struct hw_recorder *r, struct hw_watch *w)
{
    if (w->fd >= 0)
        (void)epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL); /* twice is fine */
}

/*
 * client_page.h - the control page of one target, and which system calls the target may make
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_CLIENTS_CLIENT_PAGE_H
#define HW_DAEMON_CLIENTS_CLIENT_PAGE_H

#include <stdbool.h>
#include <stdint.h>

/* The page through which a client is switched on and off. */
struct hw_page {
    int fd; /* owned; -1 after it was sent */
    struct hw_control_page *map;
};
/* Which system calls a process has given up; compared with the handshake. */
struct hw_filters {
    int32_t seccomp;
    uint64_t n;
};
/* The main thread's, or the strictest of all threads'. */
struct hw_filters hw_filters_of(int proc_dir, bool all_threads);
/* Sets the page's word if there are more filters than at the handshake; gives whether there are. */
bool hw_page_update_filters(struct hw_page *p, int proc_dir, const struct hw_filters *before,
                            bool all_threads);
/* version: agreed on with the client. */
int hw_page_init(struct hw_page *p, uint32_t version, const char *socket_path,
                 const struct hw_filters *at_hello);
void hw_page_done(struct hw_page *p);
void hw_page_beat(struct hw_page *p); /* heartbeat */

#endif

/*
 * recorder.h - the recorder: one event loop with its sessions, clients and sockets
 *
 * Why:     `heapprofd`/`traced` (a service) and the recorder embedded in `heapwise record` and
 *          `heap_profile` are this one function with different sockets.
 * Shapes:  hw_recorder_run returns when the service is told to stop or, embedded, when its
 *          controller is gone and all its sessions are written.
 * Threads: the main thread owns sockets, sessions, dumps; worker threads own clients (architecture
 *          6). Signals: SIGUSR1 dumps every process of every session; SIGTERM, SIGINT end with all
 *          dumps written.
 */
#ifndef HW_DAEMON_RECORDER_H
#define HW_DAEMON_RECORDER_H

#include <stdbool.h>

struct hw_error;

struct hw_recorder_options {
    int controller_fd;           /* embedded: the socketpair's end; -1 for a service */
    const char *producer_socket; /* where clients connect: a path or '@name'; NULL = default list */
    const char *consumer_socket; /* service: where commands connect; NULL = default */
    const char *cache_dir;       /* unwind tables; NULL = default ($XDG_CACHE_HOME or /var/cache) */
    const char *policy;          /* file; NULL = policy.h's usual one */
    const char *library;         /* the client's, to be put into running processes; NULL = none */
};

/* Embedded or service. Returns 0 after an orderly end, else HW_E…. */
int hw_recorder_run(const struct hw_recorder_options *o, struct hw_error *err);

/* Default sockets, from the environment (secure_getenv) or the lists of cli.md. */
const char *hw_default_producer_socket(void);
const char *hw_default_consumer_socket(void);

#endif

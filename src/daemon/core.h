/*
 * core.h - the objects of the recorder's main thread
 *
 *     recorder ──┬── controls   connections of commands            control/command_connection.h
 *                ├── sessions   one recording each                 session.h
 *                ├── conns      clients that are not profiled      clients/clients.h
 *                ├── targets    one profiled process each          target.h, dump/dump.h
 *                ├── modules    files they execute                 code/modules.h
 *                └── drain      threads that empty rings           books/drain.h
 *
 * Who may call whom: doc/design/recorder.md. A target notifies those above it through events.h.
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_CORE_H
#define HW_DAEMON_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory/vec.h"
#include "config/config.h"
#include "daemon/books/callsite_totals.h"
#include "daemon/books/drain.h"
#include "daemon/books/rate_limit.h"
#include "daemon/books/ring_consumer.h"
#include "daemon/books/target_slices.h"
#include "daemon/clients/client_page.h"
#include "daemon/clients/clients.h"
#include "daemon/code/blocking_reader.h"
#include "daemon/code/frames.h"
#include "daemon/code/jit.h"
#include "daemon/code/modules.h"
#include "daemon/code/notes.h"
#include "daemon/code/unwind_tables.h"
#include "daemon/code/worker.h"
#include "daemon/control/command_connection.h"
#include "daemon/dump/dump.h"
#include "daemon/dump/live_view.h"
#include "daemon/dump/procpoll.h"
#include "daemon/execwatch/exec_control.h"
#include "daemon/execwatch/exec_watch.h"
#include "daemon/java/graph_links.h"
#include "daemon/policy/launched_by.h"
#include "daemon/policy/permission.h"
#include "daemon/reach/attach_injected.h"
#include "daemon/reach/attach_preloaded.h"
#include "daemon/reach/namespace_socket.h"
#include "daemon/recorder.h"
#include "daemon/session.h"
#include "daemon/session/condition.h"
#include "daemon/session/record_again.h"
#include "daemon/session/start_when.h"
#include "daemon/target.h"
#include "daemon/trigger.h"
#include "daemon/watch.h"
#include "proc/memory_limits.h"
#include "proc/pid.h"
#include "trace/process_writer.h"
#include "wire/control.h"
#include "wire/control_page.h"
#include "wire/handshake.h"

struct hw_target_events;

#define HW_ACCOUNT_USERS 16u /* the one with the least debt is forgotten */

struct hw_recorder {
    struct hw_recorder_options options;
    const struct hw_target_events *events; /* notified about its targets */
    int epoll_fd;
    struct hw_policy policy;
    int cache_fd;             /* -1 = none */
    struct hw_watch pressure; /* -1 = no events from the kernel */
    struct hw_watch signals, producers, consumers, answers_watch, workers_watch;
    struct hw_workers workers;
    struct hw_modules *modules;
    struct hw_blocking_reader *blocking_reader;
    struct hw_drain *drain;
    struct hw_message_queue answers;
    struct hw_msg *answered; /* owned; accepted, and not inspected yet */
    HW_VEC(struct hw_conn *) conns;
    HW_VEC(struct hw_target *) targets;
    uint64_t next_account_ns; /* dump/account.c: no reading is kept before */
    uint64_t next_heaps_ns;   /* likewise, for what is inside of heaps */
    struct hw_account_user {
        uint32_t uid;
        struct hw_rate_limit rest; /* readings of his targets kept the main thread waiting */
    } account_users[HW_ACCOUNT_USERS];
    HW_VEC(struct hw_session *) sessions;
    HW_VEC(struct hw_control_conn *) controls;
    HW_VEC(struct hw_namespace_socket *) namespace_sockets;
    hw_namespace_socket_accept *accept_at; /* hello.c's: for clients that come through them */
    HW_VEC(struct hw_attach) attaching;
    HW_VEC(struct hw_attach_candidate) found;
    struct hw_exec_watch starts;
    HW_VEC(struct hw_inject_job *) injecting;
    HW_VEC(struct hw_injected) injected;
    struct hw_watch inject_watch;
    char producer_name[108];
    char taken_name[108]; /* where another recorder listens, and we should; "" = none */
    uint64_t next_session, next_key;
    uint32_t next_generation;
    bool embedded, stopping, controller_gone;
    bool activated;       /* the sockets are the service manager's */
    bool accept_paused;   /* out of descriptors */
    bool sweep_due;       /* a target ended: its files may be closed */
    bool stacks_left;     /* the last turn was too short for all of them */
    bool dumps_left;      /* the same */
    size_t next_resolved; /* of the targets: the next turn starts there */
    size_t next_written;  /* the same */
    uint64_t next_sweep_ns, next_measure_ns, next_namespace_sockets_ns;
    uint64_t accept_again_ns, accept_said_ns;
    uint32_t max_conns;      /* of programs; by the limit of descriptors */
    struct hw_refused_user { /* share.c */
        uint32_t uid;
        uint64_t n;
    } refused_users[64];
    size_t n_refused_users;
    uint64_t n_refused; /* of those, and of users without room there */
    int spare_fd;       /* given up for a moment to tell a command that there are no more; -1 */
};

#endif

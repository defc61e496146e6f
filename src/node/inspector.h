/*
 * inspector.h - the inspector of a running Node.js: opened, used, closed again
 *
 * Why:     a snapshot needs nothing preloaded, only the inspector that each Node.js has. Whoever
 *          opens one must close it: as long as it is open, every local user can run code in that
 *          process.
 * Shapes:  one that is open already is used and stays open. Nothing is sent to a socket that is not
 *          the process's own (tcp.h).
 * Errors:  as node_process.h and talk.h; HW_EBUSY: its port is in use by another process.
 * Threads: one.
 * Source:  doc/design/node.md
 */
#ifndef HW_NODE_INSPECTOR_H
#define HW_NODE_INSPECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "node/node_process.h"
#include "node/talk.h"
#include "node/tcp.h"

struct hw_inspector {
    const struct hw_pid *pid;        /* borrowed */
    const struct hw_node_wait *wait; /* borrowed */
    struct hw_tcp_row listener;
    bool is_ours; /* opened by us, and not closed yet */
    struct hw_node_link link;
};

/* port: where it listens or will. On failure nothing is left to be done, but `out->is_ours`: see
 * hw_inspector_close. */
int hw_inspector_open(const struct hw_pid *pid, const struct hw_node_port *port,
                      const struct hw_node_wait *wait, struct hw_inspector *out,
                      struct hw_error *err);
/* If it is ours, closes it; whether the open one failed or not. An error: it is still open. Waits as
 * long as silence_ms for it, also when the asker was told to stop. */
int hw_inspector_close(struct hw_inspector *i, struct hw_error *err);

#endif

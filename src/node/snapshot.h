/*
 * snapshot.h - commands to V8's inspector, and the heap snapshot that it sends
 *
 * Why:     a snapshot comes as the text of its file, cut into messages: it is written as it comes,
 *          and no part of it is kept.
 * Shapes:  one command at a time; events that nobody asked for are passed over.
 * Errors:  as talk.h; HW_EFORMAT also for what is no snapshot, and for a command that was refused.
 * Source:  https://chromedevtools.github.io/devtools-protocol/v8/HeapProfiler/
 */
#ifndef HW_NODE_SNAPSHOT_H
#define HW_NODE_SNAPSHOT_H

#include <stdint.h>

struct hw_error;
struct hw_node_link;
struct hw_progress;

struct hw_snapshot_job {
    int fd;                       /* borrowed; written in order */
    uint64_t max_bytes;           /* HW_ELIMIT above */
    struct hw_progress *progress; /* may be NULL; of V8's walk over its heap, total = 100 */
    uint64_t bytes;               /* written so far */
};

int hw_snapshot_take(struct hw_node_link *l, struct hw_snapshot_job *job, struct hw_error *err);
/* Has the program close its inspector, and with it this connection. That it is closed is not known
 * by this. */
int hw_snapshot_close_inspector(struct hw_node_link *l, struct hw_error *err);

#endif

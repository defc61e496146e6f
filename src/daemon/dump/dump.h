/*
 * dump.h - dumps of a target: requested, waited for, written in turns
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_DUMP_DUMP_H
#define HW_DAEMON_DUMP_DUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/code/jit.h"
#include "daemon/java/graph_links.h"

struct hw_snapshot;
struct hw_stream_event;
struct hw_control_conn;
struct hw_recorder;
struct hw_target;

/* enum hw_snap_flags of its dumps. */
uint32_t hw_dump_flags(const struct hw_target *t);
/* Requests a dump; if one is being written, it waits. */
void hw_dump_request(struct hw_target *t, const char *trigger, bool final);
void hw_dump_snapshot(struct hw_target *t, struct hw_snapshot *s, uint32_t flags);
/* stream_allocations: writes and frees them. */
void hw_dump_events(struct hw_target *t, struct hw_stream_event *events, size_t n);
void hw_dump_tick(struct hw_target *t);
/* The dump that a request at this moment would get; dump.written says when it is written. */
uint64_t hw_dump_number_of_request(const struct hw_target *t);
/* Starts a live view (HW_TRIGGER_LIVE) unless a dump is in progress, which comes first. */
#define HW_TRIGGER_LIVE "live"
void hw_dump_live(struct hw_target *t);
/* A heap graph of this process was written: makes a dump, and writes the samples that were
 * allocated for its blocks. */
#define HW_TRIGGER_GRAPH "heap-graph"
void hw_dump_for_graph(struct hw_target *t, uint64_t graph_boottime_ns,
                       const hw_native_blocks *blocks);

/* ---- dump_await.c: commands that wait for dumps ---- */

struct hw_awaited_dump {
    uint64_t key;    /* of the target */
    uint64_t number; /* of its dump */
};
struct hw_awaited_dumps {
    uint64_t session, until_ns;
    uint32_t n;
    HW_VEC(struct hw_awaited_dump) left;
};
/* HW_CTL_DUMP; the tick sends the answer. */
void hw_handle_dump(struct hw_control_conn *c, uint64_t session, struct hw_bytes body);
void hw_dumps_tick(struct hw_recorder *r, uint64_t now);
void hw_dumps_forget(struct hw_control_conn *c);

/* ---- dump_turns.c: dumps that are ready ---- */

/* A turn of the main loop: a little of each, starting with another one each time. */
void hw_targets_write(struct hw_recorder *r);
void hw_dump_turns_done(struct hw_target *t);

#endif

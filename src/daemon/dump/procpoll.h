/*
 * procpoll.h - data sources other than the profile
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_DUMP_PROCPOLL_H
#define HW_DAEMON_DUMP_PROCPOLL_H

#include <stdbool.h>
#include <stdint.h>

struct hw_error;
struct hw_account_reading;
struct hw_go_alloc;
struct hw_memory_account;
struct hw_pid;
struct hw_minfo;
struct hw_proc_poll;
struct hw_recorder;
struct hw_session;
struct hw_target;
struct hw_trace_writer;

int hw_proc_poll_new(struct hw_session *s, struct hw_proc_poll **out);
void hw_proc_poll_free(struct hw_proc_poll *p);
void hw_proc_poll_tick(struct hw_proc_poll *p, uint64_t now);
bool hw_proc_poll_busy(const struct hw_recorder *r); /* more is due at once */
/* A target joined: its name and parents belong in the trace. */
void hw_proc_poll_target(struct hw_session *s, struct hw_target *t);
/* The same for those that wait for this one, whose last dump was written. */
void hw_proc_poll_successors(const struct hw_target *t);
/* At a dump of a target that lives. */
void hw_proc_poll_dump(struct hw_session *s, struct hw_target *t);
/* The same for a target that has ended: what was last read, and how it ended where that is known. */
void hw_proc_poll_last(struct hw_session *s, struct hw_target *t);
/* For a process that is no target: its name, then a reading of its memory. */
void hw_proc_poll_name(struct hw_session *s, const struct hw_pid *pid);
void hw_proc_poll_reading(struct hw_session *s, const struct hw_pid *pid,
                          const struct hw_account_reading *k, struct hw_go_alloc **go);
/* What is known about it now, into another trace: name, counters, the allocator's last figures. */
int hw_proc_poll_live(const struct hw_target *t, struct hw_trace_writer *w, struct hw_error *err);
/* At a dump: the mappings with their addresses, if they are wanted. */
int hw_proc_poll_regions(const struct hw_target *t, struct hw_error *err);
/* More of a reading of its memory, part of which is in the trace. */
int hw_proc_poll_account(const struct hw_target *t, uint64_t boottime_ns,
                         const struct hw_memory_account *a, struct hw_error *err);
/* The allocator's own figures arrived. */
void hw_proc_poll_malloc_info(struct hw_target *t, const struct hw_minfo *told);

#endif

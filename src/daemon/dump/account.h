/*
 * account.h - readings of a target's whole memory, for the account of it
 *
 * Why:     "why does this process hold 4 GB?" needs what lies outside the heap, at the same moment
 *          as a dump of the heap.
 * Shapes:  a reading is a SmapsPacket (mappings by owner, proc/memory_owner.h) and a MemoryAccount
 *          of one time stamp. One is written at each dump of a living target, unless the one before
 *          was too costly for another so soon. Of a target that ends, the last reading and the one
 *          with the most resident memory were kept, and are written with its last dump.
 * Cost:    readings rest a hundred times the CPU time that they took (the last one of a living target
 *          never), and kept ones at least a twentieth of the target's age. All kept ones of a
 *          recorder together take at most 1 % of a core, of more than eight targets of a continuous
 *          recording 0.1 %; who was never read comes first. A single
 *          one takes at most a second; what is inside of heaps (arenas, Python's, Go's) rests likewise, but by
 *          itself, and stays known until it is read again. The whole takes at most a second, and the main thread waits half a second for those of one
 *          user's targets, then a tenth of the time.
 * Threads: main thread only.
 * Source:  doc/design/accounting.md
 */
#ifndef HW_DAEMON_DUMP_ACCOUNT_H
#define HW_DAEMON_DUMP_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

struct hw_error;
struct hw_account_reading;
struct hw_go_alloc;
struct hw_pid;
struct hw_recorder;
struct hw_session;
struct hw_target;

/* At a dump of a target that lives. must: also while it rests. */
int hw_account_dump(struct hw_target *t, bool must, uint32_t sequence, struct hw_error *err);
/* Keeps a reading when one is due. */
void hw_account_keep(struct hw_target *t, uint64_t now);
/* At the last dump of a target that has ended: writes what was kept. */
int hw_account_last(struct hw_target *t, uint32_t sequence, struct hw_error *err);
void hw_account_forget(struct hw_target *t);

/* Of a process that is no target; the reading is the caller's. Errors: those of reading /proc. */
int hw_account_read(struct hw_recorder *r, const struct hw_pid *pid, bool wants_idle,
                    struct hw_account_reading **out);
/* go: what the trace has of its Go code, for the next reading; the caller frees it (go_alloc.h). */
int hw_account_write(struct hw_session *s, struct hw_go_alloc **go, int32_t pid,
                     const struct hw_account_reading *k, uint32_t sequence, struct hw_error *err);
bool hw_account_has_go(const struct hw_account_reading *k); /* it is a Go program */
void hw_account_free(struct hw_account_reading *k);

#endif

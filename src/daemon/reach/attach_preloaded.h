/*
 * attach_preloaded.h - preloaded processes that started before us
 *
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_REACH_ATTACH_PRELOADED_H
#define HW_DAEMON_REACH_ATTACH_PRELOADED_H

#include <stdbool.h>
#include <stdint.h>

#include "proc/pid.h"

struct hw_recorder;

struct hw_attach {
    struct hw_session *session;
    struct hw_pid pid;
    uint32_t uid;
    struct hw_module_file *library;
    uint64_t bias;
    uint64_t since_ns;
    uint64_t beat, beat_ns; /* of the recorder that has it: seen since then; 0 = not checked yet */
    int32_t holder;         /* its process; 0 = not known */
};
/* Finds running processes that the session means and that have the library, but no recorder: the
 * list now, then a slice of it in each tick, so that handshakes are answered in between. */
void hw_attach_scan(struct hw_session *s);
bool hw_attach_busy(const struct hw_recorder *r); /* another slice is due at once */
void hw_attach_tick(struct hw_recorder *r, uint64_t now);
void hw_attach_forget(struct hw_session *s);

/* A process that has started or got its name meanwhile. why: it could not be prepared; or "".
 * grown: it has begun its work, there is nothing to wait for. */
void hw_attach_found(struct hw_recorder *r, int32_t pid, const char *why, bool grown);
uint64_t hw_attach_found_ns(const struct hw_recorder *r); /* when the next is checked; or never */
struct hw_attach_candidate {
    struct hw_pid pid;
    uint64_t since_ns, next_ns;
    char why[112];
};

#endif

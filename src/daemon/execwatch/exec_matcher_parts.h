/*
 * exec_matcher_parts.h - what the files of the finder share
 */
#ifndef HW_DAEMON_EXECWATCH_EXEC_MATCHER_PARTS_H
#define HW_DAEMON_EXECWATCH_EXEC_MATCHER_PARTS_H

#include <sys/types.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "daemon/execwatch/exec_rules.h"
#include "daemon/execwatch/exec_watch.h"
#include "inject/inject_at_exec.h"

#define HW_EXEC_N_PLACED 64u
#define HW_EXEC_SAME     UINT64_C(0xff) /* of a value in seen: how often it was the same */

struct hw_exec_held {
    int32_t tid;
    uint32_t share; /* with which it was drawn: exec_share.h */
    uint64_t until_ns;
    bool interrupted;
};

/* Its caller was not seen waiting yet. */
struct hw_exec_unconfirmed {
    struct hw_exec_request q;
    int fd; /* of the file; owned */
};

/* To be checked once its exec is over. */
struct hw_exec_later {
    int32_t pid;
    uint32_t share;
    uint64_t since_ns, next_ns;
    char why[112];
};

/* Draws by itself, and is unknown to the recorder until it has a sample or is called. */
struct hw_exec_armed {
    int32_t pid;
    uint64_t due_ns;
    uint64_t since_ns; /* boottime; only of those that were passed */
};

/* By their time; n_called of them, the first ones, are called. */
struct hw_exec_young {
    HW_VEC(struct hw_exec_armed) v;
    size_t n_called;
};

struct hw_exec_placed {
    int32_t pid;
    uint32_t n;
    uint64_t began_ticks, until_ns; /* a process that started later only has that number */
    uint64_t dev, ino;
};

struct hw_exec_finder {
    const struct hw_exec_watch_setup *setup;
    struct hw_exec_watch_shared *shared;
    struct hw_start_world world;
    char socket_path[112];                    /* of the recorder's clients */
    int recorder, answerer, events, children; /* -1 = none */
    bool holds;
    struct hw_exec_rules rules;
    HW_VEC(struct hw_exec_held) held;
    HW_VEC(struct hw_exec_unconfirmed) waiting;
    HW_VEC(struct hw_exec_later) later;
    struct hw_exec_young armed;
    struct hw_exec_young passed;  /* exec_passed.c: those of them that live */
    struct hw_map64 passed_since; /* pid -> since_ns; not there: it was held meanwhile */
    uint32_t n_passed;            /* of those that the answerer has reported, how many were seen */
    struct hw_exec_scripts scripts;
    struct hw_exec_file_readers readers;
    bool unread; /* for its file or its root, the candidate checked last could not be decided */
    struct hw_exec_placed placed[HW_EXEC_N_PLACED]; /* by the pid */
    struct hw_map64 seen; /* pid → hash of its names, see HW_EXEC_SAME */
    uint64_t n_scans;
    bool has_seen;
    uint64_t next_scan_ns;
    uint64_t
        meant_by; /* session that selected the candidate checked last; 0 = none, or not known */
};

bool hw_exec_examine(struct hw_exec_finder *f, int32_t pid, uint32_t flags, const char *why);
void hw_exec_tell(struct hw_exec_finder *f, uint32_t type, uint32_t flags, int32_t pid,
                  const char *text);
void hw_exec_on_events(struct hw_exec_finder *f);

/* ---- exec_check.c ---- */

bool hw_exec_is_held(const struct hw_exec_finder *f, int32_t tid);
/* HW_OK = to be held; HW_EUNSUPPORTED = to be looked at when it runs, err says why; HW_EBUSY = not
 * known yet; HW_ETIMEOUT = nor will it be in time; else nobody asks for it. *pid: of its process. */
int hw_exec_check(struct hw_exec_finder *f, const struct hw_exec_request *q, int fd, int32_t *pid,
                  struct hw_error *err);

/* ---- exec_passed.c ---- */

bool hw_exec_was_passed(struct hw_exec_finder *f, int32_t pid);
/* Its parent was; then it is, too. */
bool hw_exec_is_of_passed(struct hw_exec_finder *f, const struct hw_exec_candidate *p);
/* Another program runs there, which is held. */
void hw_exec_not_passed(struct hw_exec_finder *f, int32_t pid);
void hw_exec_call_passed(struct hw_exec_finder *f, const struct hw_exec_armed *a);

void hw_exec_scan(struct hw_exec_finder *f);

#endif

/*
 * continuous_file.h - the files of continuous recording: one period of one heap each, and their
 * state
 *
 * Shapes:  a file covers one heap of one process since the previous file: pprof with alloc_* of
 *          that period, inuse_* at its end and base_* at its start. state.json says until when each
 *          process is covered, so that the next recorder can report a gap, and which files have not
 *          been pushed yet. A heap without samples has no file. Processes that end before they have
 *          a file share one per program, unit and round; those held as a random share of starts are
 *          weighted by the starts they represent. With push, no two files of a heap have the same
 *          second: a store has one row per second.
 * Owns:    the store and the state; profiles are borrowed.
 * Errors:  HW_ESYS (dropped, and counted), HW_ENOMEM.
 * Units:   boottime ns for periods; wall time in names and files.
 */
#ifndef HW_RECORD_WEB_CONTINUOUS_FILE_H
#define HW_RECORD_WEB_CONTINUOUS_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"
#include "record/web/profile_store.h"

struct hw_cli;
struct hw_error;
struct hw_opts;
struct hw_profile;

struct hw_continuous_process {
    int32_t pid;
    uint64_t start_ticks; /* tells apart processes with a reused pid; 0 = unknown */
    uint64_t began_ns;    /* when it was reported */
    uint64_t since_ns;    /* start of the period not stored yet */
    uint64_t n_lost;      /* samples, until the last file */
    int64_t last_s;       /* wall time of the last file; 0 = none */
    int64_t gap_from_s;   /* wall time: a gap from here to since_ns; 0 = none */
    char *name;           /* owned: of the program */
    char *unit;           /* owned: of systemd; NULL = none */
    char *container;      /* owned; NULL = none */
    bool ended;           /* its last snapshot was taken, or none will come */
    uint64_t gone_ns;     /* when it was found gone; 0 = it is running */
};

struct hw_continuous_round {
    const struct hw_profile *now, *before; /* NULL = this is the first */
    uint64_t n_lost;                       /* samples, since the session began */
    uint32_t share; /* it stands for 2^share processes, itself included (daemon/execwatch) */
    uint64_t at_ns;
};

/* Reads its current identity. title: the recorder's name for it, if /proc no longer has it. */
int hw_continuous_process_init(struct hw_continuous_process *p, int32_t pid, struct hw_bytes title);
void hw_continuous_process_done(struct hw_continuous_process *p);

struct hw_continuous_share; /* a file to be shared by processes */

struct hw_known_process {
    int32_t pid;
    uint64_t start_ticks;
    int64_t until_s;
};

typedef HW_VEC(struct hw_known_process) hw_known_processes;

struct hw_continuous_files {
    const struct hw_cli *cli;
    struct hw_profile_store store;
    hw_known_processes known;                    /* whose recording was interrupted */
    hw_known_processes noted;                    /* of the current round */
    hw_known_processes last;                     /* of the previous round */
    HW_VEC(struct hw_continuous_share *) shares; /* owned; of the current round */
    HW_VEC(char *) unsent;      /* owned; files below the directory still to be pushed */
    size_t n_sending;           /* the first of these, by the running push */
    int64_t wall_offset_ns;     /* wall - boottime, at the last round */
    uint64_t distrust_until_ns; /* the clock was set: ages are meaningless until then */
    int push_pid;               /* of the push process; 0 = none */
    int push_code;              /* of the last one; reported when it changes */
};

int hw_continuous_files_open(struct hw_continuous_files *f, const struct hw_cli *cli,
                             struct hw_error *err);
void hw_continuous_files_close(struct hw_continuous_files *f);
/* The recorder is gone: its processes are covered until the last round. */
void hw_continuous_lost(struct hw_continuous_files *f);
/* The recording of one process was interrupted; it may resume. */
void hw_continuous_broke_off(struct hw_continuous_files *f, const struct hw_continuous_process *p);
/* Whether and until when it was covered before. */
void hw_continuous_resume(struct hw_continuous_files *f, struct hw_continuous_process *p);
/*
 * Writes a file for each heap that has any data; for a process that ended without one, at the end
 * of the round.
 */
int hw_continuous_write(struct hw_continuous_files *f, struct hw_continuous_process *p,
                        const struct hw_continuous_round *look, struct hw_error *err);
/* ---- continuous_push.c ---- */

/* Reports at once what would fail at every push. */
int hw_continuous_check_push(const struct hw_opts *o, uint64_t period_ns, struct hw_error *err);
/* Sends what has not been sent, if no push is running. */
void hw_continuous_hand_over(struct hw_continuous_files *f);
/* Has the push ended? Then its files are done, or left for the next one. */
void hw_continuous_reap_push(struct hw_continuous_files *f);

/* ---- the round ---- */

void hw_continuous_note(struct hw_continuous_files *f, const struct hw_continuous_process *p);
/* Retention, state.json, handing files to `heapwise push`. */
int hw_continuous_end_round(struct hw_continuous_files *f, struct hw_error *err);

#endif

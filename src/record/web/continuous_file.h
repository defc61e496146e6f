/*
 * continuous_file.h - what continuous recording writes: a period of a process's heap, and where all
 * of them are
 *
 * Shapes:  a file is about one heap of one process and the time since the file before: pprof with
 *          alloc_* of that time, inuse_* at its end and base_* at its begin. state.json says until
 *          when each process is known, so that the next recorder can tell of a gap, and which files
 *          no push has sent yet. A heap without a sample has no file. Processes that end before
 *          they have one share it: those of one program and unit that ended in the same round; those that
 *          were held by chance count as often as starts are behind them. With
 *          a push no two files of a heap are of one second: a store has a row a second.
 * Owns:    the store and the notes; profiles are borrowed.
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
    uint64_t start_ticks; /* tells it from another one of the same number; 0 = not known */
    uint64_t began_ns;    /* when it was told of */
    uint64_t since_ns;    /* begin of the period that is not kept yet */
    uint64_t n_lost;      /* samples, until the last file */
    int64_t last_s;       /* wall time of the last file; 0 = none */
    int64_t gap_from_s;   /* wall time from which on nothing is known before since_ns; 0 = none */
    char *name;           /* owned: of the program */
    char *unit;           /* owned: of systemd; NULL = none */
    char *container;      /* owned; NULL = none */
    bool ended;           /* its last look was taken, or none will come */
    uint64_t gone_ns;     /* when it was seen to be gone; 0 = it is there */
};

struct hw_continuous_look {
    const struct hw_profile *now, *before; /* NULL = this is the first */
    uint64_t n_lost;                       /* samples, since the session's begin */
    uint32_t share; /* it stands for 2^share processes, itself included (daemon/execwatch) */
    uint64_t at_ns;
};

/* What it is now. title: as the recorder calls it, for when /proc does not tell any more. */
int hw_continuous_process_init(struct hw_continuous_process *p, int32_t pid, struct hw_bytes title);
void hw_continuous_process_done(struct hw_continuous_process *p);

struct hw_continuous_share; /* a file that processes will share */

struct hw_known_process {
    int32_t pid;
    uint64_t start_ticks;
    int64_t until_s;
};

typedef HW_VEC(struct hw_known_process) hw_known_processes;

struct hw_continuous_files {
    const struct hw_cli *cli;
    struct hw_profile_store store;
    hw_known_processes known;                    /* whose recording broke off */
    hw_known_processes noted;                    /* of this round */
    hw_known_processes last;                     /* of the round before */
    HW_VEC(struct hw_continuous_share *) shares; /* owned; of this round */
    HW_VEC(char *) unsent;      /* owned; files below the directory that a push has to send */
    size_t n_sending;           /* of them: the first ones, by the push that runs */
    int64_t wall_offset_ns;     /* wall - boottime, at the last round */
    uint64_t distrust_until_ns; /* the clock was set: ages mean nothing until then */
    int push_pid;               /* of the command that sends; 0 = none */
    int push_code;              /* of the last one; told when it changes */
};

int hw_continuous_files_open(struct hw_continuous_files *f, const struct hw_cli *cli,
                             struct hw_error *err);
void hw_continuous_files_close(struct hw_continuous_files *f);
/* The recorder is gone: whom it knew, it knew until the last round. */
void hw_continuous_lost(struct hw_continuous_files *f);
/* The recording of one process broke off; it may begin again. */
void hw_continuous_broke_off(struct hw_continuous_files *f, const struct hw_continuous_process *p);
/* Whether and until when it was known before. */
void hw_continuous_resume(struct hw_continuous_files *f, struct hw_continuous_process *p);
/* One file for each heap of which there is something to say; of a process that has ended without
 * one before, at the end of the round. */
int hw_continuous_write(struct hw_continuous_files *f, struct hw_continuous_process *p,
                        const struct hw_continuous_look *look, struct hw_error *err);
/* ---- continuous_push.c ---- */

/* What would fail at each push is told at once. */
int hw_continuous_check_push(const struct hw_opts *o, uint64_t period_ns, struct hw_error *err);
/* What is not sent yet, when no push runs. */
void hw_continuous_hand_over(struct hw_continuous_files *f);
/* Has it ended? Then its files are forgotten, or sent by the next one. */
void hw_continuous_reap_push(struct hw_continuous_files *f);

/* ---- the round ---- */

void hw_continuous_note(struct hw_continuous_files *f, const struct hw_continuous_process *p);
/* Retention, state.json, handing over to `heapwise push`. */
int hw_continuous_end_round(struct hw_continuous_files *f, struct hw_error *err);

#endif

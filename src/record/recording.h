/*
 * recording.h - one recording from start to finish, as the command sees it
 *
 * Why:     record, heap_profile and perfetto wait for the same things: the recorder's events, the
 *          program's end, signals. They share one loop.
 * Shapes:  hw_recording_start sends the configuration and waits for the answer; hw_recording_run
 *          releases the program (if any) and returns when the file is complete and the program has
 *          ended or was given up on. First SIGINT: the program gets two seconds to end by itself,
 *          then the recording is stopped; second: only waits for the file, which is finished at
 *          once. SIGTERM, SIGHUP, SIGQUIT are passed to the program, and a second SIGTERM also ends
 *          the recording; without a program they act like SIGINT. SIGUSR1 dumps.
 *          hw_recording_block_signals must come before anything is forked. A server handles signals
 *          itself: with own_signals, `each` controls the recording by hw_recording_stop and
 *          hw_recording_give_up.
 * Errors:  HW_EGONE if the recorder died; what it wrote until then is a valid trace.
 */
#ifndef HW_RECORD_RECORDING_H
#define HW_RECORD_RECORDING_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/vec.h"
#include "record/children/offspring.h"
#include "record/controller.h"
#include "record/launch.h"

struct hw_cli;
struct hw_error;

struct hw_seen_target {
    int32_t pid;
    uint32_t state;                   /* the last one: enum hw_target_state */
    bool connected;                   /* was profiled at some point */
    bool called;                      /* was ready to be */
    uint64_t called_ns, connected_ns; /* since when; monotonic, 0 = not */
    struct hw_offspring_row executed; /* HW_TARGET_EXECED: the process, as whatever it is now */
    char *name;                       /* owned; of the last connection */
    char *reason;                     /* owned; of a failure or refusal; NULL */
};

struct hw_recording {
    const struct hw_cli *cli;
    struct hw_controller *controller; /* borrowed */
    struct hw_launch *launch;         /* borrowed; NULL = no program */
    bool follow_fork;                 /* wait for descendants, too */
    bool stop_with_program;           /* the recording ends when the program does */
    const uint64_t *awaited;          /* borrowed: it ends when none of these processes is left, */
    size_t n_awaited;                 /* or if none could be profiled */
    bool progress;                    /* shown on standard error */
    bool own_signals;                 /* the caller handles signals */
    void (*started)(void *ctx);       /* NULL: no callback */
    void (*stopping)(void *ctx);
    void (*written)(void *ctx); /* the file is complete; the program may run on */
    void (*each)(void *ctx);    /* several times a second; NULL = none */
    void (*warned)(void *ctx, struct hw_bytes text); /* NULL: into the log */
    void (*outlived)(void *ctx); /* the program has ended, others of the recording live on */
    void (*status)(void *ctx,
                   struct hw_bytes json); /* the answer to hw_controller_request_status */
    void *ctx;

    /* results */
    bool is_started, is_ended, recorder_gone;
    bool is_adopted; /* targets: only those added since */
    struct hw_control_ended ended;
    char reason[256];
    unsigned n_interrupts, n_terms;
    bool hurried;       /* second stop request sent */
    int program_status; /* from waitpid; -1 = still running */
    HW_VEC(struct hw_seen_target) targets;
    struct hw_offspring offspring; /* found below the program */
    struct hw_control_progress last;
    uint64_t started_ns, stopped_ns; /* monotonic; 0 = not yet */
    bool stop_sent;
    bool lacked_descriptors; /* the recorder reported a failure */

    /* private */
    int signal_fd;
    uint64_t stop_at_ns, next_progress_ns, next_look_ns, look_pause_ns, program_ended_ns;
    unsigned looks_in_vain; /* in a row: nothing lives any more */
    bool line_open, told_written, gave_up, told_outlived;
};

/* Blocks the signals of the loop; *old is for children. */
int hw_recording_block_signals(sigset_t *old, struct hw_error *err);
int hw_recording_start(struct hw_recording *r, const struct hw_control_start *start,
                       struct hw_bytes config, int fd, struct hw_error *err);
/* Takes over a running session (hw_controller_attach was answered). */
int hw_recording_adopt(struct hw_recording *r, struct hw_error *err);
int hw_recording_run(struct hw_recording *r, struct hw_error *err);
/* From a callback: ends the recording; waits only for its file, not for the program. */
void hw_recording_stop(struct hw_recording *r);
void hw_recording_give_up(struct hw_recording *r);
/* Looks once more at what the program has started: children of a launcher may fork after its end. */
void hw_recording_find_more(struct hw_recording *r);
void hw_recording_done(struct hw_recording *r);

/* sh, env, nice …: programs that launch others. */
/* Has it been started, and not ended? */
bool hw_recording_program_runs(const struct hw_recording *r);
/* Below the program, not recorded, and not a mere launcher. */
bool hw_recording_left_out(const struct hw_recording *r, const struct hw_offspring_row *row);
bool hw_recording_is_starter(const struct hw_seen_target *t);
/*
 * Nothing in the trace: no samples, or only of a launcher that exec'ed a program which never
 * connected.
 */
bool hw_recording_is_empty(const struct hw_recording *r, const struct hw_seen_target *t);
/* Number of profiled programs that are not mere launchers. */
size_t hw_recording_programs(const struct hw_recording *r);
/*
 * The program that was really profiled: the first target that stayed and is not a mere launcher
 * (sh, env, nice …); NULL = none.
 */
const struct hw_seen_target *hw_recording_main_target(const struct hw_recording *r);

#endif

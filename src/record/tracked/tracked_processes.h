/*
 * tracked_processes.h - memory internals: which processes are tracked; starting, stopping, saving
 *
 * Why:     the page and `heapwise memory-internals` show and do the same, and each sees what the
 *          other started.
 * Shapes:  tracking is a recording by a separate recorder that outlives its starter: detached, with
 *          a name that begins with HW_TRACKED_NAME, into an unnamed file. Heaps are read when they
 *          are saved. So no state is kept here: the recorders are the state. A process is tracked
 *          by only one of them; a recorder for all takes those that are free.
 * Owns:    hw_tracked: cached findings about processes, and recorders that are its children.
 * Errors:  HW_EINVAL, HW_ENOTFOUND (no such process), HW_EPERM (cannot be tracked; the text says
 *          why), HW_EBUSY (another recording has it), those of controller.h.
 * Threads: any, for one hw_tracked.
 * Source:  doc/design/memory-internals.md
 */
#ifndef HW_RECORD_TRACKED_TRACKED_PROCESSES_H
#define HW_RECORD_TRACKED_TRACKED_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "record/processes.h"

#define HW_TRACKED_NAME "memory-internals"

struct hw_cli;
struct hw_error;
struct hw_tracked;
struct hw_json;

/* Rates that the page offers; ends with 0. */
extern const uint64_t hw_tracked_rates[];
#define HW_TRACKED_RATE UINT64_C(1000000)

struct hw_tracked_how {
    uint64_t rate_bytes; /* 0 = HW_TRACKED_RATE */
    uint32_t stack_mode; /* enum hw_stack_mode */
};

int hw_tracked_new(struct hw_tracked **out, struct hw_error *err);
void hw_tracked_free(struct hw_tracked *m); /* already tracked processes stay tracked */

/* ---- listing ---- */

struct hw_tracked_row {
    const struct hw_process_row *process;   /* session NULL: nobody records it */
    const struct hw_service_target *target; /* of the session; NULL likewise */
    bool tracked;                           /* by memory internals */
    char role[64];
};

struct hw_tracked_list {
    struct hw_recorders recorders;
    hw_process_rows processes;
    HW_VEC(struct hw_tracked_row) rows; /* by pid */
    char mode[128];                     /* for new processes: "manual", "all", ... */
    size_t n_tracked;
    struct hw_finding unsupported; /* code NULL = processes can be profiled here */
};

int hw_tracked_query(struct hw_tracked *m, struct hw_tracked_list *out, struct hw_error *err);
void hw_tracked_list_done(struct hw_tracked_list *l);
/* The mode in words. */
void hw_tracked_message(const struct hw_tracked_list *l, char *out, size_t max);
/*
 * Members of a JSON object: message, mode, stack_mode, sampling_rate, processes, details, the
 * possible choices, and the reason if nothing can be profiled here.
 */
void hw_tracked_put(struct hw_json *j, const struct hw_tracked_list *l);

/* ---- start, stop, mode ---- */

/* 1 = already tracked, nothing done. */
int hw_tracked_start(struct hw_tracked *m, int32_t pid, const struct hw_tracked_how *how,
                     struct hw_error *err);
/* Every running process and each new one. */
int hw_tracked_start_all(struct hw_tracked *m, const struct hw_tracked_how *how,
                         struct hw_error *err);
/*
 * New processes that the mode selects (config/memlog_modes.h); "manual": none. Replaces the previous
 * mode.
 */
int hw_tracked_set_mode(struct hw_tracked *m, const char *mode, const struct hw_tracked_how *how,
                        struct hw_error *err);
/* 0 = all, and the mode returns to manual. Returns how many processes are no longer tracked. */
int hw_tracked_stop(struct hw_tracked *m, int32_t pid, struct hw_error *err);

/* ---- saving (tracked_save.c) ---- */

enum hw_tracked_saved { HW_SAVED_WAITS, HW_SAVED_DONE, HW_SAVED_FAILED };

struct hw_tracked_save {
    const struct hw_cli *cli; /* for names of functions */
    const int32_t *pids;      /* borrowed; n_pids 0 = all that are tracked */
    size_t n_pids;
    const char *path; /* of the JSON; NULL = trace_with_heap_dump.json.gz or with a number */
    bool force;       /* overwrite existing files */
    void (*progress)(void *ctx, size_t n_done, size_t n_all); /* any thread, one at a time */
    void *ctx;
    /* results */
    struct hw_tracked_one {
        int32_t pid;
        char name[256];
        enum hw_tracked_saved state;
        char why[256]; /* failed */
    } * all;           /* owned */
    size_t n, n_failed;
    char *json, *trace; /* owned: the files; NULL when none was written */
};

/*
 * One global dump of what is tracked, as memory-infra JSON and as a trace. Processes that do not
 * answer within ten seconds are left out and reported. HW_ENOTFOUND: nothing is tracked.
 */
int hw_tracked_save(struct hw_tracked *m, struct hw_tracked_save *s, struct hw_error *err);
void hw_tracked_save_done(struct hw_tracked_save *s);

#endif

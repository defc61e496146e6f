/*
 * web_recorder_internal.h - the web recorder and one of its recordings
 *
 * Why:     web_recorder.c answers the pages, web_recording.c carries one recording out.
 * Owns:    a recording owns its thread, controller and file; the web recorder its recordings.
 * Threads: members marked as shown are under the web recorder's lock; the rest belongs to the
 *          recording's thread.
 */
#ifndef HW_RECORD_WEB_WEB_RECORDER_INTERNAL_H
#define HW_RECORD_WEB_WEB_RECORDER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/memory/vec.h"
#include "record/launch.h"
#include "record/output.h"
#include "record/processes.h"
#include "record/recording.h"
#include "record/service.h"
#include "record/web/web_recorder.h"
#include "record/web/web_request.h"
#include "server/pages.h"

enum { HW_WEB_MAX_RECORDINGS = 64, HW_WEB_MAX_SOURCES = 8 };

enum hw_web_recorder_state {
    HW_WEB_RUNNING,
    HW_WEB_STOPPING,
    HW_WEB_DONE,
    HW_WEB_EMPTY,
    HW_WEB_FAILED,
    HW_WEB_DISCARDED
};

struct hw_web_recorder_mark {
    uint64_t boottime_ns;
    char text[HW_MARK_MAX_BYTES + 1];
};

struct hw_web_recording {
    struct hw_web_recorder *recorder;
    unsigned id;
    struct hw_web_request words;
    char *library, *program;
    char name[256]; /* the command, or the process to attach to, before a target has answered */
    struct hw_controller *controller;
    struct hw_launch launch;
    bool launched, unkept; /* unkept: its file is unnamed */
    struct hw_output output;
    struct hw_recording r;
    pthread_t thread;
    atomic_bool stop, dump, discard, end_program, give_up; /* orders */
    uint64_t next_status_ns;

    /* under the recorder's lock: marks to set */
    HW_VEC(struct hw_web_recorder_mark) due;

    /* under the recorder's lock: what is shown */
    enum hw_web_recorder_state state;
    struct hw_control_progress progress;
    uint64_t started_ns, ended_ns;
    struct hw_service_state seen; /* targets */
    HW_VEC(char *) warnings;
    char *file; /* owned; NULL = none yet */
    unsigned trace, n_marks;
    bool program_runs;
    char error[512];
    const char *code; /* of explain.def */
    char shell[2048];
};

struct hw_web_recorder {
    const struct hw_cli *cli;
    struct hw_pages *pages;
    bool commands;
    struct hw_page_recorder ops;
    pthread_mutex_t lock;
    struct hw_web_recording *all[HW_WEB_MAX_RECORDINGS]; /* by id - 1 */
    unsigned n;                                          /* lock */
    struct hw_web_recorder_source {
        int32_t pid;
        struct hw_live_source *source; /* owned; NULL = free */
    } sources[HW_WEB_MAX_SOURCES];     /* lock */
    unsigned next_source;
    pthread_mutex_t known_lock;
    hw_processes_known known; /* known_lock */
    atomic_uint changes;
    struct hw_page_internals internals;
    struct hw_web_tracked *own; /* web_tracked.c */
};

void hw_web_recorder_changed(struct hw_web_recorder *d);

/* ---- web_recording.c ---- */

/* words: as from a page. unkept: only for viewing. *id counts from 1. */
int hw_web_recorder_begin(struct hw_web_recorder *d, struct hw_bytes words, bool unkept,
                          unsigned *id, struct hw_error *err);
void hw_web_recording_put(struct hw_json *j, const struct hw_web_recording *x); /* locked */
void hw_web_recording_free(struct hw_web_recording *x); /* its thread is joined */

/* ---- web_tracked.c ---- */

int hw_web_tracked_new(struct hw_web_recorder *d, struct hw_error *err);
void hw_web_tracked_free(struct hw_web_tracked *i); /* NULL is fine */

#endif

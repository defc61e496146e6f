/*
 * events.h - events of a target, reported to the layers above it
 *
 * Why:     a target and its dumps know one process and its ring. Its session, the injector,
 *          re-recording, conditions and live views all call them; a target does not know these; it
 *          reports here what has happened.
 * Shapes:  each is called synchronously, and may ask for dumps or stop the session. The recorder
 *          has one such struct from its beginning (events.c).
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_EVENTS_H
#define HW_DAEMON_EVENTS_H

struct hw_target;

struct hw_target_events {
    /* It has its welcome and is recorded; its hello says whether it is a forked child. */
    void (*joined)(struct hw_target *t);
    /* Its recording is over, by its exit, an exec, a stop or an error (hw_target.end). Its last
     * dump has not been requested yet. */
    void (*ended)(struct hw_target *t);
    /* One of its allocations failed. The dump of that moment has not begun: one that is
     * requested now comes after it. */
    void (*allocation_failed)(struct hw_target *t);
    /* The dump for a live view of it cannot be made. */
    void (*look_failed)(struct hw_target *t);
};

extern const struct hw_target_events hw_target_events;

#endif

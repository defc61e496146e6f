/*
 * events.h - what becomes of a target, told to those above it
 *
 * Why:     a target and its dumps know one process and its ring. Its session, who put its hooks in,
 *          who records it again, the conditions and the live views all call them; so that they call
 *          none of those, they tell here what has happened.
 * Shapes:  each is called at once, in the middle of what tells it, and may ask for dumps or stop
 *          the session. The recorder has one such struct from its beginning (events.c).
 * Threads: main thread only.
 */
#ifndef HW_DAEMON_EVENTS_H
#define HW_DAEMON_EVENTS_H

struct hw_target;

struct hw_target_events {
    /* It has its welcome and is recorded; forked or not, by its hello. */
    void (*joined)(struct hw_target *t);
    /* Its recording is over, by its exit, an exec, a stop or an error (hw_target.end). Its last
     * dump has not been asked for yet. */
    void (*ended)(struct hw_target *t);
    /* An allocation of it was refused. The dump of that moment has not begun: one that is asked for
     * now comes behind it. */
    void (*allocation_failed)(struct hw_target *t);
    /* The dump for a live view of it cannot be made. */
    void (*look_failed)(struct hw_target *t);
};

extern const struct hw_target_events hw_target_events;

#endif

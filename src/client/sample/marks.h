/*
 * marks.h - the scopes and types that the program tells us (include/heapwise/marks.h)
 *
 * Why:     beside the stack of functions a sample can have the program's own words.
 * Shapes:  each thread has two stacks of marks in its slab: scopes and types. Deeper than there is
 *          room they are counted, so that ends stay balanced.
 * Owns:    nothing; the program's marks live as long as its code.
 * Threads: struct hw_marks has one thread, and the signal handlers on it.
 * Source:  doc/design/client.md, "What the program says itself"
 */
#ifndef HW_CLIENT_SAMPLE_MARKS_H
#define HW_CLIENT_SAMPLE_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/records.h"

#define HW_MAX_SCOPES       128u
#define HW_MAX_TYPES        16u
#define HW_MARKS_GENERATION (UINT32_MAX >> 1) /* a mark keeps these bits of the session's */

struct heapwise_mark;
struct hw_mixed;
struct hw_slab;
struct hw_slice_slot;
struct hw_client_session;

struct hw_open_mark {
    struct heapwise_mark *mark;
    uint64_t return_address, sp; /* of the function that began it */
};

struct hw_marks {
    uint32_t generation; /* of the session in which they were begun */
    uint32_t n_scopes, n_types;
    bool names_thread;          /* its name is to be told */
    int32_t tid;                /* where slices are wanted; 0 = not known */
    struct hw_slice_slot *slot; /* the generation's; NULL = not asked for yet, or none */
    struct hw_open_mark scopes[HW_MAX_SCOPES];
    struct hw_open_mark types[HW_MAX_TYPES];
};

/* Finds the notes of what is loaded and lets them lead to us. Takes the loader's lock: not in a
 * hook. Modules that come later join by themselves, or by the recorder's next visit. */
void hw_marks_join_loaded(void);
void hw_marks_start(struct hw_client_session *s);
/* Do stacks of this session have more in them than functions? */
bool hw_marks_wanted(const struct hw_client_session *s);
/* Is nothing wanted of the native stack? */
bool hw_marks_alone(const struct hw_client_session *s);
/* Puts the marks of this thread into its stack, and tells their names. */
void hw_marks_put_in(struct hw_client_session *s, const struct hw_marks *k, struct hw_mixed *m);

/* ---- names, also those of slices ---- */

struct hw_mark_text {
    const char *p;
    size_t n;
};
struct hw_mark_text hw_mark_text_of(const struct heapwise_mark *m);
uint64_t hw_mark_id(enum hw_managed_kind kind, struct hw_mark_text t);
void hw_marks_tell(struct hw_client_session *s, uint64_t id, struct hw_mark_text text,
                   struct hw_mark_text file);
/* Into 16 bytes; false: there is none, or none that we may ask for. */
bool hw_marks_thread_name(char *out);

/* ---- slices.c: beginnings and ends in time ---- */

/* Is it on its way to the recorder? Then its end is to be told, too. Both keep errno. */
bool hw_slice_begin(struct hw_slab *slab, const struct heapwise_mark *m, uint32_t depth);
void hw_slice_end(struct hw_slab *slab, uint32_t depth);
/* What a thread that ends has gathered is sent. */
void hw_slices_thread_ends(struct hw_slab *slab);

#endif

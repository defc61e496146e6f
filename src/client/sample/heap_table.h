/*
 * heap_table.h - the heaps of this process
 *
 * Why:     a session has an interval for each heap, and samples name heaps by number.
 * Shapes:  ids are indices in one static table, 1 is libc.malloc. Entries are never removed.
 * Threads: any. A heap's members are written before it is registered, except `enabled_in`.
 */
#ifndef HW_CLIENT_SAMPLE_HEAP_TABLE_H
#define HW_CLIENT_SAMPLE_HEAP_TABLE_H

#include "base/limits.h"
#include "client/client.h"
#include "heapwise/heap_profile.h"

struct AHeapInfo {
    char name[HW_HEAP_NAME_MAX];
    void (*enabled)(void *, const AHeapProfileEnableCallbackInfo *);
    void *enabled_data;
    void (*disabled)(void *, const AHeapProfileDisableCallbackInfo *);
    void *disabled_data;
    bool quiet; /* announced only to a session that wants it */
    _Atomic uint32_t registered;
    _Atomic uint32_t enabled_in; /* the generation of the last "enabled" callback; 0 = disabled */
};

extern HW_HIDDEN struct AHeapInfo hw_heap_table[HW_MAX_HEAPS];
extern HW_HIDDEN _Atomic uint32_t hw_n_heaps;

/* Python's objects: hooks/python_objects.c. They are drawn by the countdown of malloc, so their interval is malloc's or
 * none. 0 = the heap was not made. */
#define HW_PYTHON_SMALL 512u /* up to this size; larger ones are malloc's */
extern HW_HIDDEN _Atomic uint32_t hw_python_heap;

/* Whose countdown and interval this heap has. */
static inline uint32_t hw_heaps_drawn_by(uint32_t id)
{
    return id != 0 && id == atomic_load_explicit(&hw_python_heap, memory_order_relaxed)
               ? HW_HEAP_ID_LIBC
               : id;
}

bool hw_heaps_wants_python(const struct hw_client_session *s);
uint32_t hw_heaps_used(void);
void hw_heaps_select(struct hw_client_session *s);   /* fills s->interval */
void hw_heaps_announce(struct hw_client_session *s); /* writes the heaps' records */
/* What the session wants of this heap: fills s->interval and gives it. */
uint64_t hw_heaps_select_one(struct hw_client_session *s, uint32_t id, const char *name);
void hw_heaps_announce_one(struct hw_client_session *s, uint32_t id, uint64_t interval);

#endif

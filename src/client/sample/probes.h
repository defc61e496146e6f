/*
 * probes.h - samples for tools that attach uprobes: the provider otel_memory
 *
 * Why:     agents of many kinds can take heap samples from a program that has the client, without
 *          our recorder: the probes of OpenTelemetry's draft for memory profiles.
 * Shapes:  alloc(pointer, size in bytes, weight in bytes) when an allocation is sampled,
 *          free(pointer) when such a block is freed. Each is a nop with a note (.note.stapsdt) and
 *          a semaphore, which the kernel counts up in the programs that map this file. While a
 *          recorder samples, the probes fire for its samples. Else, with a semaphore above 0, threads sample
 *          by themselves, 512 KiB in the mean. They check the semaphore every 512 KiB of their
 *          allocations: the hooks' hot path knows nothing of it.
 * Limits:  libc.malloc only. A block whose realloc failed is reported as freed.
 * Threads: any.
 * Source:  doc/design/client.md, "Probes"
 */
#ifndef HW_CLIENT_SAMPLE_PROBES_H
#define HW_CLIENT_SAMPLE_PROBES_H

#include "client/client.h"
#include "client/sample/capture.h"

#define HW_PROBES_TAG      0xffffu         /* of their live samples; no session has this tag */
#define HW_PROBES_INTERVAL (512ull * 1024) /* mean bytes between samples */

#if defined(HW_BARE) /* it is in no file that a probe could be attached to */

static inline bool hw_probes_are_current(struct hw_tls *t)
{
    (void)t;
    return false;
}
#define hw_probes_join(t)      false
#define hw_probes_count(e)     ((void)(e), false)
#define hw_probes_remember(e)  false
#define hw_probes_want_alloc() false
#define hw_probes_want_free()  false
#define hw_probes_alloc(e)     ((void)(e))
#define hw_probes_free(id)     ((void)(id))

#else

extern HW_HIDDEN volatile uint16_t hw_probes_alloc_semaphore, hw_probes_free_semaphore;

static inline bool hw_probes_want_alloc(void)
{
    return hw_unlikely(hw_probes_alloc_semaphore != 0);
}

static inline bool hw_probes_want_free(void)
{
    return hw_unlikely(hw_probes_free_semaphore != 0);
}

/* Does the thread still have no session, and is its countdown, if it has one, for the probes?
 * Interval 0 then means that there is no reader. */
bool hw_probes_are_current(struct hw_tls *t);
/* There is no session for this thread: it starts checking for readers. */
void hw_probes_join(struct hw_tls *t);
/* Does only a probe's reader want this sample? */
bool hw_probes_count(const struct hw_event *e);
bool hw_probes_remember(const struct hw_event *e); /* in a visit; false = no room */
/* The probes themselves. */
void hw_probes_alloc(const struct hw_event *e);
void hw_probes_free(uint64_t id);

#endif

#endif

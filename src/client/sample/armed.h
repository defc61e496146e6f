/*
 * armed.h - samples before there is a session
 *
 * Why:     of 100 short programs that a continuous recording holds at their start 80 end without a
 *          sample. The cost of a handshake for the recorder, a target with all its memory, is
 *          wasted on them. So the mark of the process's start gives it the interval, and it is
 *          armed: its threads draw by themselves, and ask the recorder when a sample is due.
 * Shapes:
 *            mark ──> armed ── a sample is due ── asks ──> session: that sample is its first record
 *                       │                          ├─────> not answered yet: armed; samples are
 *                       │                          │       lost and counted, later ones check
 *                       │                          └─────> nobody, or NO: silent
 *                       └──── called by its page ──> as any running program; is said to be armed
 *
 *          It is known that nothing was sampled before, and a draw has no memory. So the estimates are
 *          those of a session from the start, and threads that find the session draw anew.
 * Owns:    the process's word is in the live page: a forked child finds none, and is armed again,
 *          with the draws that it had. A child that shares our memory draws for us; a sample that
 *          is due there is lost, since it cannot ask in our name.
 * Errors:  without a recorder there is no second try.
 * Threads: any. errno is kept.
 * Source:  doc/design/starts.md, "Armed"
 */
#ifndef HW_CLIENT_SAMPLE_ARMED_H
#define HW_CLIENT_SAMPLE_ARMED_H

#include "client/client.h"

#if defined(HW_BARE) /* is in no program from its start */

#define hw_armed()               false
#define hw_armed_interval()      UINT64_MAX
#define hw_armed_join(t)         ((void)(t), false)
#define hw_armed_lost()          ((void)0)
#define hw_armed_take_lost()     UINT64_C(0)
#define hw_armed_fill_hello(out) ((void)(out))
#define hw_armed_over()          ((void)0)
#define hw_armed_adopt()         ((void)0)
#define hw_armed_forked()        ((void)0)

#else

static inline bool hw_armed(void)
{
    return atomic_load_explicit(&hw_process_page.armed, memory_order_relaxed) != 0;
}

/* In the constructor. mark: the value of HEAPWISE_HELD. False: it does not say so. */
bool hw_armed_begin(const char *mark);
/* Is this thread's draw still valid? Asked by the slow path after the probes'. */
bool hw_armed_is_current(struct hw_tls *t);
/* There is no session for this thread: it draws for the coming one. False: it is not armed. */
bool hw_armed_join(struct hw_tls *t);
uint64_t hw_armed_interval(void); /* 0 = not armed */
void hw_armed_lost(void);         /* a sample; reported once there is a session */
uint64_t hw_armed_take_lost(void);

/* ---- for the handshake ---- */

void hw_armed_fill_hello(struct hw_hello *out);
void hw_armed_over(void);   /* it was answered, or never will be */
void hw_armed_adopt(void);  /* in a forked child, which now has the page to itself */
void hw_armed_forked(void); /* in libc's handler for those: not the parent's draws */

#endif

#endif

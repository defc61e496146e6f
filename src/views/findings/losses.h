/*
 * losses.h - what a profile lacks: every counted loss, ready to show
 *
 * Why:     loss travels with the data; each report shows it. One list for text, JSON and the page.
 * Shapes:  rows for a process (upid) or the whole trace (HW_ID_NONE), from dump flags and from the
 *          stats of severity data_loss and error that are not 0. A fact that is in both (a flag and
 *          the stat that the importer derives from it) appears once. A figure accumulated over
 *          dumps appears with its largest value.
 * Owns:    the list; names are borrowed from the profile.
 * Errors:  HW_ENOMEM.
 * Cost:    O(dumps + stats × (losses so far)).
 */
#ifndef HW_VIEWS_FINDINGS_LOSSES_H
#define HW_VIEWS_FINDINGS_LOSSES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "model/ids.h"
#include "model/profile.h"

enum hw_loss_kind {
    HW_LOSS_SAMPLES,   /* samples known to be lost */
    HW_LOSS_OVERRAN,   /* profile ended early: the buffer stayed full */
    HW_LOSS_CORRUPTED, /* shared memory inconsistent */
    HW_LOSS_REJECTED,  /* another session profiles this process */
    HW_LOSS_GUARDRAIL, /* the profiler stopped itself */
    HW_LOSS_TIMEOUT,   /* the client waited too long */
    HW_LOSS_STACK,     /* the client saw invalid stack bounds */
    HW_LOSS_UNWINDING, /* stacks cut short: not a loss of bytes */
    HW_LOSS_INTERVAL,  /* adaptive sampling raised the interval: less precision */
    HW_LOSS_STAT,      /* any other stat of severity data_loss or error */
    HW_LOSS_KIND_COUNT
};

struct hw_loss {
    enum hw_loss_kind kind;
    hw_upid upid;
    uint64_t count;
    hw_str_id detail; /* LOSS_SAMPLES, LOSS_REJECTED: reason; LOSS_STAT: the stat's name; else 0 */
    int64_t place;    /* LOSS_STAT of a JSON trace: byte offset of the first such event; else -1 */
    enum hw_stat_severity severity;
};

typedef HW_VEC(struct hw_loss) hw_losses;

/* Several processes' losses of data in one line. */
struct hw_losses_sum {
    HW_VEC(uint32_t) upids; /* of the processes, each once */
    uint64_t n_samples;
    struct hw_loss most; /* LOSS_SAMPLES: the largest; count 0 = no samples are known to be lost */
};

int hw_losses_find(const struct hw_profile *p, hw_losses *out);
/* Data is missing (exit status 4), not just less precise. */
bool hw_loss_is_incomplete(const struct hw_loss *l);
/* Of the list, in its order. What is only less precise adds nothing. */
int hw_losses_sum_add(struct hw_losses_sum *sum, const struct hw_loss *l);
void hw_losses_sum_done(struct hw_losses_sum *sum);

#endif

/*
 * loss_text.h - a loss as text, with its remedy
 *
 * Why:     every report says what is missing and what to do about it, in the same words.
 */
#ifndef HW_CLI_PARTS_LOSS_TEXT_H
#define HW_CLI_PARTS_LOSS_TEXT_H

#include "base/limits.h"
#include "base/text/strbuf.h"
#include "views/findings/losses.h"

/* What no trace can say of Python's objects. */
#define HW_FREE_LISTS_TEXT                                                                         \
    HW_PYTHON_HEAP                                                                                 \
    ": Python reuses freed floats, tuples, lists, dicts and frames without asking for memory; "    \
    "such a block counts for the line that asked for it first, not for the one that holds it now"

/*
 * One line without its newline: "buffer overrun: the profile of pid 4711 ('nginx') ended early; …".
 */
void hw_loss_text(struct hw_strbuf *out, const struct hw_profile *p, const struct hw_loss *l);
/* The same for several processes; the remedy is that of the largest loss. */
void hw_losses_sum_text(struct hw_strbuf *out, const struct hw_profile *p,
                        const struct hw_losses_sum *sum);
/* A keyword for programs: "samples_lost", "buffer_overran", …; for LOSS_STAT the stat's name. */
const char *hw_loss_word(const struct hw_profile *p, const struct hw_loss *l);

#endif

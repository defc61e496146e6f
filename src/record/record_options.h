/*
 * record_options.h - turns the options of `record` and `attach` into a configuration
 *
 * Why:     the commands and the Record page take the same words, so they become a configuration in
 *          one place.
 * Shapes:  words parsed by options.h, and the targets.
 * Errors:  HW_EINVAL with a text for the user: options that exclude each other, values that the
 *          configuration refuses.
 */
#ifndef HW_RECORD_RECORD_OPTIONS_H
#define HW_RECORD_RECORD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/strbuf.h"
#include "wire/control.h"

struct hw_error;
struct hw_opts;

struct hw_record_words {
    const struct hw_opts *opts;
    bool attach; /* running processes; else a command, --name, or with all everything */
    bool all;
    const uint64_t *pids; /* borrowed; of attach */
    size_t n_pids;
};

/* By enum hw_stack_mode; ends with NULL. */
extern const char *const hw_stack_mode_words[];
uint32_t hw_stack_mode_of(const char *word); /* HW_STACKS_COUNT: unknown */

int hw_record_check(const struct hw_record_words *w, struct hw_error *err);
/* Makes a binary TraceConfig, checked like in the recorder. */
int hw_record_config(const struct hw_record_words *w, struct hw_strbuf *out, struct hw_error *err);
struct hw_control_start hw_record_start(const struct hw_record_words *w);

#endif

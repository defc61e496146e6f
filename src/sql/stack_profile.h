/*
 * stack_profile.h - stacks as SQL values, and profiles built from them
 *
 * Why:     EXPERIMENTAL_PROFILE turns the rows of any query into a pprof file, with stacks of
 *          callsites, names, or both.
 * Shapes:  a stack is a blob of fields, root first: a callsite (its whole path), the same with
 *          annotations, or the name of a synthetic frame.
 * Owns:    a profile owns its stacks and sums.
 * Errors:  HW_EFORMAT (not a stack), HW_ENOMEM, HW_ELIMIT.
 */
#ifndef HW_SQL_STACK_PROFILE_H
#define HW_SQL_STACK_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"
#include "model/ids.h"

struct hw_profile;
struct hw_stack_profile;

void hw_stack_put_callsite(struct hw_strbuf *stack, hw_callsite_id id, bool annotate);
void hw_stack_put_name(struct hw_strbuf *stack, struct hw_bytes name);
bool hw_stack_is_valid(struct hw_bytes stack);

/* How the runtime executed the last frame of a path: none, interp, jit, aot, common-frame,
 * common-frame-interp. */
const char *hw_callsite_annotation(const struct hw_profile *p, hw_callsite_id id);

struct hw_stack_sample_type {
    struct hw_bytes type, unit;
};

int hw_stack_profile_new(const struct hw_profile *p, const struct hw_stack_sample_type *types,
                         size_t n_types, struct hw_stack_profile **out);
void hw_stack_profile_free(struct hw_stack_profile *s); /* NULL is fine */
/* values: one per type; values of equal stacks are added up. */
int hw_stack_profile_add(struct hw_stack_profile *s, struct hw_bytes stack, const int64_t *values);
int hw_stack_profile_write(struct hw_stack_profile *s, struct hw_strbuf *out);

#endif

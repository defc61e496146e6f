/*
 * stack_profile.h - stacks as values, and profiles made of them
 *
 * Why:     EXPERIMENTAL_PROFILE turns the rows of any query into a pprof file, with stacks of
 *          callsites, names, or both.
 * Shapes:  a stack is a blob of fields, root first: a callsite (its whole path), the same
 *          annotated, or the name of a frame that nobody ran.
 * Owns:    a profile its stacks and sums.
 * Errors:  HW_EFORMAT (a blob that is no stack), HW_ENOMEM, HW_ELIMIT.
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

/* How a runtime came by the last frame of a path: none, interp, jit, aot, common-frame,
 * common-frame-interp. */
const char *hw_callsite_annotation(const struct hw_profile *p, hw_callsite_id id);

struct hw_stack_sample_type {
    struct hw_bytes type, unit;
};

int hw_stack_profile_new(const struct hw_profile *p, const struct hw_stack_sample_type *types,
                         size_t n_types, struct hw_stack_profile **out);
void hw_stack_profile_free(struct hw_stack_profile *s); /* NULL is fine */
/* values: one for each type; those of one stack add up. */
int hw_stack_profile_add(struct hw_stack_profile *s, struct hw_bytes stack, const int64_t *values);
int hw_stack_profile_write(struct hw_stack_profile *s, struct hw_strbuf *out);

#endif

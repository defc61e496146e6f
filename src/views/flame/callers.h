/*
 * callers.h - who called the allocating functions
 *
 * Why:     "_sdsnewlen" says little, its caller says more.
 * Shapes:  the largest path up from a function, nearest caller first: at each step the caller with
 *          the largest part of what remains. Only named plain code counts (HW_FUNCTION_PLAIN), each
 *          function once; main is left out, and a runtime's own functions in stacks of managed ones.
 * Errors:  HW_ENOMEM.
 * Cost:    find: O(n log n) nodes of the tree.
 * Threads: pure.
 */
#ifndef HW_VIEWS_FLAME_CALLERS_H
#define HW_VIEWS_FLAME_CALLERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/text/strbuf.h"
#include "model/callsites.h"
#include "views/flame/flame.h"
#include "views/flame/functions.h"

enum { HW_CALLERS_MAX = 3 };

struct hw_callers {
    size_t n;
    uint32_t function[HW_CALLERS_MAX];
    double share[HW_CALLERS_MAX]; /* of the function's value, through it and those before */
};

/*
 * One per function, indexed by its id, from a top-down tree: the callers of its self value in this
 * metric, or of its total. The caller frees *out.
 */
enum hw_callers_of { HW_CALLERS_OF_SELF, HW_CALLERS_OF_TOTAL };
int hw_callers_find(const struct hw_callsites *cs, const struct hw_functions *fns,
                    const struct hw_flame *tree, enum hw_metric by, enum hw_callers_of of,
                    struct hw_callers **out);

/* Appends "parse < load", to follow the function's own name. namer NULL: raw names. */
void hw_callers_text(struct hw_strbuf *out, const struct hw_callers *c,
                     const struct hw_callsites *cs, const struct hw_functions *fns,
                     const struct hw_namer *namer);

#endif

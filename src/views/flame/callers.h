/*
 * callers.h - who called the functions that asked for memory
 *
 * Why:     "_sdsnewlen" says little: who called it does.
 * Shapes:  the way up from a function, nearest caller first, that most of the figure came by: at
 *          each step the caller with the most of what came by the steps before. Only plain code
 *          with a name counts (HW_FUNCTION_PLAIN), each function once; main is no caller.
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
    double share[HW_CALLERS_MAX]; /* of the row's figure that came by it and those before */
};

/* One a function, by its id, from a top-down tree: of what it asked for itself in this metric, or
 * of that and of all it called. The caller frees *out. */
enum hw_callers_of { HW_CALLERS_OF_SELF, HW_CALLERS_OF_TOTAL };
int hw_callers_find(const struct hw_callsites *cs, const struct hw_functions *fns,
                    const struct hw_flame *tree, enum hw_metric by, enum hw_callers_of of,
                    struct hw_callers **out);

/* Adds "parse < load": what stands behind a function's own name. NULL as namer: raw names. */
void hw_callers_text(struct hw_strbuf *out, const struct hw_callers *c,
                     const struct hw_callsites *cs, const struct hw_functions *fns,
                     const struct hw_namer *namer);

#endif

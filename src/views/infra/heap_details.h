/*
 * heap_details.h - a heap broken down by callstack and by type, in either order
 *
 * Why:     memory-infra's heap details: which types a caller's bytes consist of, and who allocated
 *          the bytes of a type, are one question with two dimensions.
 * Shapes:  rows of one or two moments (EARLIER, NOW) are added, from any profiles, matched by name.
 *          Then finish. Then a place (a stack, a type or both) can be expanded in one dimension.
 *          Children are sorted by descending size; those that the rule finds small are merged into
 *          one row OTHER at the end, with their number; what a function with callees holds itself
 *          is a row SELF. A place has the same figures in whichever order it is reached.
 * Units:   bytes, objects.
 * Owns:    labels and tables. A profile and its namer must live until finish, as the second moment
 *          of the same profile reuses tables of the first.
 * Errors:  HW_ENOMEM, HW_ELIMIT.
 * Cost:    O(rows × depth) to add, O(rows below a place) to expand.
 * Threads: one owner until finish, then read-only.
 * Source:  doc/formats/memory-infra.md
 */
#ifndef HW_VIEWS_INFRA_HEAP_DETAILS_H
#define HW_VIEWS_INFRA_HEAP_DETAILS_H

#include "base/memory/saturate.h"
#include "views/flame/functions.h"
#include "views/infra/values_by_type.h"

enum hw_detail_side { HW_DETAIL_EARLIER, HW_DETAIL_NOW, HW_DETAIL_SIDES };
enum hw_detail_kind {
    HW_DETAIL_ROOT,
    HW_DETAIL_FRAME,
    HW_DETAIL_TYPE,
    HW_DETAIL_SELF,
    HW_DETAIL_OTHER
};

/* Small rows have fewer bytes than a threshold; less than 0.8 % of the sum of all up to it; less
 * than 16384 bytes and fewer than 1024 objects. */
enum hw_detail_rule { HW_DETAIL_THRESHOLD, HW_DETAIL_FRACTION, HW_DETAIL_ROWS, HW_DETAIL_ALL };
/* "threshold", "fraction", "rows", "all"; false for any other word. */
bool hw_detail_rule_named(const char *word, enum hw_detail_rule *out);

struct hw_detail_value {
    int64_t size[HW_DETAIL_SIDES], count[HW_DETAIL_SIDES];
};

static inline int64_t hw_detail_growth(const int64_t v[HW_DETAIL_SIDES])
{
    return hw_sat_sub(v[HW_DETAIL_NOW], v[HW_DETAIL_EARLIER]);
}

struct hw_detail_row {
    enum hw_detail_kind kind;
    struct hw_bytes label; /* borrowed from the details */
    struct hw_detail_value v;
    uint32_t node, type; /* the place; type HW_ID_NONE: all */
    size_t n_folded;     /* OTHER */
};

typedef HW_VEC(struct hw_detail_row) hw_detail_rows;

struct hw_heap_details;

int hw_heap_details_new(struct hw_heap_details **out);
void hw_heap_details_free(struct hw_heap_details *d);
int hw_heap_details_add(struct hw_heap_details *d, const struct hw_profile *p,
                        const hw_values_by_type *values, const struct hw_namer *namer,
                        enum hw_detail_side side);
int hw_heap_details_finish(struct hw_heap_details *d);

struct hw_detail_row hw_heap_details_root(const struct hw_heap_details *d);
/* Callees of a place; then, with `types`, its types; each dimension with its own SELF and OTHER.
 * Appended to out. A type has no types below it. */
int hw_heap_details_frames(const struct hw_heap_details *d, const struct hw_detail_row *of,
                           enum hw_detail_rule rule, int64_t threshold, hw_detail_rows *out);
int hw_heap_details_types(const struct hw_heap_details *d, const struct hw_detail_row *of,
                          enum hw_detail_rule rule, int64_t threshold, hw_detail_rows *out);

/* What one callstack holds itself, without its callees. */
struct hw_detail_stack {
    const struct hw_bytes *frames; /* innermost first */
    size_t n_frames;
    struct hw_detail_value v;
    const struct hw_detail_row *types; /* its parts */
    size_t n_types;
};
/* Calls fn for each callstack with self values, callers before callees, until it returns < 0. */
int hw_heap_details_stacks(const struct hw_heap_details *d,
                           int (*fn)(void *ctx, const struct hw_detail_stack *s), void *ctx);

#endif

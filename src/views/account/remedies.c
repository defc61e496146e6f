#include "views/account/remedies.h"

#include <math.h>
#include <stdlib.h>

#include "base/banned.h"

#define LEAST_SHARE 0.02 /* of resident memory */
/* Share of a site's live bytes; headers alone are less for blocks of at least 64 bytes. */
#define MUCH_ADDED 0.15

static const char *const names[HW_REMEDY_COUNT] = {
#define X(ID, name) [HW_REMEDY_##ID] = name,
    HW_REMEDY_KINDS(X)
#undef X
};

const char *hw_remedy_name(enum hw_remedy_kind k)
{
    return names[k];
}

static int by_bytes(const void *pa, const void *pb)
{
    const struct hw_remedy *a = pa, *b = pb;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return (int)a->kind - (int)b->kind;
}

size_t hw_remedies_find(const struct hw_memory_parts *m, const struct hw_remedy_facts *f,
                        struct hw_remedy out[HW_REMEDIES])
{
    double least = fmax(HW_REMEDY_LEAST, LEAST_SHARE * m->total.rss);
    double is_free = m->parts[HW_PART_FREE].rss;
    bool is_glibc = f->allocator == HW_BLOCKS_GLIBC;
    bool adds_much = f->rounding >= MUCH_ADDED * f->rounding_live;
    const struct hw_remedy all[HW_REMEDIES] = {
        {HW_REMEDY_TRIM,
         !is_glibc                           ? 0
         : f->knows_arenas && f->same_moment ? f->returnable
         : f->knows_pins                     ? f->whole
                                             : is_free,
         f->knows_pins && !(f->knows_arenas && f->same_moment) ? f->whole_error : 0,
         !f->knows_pins && !(f->knows_arenas && f->same_moment)},
        {HW_REMEDY_ARENAS, f->knows_arenas ? fmin(f->in_other_arenas, is_free) : 0, 0, true},
        {HW_REMEDY_CACHES, f->knows_arenas ? fmin(f->cached, is_free) : 0, 0, true},
        {HW_REMEDY_POOL, is_glibc ? f->pinned : 0, f->pinned_error, false},
        {HW_REMEDY_DECAY, is_glibc || f->allocator == HW_BLOCKS_UNKNOWN ? 0 : is_free, 0, true},
        {HW_REMEDY_SIZES, adds_much ? f->rounding : 0, f->rounding_error, true},
    };
    size_t n = 0;
    for (size_t i = 0; i < HW_REMEDIES; i++)
        if (all[i].bytes >= least)
            out[n++] = all[i];
    if (n)
        qsort(out, n, sizeof *out, by_bytes);
    return n;
}

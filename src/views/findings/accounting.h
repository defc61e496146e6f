/*
 * accounting.h - from what a program requested to what the kernel holds for it
 *
 * Why:     "the profile says 100 MB, top says 300 MB" is the first question about any profile. The
 *          answer is spread over three sources: samples, the allocator's own figures, the kernel's.
 * Shapes:  lines are nested as far as their sources allow: requested memory is part of what the
 *          allocator has in use, that is part of what it has mapped, and so on; a step is the
 *          difference of two lines and may be negative (memory mapped but never touched). A figure
 *          missing from the trace is unknown, never 0. The sources are read at different times, so
 *          each figure has a timestamp. Points: every time at which one of the sources was read;
 *          lines without a reading at that time are interpolated between their neighbours, and
 *          unknown before the first and after the last. Kinds: mappings of the smaps record nearest
 *          to the moment.
 * Units:   bytes; shares of 1.
 * Errors:  HW_ENOMEM.
 * Cost:    O(counters × lines + smaps + points).
 * Threads: pure; the profile must be frozen.
 * Source:  doc/design/accounting.md
 */
#ifndef HW_VIEWS_FINDINGS_ACCOUNTING_H
#define HW_VIEWS_FINDINGS_ACCOUNTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "model/profile.h"
#include "views/time/process_view.h"

enum hw_account_line {
    HW_ACCOUNT_REQUESTED, /* live bytes of the profile */
    HW_ACCOUNT_IN_USE,    /* the allocator's blocks in use, with headers and rounding */
    HW_ACCOUNT_MAPPED,    /* what it got from the kernel */
    HW_ACCOUNT_ANONYMOUS, /* resident anonymous memory: the heap and other private memory */
    HW_ACCOUNT_RESIDENT,  /* of the whole process */
    HW_ACCOUNT_SWAPPED,
    HW_ACCOUNT_RELEASABLE, /* free memory at the heap's top */
    HW_ACCOUNT_LINE_COUNT
};

struct hw_account_value {
    bool known;
    double bytes;
    int64_t at_ns; /* when it was read */
};

enum hw_account_kind {
    HW_ACCOUNT_KIND_HEAP,      /* [heap] */
    HW_ACCOUNT_KIND_ANONYMOUS, /* without a name: large blocks, other arenas, thread stacks */
    HW_ACCOUNT_KIND_STACK,
    HW_ACCOUNT_KIND_FILE,     /* programs, libraries, mapped files */
    HW_ACCOUNT_KIND_SHARED,   /* memfd, /dev/shm, System V */
    HW_ACCOUNT_KIND_PROFILER, /* our ring, tables and control page */
    HW_ACCOUNT_KIND_OTHER,
    HW_ACCOUNT_KIND_COUNT
};

struct hw_account_mappings {
    uint64_t n, size, rss, swap;
};

struct hw_account_point {
    int64_t ts_ns;
    double bytes[HW_ACCOUNT_LINE_COUNT]; /* NAN = unknown */
};

/* What the curves say together; see doc/design/accounting.md for the rules. */
enum hw_account_note {
    HW_ACCOUNT_NOT_RETURNED = 1, /* the profile is flat, what the allocator has mapped grows */
    HW_ACCOUNT_OUTSIDE = 2,      /* the allocator's use is flat, resident memory grows */
    HW_ACCOUNT_UNTOUCHED = 4     /* less is resident than the allocator has mapped */
};

struct hw_accounting {
    struct hw_account_value now[HW_ACCOUNT_LINE_COUNT];
    double error;         /* of HW_ACCOUNT_REQUESTED: two standard errors */
    double fragmentation; /* the free share of what the allocator has mapped; -1 = unknown */
    HW_VEC(struct hw_account_point) points;
    struct hw_account_mappings kinds[HW_ACCOUNT_KIND_COUNT];
    bool has_kinds;
    int64_t kinds_ns;
    unsigned notes;
};

/* Totals of the known lines, and between two of them their difference. */
struct hw_account_step {
    const char *name;  /* a line's, or "overhead", "caches", "untouched", "rest"; "gap" across an
                          unknown line */
    bool is_total;     /* begin is 0 then */
    double begin, end; /* bytes */
    int64_t at_ns;     /* of the later line */
};
#define HW_ACCOUNT_MAX_STEPS 9u

size_t hw_accounting_steps(const struct hw_accounting *a,
                           struct hw_account_step out[HW_ACCOUNT_MAX_STEPS]);

/* v: a moment's process; ts_ns: the moment. */
int hw_accounting_find(const struct hw_profile *p, const struct hw_process_view *v, int64_t ts_ns,
                       const struct hw_value *live, struct hw_accounting *out);
/* Mappings by kind in the smaps record nearest to a time; false: the process has none. */
bool hw_account_kinds_at(const struct hw_profile *p, hw_upid upid, int64_t ts_ns,
                         struct hw_account_mappings out[HW_ACCOUNT_KIND_COUNT], int64_t *at_ns);
void hw_accounting_done(struct hw_accounting *a);
const char *hw_account_line_name(enum hw_account_line l); /* "requested", … */
const char *hw_account_kind_name(enum hw_account_kind k); /* "heap", … */

#endif

/*
 * process.h - one process over time: all its heaps of one kind combined
 *
 * Why:     a person asks about a program; its heaps (libc.malloc, custom ones) are dumped one by
 *          one.
 * Shapes:  of unlike heaps (enum hw_heap_kind) those of the first kind count. A moment is a time at
 *          which at least one heap of the process was dumped, or the time of a recorded maximum.
 *          The value of a heap between its dumps is that of the dump before.
 * Errors:  HW_ENOMEM.
 * Cost:    one pass over the process's rows per call.
 * Threads: pure; the profile must be frozen.
 */
#ifndef HW_VIEWS_TIME_PROCESS_H
#define HW_VIEWS_TIME_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "views/time/series.h"
#include "views/time/values.h"

struct hw_process_moment {
    int64_t ts_ns;
    bool at_max;  /* values of HW_DUMP_AT_MAX dumps with just this time */
    bool is_peak; /* made only because it was the maximum so far (trigger "peak") */
    bool is_dump; /* one that is counted: neither that, nor made only to take back what an image had
                   */
    struct hw_value total;
};

struct hw_dump_total {
    uint32_t dump;
    struct hw_value total;
};

struct hw_process_view {
    hw_upid upid;
    enum hw_heap_kind kind;                       /* of the heaps in the totals */
    uint64_t interval_bytes, orig_interval_bytes; /* of the last dump; the largest of its heaps */
    HW_VEC(struct hw_process_moment) moments;     /* in order of time, peaks left out */
    HW_VEC(struct hw_process_moment) peaks;       /* recorded maxima in order of time */
    HW_VEC(struct hw_dump_total) dumps;           /* shown ones and recorded maxima, by id */
    size_t n_dumps;  /* moments at which dumps were made, and recorded maxima; heaps together */
    bool ended;      /* the process ended while it was recorded */
    bool knows_peak; /* maxima between its dumps were recorded, so its peak is no dump by chance */
    /* Begin of the recorded window; its first dump's time when not written; without a dump, the
     * trace's. */
    int64_t start_ns;
};

int hw_process_view_init(struct hw_process_view *v, const struct hw_profile *p,
                         const struct hw_series_list *list, hw_upid upid);
void hw_process_view_done(struct hw_process_view *v);
/* The moment with the most live bytes, recorded maxima included; NULL when there is none. */
const struct hw_process_moment *hw_process_view_peak(const struct hw_process_view *v);
/*
 * Was most of it freed by the end? Then the end only shows a program's clean-up, and the peak says
 * more: below 1 % of the peak, or half of it if the process exited during the recording.
 */
bool hw_process_view_cleaned_up(const struct hw_process_view *v);

/* What one heap held at a dump of the view; NULL: not shown by the view. */
const struct hw_value *hw_process_view_dump(const struct hw_process_view *v, uint32_t dump);

/* The dump whose values a heap has at a moment; HW_ID_NONE before its first. */
uint32_t hw_process_dump_at(const struct hw_profile *p, const struct hw_series *s, int64_t ts_ns,
                            bool at_max);
/* What keeps a heap; NULL keeps all. Of those kept the ones of the first kind are added up. */
typedef bool (*hw_process_keep)(const void *ctx, const struct hw_profile *p,
                                const struct hw_series *s);
enum hw_heap_kind hw_process_kind(const struct hw_profile *p, const struct hw_series_list *list,
                                  hw_upid upid, hw_process_keep keep, const void *ctx);
int hw_process_values_of(const struct hw_profile *p, const struct hw_series_list *list,
                         hw_upid upid, int64_t ts_ns, bool at_max, hw_process_keep keep,
                         const void *ctx, hw_values *out);
/* Values of all heaps of the first kind at a moment, one row per callsite, sorted by callsite. */
int hw_process_values(const struct hw_profile *p, const struct hw_series_list *list, hw_upid upid,
                      int64_t ts_ns, bool at_max, hw_values *out);

/* Processes with dumps, most bytes ever allocated first. `views` begins empty; done copes with a
 * half-built one. */
typedef HW_VEC(struct hw_process_view) hw_process_views;
int hw_process_views_init(const struct hw_profile *p, const struct hw_series_list *list,
                          hw_process_views *views);
void hw_process_views_done(hw_process_views *views);

/* The dumps of all processes, each counted as in its view: dumps as users see them. */
int hw_process_count_dumps(const struct hw_profile *p, const struct hw_series_list *list,
                           size_t *out);

/* The same, but only how much each allocated. */
struct hw_process_rank {
    hw_upid upid;
    struct hw_value
        total; /* at its last dump (or its recorded maximum when there is nothing else) */
};
typedef HW_VEC(struct hw_process_rank) hw_process_ranks;
int hw_process_rank_all(const struct hw_profile *p, const struct hw_series_list *list,
                        hw_process_ranks *out);

/* The counter's value nearest to ts_ns, and when that was (at_ns may be NULL); false when the trace
 * has none for this process. */
bool hw_process_counter(const struct hw_profile *p, hw_upid upid, const char *name, int64_t ts_ns,
                        double *out, int64_t *at_ns);

#endif

/*
 * process_view.h - one process over time: all its heaps of one kind combined
 *
 * Why:     people ask about a program; its heaps (libc.malloc, custom ones) are dumped one by one.
 * Shapes:  only heaps of the process's first kind (enum hw_heap_kind) count. A moment is a time at
 *          which at least one heap of the process was dumped, or the time of a recorded maximum.
 *          Between its dumps, a heap has the values of the previous one.
 * Errors:  HW_ENOMEM.
 * Cost:    one pass over the process's dumps and their rows per call, however many others there are.
 * Threads: pure; the profile must be frozen.
 */
#ifndef HW_VIEWS_TIME_PROCESS_VIEW_H
#define HW_VIEWS_TIME_PROCESS_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "views/time/series.h"
#include "views/time/values.h"

struct hw_process_moment {
    int64_t ts_ns;
    bool at_max;  /* values of HW_DUMP_AT_MAX dumps with exactly this time */
    bool is_peak; /* made only because it was the maximum so far (trigger "peak") */
    bool is_dump; /* counted as a dump: neither is_peak nor "freed-by-exec" */
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
    HW_VEC(struct hw_process_moment) moments;     /* in order of time, without recorded maxima */
    HW_VEC(struct hw_process_moment) peaks;       /* recorded maxima in order of time */
    HW_VEC(struct hw_dump_total) dumps;           /* shown ones and recorded maxima, by id */
    size_t n_dumps;  /* moments that are dumps, and recorded maxima; not per heap */
    bool ended;      /* the process ended while it was recorded */
    bool knows_peak; /* maxima between dumps were recorded; else the peak is the largest dump */
    /* Start of the recording; the first dump's time if it was not written, the trace's if there is
     * no dump. */
    int64_t start_ns;
};

int hw_process_view_init(struct hw_process_view *v, const struct hw_profile *p,
                         const struct hw_series_list *list, hw_upid upid);
void hw_process_view_done(struct hw_process_view *v);
/* In the trace, chosen or not. */
bool hw_process_has_heap(const struct hw_profile *p, hw_upid upid, const char *name);
/* The moment with the most live bytes, recorded maxima included; NULL when there is none. */
const struct hw_process_moment *hw_process_view_peak(const struct hw_process_view *v);
/*
 * Whether most of it was freed by the end, so that the peak says more than the end: less than 1 %
 * of the peak is left, or less than half if the process exited during the recording.
 */
bool hw_process_view_cleaned_up(const struct hw_process_view *v);

/* What one heap held at a dump; NULL: the view does not show this dump. */
const struct hw_value *hw_process_view_dump(const struct hw_process_view *v, uint32_t dump);

/* The dump whose values a heap has at a moment; HW_ID_NONE before its first. */
uint32_t hw_process_dump_at(const struct hw_profile *p, const struct hw_series *s, int64_t ts_ns,
                            bool at_max);
/* Selects heaps; NULL selects all. Those of the first kind among them are added up. */
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

/* Processes with dumps, by descending bytes ever allocated. `views` is empty at first; done accepts
 * one that is half built. */
typedef HW_VEC(struct hw_process_view) hw_process_views;
int hw_process_views_init(const struct hw_profile *p, const struct hw_series_list *list,
                          hw_process_views *views);
void hw_process_views_done(hw_process_views *views);

/* The sum of all processes' n_dumps: dumps as users see them. */
int hw_process_count_dumps(const struct hw_profile *p, const struct hw_series_list *list,
                           size_t *out);

/* Processes in the same order, with only their totals. */
struct hw_process_rank {
    hw_upid upid;
    struct hw_value total; /* at its last dump, or its recorded maximum if there is nothing else */
};
typedef HW_VEC(struct hw_process_rank) hw_process_ranks;
int hw_process_rank_all(const struct hw_profile *p, const struct hw_series_list *list,
                        hw_process_ranks *out);

/* The counter's value nearest to ts_ns, and when that was (at_ns may be NULL); false when the trace
 * has none for this process. */
bool hw_process_counter(const struct hw_profile *p, hw_upid upid, const char *name, int64_t ts_ns,
                        double *out, int64_t *at_ns);

#endif

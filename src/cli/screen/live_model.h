/*
 * live_model.h - the state of `heapwise live`: the latest snapshot and what remains of earlier ones
 *
 * Why:     a snapshot says what is held now; growth, rates and the curve need earlier values.
 *          Function ids change with every snapshot, so history is kept by name.
 * Shapes:  rows are the functions of the latest snapshot, self counted at the allocation site.
 * Units:   bytes; rates per second, between the last two snapshots.
 * Owns:    everything.
 * Errors:  HW_ENOMEM and those of the importer; the model keeps the previous snapshot.
 * Threads: one owner at a time.
 */
#ifndef HW_CLI_SCREEN_LIVE_MODEL_H
#define HW_CLI_SCREEN_LIVE_MODEL_H

#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "enrich/lines/demangle.h"
#include "model/profile.h"
#include "record/live_source.h"
#include "views/flame/flame.h"
#include "views/flame/program.h"
#include "views/time/process_view.h"

#define HW_LIVE_HISTORY 600

struct hw_live_row {
    const char *label; /* owned by the model's labels */
    uint32_t function;
    uint64_t key; /* hash of its name and where it is */
    struct hw_value self, total;
    int64_t growth; /* of self.space, since the baseline */
    double rate;    /* of self.alloc_space */
};

/* One snapshot, loaded. */
struct hw_live_now {
    struct hw_profile *p;
    struct hw_series_list list;
    struct hw_process_view view;
    hw_values values;
    struct hw_functions *functions;
    struct hw_function_at *places; /* by function */
    struct hw_demangler *demangler;
    struct hw_namer namer;
    struct hw_shown_program program;
    HW_VEC(char *) labels; /* by function */
    HW_VEC(struct hw_live_row) rows;
};

struct hw_live_model {
    struct hw_live_now now;
    struct hw_control_live facts;
    struct hw_value total;
    double error; /* of total.space */
    uint64_t interval_bytes, rss_bytes;
    uint64_t first_ns, at_ns; /* monotonic; first_ns 0 = no snapshot yet */
    int64_t base_space, peak_space;
    double alloc_rate, alloc_count_rate;
    struct hw_map64 base,
        before; /* key → self.space at the baseline, alloc_space at the last snapshot */
    double history[HW_LIVE_HISTORY]; /* space, oldest first */
    size_t n_history;
};

/* Reads a snapshot (fd stays the caller's). */
int hw_live_model_update(struct hw_live_model *m, int fd, const struct hw_control_live *facts,
                         uint64_t rss_bytes, uint64_t now_ns, struct hw_error *err);
/* Growth is counted from now on. */
void hw_live_model_rebase(struct hw_live_model *m);
void hw_live_model_done(struct hw_live_model *m);

enum hw_live_order { HW_LIVE_BY_SELF, HW_LIVE_BY_TOTAL, HW_LIVE_BY_COUNT, HW_LIVE_BY_GROWTH };
void hw_live_model_sort(struct hw_live_model *m, enum hw_live_order by);

#endif

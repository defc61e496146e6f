/*
 * export.h - output formats: one file per format, one line in table.c
 *
 * Why:     commands, the server and the page write the same files by the same code.
 * Shapes:  an exporter gets the values of one moment (one dump of one heap, or of a whole process)
 *          and writes one file. Callstacks are root first in the model and turned round where the
 *          format wants it.
 * Errors:  HW_ESYS when the stream failed, HW_ENOMEM.
 * Threads: pure but for the stream and the namer.
 */
#ifndef HW_EXPORT_EXPORT_H
#define HW_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "model/ids.h"
#include "model/profile.h"
#include "views/filter.h"
#include "views/flame/functions.h"
#include "views/infra/heap_details.h"
#include "views/time/values.h"

struct hw_error;

/* Which columns: a duration is about all of a profile, and what is held has none. */
enum hw_scrape_columns { HW_SCRAPE_ALL = 0, HW_SCRAPE_INUSE, HW_SCRAPE_ALLOC };

/* pprof as scrapers of Go programs read it: inuse_space, a period, a default column. */
struct hw_scrape_form {
    enum hw_scrape_columns columns;
    int64_t time_ns;     /* since 1970 */
    int64_t duration_ns; /* of a difference; 0 = since the start */
    bool allocs;         /* alloc_space is what is shown first */
    /* What was held when it began: columns of their own, row by row as the values; NULL = none. */
    const hw_values *base;
    const char *const *comments; /* "name=value" */
    size_t n_comments;
};

/* What is too small to be told one by one, by the same rules as heap details. */
struct hw_infra_rule {
    enum hw_detail_rule rule;
    int64_t threshold; /* HW_DETAIL_THRESHOLD: bytes */
};

struct hw_export_input {
    const struct hw_profile *profile;
    const hw_values *values;
    const hw_values *peak; /* at an earlier, larger dump: formats with a time line; NULL = none */
    int64_t peak_ts_ns;
    hw_upid upid;
    hw_str_id heap_name;                 /* 0 = all heaps of the process together */
    int64_t ts_ns;                       /* of the dump */
    uint64_t interval_bytes;             /* in force at it */
    const struct hw_namer *namer;        /* NULL = raw names */
    enum hw_metric metric;               /* formats of one figure: which */
    const struct hw_heap_graph *graph;   /* formats of one heap graph: which */
    const hw_filters *filters;           /* of the merged stacks; NULL = none; no pivot */
    const struct hw_infra_rule *other;   /* memory-infra: what is folded; NULL = below 1024 bytes */
    const char *only_types;              /* memory-infra: "Node,Sheet*"; NULL = all */
    FILE *notes;                         /* what was left out, for people; NULL = nowhere */
    bool raw_counts;                     /* recorded allocations in place of estimates */
    bool no_annotations;                 /* pprof: no " [jit]" and the like behind names */
    bool cpu_samples;                    /* pprof: the values count samples of the processor */
    const struct hw_scrape_form *scrape; /* pprof; NULL = the names of heap_profile */
    bool new_names; /* pprof: "Total malloc size"… in place of alloc_space… */
    bool gzip;      /* formats that are usually packed: pprof */
};

struct hw_exporter {
    const char *name;      /* `-t` value and the word used in messages */
    const char *summary;   /* one line for `help` */
    const char *extension; /* with its dot */
    bool binary;           /* not written to a terminal */
    bool one_metric;       /* uses hw_export_input.metric */
    bool whole;            /* writes all processes and dumps: only profile, namer, gzip count */
    bool graph;            /* writes hw_export_input.graph; also whole */
    bool merged;           /* writes merged stacks: hw_export_input.filters count */
    int (*write)(const struct hw_export_input *in, FILE *out, struct hw_error *err);
};

extern const struct hw_exporter *const hw_exporters[];        /* NULL-terminated */
const struct hw_exporter *hw_exporter_find(const char *name); /* NULL when there is none */

/* The objects columns as asked for: estimates, or recorded allocations with raw_counts. */
struct hw_value hw_export_value(const struct hw_export_input *in, const struct hw_value *v);
/* Checks the stream's state after everything was written. */
int hw_export_finish(FILE *out, struct hw_error *err);

extern const struct hw_exporter hw_export_pprof;
extern const struct hw_exporter hw_export_folded;
extern const struct hw_exporter hw_export_speedscope;
extern const struct hw_exporter hw_export_html;
extern const struct hw_exporter hw_export_json;
extern const struct hw_exporter hw_export_svg;
extern const struct hw_exporter hw_export_text;
extern const struct hw_exporter hw_export_csv;
extern const struct hw_exporter hw_export_heaptrack;
extern const struct hw_exporter hw_export_massif;
extern const struct hw_exporter hw_export_hprof;
extern const struct hw_exporter hw_export_memory_infra;
extern const struct hw_exporter hw_export_memory_infra_v1;
extern const struct hw_exporter hw_export_perfetto;

#endif

/*
 * export.h - output formats: one file per format, one line in exporters.c
 *
 * Why:     commands, the server and the page write the same files by the same code.
 * Shapes:  an exporter gets the values of one moment (one dump of one heap, or of a whole process)
 *          and writes one file. Callstacks are root first in the model and reversed where the
 *          format wants leaf first.
 * Errors:  HW_ESYS when the stream failed, HW_ENOMEM.
 * Threads: no state but the stream and the namer.
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

/* Which columns: a file has one duration, and in-use values have none. */
enum hw_scrape_columns { HW_SCRAPE_ALL = 0, HW_SCRAPE_INUSE, HW_SCRAPE_ALLOC };

/* pprof as scrapers of Go programs read it: inuse_space, a period, a default column. */
struct hw_scrape_form {
    enum hw_scrape_columns columns;
    int64_t time_ns;     /* since 1970 */
    int64_t duration_ns; /* of a difference; 0 = since the start */
    bool allocs;         /* alloc_space is the default column */
    /* The values at the start, in columns of their own, parallel to the values; NULL = none. */
    const hw_values *base;
    const char *const *comments; /* "name=value" */
    size_t n_comments;
};

/* Which entries are too small to be written one by one, by the same rules as heap details. */
struct hw_infra_rule {
    enum hw_detail_rule rule;
    int64_t threshold; /* HW_DETAIL_THRESHOLD: bytes */
};

struct hw_export_input {
    const struct hw_profile *profile;
    const hw_values *values;
    const hw_values *peak; /* at an earlier, larger dump: formats with a timeline; NULL = none */
    int64_t peak_ts_ns;
    hw_upid upid;
    hw_str_id heap_name;                 /* 0 = all heaps of the process together */
    int64_t ts_ns;                       /* of the dump */
    uint64_t interval_bytes;             /* sampling interval at the dump */
    const struct hw_namer *namer;        /* NULL = raw names */
    enum hw_metric metric;               /* for formats with a single figure */
    const struct hw_heap_graph *graph;   /* for formats of one heap graph */
    const hw_filters *filters;           /* of the merged stacks; NULL = none; no pivot */
    const struct hw_infra_rule *other;   /* memory-infra: what is folded; NULL = below 1024 bytes */
    const char *only_types;              /* memory-infra: "Node,Sheet*"; NULL = all */
    FILE *notes;                         /* what was left out, for people; NULL = nowhere */
    bool raw_counts;                     /* recorded allocations instead of estimates */
    bool no_annotations;                 /* pprof: no suffixes such as " [jit]" on names */
    bool cpu_samples;                    /* pprof: the values count CPU samples */
    const struct hw_scrape_form *scrape; /* pprof; NULL = the names of heap_profile */
    bool new_names; /* pprof: "Total malloc size"… instead of alloc_space… */
    bool gzip;      /* formats that are usually compressed: pprof */
};

struct hw_exporter {
    const char *name;      /* `-t` value and the word used in messages */
    const char *summary;   /* one line for `help` */
    const char *extension; /* with its dot */
    bool binary;           /* not written to a terminal */
    bool one_metric;       /* uses hw_export_input.metric */
    bool whole;            /* writes all processes and dumps: only profile, namer, gzip are used */
    bool graph;            /* writes hw_export_input.graph; also whole */
    bool merged;           /* writes merged stacks: uses hw_export_input.filters */
    int (*write)(const struct hw_export_input *in, FILE *out, struct hw_error *err);
};

extern const struct hw_exporter *const hw_exporters[];        /* NULL-terminated */
const struct hw_exporter *hw_exporter_find(const char *name); /* NULL = unknown */

/* The value with objects as requested: estimates, or recorded allocations with raw_counts. */
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
extern const struct hw_exporter hw_export_v8_snapshot;
extern const struct hw_exporter hw_export_v8_profile;
extern const struct hw_exporter hw_export_memory_infra;
extern const struct hw_exporter hw_export_memory_infra_v1;
extern const struct hw_exporter hw_export_perfetto;

#endif

/*
 * pprof_dir.h - all dumps of a profile as heap_dump.N.PID[.HEAP].pb[.gz] in a directory
 *
 * Why:     `heap_profile`, `traceconv profile` and `heapwise convert` write the same files.
 * Shapes:  one file per (dump, process, heap), N from 1 in order of time. File names contain the
 *          heap's name, except for libc.malloc. Names from the trace are always escaped in paths.
 *          Existing files of these names are replaced; symbolic links are not followed.
 * Errors:  HW_ESYS. Files written before a failure stay.
 * Source:  doc/formats/pprof.md
 */
#ifndef HW_EXPORT_PPROF_PPROF_DIR_H
#define HW_EXPORT_PPROF_PPROF_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "views/flame/functions.h"

struct hw_error;
struct hw_heap_graph;
struct hw_profile;
struct hw_strbuf;

struct hw_pprof_dir {
    const char *dir;              /* exists */
    int64_t pid;                  /* < 0: every process */
    const int64_t *timestamps_ns; /* only dumps of these times; n_timestamps 0: all */
    size_t n_timestamps;
    bool gzip; /* .pb.gz */
    bool new_names, raw_counts, no_annotations;
    const struct hw_namer *namer; /* NULL = raw names */
    FILE *warnings; /* WARNING: lines of a profile with losses go here; NULL = nowhere */
};

/* *n_files: how many were written; 0 is no error here. */
int hw_pprof_dir_write(const struct hw_profile *p, const struct hw_pprof_dir *o, size_t *n_files,
                       struct hw_error *err);

/* The same for heap graphs: java_heap_dump.N.PID.pb[.gz]; uses only dir, pid, timestamps and gzip
 * of the options. */
int hw_pprof_dir_write_graphs(const struct hw_profile *p, const struct hw_pprof_dir *o,
                              size_t *n_files, struct hw_error *err);
/* CPU samples: profile.N.pid.PID.pb[.gz], one for each process; times are those of samples. */
int hw_pprof_dir_write_cpu(const struct hw_profile *p, const struct hw_pprof_dir *o,
                           size_t *n_files, struct hw_error *err);
/* One heap graph: a sample for each node of its flamegraph. */
int hw_pprof_graph_write(const struct hw_profile *p, const struct hw_heap_graph *g, bool gzip,
                         FILE *out, struct hw_error *err);

#endif

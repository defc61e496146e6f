/*
 * leak_files.h - what diff_heap_profiler leaves below output/
 *
 * Shapes:  output/process_PID_HEAP-leaks.json (.txt, .pb.gz) for each heap with large callstacks;
 *          with a graph also output/graph/: process_PID_HEAP-objects.json (nested objects),
 *          process_PID_HEAP.html (a flamegraph), index.json and index.html. None of them needs a
 *          network. Names from a trace never reach a path unescaped.
 * Errors:  HW_ESYS, HW_ENOMEM. What was written before a failure stays.
 * Source:  doc/formats/memory-infra.md, "Large callstacks"
 */
#ifndef HW_CLI_CLASSIC_LEAK_FILES_H
#define HW_CLI_CLASSIC_LEAK_FILES_H

#include <stdbool.h>

#include "base/text/json_out.h"
#include "base/text/strbuf.h"
#include "export/large_stacks.h"

struct hw_error;

enum hw_leak_format { HW_LEAKS_JSON, HW_LEAKS_TEXT, HW_LEAKS_PPROF };

struct hw_leak_files {
    enum hw_leak_format format; /* set by the caller, as is graph */
    bool graph;
    struct hw_json index;   /* of the graphs */
    struct hw_strbuf table; /* the same as rows of index.html */
};

struct hw_leak_heap {
    int64_t pid;
    const char *heap;
    struct hw_bytes name, labels; /* of the process */
};

/* Makes the directories; end writes the index. */
int hw_leak_files_begin(struct hw_leak_files *f, struct hw_error *err);
int hw_leak_files_add(struct hw_leak_files *f, const struct hw_leak_heap *h,
                      const struct hw_large_stacks *leaks, const struct hw_heap_details *d,
                      struct hw_error *err);
int hw_leak_files_end(struct hw_leak_files *f, struct hw_error *err);
void hw_leak_files_done(struct hw_leak_files *f);

#endif

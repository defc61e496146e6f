/*
 * profile.h - the one in-memory profile
 *
 * Why:     importers fill it, enrichers add names, everything else only reads it.
 * Shapes:  tables of plain rows with dense ids; heap allocation rows are differences between dumps
 *          (allocations positive, frees negative), as in the table heap_profile_allocation. Once
 *          frozen, dumps are sorted by ts, then file order; heap graphs by (ts, upid), CPU samples
 *          by ts; slices are nested.
 * Units:   *_ns in the trace's clock (BOOTTIME unless the trace says otherwise); sizes in bytes.
 * Owns:    everything in it; strings are ids into hw_callsites_strings().
 * Threads: filled by one owner, then frozen (hw_profile_freeze) and read by any number.
 * Source:  doc/design/sql.md, doc/formats/trace.md
 */
#ifndef HW_MODEL_PROFILE_H
#define HW_MODEL_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "model/allocs.h"
#include "model/args.h"
#include "model/by_process.h"
#include "model/callsites.h"
#include "model/cpu_samples.h"
#include "model/graph/heap_graph.h"
#include "model/ids.h"
#include "model/memory/malloc_arena.h"
#include "model/memory/memory_dump.h"
#include "model/slices.h"
#include "model/system.h"

/* A heap of free memory on pages with live blocks, by the callstacks of these blocks. */
#define HW_PINNED_HEAP   "malloc.pinned"
#define HW_RESIDENT_HEAP "mmap.anon.resident"

struct hw_progress;

struct hw_process {
    int64_t pid;
    hw_str_id name;    /* shown name: cmdline[0], cut at a space if it is alone; 0 = unknown */
    hw_str_id cmdline; /* joined by spaces */
    hw_str_id labels;  /* Chrome's, separated by commas; 0 = none */
    int64_t uid;       /* -1 = unknown */
    int64_t ppid;      /* -1 = unknown */
    int64_t start_ns;  /* -1 = unknown */
};

enum hw_dump_flags {
    HW_DUMP_FROM_STARTUP = 1,
    HW_DUMP_REJECTED = 2,
    HW_DUMP_DISCONNECTED = 4,
    HW_DUMP_BUFFER_OVERRAN = 8,
    HW_DUMP_BUFFER_CORRUPTED = 16,
    HW_DUMP_HIT_GUARDRAIL = 32,
    HW_DUMP_AT_MAX = 64,
    HW_DUMP_CHECKPOINT = 128,
    HW_DUMP_KEEPS_PEAK = 256,       /* maxima between the dumps are dumps of their own */
    HW_DUMP_KNOWS_VARIANCE = 512,   /* by its recorder: a row without variance is exact */
    HW_DUMP_BASE = 1024,            /* held before the file begins: does not count as allocated */
    HW_DUMP_ALL_VARIANCES = 2048,   /* rows have variances of all metrics, not just of live bytes */
    HW_DUMP_OF_UNNAMED_HEAP = 4096, /* heap_name was chosen by us */
    HW_DUMP_KNOWS_ROUNDING = 8192,  /* rows have what the allocator adds */
    HW_DUMP_KNOWS_START = 16384,    /* start_ts_ns is told, also if it is 0 or less */
    HW_DUMP_KNOWS_TEMPORARY = 32768 /* rows have what was freed within a second */
};

/* The one lost_reason with a remedy of its own. */
#define HW_LOST_LATE "the recorder answered late"

/* One dump of one heap of one process. */
struct hw_heap_dump {
    hw_upid upid;
    hw_str_id heap_name;
    int64_t ts_ns, start_ts_ns;
    uint64_t interval_bytes, orig_interval_bytes;
    uint32_t flags; /* enum hw_dump_flags */
    uint32_t client_error;
    hw_str_id trigger;
    uint64_t lost_samples;
    hw_str_id lost_reason;
    uint64_t heap_samples, unwinding_errors, map_reparses, unwinding_time_us, blocked_us;
    double choice; /* processes chosen by chance: variance added to any figure, in squares of it */
};

/* Where its window begins; a dump without a start is a moment. */
static inline int64_t hw_dump_start(const struct hw_heap_dump *d)
{
    bool is_known = d->start_ts_ns > 0 || d->flags & HW_DUMP_KNOWS_START;
    return is_known && d->start_ts_ns <= d->ts_ns ? d->start_ts_ns : d->ts_ns;
}

enum hw_stat_severity { HW_STAT_INFO, HW_STAT_DATA_LOSS, HW_STAT_ERROR, HW_STAT_SEVERITY_COUNT };

struct hw_stat_row {
    hw_str_id name;
    int64_t key; /* pid, upid or buffer index; -1 = not indexed */
    enum hw_stat_severity severity;
    int64_t value;
};

struct hw_counter_row { /* process counters: rss, swap, malloc_info… */
    hw_upid upid;
    hw_str_id name; /* "mem.rss", "mem.rss.anon", "mem.swap", "malloc_info.in_use", … */
    int64_t ts_ns;
    double value;
};

/* A figure that the kernel or the recorder did not give. */
#define HW_SMAPS_UNKNOWN UINT64_MAX

struct hw_smaps_row {
    hw_upid upid;
    int64_t ts_ns;
    hw_str_id path, file_name, module_debugid, module_debug_path;
    bool is_deleted; /* the file no longer exists */
    uint64_t size_kb, rss_kb, anonymous_kb, swap_kb, private_dirty_kb, pss_kb;
    uint64_t private_clean_kb, shared_dirty_kb, shared_clean_kb, locked_kb, pss_dirty_kb,
        swap_pss_kb;
    uint64_t start_address, module_timestamp, protection_flags, aggregate_count;
    uint64_t elf_address; /* of its first byte, in the file's own space */
};

/* Flags of a mapping: memory-infra has 4 for read and 1 for execute, the table 1 and 4. */
static inline uint64_t hw_smaps_flags(uint64_t flags)
{
    return (flags & ~UINT64_C(5)) | (flags & 1) << 2 | (flags & 4) >> 2;
}

struct hw_metadata_row { /* facts about the whole trace: trace_uuid, system_name, … */
    hw_str_id name;
    hw_str_id text; /* 0 when it is a number */
    int64_t number;
};

struct hw_clock_moment { /* one moment in the trace's clock and in another one */
    int64_t ts_ns, there_ns;
};

struct hw_clock_row { /* what a clock showed at a snapshot */
    struct hw_clock_moment at;
    int64_t clock; /* as in trace/clocks.h */
    uint32_t snapshot;
};

struct hw_profile {
    struct hw_callsites *callsites; /* owned; has all strings */
    HW_VEC(struct hw_process) processes;
    HW_VEC(struct hw_heap_dump) dumps;
    struct hw_alloc_rows allocs; /* sorted by dump once frozen */
    HW_VEC(struct hw_stat_row) stats;
    HW_VEC(struct hw_counter_row) counters;
    HW_VEC(struct hw_smaps_row) smaps;
    HW_VEC(struct hw_malloc_arena) arenas;
    HW_VEC(struct hw_metadata_row) metadata;
    HW_VEC(struct hw_package_row) packages;
    HW_VEC(struct hw_android_user) users;     /* each id once */
    struct hw_map64 user_by_id;               /* id → row */
    HW_VEC(struct hw_mark_row) marks;         /* by time once frozen */
    HW_VEC(struct hw_clock_row) clocks;       /* in the order of the file */
    HW_VEC(struct hw_clock_moment) wall;      /* since 1970, by time once frozen; empty = unknown */
    HW_VEC(struct hw_clock_moment) monotonic; /* the same of CLOCK_MONOTONIC */
    struct hw_threads threads;
    struct hw_slices slices;
    struct hw_map64 new_types; /* frame that calls operator new → string: what it allocates */
    struct hw_args args;
    struct hw_memory_dumps memory;
    struct hw_cpu_samples cpu;
    HW_VEC(struct hw_heap_graph *) graphs; /* owned */
    hw_str_id config_text;                 /* the trace's configuration as text; 0 = none */
    HW_VEC(uint64_t) config_intervals;     /* bytes, by data source that samples; 0 = unknown */
    int64_t first_ns, last_ns;
    hw_upid idle;         /* the trace's process 0; HW_ID_NONE: there is none */
    uint32_t idle_thread; /* its main thread's row */
    bool frozen;
    struct hw_progress *progress;                /* updated by importers; borrowed, NULL = none */
    struct hw_map64 process_by_pid, stat_by_key; /* indexes of the functions below */
    struct hw_by_process dumps_of, counters_of, smaps_of; /* once frozen */
};

int hw_profile_new(struct hw_profile **out);
void hw_profile_free(struct hw_profile *p);
int hw_profile_freeze(struct hw_profile *p); /* sorts; read-only from here on */

int hw_profile_process(struct hw_profile *p, int64_t pid, hw_upid *out); /* finds or adds */
/* The same for a pid of a trace, in which 0 is the kernel's idle process, not an unknown one. */
int hw_profile_traced_process(struct hw_profile *p, int64_t pid, hw_upid *out);
/*
 * Numbers of processes and threads in tables: 0 is always the idle one, even if the trace has none
 * (HW_ID_NONE); the others keep their order.
 */
uint32_t hw_profile_upid_shown(const struct hw_profile *p, hw_upid upid);
hw_upid hw_profile_upid_of_shown(const struct hw_profile *p, int64_t shown); /* HW_ID_NONE: none */
size_t hw_profile_n_upids_shown(const struct hw_profile *p);
uint32_t hw_profile_utid_shown(const struct hw_profile *p, uint32_t thread);
uint32_t hw_profile_thread_of_shown(const struct hw_profile *p, uint32_t shown);
size_t hw_profile_n_utids_shown(const struct hw_profile *p);
/* The pid was reused: from now on hw_profile_process finds the new process. */
int hw_profile_process_new(struct hw_profile *p, int64_t pid, hw_upid *out);
int hw_profile_stat_add(struct hw_profile *p, const char *name, int64_t key,
                        enum hw_stat_severity severity,
                        int64_t value); /* adds to an existing row */
/* The same, but the value replaces the row's. */
int hw_profile_stat_set(struct hw_profile *p, const char *name, int64_t key,
                        enum hw_stat_severity severity, int64_t value);
/* Sets a fact about the trace, replacing one of the same name. text may be NULL: then number
 * counts. */
int hw_profile_metadata_set(struct hw_profile *p, const char *name, const char *text,
                            int64_t number);
/* Adds a graph; the profile takes it, also on error. */
int hw_profile_add_graph(struct hw_profile *p, struct hw_heap_graph *g);
/* The caller of operator new, if the callsite ends there; else HW_ID_NONE. */
hw_frame_id hw_profile_new_caller(const struct hw_profile *p, hw_callsite_id site);
/* Interns text (need not be NUL-terminated). */
int hw_profile_str(struct hw_profile *p, struct hw_bytes text, hw_str_id *out);
/* Converts a time of the trace to ns since 1970, by the last known point before it (or the first
 * point); false if the file has none. Frozen only. */
bool hw_profile_wall_ns(const struct hw_profile *p, int64_t ts_ns, int64_t *out);
bool hw_profile_monotonic_ns(const struct hw_profile *p, int64_t ts_ns, int64_t *out);
/* Rows of one dump: [*first, *first + *n). Frozen only. */
void hw_profile_dump_rows(const struct hw_profile *p, uint32_t dump, size_t *first, size_t *n);

#endif

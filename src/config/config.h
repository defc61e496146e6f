/*
 * config.h - the recording configuration: text or binary TraceConfig → one checked struct
 *
 * Why:     heap_profile, perfetto -c, heapwise record and the recorder all speak TraceConfig; what
 *          is accepted, defaulted or refused is decided here once.
 * Shapes:  text → binary (hw_config_text_to_binary, over schema/), binary → struct hw_trace_config
 *          (hw_config_read), which the recorder uses. Field numbers come from proto/ only.
 * Owns:    all strings and arrays inside, freed by hw_trace_config_done.
 * Errors:  HW_EINVAL with Perfetto's message; warnings (a data source we do not have, `Too many
 *          heaps requested. Truncating.`) collect in `warnings`, one line each.
 * Source:  doc/design/commands.md; fields: proto/config.proto
 */
#ifndef HW_CONFIG_CONFIG_H
#define HW_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "config/memlog_modes.h"
#include "config/when.h"

struct hw_error;

struct hw_heap_interval {
    char *name;              /* owned */
    uint64_t interval_bytes; /* 0 = excluded */
};

/* A process's mappings, as heaps: recorded call by call if chosen by name. */
#define HW_N_MAPPING_HEAPS 3
extern const char *const hw_mapping_heaps[HW_N_MAPPING_HEAPS]; /* mmap.anon, .file, .shared */

/* HeapprofdConfig after defaults and derivation. */
struct hw_heapprofd_config {
    HW_VEC(char *) process_cmdline;
    HW_VEC(uint64_t) pids;
    HW_VEC(char *) skip_symbol_prefix;
    HW_VEC(struct hw_heap_interval) heaps; /* derived: listed heaps, then excluded ones */
    HW_VEC(struct hw_when) conditions;     /* dump_when, stop_when */
    uint64_t sampling_interval_bytes;
    uint64_t default_interval_bytes; /* for heaps not listed, with all_heaps */
    uint64_t shmem_size_bytes;
    uint32_t dump_phase_ms, dump_interval_ms;
    uint32_t block_client_timeout_us;
    uint32_t min_anonymous_memory_kb, max_heapprofd_memory_kb;
    uint64_t max_heapprofd_cpu_secs;
    uint64_t adaptive_threshold_bytes, adaptive_max_interval_bytes;
    uint32_t max_samples_per_second; /* 0 = no limit */
    bool all, block_client, no_startup, no_running, dump_at_max, disable_fork_teardown,
        disable_vfork_detection, all_heaps, stream_allocations, idle_allocations, no_managed_frames,
        record_types, record_slices;
    uint32_t mappings;          /* bit i: heap i of hw_mapping_heaps, which is not in `heaps` */
    uint32_t stack_mode;        /* enum hw_stack_mode of wire/handshake.h */
    char scope_categories[256]; /* comma-separated */
    struct hw_memlog memlog;    /* with all: only matching processes; no rules = all */
};

/* By its name, or as one of all. */
bool hw_heapprofd_wants_heap(const struct hw_heapprofd_config *h, const char *name);

struct hw_process_stats_config {
    uint32_t poll_ms;
    bool scan_all_processes_on_start, record_thread_names, scan_smaps_rollup, record_process_age,
        record_process_runtime, resolve_process_fds;
};

/* JavaHprofConfig: heap graphs of JVMs. */
struct hw_java_config {
    HW_VEC(char *) process_cmdline;
    HW_VEC(uint64_t) pids;
    HW_VEC(char *) ignored_types;
    uint32_t dump_phase_ms, dump_interval_ms;
    uint32_t min_anonymous_memory_kb, min_java_heap_size_kb;
    bool scan_pids_only_on_start, dump_smaps;
    bool at_oome;   /* a graph when memory runs out, with the callstack */
    bool only_oome; /* android.java_hprof.oom: no other graphs */
    bool recorded;  /* JVMs whose allocations this session records; a graph when they or the
                       session end, none at its start */
};

/* At most max_others other sessions may hold a semaphore of this name; the strictest limit wins. */
struct hw_session_semaphore {
    char *name; /* owned; NULL = "" */
    uint64_t max_others;
};

struct hw_trace_config {
    HW_VEC(struct hw_heapprofd_config) heapprofd; /* one per data source */
    HW_VEC(struct hw_java_config) java;           /* likewise */
    bool has_process_stats, has_system_info, has_packages_list;
    struct hw_process_stats_config process_stats;
    uint32_t duration_ms, flush_period_ms, file_write_period_ms, flush_timeout_ms, stop_timeout_ms;
    uint64_t max_file_size_bytes;
    uint32_t clock_interval_ms; /* between clock snapshots; 0 = the default, 10 s */
    bool no_clocks;             /* no snapshot after the first, which readers need */
    bool write_into_file;
    char *output_path;         /* owned; NULL */
    char *unique_session_name; /* owned; NULL */
    HW_VEC(struct hw_session_semaphore) semaphores;
    int64_t uuid_msb, uuid_lsb;
    uint32_t compression; /* 0 none, 1 deflate, 2 zstd */
    int32_t zstd_level;   /* 0 = its default */
    struct hw_strbuf warnings;
};

/*
 * Text form → binary TraceConfig (owned by the caller through hw_strbuf). name: for messages, "-" =
 * standard input. err->text holds the whole `<file>:<row>:<col> error: …` message with the line and
 * the marks under it. lossy: unknown fields and enum values are skipped.
 */
int hw_config_text_to_binary(const char *name, struct hw_bytes text, bool lossy,
                             struct hw_strbuf *out, struct hw_error *err);
/* The same for any message type of the schema, "Trace" for a whole trace. */
int hw_text_to_message(const char *message, const char *name, struct hw_bytes text, bool lossy,
                       struct hw_strbuf *out, struct hw_error *err);
/* Binary TraceConfig → text as perfetto -c - --txt reads it. */
int hw_config_binary_to_text(struct hw_bytes binary, struct hw_strbuf *out, struct hw_error *err);

/* Refuses what cannot be recorded (doc/design/commands.md). */
int hw_config_read(struct hw_bytes binary, struct hw_trace_config *out, struct hw_error *err);
void hw_trace_config_done(struct hw_trace_config *c);

/* Process names: both sides cut at '@' and up to the last '/'; '*' makes a glob
 * (doc/design/commands.md). */
bool hw_config_name_matches(const char *configured, const char *argv0);

#endif

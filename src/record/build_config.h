/*
 * build_config.h - from options to a TraceConfig
 *
 * Shapes:  fields come in the order of Perfetto's heap_profile, so --print-config prints what it
 *          prints.
 */
#ifndef HW_RECORD_BUILD_CONFIG_H
#define HW_RECORD_BUILD_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/strbuf.h"

struct hw_error;

struct hw_config_request {
    uint64_t shmem_size_bytes, sampling_interval_bytes;
    bool block_client, has_block_timeout;
    uint64_t block_client_timeout_us;
    bool no_startup, no_running, dump_at_max, disable_fork_teardown, all_heaps, idle_allocations;
    bool no_managed_frames, record_types, record_slices;
    uint32_t max_samples_per_second; /* 0 = no limit */
    uint32_t stack_mode;             /* enum hw_stack_mode */
    char *const *scope_categories;
    size_t n_scope_categories;
    bool all;                 /* every process */
    const char *session_name; /* unique_session_name; NULL = none */
    const char *memlog;       /* of all only these; NULL = everybody */
    const uint64_t *pids;     /* borrowed, as all below */
    size_t n_pids;
    char *const *names;
    size_t n_names;
    char *const *heaps;
    size_t n_heaps;
    char *const *dump_when;
    size_t n_dump_when;
    char *const *stop_when;
    size_t n_stop_when;
    char *const *start_when;
    size_t n_start_when;
    uint64_t dump_interval_ms;
    bool java_graph; /* heap graphs of what is recorded, as often as dumps */
    uint64_t duration_ms;
    bool packages_list;
    bool python_allocators; /* kept as an attribute of the trace, for the report */
};

#define HW_ATTRIBUTE_PYTHON "heapwise.python_allocators"

/* Binary TraceConfig into out. */
int hw_build_config(const struct hw_config_request *q, struct hw_strbuf *out, struct hw_error *err);
/* The same as text on standard output; gives an exit code's sign: 0 or HW_E…. */
int hw_print_config(const struct hw_strbuf *binary, struct hw_error *err);

#endif

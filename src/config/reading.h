/*
 * reading.h - a configuration that has been read but not checked; private to read.c and check.c
 */
#ifndef HW_CONFIG_READING_H
#define HW_CONFIG_READING_H

#include "config/read.h"

struct hw_config_source {
    char *name;
    struct hw_heapprofd_raw heapprofd;
    struct hw_java_config java;
    struct hw_process_stats_config process_stats;
    uint32_t target_buffer;
    bool has_target_buffer;
    char *target_buffer_name;
};

/* State needed only until everything is checked. */
struct hw_config_reading {
    struct hw_trace_config *c;
    HW_VEC(struct hw_config_source) sources;
    HW_VEC(char *) buffer_names; /* one per buffer; "" = none */
    HW_VEC(char *) trigger_names;
    uint64_t total_buffer_kb, max_buffer_kb;
    uint32_t trigger_mode, trigger_timeout_ms;
    bool has_triggers, guardrails;
    struct hw_error *err;
};

/* Moves the data sources that are recorded into r->c. */
int hw_config_check(struct hw_config_reading *r);

#endif

/*
 * processes.h - the processes of this machine: whose, how large, can they be profiled
 *
 * Why:     `ps` and the page that records show the same table.
 * Shapes:  a row a process, in the order of /proc; session and recorder are borrowed from the
 *          answer of hw_recorders_ask.
 * Errors:  HW_ESYS: /proc cannot be read. A process that ends meanwhile is left out.
 */
#ifndef HW_RECORD_PROCESSES_H
#define HW_RECORD_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "record/diagnosis.h"
#include "record/service.h"

struct hw_process_row {
    int32_t pid;
    uint32_t uid;
    int32_t inside; /* its pid in a namespace of its own; 0 = it has none */
    uint64_t rss_kb;
    const char *allocator; /* hw_allocator_name; NULL = not known. Of those that can be profiled */
    char name[256];        /* argv[0], else "[comm]" */
    struct hw_finding why; /* code NULL = can be profiled */
    const struct hw_recorder_seen *recorder;  /* NULL = not being profiled */
    const struct hw_service_session *session; /* likewise */
};

typedef HW_VEC(struct hw_process_row) hw_process_rows;

/* What was found out about processes, for who asks again and again: large programs take seconds. */
struct hw_process_known {
    int32_t pid;
    uint64_t start_ticks, until_ns; /* monotonic */
    struct hw_finding why;
    const char *allocator;
};
typedef HW_VEC(struct hw_process_known) hw_processes_known;

/* meant NULL = all. known NULL = nothing is kept. every: also those that cannot be profiled. */
int hw_processes_find(const struct hw_recorders *all,
                      bool (*meant)(void *ctx, int32_t pid, const char *argv0), void *ctx,
                      bool every, hw_processes_known *known, hw_process_rows *out);
/* The name of a user, or the number. */
const char *hw_user_name(uint64_t uid, char out[32]);

#endif

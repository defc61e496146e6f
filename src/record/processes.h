/*
 * processes.h - the processes of this machine: owner, size, whether they can be profiled
 *
 * Why:     `ps` and the Record page show the same table.
 * Shapes:  one row per process, in the order of /proc; session and recorder are borrowed from the
 *          result of hw_recorders_query.
 * Errors:  HW_ESYS: /proc cannot be read. A process that exits meanwhile is left out.
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
    int32_t inside; /* its pid in its own pid namespace; 0 = it has none */
    uint64_t rss_kb;
    const char *allocator;                    /* hw_allocator_name, if profilable; NULL = unknown */
    char name[256];                           /* argv[0], else "[comm]" */
    struct hw_finding why;                    /* code NULL = can be profiled */
    const struct hw_recorder_seen *recorder;  /* NULL = not being profiled */
    const struct hw_service_session *session; /* likewise */
};

typedef HW_VEC(struct hw_process_row) hw_process_rows;

/* A cache of findings for repeated queries: large programs take seconds. */
struct hw_process_known {
    int32_t pid;
    uint64_t start_ticks, until_ns; /* monotonic */
    struct hw_finding why;
    const char *allocator;
};
typedef HW_VEC(struct hw_process_known) hw_processes_known;

/* meant NULL = all. known NULL = no cache. every: also those that cannot be profiled. */
int hw_processes_find(const struct hw_recorders *all,
                      bool (*meant)(void *ctx, int32_t pid, const char *argv0), void *ctx,
                      bool every, hw_processes_known *known, hw_process_rows *out);
/* A user's name, or the number. */
const char *hw_user_name(uint64_t uid, char out[32]);

#endif

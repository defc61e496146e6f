/* Any bytes as a script over a small fixed profile. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "model/profile.h"
#include "sql/sql.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static struct hw_profile *profile(void)
{
    static struct hw_profile *p;
    if (p)
        return p;
    if (hw_profile_new(&p) < 0)
        abort();
    struct hw_mapping m = {.start = 1, .end = 2};
    struct hw_frame f = {.rel_pc = 1};
    hw_callsite_id leaf;
    hw_frame_id path[2];
    hw_upid upid;
    if (hw_profile_str(p, hw_bytes_str("main"), &f.name) < 0 ||
        hw_callsites_mapping(p->callsites, &m, &f.mapping) < 0 ||
        hw_callsites_frame(p->callsites, &f, &path[0]) < 0)
        abort();
    f.rel_pc = 2;
    if (hw_callsites_frame(p->callsites, &f, &path[1]) < 0 ||
        hw_callsites_intern(p->callsites, path, 2, &leaf) < 0 ||
        hw_profile_process(p, 7, &upid) < 0)
        abort();
    struct hw_heap_dump d = {.upid = upid, .heap_name = f.name, .ts_ns = 10};
    struct hw_alloc_row r = {.callsite = leaf, .samples = 1, .count = 1, .size = 100};
    if (hw_vec_push(&p->dumps, d) < 0 || hw_alloc_rows_push(&p->allocs, &r) < 0 ||
        hw_profile_freeze(p) < 0)
        abort();
    return p;
}

static int row(void *ctx, size_t n, const struct hw_sql_cell *cells)
{
    (void)ctx;
    (void)n;
    (void)cells;
    return 0;
}

static int begin(void *ctx, size_t n, const char *const *names)
{
    (void)ctx;
    (void)n;
    (void)names;
    return 0;
}

static int end(void *ctx)
{
    (void)ctx;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_sql_limits limits = {.max_rows = 1000, .max_bytes = 1 << 20, .max_steps = 20};
    struct hw_sql_sink sink = {begin, row, end, NULL};
    struct hw_sql *db;
    if (hw_sql_open(profile(), &limits, &db, NULL) < 0)
        return 0;
    (void)hw_sql_run(db, (const char *)data, n, &sink, NULL, NULL); /* any error will do */
    hw_sql_close(db);
    return 0;
}

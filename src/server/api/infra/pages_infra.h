/*
 * pages_infra.h - memory-infra: global dumps of a trace, and heap details kept between requests
 *
 * Shapes:  a global dump is identified by the time of its first item, so links stay valid. A heap
 *          is named like its allocator's root: malloc for libc.malloc.
 * Source:  views/infra/global_dumps.h, views/infra/heap_details.h; doc/design/pages.md
 */
#ifndef HW_SERVER_API_INFRA_PAGES_INFRA_H
#define HW_SERVER_API_INFRA_PAGES_INFRA_H

#include "server/api/pages_internal.h"
#include "views/infra/global_dumps.h"

struct hw_infra_dumps {
    hw_global_items items;
    HW_VEC(size_t) begins; /* of each global dump in items; one extra entry at the end */
};

/* A request's parameters: dump and base (ns), upid, heap. */
struct hw_infra_request {
    size_t now, base; /* global dumps; base SIZE_MAX: none */
    hw_upid upid;
    const char *heap; /* borrowed; NULL = not given */
    /* The base, if it is not the same heap of the same trace: */
    struct hw_page_trace *base_t;
    hw_upid base_upid;
    const char *base_heap;
};

/* The dump that begins at the given time; none given: the last with heap dumps, else the last. */
int hw_infra_find_dump(const struct hw_infra_dumps *d, const char *text, size_t *out,
                       struct hw_error *err);

int hw_infra_dumps_init(struct hw_infra_dumps *d, const struct hw_page_trace *t);
void hw_infra_dumps_done(struct hw_infra_dumps *d);
static inline size_t hw_infra_n_dumps(const struct hw_infra_dumps *d)
{
    return d->begins.n - 1;
}
struct hw_bytes hw_infra_heap_name(const struct hw_page_trace *t, const struct hw_series *s);

/* The details of one heap at one dump compared with another, queried by node. */
void hw_page_infra_details(struct hw_http_request *req, struct hw_page_trace *t,
                           const struct hw_infra_dumps *d, const struct hw_infra_request *request);

/* Its large callstacks as a file (export/large_stacks.h): parameters min_count, min_size. */
void hw_page_infra_large(struct hw_http_request *req, struct hw_page_trace *t,
                         const struct hw_infra_dumps *d, const struct hw_infra_request *request);

#endif

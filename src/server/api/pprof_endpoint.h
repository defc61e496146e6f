/*
 * pprof_endpoint.h - heap profiles for scrapers: /debug/pprof/heap and /debug/pprof/allocs
 *
 * Shapes:  gzip pprof with the sample types of Go programs. pid or name choose the process (name:
 *          all processes of it added up; none needed when one is recorded), heap one heap, seconds
 *          the difference over that time, debug=1 text for people. /debug/pprof/ lists who is
 *          recorded.
 * Errors:  400 what the asker did wrong, 404 nobody records that process, 500 otherwise; a text.
 * Threads: a request has a look of its own; seconds= keeps its connection for that time.
 * Source:  doc/formats/pprof.md, "Pull"
 */
#ifndef HW_SERVER_API_PPROF_ENDPOINT_H
#define HW_SERVER_API_PPROF_ENDPOINT_H

struct hw_http_request;

/* ctx: a struct hw_pages */
void hw_pprof_endpoint_list(struct hw_http_request *req, void *ctx);
void hw_pprof_endpoint_heap(struct hw_http_request *req, void *ctx);
void hw_pprof_endpoint_allocs(struct hw_http_request *req, void *ctx);

#endif

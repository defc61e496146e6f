/*
 * pprof_endpoint.h - heap profiles for scrapers: /debug/pprof/heap and /debug/pprof/allocs
 *
 * Shapes:  gzip pprof with the sample types of Go programs. pid or name select the process (name:
 *          all of that name added up; optional if only one is recorded), heap one heap, seconds the
 *          difference over that time, debug=1 readable text. /debug/pprof/ lists the recorded
 *          processes.
 * Errors:  400 client error, 404 the process is not recorded, 500 otherwise; each with a text.
 * Threads: each request takes its own snapshot; seconds= holds the connection for that time.
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

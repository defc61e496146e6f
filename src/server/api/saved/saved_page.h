/*
 * saved_page.h - a trace's pages as one file that needs no server
 *
 * Why:     results are shared as files: attached to a message, archived by a pipeline.
 * Shapes:  HTML with the page's own code and styles, a policy that forbids all requests, and then,
 *          in base64, this server's responses to the page's requests. After "HWS1": u32 length of
 *          the index, the index (gzip), the responses (each gzip'ed separately).
 *          The index is JSON: version, texts (of graphs), processes [{upid, end, end_max, peak,
 *          peak_max}], answers [[key, "json" or "graph", offset, bytes]], n_left_out. A key is the
 *          request's name and its sorted parameters, separated by 0x1f. Graphs: graph_pack.h.
 * Units:   max_bytes: of the file. If space runs out, graphs of moments other than the initial one
 *          keep fewer boxes (graph_fit.h), then are left out.
 * Errors:  HW_EUNSUPPORTED: built without the page; HW_ENOTFOUND: no such trace, or it has neither
 *          a heap profile nor a managed heap; HW_ENOMEM, and those of reading the trace.
 */
#ifndef HW_SERVER_API_SAVED_SAVED_PAGE_H
#define HW_SERVER_API_SAVED_SAVED_PAGE_H

#include <stddef.h>

struct hw_error;
struct hw_pages;
struct hw_strbuf;

#define HW_SAVED_PAGE_BYTES 3000000u

/* Waits until the trace is loaded. n_left_out: graphs that did not fit. */
int hw_saved_page_make(struct hw_pages *p, unsigned id, size_t max_bytes, struct hw_strbuf *out,
                       size_t *n_left_out, struct hw_error *err);

#endif

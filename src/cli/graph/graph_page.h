/*
 * graph_page.h - what the parts of the graph command share
 */
#ifndef HW_CLI_GRAPH_GRAPH_PAGE_H
#define HW_CLI_GRAPH_GRAPH_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "config/command/options.h"

struct hw_cli;
struct hw_error;
struct hw_heap_graph;
struct hw_heap_where;
struct hw_heap_paths;
struct hw_heap_sum;
struct hw_json;
struct hw_profile;

enum { HW_GRAPH_WIDTH = 11 }; /* of a column */

struct hw_graph_page {
    const struct hw_cli *cli;
    struct hw_profile *p;
    const struct hw_heap_graph *g;
    size_t top;           /* rows; SIZE_MAX = all */
    struct hw_json *json; /* NULL = text */
    struct hw_limit limit;
    bool has_limit;
    bool *failed;                /* the gate */
    struct hw_heap_where *where; /* of --where; NULL */
};

void hw_graph_json_name(const struct hw_graph_page *pg, const char *key, struct hw_bytes name);
/* {objects, size, native} */
void hw_graph_json_sum(const struct hw_graph_page *pg, const char *key,
                       const struct hw_heap_sum *s);
/* The graph of the process that the options name; NULL = none. */
const struct hw_heap_graph *hw_graph_pick(const struct hw_profile *p, const struct hw_opts *o);
void hw_graph_begin_rows(const struct hw_graph_page *pg);
void hw_graph_put_bytes(int64_t v);
struct hw_bytes hw_graph_name_of(const struct hw_graph_page *pg, uint32_t class);
void hw_graph_put_name(struct hw_bytes name);
void hw_graph_put_count(int64_t v);
void hw_graph_suggest_classes(const struct hw_graph_page *pg, const char *wanted);
int hw_graph_show_path(const struct hw_graph_page *pg, const char *wanted);
/* HW_ENOTFOUND: the graph has no contents. */
int hw_graph_show_collections(const struct hw_graph_page *pg);
int hw_graph_show_boxes(const struct hw_graph_page *pg);
int hw_graph_show_unreachable(const struct hw_graph_page *pg);
int hw_graph_show_where(const struct hw_graph_page *pg, struct hw_error *err);
int hw_graph_show_diff(const struct hw_graph_page *pg, const char *path, struct hw_error *err);
int hw_graph_show_leaks(const struct hw_graph_page *pg, struct hw_error *err);
int hw_graph_show_suspects(const struct hw_graph_page *pg);
/* HW_ENOTFOUND: the graph tells no thread. */
int hw_graph_show_threads(const struct hw_graph_page *pg);
/* From the object at the paths' position `at` to its root; in JSON the member "nearest". */
void hw_graph_put_path(const struct hw_graph_page *pg, const struct hw_heap_paths *t, size_t at);

#endif

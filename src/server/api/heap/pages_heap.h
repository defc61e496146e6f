/*
 * pages_heap.h - shared by pages_heap*.c: dumps of managed heaps with derived data
 *
 * Why:     paths, dominators and sums of ten million objects take seconds. They are computed once
 *          per dump, in a separate thread, part by part on demand; meanwhile requests answer 202
 *          with the progress, and the page asks again.
 * Shapes:  a finished part never changes. Each part depends only on earlier ones.
 * Owns:    parts of HW_PAGE_HEAPS dumps per trace, evicted least recently used first.
 * Threads: any number of requests; one worker per dump.
 * Cost:    paths, sums, links O(objects + references); dominators times a logarithm; in all 110 to
 *          140 bytes per object.
 */
#ifndef HW_SERVER_API_HEAP_PAGES_HEAP_H
#define HW_SERVER_API_HEAP_PAGES_HEAP_H

#include "server/api/pages_internal.h"
#include "views/objects/dominators.h"
#include "views/objects/heap_classes.h"
#include "views/objects/heap_links.h"
#include "views/objects/heap_paths.h"
#include "views/objects/heap_tree.h"
#include "views/objects/heap_twins.h"

#define HW_PAGE_HEAPS 6u

/* X(name, text of the page while it waits) */
#define HW_PAGE_HEAP_PARTS(X)                                                                      \
    X(PATHS, "shortest paths")                                                                     \
    X(DOMINATORS, "dominators")                                                                    \
    X(CLASSES, "sums by class")                                                                    \
    X(DOMINATED, "who dominates whom")                                                             \
    X(REFERRERS, "who refers to whom")                                                             \
    X(STRINGS, "strings that are the same")                                                        \
    X(ARRAYS, "arrays that are the same")                                                          \
    X(PATH_TREE, "the tree of paths")                                                              \
    X(PATH_TREE_FOLDED, "the tree of paths")                                                       \
    X(DOMINATOR_TREE, "the tree of dominators")                                                    \
    X(DOMINATOR_TREE_FOLDED, "the tree of dominators")

enum hw_page_heap_part {
#define X(name, text) HW_PAGE_HEAP_##name,
    HW_PAGE_HEAP_PARTS(X)
#undef X
        HW_PAGE_HEAP_PART_COUNT
};

/* Sets of parts, including the parts they depend on. */
enum {
    HW_PAGE_NEED_PATHS = 1 << HW_PAGE_HEAP_PATHS,
    HW_PAGE_NEED_DOMINATORS = 1 << HW_PAGE_HEAP_DOMINATORS,
    HW_PAGE_NEED_CLASSES = HW_PAGE_NEED_DOMINATORS | 1 << HW_PAGE_HEAP_CLASSES,
    HW_PAGE_NEED_DOMINATED = HW_PAGE_NEED_DOMINATORS | 1 << HW_PAGE_HEAP_DOMINATED,
    HW_PAGE_NEED_REFERRERS = 1 << HW_PAGE_HEAP_REFERRERS,
    HW_PAGE_NEED_STRINGS = 1 << HW_PAGE_HEAP_STRINGS,
    HW_PAGE_NEED_ARRAYS = 1 << HW_PAGE_HEAP_ARRAYS
};

struct hw_page_heap {
    const struct hw_profile *p;
    const struct hw_heap_graph *g;
    struct hw_heap_paths paths;
    uint32_t *path_position; /* by object; HW_ID_NONE = not reachable */
    struct hw_dominators dominators;
    struct hw_class_sum *classes; /* by class */
    struct hw_heap_links dominated, referrers;
    hw_heap_twins strings, arrays;
    hw_heap_tree trees[HW_PAGE_HEAP_PART_COUNT]; /* of the parts that are trees */
    /* The rest is guarded by the trace's heaps. */
    struct hw_page_trace *trace;
    unsigned ready, wanted, n_users;
    enum hw_page_heap_part at;
    int failure; /* of the last computation */
    bool in_progress;
    uint64_t used_ns;
};

struct hw_page_heaps;

int hw_page_heaps_new(struct hw_page_heaps **out);
void hw_page_heaps_free(struct hw_page_heaps *h); /* NULL is fine */

/*
 * The graph a request names: upid and at, each with a prefix; without at, the last of the process;
 * without both, the last of the process with the largest.
 */
const struct hw_heap_graph *hw_page_graph(const struct hw_page_trace *t,
                                          struct hw_http_request *req, const char *prefix,
                                          struct hw_error *err);
/* The graph with its parts, referenced until the request ends. NULL: the request was answered. */
struct hw_page_heap *hw_page_heap_get(struct hw_http_request *req, struct hw_page_trace *t,
                                      const struct hw_heap_graph *g, unsigned parts);

/* ---- figures and names ---- */

uint64_t hw_page_number(struct hw_http_request *req, const char *name, uint64_t otherwise);
struct hw_bytes hw_page_class_name(const struct hw_page_heap *h, uint32_t class);
void hw_page_put_bytes(struct hw_json *j, const char *key,
                       struct hw_bytes text); /* "key": "text" */
void hw_page_put_sum(struct hw_json *j, const char *key, const struct hw_heap_sum *s);
/* An object's number, from its id in SQL. */
int hw_page_object(struct hw_http_request *req, const struct hw_heap_graph *g, const char *name,
                   uint32_t *out, struct hw_error *err);

/* Contents of a string (at most 200 bytes of it), the length of an array, or "". */
void hw_page_put_contents(struct hw_json *j, const struct hw_page_heap *h, uint32_t object);
/* The graph that the request names, with its parts; NULL: the request was answered. */
struct hw_page_heap *hw_page_heap_requested(struct hw_http_request *req, struct hw_page_trace *t,
                                            unsigned parts);

/* Which tree of a graph, and which figures: metric and collapse (pages_heap_flame.c). */
struct hw_page_tree_options {
    bool dominators, count, collapse;
};
int hw_page_tree_options_read(struct hw_http_request *req, struct hw_page_tree_options *q,
                              struct hw_error *err);
enum hw_page_heap_part hw_page_heap_tree_of(const struct hw_page_tree_options *q);
unsigned hw_page_heap_needs(const struct hw_page_tree_options *q); /* the parts it depends on */

struct hw_page_tree;
/* Adds a tree of a graph below a node (HW_ID_NONE: below the root); more: additional flags of its
 * [native] nodes. */
int hw_page_heap_add_tree(struct hw_page_tree *t, const struct hw_page_heap *h,
                          const hw_heap_tree *tree, const struct hw_page_tree_options *q,
                          uint32_t below, uint8_t more);

/* ---- endpoints: GET /api/v1/traces/ID/heap/NAME ---- */

void hw_page_heap(struct hw_http_request *req, struct hw_page_trace *t, const char *name);
void hw_page_heap_flame(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_heap_paths(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_heap_objects(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_heap_twins(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_heap_object(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_heap_references(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_heap_referrers(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_heap_diff(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_heap_diff_flame(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_heap_whole(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_heap_whole_flame(struct hw_http_request *req, struct hw_page_trace *t);
void hw_page_heap_release(struct hw_http_request *req, struct hw_page_trace *t);

#endif

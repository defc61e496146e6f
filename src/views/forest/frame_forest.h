/*
 * frame_forest.h - flamegraphs of arbitrary rows with parent ids
 *
 * Why:     a script has frames from anywhere (callstacks, classes, memory dumps): each with an id,
 *          its caller's id, a name and values. It wants them merged, filtered and inverted, as a
 *          page draws them.
 * Shapes:  a row is a frame of one path; equal frames (name, grouping columns) have the same
 *          number, their ident. Filters mark idents:
 *            HIDE_FRAME  the row is removed and matches no other filter; its values go to the
 *                        nearest remaining row above, or are lost at the top
 *            HIDE_STACK  this row and those below do not count
 *            show        a bit per pattern: rows count if all bits occur at or above them
 *          Rows of one ident below the same node become one node. Views:
 *            TOP_DOWN    depth 1, 2, ... from the tops
 *            FROM_FRAME  from rows marked PIVOT; one below another begins a tree of its own
 *            BOTTOM_UP   depth -1, -2, ...: each path with values, inverted
 *            PIVOT       FROM_FRAME, and the paths above those rows, inverted (with all values that
 *                        FROM_FRAME counts below them)
 *          A node's cumulative values include those below it. Nodes without any are left out. Nodes
 *          are in breadth-first order, siblings by descending first value (equal ones in order of
 *          their rows); x_start is in units of the first value: siblings are packed from their
 *          parent's x_start, the tops of each half from 0.
 * Units:   those of the values; integers saturate. Values must not be negative (not checked).
 * Owns:    the forest its arrays; the source is borrowed while the forest is used for members.
 * Errors:  HW_ENOMEM, HW_ELIMIT (more than max_nodes), HW_ETIMEOUT (stop returned true). Rows in a
 *          cycle of parents belong to no path and are left out.
 * Cost:    O(rows + idents + nodes log siblings); BOTTOM_UP and PIVOT also the merged paths'
 *          lengths. Memory: 24 bytes per row, 64 + 16 per value for each node.
 * Source:  doc/design/sql.md, "Flamegraphs of rows"
 */
#ifndef HW_VIEWS_FOREST_FRAME_FOREST_H
#define HW_VIEWS_FOREST_FRAME_FOREST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef union {
    int64_t i;
    double d;
} hw_forest_number;

struct hw_forest_values {
    bool is_real;
    const hw_forest_number *v; /* by row; 0 = none */
};

struct hw_forest_source {
    size_t n, n_idents, n_values;
    const uint32_t *parent; /* by row; HW_ID_NONE = a top */
    const uint32_t *ident;  /* by row */
    const struct hw_forest_values *values;
};

enum hw_forest_view {
    HW_FOREST_TOP_DOWN,
    HW_FOREST_FROM_FRAME,
    HW_FOREST_BOTTOM_UP,
    HW_FOREST_PIVOT
};

enum { HW_MARK_HIDE_FRAME = 1, HW_MARK_HIDE_STACK = 2, HW_MARK_PIVOT = 4 };

struct hw_forest_mark {
    uint64_t show; /* patterns that match */
    uint8_t flags;
};

struct hw_forest_query {
    enum hw_forest_view view;
    const struct hw_forest_mark *marks; /* by ident; NULL = none */
    uint64_t show_all;                  /* the bits a counting row needs */
    uint32_t max_nodes;                 /* 0 = 2^28 */
    bool (*stop)(void *ctx);            /* called now and then; NULL = none */
    void *ctx;
};

struct hw_forest_node {
    uint32_t parent; /* HW_ID_NONE */
    uint32_t ident;
    int32_t depth;
    uint32_t first_member, last_member; /* of members */
};

/* The rows of one merged path that a node shows. */
struct hw_forest_member {
    uint32_t merged, next; /* next: HW_ID_NONE = the last */
};

struct hw_forest {
    size_t n, n_values;
    struct hw_forest_node *nodes;
    hw_forest_number *self, *cumulative; /* node by node, n_values each */
    hw_forest_number *x_start;           /* by node */
    struct hw_forest_member *members;
    size_t n_members;
    uint32_t *row_of_merged; /* its first row; HW_ID_NONE */
    uint32_t *next_row;      /* by row: the next one of the same merged node */
};

int hw_forest_build(const struct hw_forest_source *source, const struct hw_forest_query *query,
                    struct hw_forest *out);
void hw_forest_done(struct hw_forest *f);

/* The rows that a node shows, including hidden ones below them; each member's rows in the source's
 * order. The cursor starts zeroed; false: there are no more. */
struct hw_forest_cursor {
    uint32_t member, row;
    bool begun;
};
bool hw_forest_next_row(const struct hw_forest *f, size_t node, struct hw_forest_cursor *c);

#endif

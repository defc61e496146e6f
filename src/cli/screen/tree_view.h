/*
 * tree_view.h - a call tree on the screen: open and close, search, another metric
 *
 * Why:     `heapwise tree` shows a fixed one, `heapwise live` one rebuilt every second; both have
 *          the same navigation keys.
 * Shapes:  rows are the nodes whose ancestors are all open. Open nodes and the selection are
 *          remembered by the names on the path from the root (and where these functions are), so they outlive the tree.
 * Owns:    its flame, labels and the set of open nodes; functions and callsites are borrowed until
 *          the next hw_tree_view_set.
 * Errors:  HW_ENOMEM; the view is then as it was, or shows less.
 * Threads: one owner at a time.
 */
#ifndef HW_CLI_SCREEN_TREE_VIEW_H
#define HW_CLI_SCREEN_TREE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "views/flame/flame.h"
#include "views/flame/program.h"

struct hw_screen;

struct hw_tree_view {
    struct hw_flame flame; /* owned */
    const struct hw_functions *functions;
    const struct hw_callsites *callsites;
    const struct hw_function_at
        *places; /* by function; set before each tree; borrowed as they are */
    struct hw_shown_program
        program;           /* set before the first tree, for the name it was started with */
    HW_VEC(char *) labels; /* owned; by function */
    HW_VEC(uint64_t) keys; /* by node: hash of the names on its path */
    struct hw_map64 open;  /* key → 1 open, 0 closed */
    HW_VEC(uint32_t) rows; /* nodes */
    uint64_t at_key;
    size_t at, top; /* rows: the selected one, the first shown */
    enum hw_metric metric;
    char search[128];
    bool opened; /* the first tree's main path was opened */
};

void hw_tree_view_done(struct hw_tree_view *v);
/* Takes ownership of the flame. */
int hw_tree_view_set(struct hw_tree_view *v, struct hw_flame *flame, const struct hw_functions *fns,
                     const struct hw_callsites *cs, const struct hw_namer *namer);
int hw_tree_view_set_metric(struct hw_tree_view *v, enum hw_metric m);
/* True: the view handled the key. page: rows on the screen. */
bool hw_tree_view_key(struct hw_tree_view *v, int key, int page);
/*
 * Moves to the next row (or node below a closed one, which is opened) whose name contains
 * v->search.
 */
bool hw_tree_view_find(struct hw_tree_view *v, bool backwards);
/* Draws the header and n - 1 rows. */
void hw_tree_view_draw(struct hw_tree_view *v, struct hw_screen *s, int n);

#endif

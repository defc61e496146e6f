/*
 * live_screen.h - draws the screen of `heapwise live`
 *
 * Shapes:  a header of two lines, a curve, a table of functions or a call tree, a line of keys.
 *          Works from 40 by 8 upwards.
 */
#ifndef HW_CLI_SCREEN_LIVE_SCREEN_H
#define HW_CLI_SCREEN_LIVE_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/screen/live_model.h"
#include "cli/screen/tree_view.h"

struct hw_json;
struct hw_screen;

struct hw_live_screen_state {
    const char *name, *ref; /* of process and recording; untrusted */
    int32_t pid;
    bool own;  /* our own recording, without a file */
    bool tree; /* the tree instead of the table */
    bool paused;
    enum hw_live_order order;
    size_t at, top;   /* row of the table, first shown */
    char filter[128]; /* "" = all */
    char said[256];   /* instead of the keys; "" = nothing */
};

void hw_live_draw(struct hw_screen *s, const struct hw_live_model *m,
                  struct hw_live_screen_state *l, struct hw_tree_view *tree);
/* Rows that pass the filter and hold, grow or allocate anything. */
bool hw_live_row_shown(const struct hw_live_row *r, const char *filter);
/* The same without a screen: `top` rows on standard output. */
int hw_live_print(const struct hw_live_model *m, const struct hw_live_screen_state *l, size_t top,
                  unsigned width);
void hw_live_json(struct hw_json *j, const struct hw_live_model *m,
                  const struct hw_live_screen_state *l, size_t top);

#endif

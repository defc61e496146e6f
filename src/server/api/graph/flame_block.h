/*
 * flame_block.h - the binary form of a flamegraph for the page, as arrays
 *
 * Why:     one component draws stacks, differences and heap trees.
 * Shapes:  little endian, each array begins at a multiple of 8:
 *
 *            char magic[4] "HFG1", u32 version 2, u32 flags, u32 nodes N, u32 strings S,
 *            u32 metrics 1, u32 deepest node, u32 0, f64 total, f64 total without filters,
 *            f64 error of the total, f64 ts_ns of the moment, f64 sampling interval
 *            i32 parent[N] (-1 at the root), u32 subtree_end[N], u16 depth[N], u32 name[N],
 *            u32 module[N], u8 flags[N], f64 self[N], f64 cum[N], u32 samples[N], f64 error[N]
 *            HW_FLAME_BLOCK_SHOWN only: f32 shown error[N]
 *            HW_FLAME_BLOCK_SIDES only: f64 a[N], f64 b[N]
 *            u32 begin[S + 1], the strings' bytes
 *
 *          Boxes are added in preorder; a box is closed after all below it were added.
 * Owns:    the arrays and texts.
 * Errors:  HW_ENOMEM; HW_ELIMIT: 2^31 boxes or 4 GiB of texts.
 */
#ifndef HW_SERVER_API_GRAPH_FLAME_BLOCK_H
#define HW_SERVER_API_GRAPH_FLAME_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "base/text/strbuf.h"

#define HW_FLAME_BLOCK_SIDES 16u /* of the header's flags: has_sides */
#define HW_FLAME_BLOCK_SHOWN 32u /* has_shown */
#define HW_FLAME_BOX_MERGED                                                                        \
    1u /* of a box's flags, in all kinds of graphs: several that are small */
/* By default all nodes are sent, up to this number: 150 MB in a browser. */
#define HW_FLAME_BLOCK_MANY  1500000u
#define HW_FLAME_BLOCK_SMALL 1e-5 /* beyond that, boxes below this share of the whole are merged */

struct hw_flame_box {
    int32_t parent; /* index; -1: none */
    uint32_t depth, name, module;
    uint8_t flags;
    double self, cum, error, a, b;
    double shown;   /* the error to show; `error` is the one whose squares add up */
    double samples; /* saturates at UINT32_MAX */
};

struct hw_flame_block {
    HW_VEC(int32_t) parent;
    HW_VEC(uint32_t) end, name, module, samples;
    HW_VEC(uint16_t) depth;
    HW_VEC(uint8_t) flags;
    HW_VEC(double) self, cum, a, b;
    HW_VEC(double) error;
    HW_VEC(float) shown;
    HW_VEC(uint32_t) begins; /* of texts */
    struct hw_strbuf texts;
    uint32_t max_depth;
    bool has_sides, has_shown; /* a and b, and shown, are kept; set before the first box */
};

struct hw_flame_head {
    uint32_t flags; /* the page's own */
    double unfiltered, ts_ns, interval;
};

/* The new box's index is the number of boxes before it. */
int hw_flame_block_put(struct hw_flame_block *b, const struct hw_flame_box *x);
void hw_flame_block_close(struct hw_flame_block *b, uint32_t index);
int hw_flame_block_text(struct hw_flame_block *b, const void *p, size_t n, uint32_t *out);
int hw_flame_block_write(const struct hw_flame_block *b, const struct hw_flame_head *head,
                         struct hw_strbuf *out);
void hw_flame_block_done(struct hw_flame_block *b);

#endif

/*
 * graph_pack.h - a flamegraph (api/graph/flame_block.h) packed, without what can be recomputed
 *
 * Why:     a file with the graphs of every dump has to be small enough to attach to a message.
 * Shapes:  u32 flags, nodes N, deepest node; f64 total, unfiltered, error, ts_ns, interval (little
 *          endian); then for each of these, N consecutive values; numbers as varints (7 bits per
 *          byte, low ones first), signed ones zigzag:
 *
 *            distance to the parent (the root: 0) · name · module: ids of the file's texts · u8 flags ·
 *            self · samples minus those of the children, signed ·
 *            of differences: a and b, minus those of the children, signed ·
 *            squares of errors minus those of the children: f32, by bytes, high ones first
 *
 *          before self, and before a: u8, 1 if the values are f64 because they are not integers.
 *          before the squares: u8, 1 if they do not add up. Then they are replaced by: u8, 1 if the
 *          error is that of the next node, its first child; then the other errors: f64, by bytes,
 *          high ones first.
 * Errors:  HW_EFORMAT: the bytes are not a graph; HW_ENOMEM.
 */
#ifndef HW_SERVER_API_SAVED_GRAPH_PACK_H
#define HW_SERVER_API_SAVED_GRAPH_PACK_H

#include "base/bytes.h"
#include "base/text/strbuf.h"
#include "base/text/strings.h"

int hw_graph_pack(struct hw_bytes graph, struct hw_strings *texts, struct hw_strbuf *out);

#endif

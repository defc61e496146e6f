/*
 * graph_fit.h - as much of a flamegraph as fits into a number of bytes
 *
 * Why:     a saved page has room for some graphs as a whole; of a larger one the boxes that matter most
 *          are kept.
 * Shapes:  the largest boxes (of a difference: on their larger side) stay, as many as fit; those of a
 *          parent that do not are one box behind the others, "(12 small ones)", with the sums of their
 *          figures.
 * Units:   most: bytes of the packed graph and of the texts that the file does not have yet, both compressed.
 *          *n_bytes: those that were used. If nothing fits it is more than most.
 * Errors:  those of hw_graph_pack.
 * Cost:    one sort of the boxes; two tries, seldom more, each packs what it keeps; and once more.
 */
#ifndef HW_SERVER_API_SAVED_GRAPH_FIT_H
#define HW_SERVER_API_SAVED_GRAPH_FIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/text/strbuf.h"
#include "base/text/strings.h"

/* graph: api/graph/flame_block.h. texts: the file's, to which those of the result are added. */
int hw_graph_fit(struct hw_bytes graph, size_t most, struct hw_strings *texts,
                 struct hw_strbuf *out, size_t *n_bytes);
/* The n_most largest boxes and what the others are together, in the same form. */
int hw_graph_trim(struct hw_bytes graph, uint32_t n_most, struct hw_strbuf *out);

#endif

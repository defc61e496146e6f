/*
 * heap_where.h - objects of a heap graph by conditions on class, size and fields
 *
 * Why:     "the maps with more than a thousand entries", "the sessions of this user": a histogram
 *          does not answer that.
 * Shapes:  conditions, joined by "and": SUBJECT OP VALUE. Subjects: class, @bytes, @retained,
 *          @length (elements of an array), or a field by its name, with or without its class. OP:
 *          = != < <= > >= and ~ (contains). Values: numbers, true, false, null, texts, which may be
 *          quoted. A text is compared with a String that the field refers to. An object without
 *          the field does not match.
 * Units:   bytes; a number for @bytes or @retained may end in K, M or G.
 * Owns:    a copy of the text; the tables for one graph.
 * Errors:  HW_EINVAL (err says what is wrong with the text), HW_ENOMEM, HW_ENOTFOUND (err: no
 *          object has such a field, or the graph has no contents).
 * Threads: pure, with the tables of one thread.
 * Source:  doc/guide/heap-graphs.md, "Objects by their fields"
 */
#ifndef HW_VIEWS_CONTENTS_HEAP_WHERE_H
#define HW_VIEWS_CONTENTS_HEAP_WHERE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "model/graph/heap_graph.h"
#include "model/profile.h"

struct hw_error;
struct hw_heap_where;

int hw_heap_where_parse(const char *text, struct hw_heap_where **out, struct hw_error *err);
void hw_heap_where_free(struct hw_heap_where *w); /* NULL is fine */

typedef HW_VEC(uint32_t) hw_found_objects;

/* Reachable objects that match, ascending. retained: by object; NULL = 0. */
int hw_heap_where_find(struct hw_heap_where *w, const struct hw_profile *p,
                       const struct hw_heap_graph *g, const int64_t *retained,
                       hw_found_objects *out, struct hw_error *err);

#endif

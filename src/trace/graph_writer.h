/*
 * graph_writer.h - the packets of one heap graph
 *
 * Why:     a walk over a heap may fail at its end. So a graph is collected in an unnamed file, in
 *          the form of the trace's packets, and is written to the trace only when it is complete.
 * Shapes:  objects in any order; types and names at any time. An object's references are named one
 *          by one, or (names NULL) by the lists of its type and its superclasses, with an entry for
 *          each field, 0 for null. commit writes all with one timestamp.
 * Owns:    the file, names.
 * Errors:  HW_ENOMEM, HW_ESYS (no room for the file); those of trace/writer.h from commit.
 * Source:  doc/formats/trace.md, "Heap graphs"
 */
#ifndef HW_TRACE_GRAPH_WRITER_H
#define HW_TRACE_GRAPH_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_error;
struct hw_graph_writer;
struct hw_trace_writer;

struct hw_written_object {
    uint64_t id; /* not 0 */
    uint32_t type;
    uint64_t bytes;
    const uint64_t *refs;  /* 0 = null */
    const uint64_t *names; /* of refs, NULL = by type */
    size_t n_refs;
    const uint64_t *internals; /* references that are not fields */
    size_t n_internals;
    uint64_t native_bytes; /* 0 = none */
};

struct hw_written_type {
    uint32_t id; /* from 1, dense */
    const char *name;
    uint32_t superclass; /* type; 0 = none */
    uint32_t kind;       /* HeapGraphType.Kind */
    uint64_t loader;     /* object; 0 = none */
    const uint64_t *fields;
    size_t n_fields;
};

struct hw_written_thread {
    int64_t id; /* the runtime's; 0 = unknown */
    struct hw_bytes name;
    uint64_t object; /* 0 = unknown */
    bool is_daemon;
};

struct hw_written_frame {
    struct hw_bytes function, file; /* empty = unknown */
    uint32_t line;                  /* 0 = unknown */
};

/* The format has no root type for compiled code. Our readers treat such an object as a root if no
 * other root leads to it. Roots of this type are written as holders only. */
enum { HW_WRITTEN_ROOT_COMPILED_CODE = 15 };

struct hw_written_holder {
    uint64_t object;
    uint32_t root_type;     /* HeapGraphRoot.Type, or the one above */
    uint32_t thread, frame; /* numbers from 0; UINT32_MAX = unknown */
    int32_t depth, slot;    /* -1 = none */
};

int hw_graph_writer_new(struct hw_graph_writer **out, struct hw_error *err);
void hw_graph_writer_free(struct hw_graph_writer *w);
/* Drops all that was written. */
int hw_graph_writer_reset(struct hw_graph_writer *w, struct hw_error *err);

/* The number of a field's name, "type name" or "name"; 0 = out of memory, which commit returns. */
uint64_t hw_graph_writer_name(struct hw_graph_writer *w, const char *text);
int hw_graph_writer_object(struct hw_graph_writer *w, const struct hw_written_object *o);
int hw_graph_writer_root(struct hw_graph_writer *w, uint64_t id, uint32_t type);
/* Threads and frames are numbered from 0, each in the order in which they are written. */
int hw_graph_writer_thread(struct hw_graph_writer *w, const struct hw_written_thread *t);
int hw_graph_writer_frame(struct hw_graph_writer *w, const struct hw_written_frame *f);
int hw_graph_writer_holder(struct hw_graph_writer *w, const struct hw_written_holder *h);
/* Memory outside the heap that an object owns. kind: ManagedBlock.Kind. Blocks are numbered from 0
 * in this order. */
int hw_graph_writer_block(struct hw_graph_writer *w, uint64_t owner, uint32_t kind, uint64_t bytes);
/* Objects with this id and higher ones are in no heap: they show blocks to other readers. */
void hw_graph_writer_made_up(struct hw_graph_writer *w, uint64_t first);
/* After the objects: the type has the size of its first object, which others then omit. */
int hw_graph_writer_type(struct hw_graph_writer *w, const struct hw_written_type *t);
/* heap_bytes: the runtime's own figure, 0 = unknown. *bytes: written to the trace. */
int hw_graph_writer_commit(struct hw_graph_writer *w, struct hw_trace_writer *trace,
                           uint32_t sequence, uint64_t boottime_ns, int32_t pid,
                           uint64_t heap_bytes, uint64_t *bytes, struct hw_error *err);

#endif

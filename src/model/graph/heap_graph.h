/*
 * heap_graph.h - the objects of one managed heap at one moment, and who refers to whom
 *
 * Why:     a dump has 10^7 objects; importers of all formats fill this one structure
 *          (heap_graph_build.h does their common work), which table functions, views and exporters
 *          only read.
 * Shapes:  columns. An object, class, field or reference of a graph is a number, dense from 0. The
 *          references of object o are [first_ref[o], first_ref[o + 1]), in the order of its fields.
 *          SQL shows the rows of all graphs in one table: row = first_object + number, and so on;
 *          freezing the profile sets these first_….
 * Units:   sizes in bytes.
 * Owns:    its arrays; strings are the profile's.
 * Threads: filled by one owner, then read by any number.
 * Source:  doc/formats/trace.md, "Heap graphs"; doc/design/sql.md
 */
#ifndef HW_MODEL_GRAPH_HEAP_GRAPH_H
#define HW_MODEL_GRAPH_HEAP_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "model/ids.h"

/* X(name, number in the trace); ROOT_x and KIND_x are also the names that SQL shows. COMPILED_CODE
 * is ours: compiled code refers to many objects that fields also hold. Such an object is only a
 * root if no other root reaches it. */
#define HW_ROOT_TYPES(X)                                                                           \
    X(UNKNOWN, 0)                                                                                  \
    X(JNI_GLOBAL, 1)                                                                               \
    X(JNI_LOCAL, 2)                                                                                \
    X(JAVA_FRAME, 3)                                                                               \
    X(NATIVE_STACK, 4)                                                                             \
    X(STICKY_CLASS, 5)                                                                             \
    X(THREAD_BLOCK, 6)                                                                             \
    X(MONITOR_USED, 7)                                                                             \
    X(THREAD_OBJECT, 8)                                                                            \
    X(INTERNED_STRING, 9)                                                                          \
    X(FINALIZING, 10)                                                                              \
    X(DEBUGGER, 11)                                                                                \
    X(REFERENCE_CLEANUP, 12)                                                                       \
    X(VM_INTERNAL, 13)                                                                             \
    X(JNI_MONITOR, 14)                                                                             \
    X(COMPILED_CODE, 15)

#define HW_CLASS_KINDS(X)                                                                          \
    X(UNKNOWN, 0)                                                                                  \
    X(NORMAL, 1)                                                                                   \
    X(NOREFERENCES, 2)                                                                             \
    X(STRING, 3)                                                                                   \
    X(ARRAY, 4)                                                                                    \
    X(CLASS, 5)                                                                                    \
    X(CLASSLOADER, 6)                                                                              \
    X(DEXCACHE, 7)                                                                                 \
    X(SOFT_REFERENCE, 8)                                                                           \
    X(WEAK_REFERENCE, 9)                                                                           \
    X(FINALIZER_REFERENCE, 10)                                                                     \
    X(PHANTOM_REFERENCE, 11)

enum hw_root_type {
#define X(name, number) HW_ROOT_##name = number,
    HW_ROOT_TYPES(X)
#undef X
        HW_ROOT_COUNT
};

enum hw_class_kind {
#define X(name, number) HW_KIND_##name = number,
    HW_CLASS_KINDS(X)
#undef X
        HW_KIND_COUNT
};

enum hw_heap_type {
    HW_HEAP_TYPE_UNKNOWN,
    HW_HEAP_TYPE_APP,
    HW_HEAP_TYPE_ZYGOTE,
    HW_HEAP_TYPE_BOOT_IMAGE,
    HW_HEAP_TYPE_COUNT
};

struct hw_heap_class {
    hw_str_id name;       /* as recorded, perhaps obfuscated */
    hw_str_id clear_name; /* 0 = not obfuscated, as far as known */
    hw_str_id location;   /* 0 = unknown */
    uint32_t superclass;  /* class; HW_ID_NONE */
    uint32_t classloader; /* object; HW_ID_NONE */
    uint32_t held;        /* class object that each of its objects holds; HW_ID_NONE */
    uint8_t kind;         /* enum hw_class_kind */
    bool is_weak;         /* the Reference.referent of its objects keeps nothing alive */
};

struct hw_heap_field {
    hw_str_id name;       /* "pkg.Class.field"; "" for elements of arrays */
    hw_str_id type_name;  /* 0 = unknown */
    hw_str_id clear_name; /* 0 = not known to be obfuscated */
    bool is_referent;     /* java.lang.ref.Reference.referent */
};

struct hw_heap_native {
    uint32_t object;
    int64_t size;
};

/* The size of an object of 4 GiB or more. */
struct hw_heap_large {
    uint32_t object;
    int64_t size;
};

typedef HW_VEC(struct hw_heap_large) hw_heap_larges;

/* X(name, number in the trace): ManagedBlock.Kind; the names that SQL shows are in lower case. */
#define HW_BLOCK_KINDS(X)                                                                          \
    X(UNKNOWN, 0, "unknown")                                                                       \
    X(BUFFER, 1, "buffer")                                                                         \
    X(DEFLATER, 2, "deflater")                                                                     \
    X(INFLATER, 3, "inflater")                                                                     \
    X(SEGMENT, 4, "segment")                                                                       \
    X(MAPPED, 5, "mapped")

enum hw_block_kind {
#define X(name, number, text) HW_BLOCK_##name = number,
    HW_BLOCK_KINDS(X)
#undef X
        HW_BLOCK_COUNT
};

/* A block of memory outside the heap; an object may own several. Mapped memory is not part of the
 * object's native size. */
struct hw_heap_block {
    uint32_t object;
    uint8_t kind; /* enum hw_block_kind */
    int64_t bytes;
};

/* An allocation of a block that a native heap profile of the same time sampled. A zlib stream
 * consists of several allocations. */
struct hw_heap_link {
    uint32_t block;
    hw_callsite_id callsite;
    int64_t alloc_size, sample_size;
};

/* A field that is not a reference; only in dumps with contents. */
struct hw_heap_primitive {
    uint32_t set; /* groups the fields of an object; ascending */
    hw_str_id field_name;
    hw_str_id field_type; /* "int", "boolean", … */
    char type;            /* Z B C S I J F D: which value counts */
    int64_t integer;
    double real;
};

struct hw_heap_data {
    uint32_t field_set; /* of the primitives; HW_ID_NONE */
    hw_str_id string;   /* of a java.lang.String */
    bool has_string;
    hw_str_id element_type; /* of an array; 0 = none */
    int64_t element_count;  /* -1 = no array */
    int64_t data_id;        /* the array's object; -1 = the file has no contents */
    int64_t data_hash;
    bool has_contents; /* an array of numbers, not too large: in the graph's contents */
    size_t contents_at, contents_bytes;
};

/* A thread at the moment of the dump. Its callsite may have only frames that hold something. */
struct hw_heap_thread {
    int64_t id;              /* as the runtime numbers threads; 0 = unknown */
    hw_callsite_id callsite; /* HW_ID_NONE = no frame is known */
    hw_str_id name;          /* 0 = unknown */
    uint32_t object;         /* the Thread object; HW_ID_NONE */
    uint32_t thread;         /* row + 1 of the profile's threads; 0 = not known there */
    bool is_daemon;
};

/* What holds a root. One object may have several holders. Objects that compiled code refers to may
 * have a holder without being a root. */
struct hw_heap_holder {
    uint32_t object;
    uint8_t root_type; /* enum hw_root_type */
    uint32_t thread;   /* of the graph; HW_ID_NONE */
    uint32_t depth;    /* of the frame in the thread's callsite, 0 = its leaf; HW_ID_NONE */
    hw_frame_id frame; /* HW_ID_NONE = none is known */
    int32_t slot;      /* the method's variable; -1 = unknown */
};

enum hw_object_flags {
    HW_OBJECT_ROOT = 0x1f, /* enum hw_root_type + 1; 0 = no root */
    HW_OBJECT_HEAP = 0x60, /* enum hw_heap_type << HW_OBJECT_HEAP_SHIFT */
    HW_OBJECT_HEAP_SHIFT = 5,
    HW_OBJECT_REACHABLE = 0x80,
    HW_OBJECT_NATIVE = 0x100 /* is in `native` */
};

/* Values in place of a size. */
#define HW_SIZE_LARGE   (UINT32_MAX - 1) /* is in `large` */
#define HW_SIZE_UNKNOWN UINT32_MAX       /* the object is referred to, but was never described */

enum { HW_REF_BLOCK_SHIFT = 4 };

struct hw_heap_graph {
    hw_upid upid;
    int64_t ts_ns;
    bool truncated;        /* a part is missing */
    hw_str_id dump_reason; /* 0 = none given */
    int64_t heap_size;     /* allocated according to the runtime; -1 = unknown */

    bool holds_classes; /* any class has `held`; such references have no row */

    uint32_t n_objects, n_refs, n_classes, n_fields;
    uint32_t n_described; /* objects; the others have no size and no references */
    uint32_t number;      /* of the graph; this and the first_… are set by freezing */
    uint32_t first_object, first_reference, first_class;
    uint32_t first_primitive, first_primitive_set, first_data, first_thread, first_block,
        first_link, first_holder;

    uint32_t *type;       /* by object: class */
    uint32_t *size;       /* by object: hw_object_size() */
    uint16_t *flags;      /* by object: enum hw_object_flags */
    uint32_t *first_ref;  /* by object, and one more */
    uint32_t *ref_owned;  /* by reference: object; HW_ID_NONE = null */
    uint32_t *ref_field;  /* by reference: field */
    void *ref_memory;     /* owned: of both; NULL: each has its own */
    uint32_t *ref_block;  /* by 2^HW_REF_BLOCK_SHIFT references: the owner of the first; then the
                          * last object. NULL = no references */
    hw_heap_larges large; /* by object */
    struct hw_heap_class *classes;
    struct hw_heap_field *fields;         /* [0] has no name */
    HW_VEC(struct hw_heap_native) native; /* by object */
    HW_VEC(struct hw_heap_block) blocks;
    HW_VEC(struct hw_heap_link) links; /* by block */
    bool is_linked;                    /* samples of a native profile were looked up */

    HW_VEC(struct hw_heap_primitive) primitives; /* by set */
    struct hw_map64 primitive_names; /* their field_name -> the original name, if known */
    HW_VEC(struct hw_heap_data) data;
    HW_VEC(uint8_t) contents; /* of arrays, in this machine's byte order */
    uint32_t *data_of;        /* by object: data; HW_ID_NONE; NULL = no object has any */

    bool is_oome; /* made because memory ran out; then: */
    int64_t oome_allocation_size, oome_total_free, oome_free_until; /* -1 = unknown */
    hw_str_id oome_message;
    HW_VEC(struct hw_heap_thread) threads;
    HW_VEC(struct hw_heap_holder) holders; /* by object */
};

int hw_heap_graph_new(struct hw_heap_graph **out);
void hw_heap_graph_free(struct hw_heap_graph *g); /* NULL is fine */

static inline bool hw_object_is_root(const struct hw_heap_graph *g, uint32_t o)
{
    return (g->flags[o] & HW_OBJECT_ROOT) != 0;
}

/* o must be a root. */
static inline enum hw_root_type hw_object_root_type(const struct hw_heap_graph *g, uint32_t o)
{
    return (enum hw_root_type)((g->flags[o] & HW_OBJECT_ROOT) - 1);
}

static inline bool hw_object_is_reachable(const struct hw_heap_graph *g, uint32_t o)
{
    return (g->flags[o] & HW_OBJECT_REACHABLE) != 0;
}

static inline enum hw_heap_type hw_object_heap_type(const struct hw_heap_graph *g, uint32_t o)
{
    return (enum hw_heap_type)((g->flags[o] & HW_OBJECT_HEAP) >> HW_OBJECT_HEAP_SHIFT);
}

/* False: it is only referred to. */
static inline bool hw_object_is_described(const struct hw_heap_graph *g, uint32_t o)
{
    return g->size[o] != HW_SIZE_UNKNOWN;
}

int64_t hw_object_size_slow(const struct hw_heap_graph *g, uint32_t o);
/* -1 = referred to but never described. */
static inline int64_t hw_object_size(const struct hw_heap_graph *g, uint32_t o)
{
    return hw_likely(g->size[o] < HW_SIZE_LARGE) ? g->size[o] : hw_object_size_slow(g, o);
}

/* Its size in sums: 0 if the object was never described. */
static inline int64_t hw_object_weight(const struct hw_heap_graph *g, uint32_t o)
{
    int64_t size = hw_object_size(g, o);
    return size > 0 ? size : 0;
}

/* Its contents; NULL: the dump has none of it. */
static inline const struct hw_heap_data *hw_object_data(const struct hw_heap_graph *g, uint32_t o)
{
    return g->data_of && g->data_of[o] != HW_ID_NONE ? &g->data.v[g->data_of[o]] : NULL;
}

/* The object that a reference belongs to. */
uint32_t hw_ref_owner(const struct hw_heap_graph *g, uint32_t ref);

/* The holders of a root; *n of them. */
const struct hw_heap_holder *hw_object_holders(const struct hw_heap_graph *g, uint32_t o,
                                               size_t *n);
/* Sorts the holders by object. */
void hw_heap_graph_sort_holders(struct hw_heap_graph *g);

int64_t hw_object_native_slow(const struct hw_heap_graph *g, uint32_t o);
static inline int64_t hw_object_native_size(const struct hw_heap_graph *g, uint32_t o)
{
    return g->flags[o] & HW_OBJECT_NATIVE ? hw_object_native_slow(g, o) : 0;
}

/* Whether a reference keeps what it refers to alive. */
static inline bool hw_ref_is_strong(const struct hw_heap_graph *g, uint32_t owner, uint32_t ref)
{
    return g->ref_owned[ref] != HW_ID_NONE &&
           !(g->fields[g->ref_field[ref]].is_referent && g->classes[g->type[owner]].is_weak);
}

/* The class object that o keeps alive because it is of that class; HW_ID_NONE. */
static inline uint32_t hw_object_held_class(const struct hw_heap_graph *g, uint32_t o)
{
    return g->holds_classes ? g->classes[g->type[o]].held : HW_ID_NONE;
}

/* The same for searches that begin at all roots: class objects that are roots, as those of the boot
 * loader, need not be reached. */
static inline uint32_t hw_object_held_class_below(const struct hw_heap_graph *g, uint32_t o)
{
    uint32_t held = hw_object_held_class(g, o);
    return held == HW_ID_NONE || hw_object_is_root(g, held) ? HW_ID_NONE : held;
}

/* The deobfuscated name, if known. */
static inline hw_str_id hw_class_shown_name(const struct hw_heap_class *c)
{
    return c->clear_name.v ? c->clear_name : c->name;
}

/* "ROOT_JNI_GLOBAL", "KIND_NORMAL", "HEAP_TYPE_APP"; NULL for the unknown heap. */
const char *hw_root_type_name(enum hw_root_type t);
const char *hw_class_kind_name(enum hw_class_kind k);
const char *hw_block_kind_name(enum hw_block_kind k); /* "buffer" */
const char *hw_heap_type_name(enum hw_heap_type t);

#endif

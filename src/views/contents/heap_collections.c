/*
 * A collection is an object whose class is, or derives from, one of those below. How many elements
 * it has, its own field says, except where none does: then what its array refers to is counted, or
 * its nodes.
 */
#include "views/contents/heap_collections.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "base/memory/saturate.h"
#include "views/contents/heap_fields.h"

#include "base/banned.h"

enum { MAX_CHAIN = 256, WIDE = 8, NARROW = 4 };

/* Where the number of elements is. */
enum how {
    FIELD,   /* in a field, not above the array's slots */
    ENTRIES, /* in a field; each is an object of its own */
    ATOMIC,  /* in an AtomicInteger that a field refers to; as ENTRIES */
    STRIPED, /* in a field and in cells, which are added up; as ENTRIES */
    ADDER,   /* the same, in a LongAdder that a field refers to; null = 0 */
    TARGETS, /* what the array refers to */
    LENGTH,  /* the array's length */
    NODES,   /* nodes from a field on whose item is neither null nor the node itself */
    ONE,
    ONE_OR_TWO, /* one if the second is null or stands for nothing */
};

enum name { SIZE, ARRAY, N_NAMES };

struct kind {
    const char *class;
    enum how how;
    const char *name[N_NAMES]; /* of fields; NULL = none */
    int64_t per_element;       /* slots; 0 = 1 */
    bool owns_empty;           /* each has an array of its own, even one without elements */
    const char *node[3];       /* NODES: fields of nodes: item, next, previous */
};

#define JU  "java.util."
#define JUC "java.util.concurrent."
#define JUI "java.util.ImmutableCollections$"

static const struct kind kinds[] = {
    {JU "HashMap", ENTRIES, {JU "HashMap.size", JU "HashMap.table"}},
    {JUC "ConcurrentHashMap",
     STRIPED,
     {JUC "ConcurrentHashMap.baseCount", JUC "ConcurrentHashMap.table"}},
    {JU "Hashtable", ENTRIES, {JU "Hashtable.count", JU "Hashtable.table"}},
    {JU "WeakHashMap", ENTRIES, {JU "WeakHashMap.size", JU "WeakHashMap.table"}},
    {JU "IdentityHashMap", FIELD, {JU "IdentityHashMap.size", JU "IdentityHashMap.table"}, 2},
    {JU "EnumMap", FIELD, {JU "EnumMap.size", JU "EnumMap.vals"}},
    {JU "TreeMap", ENTRIES, {JU "TreeMap.size"}},
    {JUC "ConcurrentSkipListMap", ADDER, {JUC "ConcurrentSkipListMap.adder"}},
    {JUI "Map1", ONE},
    {JUI "MapN", FIELD, {JUI "MapN.size", JUI "MapN.table"}, 2},
    {JU "ArrayList", FIELD, {JU "ArrayList.size", JU "ArrayList.elementData"}},
    {JU "Vector", FIELD, {JU "Vector.elementCount", JU "Vector.elementData"}},
    {JU "LinkedList", ENTRIES, {JU "LinkedList.size"}},
    {JU "Arrays$ArrayList", LENGTH, {NULL, JU "Arrays$ArrayList.a"}, .owns_empty = true},
    {JUI "List12", ONE_OR_TWO, {JUI "List12.e1"}},
    {JUI "ListN", LENGTH, {NULL, JUI "ListN.elements"}},
    {JUI "Set12", ONE_OR_TWO, {JUI "Set12.e1"}},
    {JUI "SetN", FIELD, {JUI "SetN.size", JUI "SetN.elements"}},
    {JU "ArrayDeque", TARGETS, {NULL, JU "ArrayDeque.elements"}},
    {JU "PriorityQueue", FIELD, {JU "PriorityQueue.size", JU "PriorityQueue.queue"}},
    {JUC "PriorityBlockingQueue",
     FIELD,
     {JUC "PriorityBlockingQueue.size", JUC "PriorityBlockingQueue.queue"}},
    {JUC "ArrayBlockingQueue",
     FIELD,
     {JUC "ArrayBlockingQueue.count", JUC "ArrayBlockingQueue.items"}},
    {JUC "LinkedBlockingQueue", ATOMIC, {JUC "LinkedBlockingQueue.count"}},
    {JUC "LinkedBlockingDeque", ENTRIES, {JUC "LinkedBlockingDeque.count"}},
    {JUC "ConcurrentLinkedQueue",
     NODES,
     {JUC "ConcurrentLinkedQueue.head"},
     .node = {JUC "ConcurrentLinkedQueue$Node.item", JUC "ConcurrentLinkedQueue$Node.next"}},
    {JUC "ConcurrentLinkedDeque",
     NODES,
     {JUC "ConcurrentLinkedDeque.head"},
     .node = {JUC "ConcurrentLinkedDeque$Node.item", JUC "ConcurrentLinkedDeque$Node.next",
              JUC "ConcurrentLinkedDeque$Node.prev"}},
    {JUC "LinkedTransferQueue",
     NODES,
     {JUC "LinkedTransferQueue.head"},
     .node = {JUC "LinkedTransferQueue$Node.item", JUC "LinkedTransferQueue$Node.next"}},
    {JUC "CopyOnWriteArrayList",
     TARGETS,
     {NULL, JUC "CopyOnWriteArrayList.array"},
     .owns_empty = true},
};
enum { N_KINDS = HW_ARRAY_LEN(kinds) };

/* What a set has inside. */
static const char *const inner[] = {JU "HashSet.map", JU "TreeSet.m", JUC "ConcurrentSkipListSet.m",
                                    JUC "CopyOnWriteArraySet.al", JU "Collections$SetFromMap.m"};

struct names {
    hw_str_id of[N_KINDS][N_NAMES], node[N_KINDS][3], inner[HW_ARRAY_LEN(inner)];
    hw_str_id cells, cell;                    /* of ConcurrentHashMap */
    hw_str_id adder, adder_cells, adder_cell; /* of LongAdder */
    hw_str_id atomic, nothing;                /* AtomicInteger.value; ImmutableCollections.EMPTY */
};

static void find_names(const struct hw_profile *p, struct names *out)
{
    for (int k = 0; k < N_KINDS; k++) {
        for (int i = 0; i < N_NAMES; i++)
            out->of[k][i] = hw_heap_name_find(p, kinds[k].name[i] ? kinds[k].name[i] : "");
        for (int i = 0; i < 3; i++)
            out->node[k][i] = hw_heap_name_find(p, kinds[k].node[i] ? kinds[k].node[i] : "");
    }
    for (size_t i = 0; i < HW_ARRAY_LEN(inner); i++)
        out->inner[i] = hw_heap_name_find(p, inner[i]);
    out->cells = hw_heap_name_find(p, JUC "ConcurrentHashMap.counterCells");
    out->cell = hw_heap_name_find(p, JUC "ConcurrentHashMap$CounterCell.value");
    out->adder = hw_heap_name_find(p, JUC "atomic.Striped64.base");
    out->adder_cells = hw_heap_name_find(p, JUC "atomic.Striped64.cells");
    out->adder_cell = hw_heap_name_find(p, JUC "atomic.Striped64$Cell.value");
    out->atomic = hw_heap_name_find(p, JUC "atomic.AtomicInteger.value");
    out->nothing = hw_heap_name_find(p, JU "ImmutableCollections.EMPTY");
}

/* By class: its kind, N_KINDS = no collection. */
static int find_kinds(const struct hw_profile *p, const struct hw_heap_graph *g, uint8_t *kind_of)
{
    hw_autofree uint8_t *own = malloc((size_t)g->n_classes + 1);
    hw_str_id name[N_KINDS];
    if (!own)
        return HW_ENOMEM;
    for (int k = 0; k < N_KINDS; k++)
        name[k] = hw_heap_name_find(p, kinds[k].class);
    for (uint32_t c = 0; c < g->n_classes; c++) {
        own[c] = N_KINDS;
        for (uint8_t k = 0; k < N_KINDS; k++)
            if (name[k].v && g->classes[c].name.v == name[k].v)
                own[c] = k;
    }
    for (uint32_t c = 0; c < g->n_classes; c++) {
        uint32_t at = c;
        kind_of[c] = own[c];
        for (int i = 0; i < MAX_CHAIN && kind_of[c] == N_KINDS && at != HW_ID_NONE; i++) {
            kind_of[c] = own[at];
            at = g->classes[at].superclass;
        }
    }
    return HW_OK;
}

/* ---- one collection ---- */

static int64_t count_targets(const struct hw_heap_graph *g, uint32_t array)
{
    int64_t n = 0;
    for (uint32_t r = g->first_ref[array]; r < g->first_ref[array + 1]; r++)
        n += g->ref_owned[r] != HW_ID_NONE;
    return n;
}

static int64_t length_of(const struct hw_heap_graph *g, uint32_t array)
{
    const struct hw_heap_data *d = array == HW_ID_NONE ? NULL : hw_object_data(g, array);
    return d ? d->element_count : -1;
}

/* How wide references are: any array with some elements says it. */
static int64_t width_of_refs(const struct hw_heap_graph *g)
{
    for (uint32_t o = 0; o < g->n_objects; o++) {
        int64_t n = length_of(g, o);
        if (n >= WIDE && g->classes[g->type[o]].kind == HW_KIND_ARRAY)
            return hw_object_weight(g, o) / n >= WIDE ? WIDE : NARROW;
    }
    return NARROW;
}

struct search {
    const struct hw_heap_graph *g;
    const struct names *names;
    const uint32_t *holder; /* by object: a reference */
    uint8_t *counted;       /* by object: arrays and nodes */
    uint32_t nothing;       /* the object that stands for none in a set or list of one or two */
    int64_t width;
    struct hw_map64 by_class, by_holder; /* → row */
};

/* All sizes: -1 = the dump does not tell. */
static int64_t integer_of(const struct hw_heap_graph *g, uint32_t o, hw_str_id name)
{
    const struct hw_heap_primitive *v = o == HW_ID_NONE ? NULL : hw_heap_primitive_of(g, o, name);
    return v ? v->integer : -1;
}

static int64_t striped_size(const struct hw_heap_graph *g, uint32_t o, hw_str_id base,
                            hw_str_id cells_name, hw_str_id cell)
{
    const struct hw_heap_primitive *v = hw_heap_primitive_of(g, o, base);
    uint32_t cells = hw_heap_target_of(g, o, cells_name);
    if (!v)
        return -1;
    int64_t sum = v->integer;
    for (uint32_t r = cells == HW_ID_NONE ? 0 : g->first_ref[cells];
         cells != HW_ID_NONE && r < g->first_ref[cells + 1]; r++) {
        v = g->ref_owned[r] == HW_ID_NONE ? NULL : hw_heap_primitive_of(g, g->ref_owned[r], cell);
        sum = v ? hw_sat_add(sum, v->integer) : sum;
    }
    return sum < 0 ? 0 : sum; /* as the map itself does */
}

/* From the head, which may be behind, or ahead, to the last. A node removed refers to itself. Each
 * node counts once, so no damaged list has no end. */
static int64_t count_nodes(const struct search *s, int kind, uint32_t o)
{
    const struct hw_heap_graph *g = s->g;
    const hw_str_id *name = s->names->node[kind];
    int64_t n = 0;
    uint32_t head = hw_heap_target_of(g, o, s->names->of[kind][SIZE]);
    if (head == HW_ID_NONE)
        return -1;
    for (int way = 1; way <= 2; way++)
        for (uint32_t at = way == 1 ? head : hw_heap_target_of(g, head, name[2]);
             at != HW_ID_NONE && !s->counted[at]; at = hw_heap_target_of(g, at, name[way])) {
            uint32_t item = hw_heap_target_of(g, at, name[0]);
            s->counted[at] = 1;
            n += item != HW_ID_NONE && item != at;
        }
    return n;
}

static int64_t size_of(const struct search *s, int kind, uint32_t o, uint32_t array)
{
    const struct hw_heap_graph *g = s->g;
    const struct names *names = s->names;
    hw_str_id name = names->of[kind][SIZE];
    uint32_t target;
    switch (kinds[kind].how) {
    case FIELD:
    case ENTRIES:
        return integer_of(g, o, name);
    case ATOMIC:
        return integer_of(g, hw_heap_target_of(g, o, name), names->atomic);
    case STRIPED:
        return striped_size(g, o, name, names->cells, names->cell);
    case ADDER:
        target = hw_heap_target_of(g, o, name);
        if (target == HW_ID_NONE)
            return name.v ? 0 : -1; /* JDK 8 has no adder */
        return striped_size(g, target, names->adder, names->adder_cells, names->adder_cell);
    case TARGETS:
        return array == HW_ID_NONE ? -1 : count_targets(g, array);
    case LENGTH:
        return length_of(g, array);
    case NODES:
        return count_nodes(s, kind, o);
    case ONE:
        return 1;
    case ONE_OR_TWO:
        target = hw_heap_target_of(g, o, name);
        return target == HW_ID_NONE || target == s->nothing ? 1 : 2;
    }
    return -1;
}

/* A size that cannot be: more than there are slots, or objects for the entries. */
static bool is_impossible(const struct hw_heap_graph *g, const struct kind *kind, int64_t size,
                          int64_t slots)
{
    return kind->how == FIELD ? slots >= 0 && size > slots : size > slots && size > g->n_objects;
}

static uint32_t find_nothing(const struct hw_heap_graph *g, hw_str_id name)
{
    for (uint32_t o = 0; name.v && o < g->n_objects; o++) {
        uint32_t target = hw_heap_target_of(g, o, name);
        if (target != HW_ID_NONE)
            return target;
    }
    return HW_ID_NONE;
}

/* ---- rows ---- */

static bool is_inner(const struct search *s, hw_str_id field)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(inner); i++)
        if (field.v && s->names->inner[i].v == field.v)
            return true;
    return false;
}

/* A set is a map or list inside: who refers to the set is asked for. */
static void holder_of(const struct search *s, uint32_t o, uint32_t *field, uint32_t *owner)
{
    uint32_t ref = s->holder[o];
    *field = *owner = HW_ID_NONE;
    if (ref == HW_ID_NONE)
        return;
    uint32_t by = hw_ref_owner(s->g, ref);
    if (is_inner(s, s->g->fields[s->g->ref_field[ref]].name)) {
        ref = s->holder[by];
        if (ref == HW_ID_NONE)
            return;
        by = hw_ref_owner(s->g, ref);
    }
    *field = s->g->ref_field[ref];
    *owner = s->g->type[by];
}

static void add(struct hw_collection_row *to, const struct hw_collection_row *one)
{
    to->n += one->n;
    to->n_empty += one->n_empty;
    to->n_ones += one->n_ones;
    to->elements = hw_sat_add(to->elements, one->elements);
    to->slots = hw_sat_add(to->slots, one->slots);
    to->bytes = hw_sat_add(to->bytes, one->bytes);
    to->unused = hw_sat_add(to->unused, one->unused);
}

static int add_row(struct hw_map64 *rows, const struct hw_heap_graph *g, hw_collection_rows *out,
                   const struct hw_collection_row *one)
{
    uint64_t *row;
    bool fresh;
    if (hw_map64_at(rows, hw_heap_row_key(g, one->class, one->field, one->owner), &row, &fresh) < 0)
        return HW_ENOMEM;
    if (!fresh) {
        add(&out->v[*row], one);
        return HW_OK;
    }
    *row = out->n;
    return hw_vec_push(out, *one) < 0 ? HW_ENOMEM : HW_OK;
}

static int add_both(struct search *s, struct hw_heap_collections *out,
                    struct hw_collection_row *one, uint32_t o)
{
    one->field = one->owner = HW_ID_NONE;
    int rc = add_row(&s->by_class, s->g, &out->by_class, one);
    holder_of(s, o, &one->field, &one->owner);
    return rc < 0 ? rc : add_row(&s->by_holder, s->g, &out->by_holder, one);
}

static int add_collection(struct search *s, struct hw_heap_collections *out, int kind, uint32_t o)
{
    const struct hw_heap_graph *g = s->g;
    uint32_t array = hw_heap_target_of(g, o, s->names->of[kind][ARRAY]);
    int64_t size = size_of(s, kind, o, array), length = length_of(g, array);
    int64_t slots = kinds[kind].per_element ? length / kinds[kind].per_element : length;
    if (size < 0 || is_impossible(g, &kinds[kind], size, slots)) {
        out->n_unknown++;
        return HW_OK;
    }
    struct hw_collection_row one = {.class = g->type[o],
                                    .n = 1,
                                    .n_empty = size == 0,
                                    .n_ones = size == 1,
                                    .elements = size,
                                    .bytes = hw_object_weight(g, o)};
    /* One array of no elements serves all empty lists. */
    if ((length > 0 || (length == 0 && kinds[kind].owns_empty)) && !s->counted[array]) {
        int64_t free_slots = length - count_targets(g, array);
        s->counted[array] = 1;
        one.slots = slots;
        one.bytes = hw_sat_add(one.bytes, hw_object_weight(g, array));
        one.unused = free_slots > 0 ? free_slots * s->width : 0;
    }
    return add_both(s, out, &one, o);
}

static int by_bytes(const void *pa, const void *pb)
{
    const struct hw_collection_row *a = pa, *b = pb;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (a->n != b->n)
        return a->n > b->n ? -1 : 1;
    if (a->class != b->class)
        return a->class < b->class ? -1 : 1;
    return a->field != b->field ? (a->field < b->field ? -1 : 1)
                                : (a->owner > b->owner) - (a->owner < b->owner);
}

static int search(struct search *s, const uint8_t *kind_of, struct hw_heap_collections *out)
{
    int rc = HW_OK;
    for (uint32_t o = 0; rc == HW_OK && o < s->g->n_objects; o++)
        if (hw_object_is_reachable(s->g, o) && kind_of[s->g->type[o]] < N_KINDS)
            rc = add_collection(s, out, kind_of[s->g->type[o]], o);
    hw_map64_done(&s->by_class);
    hw_map64_done(&s->by_holder);
    if (out->by_class.n)
        qsort(out->by_class.v, out->by_class.n, sizeof *out->by_class.v, by_bytes);
    if (out->by_holder.n)
        qsort(out->by_holder.v, out->by_holder.n, sizeof *out->by_holder.v, by_bytes);
    return rc;
}

int hw_heap_collections_find(const struct hw_profile *p, const struct hw_heap_graph *g,
                             struct hw_heap_collections *out)
{
    struct names names;
    *out = (struct hw_heap_collections){0};
    if (g->primitives.n == 0)
        return HW_ENOTFOUND;
    hw_autofree uint8_t *kind_of = malloc((size_t)g->n_classes + 1);
    hw_autofree uint32_t *holder = hw_heap_first_holders(g);
    hw_autofree uint8_t *counted = calloc((size_t)g->n_objects + 1, 1);
    struct search s = {
        .g = g, .names = &names, .holder = holder, .counted = counted, .width = width_of_refs(g)};
    int rc = kind_of && holder && counted ? find_kinds(p, g, kind_of) : HW_ENOMEM;
    if (rc == HW_OK) {
        find_names(p, &names);
        s.nothing = find_nothing(g, names.nothing);
        rc = search(&s, kind_of, out);
    }
    if (rc < 0)
        hw_heap_collections_done(out);
    return rc;
}

void hw_heap_collections_done(struct hw_heap_collections *c)
{
    hw_vec_done(&c->by_class);
    hw_vec_done(&c->by_holder);
}

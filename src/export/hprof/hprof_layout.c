/*
 * An instance's bytes are the fields of its own class, then those of the superclass and so on. A
 * field's name says which class declares it: "java.util.HashMap.table" of a LinkedHashMap belongs
 * to HashMap. A name that matches none of them belongs to the object's class.
 *
 * Readers compute the size of an instance from its fields: 12 bytes of header, 4 for a reference,
 * rounded up to 8. Where the graph's size is larger, it lacks some fields: padding fills the gap.
 */
#include "export/hprof/hprof_layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "base/text/strings.h"
#include "base/text/text_parts.h"

#include "base/banned.h"

enum {
    MAX_SLOTS = 65000,  /* of a class: the format counts them in 16 bits, and padding needs some */
    MAX_DEPTH = 200,    /* of a chain of superclasses */
    MAX_PADDING = 1024, /* bytes of an instance; a thread has 368 for its fields of 44 */
    HEADER = 12,
    ARRAY_HEADER = 16
};

/* The largest file: a trace of a few bytes may claim objects of any size. */
#define FREE_BYTES       (4ull << 30)
#define BYTES_PER_OBJECT 4096ull

static struct hw_bytes text(const struct hw_hprof_layout *l, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(l->p->callsites), id);
}

unsigned hw_hprof_value_bytes(uint8_t type)
{
    static const uint8_t bytes[HW_HV_COUNT] = {
        [HW_HV_REF] = 8,   [HW_HV_BOOLEAN] = 1, [HW_HV_CHAR] = 2,
        [HW_HV_FLOAT] = 4, [HW_HV_DOUBLE] = 8,  [HW_HV_BYTE] = 1,
        [HW_HV_SHORT] = 2, [HW_HV_INT] = 4,     [HW_HV_LONG] = 8};
    return type < HW_HV_COUNT ? bytes[type] : 0;
}

static unsigned in_memory(uint8_t type)
{
    return type == HW_HV_REF ? 4 : hw_hprof_value_bytes(type);
}

static uint64_t round_up(uint64_t n)
{
    return (n + 7) & ~(uint64_t)7;
}

uint8_t hw_hprof_type_of(const struct hw_heap_primitive *p)
{
    static const char letters[] = "ZCFDBSIJ"; /* in the format's order, from HW_HV_BOOLEAN on */
    const char *at = p->type ? strchr(letters, p->type) : NULL;
    return at ? (uint8_t)(HW_HV_BOOLEAN + (at - letters)) : 0;
}

const struct hw_heap_primitive *hw_hprof_primitives_of(const struct hw_heap_graph *g, uint32_t o,
                                                       size_t *n)
{
    *n = 0;
    const struct hw_heap_data *d = hw_object_data(g, o);
    if (!d)
        return NULL;
    uint32_t set = d->field_set;
    if (set == HW_ID_NONE)
        return NULL;
    size_t low = HW_LOWER_BOUND(i, 0, g->primitives.n, g->primitives.v[i].set < set);
    while (low + *n < g->primitives.n && g->primitives.v[low + *n].set == set)
        ++*n;
    return *n ? &g->primitives.v[low] : NULL;
}

static uint64_t primitive_key(const struct hw_heap_primitive *p)
{
    return (uint64_t)p->field_name.v << 8 | (uint8_t)p->type;
}

uint32_t hw_hprof_primitive_field(const struct hw_hprof_layout *l,
                                  const struct hw_heap_primitive *p)
{
    uint64_t at;
    return hw_map64_get(&l->primitives, primitive_key(p), &at) ? l->g->n_fields + (uint32_t)at
                                                               : HW_ID_NONE;
}

/* ---- classes ---- */

static uint8_t element_type(struct hw_bytes name)
{
    static const struct {
        const char *name;
        uint8_t type;
    } primitives[] = {{"boolean[]", HW_HV_BOOLEAN}, {"char[]", HW_HV_CHAR},
                      {"float[]", HW_HV_FLOAT},     {"double[]", HW_HV_DOUBLE},
                      {"byte[]", HW_HV_BYTE},       {"short[]", HW_HV_SHORT},
                      {"int[]", HW_HV_INT},         {"long[]", HW_HV_LONG}};
    for (size_t i = 0; i < HW_ARRAY_LEN(primitives); i++)
        if (hw_bytes_equal(name, hw_bytes_str(primitives[i].name)))
            return primitives[i].type;
    return hw_bytes_end_with(name, "[]") ? HW_HV_REF : 0;
}

/* "java.lang.Class<X>" -> X. */
static bool inner_name(struct hw_bytes name, struct hw_bytes *out)
{
    static const char start[] = "java.lang.Class<";
    size_t n = sizeof start - 1;
    if (name.n <= n + 1 || memcmp(name.p, start, n) != 0 || name.p[name.n - 1] != '>')
        return false;
    *out = hw_bytes_of(name.p + n, name.n - n - 1);
    return true;
}

static struct hw_hprof_out_class new_class(const struct hw_hprof_layout *l, hw_str_id name)
{
    return (struct hw_hprof_out_class){.name = name,
                                       .row = HW_ID_NONE,
                                       .mirror = HW_ID_NONE,
                                       .super = HW_ID_NONE,
                                       .first = HW_ID_NONE,
                                       .last = HW_ID_NONE,
                                       .min_bytes = -1,
                                       .array_of = element_type(text(l, name))};
}

static int list_classes(struct hw_hprof_layout *l)
{
    const struct hw_heap_graph *g = l->g;
    for (uint32_t i = 0; i < g->n_classes; i++) {
        struct hw_hprof_out_class c = new_class(l, g->classes[i].name);
        struct hw_bytes inner;
        c.row = i;
        c.is_class_class = inner_name(text(l, c.name), &inner);
        c.super = g->classes[i].superclass;
        if (hw_vec_push(&l->classes, c) < 0)
            return HW_ENOMEM;
    }
    for (uint32_t i = 0; i < g->n_classes; i++) {
        uint32_t super = l->classes.v[i].super;
        if (super != HW_ID_NONE && l->classes.v[super].is_class_class)
            l->classes.v[i].super = HW_ID_NONE;
    }
    return HW_OK;
}

/* Chains of classes with one name, each in the order of the graph. */
struct by_name {
    struct hw_strings *names;
    struct hw_map64 first; /* name -> class not yet matched; HW_ID_NONE */
    uint32_t *next;        /* by class */
};

static int by_name_init(struct by_name *n, const struct hw_hprof_layout *l)
{
    *n = (struct by_name){.next = calloc((size_t)l->g->n_classes + 1, sizeof *n->next)};
    int rc = n->next ? hw_strings_new(&n->names) : HW_ENOMEM;
    for (uint32_t i = l->g->n_classes; rc == HW_OK && i-- > 0;) {
        hw_str_id id;
        uint64_t *at;
        bool fresh;
        if (l->classes.v[i].is_class_class)
            continue;
        rc = hw_strings_intern(n->names, text(l, l->classes.v[i].name), &id);
        if (rc == HW_OK)
            rc = hw_map64_at(&n->first, id.v, &at, &fresh);
        if (rc == HW_OK) {
            n->next[i] = fresh ? HW_ID_NONE : (uint32_t)*at;
            *at = i;
        }
    }
    return rc;
}

static void by_name_done(struct by_name *n)
{
    hw_strings_free(n->names);
    hw_map64_done(&n->first);
    free(n->next);
}

/* The next class of a name; HW_ID_NONE when there is none left. */
static int by_name_take(struct by_name *n, struct hw_bytes name, uint32_t *out)
{
    hw_str_id id;
    uint64_t *at;
    bool fresh;
    int rc = hw_strings_intern(n->names, name, &id);
    if (rc == HW_OK)
        rc = hw_map64_at(&n->first, id.v, &at, &fresh);
    if (rc < 0)
        return rc;
    *out = fresh ? HW_ID_NONE : (uint32_t)*at;
    *at = *out == HW_ID_NONE ? HW_ID_NONE : n->next[*out];
    return HW_OK;
}

static int match_class_object(struct hw_hprof_layout *l, struct by_name *names, uint32_t o)
{
    struct hw_hprof_out_class c = new_class(l, l->classes.v[l->g->type[o]].name);
    struct hw_bytes inner = {NULL, 0};
    uint32_t class;
    (void)inner_name(text(l, c.name), &inner); /* it is one */
    int rc = by_name_take(names, inner, &class);
    if (rc < 0)
        return rc;
    if (class == HW_ID_NONE) {
        class = (uint32_t)l->classes.n;
        c.array_of = element_type(inner);
        if (hw_vec_push(&l->classes, c) < 0)
            return HW_ENOMEM;
    }
    l->class_of_object[o] = class;
    l->classes.v[class].mirror = o;
    return HW_OK;
}

/* Class objects are matched to classes by name. Several loaders may have loaded the same name:
 * these are paired in the graph's order. */
static int match_class_objects(struct hw_hprof_layout *l)
{
    struct by_name names;
    int rc = by_name_init(&names, l);
    for (uint32_t o = 0; rc == HW_OK && o < l->g->n_objects; o++) {
        l->class_of_object[o] = HW_ID_NONE;
        if (hw_object_is_described(l->g, o) && l->classes.v[l->g->type[o]].is_class_class)
            rc = match_class_object(l, &names, o);
    }
    by_name_done(&names);
    return rc;
}

/* ---- fields ---- */

/* The class, from `class` upwards, whose name is the prefix of the field's. */
static uint32_t declaring(const struct hw_hprof_layout *l, uint32_t class, hw_str_id field)
{
    struct hw_bytes name = text(l, field);
    while (name.n && name.p[name.n - 1] != '.')
        name.n--;
    if (name.n)
        name.n--;
    uint32_t c = class;
    for (int depth = 0; name.n && c != HW_ID_NONE && depth < MAX_DEPTH; depth++) {
        if (hw_bytes_equal(text(l, l->classes.v[c].name), name))
            return c;
        c = l->classes.v[c].super;
    }
    return class;
}

static int new_slots(struct hw_hprof_layout *l, uint32_t class, hw_str_id name, uint8_t type,
                     uint64_t *out)
{
    struct hw_hprof_out_class *c = &l->classes.v[class];
    uint32_t number = (uint32_t)l->slots.n;
    struct hw_hprof_slots s = {.name = name, .next = HW_ID_NONE, .type = type};
    if (hw_vec_push(&l->slots, s) < 0)
        return HW_ENOMEM;
    if (c->last == HW_ID_NONE)
        c->first = number;
    else
        l->slots.v[c->last].next = number;
    c->last = number;
    *out = number;
    return HW_OK;
}

/* How often the field occurred in the current object before. */
static uint32_t count_earlier(struct hw_hprof_layout *l, uint32_t field)
{
    if (l->seen_in[field] != l->n_seen) {
        l->seen_in[field] = l->n_seen;
        l->seen_times[field] = 0;
    }
    return l->seen_times[field]++;
}

void hw_hprof_object_begin(struct hw_hprof_layout *l)
{
    l->n_seen++;
}

static hw_str_id shown_name(const struct hw_hprof_layout *l, uint32_t field, hw_str_id name)
{
    uint64_t clear;
    if (field < l->g->n_fields)
        return l->g->fields[field].clear_name.v ? l->g->fields[field].clear_name : name;
    return hw_map64_get(&l->g->primitive_names, name.v, &clear) ? (hw_str_id){(uint32_t)clear}
                                                                : name;
}

/* The slots of a field in objects of a class: declaring class << 32 | slots. */
static int find_slots(struct hw_hprof_layout *l, uint32_t class, uint32_t field, hw_str_id name,
                      uint8_t type, uint64_t *out)
{
    uint64_t number, key = (uint64_t) class << 32 | field;
    int rc = HW_OK;
    if (hw_map64_get(&l->slots_of, key, out))
        return HW_OK;
    uint32_t by = declaring(l, class, name);
    uint64_t own = (uint64_t)by << 32 | field;
    if (!hw_map64_get(&l->slots_of, own, out)) {
        rc = new_slots(l, by, shown_name(l, field, name), type, &number);
        *out = (uint64_t)by << 32 | number;
        if (rc == HW_OK)
            rc = hw_map64_put(&l->slots_of, own, *out);
    }
    return rc < 0 || by == class ? rc : hw_map64_put(&l->slots_of, key, *out);
}

static int count_field(struct hw_hprof_layout *l, uint32_t class, uint32_t field, hw_str_id name,
                       uint8_t type)
{
    uint64_t at;
    uint32_t times = count_earlier(l, field);
    int rc = find_slots(l, class, field, name, type, &at);
    if (rc < 0)
        return rc;
    struct hw_hprof_slots *s = &l->slots.v[(uint32_t)at];
    struct hw_hprof_out_class *c = &l->classes.v[at >> 32];
    if (times < s->count)
        return HW_OK;
    if (c->n_slots >= MAX_SLOTS) {
        l->left_out++;
        return HW_OK;
    }
    s->count++;
    c->n_slots++;
    return HW_OK;
}

static int count_primitive(struct hw_hprof_layout *l, uint32_t class,
                           const struct hw_heap_primitive *p)
{
    uint64_t *at;
    bool fresh;
    uint8_t type = hw_hprof_type_of(p);
    if (!type)
        return HW_OK;
    uint64_t n = l->primitives.n;
    int rc = hw_map64_at(&l->primitives, primitive_key(p), &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh)
        *at = n;
    return count_field(l, class, l->g->n_fields + (uint32_t)*at, p->field_name, type);
}

static int count_object(struct hw_hprof_layout *l, uint32_t o)
{
    const struct hw_heap_graph *g = l->g;
    uint32_t class = g->type[o];
    struct hw_hprof_out_class *c = &l->classes.v[class];
    size_t n;
    const struct hw_heap_primitive *p = hw_hprof_primitives_of(g, o, &n);
    int rc = HW_OK;
    int64_t size = hw_object_size(g, o);
    if (c->min_bytes < 0 || size < c->min_bytes)
        c->min_bytes = size;
    if (c->array_of)
        return HW_OK;
    hw_hprof_object_begin(l);
    for (size_t i = 0; rc == HW_OK && i < n; i++)
        rc = count_primitive(l, class, &p[i]);
    for (uint32_t r = g->first_ref[o]; rc == HW_OK && r < g->first_ref[o + 1]; r++)
        rc = count_field(l, class, g->ref_field[r], g->fields[g->ref_field[r]].name, HW_HV_REF);
    return rc;
}

/* ---- offsets ---- */

static void lay_out_class(struct hw_hprof_layout *l, uint32_t class)
{
    struct hw_hprof_out_class *c = &l->classes.v[class];
    const struct hw_hprof_out_class *super =
        c->super == HW_ID_NONE ? NULL : &l->classes.v[c->super];
    uint64_t memory = super ? super->in_memory : HEADER;
    for (uint32_t s = c->first; s != HW_ID_NONE; s = l->slots.v[s].next) {
        struct hw_hprof_slots *f = &l->slots.v[s];
        f->offset = c->own_bytes;
        c->own_bytes += f->count * hw_hprof_value_bytes(f->type);
        memory += (uint64_t)f->count * in_memory(f->type);
    }
    if (!c->array_of && c->min_bytes > 0 && (uint64_t)c->min_bytes > round_up(memory)) {
        uint64_t lacks = (uint64_t)c->min_bytes - memory;
        c->padding = lacks < MAX_PADDING ? (uint32_t)lacks : MAX_PADDING;
    }
    c->in_memory = memory + c->padding;
    c->all_bytes = c->own_bytes + c->padding + (super ? super->all_bytes : 0);
    c->is_done = true;
}

/* Superclasses first. Cycles and overlong chains are cut. */
static void lay_out(struct hw_hprof_layout *l)
{
    for (uint32_t i = 0; i < l->classes.n; i++) {
        uint32_t chain[MAX_DEPTH];
        int n = 0;
        for (uint32_t c = i; c != HW_ID_NONE && !l->classes.v[c].is_done;
             c = l->classes.v[c].super) {
            bool cycle = false;
            for (int k = 0; k < n; k++)
                cycle |= chain[k] == c;
            if (cycle || n == MAX_DEPTH) {
                l->classes.v[chain[n - 1]].super = HW_ID_NONE;
                break;
            }
            chain[n++] = c;
        }
        while (n-- > 0)
            lay_out_class(l, chain[n]);
    }
}

uint32_t hw_hprof_field_offset(struct hw_hprof_layout *l, uint32_t class, uint32_t field)
{
    uint64_t at;
    uint32_t before = 0, times = count_earlier(l, field);
    if (!hw_map64_get(&l->slots_of, (uint64_t) class << 32 | field, &at))
        return HW_ID_NONE;
    const struct hw_hprof_slots *s = &l->slots.v[(uint32_t)at];
    uint32_t by = (uint32_t)(at >> 32);
    if (times >= s->count)
        return HW_ID_NONE;
    for (uint32_t c = class; c != by; c = l->classes.v[c].super) {
        if (c == HW_ID_NONE)
            return HW_ID_NONE; /* the chain was cut */
        before += l->classes.v[c].own_bytes + l->classes.v[c].padding;
    }
    return before + s->offset + times * hw_hprof_value_bytes(s->type);
}

uint64_t hw_hprof_elements(const struct hw_hprof_layout *l, uint32_t o)
{
    const struct hw_heap_graph *g = l->g;
    uint8_t type = l->classes.v[g->type[o]].array_of;
    uint64_t n_refs = type == HW_HV_REF ? g->first_ref[o + 1] - g->first_ref[o] : 0;
    const struct hw_heap_data *d = hw_object_data(g, o);
    int64_t known = d ? d->element_count : -1;
    int64_t size = hw_object_size(g, o);
    uint64_t n = known >= 0            ? (uint64_t)known
                 : size > ARRAY_HEADER ? ((uint64_t)size - ARRAY_HEADER) / in_memory(type)
                                       : 0;
    uint64_t most = (UINT32_MAX - 64) / hw_hprof_value_bytes(type); /* a record's length */
    if (n < n_refs)
        n = n_refs;
    return n < most ? n : most;
}

static int check_total_bytes(struct hw_hprof_layout *l)
{
    for (uint32_t o = 0; o < l->g->n_objects; o++) {
        if (!hw_hprof_is_instance(l, o))
            continue;
        const struct hw_hprof_out_class *c = &l->classes.v[l->g->type[o]];
        l->total_bytes +=
            32 + (c->array_of ? hw_hprof_elements(l, o) * hw_hprof_value_bytes(c->array_of)
                              : c->all_bytes);
        if (l->total_bytes > FREE_BYTES + BYTES_PER_OBJECT * l->g->n_objects)
            return HW_ELIMIT;
    }
    return HW_OK;
}

/* ---- public functions ---- */

int hw_hprof_layout_init(struct hw_hprof_layout *l, const struct hw_profile *p,
                         const struct hw_heap_graph *g)
{
    *l = (struct hw_hprof_layout){.p = p, .g = g};
    size_t n_fields = (size_t)g->n_fields + g->primitives.n + 1;
    l->class_of_object = calloc((size_t)g->n_objects + 1, sizeof *l->class_of_object);
    l->seen_in = calloc(n_fields, sizeof *l->seen_in);
    l->seen_times = calloc(n_fields, sizeof *l->seen_times);
    if (!l->class_of_object || !l->seen_in || !l->seen_times)
        return HW_ENOMEM;
    int rc = list_classes(l);
    if (rc == HW_OK)
        rc = match_class_objects(l);
    for (uint32_t o = 0; rc == HW_OK && o < g->n_objects; o++)
        if (hw_hprof_is_instance(l, o))
            rc = count_object(l, o);
    if (rc < 0)
        return rc;
    lay_out(l);
    return check_total_bytes(l);
}

void hw_hprof_layout_done(struct hw_hprof_layout *l)
{
    free(l->class_of_object);
    free(l->seen_in);
    free(l->seen_times);
    hw_vec_done(&l->classes);
    hw_vec_done(&l->slots);
    hw_map64_done(&l->slots_of);
    hw_map64_done(&l->primitives);
}

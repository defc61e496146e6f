/*
 * heap_snapshot_writer.c - one heap graph as V8's heap snapshot (.heapsnapshot)
 *
 * The reverse of import/v8/heap_snapshot.c, which says what the lists are. Two passes over the
 * objects: a node says how many edges it has, and all edges follow all nodes.
 *
 *      node 0      ""                  the root of all
 *      node 1      (GC roots)
 *      node 2 ...  (jni global) ...    one a kind of root that occurs
 *      then        the objects, in the graph's order
 *      last        one node for each object's memory outside of the heap
 *
 * A graph that was read from such a file has its root already: object 0 is node 0, and the names
 * of V8's own kinds become these kinds again.
 *
 * Chrome's developer tools read the members in this order, and treat a property as strong. In the
 * file V8 names the halves of a WeakMap's pair by an internal edge with an id in its text, which
 * readers compare; ours are properties, so nobody does.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/strings.h"
#include "base/text/text_parts.h"
#include "export/export.h"
#include "export/json_file.h"

#include "base/banned.h"

/* X(enum, text): numbers are places in these lists. */
#define NODE_TYPES(X)                                                                              \
    X(N_HIDDEN, "hidden")                                                                          \
    X(N_ARRAY, "array")                                                                            \
    X(N_STRING, "string")                                                                          \
    X(N_OBJECT, "object")                                                                          \
    X(N_CODE, "code")                                                                              \
    X(N_CLOSURE, "closure")                                                                        \
    X(N_REGEXP, "regexp")                                                                          \
    X(N_NUMBER, "number")                                                                          \
    X(N_NATIVE, "native")                                                                          \
    X(N_SYNTHETIC, "synthetic")                                                                    \
    X(N_CONCATENATED, "concatenated string")                                                       \
    X(N_SLICED, "sliced string")                                                                   \
    X(N_SYMBOL, "symbol")                                                                          \
    X(N_BIGINT, "bigint")                                                                          \
    X(N_SHAPE, "object shape")
#define EDGE_TYPES(X)                                                                              \
    X(E_CONTEXT, "context")                                                                        \
    X(E_ELEMENT, "element")                                                                        \
    X(E_PROPERTY, "property")                                                                      \
    X(E_INTERNAL, "internal")                                                                      \
    X(E_HIDDEN, "hidden")                                                                          \
    X(E_SHORTCUT, "shortcut")                                                                      \
    X(E_WEAK, "weak")

#define X(name, text) name,
enum node_type { NODE_TYPES(X) N_NODE_TYPES };
enum edge_type { EDGE_TYPES(X) N_EDGE_TYPES };
#undef X

static const char *const node_fields[] = {"type",       "name",          "id",          "self_size",
                                          "edge_count", "trace_node_id", "detachedness"};
static const char *const edge_fields[] = {"type", "name_or_index", "to_node"};

enum { NODE_FIELDS = HW_ARRAY_LEN(node_fields) };

struct job {
    const struct hw_profile *p;
    const struct hw_heap_graph *g;
    struct hw_json json;
    struct hw_strings *names; /* the file's; the first is "" */
    uint32_t *class_name;     /* by class: of names */
    uint8_t *class_type;      /* by class: enum node_type */
    uint32_t *field_name;     /* by field: of names; HW_ID_NONE = not met yet */
    uint64_t n_roots[HW_ROOT_COUNT];
    uint32_t n_before; /* nodes before the first object */
    uint64_t n_nodes, n_edges;
    bool is_v8; /* object 0 is the root of all */
    int rc;
};

/* ---- names ---- */

static struct hw_bytes text(const struct job *j, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(j->p->callsites), id);
}

static uint32_t name_of(struct job *j, struct hw_bytes name)
{
    hw_str_id id = {0};
    int rc = hw_strings_intern(j->names, name, &id);
    if (rc < 0)
        j->rc = rc;
    return id.v;
}

/* "pkg.Class.field" -> "field"; names of JavaScript properties may have dots themselves. */
static struct hw_bytes last_part(struct hw_bytes field, struct hw_bytes class)
{
    if (field.n > class.n + 1 && memcmp(field.p, class.p, class.n) == 0 && field.p[class.n] == '.')
        return hw_bytes_of(field.p + class.n + 1, field.n - class.n - 1);
    size_t n = field.n;
    while (n && field.p[n - 1] != '.')
        n--;
    return hw_bytes_of(field.p + n, field.n - n);
}

static uint32_t field_name(struct job *j, uint32_t field, uint32_t class)
{
    const struct hw_heap_field *f = &j->g->fields[field];
    if (j->field_name[field] == HW_ID_NONE)
        j->field_name[field] =
            name_of(j, last_part(text(j, f->clear_name.v ? f->clear_name : f->name),
                                 text(j, hw_class_shown_name(&j->g->classes[class]))));
    return j->field_name[field];
}

/* What our reader calls nodes that it does not name by their own name. */
static enum node_type type_named(struct hw_bytes class)
{
    static const struct {
        const char *class;
        enum node_type type;
    } kinds[] = {{"(system)", N_HIDDEN},        {"(compiled code)", N_CODE},
                 {"Function", N_CLOSURE},       {"RegExp", N_REGEXP},
                 {"(array)", N_ARRAY},          {"(string)", N_STRING},
                 {"(number)", N_NUMBER},        {"(concatenated string)", N_CONCATENATED},
                 {"(sliced string)", N_SLICED}, {"(symbol)", N_SYMBOL},
                 {"(bigint)", N_BIGINT},        {"(object shape)", N_SHAPE}};
    for (size_t i = 0; i < HW_ARRAY_LEN(kinds); i++)
        if (hw_bytes_equal(class, hw_bytes_str(kinds[i].class)))
            return kinds[i].type;
    bool in_parentheses = class.n > 1 && class.p[0] == '(' && class.p[class.n - 1] == ')';
    return in_parentheses ? N_SYNTHETIC : N_OBJECT;
}

static void name_classes(struct job *j)
{
    for (uint32_t i = 0; i < j->g->n_classes; i++) {
        struct hw_bytes name = text(j, hw_class_shown_name(&j->g->classes[i]));
        bool is_root = j->is_v8 && i == j->g->type[0];
        j->class_type[i] = (uint8_t)(j->is_v8 ? type_named(name) : N_OBJECT);
        j->class_name[i] = name_of(j, is_root ? hw_bytes_str("") : name);
    }
    for (uint32_t i = 0; i < j->g->n_fields; i++)
        j->field_name[i] = HW_ID_NONE;
}

/* "(jni global)" */
static uint32_t root_name(struct job *j, enum hw_root_type kind)
{
    char name[64];
    const char *from = hw_root_type_name(kind) + strlen("ROOT_");
    size_t n = 0;
    name[n++] = '(';
    for (; *from && n < sizeof name - 1; from++)
        name[n++] = *from == '_' ? ' ' : (char)(*from - 'A' + 'a');
    name[n++] = ')';
    return name_of(j, hw_bytes_of(name, n));
}

/* ---- edges ---- */

static void put_edge(struct job *j, enum edge_type type, uint64_t name_or_index, uint64_t to)
{
    hw_json_uint(&j->json, type);
    hw_json_uint(&j->json, name_or_index);
    hw_json_uint(&j->json, to * NODE_FIELDS);
}

static void put_reference(struct job *j, uint32_t o, uint32_t r, uint64_t index)
{
    uint32_t field = j->g->ref_field[r], class = j->g->type[o];
    uint64_t to = (uint64_t)j->g->ref_owned[r] + j->n_before;
    if (!hw_ref_is_strong(j->g, o, r))
        put_edge(j, E_WEAK, field_name(j, field, class), to);
    else if (!text(j, j->g->fields[field].name).n)
        put_edge(j, E_ELEMENT, index, to);
    else
        put_edge(j, E_PROPERTY, field_name(j, field, class), to);
}

/* Counts an object's edges, and writes them. native: the next node of memory outside of the heap,
 * which counts on. */
static uint64_t edges_of(struct job *j, uint32_t o, bool put, uint64_t *native)
{
    uint32_t held = hw_object_held_class(j->g, o);
    uint64_t n = 0;
    for (uint32_t r = j->g->first_ref[o]; r < j->g->first_ref[o + 1]; r++) {
        if (j->g->ref_owned[r] == HW_ID_NONE)
            continue;
        if (put)
            put_reference(j, o, r, n);
        n++;
    }
    if (held != HW_ID_NONE) {
        if (put)
            put_edge(j, E_INTERNAL, name_of(j, hw_bytes_str("class")),
                     (uint64_t)held + j->n_before);
        n++;
    }
    if (hw_object_native_size(j->g, o) > 0) {
        if (put)
            put_edge(j, E_INTERNAL, name_of(j, hw_bytes_str("native memory")), *native);
        ++*native;
        n++;
    }
    return n;
}

static void put_root_edges(struct job *j)
{
    uint64_t node = 2;
    if (j->is_v8)
        return;
    put_edge(j, E_ELEMENT, 0, 1);
    for (int k = 0; k < HW_ROOT_COUNT; k++)
        if (j->n_roots[k]) {
            put_edge(j, E_ELEMENT, node - 2, node);
            node++;
        }
    for (int k = 0; k < HW_ROOT_COUNT; k++) {
        uint64_t n = 0;
        for (uint32_t o = 0; n < j->n_roots[k] && o < j->g->n_objects; o++)
            if (hw_object_is_root(j->g, o) && (int)hw_object_root_type(j->g, o) == k)
                put_edge(j, E_ELEMENT, n++, (uint64_t)o + j->n_before);
    }
}

static void put_edges(struct job *j)
{
    uint64_t native = (uint64_t)j->n_before + j->g->n_objects;
    put_root_edges(j);
    for (uint32_t o = 0; o < j->g->n_objects && !j->json.error; o++)
        (void)edges_of(j, o, /* put = */ true, &native);
}

/* ---- nodes ---- */

/* V8 numbers its own objects by odd ids, and others by even ones. */
static void put_node(struct job *j, enum node_type type, uint32_t name, int64_t size, uint64_t n)
{
    hw_json_uint(&j->json, type);
    hw_json_uint(&j->json, name);
    hw_json_uint(&j->json, j->n_nodes * 2 + (type != N_NATIVE));
    hw_json_int(&j->json, size);
    hw_json_uint(&j->json, n);
    hw_json_uint(&j->json, 0);
    hw_json_uint(&j->json, 0);
    j->n_nodes++;
    j->n_edges += n;
}

static void put_root_nodes(struct job *j)
{
    if (j->is_v8)
        return;
    put_node(j, N_SYNTHETIC, name_of(j, hw_bytes_str("")), 0, 1);
    put_node(j, N_SYNTHETIC, name_of(j, hw_bytes_str("(GC roots)")), 0, j->n_before - 2);
    for (int k = 0; k < HW_ROOT_COUNT; k++)
        if (j->n_roots[k])
            put_node(j, N_SYNTHETIC, root_name(j, (enum hw_root_type)k), 0, j->n_roots[k]);
}

static void put_nodes(struct job *j)
{
    uint64_t native = 0;
    put_root_nodes(j);
    for (uint32_t o = 0; o < j->g->n_objects && !j->json.error; o++) {
        uint32_t class = j->g->type[o];
        put_node(j, (enum node_type)j->class_type[class], j->class_name[class],
                 hw_object_weight(j->g, o), edges_of(j, o, /* put = */ false, &native));
    }
    for (uint32_t o = 0; native && o < j->g->n_objects && !j->json.error; o++) {
        int64_t size = hw_object_native_size(j->g, o);
        if (size > 0)
            put_node(j, N_NATIVE, name_of(j, hw_bytes_str("native memory")), size, 0);
    }
}

/* ---- the file ---- */

static void put_list(struct hw_json *j, const char *key, const char *const *list, size_t n)
{
    if (key)
        hw_json_key(j, key);
    hw_json_begin_array(j);
    for (size_t i = 0; i < n; i++)
        hw_json_str(j, list[i]);
    hw_json_end_array(j);
}

/* The first column is one of a list, the others are of one kind each. */
static void put_types(struct hw_json *j, const char *key, const char *const *types, size_t n,
                      const char *const *others, size_t n_others)
{
    hw_json_key(j, key);
    hw_json_begin_array(j);
    put_list(j, NULL, types, n);
    for (size_t i = 0; i < n_others; i++)
        hw_json_str(j, others[i]);
    hw_json_end_array(j);
}

static void put_meta(struct hw_json *j)
{
#define X(name, text) text,
    static const char *const node_types[] = {NODE_TYPES(X)}, *const edge_types[] = {EDGE_TYPES(X)};
#undef X
    static const char *const node_others[] = {"string", "number", "number",
                                              "number", "number", "number"};
    static const char *const edge_others[] = {"string_or_number", "node"};
    static const char *const location[] = {"object_index", "script_id", "line", "column"};
    hw_json_key(j, "meta");
    hw_json_begin_object(j);
    put_list(j, "node_fields", node_fields, HW_ARRAY_LEN(node_fields));
    put_types(j, "node_types", node_types, N_NODE_TYPES, node_others, HW_ARRAY_LEN(node_others));
    put_list(j, "edge_fields", edge_fields, HW_ARRAY_LEN(edge_fields));
    put_types(j, "edge_types", edge_types, N_EDGE_TYPES, edge_others, HW_ARRAY_LEN(edge_others));
    put_list(j, "trace_function_info_fields", NULL, 0);
    put_list(j, "trace_node_fields", NULL, 0);
    put_list(j, "sample_fields", NULL, 0);
    put_list(j, "location_fields", location, HW_ARRAY_LEN(location));
    hw_json_end_object(j);
}

static void put_head(struct job *j)
{
    uint64_t n_nodes = (uint64_t)j->n_before + j->g->n_objects, n_edges = 0, native = 0;
    for (uint32_t o = 0; o < j->g->n_objects; o++) {
        n_edges += edges_of(j, o, /* put = */ false, &native);
        n_edges += !j->is_v8 && hw_object_is_root(j->g, o);
    }
    hw_json_key(&j->json, "snapshot");
    hw_json_begin_object(&j->json);
    put_meta(&j->json);
    hw_json_kv_uint(&j->json, "node_count", n_nodes + native);
    hw_json_kv_uint(&j->json, "edge_count", n_edges + (j->is_v8 ? 0 : j->n_before - 1));
    hw_json_kv_uint(&j->json, "trace_function_count", 0);
    hw_json_end_object(&j->json);
}

static void put_strings(struct job *j)
{
    hw_json_key(&j->json, "strings");
    hw_json_begin_array(&j->json);
    for (uint32_t i = 0; i < hw_strings_count(j->names); i++) {
        struct hw_bytes s = hw_strings_get(j->names, (hw_str_id){i});
        hw_json_strn(&j->json, s.p, s.n);
    }
    hw_json_end_array(&j->json);
}

static void put_all(struct job *j)
{
    static const char *const empty[] = {"trace_function_infos", "trace_tree", "samples",
                                        "locations"};
    hw_json_begin_object(&j->json);
    put_head(j);
    hw_json_key(&j->json, "nodes");
    hw_json_begin_array(&j->json);
    put_nodes(j);
    hw_json_end_array(&j->json);
    hw_json_key(&j->json, "edges");
    hw_json_begin_array(&j->json);
    put_edges(j);
    hw_json_end_array(&j->json);
    for (size_t i = 0; i < HW_ARRAY_LEN(empty); i++)
        put_list(&j->json, empty[i], NULL, 0);
    put_strings(j);
    hw_json_end_object(&j->json);
}

static void count_roots(struct job *j)
{
    uint32_t n_roots = 0;
    for (uint32_t o = 0; o < j->g->n_objects; o++)
        if (hw_object_is_root(j->g, o)) {
            j->n_roots[hw_object_root_type(j->g, o)]++;
            n_roots++;
        }
    j->is_v8 = n_roots == 1 && hw_object_is_root(j->g, 0) &&
               hw_bytes_equal(text(j, j->g->classes[j->g->type[0]].name), hw_bytes_str("(root)"));
    if (j->is_v8)
        return;
    j->n_before = 2;
    for (int k = 0; k < HW_ROOT_COUNT; k++)
        j->n_before += j->n_roots[k] != 0;
}

static int snapshot_write(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    const struct hw_heap_graph *g = in->graph;
    struct job j = {.p = in->profile, .g = g};
    j.class_name = calloc((size_t)g->n_classes + 1, sizeof *j.class_name);
    j.class_type = calloc((size_t)g->n_classes + 1, sizeof *j.class_type);
    j.field_name = calloc((size_t)g->n_fields + 1, sizeof *j.field_name);
    int rc = j.class_name && j.class_type && j.field_name ? hw_strings_new(&j.names) : HW_ENOMEM;
    if (rc == HW_OK) {
        hw_json_init(&j.json, hw_json_write_file, out, /* pretty = */ false);
        count_roots(&j);
        name_classes(&j);
        put_all(&j);
        rc = hw_json_finish(&j.json);
        if (rc == HW_OK)
            rc = j.rc;
        hw_json_done(&j.json);
        fputc('\n', out);
    }
    hw_strings_free(j.names);
    free(j.class_name);
    free(j.class_type);
    free(j.field_name);
    if (rc < 0 && rc != HW_ESYS) /* the stream's own failure is reported below */
        return hw_fail(err, rc, 0, "V8 heap snapshot:");
    return hw_export_finish(out, err);
}

const struct hw_exporter hw_export_v8_snapshot = {
    .name = "heapsnapshot",
    .summary = "V8 heap snapshot of a heap graph: Chrome's developer tools",
    .extension = ".heapsnapshot",
    .whole = true,
    .graph = true,
    .write = snapshot_write,
};

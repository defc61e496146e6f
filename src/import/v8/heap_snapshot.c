/*
 * heap_snapshot.c - V8's heap snapshots (.heapsnapshot) as heap graphs
 *
 * One JSON object. `snapshot.meta` says what the columns of two flat lists of numbers are:
 *
 *     nodes  type name id self_size edge_count …     one row per object; name: index into `strings`
 *     edges  type name_or_index to_node              one row per reference, in the nodes' order
 *
 * to_node is an index into the list `nodes`, not a row. The first node is the root of all.
 *
 * References keep an object alive by the rules of Chrome's developer tools: weak ones do not; a
 * shortcut does only from the root; of the two references to a WeakMap's value, the table's does
 * not, as the value lives no longer than its key. References that do not keep anything alive are
 * left out, so retained sizes are the same as there.
 */
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/progress.h"
#include "base/text/strbuf.h"
#include "codec/json_text.h"
#include "import/v8/v8.h"
#include "model/graph/heap_graph_build.h"
#include "model/profile.h"

#include "base/banned.h"

enum { MAX_COLUMNS = 32, NO_COLUMN = MAX_COLUMNS };
/* Limits the text of field names: a long class name times thousands of fields makes gigabytes. */
enum { NAMES_FREE = 64 << 20, NAMES_TIMES = 32 };

/* X(name in the file, enum) */
#define NODE_COLUMNS(X)                                                                            \
    X("type", NODE_TYPE)                                                                           \
    X("name", NODE_NAME) X("id", NODE_ID) X("self_size", NODE_SIZE) X("edge_count", NODE_EDGES)
#define EDGE_COLUMNS(X) X("type", EDGE_TYPE) X("name_or_index", EDGE_NAME) X("to_node", EDGE_TO)

enum node_column {
#define X(text, name) name,
    NODE_COLUMNS(X)
#undef X
        N_NODE_COLUMNS
};
enum edge_column {
#define X(text, name) name,
    EDGE_COLUMNS(X)
#undef X
        N_EDGE_COLUMNS
};

/* Kinds of nodes that matter here; see class_name(). */
enum node_kind {
    KIND_OTHER,
    KIND_NAMED,
    KIND_SYNTHETIC,
    KIND_HIDDEN,
    KIND_CODE,
    KIND_CLOSURE,
    KIND_REGEXP
};
enum pair { PAIR_UNKNOWN, PAIR_NO, PAIR_YES }; /* is_pair() */
enum edge_kind { EDGE_NAMED, EDGE_NUMBERED, EDGE_INTERNAL, EDGE_SHORTCUT, EDGE_WEAK };

struct columns {
    size_t n;               /* numbers per row */
    size_t at[MAX_COLUMNS]; /* by enum node_column or edge_column: its index in a row */
    struct hw_bytes types[MAX_COLUMNS];
    uint8_t kinds[MAX_COLUMNS]; /* by type */
    size_t n_types;
};

struct snapshot {
    struct hw_profile *p;
    struct hw_json_text json;
    struct columns nodes, edges;
    HW_VEC(struct hw_bytes) strings; /* raw, as in the file */
    HW_VEC(hw_str_id) names;         /* interned; v = 0: not yet */
    HW_VEC(uint8_t) pairs;           /* enum pair, by string */
    struct hw_graph_builder *b;
    struct hw_map64 classes; /* class_key() -> its number << 32 | its name */
    struct hw_map64 fields;  /* number << 32 | name -> field */
    struct hw_strbuf scratch, name;
    uint64_t n_nodes, n_bad, name_bytes;
    uint32_t n_classes;
};

/* ---- the columns ---- */

static bool is_text(const struct hw_json_value *v, const char *text)
{
    return v->type == HW_JSON_STRING && hw_bytes_equal(v->text, hw_bytes_str(text));
}

static void read_columns(struct columns *c, const struct hw_json_value *list,
                         const char *const *names, size_t n_names)
{
    struct hw_json_cursor at = hw_json_enter(list);
    struct hw_json_value v;
    for (size_t k = 0; k < n_names; k++)
        c->at[k] = NO_COLUMN;
    for (c->n = 0; c->n < MAX_COLUMNS && hw_json_next(&at, &v); c->n++)
        for (size_t k = 0; k < n_names; k++)
            if (is_text(&v, names[k]))
                c->at[k] = c->n;
}

/* The types are the type column's member of a list with one member per column. */
static void read_types(struct columns *c, const struct hw_json_value *list)
{
    struct hw_json_cursor at = hw_json_enter(list), types;
    struct hw_json_value v;
    for (size_t i = 0; i <= c->at[0] && hw_json_next(&at, &v); i++)
        if (i == c->at[0]) {
            types = hw_json_enter(&v);
            while (c->n_types < MAX_COLUMNS && hw_json_next(&types, &v))
                c->types[c->n_types++] = v.text;
        }
}

static uint8_t kind_among(struct hw_bytes type, const char *const *names, size_t n)
{
    for (size_t k = 1; k < n; k++)
        if (names[k] && hw_bytes_equal(type, hw_bytes_str(names[k])))
            return (uint8_t)k;
    return 0;
}

static void name_kinds(struct snapshot *s)
{
    static const char *const nodes[] = {
        [KIND_NAMED] = "object", [KIND_SYNTHETIC] = "synthetic", [KIND_HIDDEN] = "hidden",
        [KIND_CODE] = "code",    [KIND_CLOSURE] = "closure",     [KIND_REGEXP] = "regexp"};
    static const char *const edges[] = {[EDGE_NUMBERED] = "element",
                                        [EDGE_INTERNAL] = "internal",
                                        [EDGE_SHORTCUT] = "shortcut",
                                        [EDGE_WEAK] = "weak"};
    for (size_t i = 0; i < s->nodes.n_types; i++) {
        s->nodes.kinds[i] = kind_among(s->nodes.types[i], nodes, HW_ARRAY_LEN(nodes));
        if (hw_bytes_equal(s->nodes.types[i], hw_bytes_str("native")))
            s->nodes.kinds[i] = KIND_NAMED;
    }
    for (size_t i = 0; i < s->edges.n_types; i++) {
        s->edges.kinds[i] = kind_among(s->edges.types[i], edges, HW_ARRAY_LEN(edges));
        if (hw_bytes_equal(s->edges.types[i], hw_bytes_str("hidden")))
            s->edges.kinds[i] = EDGE_NUMBERED;
    }
}

static bool has_all(const struct columns *c, size_t n)
{
    for (size_t k = 0; k < n; k++)
        if (c->at[k] == NO_COLUMN)
            return false;
    return c->n_types != 0;
}

static int read_meta(struct snapshot *s, struct hw_error *err)
{
    static const char *const wanted[] = {"node_fields", "node_types", "edge_fields", "edge_types"};
    static const char *const node_names[] = {
#define X(text, name) text,
        NODE_COLUMNS(X)};
    static const char *const edge_names[] = {EDGE_COLUMNS(X)
#undef X
    };
    struct hw_json_value m[HW_ARRAY_LEN(wanted)];
    uint32_t snapshot = hw_json_text_find(&s->json, 0, "snapshot");
    uint32_t meta = snapshot ? hw_json_text_find(&s->json, snapshot, "meta") : 0;
    if (!meta)
        return hw_fail(err, HW_EFORMAT, 0, "a V8 heap snapshot without 'snapshot.meta'");
    struct hw_json_value v = hw_json_text_get(&s->json, meta);
    hw_json_members(&v, wanted, HW_ARRAY_LEN(wanted), m);
    read_columns(&s->nodes, &m[0], node_names, N_NODE_COLUMNS);
    read_columns(&s->edges, &m[2], edge_names, N_EDGE_COLUMNS);
    if (s->nodes.at[NODE_TYPE] != NO_COLUMN)
        read_types(&s->nodes, &m[1]);
    if (s->edges.at[EDGE_TYPE] != NO_COLUMN)
        read_types(&s->edges, &m[3]);
    if (!has_all(&s->nodes, N_NODE_COLUMNS) || !has_all(&s->edges, N_EDGE_COLUMNS))
        return hw_fail(err, HW_EFORMAT, (uint64_t)(v.text.p - s->json.text.p),
                       "a V8 heap snapshot whose 'meta' lacks a column that is needed (of nodes: "
                       "type, name, id, self_size, edge_count; of edges: type, name_or_index, "
                       "to_node)");
    name_kinds(s);
    return HW_OK;
}

static int member(struct snapshot *s, const char *name, struct hw_json_value *out,
                  struct hw_error *err)
{
    uint32_t at = hw_json_text_find(&s->json, 0, name);
    *out = hw_json_text_get(&s->json, at);
    return at && out->type == HW_JSON_LIST
               ? HW_OK
               : hw_fail(err, HW_EFORMAT, 0, "a V8 heap snapshot without the list '%s'", name);
}

/* ---- names ---- */

static int read_strings(struct snapshot *s, struct hw_error *err)
{
    struct hw_json_value list, v;
    int rc = member(s, "strings", &list, err);
    if (rc < 0)
        return rc;
    struct hw_json_cursor at = hw_json_enter(&list);
    while (hw_json_next(&at, &v))
        if (hw_vec_push(&s->strings, v.type == HW_JSON_STRING ? v.text : hw_bytes_str("")) < 0 ||
            hw_vec_push(&s->names, (hw_str_id){0}) < 0 || hw_vec_push(&s->pairs, PAIR_UNKNOWN) < 0)
            return hw_fail(err, HW_ENOMEM, 0, "strings of a V8 heap snapshot");
    return HW_OK;
}

/* As written in the file between its quotes; "" where there is none. */
static struct hw_bytes raw_string(const struct snapshot *s, uint64_t index)
{
    return index < s->strings.n ? s->strings.v[index] : hw_bytes_str("");
}

static int name_of(struct snapshot *s, uint64_t index, hw_str_id *out)
{
    struct hw_json_value v = {.type = HW_JSON_STRING, .text = raw_string(s, index)};
    if (index < s->names.n && s->names.v[index].v) {
        *out = s->names.v[index];
        return HW_OK;
    }
    hw_strbuf_clear(&s->scratch);
    int rc = hw_profile_str(s->p, hw_json_value_string(&v, &s->scratch), out);
    if (rc == HW_OK && index < s->names.n)
        s->names.v[index] = *out;
    return s->scratch.failed ? HW_ENOMEM : rc;
}

static bool has_own_name(const struct snapshot *s, uint64_t type)
{
    return s->nodes.kinds[type] == KIND_NAMED || s->nodes.kinds[type] == KIND_SYNTHETIC;
}

/* Classes are named as in Chrome's developer tools. Synthetic nodes are the root and its parts:
 * "(GC roots)", "(Stack roots)". */
static int class_name(struct snapshot *s, uint64_t type, uint64_t name, hw_str_id *out)
{
    static const char *const words[] = {[KIND_HIDDEN] = "(system)",
                                        [KIND_CODE] = "(compiled code)",
                                        [KIND_CLOSURE] = "Function",
                                        [KIND_REGEXP] = "RegExp"};
    uint8_t kind = s->nodes.kinds[type];
    if (kind == KIND_SYNTHETIC && raw_string(s, name).n == 0)
        return hw_profile_str(s->p, hw_bytes_str("(root)"), out);
    if (has_own_name(s, type))
        return name_of(s, name, out);
    if (kind != KIND_OTHER)
        return hw_profile_str(s->p, hw_bytes_str(words[kind]), out);
    hw_strbuf_clear(&s->name);
    hw_strbuf_addc(&s->name, '(');
    hw_strbuf_add(&s->name, s->nodes.types[type].p, s->nodes.types[type].n);
    hw_strbuf_addc(&s->name, ')');
    return s->name.failed ? HW_ENOMEM
                          : hw_profile_str(s->p, hw_bytes_of(s->name.p, s->name.n), out);
}

static uint64_t class_key(const struct snapshot *s, uint64_t type, uint64_t name)
{
    return (has_own_name(s, type) ? name + 1 : 0) * MAX_COLUMNS + type;
}

static int add_class(struct snapshot *s, uint64_t type, uint64_t name, uint64_t key)
{
    struct hw_graph_class c = {.kind = HW_KIND_NORMAL};
    uint64_t *seen;
    bool fresh;
    int rc = hw_map64_at(&s->classes, key, &seen, &fresh);
    if (rc < 0 || !fresh)
        return rc;
    rc = class_name(s, type, name, &c.name);
    *seen = (uint64_t)s->n_classes++ << 32 | c.name.v;
    return rc < 0 ? rc : hw_graph_class(s->b, key, &c);
}

/* Fields are named as in other graphs: Class.field. */
static int add_field(struct snapshot *s, hw_str_id class_name, uint64_t name, uint32_t *out)
{
    struct hw_json_value v = {.type = HW_JSON_STRING, .text = raw_string(s, name)};
    struct hw_bytes owner = hw_strings_get(hw_callsites_strings(s->p->callsites), class_name);
    hw_str_id id;
    hw_strbuf_clear(&s->name);
    hw_strbuf_clear(&s->scratch);
    hw_strbuf_add(&s->name, owner.p, owner.n);
    hw_strbuf_addc(&s->name, '.');
    struct hw_bytes text = hw_json_value_string(&v, &s->scratch);
    hw_strbuf_add(&s->name, text.p, text.n);
    if (s->name.failed || s->scratch.failed)
        return HW_ENOMEM;
    s->name_bytes += s->name.n;
    if (s->name_bytes > NAMES_FREE && (s->name_bytes - NAMES_FREE) / NAMES_TIMES > s->json.text.n)
        return HW_ELIMIT;
    int rc = hw_profile_str(s->p, hw_bytes_of(s->name.p, s->name.n), &id);
    return rc < 0 ? rc : hw_graph_field(s->b, id, (hw_str_id){0}, out);
}

static int field_of(struct snapshot *s, uint64_t class, uint64_t name, uint32_t *out)
{
    uint64_t row = *hw_map64_find(&s->classes, class), *number;
    bool fresh;
    int rc =
        hw_map64_at(&s->fields, (row & ~(uint64_t)UINT32_MAX) | (uint32_t)name, &number, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        rc = add_field(s, (hw_str_id){(uint32_t)row}, name, out);
        *number = rc < 0 ? 0 : *out;
    }
    *out = (uint32_t)*number;
    return rc;
}

/* ---- objects and references ---- */

/* The next row of a list; false at its end. Anything but an integer >= 0 is bad and read as 0. */
static bool next_row(struct snapshot *s, struct hw_json_cursor *c, const struct columns *columns,
                     uint64_t *row)
{
    struct hw_json_value v;
    for (size_t i = 0; i < columns->n; i++) {
        if (!hw_json_next(c, &v))
            return false;
        bool good = v.type == HW_JSON_INTEGER && v.integer >= 0;
        row[i] = good ? (uint64_t)v.integer : 0;
        s->n_bad += !good;
    }
    return true;
}

static bool ends_with_number(struct hw_bytes text, uint64_t number)
{
    uint64_t factor = 1, seen = 0;
    while (text.n && text.p[text.n - 1] >= '0' && text.p[text.n - 1] <= '9' && factor < 1u << 30) {
        seen += (uint64_t)(text.p[--text.n] - '0') * factor;
        factor *= 10;
    }
    return factor > 1 && seen == number && text.n && text.p[text.n - 1] == '@';
}

/* "7 / part of key (K @3) -> value (V @5) pair in WeakMap (table @9)". Computed once per string,
 * which may be long and name many references. */
static bool is_pair(struct snapshot *s, uint64_t name)
{
    static const char part[] = " / part of key (";
    struct hw_bytes text = raw_string(s, name);
    if (name >= s->pairs.n)
        return false;
    if (s->pairs.v[name] == PAIR_UNKNOWN) {
        bool is =
            text.n && text.p[text.n - 1] == ')' && memmem(text.p, text.n, part, sizeof part - 1);
        s->pairs.v[name] = is ? PAIR_YES : PAIR_NO;
    }
    return s->pairs.v[name] == PAIR_YES;
}

/* Is the reference the table's own? */
static bool is_of_weak_table(struct snapshot *s, uint64_t name, uint64_t owner_id)
{
    struct hw_bytes text = raw_string(s, name);
    return is_pair(s, name) && ends_with_number(hw_bytes_of(text.p, text.n - 1), owner_id);
}

static int add_reference(struct snapshot *s, const uint64_t *node, const uint64_t *edge,
                         uint64_t class, bool is_root)
{
    uint64_t type = edge[s->edges.at[EDGE_TYPE]], name = edge[s->edges.at[EDGE_NAME]];
    uint64_t to = edge[s->edges.at[EDGE_TO]] / s->nodes.n;
    uint32_t field = HW_FIELD_NONE;
    uint8_t kind = type < s->edges.n_types ? s->edges.kinds[type] : (uint8_t)EDGE_WEAK;
    if (to >= s->n_nodes || edge[s->edges.at[EDGE_TO]] % s->nodes.n || type >= s->edges.n_types) {
        s->n_bad++;
        return HW_OK;
    }
    if (kind == EDGE_WEAK || (kind == EDGE_SHORTCUT && !is_root) ||
        (kind == EDGE_INTERNAL && is_of_weak_table(s, name, node[s->nodes.at[NODE_ID]])))
        return HW_OK;
    int rc = kind == EDGE_NUMBERED ? HW_OK : field_of(s, class, name, &field);
    return rc < 0 ? rc : hw_graph_ref(s->b, to + 1, field);
}

static int add_object(struct snapshot *s, uint64_t number, const uint64_t *node, uint64_t *class)
{
    uint64_t type = node[s->nodes.at[NODE_TYPE]], name = node[s->nodes.at[NODE_NAME]];
    if (type >= s->nodes.n_types || name >= s->strings.n) {
        s->n_bad++;
        type = 0;
        name = name < s->strings.n ? name : 0;
    }
    *class = class_key(s, type, name);
    struct hw_graph_object o = {.id = number + 1,
                                .class_id = *class,
                                .self_size = node[s->nodes.at[NODE_SIZE]],
                                .heap_type = HW_HEAP_TYPE_APP};
    int rc = add_class(s, type, name, *class);
    return rc < 0 ? rc : hw_graph_object(s->b, &o);
}

static uint64_t count_rows(const struct hw_json_value *list, size_t columns)
{
    struct hw_json_cursor c = hw_json_enter(list);
    struct hw_json_value v;
    uint64_t n = 0;
    while (hw_json_next(&c, &v))
        n++;
    return n / columns;
}

static int add_all(struct snapshot *s, struct hw_error *err)
{
    struct hw_json_value nodes, edges;
    uint64_t node[MAX_COLUMNS], edge[MAX_COLUMNS], class, number = 0;
    int rc = member(s, "nodes", &nodes, err);
    if (rc == HW_OK)
        rc = member(s, "edges", &edges, err);
    if (rc < 0)
        return rc;
    struct hw_json_cursor at = hw_json_enter(&nodes), refs = hw_json_enter(&edges);
    s->n_nodes = count_rows(&nodes, s->nodes.n);
    for (; rc == HW_OK && next_row(s, &at, &s->nodes, node); number++) {
        rc = add_object(s, number, node, &class);
        uint64_t n = node[s->nodes.at[NODE_EDGES]];
        for (uint64_t i = 0; rc == HW_OK && i < n; i++) {
            if (!next_row(s, &refs, &s->edges, edge)) {
                s->n_bad++;
                break;
            }
            rc = add_reference(s, node, edge, class, number == 0);
        }
        hw_progress_at(s->p->progress, (uint64_t)(refs.p - s->json.text.p), s->json.text.n);
    }
    if (rc == HW_OK && next_row(s, &refs, &s->edges, edge))
        s->n_bad++; /* references without a node */
    if (rc == HW_OK && number)
        rc = hw_graph_root(s->b, 1, HW_ROOT_VM_INTERNAL);
    return rc < 0 ? hw_fail(err, rc, 0, "V8 heap snapshot:") : HW_OK;
}

/* ---- the file ---- */

static int add_graph(struct snapshot *s)
{
    struct hw_heap_graph *g = NULL;
    struct hw_graph_faults faults = {0};
    int rc = hw_graph_finish(s->b, &g, &faults);
    if (rc < 0)
        return rc;
    g->heap_size = -1;
    rc = hw_profile_process(s->p, 0, &g->upid);
    if (rc == HW_OK && s->n_bad)
        rc = hw_profile_stat_add(s->p, "heap_graph_malformed_packet", 0, HW_STAT_ERROR,
                                 s->n_bad > INT64_MAX ? INT64_MAX : (int64_t)s->n_bad);
    if (rc == HW_OK)
        return hw_profile_add_graph(s->p, g);
    hw_heap_graph_free(g);
    return rc;
}

static int import(struct snapshot *s, struct hw_bytes file, struct hw_error *err)
{
    int rc = hw_json_text_read(&s->json, file, 2);
    if (rc < 0)
        return hw_fail(err, rc, 0,
                       "a V8 heap snapshot that is no whole JSON text: it was cut off or damaged:");
    rc = hw_graph_builder_new(hw_callsites_strings(s->p->callsites), &s->b);
    if (rc < 0)
        return hw_fail(err, rc, 0, "V8 heap snapshot:");
    rc = read_meta(s, err);
    if (rc == HW_OK)
        rc = read_strings(s, err);
    if (rc == HW_OK)
        rc = add_all(s, err);
    if (rc < 0)
        return rc;
    rc = add_graph(s);
    return rc < 0 ? hw_fail(err, rc, 0, "V8 heap snapshot:") : HW_OK;
}

static int read_snapshot(struct hw_bytes file, struct hw_profile *into, struct hw_error *err)
{
    struct snapshot s = {.p = into};
    int rc = import(&s, file, err);
    hw_graph_builder_free(s.b);
    hw_json_text_done(&s.json);
    hw_vec_done(&s.strings);
    hw_vec_done(&s.names);
    hw_vec_done(&s.pairs);
    hw_map64_done(&s.fields);
    hw_map64_done(&s.classes);
    hw_strbuf_done(&s.scratch);
    hw_strbuf_done(&s.name);
    return rc;
}

static int probe(struct hw_bytes head)
{
    static const char snapshot[] = "\"snapshot\"", fields[] = "\"node_fields\"";
    return head.n && head.p[0] == '{' && memmem(head.p, head.n, snapshot, sizeof snapshot - 1) &&
                   memmem(head.p, head.n, fields, sizeof fields - 1)
               ? 90
               : 0;
}

const struct hw_importer hw_import_v8_snapshot = {
    .name = "heapsnapshot",
    .summary = "JavaScript heap snapshot of V8 (.heapsnapshot): Node.js, Chrome",
    .probe = probe,
    .read = read_snapshot,
};

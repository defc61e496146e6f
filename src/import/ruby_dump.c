/*
 * ruby_dump.c - what Ruby's ObjectSpace.dump_all writes, as a heap graph
 *
 * One JSON object per line: {"address": "0x…", "type": "STRING", "class": "0x…", "memsize": 40,
 * "references": ["0x…", …], …}. Classes are objects, too, and may follow their instances, so the
 * file is read twice. {"type": "ROOT", "root": "vm", "references": […]} is not an object; each
 * becomes an object "(vm)" that is a root, so that a path shows what keeps an object alive.
 *
 * An object with a singleton class belongs to the class behind it, as with `obj.class`. Ruby's
 * internal objects have no class that a program sees: "(imemo callcache)", "(iclass)".
 */
#include "import/ruby_dump.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/progress.h"
#include "base/text/strbuf.h"
#include "codec/json_text.h"
#include "codec/text_lines.h"
#include "model/graph/heap_graph_build.h"
#include "model/profile.h"

#include "base/banned.h"

enum { MAX_SINGLETONS = 64 }; /* in a row */

struct class_seen {
    uint64_t address;
    hw_str_id name; /* 0 = none */
    uint64_t superclass;
    bool is_singleton;
};

struct dump {
    struct hw_profile *p;
    struct hw_json_text json;
    struct hw_graph_builder *b;
    HW_VEC(struct class_seen) classes;
    struct hw_map64 class_of; /* address -> row of classes */
    uint32_t class_field;     /* field of references to classes */
    struct hw_map64 words;    /* hw_str_id of "(imemo …)": the builder has that class */
    struct hw_strbuf scratch;
    uint64_t n_bad, n_roots;
};

enum member {
    TYPE,
    ADDRESS,
    CLASS,
    MEMSIZE,
    REFERENCES,
    NAME,
    SUPERCLASS,
    SINGLETON,
    IMEMO_TYPE,
    ROOT,
    N_MEMBERS
};
static const char *const members[N_MEMBERS] = {"type",       "address", "class",      "memsize",
                                               "references", "name",    "superclass", "singleton",
                                               "imemo_type", "root"};

static bool is_text(const struct hw_json_value *v, const char *text)
{
    return v->type == HW_JSON_STRING && hw_bytes_equal(v->text, hw_bytes_str(text));
}

/* "0x7fe1183841a8"; 0 = no address. */
static uint64_t address(const struct hw_json_value *v)
{
    uint64_t out = 0;
    if (v->type != HW_JSON_STRING || v->text.n < 3 || v->text.n > 18 || v->text.p[0] != '0' ||
        v->text.p[1] != 'x')
        return 0;
    for (size_t i = 2; i < v->text.n; i++) {
        uint8_t c = v->text.p[i] | 0x20;
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
            return 0;
        out = out << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return out;
}

static int text_of(struct dump *d, const struct hw_json_value *v, hw_str_id *out)
{
    hw_strbuf_clear(&d->scratch);
    struct hw_bytes text = hw_json_value_string(v, &d->scratch);
    return d->scratch.failed ? HW_ENOMEM : hw_profile_str(d->p, text, out);
}

/* Members of the next line that is an object; false at the end. */
static bool next_line(struct dump *d, struct hw_lines *lines, struct hw_json_value *m, int *rc)
{
    struct hw_bytes line;
    while (*rc == HW_OK && hw_lines_next(lines, &line)) {
        if (line.n == 0)
            continue;
        int read = hw_json_text_read(&d->json, line, 0);
        if (read == HW_ENOMEM)
            *rc = read;
        struct hw_json_value v = {0};
        if (read == HW_OK)
            v = hw_json_text_get(&d->json, 0);
        if (v.type == HW_JSON_OBJECT) {
            hw_json_members(&v, members, N_MEMBERS, m);
            return true;
        }
        d->n_bad++;
    }
    return false;
}

/* ---- classes ---- */

static int read_class(struct dump *d, const struct hw_json_value *m)
{
    struct class_seen c = {.address = address(&m[ADDRESS]),
                           .superclass = address(&m[SUPERCLASS]),
                           .is_singleton = m[SINGLETON].type == HW_JSON_TRUE};
    uint64_t *row;
    bool fresh;
    if (c.address == 0)
        return HW_OK; /* counted as bad in add_object() */
    int rc = m[NAME].type == HW_JSON_STRING ? text_of(d, &m[NAME], &c.name) : HW_OK;
    if (rc == HW_OK)
        rc = hw_map64_at(&d->class_of, c.address, &row, &fresh);
    if (rc < 0 || !fresh)
        return rc;
    *row = d->classes.n;
    return hw_vec_push(&d->classes, c) < 0 ? HW_ENOMEM : HW_OK;
}

static const struct class_seen *class_at(const struct dump *d, uint64_t at)
{
    uint64_t row;
    return hw_map64_get(&d->class_of, at, &row) ? &d->classes.v[row] : NULL;
}

static uint64_t skip_singletons(const struct dump *d, uint64_t at)
{
    for (unsigned i = 0; i < MAX_SINGLETONS; i++) {
        const struct class_seen *c = class_at(d, at);
        if (!c || !c->is_singleton || !class_at(d, c->superclass))
            return at;
        at = c->superclass;
    }
    return at;
}

static int add_classes(struct dump *d)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < d->classes.n; i++) {
        const struct class_seen *c = &d->classes.v[i];
        struct hw_graph_class g = {.name = c->name, .kind = HW_KIND_NORMAL};
        if (!g.name.v)
            rc = hw_profile_str(d->p, hw_bytes_str("(anonymous class)"), &g.name);
        g.superclass = skip_singletons(d, c->superclass);
        g.has_superclass = class_at(d, g.superclass) && g.superclass != c->address;
        if (rc == HW_OK)
            rc = hw_graph_class(d->b, c->address, &g);
    }
    return rc;
}

/* A class named by a word, with an odd id: addresses of objects are multiples of 8. */
static int word_class(struct dump *d, const char *prefix, struct hw_bytes word, uint64_t *id)
{
    struct hw_graph_class g = {.kind = HW_KIND_NORMAL};
    bool fresh;
    uint64_t *seen;
    hw_strbuf_clear(&d->scratch);
    hw_strbuf_addc(&d->scratch, '(');
    hw_strbuf_adds(&d->scratch, prefix);
    for (size_t i = 0; i < word.n; i++)
        hw_strbuf_addc(&d->scratch,
                       (char)(word.p[i] >= 'A' && word.p[i] <= 'Z' ? word.p[i] | 0x20 : word.p[i]));
    hw_strbuf_addc(&d->scratch, ')');
    int rc = d->scratch.failed
                 ? HW_ENOMEM
                 : hw_profile_str(d->p, hw_bytes_of(d->scratch.p, d->scratch.n), &g.name);
    if (rc == HW_OK)
        rc = hw_map64_at(&d->words, g.name.v, &seen, &fresh);
    if (rc < 0)
        return rc;
    *id = (uint64_t)g.name.v << 1 | 1;
    return fresh ? hw_graph_class(d->b, *id, &g) : HW_OK;
}

/* ---- objects ---- */

static int class_id(struct dump *d, const struct hw_json_value *m, uint64_t *out)
{
    static const char *const internal[] = {"IMEMO", "ICLASS", "NODE"};
    uint64_t at = address(&m[CLASS]);
    bool is_internal = !class_at(d, at);
    for (size_t i = 0; i < HW_ARRAY_LEN(internal); i++)
        is_internal |= is_text(&m[TYPE], internal[i]);
    if (!is_internal) {
        *out = skip_singletons(d, at);
        return HW_OK;
    }
    if (is_text(&m[TYPE], "IMEMO") && m[IMEMO_TYPE].type == HW_JSON_STRING)
        return word_class(d, "imemo ", m[IMEMO_TYPE].text, out);
    return word_class(d, "", m[TYPE].text, out);
}

static int add_references(struct dump *d, const struct hw_json_value *list)
{
    struct hw_json_cursor c = hw_json_enter(list);
    struct hw_json_value v;
    int rc = HW_OK;
    while (rc == HW_OK && hw_json_next(&c, &v)) {
        uint64_t to = address(&v);
        d->n_bad += to == 0;
        rc = to ? hw_graph_ref(d->b, to, HW_FIELD_NONE) : HW_OK;
    }
    return rc;
}

static int add_root(struct dump *d, const struct hw_json_value *m)
{
    struct hw_graph_object o = {.id = ++d->n_roots << 1 | 1, .heap_type = HW_HEAP_TYPE_APP};
    int rc = word_class(d, "", m[ROOT].type == HW_JSON_STRING ? m[ROOT].text : hw_bytes_str("root"),
                        &o.class_id);
    if (rc == HW_OK)
        rc = hw_graph_object(d->b, &o);
    if (rc == HW_OK)
        rc = add_references(d, &m[REFERENCES]);
    return rc < 0 ? rc : hw_graph_root(d->b, o.id, HW_ROOT_VM_INTERNAL);
}

static int add_object(struct dump *d, const struct hw_json_value *m)
{
    struct hw_graph_object o = {.id = address(&m[ADDRESS]), .heap_type = HW_HEAP_TYPE_APP};
    if (is_text(&m[TYPE], "ROOT"))
        return add_root(d, m);
    if (m[TYPE].type != HW_JSON_STRING || o.id == 0 || (o.id & 1)) {
        d->n_bad++;
        return HW_OK;
    }
    if (m[MEMSIZE].type == HW_JSON_INTEGER && m[MEMSIZE].integer > 0)
        o.self_size = (uint64_t)m[MEMSIZE].integer;
    int rc = class_id(d, m, &o.class_id);
    if (rc == HW_OK)
        rc = hw_graph_object(d->b, &o);
    /* An object keeps its class alive, also a singleton class. Ruby does not list it among the
     * references. */
    uint64_t class = address(&m[CLASS]);
    if (rc == HW_OK && class_at(d, class))
        rc = hw_graph_ref(d->b, class, d->class_field);
    return rc < 0 ? rc : add_references(d, &m[REFERENCES]);
}

static int name_class_field(struct dump *d)
{
    hw_str_id name;
    int rc = hw_profile_str(d->p, hw_bytes_str("(class)"), &name);
    return rc < 0 ? rc : hw_graph_field(d->b, name, (hw_str_id){0}, &d->class_field);
}

static int add_all(struct dump *d, struct hw_bytes file)
{
    struct hw_json_value m[N_MEMBERS];
    struct hw_lines lines = hw_lines_of(file);
    int rc = HW_OK;
    while (next_line(d, &lines, m, &rc))
        if (is_text(&m[TYPE], "CLASS") || is_text(&m[TYPE], "MODULE"))
            rc = read_class(d, m);
    if (rc == HW_OK)
        rc = add_classes(d);
    if (rc == HW_OK)
        rc = name_class_field(d);
    lines = hw_lines_of(file);
    d->n_bad = 0; /* the second pass counts them again */
    while (next_line(d, &lines, m, &rc)) {
        rc = add_object(d, m);
        hw_progress_at(d->p->progress, lines.offset, file.n);
    }
    return rc;
}

/* ---- the file ---- */

static int add_graph(struct dump *d)
{
    struct hw_heap_graph *g = NULL;
    struct hw_graph_faults faults = {0};
    int rc = hw_graph_finish(d->b, &g, &faults);
    if (rc < 0)
        return rc;
    g->heap_size = -1;
    d->n_bad += faults.duplicate_objects;
    rc = hw_profile_process(d->p, 0, &g->upid);
    if (rc == HW_OK && d->n_bad)
        rc = hw_profile_stat_add(d->p, "heap_graph_malformed_packet", 0, HW_STAT_ERROR,
                                 d->n_bad > INT64_MAX ? INT64_MAX : (int64_t)d->n_bad);
    if (rc == HW_OK)
        return hw_profile_add_graph(d->p, g);
    hw_heap_graph_free(g);
    return rc;
}

static int read_dump(struct hw_bytes file, struct hw_profile *into, struct hw_error *err)
{
    struct dump d = {.p = into};
    int rc = hw_graph_builder_new(hw_callsites_strings(into->callsites), &d.b);
    if (rc == HW_OK)
        rc = add_all(&d, file);
    if (rc == HW_OK)
        rc = add_graph(&d);
    hw_graph_builder_free(d.b);
    hw_json_text_done(&d.json);
    hw_vec_done(&d.classes);
    hw_map64_done(&d.class_of);
    hw_map64_done(&d.words);
    hw_strbuf_done(&d.scratch);
    return rc < 0 ? hw_fail(err, rc, 0, "Ruby heap dump:") : HW_OK;
}

/* The roots come first. */
static int probe(struct hw_bytes head)
{
    static const char root[] = "\"type\":\"ROOT\"", address_of[] = "\"address\":\"0x",
                      type[] = "\"type\":\"";
    size_t n = head.n < 64 ? head.n : 64;
    if (n == 0 || head.p[0] != '{')
        return 0;
    if (memmem(head.p, n, root, sizeof root - 1))
        return 90;
    return memmem(head.p, n, address_of, sizeof address_of - 1) &&
                   memmem(head.p, n, type, sizeof type - 1)
               ? 60
               : 0;
}

const struct hw_importer hw_import_ruby = {
    .name = "rubyheap",
    .summary = "Ruby heap dump: ObjectSpace.dump_all, JSON lines",
    .probe = probe,
    .read = read_dump,
};

/*
 * The code walks the profile, not the map: a map has a million methods, of which a trace has a few
 * hundred. So a packet's classes are put into a table by their short name, in which every frame,
 * class and field of the profile is looked up.
 */
#include "import/deobfuscate.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "codec/pb.h"
#include "import/code_packages.h"
#include "model/graph/heap_graph.h"
#include "model/profile.h"
#include "schema/fields.h"

#include "base/banned.h"

#define ALTERNATIVES " | "

enum { MAX_NAME = 1 << 16 };

struct class
{
    struct hw_bytes obfuscated, original, message;
    uint32_t next; /* with the same hash; index + 1, 0 = none */
};

struct member {
    struct hw_bytes obfuscated, original;
    uint32_t first, last;               /* obfuscated lines; 0 = none */
    uint32_t source_first, source_last; /* original ones */
};

struct mapping {
    struct hw_profile *p;
    struct hw_bytes package;
    bool runs; /* a process of that name is in the trace: its JIT code is the package's */
    const struct hw_code_packages *packages; /* borrowed */
    HW_VEC(struct class) classes;
    struct hw_map64 by_name;     /* hash -> newest class + 1 */
    HW_VEC(uint8_t) matches;     /* by mapping of the profile: enum match */
    HW_VEC(struct member) found; /* the entries of one method, as in the packet */
    HW_VEC(struct hw_bytes) names;
    HW_VEC(struct hw_symbol_line) chain;
    struct hw_strbuf text, file;
};

static struct hw_bytes text_of(const struct mapping *m, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(m->p->callsites), id);
}

/* ---- the packet ---- */

static uint64_t key_of(struct hw_bytes name)
{
    return hw_hash_bytes(name.p, name.n);
}

static int read_class(struct mapping *m, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct class c = {.message = message};
    uint64_t newest = 0;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_ObfuscatedClass_obfuscated_name && f.wire == HW_PB_BYTES)
            c.obfuscated = f.bytes;
        else if (f.number == HW_F_ObfuscatedClass_deobfuscated_name && f.wire == HW_PB_BYTES)
            c.original = f.bytes;
    }
    if (c.obfuscated.n == 0 || m->classes.n >= UINT32_MAX)
        return HW_OK;
    (void)hw_map64_get(&m->by_name, key_of(c.obfuscated), &newest); /* absent: the first */
    c.next = (uint32_t)newest;
    return hw_vec_push(&m->classes, c) < 0
               ? HW_ENOMEM
               : hw_map64_put(&m->by_name, key_of(c.obfuscated), m->classes.n);
}

static const struct class *find_class(const struct mapping *m, struct hw_bytes name)
{
    uint64_t i = 0;
    (void)hw_map64_get(&m->by_name, key_of(name), &i); /* absent: none */
    while (i && !hw_bytes_equal(m->classes.v[i - 1].obfuscated, name))
        i = m->classes.v[i - 1].next;
    return i ? &m->classes.v[i - 1] : NULL;
}

static struct member read_member(struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct member x = {0};
    while (hw_pb_next(&r, &f) == 1) {
        switch (f.number) {
        case HW_F_ObfuscatedMember_obfuscated_name:
            x.obfuscated = f.bytes;
            break;
        case HW_F_ObfuscatedMember_deobfuscated_name:
            x.original = f.bytes;
            break;
        case HW_F_ObfuscatedMember_obfuscated_line_start:
            x.first = (uint32_t)f.value;
            break;
        case HW_F_ObfuscatedMember_obfuscated_line_end:
            x.last = (uint32_t)f.value;
            break;
        case HW_F_ObfuscatedMember_source_line_start:
            x.source_first = (uint32_t)f.value;
            break;
        case HW_F_ObfuscatedMember_source_line_end:
            x.source_last = (uint32_t)f.value;
            break;
        default:
            break;
        }
    }
    return x;
}

static int find_members(struct mapping *m, const struct class *c, struct hw_bytes name,
                        uint32_t kind)
{
    struct hw_pb_reader r = hw_pb_read(c->message);
    struct hw_pb_field f;
    hw_vec_clear(&m->found);
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number != kind || f.wire != HW_PB_BYTES)
            continue;
        struct member x = read_member(f.bytes);
        if (hw_bytes_equal(x.obfuscated, name) && hw_vec_push(&m->found, x) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

/* ---- names ---- */

static void add_qualified(struct hw_strbuf *out, const struct class *c, struct hw_bytes name)
{
    if (!name.n || !memchr(name.p, '.', name.n)) {
        hw_strbuf_add(out, c->original.p, c->original.n);
        hw_strbuf_addc(out, '.');
    }
    hw_strbuf_add(out, name.p, name.n);
}

static int compare_names(const void *pa, const void *pb)
{
    const struct hw_bytes *a = pa, *b = pb;
    size_t n = a->n < b->n ? a->n : b->n;
    int d = n ? memcmp(a->p, b->p, n) : 0;
    return d ? d : a->n < b->n ? -1 : a->n > b->n;
}

static bool same_range(const struct member *a, const struct member *b)
{
    return a->first && a->first == b->first && a->last == b->last;
}

/* b continues a's chain: the same range, with b's line the place where a was inlined. */
static bool is_inlined_into(const struct member *a, const struct member *b)
{
    return same_range(a, b) &&
           (a->source_first != b->source_first || a->source_last != b->source_last);
}

/* Without a line: the entries that have none (they say what to show), else the outermost of each
 * chain; different names are joined. */
static int name_without_line(struct mapping *m, const struct class *c)
{
    const struct member *v = m->found.v;
    size_t n = m->found.n, n_plain = 0;
    hw_strbuf_clear(&m->text);
    hw_vec_clear(&m->names);
    for (size_t i = 0; i < n; i++)
        n_plain += v[i].first == 0;
    for (size_t i = 0; i < n; i++) {
        bool counts = n_plain ? v[i].first == 0 : i + 1 == n || !is_inlined_into(&v[i], &v[i + 1]);
        if (counts && hw_vec_push(&m->names, v[i].original) < 0)
            return HW_ENOMEM;
    }
    if (m->names.n)
        qsort(m->names.v, m->names.n, sizeof *m->names.v, compare_names);
    for (size_t i = 0; i < m->names.n && m->text.n < MAX_NAME; i++) {
        if (i && hw_bytes_equal(m->names.v[i], m->names.v[i - 1]))
            continue;
        if (i)
            hw_strbuf_adds(&m->text, ALTERNATIVES);
        add_qualified(&m->text, c, m->names.v[i]);
    }
    return m->text.failed ? HW_ENOMEM : HW_OK;
}

/* ---- frames with a line ---- */

/* Placeholders for an omitted file name: "SourceFile", R8's "r8-map-id-…", nothing. */
static bool is_placeholder_file(struct hw_bytes file)
{
    static const char *const placeholders[] = {"SourceFile", "Unknown Source", "PG", "Proguard"};
    for (size_t i = 0; i < HW_ARRAY_LEN(placeholders); i++)
        if (hw_bytes_equal(file, hw_bytes_str(placeholders[i])))
            return true;
    return file.n == 0 || (file.n > 10 && memcmp(file.p, "r8-map-id-", 10) == 0);
}

/* As retrace does: the outermost class's simple name. */
static void guess_file(struct hw_strbuf *out, struct hw_bytes class_name)
{
    const uint8_t *dot = class_name.n ? memrchr(class_name.p, '.', class_name.n) : NULL;
    const uint8_t *start = dot ? dot + 1 : class_name.p, *end = hw_bytes_end(class_name);
    const uint8_t *inner = start < end ? memchr(start + 1, '$', (size_t)(end - start - 1)) : NULL;
    hw_strbuf_add(out, start, (size_t)((inner ? inner : end) - start));
    hw_strbuf_adds(out, ".java");
}

static int add_to_chain(struct mapping *m, const struct class *c, const struct hw_frame *f,
                        const struct member *x)
{
    struct hw_symbol_line line = {.line = f->line};
    const uint8_t *dot = x->original.n ? memrchr(x->original.p, '.', x->original.n) : NULL;
    struct hw_bytes of =
        dot ? hw_bytes_of(x->original.p, (size_t)(dot - x->original.p)) : c->original;
    if (x->source_first && x->source_last == x->source_first)
        line.line = x->source_first;
    else if (x->source_first)
        line.line = x->source_first + (f->line - x->first);
    hw_strbuf_clear(&m->text);
    add_qualified(&m->text, c, x->original);
    hw_strbuf_clear(&m->file);
    if (is_placeholder_file(text_of(m, f->file)) || !hw_bytes_equal(of, c->original))
        guess_file(&m->file, of);
    else
        hw_strbuf_add(&m->file, text_of(m, f->file).p, text_of(m, f->file).n);
    if (m->text.failed || m->file.failed)
        return HW_ENOMEM;
    int rc = hw_profile_str(m->p, hw_bytes_of(m->text.p, m->text.n), &line.function);
    if (rc == HW_OK)
        rc = hw_profile_str(m->p, hw_bytes_of(m->file.p, m->file.n), &line.file);
    if (rc == HW_OK && hw_vec_push(&m->chain, line) < 0)
        rc = HW_ENOMEM;
    return rc;
}

static bool holds(const struct member *x, uint32_t line)
{
    return x->first && x->first <= line && (!x->last || line <= x->last);
}

/* All entries whose range contains the line, innermost first as in the packet. */
static int chain_at_line(struct mapping *m, const struct class *c, const struct hw_frame *f)
{
    int rc = HW_OK;
    hw_vec_clear(&m->chain);
    for (size_t i = 0; rc == HW_OK && i < m->found.n && m->chain.n < HW_MAX_SYMBOL_LINES; i++)
        if (holds(&m->found.v[i], f->line))
            rc = add_to_chain(m, c, f, &m->found.v[i]);
    return rc;
}

/* ---- which frames ---- */

/* Is the package a whole part of an installation path: "/pkg/" or "/pkg-"? */
static bool names_package(struct hw_bytes path, struct hw_bytes package)
{
    const uint8_t *p = path.p, *end = hw_bytes_end(path);
    while (package.n && path.n && (size_t)(end - p) > package.n) {
        p = memmem(p, (size_t)(end - p), package.p, package.n);
        if (!p || p + package.n >= end)
            return false;
        if (p > path.p && p[-1] == '/' && (p[package.n] == '/' || p[package.n] == '-'))
            return true;
        p++;
    }
    return false;
}

static bool is_jit(struct hw_bytes path)
{
    return !path.p || path.n == 0 || memmem(path.p, path.n, "memfd:", 6) ||
           memmem(path.p, path.n, "[anon", 5) || memmem(path.p, path.n, "jit-cache", 9);
}

/* By the process's name: "pkg", "pkg:part". */
static bool process_has_name(const struct mapping *m, hw_upid upid)
{
    struct hw_bytes name = text_of(m, m->p->processes.v[upid.v].name);
    return m->package.n && name.n >= m->package.n &&
           memcmp(name.p, m->package.p, m->package.n) == 0 &&
           (name.n == m->package.n || name.p[m->package.n] == ':');
}

/* Whether frames of a mapping belong to the package. On Linux only the names of their classes,
 * obfuscated or not, tell. */
enum match { MATCH_NONE, MATCH_ALL, MATCH_BY_CLASS, MATCH_BY_PROCESS };

static bool begins_with(struct hw_bytes name, struct hw_bytes package)
{
    return package.n && name.n >= package.n && memcmp(name.p, package.p, package.n) == 0 &&
           (name.n == package.n || name.p[package.n] == '.');
}

static bool is_in_package(const struct mapping *m, const struct class *c)
{
    return m->package.n == 0 || begins_with(c->original, m->package) ||
           begins_with(c->obfuscated, m->package);
}

/* Frames named by a JVM, with or without an archive. */
static bool is_of_jvm(struct hw_bytes path)
{
    static const char java[] = "[java]";
    if (path.n && path.p[0] == '/') /* joining the parts of a path put one in front */
        path = hw_bytes_of(path.p + 1, path.n - 1);
    return hw_bytes_start_with(path, java);
}

/* Code in a memory file may belong to any package. */
static bool is_memory_file(struct hw_bytes path)
{
    static const char start[] = "/memfd:";
    return hw_bytes_start_with(path, start);
}

static enum match match_path(const struct mapping *m, struct hw_bytes path)
{
    struct hw_bytes package = hw_package_of_path(path);
    if (names_package(path, m->package) ||
        (m->package.n && (hw_bytes_equal(package, m->package) || is_memory_file(path))))
        return MATCH_ALL;
    if (package.n)
        return MATCH_NONE;
    return is_of_jvm(path) ? MATCH_BY_CLASS : MATCH_BY_PROCESS;
}

static int match_mappings(struct mapping *m)
{
    const struct hw_callsites *cs = m->p->callsites;
    for (uint32_t i = 0; i < m->p->processes.n; i++)
        m->runs |= process_has_name(m, (hw_upid){i});
    for (uint32_t i = 0; i < hw_callsites_n_mappings(cs); i++) {
        struct hw_bytes path = text_of(m, hw_callsites_get_mapping(cs, (hw_mapping_id){i})->path);
        if (hw_vec_push(&m->matches, (uint8_t)match_path(m, path)) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

/* Code whose path does not name a package belongs to that of the process it was seen in. If that is
 * unknown, generated code belongs to the package if a process has its name. */
static bool is_of_process(const struct mapping *m, hw_frame_id id, const struct hw_frame *f)
{
    hw_str_id guess = m->packages->of_frame[id.v];
    if (guess.v)
        return m->package.n && hw_bytes_equal(text_of(m, guess), m->package);
    return m->runs &&
           (f->mapping.v == HW_ID_NONE ||
            is_jit(text_of(m, hw_callsites_get_mapping(m->p->callsites, f->mapping)->path)));
}

/* Splits at the last dot. */
static bool split(struct hw_bytes name, struct hw_bytes *before, struct hw_bytes *behind)
{
    const uint8_t *dot = name.n ? memrchr(name.p, '.', name.n) : NULL;
    if (!dot)
        return false;
    *before = hw_bytes_of(name.p, (size_t)(dot - name.p));
    *behind = hw_bytes_of(dot + 1, name.n - before->n - 1);
    return true;
}

/* The first known line of the frame. */
static uint32_t line_of(const struct hw_symbol_sets *sets, hw_frame_id id, uint32_t recorded)
{
    const struct hw_symbol_line *lines;
    size_t n = hw_symbol_sets_get(sets, id, &lines);
    for (size_t i = 0; i < n; i++)
        if (lines[i].line)
            return lines[i].line;
    return recorded;
}

static int name_frame(struct mapping *m, hw_frame_id id)
{
    struct hw_frame f = *hw_callsites_get_frame(m->p->callsites, id);
    struct hw_symbol_sets *sets = hw_callsites_symbol_sets(m->p->callsites);
    struct hw_bytes class_name, method;
    enum match match =
        f.mapping.v == HW_ID_NONE ? MATCH_BY_PROCESS : (enum match)m->matches.v[f.mapping.v];
    if (match == MATCH_BY_PROCESS)
        match = is_of_process(m, id, &f) ? MATCH_ALL : MATCH_NONE;
    const struct class *c = match != MATCH_NONE && split(text_of(m, f.name), &class_name, &method)
                                ? find_class(m, class_name)
                                : NULL;
    hw_str_id name;
    if (!c || (match == MATCH_BY_CLASS && !is_in_package(m, c)))
        return HW_OK;
    int rc = find_members(m, c, method, HW_F_ObfuscatedClass_obfuscated_methods);
    bool is_listed = m->found.n;
    if (rc == HW_OK && !is_listed && hw_symbol_sets_get_deobfuscated(sets, id).v)
        return HW_OK;                /* another map may have named the method */
    if (rc == HW_OK && !is_listed && /* a method that kept its name */
        hw_vec_push(&m->found, (struct member){.obfuscated = method, .original = method}) < 0)
        rc = HW_ENOMEM;
    if (rc < 0)
        return rc;
    hw_vec_clear(&m->chain);
    f.line = line_of(sets, id, f.line);
    if (f.line)
        rc = chain_at_line(m, c, &f);
    if (rc == HW_OK && m->chain.n) {
        rc = hw_symbol_sets_put(sets, id, m->chain.v, m->chain.n);
        name = m->chain.v[m->chain.n - 1].function;
    } else if (rc == HW_OK) {
        rc = name_without_line(m, c);
        if (rc == HW_OK)
            rc = hw_profile_str(m->p, hw_bytes_of(m->text.p, m->text.n), &name);
        if (rc == HW_OK && f.file.v) { /* the recorded line is shown with the name */
            const struct hw_symbol_line line = {name, f.file, f.line};
            rc = hw_symbol_sets_put(sets, id, &line, 1);
        }
    }
    return rc < 0 ? rc : hw_symbol_sets_put_deobfuscated(sets, id, name);
}

/* ---- heap graphs ---- */

#define CLASS_OF "java.lang.Class<"

/* "X", "X[][]", "java.lang.Class<X>": the name inside. */
static struct hw_bytes undecorated(struct hw_bytes name, size_t *before)
{
    const size_t n = sizeof CLASS_OF - 1;
    *before = 0;
    if (name.n > n && memcmp(name.p, CLASS_OF, n) == 0 && name.p[name.n - 1] == '>') {
        name = hw_bytes_of(name.p + n, name.n - n - 1);
        *before = n;
    }
    while (name.n >= 2 && name.p[name.n - 2] == '[' && name.p[name.n - 1] == ']')
        name.n -= 2;
    return name;
}

/* If another packet has named the class, this one renames it only if it is in its package. */
static int name_class(struct mapping *m, struct hw_heap_class *c)
{
    struct hw_bytes whole = text_of(m, c->name);
    size_t before;
    struct hw_bytes inner = undecorated(whole, &before);
    const struct class *found = find_class(m, inner);
    if (!found || (c->clear_name.v && !(m->package.n && is_in_package(m, found))))
        return HW_OK;
    hw_strbuf_clear(&m->text);
    hw_strbuf_add(&m->text, whole.p, before);
    hw_strbuf_add(&m->text, found->original.p, found->original.n);
    hw_strbuf_add(&m->text, hw_bytes_end(inner), whole.n - before - inner.n);
    return m->text.failed ? HW_ENOMEM
                          : hw_profile_str(m->p, hw_bytes_of(m->text.p, m->text.n), &c->clear_name);
}

/* Applies to fields of all packages, as a name does not tell its package. A field that the packet
 * does not list keeps its name, unless another packet has renamed it. */
static int name_field(struct mapping *m, hw_str_id field, hw_str_id *clear_name)
{
    struct hw_bytes class_name, name;
    if (!split(text_of(m, field), &class_name, &name))
        return HW_OK;
    const struct class *c = find_class(m, class_name);
    if (!c)
        return HW_OK;
    int rc = find_members(m, c, name, HW_F_ObfuscatedClass_obfuscated_members);
    if (rc < 0 || (clear_name->v && (m->found.n == 0 || !is_in_package(m, c))))
        return rc;
    hw_strbuf_clear(&m->text);
    add_qualified(&m->text, c, m->found.n ? m->found.v[m->found.n - 1].original : name);
    return m->text.failed ? HW_ENOMEM
                          : hw_profile_str(m->p, hw_bytes_of(m->text.p, m->text.n), clear_name);
}

/* Looks up each name once: millions of fields share few names. */
static int name_primitives(struct mapping *m, struct hw_heap_graph *g)
{
    struct hw_map64 seen = {0};
    int rc = HW_OK;
    for (size_t i = 0; i < g->primitives.n && rc == HW_OK; i++) {
        hw_str_id name = g->primitives.v[i].field_name, clear = {0};
        uint64_t *value, known = 0;
        bool fresh;
        rc = hw_map64_at(&seen, name.v, &value, &fresh);
        if (rc < 0 || !fresh)
            continue;
        (void)hw_map64_get(&g->primitive_names, name.v, &known); /* absent: not yet */
        clear.v = (uint32_t)known;
        rc = name_field(m, name, &clear);
        if (rc == HW_OK && clear.v)
            rc = hw_map64_put(&g->primitive_names, name.v, clear.v);
    }
    hw_map64_done(&seen);
    return rc;
}

/* Every packet names classes of unknown package; a packet without a package names the classes that
 * no other packet has named. */
static int name_graph(struct mapping *m, struct hw_heap_graph *g)
{
    struct hw_bytes of_process = text_of(m, m->packages->of_process[g->upid.v]);
    int rc = HW_OK;
    for (uint32_t i = 0; i < g->n_classes && rc == HW_OK; i++) {
        struct hw_bytes location = text_of(m, g->classes[i].location);
        struct hw_bytes package = hw_package_of_path(location);
        if (package.n == 0)
            package = of_process;
        if (package.n == 0 || hw_bytes_equal(package, m->package) ||
            names_package(location, m->package) ||
            (m->package.n == 0 && !g->classes[i].clear_name.v))
            rc = name_class(m, &g->classes[i]);
    }
    for (uint32_t i = 0; i < g->n_fields && rc == HW_OK; i++)
        rc = name_field(m, g->fields[i].name, &g->fields[i].clear_name);
    return rc < 0 ? rc : name_primitives(m, g);
}

/* ---- applying a mapping ---- */

static int apply(struct mapping *m)
{
    int rc = match_mappings(m);
    for (uint32_t i = 0; i < hw_callsites_n_frames(m->p->callsites) && rc == HW_OK; i++)
        rc = name_frame(m, (hw_frame_id){i});
    for (size_t i = 0; i < m->p->graphs.n && rc == HW_OK; i++)
        rc = name_graph(m, m->p->graphs.v[i]);
    return rc;
}

int hw_import_deobfuscation_of(struct hw_profile *p, const struct hw_code_packages *packages,
                               struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct mapping m = {.p = p, .packages = packages};
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.wire != HW_PB_BYTES)
            continue;
        if (f.number == HW_F_DeobfuscationMapping_package_name)
            m.package = f.bytes;
        else if (f.number == HW_F_DeobfuscationMapping_obfuscated_classes)
            rc = read_class(&m, f.bytes);
    }
    if (rc == HW_OK)
        rc = apply(&m);
    hw_vec_done(&m.classes);
    hw_map64_done(&m.by_name);
    hw_vec_done(&m.matches);
    hw_vec_done(&m.found);
    hw_vec_done(&m.names);
    hw_vec_done(&m.chain);
    hw_strbuf_done(&m.text);
    hw_strbuf_done(&m.file);
    return rc;
}

int hw_import_deobfuscation(struct hw_profile *p, struct hw_bytes message)
{
    struct hw_code_packages packages;
    int rc = hw_code_packages_init(&packages, p);
    if (rc < 0)
        return rc;
    rc = hw_import_deobfuscation_of(p, &packages, message);
    hw_code_packages_done(&packages);
    return rc;
}

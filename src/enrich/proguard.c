/*
 *     com.example.Cache -> a.b:                                    class
 *         int size -> c                                            field
 *         1:3:void insert(int):17:19 -> d              method: obfuscated and source lines
 *         4:4:void com.example.Other.find(int):30:30 -> d     inlined into…
 *         4:4:void lookup():22 -> d                           …this one: the same range
 *
 * A method's members are kept one by one for the packets; the name without lines is worked out when
 * they are written: the members of one class and short name stand together after sorting.
 */
#include "enrich/proguard.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/machine_memory.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "codec/pb.h"
#include "schema/fields.h"

#include "base/banned.h"

#define MAX_MAP      ((size_t)1 << 30)
#define MAX_LINE     ((size_t)1 << 20)
#define PACKET_BYTES (1u << 20)

struct member {
    struct hw_bytes obfuscated, original;
    uint32_t line_start, line_end; /* obfuscated; 0 = none */
    uint32_t source_start, source_end;
    uint32_t order; /* in the file */
    bool is_method;
};

struct class
{
    struct hw_bytes original, obfuscated;
    size_t first, n; /* of members */
};

struct hw_proguard {
    char *text;
    HW_VEC(struct class) classes;
    HW_VEC(struct member) members;
    struct hw_map64 by_name; /* hash of an obfuscated class name -> class */
};

void hw_proguard_free(struct hw_proguard *m)
{
    if (!m)
        return;
    free(m->text);
    hw_vec_done(&m->classes);
    hw_vec_done(&m->members);
    hw_map64_done(&m->by_name);
    free(m);
}

/* ---- pieces of a line ---- */

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct hw_bytes trim(struct hw_bytes s)
{
    while (s.n && is_blank(s.p[0]))
        s = hw_bytes_of(s.p + 1, s.n - 1);
    while (s.n && is_blank(s.p[s.n - 1]))
        s.n--;
    return s;
}

/* Splits at " -> ". */
static bool split_arrow(struct hw_bytes line, struct hw_bytes *left, struct hw_bytes *right)
{
    const uint8_t *at = line.n ? memmem(line.p, line.n, " -> ", 4) : NULL;
    if (!at)
        return false;
    *left = trim(hw_bytes_of(line.p, (size_t)(at - line.p)));
    *right = trim(hw_bytes_of(at + 4, (size_t)(line.p + line.n - at - 4)));
    return left->n && right->n;
}

static bool take_number(struct hw_bytes *s, uint32_t *out)
{
    uint64_t v = 0;
    size_t i = 0;
    for (; i < s->n && s->p[i] >= '0' && s->p[i] <= '9'; i++) {
        v = v * 10 + (uint64_t)(s->p[i] - '0');
        if (v > UINT32_MAX)
            return false;
    }
    if (i == 0)
        return false;
    *s = hw_bytes_of(s->p + i, s->n - i);
    *out = (uint32_t)v;
    return true;
}

static bool take_colon(struct hw_bytes *s)
{
    if (s->n == 0 || s->p[0] != ':')
        return false;
    *s = hw_bytes_of(s->p + 1, s->n - 1);
    return true;
}

/* ---- lines ---- */

static int add_class(struct hw_proguard *m, struct hw_bytes line, uint64_t number,
                     struct hw_error *err)
{
    struct class c = {.first = m->members.n};
    uint64_t at;
    if (!split_arrow(line, &c.original, &c.obfuscated) ||
        c.obfuscated.p[c.obfuscated.n - 1] != ':' || c.obfuscated.n < 2)
        return hw_fail(err, HW_EFORMAT, number, "line %llu: neither class, member nor comment",
                       (unsigned long long)number);
    c.obfuscated.n--;
    uint64_t key = hw_hash_bytes(c.obfuscated.p, c.obfuscated.n);
    key -= key == HW_MAP64_NO_KEY;
    if (hw_map64_get(&m->by_name, key, &at) &&
        hw_bytes_equal(m->classes.v[at].obfuscated, c.obfuscated))
        return hw_fail(err, HW_EFORMAT, number, "line %llu: class '%.*s' is defined twice",
                       (unsigned long long)number, (int)(c.obfuscated.n & 0xff), c.obfuscated.p);
    if (hw_map64_put(&m->by_name, key, m->classes.n) < 0 || hw_vec_push(&m->classes, c) < 0)
        return hw_fail(err, HW_ENOMEM, 0, "name map");
    return HW_OK;
}

/* "[a:b:]type name(args)[:c[:d]]"; the type's and the arguments' text is not kept. */
static bool read_member(struct hw_bytes left, struct member *out)
{
    struct hw_bytes s = left;
    if (take_number(&s, &out->line_start) &&
        (!take_colon(&s) || !take_number(&s, &out->line_end) || !take_colon(&s)))
        return false;
    const uint8_t *open = s.n ? memchr(s.p, '(', s.n) : NULL;
    const uint8_t *close = open ? memrchr(open, ')', (size_t)(s.p + s.n - open)) : NULL;
    struct hw_bytes head = open ? hw_bytes_of(s.p, (size_t)(open - s.p)) : s;
    const uint8_t *blank = head.n ? memrchr(head.p, ' ', head.n) : NULL;
    if ((open && !close) || !blank || (!open && out->line_start))
        return false;
    out->original = hw_bytes_of(blank + 1, (size_t)(head.p + head.n - blank - 1));
    out->is_method = open != NULL;
    if (out->original.n == 0 || !out->is_method)
        return out->original.n > 0;
    struct hw_bytes tail = hw_bytes_of(close + 1, (size_t)(s.p + s.n - close - 1));
    out->source_start = out->line_start;
    out->source_end = out->line_end;
    if (take_colon(&tail)) {
        if (!take_number(&tail, &out->source_start))
            return false;
        out->source_end = out->source_start;
        if (take_colon(&tail) && !take_number(&tail, &out->source_end))
            return false;
    }
    return tail.n == 0;
}

static int add_member(struct hw_proguard *m, struct hw_bytes line, uint64_t number,
                      struct hw_error *err)
{
    struct member x = {.order = (uint32_t)m->members.n};
    struct hw_bytes left;
    unsigned long long shown = number;
    if (m->classes.n == 0)
        return hw_fail(err, HW_EFORMAT, number, "line %llu: a member before any class", shown);
    if (!split_arrow(line, &left, &x.obfuscated) || !read_member(left, &x))
        return hw_fail(err, HW_EFORMAT, number, "line %llu: no field or method", shown);
    if (m->members.n >= UINT32_MAX)
        return hw_fail(err, HW_ELIMIT, number, "name map");
    if (hw_vec_push(&m->members, x) < 0)
        return hw_fail(err, HW_ENOMEM, 0, "name map");
    m->classes.v[m->classes.n - 1].n++;
    return HW_OK;
}

static int compare_names(struct hw_bytes a, struct hw_bytes b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int d = n ? memcmp(a.p, b.p, n) : 0;
    return d ? d : a.n < b.n ? -1 : a.n > b.n;
}

/* Fields, then methods; by short name, then as in the file. */
static int compare_members(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    if (x->is_method != y->is_method)
        return x->is_method - y->is_method;
    int d = compare_names(x->obfuscated, y->obfuscated);
    return d ? d : x->order < y->order ? -1 : x->order > y->order;
}

static int finish_class(struct hw_proguard *m, struct class *c, struct hw_error *err)
{
    struct member *v = hw_vec_from(&m->members, c->first);
    if (c->n)
        qsort(v, c->n, sizeof *v, compare_members);
    for (size_t i = 1; i < c->n; i++)
        if (!v[i].is_method && hw_bytes_equal(v[i].obfuscated, v[i - 1].obfuscated) &&
            !hw_bytes_equal(v[i].original, v[i - 1].original))
            return hw_fail(err, HW_EFORMAT, 0, "class '%.*s' has two fields '%.*s'",
                           (int)(c->obfuscated.n & 0xff), c->obfuscated.p,
                           (int)(v[i].obfuscated.n & 0xff), v[i].obfuscated.p);
    return HW_OK;
}

static int parse(struct hw_proguard *m, size_t n, struct hw_error *err)
{
    const uint8_t *at = (const uint8_t *)m->text, *end = at + n;
    const uint64_t most = hw_machine_memory() / 4 / sizeof(struct member);
    int rc = HW_OK;
    for (uint64_t number = 1; rc == HW_OK && at < end; number++) {
        const uint8_t *nl = memchr(at, '\n', (size_t)(end - at));
        struct hw_bytes line = hw_bytes_of(at, (size_t)((nl ? nl : end) - at));
        struct hw_bytes text = trim(line);
        at = nl ? nl + 1 : end;
        if (line.n > MAX_LINE)
            return hw_fail(err, HW_ELIMIT, number, "line %llu is longer than %zu bytes",
                           (unsigned long long)number, MAX_LINE);
        if (m->members.n > most)
            return hw_fail(err, HW_ELIMIT, number,
                           "line %llu: too many members for the available memory",
                           (unsigned long long)number);
        if (text.n == 0 || text.p[0] == '#')
            continue;
        rc = is_blank(line.p[0]) ? add_member(m, text, number, err)
                                 : add_class(m, text, number, err);
    }
    for (size_t i = 0; rc == HW_OK && i < m->classes.n; i++)
        rc = finish_class(m, &m->classes.v[i], err);
    return rc;
}

/* Takes text. */
static int parse_owned(char *text, size_t n, struct hw_proguard **out, struct hw_error *err)
{
    struct hw_proguard *m = calloc(1, sizeof *m);
    if (!m) {
        free(text);
        return hw_fail(err, HW_ENOMEM, 0, "name map");
    }
    m->text = text;
    int rc = parse(m, n, err);
    if (rc < 0) {
        hw_proguard_free(m);
        return rc;
    }
    *out = m;
    return HW_OK;
}

int hw_proguard_parse(struct hw_bytes text, struct hw_proguard **out, struct hw_error *err)
{
    char *copy = malloc(text.n + 1);
    if (!copy)
        return hw_fail(err, HW_ENOMEM, 0, "name map");
    if (text.n)
        memcpy(copy, text.p, text.n);
    return parse_owned(copy, text.n, out, err);
}

static size_t max_map(void)
{
    uint64_t share = hw_machine_memory() / 4;
    return share < MAX_MAP ? (size_t)share : MAX_MAP;
}

int hw_proguard_read(const char *path, struct hw_proguard **out, struct hw_error *err)
{
    char *text;
    size_t n;
    int rc = hw_file_read(AT_FDCWD, path, max_map(), &text, &n, err);
    if (rc < 0)
        return rc;
    rc = parse_owned(text, n, out, err);
    if (rc < 0)
        hw_error_prefix(err, "%s", path);
    return rc;
}

/* ---- packets ---- */

static bool same_range(const struct member *a, const struct member *b)
{
    return a->line_start && a->line_start == b->line_start && a->line_end == b->line_end;
}

static int compare_texts(const void *a, const void *b)
{
    return compare_names(*(const struct hw_bytes *)a, *(const struct hw_bytes *)b);
}

/*
 * What a short name stands for without a line: the outermost of each inline chain; different ones
 * are joined, sorted, with " | ".
 */
static int method_name(const struct member *v, size_t n, struct hw_strbuf *out)
{
    HW_VEC(struct hw_bytes) names = {0};
    hw_strbuf_clear(out);
    for (size_t i = 0; i < n; i++) {
        if (i + 1 < n && same_range(&v[i], &v[i + 1]) &&
            (v[i].source_start != v[i + 1].source_start || v[i].source_end != v[i + 1].source_end))
            continue; /* inlined into the next one */
        if (hw_vec_push(&names, v[i].original) < 0)
            out->failed = true;
    }
    if (names.n)
        qsort(names.v, names.n, sizeof *names.v, compare_texts);
    for (size_t i = 0; i < names.n; i++) {
        if (i && hw_bytes_equal(names.v[i], names.v[i - 1]))
            continue;
        if (i)
            hw_strbuf_adds(out, " | ");
        hw_strbuf_add(out, names.v[i].p, names.v[i].n);
    }
    hw_vec_done(&names);
    return out->failed ? HW_ENOMEM : HW_OK;
}

/* If there are several names, each gets its class: readers put it before the first only. */
static void qualify(const struct class *c, struct hw_strbuf *name, struct hw_strbuf *tmp)
{
    const char *part = name->p;
    if (!part || !strstr(part, " | "))
        return;
    hw_strbuf_clear(tmp);
    while (part) {
        const char *next = strstr(part, " | ");
        size_t n = next ? (size_t)(next - part) : strlen(part);
        if (!memchr(part, '.', n)) {
            hw_strbuf_add(tmp, c->original.p, c->original.n);
            hw_strbuf_addc(tmp, '.');
        }
        hw_strbuf_add(tmp, part, n);
        if (next)
            hw_strbuf_adds(tmp, " | ");
        part = next ? next + 3 : NULL;
    }
    struct hw_strbuf swap = *name;
    *name = *tmp;
    *tmp = swap;
}

static void put_member(struct hw_pb *out, uint32_t field, struct hw_bytes obfuscated,
                       struct hw_bytes original)
{
    hw_pb_begin(out, field);
    hw_pb_bytes(out, HW_F_ObfuscatedMember_obfuscated_name, obfuscated.p, obfuscated.n);
    hw_pb_bytes(out, HW_F_ObfuscatedMember_deobfuscated_name, original.p, original.n);
}

static void put_lines(struct hw_pb *out, const struct member *m)
{
    hw_pb_uint(out, HW_F_ObfuscatedMember_obfuscated_line_start, m->line_start);
    hw_pb_uint(out, HW_F_ObfuscatedMember_obfuscated_line_end, m->line_end);
    hw_pb_uint(out, HW_F_ObfuscatedMember_source_line_start, m->source_start);
    hw_pb_uint(out, HW_F_ObfuscatedMember_source_line_end, m->source_end);
}

/* Members with lines first, then the name without: a reader that knows no lines keeps the last. */
static int put_methods(const struct class *c, const struct member *v, size_t n, struct hw_pb *out,
                       struct hw_strbuf *name, struct hw_strbuf *tmp)
{
    for (size_t i = 0; i < n; i++) {
        if (!v[i].line_start)
            continue;
        put_member(out, HW_F_ObfuscatedClass_obfuscated_methods, v[i].obfuscated, v[i].original);
        put_lines(out, &v[i]);
        hw_pb_end(out);
    }
    int rc = method_name(v, n, name);
    if (rc < 0)
        return rc;
    qualify(c, name, tmp);
    put_member(out, HW_F_ObfuscatedClass_obfuscated_methods, v[0].obfuscated,
               hw_bytes_of(name->p, name->n));
    hw_pb_end(out);
    return HW_OK;
}

static int put_class(const struct hw_proguard *m, const struct class *c, struct hw_pb *out,
                     struct hw_strbuf *name, struct hw_strbuf *tmp)
{
    const struct member *v = hw_vec_from(&m->members, c->first);
    int rc = HW_OK;
    hw_pb_begin(out, HW_F_DeobfuscationMapping_obfuscated_classes);
    hw_pb_bytes(out, HW_F_ObfuscatedClass_obfuscated_name, c->obfuscated.p, c->obfuscated.n);
    hw_pb_bytes(out, HW_F_ObfuscatedClass_deobfuscated_name, c->original.p, c->original.n);
    for (size_t i = 0, k; rc == HW_OK && i < c->n; i = k) {
        for (k = i + 1; k < c->n && v[k].is_method == v[i].is_method &&
                        hw_bytes_equal(v[k].obfuscated, v[i].obfuscated);)
            k++;
        if (v[i].is_method) {
            rc = put_methods(c, v + i, k - i, out, name, tmp);
            continue;
        }
        put_member(out, HW_F_ObfuscatedClass_obfuscated_members, v[i].obfuscated, v[i].original);
        hw_pb_end(out);
    }
    hw_pb_end(out);
    return rc;
}

int hw_proguard_write(const struct hw_proguard *m, struct hw_bytes package, struct hw_pb *out)
{
    struct hw_strbuf name = {0}, tmp = {0};
    size_t start = 0;
    int rc = HW_OK;
    bool open = false;
    for (size_t i = 0; rc == HW_OK && i < m->classes.n; i++) {
        if (!open) {
            start = hw_pb_view(out).n;
            hw_pb_begin(out, HW_F_Trace_packet);
            hw_pb_begin(out, HW_F_TracePacket_deobfuscation_mapping);
            hw_pb_bytes(out, HW_F_DeobfuscationMapping_package_name, package.p, package.n);
            open = true;
        }
        rc = put_class(m, &m->classes.v[i], out, &name, &tmp);
        if (hw_pb_view(out).n - start > PACKET_BYTES || i + 1 == m->classes.n || rc < 0) {
            hw_pb_end(out);
            hw_pb_end(out);
            open = false;
        }
    }
    hw_strbuf_done(&name);
    hw_strbuf_done(&tmp);
    return rc == HW_OK && hw_pb_failed(out) ? HW_ENOMEM : rc;
}

static int write_entry(const char *entry, size_t n, struct hw_pb *out, struct hw_error *err)
{
    const char *equals = memchr(entry, '=', n);
    if (!equals || equals + 1 == entry + n)
        return hw_fail(err, HW_EINVAL, 0,
                       "invalid PERFETTO_PROGUARD_MAP entry '%.*s': the form is "
                       "package=file[:package=file...]",
                       (int)(n & 0xfff), entry);
    hw_autofree char *path = strndup(equals + 1, (size_t)(entry + n - equals - 1));
    struct hw_proguard *m;
    if (!path)
        return hw_fail(err, HW_ENOMEM, 0, "name map");
    int rc = hw_proguard_read(path, &m, err);
    if (rc < 0)
        return rc;
    rc = hw_proguard_write(m, hw_bytes_of(entry, (size_t)(equals - entry)), out);
    hw_proguard_free(m);
    return rc < 0 ? hw_fail(err, rc, 0, "name map '%s':", path) : HW_OK;
}

int hw_proguard_write_all(const char *list, struct hw_pb *out, struct hw_error *err)
{
    int rc = HW_OK;
    for (const char *p = list; rc == HW_OK && *p;) {
        size_t n = strcspn(p, ":");
        rc = write_entry(p, n, out, err);
        p += n + (p[n] == ':');
    }
    return rc;
}

/*
 * An instance's bytes begin with the fields its own class declares, in the record's order; those of
 * the superclass follow. In memory it is the other way round, and references take 4 bytes.
 */
#include "import/hprof/hprof_classes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/strbuf.h"

#include "base/banned.h"

enum {
    MAX_CHAIN = 256,            /* superclasses of a class */
    MAX_SLOTS_IN_ALL = 1 << 24, /* classes * fields; a file with more is not believed */
    NAMES_FREE = 64 << 20,      /* bytes of names that any file may have... */
    NAMES_TIMES = 32            /* ...plus this for each byte of it; less than 1 is usual */
};

void hw_hprof_classes_done(struct hw_hprof_classes *c)
{
    hw_map64_done(&c->text_of_id);
    hw_map64_done(&c->class_of_id);
    hw_map64_done(&c->class_of_serial);
    hw_vec_done(&c->texts);
    hw_vec_done(&c->classes);
    hw_vec_done(&c->fields);
    hw_vec_done(&c->slots);
}

const char *hw_hprof_type_name(uint64_t type)
{
    static const char *const names[HW_HPROF_TYPE_COUNT] = {
        [HW_HPROF_OBJECT] = "java.lang.Object",
        [HW_HPROF_BOOLEAN] = "boolean",
        [HW_HPROF_CHAR] = "char",
        [HW_HPROF_FLOAT] = "float",
        [HW_HPROF_DOUBLE] = "double",
        [HW_HPROF_BYTE] = "byte",
        [HW_HPROF_SHORT] = "short",
        [HW_HPROF_INT] = "int",
        [HW_HPROF_LONG] = "long",
    };
    return type < HW_HPROF_TYPE_COUNT && names[type] ? names[type] : "";
}

/* ---- records ---- */

struct hw_bytes hw_hprof_text(const struct hw_hprof_classes *c, uint64_t id)
{
    uint64_t at;
    return hw_map64_get(&c->text_of_id, id, &at) ? c->texts.v[at] : (struct hw_bytes){NULL, 0};
}

int hw_hprof_name(struct hw_hprof_classes *c, const struct hw_strbuf *name, hw_str_id *out)
{
    if (name->failed)
        return HW_ENOMEM;
    c->name_bytes += name->n;
    if (c->name_bytes > NAMES_FREE && (c->name_bytes - NAMES_FREE) / NAMES_TIMES > c->file->all.n)
        return HW_ELIMIT;
    return hw_profile_str(c->p, hw_bytes_of(name->p, name->n), out);
}

static int class_get(struct hw_hprof_classes *c, uint64_t id, size_t *out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&c->class_of_id, id, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = c->classes.n;
        if (hw_vec_push(&c->classes, (struct hw_hprof_class){.id = id}) < 0)
            return HW_ENOMEM;
    }
    *out = (size_t)*at;
    return HW_OK;
}

const struct hw_hprof_class *hw_hprof_class_find(const struct hw_hprof_classes *c, uint64_t id)
{
    uint64_t at;
    return hw_map64_get(&c->class_of_id, id, &at) ? &c->classes.v[at] : NULL;
}

/* "[[Ljava/lang/String;" -> "java.lang.String[][]", "java/lang/String" -> "java.lang.String". */
static int set_name(struct hw_hprof_classes *c, size_t at, struct hw_bytes raw)
{
    static const struct {
        char letter;
        uint8_t type;
    } letters[] = {{'Z', HW_HPROF_BOOLEAN}, {'C', HW_HPROF_CHAR}, {'F', HW_HPROF_FLOAT},
                   {'D', HW_HPROF_DOUBLE},  {'B', HW_HPROF_BYTE}, {'S', HW_HPROF_SHORT},
                   {'I', HW_HPROF_INT},     {'J', HW_HPROF_LONG}};
    struct hw_strbuf name = {0};
    size_t dims = 0;
    while (dims < raw.n && raw.p[dims] == '[')
        dims++;
    struct hw_bytes rest = hw_bytes_skip(raw, dims);
    const char *primitive = NULL;
    for (size_t i = 0; dims && rest.n == 1 && i < HW_ARRAY_LEN(letters); i++)
        if (letters[i].letter == (char)rest.p[0]) {
            primitive = hw_hprof_type_name(letters[i].type);
            if (dims == 1)
                c->array_class[letters[i].type] = c->classes.v[at].id;
        }
    if (dims && rest.n >= 2 && rest.p[0] == 'L' && rest.p[rest.n - 1] == ';')
        rest = hw_bytes_of(rest.p + 1, rest.n - 2);
    if (primitive)
        hw_strbuf_adds(&name, primitive);
    for (size_t i = 0; !primitive && i < rest.n; i++)
        hw_strbuf_addc(&name, rest.p[i] == '/' ? '.' : (char)rest.p[i]);
    for (size_t i = 0; i < dims; i++)
        hw_strbuf_adds(&name, "[]");
    int rc = hw_hprof_name(c, &name, &c->classes.v[at].name);
    if (rc == HW_OK && hw_bytes_equal(hw_bytes_of(name.p, name.n), hw_bytes_str("java.lang.Class")))
        c->class_class = c->classes.v[at].id;
    hw_strbuf_done(&name);
    return rc;
}

static int add_text(struct hw_hprof_classes *c, struct hw_hprof_cursor body)
{
    uint64_t id = hw_hprof_id(&body);
    struct hw_bytes text = hw_bytes_of(body.p, (size_t)(body.end - body.p));
    if (body.bad)
        return HW_OK;
    if (hw_vec_push(&c->texts, text) < 0)
        return HW_ENOMEM;
    return hw_map64_put(&c->text_of_id, id, c->texts.n - 1);
}

static int add_load(struct hw_hprof_classes *c, struct hw_hprof_cursor body)
{
    size_t at;
    uint64_t serial = hw_hprof_u(&body, 4), id = hw_hprof_id(&body);
    (void)hw_hprof_u(&body, 4); /* stack trace of the load */
    uint64_t name = hw_hprof_id(&body);
    if (body.bad)
        return HW_OK;
    int rc = class_get(c, id, &at);
    if (rc == HW_OK)
        rc = hw_map64_put(&c->class_of_serial, serial, at);
    return rc < 0 ? rc : set_name(c, at, hw_hprof_text(c, name));
}

static int add_class(struct hw_hprof_classes *c, struct hw_hprof_cursor body)
{
    size_t at;
    struct hw_hprof_cursor whole = body;
    uint64_t id = hw_hprof_id(&body);
    int rc = class_get(c, id, &at);
    if (rc < 0)
        return rc;
    (void)hw_hprof_u(&body, 4);
    struct hw_hprof_class *k = &c->classes.v[at];
    if (k->body.p)
        return HW_OK; /* described twice: the first one counts */
    k->body = whole;
    k->super_id = hw_hprof_id(&body);
    (void)hw_hprof_bytes(&body, 5 * (uint64_t)body.id_bytes);
    k->declared_size = hw_hprof_u(&body, 4);
    return HW_OK;
}

int hw_hprof_classes_add(struct hw_hprof_classes *c, const struct hw_hprof_record *r)
{
    switch (r->tag) {
    case HW_HPROF_STRING:
        return add_text(c, r->body);
    case HW_HPROF_LOAD_CLASS:
        return add_load(c, r->body);
    case HW_HPROF_CLASS:
        return add_class(c, r->body);
    default:
        return HW_OK;
    }
}

/* ---- a class's record ---- */

void hw_hprof_statics_begin(const struct hw_hprof_class *k, struct hw_hprof_statics *out)
{
    *out = (struct hw_hprof_statics){.body = k->body};
    struct hw_hprof_cursor *c = &out->body;
    if (!c->p)
        return;
    (void)hw_hprof_id(c);
    (void)hw_hprof_u(c, 4);
    out->super_id = hw_hprof_id(c);
    out->loader_id = hw_hprof_id(c);
    out->signers_id = hw_hprof_id(c);
    out->domain_id = hw_hprof_id(c);
    (void)hw_hprof_bytes(c, 2 * (uint64_t)c->id_bytes + 4);
    for (uint64_t n = hw_hprof_u(c, 2); n && !c->bad;
         n--) { /* the constant pool, which is empty in practice */
        (void)hw_hprof_u(c, 2);
        (void)hw_hprof_bytes(c, hw_hprof_type_bytes(hw_hprof_u(c, 1), c->id_bytes));
    }
    out->n_left = hw_hprof_u(c, 2);
}

bool hw_hprof_statics_next(struct hw_hprof_statics *s, uint64_t *name_id, uint8_t *type,
                           struct hw_hprof_cursor *value)
{
    struct hw_hprof_cursor *c = &s->body;
    if (s->n_left == 0)
        return false;
    s->n_left--;
    *name_id = hw_hprof_id(c);
    *type = (uint8_t)hw_hprof_u(c, 1);
    *value = *c;
    (void)hw_hprof_bytes(c, hw_hprof_type_bytes(*type, c->id_bytes));
    return !c->bad;
}

static int read_fields(struct hw_hprof_classes *c, struct hw_hprof_class *k)
{
    struct hw_hprof_statics s;
    struct hw_hprof_cursor value;
    struct hw_strbuf full = {0};
    uint64_t name_id;
    uint8_t type;
    int rc = HW_OK;
    k->first_field = c->fields.n;
    hw_hprof_statics_begin(k, &s);
    while (hw_hprof_statics_next(&s, &name_id, &type, &value))
        ;
    uint64_t n = k->body.p ? hw_hprof_u(&s.body, 2) : 0;
    struct hw_bytes class_name = hw_strings_get(hw_callsites_strings(c->p->callsites), k->name);
    hw_strbuf_add(&full, class_name.p, class_name.n);
    hw_strbuf_addc(&full, '.');
    size_t n_prefix = full.n;
    for (; rc == HW_OK && n && !s.body.bad; n--) {
        struct hw_hprof_field f = {0};
        struct hw_bytes name = hw_hprof_text(c, hw_hprof_id(&s.body));
        f.type = (uint8_t)hw_hprof_u(&s.body, 1);
        full.n = n_prefix < full.n ? n_prefix : full.n;
        hw_strbuf_add(&full, name.p, name.n);
        rc = hw_hprof_name(c, &full, &f.name);
        if (rc == HW_OK && f.type == HW_HPROF_OBJECT)
            rc = hw_graph_field(c->b, f.name, (hw_str_id){0}, &f.number);
        if (rc == HW_OK && hw_vec_push(&c->fields, f) < 0)
            rc = HW_ENOMEM;
    }
    k->n_fields = c->fields.n - k->first_field;
    hw_strbuf_done(&full);
    return rc;
}

/* ---- layouts ---- */

static const struct hw_hprof_class *super_of(const struct hw_hprof_classes *c,
                                             const struct hw_hprof_class *k)
{
    return k->super_id ? hw_hprof_class_find(c, k->super_id) : NULL;
}

static bool named(const struct hw_hprof_classes *c, const struct hw_hprof_class *k,
                  const char *name)
{
    return hw_bytes_equal(hw_strings_get(hw_callsites_strings(c->p->callsites), k->name),
                          hw_bytes_str(name));
}

static enum hw_class_kind kind_by_name(const struct hw_hprof_classes *c,
                                       const struct hw_hprof_class *k)
{
    static const struct {
        const char *name;
        enum hw_class_kind kind;
    } known[] = {{"java.lang.ClassLoader", HW_KIND_CLASSLOADER},
                 {"java.lang.ref.SoftReference", HW_KIND_SOFT_REFERENCE},
                 {"java.lang.ref.WeakReference", HW_KIND_WEAK_REFERENCE},
                 {"java.lang.ref.PhantomReference", HW_KIND_PHANTOM_REFERENCE},
                 {"java.lang.ref.FinalReference", HW_KIND_FINALIZER_REFERENCE},
                 {"java.lang.ref.FinalizerReference", HW_KIND_FINALIZER_REFERENCE}};
    for (size_t i = 0; i < HW_ARRAY_LEN(known); i++)
        if (named(c, k, known[i].name))
            return known[i].kind;
    return HW_KIND_UNKNOWN;
}

static bool is_array(const struct hw_hprof_classes *c, const struct hw_hprof_class *k)
{
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(c->p->callsites), k->name);
    return name.n > 2 && name.p[name.n - 1] == ']';
}

static bool is_primitive_array(const struct hw_hprof_classes *c, const struct hw_hprof_class *k)
{
    for (unsigned type = 0; type < HW_HPROF_TYPE_COUNT; type++)
        if (c->array_class[type] == k->id)
            return true;
    return false;
}

/* Derives slots, size and kind from the class and all its superclasses. */
static int lay_out(struct hw_hprof_classes *c, struct hw_hprof_class *k)
{
    uint64_t offset = 0, in_memory = 0;
    bool has_refs = false;
    int depth = 0;
    k->first_slot = c->slots.n;
    for (const struct hw_hprof_class *s = k; s && depth < MAX_CHAIN; s = super_of(c, s), depth++) {
        if (k->kind == HW_KIND_UNKNOWN)
            k->kind = kind_by_name(c, s);
        for (size_t i = 0; i < s->n_fields; i++) {
            uint8_t type = c->fields.v[s->first_field + i].type;
            struct hw_hprof_slot slot = {(uint32_t)offset, (uint32_t)(s->first_field + i)};
            if (hw_hprof_type_bytes(type, c->file->id_bytes) == 0)
                continue; /* no such type: it takes no bytes of an instance */
            if (c->slots.n >= MAX_SLOTS_IN_ALL)
                return HW_ELIMIT;
            if (hw_vec_push(&c->slots, slot) < 0)
                return HW_ENOMEM;
            offset += hw_hprof_type_bytes(type, c->file->id_bytes);
            in_memory += hw_hprof_sizes_value(c->sizes, type);
            has_refs |= type == HW_HPROF_OBJECT;
        }
    }
    k->n_slots = c->slots.n - k->first_slot;
    k->data_bytes = offset;
    k->size = c->file->is_art && k->declared_size ? k->declared_size
                                                  : hw_hprof_sizes_object(c->sizes, in_memory);
    if (named(c, k, "java.lang.String"))
        k->kind = HW_KIND_STRING;
    else if (is_array(c, k))
        k->kind = is_primitive_array(c, k) ? HW_KIND_NOREFERENCES : HW_KIND_ARRAY;
    else if (k->kind == HW_KIND_UNKNOWN)
        k->kind = has_refs ? HW_KIND_NORMAL : HW_KIND_NOREFERENCES;
    return HW_OK;
}

/* ---- the builder's classes ---- */

static int build_mirror(struct hw_hprof_classes *c, const struct hw_hprof_class *k)
{
    struct hw_strbuf name = {0};
    struct hw_bytes plain = hw_strings_get(hw_callsites_strings(c->p->callsites), k->name);
    struct hw_graph_class g = {.kind = HW_KIND_CLASS,
                               .superclass = c->class_class,
                               .has_superclass = c->class_class != 0,
                               .held = c->class_class};
    hw_strbuf_adds(&name, "java.lang.Class<");
    hw_strbuf_add(&name, plain.p, plain.n);
    hw_strbuf_addc(&name, '>');
    int rc = hw_hprof_name(c, &name, &g.name);
    hw_strbuf_done(&name);
    return rc < 0 ? rc : hw_graph_class(c->b, hw_hprof_mirror_class(k->id), &g);
}

/* The boot loader's classes of arrays live as long as the JVM, which its dumps do not list among the
 * roots: no array retains its class. */
static int build_class(struct hw_hprof_classes *c, const struct hw_hprof_class *k)
{
    struct hw_hprof_statics s;
    hw_hprof_statics_begin(k, &s);
    struct hw_graph_class g = {.name = k->name,
                               .object_size = k->size,
                               .superclass = k->super_id,
                               .has_superclass = hw_hprof_class_find(c, k->super_id) != NULL,
                               .classloader = s.loader_id,
                               .held = !s.loader_id && is_array(c, k) ? 0 : k->id,
                               .kind = k->kind};
    int rc = hw_graph_class(c->b, k->id, &g);
    return rc < 0 || !k->body.p ? rc : build_mirror(c, k);
}

/* Records of primitive arrays do not name their class. */
static int build_primitive_arrays(struct hw_hprof_classes *c)
{
    int rc = HW_OK;
    for (uint64_t type = 0; rc == HW_OK && type < HW_HPROF_TYPE_COUNT; type++) {
        struct hw_strbuf name = {0};
        struct hw_graph_class g = {.kind = HW_KIND_NOREFERENCES};
        if (type == HW_HPROF_OBJECT || !*hw_hprof_type_name(type) || c->array_class[type])
            continue;
        hw_strbuf_addf(&name, "%s[]", hw_hprof_type_name(type));
        rc = name.failed ? HW_ENOMEM : hw_profile_str(c->p, hw_bytes_of(name.p, name.n), &g.name);
        hw_strbuf_done(&name);
        if (rc == HW_OK)
            rc = hw_graph_class(c->b, type, &g);
    }
    return rc;
}

int hw_hprof_classes_link(struct hw_hprof_classes *c)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < c->classes.n; i++)
        rc = read_fields(c, &c->classes.v[i]);
    for (size_t i = 0; rc == HW_OK && i < c->classes.n; i++)
        rc = lay_out(c, &c->classes.v[i]);
    const struct hw_hprof_class *k = hw_hprof_class_find(c, c->class_class);
    c->mirror_size = k ? k->size : hw_hprof_sizes_object(c->sizes, 0);
    for (size_t i = 0; rc == HW_OK && i < c->classes.n; i++)
        rc = build_class(c, &c->classes.v[i]);
    return rc < 0 ? rc : build_primitive_arrays(c);
}

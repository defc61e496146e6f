/*
 * Numbers of fields, after JVMTI: all fields of all interfaces that a class implements come first
 * (each interface once), then those of its superclasses from the topmost down, then its own, static
 * and other ones alike. A table per class is made when its first object comes:
 *
 *     number - fields of interfaces ->  (declaring class, field of it, slot)
 */
#include "java/classes.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/arena.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "base/text/strings.h"
#include "java/cursor.h"
#include "java/protocol.h"

#include "base/banned.h"

enum { MAX_CLASSES = 1 << 22, MAX_DEPTH = 1024 };

struct place {
    const struct hw_java_field *field;
    uint32_t slot;
};

struct class
{
    uint32_t bits, super;
    const char *name;
    size_t first_interface, n_interfaces;
    size_t first_field, n_fields;
    enum hw_java_kind kind;
    uint32_t n_slots;     /* of objects */
    uint32_t n_own_slots; /* declared here */
    struct place *places; /* owned; NULL = not asked yet */
    size_t n_places, n_before;
    hw_str_id name_id;
    bool doubtful;
};

/* What a field may hold. */
enum holds { HOLDS_UNKNOWN, HOLDS_ANYTHING, HOLDS_OBJECT_ARRAYS, HOLDS_NAMED };
struct type {
    enum holds holds;
    hw_str_id name;   /* NAMED */
    uint32_t last_ok; /* class that was found to fit */
};

struct hw_java_classes {
    struct hw_arena arena; /* names */
    char *text;            /* the table's bytes, owned */
    size_t n;
    struct class *all; /* [0] = unknown */
    HW_VEC(uint32_t) interfaces;
    HW_VEC(struct hw_java_field) fields;
    HW_VEC(uint32_t) stamps; /* of classes, to count interfaces once */
    uint32_t stamp;
    struct hw_strings *names; /* owned */
    struct type *types;       /* of fields; owned */
    uint32_t *by_name;        /* by name: class; owned */
    size_t n_names;
    size_t n_doubtful;
};

/* ---- reading ---- */

/* At most as many as bytes are left, each of them one at least. */
static size_t get_count(struct hw_java_cursor *c)
{
    uint64_t n = hw_java_get(c);
    if (n > (uint64_t)(c->end - c->p)) {
        c->bad = true;
        n = 0;
    }
    return (size_t)n;
}

static const struct {
    char sign;
    const char *name;
} primitives[] = {{'Z', "boolean"}, {'B', "byte"}, {'C', "char"},  {'S', "short"},
                  {'I', "int"},     {'J', "long"}, {'F', "float"}, {'D', "double"}};

void hw_java_type_name(struct hw_bytes s, struct hw_strbuf *out)
{
    size_t dims = 0;
    while (dims < s.n && dims < 255 && s.p[dims] == '[')
        dims++;
    s.p += dims;
    s.n -= dims;
    bool known = false;
    for (size_t i = 0; s.n == 1 && i < HW_ARRAY_LEN(primitives); i++)
        if (s.p[0] == (uint8_t)primitives[i].sign) {
            hw_strbuf_adds(out, primitives[i].name);
            known = true;
        }
    bool object = s.n > 2 && s.p[0] == 'L' && s.p[s.n - 1] == ';';
    if (object)
        s = hw_bytes_of(s.p + 1, s.n - 2);
    for (size_t i = 0; !known && i < s.n; i++)
        hw_strbuf_addc(out, s.p[i] == '/' ? '.' : (char)s.p[i]);
    for (size_t i = 0; i < dims; i++)
        hw_strbuf_adds(out, "[]");
}

static int read_name(struct hw_java_classes *c, struct class *k, struct hw_bytes signature)
{
    struct hw_strbuf name = {0};
    hw_java_type_name(signature, &name);
    k->name = name.failed ? NULL : hw_arena_copy(&c->arena, name.n ? name.p : "", name.n);
    hw_strbuf_done(&name);
    return k->name ? HW_OK : HW_ENOMEM;
}

static bool is_reference(struct hw_bytes signature)
{
    return signature.n && (signature.p[0] == 'L' || signature.p[0] == '[');
}

static int read_fields(struct hw_java_classes *c, uint32_t number, struct hw_java_cursor *at)
{
    struct class *k = &c->all[number];
    k->first_field = c->fields.n;
    k->n_fields = get_count(at);
    for (size_t i = 0; i < k->n_fields; i++) {
        struct hw_java_field f = {.of = number, .slot = HW_JAVA_NO_SLOT};
        f.is_static = hw_java_get(at) != 0;
        f.name = hw_java_get_text(at);
        f.signature = hw_java_get_text(at);
        if (!f.is_static && is_reference(f.signature))
            f.slot = k->n_own_slots++;
        if (hw_vec_push(&c->fields, f) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

static int read_class(struct hw_java_classes *c, uint32_t number, struct hw_java_cursor *at)
{
    struct class *k = &c->all[number];
    k->bits = (uint32_t)hw_java_get(at);
    k->super = (uint32_t)hw_java_get(at);
    if (k->super > c->n)
        k->super = 0;
    int rc = read_name(c, k, hw_java_get_text(at));
    k->first_interface = c->interfaces.n;
    k->n_interfaces = get_count(at);
    for (size_t i = 0; i < k->n_interfaces && rc == 0; i++) {
        uint64_t v = hw_java_get(at);
        rc = hw_vec_push(&c->interfaces, v <= c->n ? (uint32_t)v : 0) < 0 ? HW_ENOMEM : HW_OK;
    }
    return rc == 0 ? read_fields(c, number, at) : rc;
}

/* ---- kinds ---- */

static const struct {
    const char *name;
    enum hw_java_kind kind;
} ancestors[] = {
    {"java.lang.ClassLoader", HW_JAVA_KIND_LOADER},
    {"java.lang.ref.SoftReference", HW_JAVA_KIND_SOFT},
    {"java.lang.ref.WeakReference", HW_JAVA_KIND_WEAK},
    {"java.lang.ref.PhantomReference", HW_JAVA_KIND_PHANTOM},
    {"java.lang.ref.FinalReference", HW_JAVA_KIND_FINALIZER},
    {"java.lang.String", HW_JAVA_KIND_STRING},
};

static void settle(struct hw_java_classes *c, struct class *k)
{
    uint32_t at = (uint32_t)(k - c->all), depth = 0;
    if (k->bits & HW_JAVA_CLASS_ARRAY) {
        size_t n = strlen(k->name);
        bool objects = true;
        for (size_t i = 0; i < HW_ARRAY_LEN(primitives); i++)
            objects &= strncmp(k->name, primitives[i].name, n - 2) != 0 ||
                       strlen(primitives[i].name) != n - 2;
        k->kind = objects ? HW_JAVA_KIND_ARRAY : HW_JAVA_KIND_NO_REFERENCES;
        return;
    }
    for (; at && depth < MAX_DEPTH; at = c->all[at].super, depth++) {
        k->n_slots += c->all[at].n_own_slots;
        for (size_t i = 0; i < HW_ARRAY_LEN(ancestors) && k->kind == HW_JAVA_KIND_NORMAL; i++)
            if (strcmp(c->all[at].name, ancestors[i].name) == 0)
                k->kind = ancestors[i].kind;
    }
    if (k->kind == HW_JAVA_KIND_NORMAL && k->n_slots == 0)
        k->kind = HW_JAVA_KIND_NO_REFERENCES;
}

static int index_names(struct hw_java_classes *c)
{
    int rc = hw_strings_new(&c->names);
    for (uint32_t i = 1; i <= c->n && rc == 0; i++)
        rc = hw_strings_intern(c->names, hw_bytes_str(c->all[i].name), &c->all[i].name_id);
    c->n_names = rc == 0 ? hw_strings_count(c->names) : 0;
    c->by_name = rc == 0 ? calloc(c->n_names + 1, sizeof *c->by_name) : NULL;
    c->types = rc == 0 ? calloc(c->fields.n + 1, sizeof *c->types) : NULL;
    if (!c->by_name || !c->types)
        return HW_ENOMEM;
    for (uint32_t i = (uint32_t)c->n; i >= 1; i--) /* of several the first */
        c->by_name[c->all[i].name_id.v] = i;
    return HW_OK;
}

int hw_java_classes_parse(struct hw_bytes table, struct hw_java_classes **out, struct hw_error *err)
{
    int rc = HW_ENOMEM;
    struct hw_java_classes *c = calloc(1, sizeof *c);
    if (!c)
        return hw_fail(err, HW_ENOMEM, 0, "classes");
    c->text = malloc(table.n + 1);
    if (!c->text)
        goto fail;
    memcpy(c->text, table.p, table.n);
    struct hw_java_cursor at = {(const uint8_t *)c->text, (const uint8_t *)c->text + table.n,
                                false};
    uint64_t n = hw_java_get(&at);
    if (at.bad || n > MAX_CLASSES || n > table.n) {
        rc = HW_EFORMAT;
        goto fail;
    }
    c->n = (size_t)n;
    c->all = calloc(c->n + 1, sizeof *c->all);
    if (!c->all || hw_vec_reserve(&c->stamps, c->n + 1) < 0)
        goto fail;
    memset(c->stamps.v, 0, (c->n + 1) * sizeof *c->stamps.v);
    c->all[0].name = "<unknown class>";
    for (uint32_t i = 1; i <= c->n; i++) {
        rc = read_class(c, i, &at);
        if (rc == 0 && at.bad)
            rc = HW_EFORMAT;
        if (rc < 0)
            goto fail;
    }
    for (uint32_t i = 1; i <= c->n; i++)
        settle(c, &c->all[i]);
    rc = index_names(c);
    if (rc < 0)
        goto fail;
    *out = c;
    return HW_OK;
fail:
    hw_java_classes_free(c);
    return hw_fail(err, rc, 0, "the class table sent by the JVM");
}

void hw_java_classes_free(struct hw_java_classes *c)
{
    if (!c)
        return;
    for (size_t i = 0; c->all && i <= c->n; i++)
        free(c->all[i].places);
    free(c->all);
    free(c->types);
    free(c->by_name);
    hw_strings_free(c->names);
    hw_vec_done(&c->interfaces);
    hw_vec_done(&c->fields);
    hw_vec_done(&c->stamps);
    hw_arena_done(&c->arena);
    free(c->text);
    free(c);
}

/* ---- queries ---- */

static const struct class *class_of(const struct hw_java_classes *c, uint32_t number)
{
    return &c->all[number <= c->n ? number : 0];
}

size_t hw_java_classes_count(const struct hw_java_classes *c)
{
    return c->n;
}

const char *hw_java_class_name(const struct hw_java_classes *c, uint32_t number)
{
    return class_of(c, number)->name;
}

uint32_t hw_java_class_super(const struct hw_java_classes *c, uint32_t number)
{
    return class_of(c, number)->super;
}

enum hw_java_kind hw_java_class_kind(const struct hw_java_classes *c, uint32_t number)
{
    return class_of(c, number)->kind;
}

uint32_t hw_java_class_slots(const struct hw_java_classes *c, uint32_t number)
{
    return class_of(c, number)->n_slots;
}

const struct hw_java_field *hw_java_class_fields(const struct hw_java_classes *c, uint32_t number,
                                                 size_t *n)
{
    *n = class_of(c, number)->n_fields;
    return c->fields.v ? c->fields.v + class_of(c, number)->first_field : NULL;
}

/* Fields of all interfaces, each once. todo grows by what is found. */
static int count_interfaces(struct hw_java_classes *c, uint32_t number, size_t *n)
{
    HW_VEC(uint32_t) todo = {0};
    int rc = HW_OK;
    uint32_t depth = 0;
    c->stamp++;
    for (uint32_t at = number; at && depth < MAX_DEPTH; at = c->all[at].super, depth++)
        if (hw_vec_push(&todo, at) < 0)
            rc = HW_ENOMEM;
    for (size_t i = 0; i < todo.n && rc == 0; i++) {
        const struct class *k = &c->all[todo.v[i]];
        for (size_t j = 0; j < k->n_interfaces && rc == 0; j++) {
            uint32_t other = c->interfaces.v[k->first_interface + j];
            if (!other || c->stamps.v[other] == c->stamp)
                continue;
            c->stamps.v[other] = c->stamp;
            *n += c->all[other].n_fields;
            rc = hw_vec_push(&todo, other) < 0 ? HW_ENOMEM : HW_OK;
        }
    }
    hw_vec_done(&todo);
    return rc;
}

static int make_places(struct hw_java_classes *c, uint32_t number)
{
    struct class *k = &c->all[number];
    uint32_t chain[MAX_DEPTH], depth = 0, at = number;
    size_t n = 0, before = 0, next = 0;
    for (; at && depth < MAX_DEPTH; at = c->all[at].super) {
        chain[depth++] = at;
        n += c->all[at].n_fields;
    }
    int rc = count_interfaces(c, number, &before);
    k->places = rc == 0 ? calloc(n + 1, sizeof *k->places) : NULL;
    if (!k->places)
        return HW_ENOMEM;
    for (uint32_t i = depth; i-- > 0;) {
        const struct class *d = &c->all[chain[i]];
        uint32_t below = 0; /* slots of the classes derived from it */
        for (uint32_t j = 0; j < i; j++)
            below += c->all[chain[j]].n_own_slots;
        for (size_t f = 0; f < d->n_fields; f++) {
            const struct hw_java_field *field = &c->fields.v[d->first_field + f];
            k->places[next++] = (struct place){
                field, field->slot == HW_JAVA_NO_SLOT ? HW_JAVA_NO_SLOT : below + field->slot};
        }
    }
    k->n_places = n;
    k->n_before = before;
    return HW_OK;
}

const struct hw_java_field *hw_java_class_field(struct hw_java_classes *c, uint32_t number,
                                                uint32_t index, uint32_t *slot)
{
    if (number == 0 || number > c->n)
        return NULL;
    struct class *k = &c->all[number];
    if (!k->places && make_places(c, number) < 0)
        return NULL;
    if (index < k->n_before || index - k->n_before >= k->n_places)
        return NULL;
    const struct place *p = &k->places[index - k->n_before];
    *slot = p->slot;
    return p->field;
}

/* ---- what fields hold ---- */

uint32_t hw_java_class_find(struct hw_java_classes *c, const char *name)
{
    hw_str_id id;
    if (hw_strings_intern(c->names, hw_bytes_str(name), &id) < 0)
        return 0;
    return id.v < c->n_names ? c->by_name[id.v] : 0; /* else it is new: no class's */
}

static enum holds holds(struct hw_java_classes *c, const struct hw_java_field *f, hw_str_id *name)
{
    struct hw_strbuf text = {0};
    hw_java_type_name(f->signature, &text);
    const char *type = text.failed || !text.p ? "" : text.p;
    uint32_t declared = hw_java_class_find(c, type);
    size_t n = f->signature.n;
    enum holds h = HOLDS_NAMED;
    if (n > 2 && f->signature.p[0] == '[' && (f->signature.p[1] == 'L' || f->signature.p[1] == '['))
        h = HOLDS_OBJECT_ARRAYS;
    else if (!declared || strcmp(type, "java.lang.Object") == 0 ||
             (c->all[declared].bits & HW_JAVA_CLASS_INTERFACE))
        h = HOLDS_ANYTHING;
    *name = c->all[declared].name_id;
    hw_strbuf_done(&text);
    return h;
}

bool hw_java_class_fits(struct hw_java_classes *c, const struct hw_java_field *field,
                        uint32_t number)
{
    struct type *t = &c->types[field - c->fields.v];
    uint32_t depth = 0;
    if (t->holds == HOLDS_UNKNOWN)
        t->holds = holds(c, field, &t->name);
    if (t->holds == HOLDS_ANYTHING || number == 0 || number > c->n || t->last_ok == number)
        return true;
    bool fits = t->holds == HOLDS_OBJECT_ARRAYS && c->all[number].kind == HW_JAVA_KIND_ARRAY;
    for (uint32_t at = number; t->holds == HOLDS_NAMED && at && depth < MAX_DEPTH && !fits;
         at = c->all[at].super, depth++)
        fits = c->all[at].name_id.v == t->name.v;
    if (fits)
        t->last_ok = number;
    return fits;
}

void hw_java_class_doubt(struct hw_java_classes *c, uint32_t number)
{
    if (number == 0 || number > c->n || c->all[number].doubtful)
        return;
    c->all[number].doubtful = true;
    c->n_doubtful++;
}

bool hw_java_class_is_doubtful(const struct hw_java_classes *c, uint32_t number)
{
    return class_of(c, number)->doubtful;
}

size_t hw_java_classes_doubtful(const struct hw_java_classes *c)
{
    return c->n_doubtful;
}

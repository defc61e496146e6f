/*
 * A java.lang.String refers to an array: of chars in old runtimes; of bytes since Java 9, Latin-1
 * or UTF-16 according to `coder`. The array may precede or follow the string, so texts are decoded
 * at the end.
 */
#include "import/hprof/hprof_contents.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "base/text/utf8.h"

#include "base/banned.h"

struct text {
    uint32_t data; /* row of hw_heap_graph.data */
    uint64_t array;
    uint8_t coder;
};

struct contents {
    const struct hw_hprof_classes *c;
    const struct hw_graph_builder *b;
    struct hw_profile *p;
    struct hw_heap_graph *g;
    uint32_t id_bytes, next_set;
    struct hw_map64 element_of; /* name of an array's class -> that of its elements */
    struct hw_map64 array_at;   /* id of an array of bytes or chars -> its record's offset */
    HW_VEC(struct text) texts;
    hw_str_id type_names[HW_HPROF_TYPE_COUNT];
};

static struct hw_heap_data *data_new(struct contents *x, uint32_t object)
{
    struct hw_heap_data d = {.field_set = HW_ID_NONE, .element_count = -1, .data_id = -1};
    struct hw_heap_graph *g = x->g;
    if (g->data_of[object] != HW_ID_NONE || hw_vec_push(&g->data, d) < 0)
        return NULL;
    g->data_of[object] = (uint32_t)g->data.n - 1;
    return &g->data.v[g->data.n - 1];
}

static int add_primitive(struct contents *x, hw_str_id name, uint8_t type,
                         struct hw_hprof_cursor value)
{
    static const char letters[HW_HPROF_TYPE_COUNT] = {
        [HW_HPROF_BOOLEAN] = 'Z', [HW_HPROF_CHAR] = 'C', [HW_HPROF_FLOAT] = 'F',
        [HW_HPROF_DOUBLE] = 'D',  [HW_HPROF_BYTE] = 'B', [HW_HPROF_SHORT] = 'S',
        [HW_HPROF_INT] = 'I',     [HW_HPROF_LONG] = 'J',
    };
    unsigned n = hw_hprof_type_bytes(type, x->id_bytes);
    struct hw_heap_primitive row = {.set = x->next_set,
                                    .field_name = name,
                                    .field_type = x->type_names[type],
                                    .type = letters[type]};
    uint64_t bits = hw_hprof_u(&value, n);
    uint32_t low = (uint32_t)bits;
    float single;
    if (type == HW_HPROF_DOUBLE) {
        memcpy(&row.real, &bits, sizeof row.real);
    } else if (type == HW_HPROF_FLOAT) {
        memcpy(&single, &low, sizeof single);
        row.real = (double)single;
    } else if (type == HW_HPROF_BOOLEAN || type == HW_HPROF_CHAR) {
        row.integer = (int64_t)bits;
    } else {
        unsigned shift = 64 - 8 * n;
        row.integer = (int64_t)(bits << shift) >> shift;
    }
    return hw_vec_push(&x->g->primitives, row) < 0 ? HW_ENOMEM : HW_OK;
}

static bool ends_with(const struct contents *x, hw_str_id name, const char *end)
{
    return hw_bytes_end_with(hw_strings_get(hw_callsites_strings(x->p->callsites), name), end);
}

struct instance {
    const struct hw_hprof_class *class;
    struct hw_bytes data;
};

static int add_fields(struct contents *x, const struct instance *in, uint32_t object)
{
    struct hw_heap_graph *g = x->g;
    struct text text = {.data = HW_ID_NONE};
    size_t before = g->primitives.n;
    bool is_string = in->class->kind == HW_KIND_STRING;
    for (size_t i = 0; i < in->class->n_slots; i++) {
        const struct hw_hprof_slot *slot = &x->c->slots.v[in->class->first_slot + i];
        const struct hw_hprof_field *f = &x->c->fields.v[slot->field];
        unsigned n = hw_hprof_type_bytes(f->type, x->id_bytes);
        if (slot->offset + (uint64_t)n > in->data.n)
            break; /* offsets rise */
        struct hw_hprof_cursor value = {in->data.p + slot->offset, in->data.p + in->data.n,
                                        x->id_bytes, false};
        if (is_string && f->type == HW_HPROF_OBJECT && ends_with(x, f->name, ".value"))
            text.array = hw_hprof_id(&value);
        if (is_string && f->type == HW_HPROF_BYTE && ends_with(x, f->name, ".coder"))
            text.coder = *value.p;
        if (f->type != HW_HPROF_OBJECT && add_primitive(x, f->name, f->type, value) < 0)
            return HW_ENOMEM;
    }
    if (g->primitives.n == before && !text.array)
        return HW_OK;
    struct hw_heap_data *d = data_new(x, object);
    if (!d) {
        g->primitives.n = before;
        return HW_OK; /* described twice, or no memory: contents are optional */
    }
    if (g->primitives.n > before)
        d->field_set = x->next_set++;
    text.data = (uint32_t)(g->data.n - 1);
    return text.array && hw_vec_push(&x->texts, text) < 0 ? HW_ENOMEM : HW_OK;
}

static int add_instance(struct contents *x, struct hw_hprof_cursor c)
{
    struct instance in;
    uint32_t object;
    uint64_t id = hw_hprof_id(&c);
    (void)hw_hprof_u(&c, 4);
    in.class = hw_hprof_class_find(x->c, hw_hprof_id(&c));
    in.data = hw_hprof_bytes(&c, hw_hprof_u(&c, 4));
    if (!in.class || !hw_graph_find(x->b, id, &object))
        return HW_OK;
    return add_fields(x, &in, object);
}

/* "a.B[]" -> "a.B"; leaves *out unchanged if it is no array. */
static int element_type(struct contents *x, hw_str_id array, hw_str_id *out)
{
    uint64_t known;
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(x->p->callsites), array);
    if (name.n <= 2 || name.p[name.n - 1] != ']')
        return HW_OK;
    if (hw_map64_get(&x->element_of, array.v, &known)) {
        out->v = (uint32_t)known;
        return HW_OK;
    }
    int rc = hw_profile_str(x->p, hw_bytes_of(name.p, name.n - 2), out);
    return rc < 0 ? rc : hw_map64_put(&x->element_of, array.v, out->v);
}

/* Elements in the machine's byte order, while there is room: only the web page shows them. */
enum { MAX_ARRAY = 1 << 20, MAX_CONTENTS = 32 << 20 };

static int keep_contents(struct contents *x, struct hw_heap_data *d, uint8_t type,
                         struct hw_hprof_cursor c)
{
    size_t width = hw_hprof_type_bytes(type, x->id_bytes), n = (size_t)(c.end - c.p);
    struct hw_heap_graph *g = x->g;
    if (width == 0 || n > MAX_ARRAY || g->contents.n + n > MAX_CONTENTS)
        return HW_OK;
    if (hw_vec_reserve(&g->contents, g->contents.n + n) < 0)
        return HW_ENOMEM;
    d->has_contents = true;
    d->contents_at = g->contents.n;
    while ((size_t)(c.end - c.p) >= width) {
        uint64_t v = hw_hprof_u(&c, (unsigned)width);
        uint8_t *to = g->contents.v + g->contents.n;
        for (size_t i = 0; i < width; i++)
            to[__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? i : width - 1 - i] =
                (uint8_t)(v >> 8 * i);
        g->contents.n += width;
    }
    d->contents_bytes = g->contents.n - d->contents_at;
    return HW_OK;
}

static int add_array(struct contents *x, const struct hw_hprof_record *r)
{
    struct hw_hprof_cursor c = r->body;
    uint32_t object;
    uint64_t id = hw_hprof_id(&c);
    (void)hw_hprof_u(&c, 4);
    uint64_t n = hw_hprof_u(&c, 4), type = HW_HPROF_OBJECT;
    const struct hw_hprof_class *k = NULL;
    if (r->tag == HW_HPROF_OBJECT_ARRAY)
        k = hw_hprof_class_find(x->c, hw_hprof_id(&c));
    else
        type = hw_hprof_u(&c, 1);
    if (!hw_graph_find(x->b, id, &object) || type >= HW_HPROF_TYPE_COUNT)
        return HW_OK;
    struct hw_heap_data *d = data_new(x, object);
    if (!d)
        return HW_OK;
    d->element_count = (int64_t)n;
    d->element_type = x->type_names[type];
    if (k && element_type(x, k->name, &d->element_type) < 0)
        return HW_ENOMEM;
    if (r->tag == HW_HPROF_ARRAY_NO_DATA)
        return HW_OK;
    d->data_id = (int64_t)object;
    d->data_hash = (int64_t)hw_hash_bytes(c.p, (size_t)(c.end - c.p));
    if (r->tag != HW_HPROF_OBJECT_ARRAY && keep_contents(x, d, (uint8_t)type, c) < 0)
        return HW_ENOMEM;
    if ((type == HW_HPROF_BYTE || type == HW_HPROF_CHAR) && id != HW_MAP64_NO_KEY)
        return hw_map64_put(&x->array_at, id, r->offset);
    return HW_OK;
}

/* ---- texts ---- */

/* Unpaired surrogates become U+FFFD. */
static void add_utf16(struct hw_strbuf *to, struct hw_bytes b, bool big_endian)
{
    for (size_t i = 0; i + 2 <= b.n && to->n < HW_HPROF_MAX_TEXT; i += 2) {
        uint32_t u = hw_load_u16(b.p + i), low;
        u = big_endian ? __builtin_bswap16((uint16_t)u) : u;
        if (u >= 0xd800 && u < 0xdc00 && i + 4 <= b.n) {
            low = hw_load_u16(b.p + i + 2);
            low = big_endian ? __builtin_bswap16((uint16_t)low) : low;
            if (low >= 0xdc00 && low < 0xe000) {
                u = 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
                i += 2;
            }
        }
        hw_utf8_add_code(to, u >= 0xd800 && u < 0xe000 ? 0xfffd : u);
    }
}

static int decode_text(struct contents *x, const struct hw_hprof_file *f, const struct text *t,
                       struct hw_strbuf *utf8)
{
    uint64_t at;
    if (t->array == HW_MAP64_NO_KEY || !hw_map64_get(&x->array_at, t->array, &at))
        return HW_OK;
    struct hw_hprof_cursor c = {f->all.p + at + 1, f->all.p + f->all.n, x->id_bytes, false};
    (void)hw_hprof_bytes(&c, x->id_bytes + 4);
    uint64_t n = hw_hprof_u(&c, 4), type = hw_hprof_u(&c, 1);
    struct hw_bytes content = hw_hprof_bytes(&c, n * hw_hprof_type_bytes(type, x->id_bytes));
    hw_strbuf_clear(utf8);
    if (type == HW_HPROF_CHAR)
        add_utf16(utf8, content, /* big_endian = */ true);
    else if (t->coder)
        add_utf16(utf8, content, /* big_endian = */ false);
    else
        for (size_t i = 0; i < content.n && utf8->n < HW_HPROF_MAX_TEXT; i++)
            hw_utf8_add_code(utf8, content.p[i]);
    struct hw_heap_data *d = &x->g->data.v[t->data];
    d->has_string = true;
    return utf8->failed ? HW_ENOMEM
                        : hw_profile_str(x->p, hw_bytes_of(utf8->p, utf8->n), &d->string);
}

static int prepare(struct contents *x)
{
    x->g->data_of = malloc(((size_t)x->g->n_objects + 1) * sizeof *x->g->data_of);
    if (!x->g->data_of)
        return HW_ENOMEM;
    for (uint32_t o = 0; o < x->g->n_objects; o++)
        x->g->data_of[o] = HW_ID_NONE;
    for (unsigned t = 0; t < HW_HPROF_TYPE_COUNT; t++)
        if (hw_profile_str(x->p, hw_bytes_str(hw_hprof_type_name(t)), &x->type_names[t]) < 0)
            return HW_ENOMEM;
    return HW_OK;
}

int hw_hprof_add_contents(struct hw_hprof_file *f, const struct hw_hprof_classes *c,
                          const struct hw_graph_builder *b, struct hw_profile *p,
                          struct hw_heap_graph *g)
{
    struct contents x = {.c = c, .b = b, .p = p, .g = g, .id_bytes = f->id_bytes};
    struct hw_strbuf utf8 = {0};
    struct hw_hprof_record r;
    int rc = prepare(&x);
    hw_hprof_rewind(f);
    while (rc == HW_OK && hw_hprof_next(f, &r)) {
        if (r.tag == HW_HPROF_INSTANCE)
            rc = add_instance(&x, r.body);
        else if (r.tag == HW_HPROF_OBJECT_ARRAY || r.tag == HW_HPROF_PRIMITIVE_ARRAY ||
                 r.tag == HW_HPROF_ARRAY_NO_DATA)
            rc = add_array(&x, &r);
    }
    for (size_t i = 0; rc == HW_OK && i < x.texts.n; i++)
        rc = decode_text(&x, f, &x.texts.v[i], &utf8);
    hw_strbuf_done(&utf8);
    hw_map64_done(&x.element_of);
    hw_map64_done(&x.array_at);
    hw_vec_done(&x.texts);
    return rc;
}

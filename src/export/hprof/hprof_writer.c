/*
 * "JAVA PROFILE 1.0.2\0"  u4 size of ids  u8 ms since 1970
 * { u1 tag  u4 time  u4 length  bytes }…: strings, loaded classes, one empty stack, the threads'
 * stacks, segments of the dump { u1 tag  bytes }…, its end. Everything is big-endian.
 *
 * Object o has the id 8 * (o + 1); classes without a class object have ids beyond those. Only root
 * tags that every reader knows are used: Android's own become "unknown".
 *
 * Thread t of the graph has the number t + 1, its stack HW_HPROF_FIRST_STACK + t. Readers take a
 * thread's name from the heap, so the array of its String gets the bytes. All other arrays of
 * unknown contents are zeros.
 */
#include "export/hprof/hprof_writer.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/text/strbuf.h"
#include "base/text/strings.h"
#include "export/export.h"
#include "export/hprof/hprof_job.h"
#include "export/hprof/hprof_layout.h"

#include "base/banned.h"

enum {
    T_TEXT = 0x01,
    T_LOAD_CLASS = 0x02,
    T_SEGMENT = 0x1c,
    T_END = 0x2c,
    D_CLASS = 0x20,
    D_INSTANCE = 0x21,
    D_OBJECT_ARRAY = 0x22,
    D_PRIMITIVE_ARRAY = 0x23,
    NO_STACK = 1,
    SEGMENT = 1 << 20,
    MAX_STATIC_PADDING = 4096
};

struct hw_bytes hw_hprof_out_text(const struct hw_hprof_out_job *j, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(j->l.p->callsites), id);
}

void hw_hprof_out_put(struct hw_strbuf *b, uint64_t v, unsigned n_bytes)
{
    for (unsigned i = n_bytes; i-- > 0;)
        hw_strbuf_addc(b, (char)(v >> (8 * i) & 0xff));
}

void hw_hprof_out_put_zeros(struct hw_strbuf *b, uint64_t n)
{
    static const char zeros[256];
    for (; n; n -= n < sizeof zeros ? n : sizeof zeros)
        hw_strbuf_add(b, zeros, n < sizeof zeros ? (size_t)n : sizeof zeros);
}

void hw_hprof_out_write_out(struct hw_hprof_out_job *j, struct hw_strbuf *b)
{
    if (b->failed && j->rc == HW_OK)
        j->rc = HW_ENOMEM;
    if (j->rc == HW_OK && b->n)
        (void)fwrite(b->p, 1, b->n, j->out); /* the stream remembers a failure */
    hw_strbuf_clear(b);
}

void hw_hprof_out_put_head(struct hw_hprof_out_job *j, uint8_t tag, uint64_t length)
{
    struct hw_strbuf head = {0};
    hw_hprof_out_put(&head, tag, 1);
    hw_hprof_out_put(&head, 0, 4);
    hw_hprof_out_put(&head, length, 4);
    hw_hprof_out_write_out(j, &head);
    hw_strbuf_done(&head);
}

static void end_segment(struct hw_hprof_out_job *j)
{
    if (j->segment.n == 0)
        return;
    hw_hprof_out_put_head(j, T_SEGMENT, j->segment.n);
    hw_hprof_out_write_out(j, &j->segment);
}

void hw_hprof_out_end_if_full(struct hw_hprof_out_job *j)
{
    if (j->segment.n >= SEGMENT)
        end_segment(j);
}

/* ---- numbers ---- */

uint64_t hw_hprof_out_object_id(uint32_t o)
{
    return o == HW_ID_NONE ? 0 : ((uint64_t)o + 1) * 8;
}

/* A reference; 0 if its object is not in the file, as readers reject dangling ones. */
static uint64_t target_id(const struct hw_hprof_out_job *j, uint32_t o)
{
    bool is_there = o != HW_ID_NONE &&
                    (hw_hprof_is_instance(&j->l, o) || j->l.class_of_object[o] != HW_ID_NONE);
    return is_there ? hw_hprof_out_object_id(o) : 0;
}

static uint64_t class_id(const struct hw_hprof_out_job *j, uint32_t class)
{
    if (class == HW_ID_NONE)
        return 0;
    const struct hw_hprof_out_class *c = &j->l.classes.v[class];
    return c->mirror != HW_ID_NONE ? hw_hprof_out_object_id(c->mirror)
                                   : ((uint64_t)j->g->n_objects + 1 + class) * 8;
}

/* The id of a string. A new string is written at once, and so precedes the segment that is being
 * filled. */
uint64_t hw_hprof_out_text_id(struct hw_hprof_out_job *j, struct hw_bytes s)
{
    hw_str_id id = {0};
    size_t before = hw_strings_count(j->names);
    int rc = hw_strings_intern(j->names, s, &id);
    if (rc < 0 && j->rc == HW_OK)
        j->rc = rc;
    bool is_new = s.n ? hw_strings_count(j->names) > before : !j->has_empty;
    j->has_empty |= s.n == 0; /* hw_strings always contains the empty one */
    if (rc == HW_OK && is_new) {
        struct hw_strbuf b = {0};
        hw_hprof_out_put_head(j, T_TEXT, HW_HPROF_ID_BYTES + s.n);
        hw_hprof_out_put(&b, (uint64_t)id.v + 1, HW_HPROF_ID_BYTES);
        hw_strbuf_add(&b, s.p, s.n);
        hw_hprof_out_write_out(j, &b);
        hw_strbuf_done(&b);
    }
    return (uint64_t)id.v + 1;
}

/* ---- names ---- */

/* "java.lang.String[][]" -> "[[Ljava/lang/String;", "int[]" -> "[I". */
static void add_raw_name(struct hw_strbuf *b, struct hw_bytes name)
{
    static const struct {
        const char *name;
        char letter;
    } letters[] = {{"boolean", 'Z'}, {"char", 'C'},  {"float", 'F'}, {"double", 'D'},
                   {"byte", 'B'},    {"short", 'S'}, {"int", 'I'},   {"long", 'J'}};
    size_t dims = 0;
    char letter = 0;
    for (; name.n > 2 && name.p[name.n - 1] == ']' && name.p[name.n - 2] == '['; name.n -= 2) {
        hw_strbuf_addc(b, '[');
        dims++;
    }
    for (size_t i = 0; dims && i < HW_ARRAY_LEN(letters); i++)
        if (hw_bytes_equal(name, hw_bytes_str(letters[i].name)))
            letter = letters[i].letter;
    if (letter) {
        hw_strbuf_addc(b, letter);
        return;
    }
    if (dims)
        hw_strbuf_addc(b, 'L');
    for (size_t i = 0; i < name.n; i++)
        hw_strbuf_addc(b, name.p[i] == '.' ? '/' : (char)name.p[i]);
    if (dims)
        hw_strbuf_addc(b, ';');
}

/* The name to show: the deobfuscated one where there is one. */
struct hw_bytes hw_hprof_out_class_name(struct hw_hprof_out_job *j, uint32_t class)
{
    static const char start[] = "java.lang.Class<";
    const struct hw_hprof_out_class *c = &j->l.classes.v[class];
    struct hw_bytes name = hw_hprof_out_text(
        j, c->row != HW_ID_NONE ? hw_class_shown_name(&j->g->classes[c->row])
                                : hw_class_shown_name(&j->g->classes[j->g->type[c->mirror]]));
    if (c->row == HW_ID_NONE && name.n > sizeof start) {
        name.p += sizeof start - 1;
        name.n -= sizeof start;
    }
    return name;
}

static uint64_t class_name_id(struct hw_hprof_out_job *j, uint32_t class)
{
    hw_strbuf_clear(&j->name);
    struct hw_bytes name = hw_hprof_out_class_name(j, class);
    add_raw_name(&j->name, name.n ? name : hw_bytes_str("unknown"));
    return hw_hprof_out_text_id(j, hw_bytes_of(j->name.p, j->name.n));
}

/* "pkg.Class.field" -> "field". */
static uint64_t field_name_id(struct hw_hprof_out_job *j, struct hw_bytes name)
{
    size_t at = name.n;
    while (at && name.p[at - 1] != '.')
        at--;
    return hw_hprof_out_text_id(j, hw_bytes_skip(name, at));
}

static uint64_t ref_name_id(struct hw_hprof_out_job *j, uint32_t ref)
{
    const struct hw_heap_field *f = &j->g->fields[j->g->ref_field[ref]];
    return field_name_id(j, hw_hprof_out_text(j, f->clear_name.v ? f->clear_name : f->name));
}

/* ---- records before the dump ---- */

static void put_start(struct hw_hprof_out_job *j)
{
    static const char magic[] = "JAVA PROFILE 1.0.2";
    struct hw_strbuf b = {0};
    hw_strbuf_add(&b, magic, sizeof magic);
    hw_hprof_out_put(&b, HW_HPROF_ID_BYTES, 4);
    hw_hprof_out_put(&b, (uint64_t)(j->g->ts_ns > 0 ? j->g->ts_ns / 1000000 : 0), 8);
    hw_hprof_out_write_out(j, &b);
    hw_strbuf_done(&b);
    hw_hprof_out_put_head(j, HW_HPROF_TAG_STACK, 12);
    hw_hprof_out_put(&b, NO_STACK, 4);
    hw_hprof_out_put(&b, 0, 8); /* of no thread, without frames */
    hw_hprof_out_write_out(j, &b);
    hw_strbuf_done(&b);
}

/* False for the graph's class of objects without a description: it has neither name nor objects. */
bool hw_hprof_out_is_written(const struct hw_hprof_out_job *j, uint32_t class)
{
    const struct hw_hprof_out_class *c = &j->l.classes.v[class];
    return !c->is_class_class && (c->min_bytes >= 0 || hw_hprof_out_text(j, c->name).n > 0);
}

static void put_loads(struct hw_hprof_out_job *j)
{
    struct hw_strbuf b = {0};
    for (uint32_t c = 0; c < j->l.classes.n && j->rc == HW_OK; c++) {
        if (!hw_hprof_out_is_written(j, c))
            continue;
        uint64_t name = class_name_id(j, c);
        hw_hprof_out_put_head(j, T_LOAD_CLASS, 4 + HW_HPROF_ID_BYTES + 4 + HW_HPROF_ID_BYTES);
        hw_hprof_out_put(&b, (uint64_t)c + 1, 4);
        hw_hprof_out_put(&b, class_id(j, c), HW_HPROF_ID_BYTES);
        hw_hprof_out_put(&b, NO_STACK, 4);
        hw_hprof_out_put(&b, name, HW_HPROF_ID_BYTES);
        hw_hprof_out_write_out(j, &b);
    }
    hw_strbuf_done(&b);
}

/* ---- classes ---- */

/* The references of a class object, split as in the class's record. */
struct statics {
    uint64_t loader, internal[2]; /* internal: signers and protection domain */
    unsigned n_internal;
    uint32_t n;       /* others: static fields */
    uint32_t n_in_it; /* of those: fields of the class object */
    uint32_t padding;
};

/* Outside: not in the class object, as its internal references, but a field of the file. */
enum role { ROLE_STATIC, ROLE_SUPER, ROLE_LOADER, ROLE_INTERNAL, ROLE_OUTSIDE };

static bool ends_with(struct hw_bytes text, const char *end)
{
    size_t n = strlen(end);
    return text.n >= n && memcmp(text.p + text.n - n, end, n) == 0;
}

static enum role role_of(const struct hw_hprof_out_job *j, uint32_t ref)
{
    struct hw_bytes name = hw_hprof_out_text(j, j->g->fields[j->g->ref_field[ref]].name);
    if (hw_bytes_equal(name, hw_bytes_str("java.lang.Class.superClass")))
        return ROLE_SUPER;
    if (hw_bytes_equal(name, hw_bytes_str("java.lang.Class.classLoader")))
        return ROLE_LOADER;
    if (hw_bytes_equal(name, hw_bytes_str("runtimeInternalObjects")))
        return ROLE_INTERNAL;
    return ends_with(name, ".<resolved_references>") ? ROLE_OUTSIDE : ROLE_STATIC;
}

static struct statics collect_statics(struct hw_hprof_out_job *j,
                                      const struct hw_hprof_out_class *c)
{
    enum { MOST = 65000 };
    struct statics s = {0};
    if (c->row != HW_ID_NONE)
        s.loader = target_id(j, j->g->classes[c->row].classloader);
    if (c->mirror == HW_ID_NONE)
        return s;
    for (uint32_t r = j->g->first_ref[c->mirror]; r < j->g->first_ref[c->mirror + 1]; r++) {
        uint64_t target = target_id(j, j->g->ref_owned[r]);
        enum role role = role_of(j, r);
        if (role == ROLE_LOADER)
            s.loader = target;
        else if (role == ROLE_INTERNAL && s.n_internal < 2)
            s.internal[s.n_internal++] = target;
        else if (role != ROLE_SUPER && s.n < MOST) {
            s.n++;
            s.n_in_it += role == ROLE_STATIC;
        } else if (role != ROLE_SUPER)
            j->l.left_out++;
    }
    uint64_t file_bytes = j->size_of_class + 4 * (uint64_t)s.n_in_it;
    uint64_t graph_bytes = (uint64_t)hw_object_size(j->g, c->mirror);
    if (graph_bytes > ((file_bytes + 7) & ~(uint64_t)7))
        s.padding = graph_bytes - file_bytes < MAX_STATIC_PADDING
                        ? (uint32_t)(graph_bytes - file_bytes)
                        : MAX_STATIC_PADDING;
    return s;
}

/* The number of padding fields: of eight bytes, then of one. */
static uint32_t n_padding(uint32_t bytes)
{
    return bytes / 8 + bytes % 8;
}

static void put_padding(struct hw_hprof_out_job *j, uint32_t bytes, bool with_value)
{
    uint64_t name = hw_hprof_out_text_id(j, hw_bytes_str("padding"));
    for (uint32_t left = bytes; left; left -= left >= 8 ? 8 : 1) {
        hw_hprof_out_put(&j->segment, name, HW_HPROF_ID_BYTES);
        hw_hprof_out_put(&j->segment, left >= 8 ? HW_HV_LONG : HW_HV_BYTE, 1);
        if (with_value)
            hw_hprof_out_put(&j->segment, 0, left >= 8 ? 8 : 1);
    }
}

static void put_static_fields(struct hw_hprof_out_job *j, const struct hw_hprof_out_class *c,
                              const struct statics *s)
{
    uint32_t left = s->n;
    unsigned n_internal = 0;
    hw_hprof_out_put(&j->segment, s->n + n_padding(s->padding), 2);
    put_padding(j, s->padding, /* with_value = */ true);
    for (uint32_t r = c->mirror == HW_ID_NONE ? 0 : j->g->first_ref[c->mirror]; left; r++) {
        enum role role = role_of(j, r);
        if (role == ROLE_SUPER || role == ROLE_LOADER ||
            (role == ROLE_INTERNAL && n_internal++ < s->n_internal))
            continue;
        hw_hprof_out_put(&j->segment, ref_name_id(j, r), HW_HPROF_ID_BYTES);
        hw_hprof_out_put(&j->segment, HW_HV_REF, 1);
        hw_hprof_out_put(&j->segment, target_id(j, j->g->ref_owned[r]), HW_HPROF_ID_BYTES);
        left--;
    }
}

static void put_instance_fields(struct hw_hprof_out_job *j, const struct hw_hprof_out_class *c)
{
    hw_hprof_out_put(&j->segment, c->n_slots + n_padding(c->padding), 2);
    for (uint32_t s = c->first; s != HW_ID_NONE; s = j->l.slots.v[s].next) {
        const struct hw_hprof_slots *f = &j->l.slots.v[s];
        uint64_t name = field_name_id(j, hw_hprof_out_text(j, f->name));
        for (uint32_t i = 0; i < f->count; i++) {
            hw_hprof_out_put(&j->segment, name, HW_HPROF_ID_BYTES);
            hw_hprof_out_put(&j->segment, f->type, 1);
        }
    }
    put_padding(j, c->padding, /* with_value = */ false);
}

static void put_class(struct hw_hprof_out_job *j, uint32_t class)
{
    const struct hw_hprof_out_class *c = &j->l.classes.v[class];
    struct statics s = collect_statics(j, c);
    uint32_t super = c->super;
    /* Arrays, and classes known only by their class object. */
    if (super == HW_ID_NONE && class != j->object_class && (c->array_of || c->row == HW_ID_NONE))
        super = j->object_class;
    hw_hprof_out_put(&j->segment, D_CLASS, 1);
    hw_hprof_out_put(&j->segment, class_id(j, class), HW_HPROF_ID_BYTES);
    hw_hprof_out_put(&j->segment, NO_STACK, 4);
    hw_hprof_out_put(&j->segment, class_id(j, super), HW_HPROF_ID_BYTES);
    hw_hprof_out_put(&j->segment, s.loader, HW_HPROF_ID_BYTES);
    hw_hprof_out_put(&j->segment, s.internal[0], HW_HPROF_ID_BYTES);
    hw_hprof_out_put(&j->segment, s.internal[1], HW_HPROF_ID_BYTES);
    hw_hprof_out_put_zeros(&j->segment, 2 * HW_HPROF_ID_BYTES);
    hw_hprof_out_put(&j->segment, c->all_bytes, 4);
    hw_hprof_out_put(&j->segment, 0, 2); /* constants */
    put_static_fields(j, c, &s);
    put_instance_fields(j, c);
    hw_hprof_out_end_if_full(j);
}

/* ---- objects ---- */

static void set(struct hw_hprof_out_job *j, uint32_t at, uint64_t v, unsigned n_bytes)
{
    for (unsigned i = 0; i < n_bytes && !j->bytes.failed; i++)
        j->bytes.p[at + i] = (char)(v >> (8 * (n_bytes - 1 - i)) & 0xff);
}

static uint64_t bits_of(const struct hw_heap_primitive *p)
{
    float single = (float)p->real;
    uint64_t bits;
    uint32_t low;
    memcpy(&bits, &p->real, sizeof bits);
    memcpy(&low, &single, sizeof low);
    return p->type == 'D' ? bits : p->type == 'F' ? low : (uint64_t)p->integer;
}

static void put_instance(struct hw_hprof_out_job *j, uint32_t o)
{
    uint32_t class = j->g->type[o], n_bytes = j->l.classes.v[class].all_bytes;
    size_t n;
    const struct hw_heap_primitive *p = hw_hprof_primitives_of(j->g, o, &n);
    hw_strbuf_clear(&j->bytes);
    hw_hprof_out_put_zeros(&j->bytes, n_bytes);
    hw_hprof_object_begin(&j->l);
    for (size_t i = 0; i < n; i++) {
        uint32_t field = hw_hprof_primitive_field(&j->l, &p[i]);
        uint32_t at = field == HW_ID_NONE ? HW_ID_NONE : hw_hprof_field_offset(&j->l, class, field);
        if (at != HW_ID_NONE)
            set(j, at, bits_of(&p[i]), hw_hprof_value_bytes(hw_hprof_type_of(&p[i])));
    }
    for (uint32_t r = j->g->first_ref[o]; r < j->g->first_ref[o + 1]; r++) {
        uint32_t at = hw_hprof_field_offset(&j->l, class, j->g->ref_field[r]);
        if (at != HW_ID_NONE)
            set(j, at, target_id(j, j->g->ref_owned[r]), HW_HPROF_ID_BYTES);
    }
    hw_hprof_out_put(&j->segment, D_INSTANCE, 1);
    hw_hprof_out_put(&j->segment, hw_hprof_out_object_id(o), HW_HPROF_ID_BYTES);
    hw_hprof_out_put(&j->segment, NO_STACK, 4);
    hw_hprof_out_put(&j->segment, class_id(j, class), HW_HPROF_ID_BYTES);
    hw_hprof_out_put(&j->segment, n_bytes, 4);
    hw_strbuf_add(&j->segment, j->bytes.p, j->bytes.n);
}

/* The thread name whose bytes this array holds, or empty. Valid until the next call. */
static struct hw_bytes name_in(struct hw_hprof_out_job *j, uint32_t o)
{
    uint64_t thread;
    if (j->name_in.n == 0 || !hw_map64_get(&j->name_in, o, &thread))
        return (struct hw_bytes){0};
    hw_strbuf_clear(&j->name);
    /* Cannot fail: find_name converted it before. */
    (void)hw_hprof_out_add_latin1(&j->name, hw_hprof_out_text(j, j->g->threads.v[thread].name));
    return hw_bytes_of(j->name.p, j->name.n);
}

/* In a segment of its own, as its zeros are not collected in memory. */
static void put_array(struct hw_hprof_out_job *j, uint32_t o)
{
    const struct hw_hprof_out_class *c = &j->l.classes.v[j->g->type[o]];
    bool is_refs = c->array_of == HW_HV_REF;
    struct hw_bytes name = name_in(j, o);
    uint64_t n = name.n ? name.n : hw_hprof_elements(&j->l, o), n_refs = 0;
    uint64_t bytes = n * hw_hprof_value_bytes(c->array_of);
    bool separate = bytes > SEGMENT;
    if (separate) {
        end_segment(j);
        hw_hprof_out_put_head(j, T_SEGMENT,
                              1 + HW_HPROF_ID_BYTES + 4 + 4 +
                                  (is_refs ? (unsigned)HW_HPROF_ID_BYTES : 1u) + bytes);
    }
    hw_hprof_out_put(&j->segment, is_refs ? D_OBJECT_ARRAY : D_PRIMITIVE_ARRAY, 1);
    hw_hprof_out_put(&j->segment, hw_hprof_out_object_id(o), HW_HPROF_ID_BYTES);
    hw_hprof_out_put(&j->segment, NO_STACK, 4);
    hw_hprof_out_put(&j->segment, n, 4);
    if (is_refs)
        hw_hprof_out_put(&j->segment, class_id(j, j->g->type[o]), HW_HPROF_ID_BYTES);
    else
        hw_hprof_out_put(&j->segment, c->array_of, 1);
    for (uint32_t r = j->g->first_ref[o]; is_refs && n_refs < n && r < j->g->first_ref[o + 1];
         r++) {
        hw_hprof_out_put(&j->segment, target_id(j, j->g->ref_owned[r]), HW_HPROF_ID_BYTES);
        bytes -= HW_HPROF_ID_BYTES;
        n_refs++;
    }
    if (name.n) {
        hw_strbuf_add(&j->segment, name.p, name.n);
        return;
    }
    while (separate && bytes) {
        uint64_t part = bytes < SEGMENT ? bytes : SEGMENT;
        hw_hprof_out_put_zeros(&j->segment, part);
        hw_hprof_out_write_out(j, &j->segment);
        bytes -= part;
    }
    hw_hprof_out_put_zeros(&j->segment, bytes);
    if (separate)
        hw_hprof_out_write_out(j, &j->segment);
}

static void put_objects(struct hw_hprof_out_job *j)
{
    for (uint32_t o = 0; o < j->g->n_objects && j->rc == HW_OK && !ferror(j->out); o++) {
        if (!hw_hprof_is_instance(&j->l, o))
            continue;
        if (j->l.classes.v[j->g->type[o]].array_of)
            put_array(j, o);
        else
            put_instance(j, o);
        hw_hprof_out_end_if_full(j);
    }
}

/* ---- the file ---- */

static uint32_t find_class(const struct hw_hprof_out_job *j, const char *name)
{
    for (uint32_t i = 0; i < j->g->n_classes; i++)
        if (hw_bytes_equal(hw_hprof_out_text(j, j->g->classes[i].name), hw_bytes_str(name)))
            return i;
    return HW_ID_NONE;
}

static void put_all(struct hw_hprof_out_job *j)
{
    put_start(j);
    put_loads(j);
    hw_hprof_out_put_threads(j);
    for (uint32_t c = 0; c < j->l.classes.n && j->rc == HW_OK; c++)
        if (hw_hprof_out_is_written(j, c))
            put_class(j, c);
    for (uint32_t o = 0; o < j->g->n_objects && j->rc == HW_OK; o++)
        if (hw_object_is_root(j->g, o) && target_id(j, o))
            hw_hprof_out_put_root(j, o);
    put_objects(j);
    end_segment(j);
    hw_hprof_out_put_head(j, T_END, 0);
}

int hw_hprof_write(const struct hw_profile *p, const struct hw_heap_graph *g, FILE *out,
                   uint64_t *left_out, struct hw_error *err)
{
    struct hw_hprof_out_job j = {.g = g, .out = out};
    int rc = hw_hprof_layout_init(&j.l, p, g);
    if (rc == HW_OK)
        rc = hw_strings_new(&j.names);
    if (rc == HW_OK) {
        j.class_class = find_class(&j, "java.lang.Class");
        j.object_class = find_class(&j, "java.lang.Object");
        j.size_of_class = 16;
        if (j.class_class != HW_ID_NONE)
            j.size_of_class = (j.l.classes.v[j.class_class].in_memory + 7) & ~(uint64_t)7;
        put_all(&j);
        rc = j.rc;
    }
    if (rc == HW_ELIMIT)
        (void)hw_fail(
            err, rc, 0,
            "the objects claim to take %llu GiB and more, which cannot be: the trace is damaged",
            (unsigned long long)(j.l.total_bytes >> 30));
    else if (rc < 0)
        (void)hw_fail(err, rc, 0, "Java heap dump:");
    *left_out = j.l.left_out;
    hw_hprof_layout_done(&j.l);
    hw_strings_free(j.names);
    hw_strbuf_done(&j.segment);
    hw_strbuf_done(&j.bytes);
    hw_strbuf_done(&j.name);
    hw_map64_done(&j.class_named);
    hw_map64_done(&j.frame_ids);
    hw_map64_done(&j.stack_of);
    hw_map64_done(&j.name_in);
    return rc < 0 ? rc : hw_export_finish(out, err);
}

static int hprof_write(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    uint64_t left_out = 0;
    int rc = hw_hprof_write(in->profile, in->graph, out, &left_out, err);
    if (rc == HW_OK && left_out && in->notes)
        fprintf(in->notes,
                "note: references left out, as a class of this format has at most 65,535 fields: "
                "%llu\n",
                (unsigned long long)left_out);
    return rc;
}

const struct hw_exporter hw_export_hprof = {
    .name = "hprof",
    .summary = "Java heap dump of a heap graph: VisualVM, Eclipse MAT",
    .extension = ".hprof",
    .binary = true,
    .whole = true,
    .graph = true,
    .write = hprof_write,
};

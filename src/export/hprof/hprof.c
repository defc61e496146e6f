/*
 * "JAVA PROFILE 1.0.2\0"  u4 size of ids  u8 ms since 1970
 * { u1 tag  u4 time  u4 length  bytes }…: texts, classes loaded, one empty stack, those of threads,
 * segments of the dump { u1 tag  bytes }…, its end. Everything is big-endian.
 *
 * Objects are numbered: object o has the id 8 * (o + 1); a class without a class object of its own
 * one beyond those. Tags of roots are those that every reader knows: what only Android has becomes
 * "unknown".
 *
 * Thread t of the graph has the number t + 1, its stack FIRST_STACK + t. A reader finds a thread's
 * name in the heap: the array behind its String gets the bytes, the only contents there are.
 */
#include "export/hprof/hprof.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/text/strbuf.h"
#include "base/text/strings.h"
#include "export/export.h"
#include "export/hprof/hprof_layout.h"
#include "model/symbol_sets.h"

#include "base/banned.h"

enum {
    T_TEXT = 0x01,
    T_LOAD_CLASS = 0x02,
    T_FRAME = 0x04,
    T_STACK = 0x05,
    T_SEGMENT = 0x1c,
    T_END = 0x2c,
    D_CLASS = 0x20,
    D_INSTANCE = 0x21,
    D_OBJECT_ARRAY = 0x22,
    D_PRIMITIVE_ARRAY = 0x23,
    ID = 8, /* bytes */
    NO_STACK = 1,
    FIRST_STACK = 2, /* of the first thread */
    LINE_UNKNOWN = -1,
    SEGMENT = 1 << 20,
    MAX_STATIC_PADDING = 4096
};

struct job {
    struct hw_hprof_layout l;
    const struct hw_heap_graph *g;
    FILE *out;
    struct hw_strbuf segment, name;
    struct hw_strings *names; /* written already */
    bool has_empty;           /* the empty text is, too */
    struct hw_strbuf bytes;   /* of the instance at hand */
    uint64_t size_of_class;   /* of java.lang.Class, in memory */
    uint32_t class_class, object_class;
    struct hw_map64 class_named; /* hash of name -> class */
    struct hw_map64 frame_ids;   /* of frames that were written */
    struct hw_map64 stack_of;    /* callsite -> the thread whose stack it is */
    struct hw_map64 name_in;     /* array of a thread's name -> thread */
    int rc;
};

static struct hw_bytes text(const struct job *j, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(j->l.p->callsites), id);
}

static void put(struct hw_strbuf *b, uint64_t v, unsigned n_bytes)
{
    for (unsigned i = n_bytes; i-- > 0;)
        hw_strbuf_addc(b, (char)(v >> (8 * i) & 0xff));
}

static void put_zeros(struct hw_strbuf *b, uint64_t n)
{
    static const char zeros[256];
    for (; n; n -= n < sizeof zeros ? n : sizeof zeros)
        hw_strbuf_add(b, zeros, n < sizeof zeros ? (size_t)n : sizeof zeros);
}

static void write_out(struct job *j, struct hw_strbuf *b)
{
    if (b->failed && j->rc == HW_OK)
        j->rc = HW_ENOMEM;
    if (j->rc == HW_OK && b->n)
        (void)fwrite(b->p, 1, b->n, j->out); /* the stream remembers a failure */
    hw_strbuf_clear(b);
}

static void put_head(struct job *j, uint8_t tag, uint64_t length)
{
    struct hw_strbuf head = {0};
    put(&head, tag, 1);
    put(&head, 0, 4);
    put(&head, length, 4);
    write_out(j, &head);
    hw_strbuf_done(&head);
}

static void end_segment(struct job *j)
{
    if (j->segment.n == 0)
        return;
    put_head(j, T_SEGMENT, j->segment.n);
    write_out(j, &j->segment);
}

static void end_if_full(struct job *j)
{
    if (j->segment.n >= SEGMENT)
        end_segment(j);
}

/* ---- numbers ---- */

static uint64_t object_id(uint32_t o)
{
    return o == HW_ID_NONE ? 0 : ((uint64_t)o + 1) * 8;
}

/* A reference: readers want none to what the file does not have. */
static uint64_t target_id(const struct job *j, uint32_t o)
{
    bool is_there = o != HW_ID_NONE &&
                    (hw_hprof_is_instance(&j->l, o) || j->l.class_of_object[o] != HW_ID_NONE);
    return is_there ? object_id(o) : 0;
}

static uint64_t class_id(const struct job *j, uint32_t class)
{
    if (class == HW_ID_NONE)
        return 0;
    const struct hw_hprof_out_class *c = &j->l.classes.v[class];
    return c->mirror != HW_ID_NONE ? object_id(c->mirror)
                                   : ((uint64_t)j->g->n_objects + 1 + class) * 8;
}

/* The number of a text; a text met for the first time is written at once, and so stands before the
 * segment that is being filled. */
static uint64_t text_id(struct job *j, struct hw_bytes s)
{
    hw_str_id id = {0};
    size_t before = hw_strings_count(j->names);
    int rc = hw_strings_intern(j->names, s, &id);
    if (rc < 0 && j->rc == HW_OK)
        j->rc = rc;
    bool is_new = s.n ? hw_strings_count(j->names) > before : !j->has_empty;
    j->has_empty |= s.n == 0; /* the set of strings has the empty one from the beginning */
    if (rc == HW_OK && is_new) {
        struct hw_strbuf b = {0};
        put_head(j, T_TEXT, ID + s.n);
        put(&b, (uint64_t)id.v + 1, ID);
        hw_strbuf_add(&b, s.p, s.n);
        write_out(j, &b);
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

/* The name to show: the original one where a mapping file told it. */
static struct hw_bytes class_name(struct job *j, uint32_t class)
{
    static const char start[] = "java.lang.Class<";
    const struct hw_hprof_out_class *c = &j->l.classes.v[class];
    struct hw_bytes name =
        text(j, c->row != HW_ID_NONE ? hw_class_shown_name(&j->g->classes[c->row])
                                     : hw_class_shown_name(&j->g->classes[j->g->type[c->mirror]]));
    if (c->row == HW_ID_NONE && name.n > sizeof start) {
        name.p += sizeof start - 1;
        name.n -= sizeof start;
    }
    return name;
}

static uint64_t class_name_id(struct job *j, uint32_t class)
{
    hw_strbuf_clear(&j->name);
    struct hw_bytes name = class_name(j, class);
    add_raw_name(&j->name, name.n ? name : hw_bytes_str("unknown"));
    return text_id(j, hw_bytes_of(j->name.p, j->name.n));
}

/* "pkg.Class.field" -> "field". */
static uint64_t field_name_id(struct job *j, struct hw_bytes name)
{
    size_t at = name.n;
    while (at && name.p[at - 1] != '.')
        at--;
    return text_id(j, hw_bytes_skip(name, at));
}

static uint64_t ref_name_id(struct job *j, uint32_t ref)
{
    const struct hw_heap_field *f = &j->g->fields[j->g->ref_field[ref]];
    return field_name_id(j, text(j, f->clear_name.v ? f->clear_name : f->name));
}

/* ---- what stands before the dump ---- */

static void put_start(struct job *j)
{
    static const char magic[] = "JAVA PROFILE 1.0.2";
    struct hw_strbuf b = {0};
    hw_strbuf_add(&b, magic, sizeof magic);
    put(&b, ID, 4);
    put(&b, (uint64_t)(j->g->ts_ns > 0 ? j->g->ts_ns / 1000000 : 0), 8);
    write_out(j, &b);
    hw_strbuf_done(&b);
    put_head(j, T_STACK, 12);
    put(&b, NO_STACK, 4);
    put(&b, 0, 8); /* of no thread, without frames */
    write_out(j, &b);
    hw_strbuf_done(&b);
}

/* The graph's class for objects that were never described has neither name nor objects. */
static bool is_written(const struct job *j, uint32_t class)
{
    const struct hw_hprof_out_class *c = &j->l.classes.v[class];
    return !c->is_class_class && (c->least >= 0 || text(j, c->name).n > 0);
}

static void put_loads(struct job *j)
{
    struct hw_strbuf b = {0};
    for (uint32_t c = 0; c < j->l.classes.n && j->rc == HW_OK; c++) {
        if (!is_written(j, c))
            continue;
        uint64_t name = class_name_id(j, c);
        put_head(j, T_LOAD_CLASS, 4 + ID + 4 + ID);
        put(&b, (uint64_t)c + 1, 4);
        put(&b, class_id(j, c), ID);
        put(&b, NO_STACK, 4);
        put(&b, name, ID);
        write_out(j, &b);
    }
    hw_strbuf_done(&b);
}

/* ---- threads ---- */

static void keep(struct job *j, int rc)
{
    if (rc < 0 && j->rc == HW_OK)
        j->rc = rc;
}

static uint64_t name_key(struct hw_bytes name)
{
    return hw_hash_bytes(name.p, name.n) >> 1; /* never the key that the map has for itself */
}

/* The class of "pkg.Class.method"; HW_ID_NONE. */
static uint32_t class_of_method(struct job *j, struct hw_bytes function, size_t *n_class)
{
    const uint8_t *dot = function.n ? memrchr(function.p, '.', function.n) : NULL;
    uint64_t class;
    *n_class = dot ? (size_t)(dot - function.p) : 0;
    struct hw_bytes name = hw_bytes_of(function.p, *n_class);
    if (!dot || !hw_map64_get(&j->class_named, name_key(name), &class) ||
        !hw_bytes_equal(class_name(j, (uint32_t) class), name))
        return HW_ID_NONE;
    return (uint32_t) class;
}

/* A method of a class that the graph does not know is one of Object's, with its full name. */
static void put_frame(struct job *j, hw_frame_id id)
{
    struct hw_strbuf b = {0};
    const struct hw_symbol_line *lines = NULL;
    size_t n_class;
    hw_str_id clear =
        hw_symbol_sets_get_deobfuscated(hw_callsites_get_symbol_sets(j->l.p->callsites), id);
    struct hw_bytes name =
        text(j, clear.v ? clear : hw_callsites_get_frame(j->l.p->callsites, id)->name);
    size_t n_lines =
        hw_symbol_sets_get(hw_callsites_get_symbol_sets(j->l.p->callsites), id, &lines);
    uint32_t class = class_of_method(j, name, &n_class), line = n_lines ? lines[0].line : 0;
    if (class != HW_ID_NONE)
        name = hw_bytes_of(name.p + n_class + 1, name.n - n_class - 1);
    else
        class = j->object_class;
    uint64_t method = text_id(j, name), nothing = text_id(j, hw_bytes_str(""));
    uint64_t file = n_lines ? text_id(j, text(j, lines[0].file)) : nothing;
    put_head(j, T_FRAME, 4 * ID + 4 + 4);
    put(&b, (uint64_t)id.v + 1, ID);
    put(&b, method, ID);
    put(&b, nothing, ID); /* its signature */
    put(&b, file, ID);
    put(&b, class == HW_ID_NONE ? 0 : (uint64_t) class + 1, 4);
    put(&b, line ? line : (uint32_t)LINE_UNKNOWN, 4);
    write_out(j, &b);
    hw_strbuf_done(&b);
}

/* Frames first, then the stack: leaf first. One that several threads have is written for the first
 * of them. */
static void put_stack(struct job *j, uint32_t thread)
{
    const struct hw_callsites *callsites = j->l.p->callsites;
    struct hw_strbuf b = {0};
    hw_callsite_id leaf = j->g->threads.v[thread].callsite;
    uint64_t *stack;
    bool is_first = true;
    if (leaf.v != HW_ID_NONE) {
        int rc = hw_map64_at(&j->stack_of, leaf.v, &stack, &is_first);
        keep(j, rc);
        if (rc < 0 || !is_first)
            return;
        *stack = thread;
    }
    uint32_t n = leaf.v == HW_ID_NONE ? 0 : hw_callsites_get(callsites, leaf)->depth + 1;
    for (hw_callsite_id at = leaf; at.v != HW_ID_NONE;
         at = hw_callsites_get(callsites, at)->parent) {
        hw_frame_id frame = hw_callsites_get(callsites, at)->frame;
        uint64_t *there;
        bool fresh = false;
        keep(j, hw_map64_at(&j->frame_ids, frame.v, &there, &fresh));
        if (fresh)
            put_frame(j, frame);
    }
    put_head(j, T_STACK, 4 + 4 + 4 + (uint64_t)n * ID);
    put(&b, FIRST_STACK + (uint64_t)thread, 4);
    put(&b, (uint64_t)thread + 1, 4);
    put(&b, n, 4);
    for (hw_callsite_id at = leaf; at.v != HW_ID_NONE; at = hw_callsites_get(callsites, at)->parent)
        put(&b, (uint64_t)hw_callsites_get(callsites, at)->frame.v + 1, ID);
    write_out(j, &b);
    hw_strbuf_done(&b);
}

static uint32_t ref_named(const struct job *j, uint32_t o, const char *name)
{
    for (uint32_t r = j->g->first_ref[o]; r < j->g->first_ref[o + 1]; r++)
        if (hw_bytes_equal(text(j, j->g->fields[j->g->ref_field[r]].name), hw_bytes_str(name)))
            return j->g->ref_owned[r];
    return HW_ID_NONE;
}

/* As a String keeps it, a byte for each letter; false: it has letters that need two. */
static bool add_latin1(struct hw_strbuf *out, struct hw_bytes utf8)
{
    for (size_t i = 0; i < utf8.n; i++) {
        uint8_t b = utf8.p[i];
        if (b >= 0x80 && ((b != 0xc2 && b != 0xc3) || ++i == utf8.n))
            return false;
        hw_strbuf_addc(out, (char)(b < 0x80 ? b : (b & 3) << 6 | (utf8.p[i] & 0x3f)));
    }
    return true;
}

/* The array of a thread's name, if it has the name's size. */
static void find_name(struct job *j, uint32_t thread)
{
    const struct hw_heap_thread *t = &j->g->threads.v[thread];
    hw_strbuf_clear(&j->name);
    uint64_t n = add_latin1(&j->name, text(j, t->name)) ? j->name.n : 0;
    uint32_t o = n && t->object != HW_ID_NONE ? ref_named(j, t->object, "java.lang.Thread.name")
                                              : HW_ID_NONE;
    if (o != HW_ID_NONE)
        o = ref_named(j, o, "java.lang.String.value");
    if (o == HW_ID_NONE || !hw_hprof_is_instance(&j->l, o) ||
        j->l.classes.v[j->g->type[o]].array_of != HW_HV_BYTE)
        return;
    uint64_t there = hw_hprof_elements(&j->l, o);
    if (there >= n && there - n < 8)
        keep(j, hw_map64_put(&j->name_in, o, thread));
}

static void put_threads(struct job *j)
{
    for (uint32_t c = 0; c < j->l.classes.n; c++)
        if (is_written(j, c))
            keep(j, hw_map64_put(&j->class_named, name_key(class_name(j, c)), c));
    for (uint32_t t = 0; t < j->g->threads.n && j->rc == HW_OK; t++) {
        put_stack(j, t);
        find_name(j, t);
    }
}

/* ---- classes ---- */

/* What a class object refers to, parted as the class's record has it. */
struct statics {
    uint64_t loader, internal[2]; /* internal: signers and protection domain */
    unsigned n_internal;
    uint32_t n; /* others: static fields */
    uint32_t padding;
};

enum role { ROLE_STATIC, ROLE_SUPER, ROLE_LOADER, ROLE_INTERNAL };

static enum role role_of(const struct job *j, uint32_t ref)
{
    struct hw_bytes name = text(j, j->g->fields[j->g->ref_field[ref]].name);
    if (hw_bytes_equal(name, hw_bytes_str("java.lang.Class.superClass")))
        return ROLE_SUPER;
    if (hw_bytes_equal(name, hw_bytes_str("java.lang.Class.classLoader")))
        return ROLE_LOADER;
    return hw_bytes_equal(name, hw_bytes_str("runtimeInternalObjects")) ? ROLE_INTERNAL
                                                                        : ROLE_STATIC;
}

static struct statics look_at_statics(struct job *j, const struct hw_hprof_out_class *c)
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
        else if (role != ROLE_SUPER && s.n < MOST)
            s.n++;
        else if (role != ROLE_SUPER)
            j->l.left_out++;
    }
    uint64_t made = j->size_of_class + 4 * (uint64_t)s.n;
    uint64_t said = (uint64_t)j->g->self_size[c->mirror];
    if (said > ((made + 7) & ~(uint64_t)7))
        s.padding = said - made < MAX_STATIC_PADDING ? (uint32_t)(said - made) : MAX_STATIC_PADDING;
    return s;
}

/* Fields of eight bytes, then of one. */
static uint32_t n_padding(uint32_t bytes)
{
    return bytes / 8 + bytes % 8;
}

static void put_padding(struct job *j, uint32_t bytes, bool with_value)
{
    uint64_t name = text_id(j, hw_bytes_str("padding"));
    for (uint32_t left = bytes; left; left -= left >= 8 ? 8 : 1) {
        put(&j->segment, name, ID);
        put(&j->segment, left >= 8 ? HW_HV_LONG : HW_HV_BYTE, 1);
        if (with_value)
            put(&j->segment, 0, left >= 8 ? 8 : 1);
    }
}

static void put_static_fields(struct job *j, const struct hw_hprof_out_class *c,
                              const struct statics *s)
{
    uint32_t left = s->n;
    unsigned n_internal = 0;
    put(&j->segment, s->n + n_padding(s->padding), 2);
    put_padding(j, s->padding, /* with_value = */ true);
    for (uint32_t r = c->mirror == HW_ID_NONE ? 0 : j->g->first_ref[c->mirror]; left; r++) {
        enum role role = role_of(j, r);
        if (role == ROLE_SUPER || role == ROLE_LOADER ||
            (role == ROLE_INTERNAL && n_internal++ < s->n_internal))
            continue;
        put(&j->segment, ref_name_id(j, r), ID);
        put(&j->segment, HW_HV_REF, 1);
        put(&j->segment, target_id(j, j->g->ref_owned[r]), ID);
        left--;
    }
}

static void put_instance_fields(struct job *j, const struct hw_hprof_out_class *c)
{
    put(&j->segment, c->n_slots + n_padding(c->padding), 2);
    for (uint32_t s = c->first; s != HW_ID_NONE; s = j->l.slots.v[s].next) {
        const struct hw_hprof_slots *f = &j->l.slots.v[s];
        uint64_t name = field_name_id(j, text(j, f->name));
        for (uint32_t i = 0; i < f->count; i++) {
            put(&j->segment, name, ID);
            put(&j->segment, f->type, 1);
        }
    }
    put_padding(j, c->padding, /* with_value = */ false);
}

static void put_class(struct job *j, uint32_t class)
{
    const struct hw_hprof_out_class *c = &j->l.classes.v[class];
    struct statics s = look_at_statics(j, c);
    uint32_t super = c->super;
    /* Arrays, and classes of which only the class object is known. */
    if (super == HW_ID_NONE && class != j->object_class && (c->array_of || c->row == HW_ID_NONE))
        super = j->object_class;
    put(&j->segment, D_CLASS, 1);
    put(&j->segment, class_id(j, class), ID);
    put(&j->segment, NO_STACK, 4);
    put(&j->segment, class_id(j, super), ID);
    put(&j->segment, s.loader, ID);
    put(&j->segment, s.internal[0], ID);
    put(&j->segment, s.internal[1], ID);
    put_zeros(&j->segment, 2 * ID);
    put(&j->segment, c->all_bytes, 4);
    put(&j->segment, 0, 2); /* constants */
    put_static_fields(j, c, &s);
    put_instance_fields(j, c);
    end_if_full(j);
}

/* ---- objects ---- */

static void set(struct job *j, uint32_t at, uint64_t v, unsigned n_bytes)
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

static void put_instance(struct job *j, uint32_t o)
{
    uint32_t class = j->g->type[o], n_bytes = j->l.classes.v[class].all_bytes;
    size_t n;
    const struct hw_heap_primitive *p = hw_hprof_primitives_of(j->g, o, &n);
    hw_strbuf_clear(&j->bytes);
    put_zeros(&j->bytes, n_bytes);
    hw_hprof_object_begin(&j->l);
    for (size_t i = 0; i < n; i++) {
        uint32_t field = hw_hprof_primitive_field(&j->l, &p[i]);
        uint32_t at = field == HW_ID_NONE ? HW_ID_NONE : hw_hprof_place(&j->l, class, field);
        if (at != HW_ID_NONE)
            set(j, at, bits_of(&p[i]), hw_hprof_value_bytes(hw_hprof_type_of(&p[i])));
    }
    for (uint32_t r = j->g->first_ref[o]; r < j->g->first_ref[o + 1]; r++) {
        uint32_t at = hw_hprof_place(&j->l, class, j->g->ref_field[r]);
        if (at != HW_ID_NONE)
            set(j, at, target_id(j, j->g->ref_owned[r]), ID);
    }
    put(&j->segment, D_INSTANCE, 1);
    put(&j->segment, object_id(o), ID);
    put(&j->segment, NO_STACK, 4);
    put(&j->segment, class_id(j, class), ID);
    put(&j->segment, n_bytes, 4);
    hw_strbuf_add(&j->segment, j->bytes.p, j->bytes.n);
}

/* The name of the thread that this array holds; empty. Borrowed until the next name. */
static struct hw_bytes name_in(struct job *j, uint32_t o)
{
    uint64_t thread;
    if (j->name_in.n == 0 || !hw_map64_get(&j->name_in, o, &thread))
        return (struct hw_bytes){0};
    hw_strbuf_clear(&j->name);
    (void)add_latin1(&j->name, text(j, j->g->threads.v[thread].name)); /* it can: it was found */
    return hw_bytes_of(j->name.p, j->name.n);
}

/* A segment of its own, as its zeros are not gathered in memory. */
static void put_array(struct job *j, uint32_t o)
{
    const struct hw_hprof_out_class *c = &j->l.classes.v[j->g->type[o]];
    bool is_refs = c->array_of == HW_HV_REF;
    struct hw_bytes name = name_in(j, o);
    uint64_t n = name.n ? name.n : hw_hprof_elements(&j->l, o), n_refs = 0;
    uint64_t bytes = n * hw_hprof_value_bytes(c->array_of);
    bool apart = bytes > SEGMENT;
    if (apart) {
        end_segment(j);
        put_head(j, T_SEGMENT, 1 + ID + 4 + 4 + (is_refs ? (unsigned)ID : 1u) + bytes);
    }
    put(&j->segment, is_refs ? D_OBJECT_ARRAY : D_PRIMITIVE_ARRAY, 1);
    put(&j->segment, object_id(o), ID);
    put(&j->segment, NO_STACK, 4);
    put(&j->segment, n, 4);
    if (is_refs)
        put(&j->segment, class_id(j, j->g->type[o]), ID);
    else
        put(&j->segment, c->array_of, 1);
    for (uint32_t r = j->g->first_ref[o]; is_refs && n_refs < n && r < j->g->first_ref[o + 1];
         r++) {
        put(&j->segment, target_id(j, j->g->ref_owned[r]), ID);
        bytes -= ID;
        n_refs++;
    }
    if (name.n) {
        hw_strbuf_add(&j->segment, name.p, name.n);
        return;
    }
    while (apart && bytes) {
        uint64_t part = bytes < SEGMENT ? bytes : SEGMENT;
        put_zeros(&j->segment, part);
        write_out(j, &j->segment);
        bytes -= part;
    }
    put_zeros(&j->segment, bytes);
    if (apart)
        write_out(j, &j->segment);
}

static void put_objects(struct job *j)
{
    for (uint32_t o = 0; o < j->g->n_objects && j->rc == HW_OK && !ferror(j->out); o++) {
        if (!hw_hprof_is_instance(&j->l, o))
            continue;
        if (j->l.classes.v[j->g->type[o]].array_of)
            put_array(j, o);
        else
            put_instance(j, o);
        end_if_full(j);
    }
}

/* ---- roots ---- */

struct root_form {
    enum hw_root_type type;
    uint8_t tag, n_more; /* n_more: bytes of numbers */
};

static const struct root_form *form_of(enum hw_root_type type)
{
    static const struct root_form forms[] = {
        {HW_ROOT_JNI_GLOBAL, 0x01, ID},  {HW_ROOT_JNI_LOCAL, 0x02, 8},
        {HW_ROOT_JAVA_FRAME, 0x03, 8},   {HW_ROOT_NATIVE_STACK, 0x04, 4},
        {HW_ROOT_STICKY_CLASS, 0x05, 0}, {HW_ROOT_THREAD_BLOCK, 0x06, 4},
        {HW_ROOT_MONITOR_USED, 0x07, 0}, {HW_ROOT_THREAD_OBJECT, 0x08, 8}};
    static const struct root_form unknown = {HW_ROOT_UNKNOWN, 0xff, 0};
    for (size_t i = 0; i < HW_ARRAY_LEN(forms); i++)
        if (forms[i].type == type)
            return &forms[i];
    return &unknown;
}

static uint32_t stack_number(const struct job *j, uint32_t thread)
{
    hw_callsite_id leaf = j->g->threads.v[thread].callsite;
    uint64_t whose = thread;
    if (leaf.v != HW_ID_NONE && hw_map64_get(&j->stack_of, leaf.v, &whose))
        return FIRST_STACK + (uint32_t)whose;
    return FIRST_STACK + thread;
}

/* A root that a thread holds: the thread's number, then the frame's place or the stack's number. */
static void put_held_root(struct job *j, const struct hw_heap_holder *h)
{
    const struct root_form *form = form_of((enum hw_root_type)h->root_type);
    bool is_thread = h->root_type == HW_ROOT_THREAD_OBJECT;
    uint32_t more = is_thread ? stack_number(j, h->thread) : h->depth; /* HW_ID_NONE is -1 */
    put(&j->segment, form->tag, 1);
    put(&j->segment, object_id(h->object), ID);
    if (form->n_more == 8) {
        put(&j->segment, (uint64_t)h->thread + 1, 4);
        put(&j->segment, more, 4);
    } else {
        put_zeros(&j->segment, form->n_more);
    }
    end_if_full(j);
}

static void put_root(struct job *j, uint32_t o)
{
    enum hw_root_type type = hw_object_root_type(j->g, o);
    const struct root_form *form = form_of(type);
    size_t n;
    const struct hw_heap_holder *all = hw_object_holders(j->g, o, &n);
    bool is_put = false;
    for (size_t i = 0; i < n; i++)
        if (all[i].thread != HW_ID_NONE && all[i].root_type != HW_ROOT_COMPILED_CODE) {
            put_held_root(j, &all[i]);
            is_put |= all[i].root_type == type;
        }
    if (is_put)
        return;
    put(&j->segment, form->tag, 1);
    put(&j->segment, object_id(o), ID);
    put_zeros(&j->segment, form->n_more); /* nobody knows whose it is */
    end_if_full(j);
}

/* ---- the file ---- */

static uint32_t find_class(const struct job *j, const char *name)
{
    for (uint32_t i = 0; i < j->g->n_classes; i++)
        if (hw_bytes_equal(text(j, j->g->classes[i].name), hw_bytes_str(name)))
            return i;
    return HW_ID_NONE;
}

static void put_all(struct job *j)
{
    put_start(j);
    put_loads(j);
    put_threads(j);
    for (uint32_t c = 0; c < j->l.classes.n && j->rc == HW_OK; c++)
        if (is_written(j, c))
            put_class(j, c);
    for (uint32_t o = 0; o < j->g->n_objects && j->rc == HW_OK; o++)
        if (hw_object_is_root(j->g, o) && target_id(j, o))
            put_root(j, o);
    put_objects(j);
    end_segment(j);
    put_head(j, T_END, 0);
}

int hw_hprof_write(const struct hw_profile *p, const struct hw_heap_graph *g, FILE *out,
                   uint64_t *left_out, struct hw_error *err)
{
    struct job j = {.g = g, .out = out};
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

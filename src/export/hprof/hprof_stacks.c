/* Threads of a heap graph and their stacks, as a Java heap dump file has them. */
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/text/strbuf.h"
#include "export/hprof/hprof_job.h"
#include "export/hprof/hprof_layout.h"
#include "model/symbol_sets.h"

#include "base/banned.h"

enum { T_FRAME = 0x04, LINE_UNKNOWN = -1 };

static void keep(struct hw_hprof_out_job *j, int rc)
{
    if (rc < 0 && j->rc == HW_OK)
        j->rc = rc;
}

static uint64_t name_key(struct hw_bytes name)
{
    return hw_hash_bytes(name.p, name.n) >> 1; /* never the map's reserved key */
}

/* The class of "pkg.Class.method"; HW_ID_NONE. */
static uint32_t class_of_method(struct hw_hprof_out_job *j, struct hw_bytes function,
                                size_t *n_class)
{
    const uint8_t *dot = function.n ? memrchr(function.p, '.', function.n) : NULL;
    uint64_t class;
    *n_class = dot ? (size_t)(dot - function.p) : 0;
    struct hw_bytes name = hw_bytes_of(function.p, *n_class);
    if (!dot || !hw_map64_get(&j->class_named, name_key(name), &class) ||
        !hw_bytes_equal(hw_hprof_out_class_name(j, (uint32_t) class), name))
        return HW_ID_NONE;
    return (uint32_t) class;
}

/* A method of a class that is not in the graph is written as Object's, with its full name. */
static void put_frame(struct hw_hprof_out_job *j, hw_frame_id id)
{
    struct hw_strbuf b = {0};
    const struct hw_symbol_line *lines = NULL;
    size_t n_class;
    hw_str_id clear =
        hw_symbol_sets_get_deobfuscated(hw_callsites_get_symbol_sets(j->l.p->callsites), id);
    struct hw_bytes name =
        hw_hprof_out_text(j, clear.v ? clear : hw_callsites_get_frame(j->l.p->callsites, id)->name);
    size_t n_lines =
        hw_symbol_sets_get(hw_callsites_get_symbol_sets(j->l.p->callsites), id, &lines);
    uint32_t class = class_of_method(j, name, &n_class), line = n_lines ? lines[0].line : 0;
    if (class != HW_ID_NONE)
        name = hw_bytes_of(name.p + n_class + 1, name.n - n_class - 1);
    else
        class = j->object_class;
    uint64_t method = hw_hprof_out_text_id(j, name),
             nothing = hw_hprof_out_text_id(j, hw_bytes_str(""));
    uint64_t file =
        n_lines ? hw_hprof_out_text_id(j, hw_hprof_out_text(j, lines[0].file)) : nothing;
    hw_hprof_out_put_head(j, T_FRAME, 4 * HW_HPROF_ID_BYTES + 4 + 4);
    hw_hprof_out_put(&b, (uint64_t)id.v + 1, HW_HPROF_ID_BYTES);
    hw_hprof_out_put(&b, method, HW_HPROF_ID_BYTES);
    hw_hprof_out_put(&b, nothing, HW_HPROF_ID_BYTES); /* its signature */
    hw_hprof_out_put(&b, file, HW_HPROF_ID_BYTES);
    hw_hprof_out_put(&b, class == HW_ID_NONE ? 0 : (uint64_t) class + 1, 4);
    hw_hprof_out_put(&b, line ? line : (uint32_t)LINE_UNKNOWN, 4);
    hw_hprof_out_write_out(j, &b);
    hw_strbuf_done(&b);
}

/* Frames first, then the stack: leaf first. A stack shared by several threads is written once, for
 * the first of them. */
static void put_stack(struct hw_hprof_out_job *j, uint32_t thread)
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
        uint64_t *value;
        bool fresh = false;
        keep(j, hw_map64_at(&j->frame_ids, frame.v, &value, &fresh));
        if (fresh)
            put_frame(j, frame);
    }
    hw_hprof_out_put_head(j, HW_HPROF_TAG_STACK, 4 + 4 + 4 + (uint64_t)n * HW_HPROF_ID_BYTES);
    hw_hprof_out_put(&b, HW_HPROF_FIRST_STACK + (uint64_t)thread, 4);
    hw_hprof_out_put(&b, (uint64_t)thread + 1, 4);
    hw_hprof_out_put(&b, n, 4);
    for (hw_callsite_id at = leaf; at.v != HW_ID_NONE; at = hw_callsites_get(callsites, at)->parent)
        hw_hprof_out_put(&b, (uint64_t)hw_callsites_get(callsites, at)->frame.v + 1,
                         HW_HPROF_ID_BYTES);
    hw_hprof_out_write_out(j, &b);
    hw_strbuf_done(&b);
}

static uint32_t ref_named(const struct hw_hprof_out_job *j, uint32_t o, const char *name)
{
    for (uint32_t r = j->g->first_ref[o]; r < j->g->first_ref[o + 1]; r++)
        if (hw_bytes_equal(hw_hprof_out_text(j, j->g->fields[j->g->ref_field[r]].name),
                           hw_bytes_str(name)))
            return j->g->ref_owned[r];
    return HW_ID_NONE;
}

/* Latin-1, the one-byte form of a String; false: some character is not in it. */
bool hw_hprof_out_add_latin1(struct hw_strbuf *out, struct hw_bytes utf8)
{
    for (size_t i = 0; i < utf8.n; i++) {
        uint8_t b = utf8.p[i];
        if (b >= 0x80 && ((b != 0xc2 && b != 0xc3) || ++i == utf8.n))
            return false;
        hw_strbuf_addc(out, (char)(b < 0x80 ? b : (b & 3) << 6 | (utf8.p[i] & 0x3f)));
    }
    return true;
}

/* Remembers the array of a thread's name, if it has the name's size. */
static void find_name(struct hw_hprof_out_job *j, uint32_t thread)
{
    const struct hw_heap_thread *t = &j->g->threads.v[thread];
    hw_strbuf_clear(&j->name);
    uint64_t n = hw_hprof_out_add_latin1(&j->name, hw_hprof_out_text(j, t->name)) ? j->name.n : 0;
    uint32_t o = n && t->object != HW_ID_NONE ? ref_named(j, t->object, "java.lang.Thread.name")
                                              : HW_ID_NONE;
    if (o != HW_ID_NONE)
        o = ref_named(j, o, "java.lang.String.value");
    if (o == HW_ID_NONE || !hw_hprof_is_instance(&j->l, o) ||
        j->l.classes.v[j->g->type[o]].array_of != HW_HV_BYTE)
        return;
    uint64_t n_elements = hw_hprof_elements(&j->l, o);
    if (n_elements >= n && n_elements - n < 8)
        keep(j, hw_map64_put(&j->name_in, o, thread));
}

void hw_hprof_out_put_threads(struct hw_hprof_out_job *j)
{
    for (uint32_t c = 0; c < j->l.classes.n; c++)
        if (hw_hprof_out_is_written(j, c))
            keep(j, hw_map64_put(&j->class_named, name_key(hw_hprof_out_class_name(j, c)), c));
    for (uint32_t t = 0; t < j->g->threads.n && j->rc == HW_OK; t++) {
        put_stack(j, t);
        find_name(j, t);
    }
}

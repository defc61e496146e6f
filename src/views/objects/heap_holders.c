#include "views/objects/heap_holders.h"

#include <inttypes.h>
#include <string.h>

#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "model/symbol_sets.h"

#include "base/banned.h"

void hw_heap_thread_text(const struct hw_profile *p, const struct hw_heap_thread *t,
                         struct hw_strbuf *out)
{
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(p->callsites), t->name);
    if (name.n) {
        hw_strbuf_adds(out, "thread \"");
        hw_strbuf_add(out, name.p, name.n);
        hw_strbuf_addc(out, '"');
    } else if (t->id) {
        hw_strbuf_addf(out, "thread #%" PRId64, t->id);
    } else {
        hw_strbuf_adds(out, "a thread");
    }
}

void hw_heap_frame_text(const struct hw_profile *p, hw_frame_id id, struct hw_strbuf *out)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    const struct hw_symbol_sets *sets = hw_callsites_get_symbol_sets(p->callsites);
    const struct hw_symbol_line *lines;
    hw_str_id clear = hw_symbol_sets_get_deobfuscated(sets, id);
    struct hw_bytes name =
        hw_strings_get(strings, clear.v ? clear : hw_callsites_get_frame(p->callsites, id)->name);
    hw_strbuf_add(out, name.p, name.n);
    if (!hw_symbol_sets_get(sets, id, &lines) || !lines[0].line)
        return;
    struct hw_bytes file = hw_bytes_base_name(hw_strings_get(strings, lines[0].file));
    hw_strbuf_adds(out, " (");
    hw_strbuf_add(out, file.p, file.n);
    hw_strbuf_addf(out, "%s%u)", file.n ? ":" : "line ", (unsigned)lines[0].line);
}

static const char *root_word(enum hw_root_type t)
{
    return t == HW_ROOT_JNI_LOCAL       ? "JNI code"
           : t == HW_ROOT_COMPILED_CODE ? "a constant in compiled code"
           : t == HW_ROOT_UNKNOWN       ? "the stack"
                                        : "a variable";
}

static void add_holder(const struct hw_profile *p, const struct hw_heap_graph *g,
                       const struct hw_heap_holder *h, struct hw_strbuf *out)
{
    bool is_thread = h->root_type == HW_ROOT_THREAD_OBJECT;
    if (!is_thread) {
        hw_strbuf_adds(out, root_word((enum hw_root_type)h->root_type));
        if (h->frame.v != HW_ID_NONE) {
            hw_strbuf_adds(out, " of ");
            hw_heap_frame_text(p, h->frame, out);
        }
    }
    if (h->thread == HW_ID_NONE)
        return;
    hw_strbuf_adds(out, is_thread ? "" : " in ");
    hw_heap_thread_text(p, &g->threads.v[h->thread], out);
}

void hw_heap_root_text(const struct hw_profile *p, const struct hw_heap_graph *g, uint32_t object,
                       struct hw_strbuf *out)
{
    size_t n;
    int best_score = -1;
    const struct hw_heap_holder *all = hw_object_holders(g, object, &n), *best = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct hw_heap_holder *h = &all[i];
        int score = 4 * (h->root_type == hw_object_root_type(g, object)) +
                    2 * (h->thread != HW_ID_NONE) + (h->frame.v != HW_ID_NONE);
        if (score > best_score) {
            best_score = score;
            best = h;
        }
    }
    if (best && best_score >= 4)
        add_holder(p, g, best, out);
}

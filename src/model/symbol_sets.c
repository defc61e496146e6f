#include "model/symbol_sets.h"

#include <stdbool.h>

#include "base/error.h"

#include "base/banned.h"

void hw_symbol_sets_done(struct hw_symbol_sets *s)
{
    hw_vec_done(&s->lines);
    hw_vec_done(&s->sets);
    hw_vec_done(&s->of_frame);
    hw_vec_done(&s->deobfuscated);
    hw_vec_done(&s->kinds);
}

static int put(struct hw_symbol_sets *s, hw_frame_id frame,
               const struct hw_symbol_line *innermost_first, size_t n, bool lines_need_files)
{
    if (n == 0)
        return HW_EINVAL;
    if (n > HW_MAX_SYMBOL_LINES || s->lines.n + n > UINT32_MAX || s->sets.n >= UINT32_MAX - 1)
        return HW_ELIMIT;
    if (hw_vec_reserve(&s->lines, s->lines.n + n) < 0 ||
        hw_vec_reserve(&s->sets, s->sets.n + 1) < 0 ||
        hw_vec_reserve(&s->of_frame, (size_t)frame.v + 1) < 0)
        return HW_ENOMEM;
    while (s->of_frame.n <= frame.v)
        s->of_frame.v[s->of_frame.n++] = 0;
    s->sets.v[s->sets.n++] = (struct hw_symbol_set){(uint32_t)s->lines.n, (uint32_t)n};
    for (size_t i = 0; i < n; i++) {
        struct hw_symbol_line line = innermost_first[i];
        if (lines_need_files && line.file.v == 0)
            line.line = 0;
        s->lines.v[s->lines.n++] = line;
    }
    s->of_frame.v[frame.v] = (uint32_t)s->sets.n;
    return HW_OK;
}

int hw_symbol_sets_put(struct hw_symbol_sets *s, hw_frame_id frame,
                       const struct hw_symbol_line *innermost_first, size_t n)
{
    return put(s, frame, innermost_first, n, /* lines_need_files = */ true);
}

int hw_symbol_sets_put_managed(struct hw_symbol_sets *s, hw_frame_id frame,
                               const struct hw_symbol_line *innermost_first, size_t n)
{
    return put(s, frame, innermost_first, n, /* lines_need_files = */ false);
}

size_t hw_symbol_sets_get(const struct hw_symbol_sets *s, hw_frame_id frame,
                          const struct hw_symbol_line **out)
{
    if (frame.v >= s->of_frame.n || s->of_frame.v[frame.v] == 0)
        return 0;
    const struct hw_symbol_set *set = &s->sets.v[s->of_frame.v[frame.v] - 1];
    *out = &s->lines.v[set->first];
    return set->n;
}

/* Sets a frame's word; the list ends with the last frame that has one. */
static int put_word(hw_frame_words *list, hw_frame_id frame, hw_str_id word)
{
    if (hw_vec_reserve(list, (size_t)frame.v + 1) < 0)
        return HW_ENOMEM;
    while (list->n <= frame.v)
        list->v[list->n++] = (hw_str_id){0};
    list->v[frame.v] = word;
    return HW_OK;
}

int hw_symbol_sets_put_deobfuscated(struct hw_symbol_sets *s, hw_frame_id frame, hw_str_id name)
{
    return put_word(&s->deobfuscated, frame, name);
}

hw_str_id hw_symbol_sets_get_deobfuscated(const struct hw_symbol_sets *s, hw_frame_id frame)
{
    return frame.v < s->deobfuscated.n ? s->deobfuscated.v[frame.v] : (hw_str_id){0};
}

int hw_symbol_sets_put_kind(struct hw_symbol_sets *s, hw_frame_id frame, hw_str_id kind)
{
    return put_word(&s->kinds, frame, kind);
}

hw_str_id hw_symbol_sets_get_kind(const struct hw_symbol_sets *s, hw_frame_id frame)
{
    return frame.v < s->kinds.n ? s->kinds.v[frame.v] : (hw_str_id){0};
}

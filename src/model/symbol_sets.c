#include "model/symbol_sets.h"

#include "base/error.h"

#include "base/banned.h"

void hw_symbol_sets_done(struct hw_symbol_sets *s)
{
    hw_vec_done(&s->lines);
    hw_vec_done(&s->sets);
    hw_vec_done(&s->of_frame);
    hw_vec_done(&s->deobfuscated);
}

int hw_symbol_sets_put(struct hw_symbol_sets *s, hw_frame_id frame,
                       const struct hw_symbol_line *innermost_first, size_t n)
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
        if (line.file.v == 0)
            line.line = 0;
        s->lines.v[s->lines.n++] = line;
    }
    s->of_frame.v[frame.v] = (uint32_t)s->sets.n;
    return HW_OK;
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

int hw_symbol_sets_put_deobfuscated(struct hw_symbol_sets *s, hw_frame_id frame, hw_str_id name)
{
    if (hw_vec_reserve(&s->deobfuscated, (size_t)frame.v + 1) < 0)
        return HW_ENOMEM;
    while (s->deobfuscated.n <= frame.v)
        s->deobfuscated.v[s->deobfuscated.n++] = (hw_str_id){0};
    s->deobfuscated.v[frame.v] = name;
    return HW_OK;
}

hw_str_id hw_symbol_sets_get_deobfuscated(const struct hw_symbol_sets *s, hw_frame_id frame)
{
    return frame.v < s->deobfuscated.n ? s->deobfuscated.v[frame.v] : (hw_str_id){0};
}

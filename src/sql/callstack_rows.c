#include "sql/callstack_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/profile.h"

#include "base/banned.h"

/* The lines that give a frame its names: its inlined functions. Without them the frame's
 * deobfuscated name is used, else its own. */
static size_t lines_of(const struct hw_profile *p, hw_frame_id frame,
                       const struct hw_symbol_line **lines)
{
    return hw_symbol_sets_get(hw_callsites_get_symbol_sets(p->callsites), frame, lines);
}

static hw_str_id name_of(const struct hw_profile *p, hw_frame_id frame,
                         const struct hw_symbol_line *line)
{
    const struct hw_symbol_sets *sets = hw_callsites_get_symbol_sets(p->callsites);
    if (line && line->function.v)
        return line->function;
    hw_str_id clear = hw_symbol_sets_get_deobfuscated(sets, frame);
    return clear.v ? clear : hw_callsites_get_frame(p->callsites, frame)->name;
}

static int demangle(struct hw_callstack_rows *rows, const struct hw_profile *p, hw_str_id name)
{
    if (!rows->demangle || name.v == 0 || rows->shown[name.v].p)
        return HW_OK;
    struct hw_bytes raw = hw_strings_get(hw_callsites_strings(p->callsites), name);
    rows->shown[name.v] = raw; /* unchanged, unless it demangles */
    char *made = rows->demangle((const char *)raw.p);
    if (!made)
        return HW_OK;
    size_t n = strlen(made);
    char *copy = hw_arena_copy(&rows->names, made, n);
    free(made);
    if (!copy)
        return HW_ENOMEM;
    rows->shown[name.v] = hw_bytes_of(copy, n);
    return HW_OK;
}

static int make_names(struct hw_callstack_rows *rows, const struct hw_profile *p)
{
    int rc = HW_OK;
    rows->shown =
        calloc(hw_strings_count(hw_callsites_strings(p->callsites)) + 1, sizeof *rows->shown);
    if (!rows->shown)
        return HW_ENOMEM;
    for (uint32_t f = 0; rc == HW_OK && f < hw_callsites_n_frames(p->callsites); f++) {
        const struct hw_symbol_line *lines;
        size_t n = lines_of(p, (hw_frame_id){f}, &lines);
        if (n == 0)
            rc = demangle(rows, p, name_of(p, (hw_frame_id){f}, NULL));
        for (size_t i = 0; rc == HW_OK && i < n; i++)
            rc = demangle(rows, p, name_of(p, (hw_frame_id){f}, &lines[i]));
    }
    return rc;
}

static int make_rows(struct hw_callstack_rows *rows, const struct hw_profile *p)
{
    size_t n = hw_callsites_count(p->callsites), total = 0;
    const struct hw_symbol_line *lines;
    rows->first = malloc((n + 1) * sizeof *rows->first);
    if (!rows->first)
        return HW_ENOMEM;
    for (uint32_t c = 0; c < n; c++) {
        hw_frame_id frame = hw_callsites_get(p->callsites, (hw_callsite_id){c})->frame;
        size_t here = lines_of(p, frame, &lines);
        rows->first[c] = (uint32_t)total;
        total += here ? here : 1;
        if (total >= HW_ID_NONE)
            return HW_ELIMIT;
    }
    rows->first[n] = (uint32_t)total;
    rows->callsite = malloc((total + 1) * sizeof *rows->callsite);
    if (!rows->callsite)
        return HW_ENOMEM;
    for (uint32_t c = 0; c < n; c++)
        for (uint32_t r = rows->first[c]; r < rows->first[c + 1]; r++)
            rows->callsite[r] = c;
    rows->n = total;
    return HW_OK;
}

int hw_callstack_rows_make(struct hw_callstack_rows *rows, const struct hw_profile *p)
{
    if (rows->made)
        return HW_OK;
    int rc = make_rows(rows, p);
    if (rc == HW_OK)
        rc = make_names(rows, p);
    rows->made = rc == HW_OK;
    if (rc < 0)
        hw_callstack_rows_done(rows);
    return rc;
}

struct hw_callstack_row hw_callstack_row(const struct hw_callstack_rows *rows,
                                         const struct hw_profile *p, uint32_t row)
{
    struct hw_callstack_row out = {.callsite = rows->callsite[row], .inlined = -1};
    const struct hw_callsite *c = hw_callsites_get(p->callsites, (hw_callsite_id){out.callsite});
    const struct hw_symbol_line *lines;
    uint32_t k = row - rows->first[out.callsite];
    size_t n = lines_of(p, c->frame, &lines);
    hw_str_id name = name_of(p, c->frame, k < n ? &lines[k] : NULL);
    if (k < n) {
        out.file = lines[k].file;
        out.line = lines[k].line;
        out.inlined = k + 1 < n;
    }
    out.is_leaf = k == 0;
    out.mapping = hw_callsites_get_frame(p->callsites, c->frame)->mapping.v;
    if (k + 1 < n)
        out.parent = row + 1;
    else
        out.parent = c->parent.v == HW_ID_NONE ? HW_ID_NONE : rows->first[c->parent.v];
    if (name.v == 0)
        out.name = hw_bytes_str("unknown");
    else if (rows->shown[name.v].p)
        out.name = rows->shown[name.v];
    else
        out.name = hw_strings_get(hw_callsites_strings(p->callsites), name);
    return out;
}

void hw_callstack_rows_done(struct hw_callstack_rows *rows)
{
    free(rows->first);
    free(rows->callsite);
    free(rows->shown);
    hw_arena_done(&rows->names);
    *rows = (struct hw_callstack_rows){.demangle = rows->demangle};
}

/* needed.c - see needed.h */
#include "elf/needed.h"

#include <dwarf.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "base/memory/vec.h"

#include "base/banned.h"

enum { MAX_ABBREVIATIONS = 1 << 20 };

/* ---- .debug_aranges ---- */

struct cursor {
    struct hw_bytes left;
    bool failed;
};

static uint64_t take(struct cursor *c, size_t n)
{
    uint64_t v = 0;
    c->failed |= c->left.n < n;
    if (c->failed)
        return 0;
    memcpy(&v, c->left.p, n);
    c->left = hw_bytes_skip(c->left, n);
    return v;
}

/* The length that begins every unit of every section. */
static uint64_t take_length(struct cursor *c, size_t *offset_size)
{
    uint64_t n = take(c, 4);
    *offset_size = n == UINT32_MAX ? 8 : 4;
    return n == UINT32_MAX ? take(c, 8) : n;
}

struct search {
    const uint64_t *va;
    size_t n, n_found;
    bool *found;
    struct hw_needed_units *units;
};

static int take_range(struct search *s, uint64_t low, uint64_t n, Dwarf_Off unit)
{
    size_t i = HW_LOWER_BOUND(mid, 0, s->n, s->va[mid] < low);
    for (; i < s->n && s->va[i] - low < n; i++) {
        s->n_found += !s->found[i];
        s->found[i] = true;
        const size_t known = s->units->n;
        if ((known == 0 || s->units->v[known - 1] != unit) && hw_vec_push(s->units, unit) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

/* The ranges of one unit; padding puts them on a multiple of their own size. */
static int take_set(struct search *s, struct cursor *all)
{
    const uint8_t *start = all->left.p;
    size_t offset_size;
    uint64_t n = take_length(all, &offset_size);
    if (all->failed || n > all->left.n)
        return HW_EFORMAT;
    struct cursor c = {.left = hw_bytes_of(all->left.p, (size_t)n)};
    all->left = hw_bytes_skip(all->left, (size_t)n);
    uint64_t version = take(&c, 2), unit = take(&c, offset_size);
    size_t size = (size_t)take(&c, 1), segment = (size_t)take(&c, 1);
    if (c.failed || version != 2 || (size != 4 && size != 8) || segment)
        return HW_EFORMAT;
    size_t over = (size_t)(c.left.p - start) % (2 * size);
    for (size_t pad = over ? 2 * size - over : 0; pad; pad--)
        (void)take(&c, 1);
    int rc = HW_OK;
    while (rc == HW_OK && !c.failed && c.left.n) {
        uint64_t low = take(&c, size), bytes = take(&c, size);
        if (!c.failed && (low || bytes))
            rc = take_range(s, low, bytes, unit);
    }
    return rc;
}

int hw_needed_find(struct hw_bytes aranges, const uint64_t *ascending, size_t n,
                   struct hw_needed_units *out)
{
    struct search s = {.va = ascending, .n = n, .units = out, .found = calloc(n + 1, 1)};
    struct cursor c = {.left = aranges};
    int rc = s.found ? HW_OK : HW_ENOMEM;
    hw_vec_clear(out);
    while (rc == HW_OK && c.left.n)
        rc = take_set(&s, &c);
    free(s.found);
    if (rc == HW_ENOMEM)
        return rc;
    return s.n_found == n ? HW_OK : HW_ENOTFOUND;
}

/* ---- units ---- */

void hw_needed_unpack(struct hw_packed *section, Dwarf_Off at, bool *changed)
{
    size_t offset_size;
    uint64_t end;
    if (at > UINT64_MAX - 12 || hw_packed_reach(section, at + 12, changed) < 0)
        return;
    struct hw_bytes b = hw_packed_bytes(section);
    struct cursor c = {.left = at < b.n ? hw_bytes_skip(b, (size_t)at) : hw_bytes_of("", 0)};
    uint64_t n = take_length(&c, &offset_size);
    if (!c.failed && !__builtin_add_overflow(at + (offset_size == 8 ? 12 : 4), n, &end))
        (void)hw_packed_reach(section, end, changed);
}

static bool is_to_another(unsigned form)
{
    return form == DW_FORM_ref_addr || form == DW_FORM_ref_sig8 || form == DW_FORM_indirect;
}

bool hw_needed_enter(Dwarf *dwarf, Dwarf_Off at, Dwarf_Die *out)
{
    Dwarf_Off next;
    size_t header;
    return dwarf &&
           dwarf_next_unit(dwarf, at, &next, &header, NULL, NULL, NULL, NULL, NULL, NULL) == 0 &&
           dwarf_offdie(dwarf, at + header, out);
}

bool hw_needed_has_others(Dwarf_Die *unit)
{
    Dwarf_Off abbreviations = 0, where;
    size_t length;
    unsigned name, form;
    for (size_t i = 0; i < MAX_ABBREVIATIONS; i++, abbreviations += length) {
        Dwarf_Abbrev *a = dwarf_getabbrev(unit, abbreviations, &length);
        if (a == DWARF_END_ABBREV)
            return false;
        if (!a)
            return true;
        /* dwarf_getattrcnt miscounts where attributes have constants. */
        for (size_t k = 0; dwarf_getabbrevattr(a, k, &name, &form, &where) == 0; k++)
            if (is_to_another(form))
                return true;
    }
    return true;
}

bool hw_needed_lines(Dwarf_Die *unit, Dwarf_Off *out)
{
    Dwarf_Attribute a;
    Dwarf_Word v;
    if (!dwarf_attr(unit, DW_AT_stmt_list, &a) || dwarf_formudata(&a, &v) != 0)
        return false;
    *out = v;
    return true;
}

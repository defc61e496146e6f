/* Open addressing over ids; the hash of each string is kept, so that growth touches no text. */
#include "base/text/strings.h"

#include <stdlib.h>

#include "base/banned.h"
#include "base/error.h"
#include "base/memory/arena.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"

struct entry {
    const char *p; /* in arena */
    size_t n;
    uint64_t hash;
};

struct hw_strings {
    struct hw_arena arena;
    HW_VEC(struct entry) entries;
    uint32_t *slots; /* entry index + 1, 0 = free; owned */
    size_t mask;
};

static int grow_slots(struct hw_strings *s)
{
    size_t n = s->slots ? (s->mask + 1) * 2 : 64;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return HW_ENOMEM;
    for (size_t i = 0; i < s->entries.n; i++) {
        size_t at = s->entries.v[i].hash & (n - 1);
        while (slots[at])
            at = (at + 1) & (n - 1);
        slots[at] = (uint32_t)i + 1;
    }
    free(s->slots);
    s->slots = slots;
    s->mask = n - 1;
    return HW_OK;
}

int hw_strings_new(struct hw_strings **out)
{
    struct hw_strings *s = calloc(1, sizeof *s);
    hw_str_id empty;
    if (!s)
        return HW_ENOMEM;
    if (hw_strings_intern(s, (struct hw_bytes){NULL, 0}, &empty) < 0) {
        hw_strings_free(s);
        return HW_ENOMEM;
    }
    *out = s;
    return HW_OK;
}

void hw_strings_free(struct hw_strings *s)
{
    if (!s)
        return;
    hw_arena_done(&s->arena);
    hw_vec_done(&s->entries);
    free(s->slots);
    free(s);
}

/* The text's slot, or the free one where it belongs. */
static size_t slot_of(const struct hw_strings *s, struct hw_bytes text, uint64_t hash)
{
    size_t at = hash & s->mask;
    for (; s->slots[at]; at = (at + 1) & s->mask) {
        const struct entry *e = &s->entries.v[s->slots[at] - 1];
        if (e->hash == hash && hw_bytes_equal(hw_bytes_of(e->p, e->n), text))
            break;
    }
    return at;
}

int hw_strings_intern(struct hw_strings *s, struct hw_bytes text, hw_str_id *out)
{
    if ((s->entries.n + 1) * 2 > (s->slots ? s->mask + 1 : 0)) {
        int rc = grow_slots(s);
        if (rc < 0)
            return rc;
    }
    uint64_t hash = hw_hash_bytes_seeded(hw_hash_seed(), text.p, text.n);
    size_t at = slot_of(s, text, hash);
    if (s->slots[at]) {
        out->v = s->slots[at] - 1;
        return HW_OK;
    }
    if (s->entries.n >= UINT32_MAX - 1)
        return HW_ELIMIT;
    if (hw_vec_reserve(&s->entries, s->entries.n + 1) < 0)
        return HW_ENOMEM;
    char *copy = hw_arena_copy(&s->arena, text.p, text.n);
    if (!copy)
        return HW_ENOMEM;
    s->entries.v[s->entries.n++] = (struct entry){copy, text.n, hash};
    s->slots[at] = (uint32_t)s->entries.n;
    out->v = (uint32_t)s->entries.n - 1;
    return HW_OK;
}

bool hw_strings_has(const struct hw_strings *s, struct hw_bytes text)
{
    return s->slots[slot_of(s, text, hw_hash_bytes_seeded(hw_hash_seed(), text.p, text.n))] != 0;
}

struct hw_bytes hw_strings_get(const struct hw_strings *s, hw_str_id id)
{
    if (id.v >= s->entries.n)
        return hw_bytes_of("", 0);
    return hw_bytes_of(s->entries.v[id.v].p, s->entries.v[id.v].n);
}

const char *hw_strings_cstr(const struct hw_strings *s, hw_str_id id)
{
    return id.v < s->entries.n ? s->entries.v[id.v].p : "";
}

size_t hw_strings_count(const struct hw_strings *s)
{
    return s->entries.n;
}

size_t hw_strings_bytes(const struct hw_strings *s)
{
    return s->arena.total + s->entries.cap * sizeof *s->entries.v +
           (s->slots ? (s->mask + 1) * sizeof *s->slots : 0);
}

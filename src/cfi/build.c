/* build.c - see build.h */
#include "cfi/build.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "cfi/rows.h"
#include "unwind/table.h"

#include "base/banned.h"

/* Increase it when the same ELF file compiles to other rows than before: cached tables are then
 * invalid. */
enum { COMPILER_VERSION = 1, MAX_RULES = 65536, MAX_CHUNKS = 1 << 18 };

void hw_builder_done(struct hw_builder *b)
{
    hw_vec_done(&b->rows);
}

int hw_builder_row(void *builder, uint64_t va, uint64_t rule_bits)
{
    struct hw_builder *b = builder;
    if (b->rows.n && b->rows.v[b->rows.n - 1].va == va)
        b->rows.n--;
    if (b->rows.n && b->rows.v[b->rows.n - 1].rule == rule_bits)
        return HW_OK;
    struct hw_builder_row row = {va, rule_bits};
    return hw_vec_push(&b->rows, row) < 0 ? HW_ENOMEM : HW_OK;
}

/* ---- dictionary: rules by how often they are used, so that an overflow hits the rarest ---- */

struct dict_entry {
    uint64_t rule;
    uint32_t uses;
    uint32_t old_index;
};

struct dict {
    HW_VEC(struct dict_entry) list;
    struct hw_map64 index; /* rule bits -> index; the bits are never all ones */
    uint32_t *renumber;    /* owned: by old index, UINT32_MAX = dropped */
    uint32_t n_kept;
};

static void dict_done(struct dict *d)
{
    hw_vec_done(&d->list);
    hw_map64_done(&d->index);
    free(d->renumber);
}

/* Rows keep the rule's old index in `rule` from here on. */
static int dict_collect(struct dict *d, struct hw_builder *b)
{
    uint64_t last_rule = 0, last_index = 0;
    bool have_last = false;
    for (size_t i = 0; i < b->rows.n; i++) {
        uint64_t rule = b->rows.v[i].rule, at;
        if (have_last && rule == last_rule) {
            at = last_index;
        } else if (!hw_map64_get(&d->index, rule, &at)) {
            at = d->list.n;
            struct dict_entry e = {.rule = rule, .old_index = (uint32_t)at};
            if (hw_map64_put(&d->index, rule, at) < 0 || hw_vec_push(&d->list, e) < 0)
                return HW_ENOMEM;
        }
        d->list.v[at].uses++;
        b->rows.v[i].rule = at;
        last_rule = rule;
        last_index = at;
        have_last = true;
    }
    return HW_OK;
}

/* Makes sure that a rule exists and is never dropped; gives its old index. */
static int dict_need(struct dict *d, uint64_t rule, uint32_t *index)
{
    uint64_t at;
    if (!hw_map64_get(&d->index, rule, &at)) {
        at = d->list.n;
        struct dict_entry e = {.rule = rule, .old_index = (uint32_t)at};
        if (hw_vec_push(&d->list, e) < 0)
            return HW_ENOMEM;
    }
    d->list.v[at].uses = UINT32_MAX;
    *index = (uint32_t)at;
    return HW_OK;
}

static int by_uses(const void *pa, const void *pb)
{
    const struct dict_entry *a = pa, *b = pb;
    if (a->uses != b->uses)
        return a->uses > b->uses ? -1 : 1;
    return a->old_index < b->old_index ? -1 : a->old_index > b->old_index;
}

static int dict_number(struct dict *d)
{
    if (d->list.n)
        qsort(d->list.v, d->list.n, sizeof *d->list.v, by_uses);
    d->renumber = calloc(d->list.n + 1, sizeof *d->renumber);
    if (!d->renumber)
        return HW_ENOMEM;
    /* One entry is kept for UNSUP, which the dropped ones become. */
    d->n_kept = d->list.n < MAX_RULES ? (uint32_t)d->list.n : MAX_RULES - 1;
    bool overflow = d->n_kept < d->list.n;
    for (size_t i = 0; i < d->list.n; i++)
        d->renumber[d->list.v[i].old_index] = i < d->n_kept ? (uint32_t)i : d->n_kept;
    if (overflow) {
        d->list.v[d->n_kept].rule = hw_rule_bits((struct hw_rule){.kind = HW_RULE_UNSUP});
        d->n_kept++;
    }
    return HW_OK;
}

/* ---- layout ---- */

static uint32_t round_up8(uint64_t n)
{
    return (uint32_t)((n + 7) & ~7ull);
}

/* Each chunk has one row at its first byte, even if synthetic. */
static uint64_t count_rows(const struct hw_builder *b, uint32_t n_chunks)
{
    uint64_t n = n_chunks;
    for (size_t i = 0; i < b->rows.n; i++)
        n += (b->rows.v[i].va & 0xffff) != 0;
    return n;
}

struct arrays {
    uint32_t *index;
    uint16_t *lo, *rule;
};

static void fill_chunks(const struct hw_builder *b, const struct dict *d, uint32_t none,
                        const struct hw_table_header *h, struct arrays a)
{
    uint32_t out = 0;
    uint16_t in_force = (uint16_t)none;
    size_t i = 0;
    for (uint32_t c = 0; c < h->n_chunks; c++) {
        uint64_t base = ((uint64_t)h->first_chunk + c) << HW_TABLE_CHUNK_BITS;
        a.index[c] = out;
        if (i >= b->rows.n || b->rows.v[i].va != base) {
            a.lo[out] = 0;
            a.rule[out++] = in_force;
        }
        for (; i < b->rows.n && b->rows.v[i].va < base + (1u << HW_TABLE_CHUNK_BITS); i++) {
            in_force = (uint16_t)d->renumber[b->rows.v[i].rule];
            a.lo[out] = (uint16_t)b->rows.v[i].va;
            a.rule[out++] = in_force;
        }
    }
    a.index[h->n_chunks] = out;
}

static void place_sections(struct hw_table_header *h)
{
    h->chunk_index_off = sizeof *h;
    h->row_lo_off = round_up8(h->chunk_index_off + 4ull * (h->n_chunks + 1));
    h->row_rule_off = round_up8(h->row_lo_off + 2ull * h->n_rows);
    h->rules_off = round_up8(h->row_rule_off + 2ull * h->n_rows);
    h->total_bytes = h->rules_off + 8ull * h->n_rules;
}

static int write_table(const struct hw_builder *b, const struct dict *d, uint32_t none,
                       struct hw_table_header h, void **out, size_t *n_bytes)
{
    place_sections(&h);
    char *t = calloc(1, (size_t)h.total_bytes);
    if (!t)
        return HW_ENOMEM;
    struct arrays a = {(uint32_t *)(void *)(t + h.chunk_index_off),
                       (uint16_t *)(void *)(t + h.row_lo_off),
                       (uint16_t *)(void *)(t + h.row_rule_off)};
    fill_chunks(b, d, none, &h, a);
    for (uint32_t i = 0; i < h.n_rules; i++) {
        struct hw_rule r = hw_rule_of_bits(d->list.v[i].rule);
        memcpy(t + h.rules_off + 8ull * i, &r, sizeof r);
    }
    h.checksum = hw_table_checksum(t + sizeof h, (size_t)h.total_bytes - sizeof h);
    memcpy(t, &h, sizeof h);
    *out = t;
    *n_bytes = (size_t)h.total_bytes;
    return HW_OK;
}

int hw_builder_finish(struct hw_builder *b, const struct hw_builder_head *head, void **out,
                      size_t *n_bytes, struct hw_error *err)
{
    struct dict d = {0};
    if (!b->rows.n)
        return hw_fail(err, HW_ENOTFOUND, 0, "no unwind data");
    uint64_t lo_va = b->rows.v[0].va;
    uint64_t first = lo_va >> HW_TABLE_CHUNK_BITS;
    uint64_t n_chunks = ((head->hi_va - 1) >> HW_TABLE_CHUNK_BITS) - first + 1;
    if (n_chunks > MAX_CHUNKS)
        return hw_fail(err, HW_ELIMIT, 0, "code spans more than 16 GiB");
    uint64_t n_rows = count_rows(b, (uint32_t)n_chunks);
    if (n_rows > UINT32_MAX / 8)
        return hw_fail(err, HW_ELIMIT, 0, "too many unwind rows");

    uint32_t none = 0;
    int rc = dict_collect(&d, b);
    if (rc == HW_OK)
        rc = dict_need(&d, hw_rule_bits((struct hw_rule){.kind = HW_RULE_NONE}), &none);
    if (rc == HW_OK)
        rc = dict_number(&d);
    if (rc == HW_OK) {
        struct hw_table_header h = {.magic = HW_TABLE_MAGIC,
                                    .version = HW_TABLE_VERSION,
                                    .arch = head->arch,
                                    .build_id_len = head->build_id_len,
                                    .lo_va = lo_va,
                                    .hi_va = head->hi_va,
                                    .first_chunk = (uint32_t)first,
                                    .n_chunks = (uint32_t)n_chunks,
                                    .n_rows = (uint32_t)n_rows,
                                    .n_rules = d.n_kept,
                                    .compiler_version = COMPILER_VERSION};
        memcpy(h.build_id, head->build_id, sizeof h.build_id);
        rc = write_table(b, &d, d.renumber[none], h, out, n_bytes);
    }
    dict_done(&d);
    return rc < 0 ? hw_fail(err, rc, 0, "unwind table:") : HW_OK;
}

/*
 * table.c - validation of a table's bytes, and the lookups behind the rule cache
 *
 * Lookups are branch-free upper bounds: a search that misses the rule cache finds cold data, and
 * an unpredictable branch per halving would cost more than the loads.
 *
 * Like walk.c this file is compiled into targets: no libc call, no state.
 */
#include "unwind/table.h"

#include <stdbool.h>

#include "base/arch.h"
#include "base/bytes.h"
#include "base/error.h"

/* 2^18 chunks are 16 GiB of link-time addresses in one file. */
enum { MAX_CHUNKS = 1 << 18 };

uint32_t hw_table_checksum(const void *p, size_t n)
{
    const uint8_t *b = (const uint8_t *)p;
    uint64_t h = n * 0x9e3779b97f4a7c15u;
    for (; n >= 8; n -= 8, b += 8) {
        h = (h ^ hw_load_u64(b)) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    for (; n; n--, b++)
        h = (h ^ *b) * 0xff51afd7ed558ccdu;
    return (uint32_t)(h ^ h >> 29);
}

static bool section_fits(uint64_t off, uint64_t count, uint64_t size, uint64_t total)
{
    return off >= sizeof(struct hw_table_header) && off % size == 0 && off <= total &&
           count <= (total - off) / size;
}

static int check_header(const struct hw_table_header *h, size_t n_bytes)
{
    if (h->magic != HW_TABLE_MAGIC || h->version != HW_TABLE_VERSION)
        return HW_EFORMAT;
    if (h->arch != HW_ARCH_X86_64 && h->arch != HW_ARCH_ARM64 && h->arch != HW_ARCH_X86)
        return HW_EFORMAT;
    if (h->total_bytes > n_bytes || h->total_bytes < sizeof *h || h->total_bytes % 8)
        return HW_EFORMAT;
    if (h->build_id_len > sizeof h->build_id || h->lo_va >= h->hi_va || h->hi_va >> 48)
        return HW_EFORMAT;
    uint64_t first = h->lo_va >> HW_TABLE_CHUNK_BITS;
    uint64_t last = (h->hi_va - 1) >> HW_TABLE_CHUNK_BITS;
    if (h->first_chunk != first || h->n_chunks != last - first + 1 || h->n_chunks > MAX_CHUNKS)
        return HW_EFORMAT;
    if (!h->n_rules || h->n_rules > 65536)
        return HW_EFORMAT;
    if (!section_fits(h->chunk_index_off, (uint64_t)h->n_chunks + 1, 4, h->total_bytes) ||
        !section_fits(h->row_lo_off, h->n_rows, 2, h->total_bytes) ||
        !section_fits(h->row_rule_off, h->n_rows, 2, h->total_bytes) ||
        !section_fits(h->rules_off, h->n_rules, 8, h->total_bytes))
        return HW_EFORMAT;
    return HW_OK;
}

/* Every chunk is non-empty, begins with a row at its first byte, and its rows ascend. */
static int check_rows(const struct hw_table_header *h)
{
    const char *base = (const char *)h;
    const uint32_t *index = (const uint32_t *)(const void *)(base + h->chunk_index_off);
    const uint16_t *lo = (const uint16_t *)(const void *)(base + h->row_lo_off);
    const uint16_t *rule = (const uint16_t *)(const void *)(base + h->row_rule_off);
    if (index[0] != 0 || index[h->n_chunks] != h->n_rows)
        return HW_EFORMAT;
    for (uint32_t c = 0; c < h->n_chunks; c++) {
        if (index[c] >= index[c + 1] || index[c + 1] > h->n_rows || lo[index[c]] != 0)
            return HW_EFORMAT;
        for (uint32_t i = index[c] + 1; i < index[c + 1]; i++)
            if (lo[i] <= lo[i - 1])
                return HW_EFORMAT;
    }
    uint32_t max_rule = 0;
    for (uint32_t i = 0; i < h->n_rows; i++)
        max_rule = rule[i] > max_rule ? rule[i] : max_rule;
    return max_rule < h->n_rules ? HW_OK : HW_EFORMAT;
}

static int check_rules(const struct hw_table_header *h)
{
    const struct hw_rule *r =
        (const struct hw_rule *)(const void *)((const char *)h + h->rules_off);
    for (uint32_t i = 0; i < h->n_rules; i++)
        if (r[i].kind >= HW_RULE_KIND_COUNT || r[i].fp_kind >= HW_RULE_FP_KIND_COUNT)
            return HW_EFORMAT;
    return HW_OK;
}

int hw_table_check(const void *table, size_t n_bytes)
{
    if (n_bytes < sizeof(struct hw_table_header) || (uintptr_t)table % 8)
        return HW_EFORMAT;
    const struct hw_table_header *h = (const struct hw_table_header *)table;
    int rc = check_header(h, n_bytes);
    if (rc < 0)
        return rc;
    if (hw_table_checksum((const char *)table + sizeof *h, (size_t)h->total_bytes - sizeof *h) !=
        h->checksum)
        return HW_EFORMAT;
    rc = check_rows(h);
    return rc < 0 ? rc : check_rules(h);
}

struct hw_rule hw_table_lookup(const struct hw_table_header *t, uint64_t va)
{
    if (va - t->lo_va >= t->hi_va - t->lo_va)
        return (struct hw_rule){.kind = HW_RULE_NONE};
    const char *base = (const char *)t;
    const uint32_t *index = (const uint32_t *)(const void *)(base + t->chunk_index_off) +
                            ((va >> HW_TABLE_CHUNK_BITS) - t->first_chunk);
    const uint16_t *row_lo = (const uint16_t *)(const void *)(base + t->row_lo_off);
    uint16_t key = (uint16_t)va;

    /* Invariant: row_lo[lo] <= key; true at first because each chunk has a row at offset 0. */
    uint32_t lo = index[0];
    uint32_t n = index[1] - lo;
    while (n > 1) {
        uint32_t half = n / 2;
        lo += row_lo[lo + half] <= key ? half : 0;
        n -= half;
    }
    const uint16_t *row_rule = (const uint16_t *)(const void *)(base + t->row_rule_off);
    const struct hw_rule *rules = (const struct hw_rule *)(const void *)(base + t->rules_off);
    return rules[row_rule[lo]];
}

const struct hw_module *hw_module_find(const struct hw_module_snapshot *s, uint64_t pc)
{
    if (!s || !s->n_modules)
        return NULL;
    const struct hw_module *m = s->modules;
    for (uint32_t n = s->n_modules; n > 1;) {
        uint32_t half = n / 2;
        m += m[half].lo <= pc ? half : 0;
        n -= half;
    }
    return pc - m->lo < m->hi - m->lo ? m : NULL;
}

/*
 * jvm_code.c - the table's entries, in words, until one without a type:
 *
 *     0 type's name  1 field's name  2 its type  3 (u32) 1 = static  4 offset  5 address, if it is static
 *
 * A block of a code heap begins with its length in segments (a word; of newer versions half a one), then a byte: 1 = in use.
 */
#include "proc/heaps/jvm_code.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "proc/heaps/target_memory.h"

#include "base/banned.h"

#define MAX_CPU_NS  UINT64_C(100000000)
#define ENTRY_WORDS 6u
#define MAX_ENTRIES 8192u
#define MAX_HEAPS   8u
#define MAX_SEGMENT 16u /* log2 */
#define MAX_OFFSET  4096u
#define MAX_NAME    40u

enum field {
    HEAPS,     /* static: the list of heaps */
    LIST_N,    /* of a list */
    LIST_DATA, /* likewise */
    MEMORY,    /* of a heap: a space */
    SEGMENT,   /* likewise: log2 of a segment's size */
    SPACE_LOW, /* of a space */
    SPACE_HIGH,
    HEADER, /* of a block */
    LENGTH, /* of a header */
    IN_USE,
    N_FIELDS
};

static const struct {
    const char *type, *field;
} names[N_FIELDS] = {
    [HEAPS] = {"CodeCache", "_heaps"},
    [LIST_N] = {"GenericGrowableArray", "_len"}, /* 17: GrowableArrayBase */
    [LIST_DATA] = {"GrowableArray<int>", "_data"},
    [MEMORY] = {"CodeHeap", "_memory"},
    [SEGMENT] = {"CodeHeap", "_log2_segment_size"},
    [SPACE_LOW] = {"VirtualSpace", "_low"},
    [SPACE_HIGH] = {"VirtualSpace", "_high"},
    [HEADER] = {"HeapBlock", "_header"},
    [LENGTH] = {"HeapBlock::Header", "_length"},
    [IN_USE] = {"HeapBlock::Header", "_used"},
};

struct reading {
    struct hw_target_memory *m;
    const struct hw_jvm_texts *texts;
    struct {
        uint64_t low, high;
    } seen[MAX_HEAPS];
    size_t n_seen;
    uint64_t at[N_FIELDS]; /* offset, or address */
    bool has[N_FIELDS];
};

/* ---- the table ---- */

static void take(struct reading *r, const char *type, const char *field, uint64_t at)
{
    if (strcmp(type, "GrowableArrayBase") == 0)
        type = names[LIST_N].type;
    for (size_t i = 0; i < N_FIELDS; i++)
        if (strcmp(type, names[i].type) == 0 && strcmp(field, names[i].field) == 0) {
            r->at[i] = at;
            r->has[i] = i == HEAPS || at < MAX_OFFSET;
        }
}

static bool has_all(const struct reading *r)
{
    for (size_t i = 0; i < N_FIELDS; i++)
        if (!r->has[i])
            return false;
    return true;
}

static bool read_table(struct reading *r, uint64_t table)
{
    uint64_t at;
    if (hw_target_word_anywhere(r->m, table, &at) < 0)
        return false;
    for (size_t i = 0; i < MAX_ENTRIES && !has_all(r); i++, at += (uint64_t)ENTRY_WORDS * 8) {
        uint64_t w[ENTRY_WORDS];
        char type[MAX_NAME], field[MAX_NAME];
        for (size_t k = 0; k < ENTRY_WORDS; k++)
            if (hw_target_word_anywhere(r->m, at + k * 8, &w[k]) < 0)
                return false;
        if (w[0] == 0)
            return false;
        if (!r->texts->read(r->texts->arg, w[0], type, sizeof type) ||
            !r->texts->read(r->texts->arg, w[1], field, sizeof field))
            continue;
        take(r, type, field, (uint32_t)w[3] ? w[5] : w[4]);
    }
    return has_all(r);
}

/* ---- a heap ---- */

static bool field_of(struct reading *r, uint64_t record, enum field f, uint64_t *out)
{
    return hw_target_word_anywhere(r->m, record + r->at[f], out) == HW_OK;
}

static bool u32_at(struct reading *r, uint64_t at, uint64_t *out)
{
    uint64_t word;
    if (at % 4 || hw_target_word_anywhere(r->m, at & ~UINT64_C(7), &word) < 0)
        return false;
    *out = (uint32_t)(word >> (at % 8 * 8));
    return true;
}

/* A word that has more than the length has it in its lower half. */
static uint64_t length_in(const struct reading *r, uint64_t word)
{
    bool is_half = r->at[IN_USE] > r->at[LENGTH] && r->at[IN_USE] - r->at[LENGTH] < sizeof word;
    return is_half ? (uint32_t)word : word;
}

/* Behind the last block nothing was written yet, or the heap ends. */
static bool add_blocks(struct reading *r, uint64_t low, uint64_t high, uint64_t segment,
                       uint64_t *used)
{
    for (uint64_t at = low, n; at < high; at += n << segment) {
        uint64_t word, length_at = at + r->at[HEADER] + r->at[LENGTH];
        uint64_t in_use_at = at + r->at[HEADER] + r->at[IN_USE];
        int rc = hw_target_word(r->m, length_at, &n);
        if (rc == HW_EGONE && !hw_target_is_present(r->m, length_at / HW_TARGET_PAGE))
            return true;
        if (rc < 0 || hw_target_word(r->m, in_use_at & ~UINT64_C(7), &word) < 0)
            return false;
        n = length_in(r, n);
        if (n == 0)
            return true;
        if (n > (high - at) >> segment)
            return false;
        bool is_used = (uint8_t)(word >> (in_use_at % 8 * 8)) == 1;
        *used += is_used ? n << segment : 0;
    }
    return true;
}

/* No memory is of two heaps. */
static bool is_apart(struct reading *r, uint64_t low, uint64_t high)
{
    for (size_t i = 0; i < r->n_seen; i++)
        if (low < r->seen[i].high && high > r->seen[i].low)
            return false;
    r->seen[r->n_seen].low = low;
    r->seen[r->n_seen++].high = high;
    return true;
}

static bool add_heap(struct reading *r, uint64_t heap, struct hw_jvm_code *out)
{
    uint64_t low, high, segment;
    if (!field_of(r, heap + r->at[MEMORY], SPACE_LOW, &low) ||
        !field_of(r, heap + r->at[MEMORY], SPACE_HIGH, &high) ||
        !u32_at(r, heap + r->at[SEGMENT], &segment))
        return false;
    if (low % HW_TARGET_PAGE || high % HW_TARGET_PAGE || segment < 3 || segment > MAX_SEGMENT ||
        !hw_target_is_heap(r->m, low, high) || !is_apart(r, low, high))
        return false;
    out->committed += high - low;
    return add_blocks(r, low, high, segment, &out->used);
}

static bool read_heaps(struct reading *r, struct hw_jvm_code *out)
{
    uint64_t list, n, data, heap;
    if (hw_target_word_anywhere(r->m, r->at[HEAPS], &list) < 0 ||
        !u32_at(r, list + r->at[LIST_N], &n) || n == 0 || n > MAX_HEAPS ||
        !field_of(r, list, LIST_DATA, &data))
        return false;
    for (size_t i = 0; i < n; i++)
        if (hw_target_word_anywhere(r->m, data + i * 8, &heap) < 0 || !add_heap(r, heap, out))
            return false;
    return true;
}

int hw_jvm_code_read(const struct hw_smaps *s, int mem, int pagemap, uint64_t table,
                     const struct hw_jvm_texts *texts, struct hw_jvm_code *out)
{
    *out = (struct hw_jvm_code){.is_known = false};
    if (mem < 0 || pagemap < 0)
        return HW_OK;
    struct reading r = {.m = calloc(1, sizeof *r.m), .texts = texts};
    if (!r.m)
        return HW_ENOMEM;
    hw_target_memory_init(r.m, s, mem, pagemap, MAX_CPU_NS);
    out->is_known = read_table(&r, table) && read_heaps(&r, out) && out->used <= out->committed;
    free(r.m);
    return HW_OK;
}

/*
 * The stepper with random rules and a random stack that ends at a guard page. The same stack is
 * walked three times - live with the previous frames, with the rule cache, with nothing - then some
 * words change and it is walked again: all ways must agree, and none may leave [sp, hi).
 *
 * Input: 4 bytes (sp, fp, flags, number of rules) | rules, 8 bytes each | stack words, 2 bytes each
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arch.h"
#include "base/error.h"
#include "unwind/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { STACK = 16384, GUARD = 4096, MAX_RULES = 64, ROW_BYTES = 16 };
#define CODE 0x400000u

struct world {
    struct hw_tables_dir dir;
    struct hw_table_header head;
    uint32_t index[2];
    uint16_t lo[MAX_RULES], rule[MAX_RULES];
    struct hw_rule rules[MAX_RULES];
    struct {
        struct hw_module_snapshot s;
        struct hw_module m[2];
    } snap;
};

static struct world *world;
static uint8_t *stack; /* STACK bytes, then the guard */
static struct hw_walk_cache *live, *cached;
static uint32_t generation;

static void prepare(void)
{
    world = calloc(1, sizeof *world);
    stack = mmap(NULL, STACK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    live = calloc(1, hw_walk_cache_bytes());
    cached = calloc(1, hw_walk_cache_bytes());
    if (!world || stack == MAP_FAILED || !live || !cached ||
        mprotect(stack + STACK, GUARD, PROT_NONE) != 0)
        abort();
}

static uint32_t make_table(const uint8_t *rules, uint32_t n)
{
    struct hw_table_header *h = &world->head;
    *h = (struct hw_table_header){.magic = HW_TABLE_MAGIC,
                                  .version = HW_TABLE_VERSION,
                                  .arch = HW_ARCH_HERE,
                                  .lo_va = 0,
                                  .hi_va = n * ROW_BYTES,
                                  .n_chunks = 1,
                                  .n_rows = n,
                                  .n_rules = n};
    h->chunk_index_off = (uint32_t)((char *)world->index - (char *)h);
    h->row_lo_off = (uint32_t)((char *)world->lo - (char *)h);
    h->row_rule_off = (uint32_t)((char *)world->rule - (char *)h);
    h->rules_off = (uint32_t)((char *)world->rules - (char *)h);
    h->total_bytes = h->rules_off + sizeof world->rules;
    world->index[0] = 0;
    world->index[1] = n;
    for (uint32_t i = 0; i < n; i++) {
        world->lo[i] = (uint16_t)(i * ROW_BYTES);
        world->rule[i] = (uint16_t)i;
        memcpy(&world->rules[i], rules + 8 * i, 8);
        world->rules[i].kind %= HW_RULE_KIND_COUNT;
        world->rules[i].fp_kind %= HW_RULE_FP_KIND_COUNT;
        /* Small offsets find something more often. */
        if (world->rules[i].fp_off & 1)
            world->rules[i].fp_off = (int16_t)(world->rules[i].fp_off % 16);
        if (world->rules[i].cfa_off & 1)
            world->rules[i].cfa_off %= 32;
    }
    h->checksum = hw_table_checksum((char *)h + sizeof *h, (size_t)h->total_bytes - sizeof *h);
    if (hw_table_check(h, h->total_bytes) != HW_OK)
        abort();
    uint64_t off = (uint64_t)((char *)h - (char *)world);
    world->snap.s = (struct hw_module_snapshot){.generation = ++generation, .n_modules = 2};
    world->snap.m[0] = (struct hw_module){CODE, CODE + 65536, CODE, off, 0, 0};
    world->snap.m[1] =
        (struct hw_module){CODE + 65536, CODE + 131072, CODE, 0, HW_MODULE_NO_TABLE, 0};
    return n * ROW_BYTES;
}

/* Two bytes of input make a word that may mean something. */
static uint64_t word_of(const uint8_t *p, uint64_t code_bytes)
{
    uint64_t v = p[0] | (uint64_t)p[1] << 8;
    switch (v & 7) {
    case 0:
    case 1:
    case 2:
        return CODE + 1 + (v >> 3) % (code_bytes + 32);
    case 3:
    case 4:
        return (uint64_t)(uintptr_t)stack + ((v >> 3) * 8) % (STACK + 64);
    case 5:
        return (uint64_t)(uintptr_t)stack + STACK - (v >> 3) % 512;
    case 6:
        return v >> 3;
    default:
        return v * 0x9e3779b97f4a7c15u;
    }
}

static void must_equal(const struct hw_walk_out *a, const struct hw_walk_out *b)
{
    if (a->n_frames != b->n_frames || a->stop != b->stop || a->stack_id != b->stack_id ||
        memcmp(a->pcs, b->pcs, a->n_frames * sizeof *a->pcs) != 0 ||
        memcmp(a->exact, b->exact, sizeof a->exact) != 0)
        abort();
}

static void walk_all_ways(struct hw_walk_in *in)
{
    static struct hw_walk_out a, b, c;
    hw_walk(in, live, &a);
    hw_walk(in, NULL, &b);
    must_equal(&a, &b);
    hw_walk(in, live, &c);
    must_equal(&a, &c);
    if (a.n_frames < 1 || a.n_frames > HW_MAX_FRAMES || a.stop >= HW_STOP_COUNT || !a.stack_id)
        abort();
    /* A copy of it, elsewhere: no word of the original may be read. */
    static uint8_t elsewhere[STACK];
    size_t at = (size_t)(in->regs.sp - (uint64_t)(uintptr_t)stack);
    if (in->n_others || at > STACK)
        return;
    memcpy(elsewhere, stack, STACK);
    struct hw_walk_in copied = *in;
    copied.delta = (uint64_t)(uintptr_t)elsewhere - (uint64_t)(uintptr_t)stack;
    hw_walk(&copied, cached, &c);
    must_equal(&a, &c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!world)
        prepare();
    if (n < 12)
        return 0;
    uint32_t n_rules = data[3] % MAX_RULES + 1u;
    if (n_rules * 8u + 4u > n)
        n_rules = (uint32_t)((n - 4) / 8);
    uint64_t code_bytes = make_table(data + 4, n_rules);
    const uint8_t *words = data + 4 + 8 * n_rules;
    size_t n_words = (n - 4 - 8 * n_rules) / 2;
    memset(stack, 0, STACK);
    if (n_words > STACK / 8)
        n_words = STACK / 8;
    uint64_t *top = (uint64_t *)(void *)(stack + STACK) - n_words;
    for (size_t i = 0; i < n_words; i++)
        top[i] = word_of(words + 2 * i, code_bytes);

    uint64_t base = (uint64_t)(uintptr_t)stack;
    struct hw_walk_in in = {.tables = world,
                            .snapshot = &world->snap.s,
                            .regs = {.pc = CODE + 1 + data[0],
                                     .sp = (uint64_t)(uintptr_t)top + data[0] / 32,
                                     .fp = (uint64_t)(uintptr_t)top + data[1] * 8ull,
                                     .lr = CODE + 1 + data[1]},
                            .hi = base + STACK - (data[2] & 8 ? data[1] : 0),
                            .max_frames = data[2] & 4 ? data[1] : HW_MAX_FRAMES,
                            .first_is_exact = data[2] & 2};
    if (in.regs.sp + 8 > in.hi)
        in.regs.sp = in.hi - 8;
    if (data[2] & 16) { /* a second known stack: the lower half of the same pages */
        in.n_others = 1;
        in.others[0] = (struct hw_walk_range){base, base + STACK / 2};
    }
    walk_all_ways(&in);
    for (size_t i = 0; i < n_words; i += 7 + data[1]) {
        uint64_t old = top[i];
        top[i] = word_of(words + 2 * (n_words - 1 - i), code_bytes);
        walk_all_ways(&in);
        if (i % 2)
            top[i] = old;
    }
    return 0;
}

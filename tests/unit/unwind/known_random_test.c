/*
 * Stacks that were walked before (walk_known.h), against a walk without any cache, on random programs: every kind of
 * rule, in tables, modules without one and code in no module; stacks of random words that repeat and change; lists of
 * modules that change; pages that are gone; handlers that leave a walk at any instruction.
 *
 * A program is a table of rules for a few hundred addresses. A word of the stack is one of those addresses, an address
 * of the stack, or data, so a walk leads anywhere and now and then to the end. The samples have few different pcs, sps and
 * fps, and between two of them a few words change, or change back.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "test.h"

#include "base/arch.h"
#include "base/memory/map64.h"
#include "cfi/build.h"
#include "unwind/regs.h"
#include "unwind/walk.h"

enum {
    PAGE = 4096,
    N_PAGES = 3,
    N_WORDS = N_PAGES * PAGE / 8,
    CODE = 0x40000,      /* the module with a table, */
    PLAIN = 0x60000,     /* the one without, */
    GENERATED = 0x80000, /* and code in no module */
    N_CODE = 96,
    N_LISTS = 6,
    N_TABLES = 3,
    N_SAVED = 8,
    ROUNDS = 60,
    SAMPLES = 3000,
    ALIGN = HW_REGS_CFA_ALIGN / 8 /* words */
};

static uint64_t rng = 11;

static uint32_t draw(uint32_t n)
{
    rng = hw_hash_mix(rng, 1);
    return (uint32_t)((rng >> 33) % n);
}

static uint64_t *stack; /* N_PAGES, and one behind that cannot be read */
static bool gone[N_PAGES];
static char *dir;
static size_t used;
static uint64_t table_at[N_TABLES];
static const struct hw_module_snapshot *lists[N_LISTS];
static struct hw_walk_cache *cache;
static unsigned n, n_known, n_end, n_faults, n_left;

/* ---- a program ---- */

static uint64_t address(uint32_t i)
{
    static const uint64_t bases[] = {CODE, CODE, CODE, CODE, CODE, CODE, PLAIN, GENERATED};
    return bases[i % 8] + 16 * (uint64_t)(i / 8 % (N_CODE / 8)) + 5;
}

static uint64_t random_rule(void)
{
    /* Most are the plain ones: only then do walks come to an end. */
    static const uint8_t kinds[] = {
        HW_RULE_SP,       HW_RULE_SP,  HW_RULE_SP,   HW_RULE_SP,  HW_RULE_SP,    HW_RULE_SP,
        HW_RULE_FP,       HW_RULE_FP,  HW_RULE_END,  HW_RULE_END, HW_RULE_END,   HW_RULE_FP_DEREF,
        HW_RULE_SP_DEREF, HW_RULE_PLT, HW_RULE_NONE, HW_RULE_REG, HW_RULE_SIGNAL};
    static const uint8_t fp_kinds[] = {HW_RULE_FP_SAME,   HW_RULE_FP_SAME,   HW_RULE_FP_AT_CFA,
                                       HW_RULE_FP_AT_CFA, HW_RULE_FP_AT_CFA, HW_RULE_FP_AT_FP,
                                       HW_RULE_FP_UNSUP};
    struct hw_rule r = {.kind = kinds[draw(sizeof kinds)],
                        .fp_kind = fp_kinds[draw(sizeof fp_kinds)],
                        .fp_off = (int16_t)((int)draw(6) - 4),
                        .ra_off = (int16_t)(HW_REGS_HAVE_LR && draw(4) == 0 ? -(int)draw(3) : -1),
                        .cfa_off = (uint16_t)(ALIGN * (1 + draw(6)))};
    uint64_t bits;
    if (r.kind == HW_RULE_NONE || r.kind == HW_RULE_END || r.kind == HW_RULE_REG)
        r = (struct hw_rule){.kind = r.kind};
    memcpy(&bits, &r, sizeof bits);
    return bits;
}

static void *append(size_t bytes)
{
    void *at = dir + used;
    used += (bytes + 63) & ~(size_t)63;
    assert_true(used <= HW_TABLES_BYTES / 64);
    return at;
}

static uint64_t table_of(const uint64_t rules[N_CODE])
{
    struct hw_builder b = {0};
    struct hw_builder_head head = {.arch = HW_ARCH_HERE, .hi_va = CODE + 16 * N_CODE};
    void *table;
    size_t bytes;
    for (uint32_t i = 0; i < N_CODE; i++)
        assert_int_equal(hw_builder_row(&b, CODE + 16 * i, rules[i]), 0);
    assert_int_equal(hw_builder_finish(&b, &head, &table, &bytes, NULL), 0);
    assert_int_equal(hw_table_check(table, bytes), 0);
    char *at = append(bytes);
    memcpy(at, table, bytes);
    free(table);
    hw_builder_done(&b);
    return (uint64_t)(at - dir);
}

static uint64_t random_table(void)
{
    uint64_t rules[N_CODE];
    for (uint32_t i = 0; i < N_CODE; i++)
        rules[i] = random_rule();
    return table_of(rules);
}

/* As the recorder's: code that replaces other makes a new generation, code that only comes does not. */
static void random_program(uint32_t generation)
{
    struct hw_module_snapshot
        *made[N_LISTS]; /* first, so that they are where the last program's were */
    used = sizeof(struct hw_tables_dir);
    for (uint32_t i = 0; i < N_LISTS; i++)
        lists[i] = made[i] = append(sizeof *made[i] + 2 * sizeof made[i]->modules[0]);
    for (uint32_t i = 0; i < N_TABLES; i++)
        table_at[i] = random_table();
    for (uint32_t i = 0; i < N_LISTS; i++) {
        bool more = i % 2; /* the same, and one more */
        *made[i] = (struct hw_module_snapshot){.generation = generation + i / 2,
                                               .n_modules = more ? 2 : 1};
        made[i]->modules[0] = (struct hw_module){
            .lo = CODE, .hi = CODE + 16 * N_CODE, .table_off = table_at[i / 2 % N_TABLES]};
        made[i]->modules[1] =
            (struct hw_module){.lo = PLAIN, .hi = PLAIN + 16 * N_CODE, .flags = HW_MODULE_NO_TABLE};
    }
}

/* ---- its stack ---- */

static uint64_t random_word(uint32_t at)
{
    uint32_t what = draw(16);
    if (what < 10)
        return address(draw(N_CODE));
    if (what < 15) /* mostly above it, and near */
        return (uint64_t)(uintptr_t)(stack + (at + draw(12)) % N_WORDS);
    return draw(2) ? 0 : hw_hash_mix(rng, at);
}

static void set_word(uint32_t at, uint64_t v)
{
    if (!gone[at / (PAGE / 8)])
        stack[at] = v;
}

static void set_page(uint32_t page, bool is_gone)
{
    gone[page] = is_gone;
    assert_int_equal(
        mprotect(stack + page * (PAGE / 8), PAGE, is_gone ? PROT_NONE : PROT_READ | PROT_WRITE), 0);
}

/* ---- walks that may not come back ---- */

static sigjmp_buf out_of_it;
static volatile sig_atomic_t in_a_walk;

static void leave(int sig)
{
    if (in_a_walk || sig == SIGSEGV) {
        in_a_walk = 0;
        siglongjmp(out_of_it, sig);
    }
}

/* cmocka has handlers of its own in each test. */
static void catch_signals(void)
{
    struct sigaction a = {.sa_handler = leave, .sa_flags = SA_NODEFER};
    assert_int_equal(sigaction(SIGSEGV, &a, NULL) | sigaction(SIGALRM, &a, NULL), 0);
}

enum way { BARE, KNOWN, CACHED };

/* 1 and the answer, 0: not known; -1: it was left. */
static int walk(enum way way, const struct hw_walk_in *in, struct hw_walk_out *out)
{
    int sig = sigsetjmp(out_of_it, 1);
    if (sig) {
        n_faults += sig == SIGSEGV;
        n_left += sig != SIGSEGV;
        return sig == SIGSEGV ? -SIGSEGV : -1;
    }
    int answer = 1;
    in_a_walk = 1;
    if (way == KNOWN)
        answer = hw_walk_known(in->snapshot, &in->regs, in->hi, cache, out);
    else
        hw_walk(in, way == BARE ? NULL : cache, out);
    in_a_walk = 0;
    return answer;
}

static void same(const struct hw_walk_out *a, const struct hw_walk_out *b)
{
    assert_int_equal(a->stop, b->stop);
    assert_int_equal(a->n_frames, b->n_frames);
    assert_int_equal(a->generation, b->generation);
    assert_int_equal(a->stack_id, b->stack_id);
}

static void disturb(bool on)
{
    struct itimerval t = {.it_interval.tv_usec = on ? 60 : 0, .it_value.tv_usec = on ? 60 : 0};
    assert_int_equal(setitimer(ITIMER_REAL, &t, NULL), 0);
}

/* A walk may be left, and a stack be unknown. Neither faults where a walk without a cache does not. */
static void sample(const struct hw_walk_in *in)
{
    static struct hw_walk_out bare, out;
    int rc;
    while ((rc = walk(BARE, in, &bare)) == -1)
        ;
    if (rc == -SIGSEGV)
        return; /* so would any other */
    rc = walk(KNOWN, in, &out);
    if (rc == -SIGSEGV)
        fail_msg("it read what a walk does not read");
    n++;
    n_end += bare.stop == HW_STOP_END;
    if (rc == 1) {
        assert_int_equal(out.stop, HW_STOP_END);
        same(&out, &bare);
        n_known++;
    } else if (rc == 0) {
        rc = walk(CACHED, in, &out);
        if (rc == -SIGSEGV)
            fail_msg("it read what a walk without a cache does not read");
        if (rc == 1) {
            same(&out, &bare);
            assert_memory_equal(out.pcs, bare.pcs, out.n_frames * sizeof *out.pcs);
        }
    }
}

static void random_stacks(bool holes, bool signals)
{
    struct {
        uint32_t at;
        uint64_t v;
    } saved[N_SAVED] = {{0}};
    catch_signals();
    n = n_known = n_end = n_faults = n_left = 0;
    uint32_t generation = 1, first = 0, list = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        /* Other tables at the same places: of a new session, of a new thread, or as code was replaced. */
        if (round % 3 == 0)
            hw_walk_cache_reset(cache);
        else if (round % 3 == 1)
            memset(cache, 0, hw_walk_cache_bytes());
        else
            generation += N_LISTS / 2;
        random_program(generation);
        if (round % 2 == 0) {
            first = (1 + draw(2)) * (PAGE / 8) - 1 - draw(20); /* frames on two pages */
            for (uint32_t i = 0; i < N_WORDS; i++)
                set_word(i, random_word(i));
        }
        uint32_t last = N_WORDS, at = 0;
        if (signals)
            disturb(true);
        for (uint32_t i = 0; i < SAMPLES; i++) {
            bool wild =
                i % 1500 / 300 == 2; /* hardly anything repeats: the walker stops looking for it */
            for (uint32_t k = wild ? 20 : draw(24) ? 0 : 1 + draw(3); k > 0; k--) {
                at = first + draw(40);
                saved[draw(N_SAVED)] =
                    (typeof(saved[0])){at, !gone[at / (PAGE / 8)] ? stack[at] : 0};
                set_word(at, random_word(at));
            }
            if (draw(16) == 0) { /* back to what it was */
                uint32_t k = draw(N_SAVED);
                set_word(saved[k].at, saved[k].v);
            }
            if (draw(200) == 0)
                list = draw(N_LISTS);
            if (draw(50) == 0)
                last = draw(2) ? N_WORDS : first + 16 + draw(30);
            if (holes && draw(20) == 0)
                set_page(draw(N_PAGES), draw(2));
            struct hw_walk_in in = {
                .tables = dir,
                .snapshot = lists[list],
                .regs = {.pc = address(draw(3)),
                         .sp =
                             (uint64_t)(uintptr_t)(stack + first / ALIGN * ALIGN + ALIGN * draw(2)),
                         .fp = draw(32) ? (uint64_t)(uintptr_t)(stack + first + 4 + 3 * draw(3))
                                        : random_word(first)},
                .hi = (uint64_t)(uintptr_t)(stack + last),
                .max_frames = HW_MAX_FRAMES};
            sample(&in);
        }
        disturb(false);
        for (uint32_t i = 0; i < N_PAGES; i++)
            set_page(i, false);
    }
    print_message("%u samples, %u to the end, %u known, %u faults, %u left\n", n, n_end, n_known,
                  n_faults, n_left);
    assert_true(n_known > 1000);
}

/* One call site, two functions that save the frame pointer in different places. */
static void called_from_one_place(void **state)
{
    static const struct hw_rule rules[N_CODE] = {{.kind = HW_RULE_SP,
                                                  .fp_kind = HW_RULE_FP_AT_CFA,
                                                  .fp_off = -3,
                                                  .ra_off = -1,
                                                  .cfa_off = 4},
                                                 {.kind = HW_RULE_SP,
                                                  .fp_kind = HW_RULE_FP_AT_CFA,
                                                  .fp_off = -4,
                                                  .ra_off = -1,
                                                  .cfa_off = 4},
                                                 {.kind = HW_RULE_FP,
                                                  .fp_kind = HW_RULE_FP_AT_CFA,
                                                  .fp_off = -2,
                                                  .ra_off = -1,
                                                  .cfa_off = 2},
                                                 {.kind = HW_RULE_END}};
    enum { SAVES_SECOND = CODE + 5, SAVES_THIRD = CODE + 21, CALLER = CODE + 37, ROOT = CODE + 53 };
    uint64_t raw[N_CODE], x = (uint64_t)(uintptr_t)(stack + 20),
                          y = (uint64_t)(uintptr_t)(stack + 10);
    (void)state;
    catch_signals();
    memcpy(raw, rules, sizeof raw);
    used = sizeof(struct hw_tables_dir);
    struct hw_module_snapshot *list = append(sizeof *list + sizeof list->modules[0]);
    *list = (struct hw_module_snapshot){.generation = 1, .n_modules = 1};
    list->modules[0] =
        (struct hw_module){.lo = CODE, .hi = CODE + 16 * N_CODE, .table_off = table_of(raw)};
    n = n_known = 0;
    memset(cache, 0, hw_walk_cache_bytes());
    memset(stack, 0, N_WORDS * 8);
    stack[3] = CALLER;
    stack[21] = ROOT;
    stack[11] = CALLER; /* a frame more */
    stack[10] = x;
    struct hw_walk_in in = {.tables = dir,
                            .snapshot = list,
                            .regs = {.sp = (uint64_t)(uintptr_t)stack},
                            .hi = (uint64_t)(uintptr_t)(stack + N_WORDS),
                            .max_frames = HW_MAX_FRAMES};
    for (uint32_t i = 0; i < 64; i++) {
        in.regs.pc = i % 4 == 0 ? SAVES_SECOND : SAVES_THIRD;
        stack[0] = i % 4 == 3 || i % 5 == 4 ? y : x;
        stack[1] = i % 7 == 6 ? y : x;
        sample(&in);
    }
    sample(&in);
    unsigned before = n_known;
    sample(&in);
    assert_int_equal(n_known, before + 1);
    /* Another session: the same stack, and another table at the same place in the same generation. */
    raw[2] = raw[3];
    list->modules[0].table_off = table_of(raw);
    hw_walk_cache_reset(cache);
    sample(&in);
}

static void every_rule(void **state)
{
    (void)state;
    random_stacks(false, false);
}

static void pages_that_are_gone(void **state)
{
    (void)state;
    random_stacks(true, false);
    assert_true(n_faults > 100);
}

static void handlers_that_leave(void **state)
{
    (void)state;
    random_stacks(false, true);
}

static int setup(void **state)
{
    (void)state;
    cache = calloc(1, hw_walk_cache_bytes());
    stack = mmap(NULL, (N_PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0);
    dir = mmap(NULL, HW_TABLES_BYTES / 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
               0);
    if (!cache || stack == MAP_FAILED || dir == MAP_FAILED ||
        mprotect(stack + N_WORDS, PAGE, PROT_NONE) < 0)
        return -1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(cache);
    return munmap(stack, (N_PAGES + 1) * PAGE) | munmap(dir, HW_TABLES_BYTES / 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(called_from_one_place),
        cmocka_unit_test(every_rule),
        cmocka_unit_test(pages_that_are_gone),
        cmocka_unit_test(handlers_that_leave),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

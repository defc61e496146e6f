/*
 * client_test.c LIBRARY TARGETS - the preload library under programs that count for themselves
 *
 * At interval 1 every number must be the program's own, for each habit that programs have. The leaf
 * of each stack is enough here; whole stacks are checked where tables are (tests/e2e).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "test.h"
#include "twin.h"

static const char *library, *targets;

static struct twin_options options(uint64_t interval)
{
    return (struct twin_options){.library = library,
                                 .interval = interval,
                                 .ring_bytes = HW_RING_DEFAULT_BYTES,
                                 .flags = HW_CC_BLOCK};
}

static struct twin_result run_with(const struct twin_options *o, const char *name, const char *arg,
                                   const char *arg2)
{
    struct twin_result r;
    char path[512];
    (void)snprintf(path, sizeof path, "%s/t_%s", targets, name);
    char *argv[] = {path, (char *)(uintptr_t)arg, (char *)(uintptr_t)arg2, NULL};
    assert_int_equal(twin_run(o, argv, &r), 0);
    if (r.exit_status != 0 || r.n_broken != 0)
        print_error("%s: status %d, %llu promises broken\n", name, r.exit_status,
                    (unsigned long long)r.n_broken);
    assert_int_equal(r.exit_status, 0);
    assert_int_equal(r.n_broken, 0);
    return r;
}

static struct twin_result run(const struct twin_options *o, const char *name, const char *arg)
{
    return run_with(o, name, arg, NULL);
}

static void test_exact(void **state)
{
    /* Not here: programs whose allocations have a library's function as their leaf. */
    static const char *const names[] = {"truth",     "realloc",  "threads",  "fork",     "vfork",
                                        "clone_vm",  "raw_fork", "deep",     "sigalloc", "sigjmp",
                                        "keys",      "fiber",    "closefds", "attr",     "freeall",
                                        "crossfree", "seccomp",  "stopped",  "exec"};
    struct twin_options o = options(1);
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        unsigned lines;
        struct twin_result r = run(&o, names[i], NULL);
        unsigned bad = twin_differences(&r, &lines);
        if (bad || lines == 0)
            print_error("%s: %u of %u functions differ\n", names[i], bad, lines);
        assert_int_equal(bad, 0);
        assert_true(lines > 0);
        assert_int_equal(twin_counter(&r, "lost_full"), 0);
        assert_int_equal(twin_counter(&r, "missed_free"), 0);
        twin_done(&r);
    }
}

/* Same output with us as without us, whatever happens to the recorder. */
static void assert_output_kept(const struct twin_result *r, const char *name)
{
    char command[600];
    (void)snprintf(command, sizeof command, "%s/t_%s", targets, name);
    FILE *f = popen(command, "r");
    static char alone[1 << 16];
    size_t n = fread(alone, 1, sizeof alone - 1, f);
    alone[n] = '\0';
    assert_int_equal(pclose(f), 0);
    assert_string_equal(r->out, alone);
}

static void test_small_ring(void **state)
{
    (void)state;
    struct twin_options o = options(1);
    o.ring_bytes = HW_RING_MIN_BYTES;
    unsigned lines;
    struct twin_result r = run(&o, "realloc", NULL);
    assert_int_equal(twin_differences(&r, &lines), 0);
    assert_int_equal(r.client_error, HW_CLIENT_OK);
    twin_done(&r);
}

static void test_full(void **state)
{
    (void)state;
    /* Nobody reads; with and without waiting the profile ends with its reason. */
    for (int block = 0; block < 2; block++) {
        struct twin_options o = options(1);
        o.ring_bytes = HW_RING_MIN_BYTES;
        o.flags = block ? HW_CC_BLOCK : 0;
        o.block_timeout_us = 20000;
        o.stall_ms = 1000000;
        struct twin_result r = run(&o, "truth", NULL);
        assert_int_equal(r.client_error, HW_CLIENT_HIT_TIMEOUT);
        assert_true(twin_counter(&r, "lost_full") > 0);
        assert_int_equal(twin_counter(&r, "blocked") > 0, block);
        assert_output_kept(&r, "truth");
        twin_done(&r);
    }
}

/* The program overwrites the read position, each time by another: that is no progress, and with or without a
 * deadline its threads do not wait for it. */
static void test_rewound(void **state)
{
    (void)state;
    struct twin_options o = options(1);
    o.ring_bytes = HW_RING_MIN_BYTES;
    struct twin_result r;
    char path[512], *argv[] = {path, NULL};
    (void)snprintf(path, sizeof path, "%s/t_rewound", targets);
    assert_int_equal(twin_run(&o, argv, &r), 0);
    assert_string_equal(r.out, "free\n");
    assert_int_equal(r.exit_status, 0);
    assert_int_equal(r.client_error, HW_CLIENT_RING_DAMAGED);
    twin_done(&r);
}

static void test_recorder_dies(void **state)
{
    (void)state;
    struct twin_options o = options(1);
    o.ring_bytes = HW_RING_MIN_BYTES;
    o.silent_after = 1;
    struct twin_result r = run(&o, "truth", NULL);
    assert_int_equal(r.client_error, HW_CLIENT_RECORDER_GONE);
    assert_output_kept(&r, "truth");
    twin_done(&r);
}

/* The program may be over before its second hello is answered: then one that takes twice as long. */
static void check_answered_twice(const struct twin_options *o, const char *name,
                                 const char *threads, unsigned count)
{
    uint64_t n_answered = 0;
    for (int i = 0; i < 10 && n_answered < 2; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%u", count << i);
        struct twin_result r = threads ? run_with(o, name, threads, text) : run(o, name, text);
        assert_in_range(r.n_clients, 1, 2);
        assert_true(r.n_answered < 2 || r.n_allocs > 0);
        n_answered = r.n_answered;
        twin_done(&r);
    }
    assert_int_equal(n_answered, 2);
}

static void test_answers(void **state)
{
    (void)state;
    struct twin_options o = options(1);
    o.first_status = HW_WELCOME_NO + 1;
    struct twin_result r = run(&o, "realloc", NULL);
    assert_int_equal(r.n_clients, 1);
    assert_int_equal(r.n_allocs, 0);
    assert_output_kept(&r, "realloc");
    twin_done(&r);

    /* Told to wait, then wanted: the next allocations do the handshake. */
    o.first_status = HW_WELCOME_WAIT + 1;
    o.n_sessions = 2;
    o.session_ms = 1;
    check_answered_twice(&o, "saturate", "24", 200000);
}

/* A recorder without a processor answers behind the 50 ms that an allocation waits: its answer is
 * taken when it comes, and it is not asked again. Before, it made all anew for each try. */
static void test_late_answer(void **state)
{
    (void)state;
    struct twin_options o = options(1);
    o.first_status = HW_WELCOME_WAIT + 1;
    o.n_sessions = 2;
    o.session_ms = 1;
    o.answer_after_ms = 150;
    check_answered_twice(&o, "saturate", "24", 200000);
}

/* The same for a program that allocates next to nothing: it does not have to get through some KiB
 * first, which took a server without requests more than a minute. */
static void test_late_answer_rarely(void **state)
{
    (void)state;
    struct twin_options o = options(1);
    o.first_status = HW_WELCOME_WAIT + 1;
    o.n_sessions = 2;
    o.session_ms = 1;
    o.answer_after_ms = 100;
    check_answered_twice(&o, "sparse", NULL, 60);
}

/* Bytes asked for by the functions that count, and the variance of an estimate of them. */
static double asked_for(const struct twin_result *r, uint64_t interval, double *variance)
{
    double sum = 0;
    for (const char *p = r->out; (p = strstr(p, "EXPECT ")); p++) {
        unsigned long long a, n;
        assert_int_equal(sscanf(p, "EXPECT %*s %llu %llu", &a, &n), 2);
        sum += (double)a;
        *variance += a / n < interval ? (double)a * (double)interval : 0;
    }
    return sum;
}

static double of_sites(const struct twin_result *r)
{
    double sum = 0;
    for (size_t i = 0; i < r->n_fns; i++)
        if (strncmp(r->fns[i].name, "fn_", 3) == 0)
            sum += (double)r->fns[i].alloc;
    return sum;
}

/* Nobody hears of a program that is armed and has no sample. */
static void test_armed_alone(void **state)
{
    (void)state;
    static const char *const names[] = {"truth", "threads", "fork", "exec", "vfork", "clone_vm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct twin_options o = options(1 << 16);
        o.armed_interval = 1ull << 55;
        struct twin_result r = run(&o, names[i], NULL);
        assert_int_equal(r.n_armed, 0);
        assert_output_kept(&r, names[i]);
        twin_done(&r);
    }
}

/* One thread or several: what the samples stand for is what was asked for, the first one and what
 * was before it included, also when the session has another interval by then. */
static void check_armed(uint64_t armed, uint64_t interval, const char *const *argv)
{
    enum { RUNS = 12, MOST_RUNS = 20 * RUNS };
    double sampled = 0, asked = 0, variance = 0;
    int n_late = 0;
    for (int i = 0; i < RUNS + n_late && i < MOST_RUNS; i++) {
        struct twin_options o = options(interval);
        struct twin_result r;
        char path[512];
        (void)snprintf(path, sizeof path, "%s/t_%s", targets, argv[0]);
        char *args[] = {path, (char *)(uintptr_t)argv[1], (char *)(uintptr_t)argv[2], NULL};
        o.armed_interval = armed;
        assert_int_equal(twin_run(&o, args, &r), 0);
        assert_int_equal(r.exit_status, 0);
        assert_int_equal(r.n_broken, 0);
        assert_true(r.n_armed <= 1 && r.n_startup == r.n_armed && r.n_clients == r.n_armed);
        if (r.n_clients && twin_counter(&r, "lost_early") != 0) { /* the twin had no processor */
            n_late++;
            twin_done(&r);
            continue;
        }
        asked += asked_for(&r, armed > interval ? armed : interval, &variance);
        sampled += of_sites(&r);
        twin_done(&r);
    }
    assert_true(n_late < MOST_RUNS - RUNS);
    double error = (sampled - asked) / sqrt(variance);
    if (fabs(error) > 4)
        print_error("%s: %.0f of %.0f, %.1f standard errors\n", argv[0], sampled, asked, error);
    assert_true(fabs(error) <= 4);
}

static void test_armed(void **state)
{
    (void)state;
    check_armed(1 << 18, 1 << 18, (const char *const[]){"truth", "0.003", NULL});
    check_armed(1 << 16, 1 << 16, (const char *const[]){"truth", "0.05", NULL});
    check_armed(1 << 18, 1 << 16, (const char *const[]){"truth", "0.05", NULL});
    check_armed(1 << 16, 1 << 16, (const char *const[]){"truth", "0.02", "4"});
}

/* The recorder has no time, or says no: the program goes on, what was lost is counted. */
static void test_armed_late(void **state)
{
    (void)state;
    struct twin_options o = options(1 << 16);
    o.armed_interval = 1 << 16;
    o.first_after_ms = 450;
    struct twin_result r = run(&o, "saturate", "60");
    assert_int_equal(r.n_clients, 1);
    if (r.n_allocs) /* else it was over before */
        assert_true(twin_counter(&r, "lost_early") > 0);
    twin_done(&r);
    o.first_after_ms = 0;
    o.first_status = HW_WELCOME_NO + 1;
    r = run(&o, "truth", NULL);
    assert_int_equal(r.n_clients, 1);
    assert_int_equal(r.n_allocs, 0);
    assert_output_kept(&r, "truth");
    twin_done(&r);
}

/* From the moment it gives up its calls nobody is asked any more: one would be its end. */
static void test_armed_sandbox(void **state)
{
    (void)state;
    struct twin_options o = options(1 << 16);
    o.armed_interval = 1 << 16;
    for (int i = 0; i < 5; i++) {
        struct twin_result r = run(&o, "seccomp", NULL);
        assert_output_kept(&r, "seccomp");
        twin_done(&r);
    }
}

/* And before that it asks, though no sample is due: later is never. */
static void test_armed_before_sandbox(void **state)
{
    (void)state;
    struct twin_options o = options(1 << 16);
    o.armed_interval = 1ull << 55;
    struct twin_result r = run(&o, "seccomp", NULL);
    assert_int_equal(r.n_armed, 1);
    assert_output_kept(&r, "seccomp");
    twin_done(&r);
}

/* Who was root at the start and is another user now believes root alone: that user may have made
 * the socket, in a directory that the program has taken for its root. */
static void test_armed_lowered(void **state)
{
    enum { OTHER_USER = 54321 }; /* of targets/process/lowered.c */
    (void)state;
    if (geteuid() != 0)
        skip(); /* nobody else can be played */
    struct twin_options o = options(1 << 16);
    o.armed_interval = 1 << 16;
    struct twin_result r = run(&o, "lowered", NULL);
    assert_int_equal(r.n_armed, 1);
    twin_done(&r);
    o.uid = OTHER_USER;
    r = run(&o, "lowered", NULL);
    assert_int_equal(r.n_clients, 0);
    assert_output_kept(&r, "lowered");
    twin_done(&r);
}

/* A handler leaves a handshake for good: others wait for that one together, not each time. */
static void test_armed_left(void **state)
{
    (void)state;
    struct twin_options o = options(1 << 16);
    o.armed_interval = 1 << 16;
    o.first_after_ms = 600;
    struct twin_result r = run(&o, "left", NULL); /* which looks at its clock */
    twin_done(&r);
}

/* Forked children draw on, and ask as such. */
static void test_armed_fork(void **state)
{
    (void)state;
    struct twin_options o = options(1 << 16);
    o.flags |= HW_CC_FOLLOW_FORK;
    o.armed_interval = 1 << 16;
    uint64_t n_armed = 0, n_startup = 0;
    for (int i = 0; i < 10 && n_armed <= n_startup; i++) {
        struct twin_result r = run(&o, "prefork", NULL);
        n_armed += r.n_armed;
        n_startup += r.n_startup;
        twin_done(&r);
    }
    assert_true(n_armed > n_startup);
}

/* Starts and stops under load; no record of one session ever names a sample of another. */
static void test_sessions(void **state)
{
    (void)state;
    struct twin_options o = options(1);
    o.ring_bytes = 256 * 1024;
    o.n_sessions = 40;
    o.session_ms = 1;
    struct twin_result r = run(&o, "saturate", NULL);
    assert_true(r.n_clients > 1);
    assert_int_equal(r.client_error, HW_CLIENT_OK);
    twin_done(&r);
}

/* A fixed seed makes a single thread's samples a fact: within 4 sigma for 20 of them. */
static void test_sampled(void **state)
{
    (void)state;
    double bytes = 0, objects = 0, true_bytes = 0, true_objects = 0, sigma2 = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct twin_options o = options(4096);
        o.seed = seed;
        struct twin_result r = run(&o, "truth", NULL);
        for (const char *p = r.out; (p = strstr(p, "EXPECT ")); p++) {
            unsigned long long a, n;
            assert_int_equal(sscanf(p, "EXPECT %*s %llu %llu", &a, &n), 2);
            true_bytes += (double)a;
            true_objects += (double)n;
            if (a / n < 4096)
                sigma2 += (double)a * 4096;
        }
        bytes += (double)r.sample_bytes;
        objects += r.objects;
        twin_done(&r);
    }
    double off = (bytes - true_bytes) * (bytes - true_bytes);
    if (off > 16 * sigma2 || objects < 0.9 * true_objects || objects > 1.1 * true_objects)
        print_error("bytes %.0f of %.0f, objects %.0f of %.0f\n", bytes, true_bytes, objects,
                    true_objects);
    assert_true(off <= 16 * sigma2);
    assert_true(objects > 0.9 * true_objects && objects < 1.1 * true_objects);
}

static void test_adaptive(void **state)
{
    (void)state;
    struct twin_options o = options(1);
    o.ring_bytes = 64 * 1024;
    o.adaptive_threshold = 48 * 1024;
    struct twin_result r = run(&o, "truth", NULL);
    assert_true(r.n_heaps > 1); /* the first announces, each doubling says so */
    assert_true(r.n_allocs < 100000);
    twin_done(&r);
}

static void test_custom_heaps(void **state)
{
    (void)state;
    struct twin_options o = options(1);
    o.flags |= HW_CC_ALL_HEAPS;
    unsigned lines;
    struct twin_result r = run(&o, "custom", NULL);
    assert_int_equal(twin_differences(&r, &lines), 0);
    assert_int_equal(lines, 2);
    assert_int_equal(r.n_heaps, 3);
    twin_done(&r);
    o.flags = HW_CC_BLOCK; /* not selected: only libc.malloc is recorded */
    r = run(&o, "custom", NULL);
    assert_int_equal(twin_differences(&r, &lines), 2);
    twin_done(&r);
}

static void test_follow_fork(void **state)
{
    (void)state;
    struct twin_options o = options(1);
    struct twin_result r = run(&o, "fork", NULL);
    uint64_t parent = r.n_allocs;
    assert_int_equal(r.n_clients, 1);
    twin_done(&r);
    o.flags |= HW_CC_FOLLOW_FORK;
    r = run(&o, "fork", NULL);
    assert_true(r.n_clients > 1);
    assert_true(r.n_allocs > parent);
    twin_done(&r);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_small_ring),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_rewound),
        cmocka_unit_test(test_recorder_dies),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_late_answer),
        cmocka_unit_test(test_late_answer_rarely),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_sampled),
        cmocka_unit_test(test_adaptive),
        cmocka_unit_test(test_custom_heaps),
        cmocka_unit_test(test_follow_fork),
        cmocka_unit_test(test_armed_alone),
        cmocka_unit_test(test_armed),
        cmocka_unit_test(test_armed_late),
        cmocka_unit_test(test_armed_fork),
        cmocka_unit_test(test_armed_sandbox),
        cmocka_unit_test(test_armed_left),
        cmocka_unit_test(test_armed_lowered),
        cmocka_unit_test(test_armed_before_sandbox),
    };
    if (argc < 3)
        return 2;
    library = argv[1];
    targets = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}

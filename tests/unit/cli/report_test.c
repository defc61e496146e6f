/* Whole reports of profiles filled by hand. Times: the recording starts at 1 s. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#include "base/error.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "views/fill.h"

#define SECOND 1000000000ll

static void name_process(struct hw_profile *p, int64_t pid, const char *name)
{
    hw_upid upid;
    assert_int_equal(hw_profile_process(p, pid, &upid), 0);
    p->processes.v[upid.v].name = fill_str(p, name);
}

static uint32_t dump(struct hw_profile *p, int64_t pid, int64_t second, uint64_t interval)
{
    uint32_t d = fill_dump(p, pid, "libc.malloc", second * SECOND, interval, HW_DUMP_KEEPS_PEAK);
    p->dumps.v[d].start_ts_ns = SECOND;
    return d;
}

/* Prints, compares, gives the exit code. */
static int check(struct hw_profile *p, const struct hw_report_options *o, const char *want)
{
    char *text = NULL;
    size_t n = 0;
    struct hw_error err = {0};
    assert_int_equal(hw_profile_freeze(p), 0);
    FILE *f = open_memstream(&text, &n);
    int rc = hw_report_print(p, o, f, &err);
    fclose(f);
    assert_string_equal(text, want);
    free(text);
    hw_profile_free(p);
    return rc;
}

static struct hw_report_options options(void)
{
    return (struct hw_report_options){
        .metric = HW_METRIC_SPACE, .top = 20, .pid = -1, .width = 100};
}

static struct hw_profile *growing(void)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    name_process(p, 4211, "/usr/bin/server");
    for (int i = 1; i <= 5; i++) {
        uint32_t d = dump(p, 4211, 1 + 30 * i, 4096);
        int64_t k = 3000;
        fill_row(p, d, "main;_ZN5Cache6insertEi;_Znwm@/lib/libstdc++.so.6;malloc", k, k * 4096);
        if (i == 1)
            fill_row(p, d, "main;load_tables@/opt/libdata.so.2;xmalloc@/opt/libdata.so.2", 10000,
                     10000 * 4096);
    }
    struct hw_counter_row rss = {.upid = {0},
                                 .name = fill_str(p, "mem.rss"),
                                 .ts_ns = 140 * SECOND,
                                 .value = 150.0 * 1024 * 1024};
    assert_int_equal(hw_vec_push(&p->counters, rss), 0);
    return p;
}

static void growth_and_start_up(void **state)
{
    (void)state;
    struct hw_report_options o = options();
    int rc = check(
        growing(), &o,
        "server (4211)  5 dumps over 2m 30s  interval 4 KiB  samples 25.0 k  lost 0\n"
        "live 97.7 MiB +-1.3%   allocated 97.7 MiB   peak 97.7 MiB at 02:30   RSS 150.0 MiB  "
        "explained 65%\n"
        "\n"
        "             LIVE     change  ALLOCS   SITE\n"
        "  58.6 MiB +-1.6%  +11.7 MiB  15.0 k   Cache::insert  (app)                               "
        "growing\n"
        "  39.1 MiB +-2.0%          0  10.0 k   load_tables  (libdata.so.2)                        "
        "start-up\n");
    assert_int_equal(rc, HW_EXIT_OK);
}

static void on_a_terminal(void **state)
{
    (void)state;
    struct hw_report_options o = options();
    o.unicode = o.color = true;
    o.top = 1;
    o.path = "a b\033.trace";
    (void)check(
        growing(), &o,
        "\033[1mserver (4211)\033[0m  5 dumps over 2m 30s  interval 4 KiB  samples 25.0 k  "
        "lost 0\n"
        "live 97.7 MiB ±1.3%   allocated 97.7 MiB   peak 97.7 MiB at 02:30   RSS 150.0 MiB  "
        "explained 65%\n"
        "\n"
        "\033[1m             LIVE     Δ last  ALLOCS   SITE\033[0m\n"
        "   58.6 MiB ±1.6%  +11.7 MiB  15.0 k   Cache::insert  (app)                             "
        "\033[33m  growing\033[0m\n"
        "         39.1 MiB   in 1 more site (--top 0: all)\n"
        "\n"
        "next: heapwise tree a b\\x1b.trace\n");
}

static struct hw_profile *all_freed(void)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    name_process(p, 7, "tool");
    uint32_t peak = dump(p, 7, 3, 1);
    p->dumps.v[peak].trigger = fill_str(p, "peak");
    fill_row(p, peak, "main;parse;malloc", 4, 4000);
    fill_row(p, peak, "main;index;malloc", 1, 1000);
    uint32_t end = dump(p, 7, 5, 1);
    fill_row(p, end, "main;parse;malloc", 2, 100);
    fill_row(p, end, "main;parse;malloc", -6, -4100);
    fill_row(p, end, "main;index;malloc", -1, -1000);
    return p;
}

static void everything_freed_shows_the_peak(void **state)
{
    (void)state;
    struct hw_report_options o = options();
    int rc = check(all_freed(), &o,
                   "tool (7)  1 dump over 4.000 s  interval 1 B  samples 7  lost 0\n"
                   "live 0 B   allocated 4.98 KiB   peak 4.88 KiB at 2.0 s\n"
                   "\n"
                   "most of it was freed by the end; the table shows the peak at 2.0 s\n"
                   "\n"
                   "          AT PEAK  ALLOCS   SITE\n"
                   "         3.91 KiB       6   parse  (app)\n"
                   "           1000 B       1   index  (app)\n");
    assert_int_equal(rc, HW_EXIT_OK);
    o.metric = HW_METRIC_ALLOC_SPACE;
    (void)check(all_freed(), &o,
                "tool (7)  1 dump over 4.000 s  interval 1 B  samples 7  lost 0\n"
                "live 0 B   allocated 4.98 KiB   peak 4.88 KiB at 2.0 s\n"
                "\n"
                "        ALLOCATED  ALLOCS   SITE\n"
                "         4.00 KiB       6   parse  (app)\n"
                "           1000 B       1   index  (app)\n");
}

static void losses_have_a_remedy(void **state)
{
    (void)state;
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    name_process(p, 7, "ng\033x");
    name_process(p, 8, "small");
    uint32_t d = dump(p, 7, 2, 4096);
    fill_row(p, d, "main;f\033[2Jx;malloc", 2, 8192);
    p->dumps.v[d].flags |= HW_DUMP_BUFFER_OVERRAN;
    p->dumps.v[d].lost_samples = 312;
    p->dumps.v[d].lost_reason = fill_str(p, "ring full");
    uint32_t e = dump(p, 8, 2, 4096);
    fill_row(p, e, "main;g;malloc", 1, 4096);
    struct hw_report_options o = options();
    int rc =
        check(p, &o,
              "ng\\x1bx (7)  1 dump over 1.000 s  interval 4 KiB  samples 2  lost 312\n"
              "live 8.00 KiB +-141%   allocated 8.00 KiB   peak 8.00 KiB at 1.0 s\n"
              "\n"
              "             LIVE  ALLOCS   SITE\n"
              " ~8.00 KiB +-141%       2   f\\x1b[2Jx  (app)\n"
              "\n"
              "also: small (8)  live 4.00 KiB  allocated 4.00 KiB  (--pid PID shows it)\n"
              "\n"
              "incomplete: ring full: 312 samples lost in pid 7 ('ng\\x1bx'); try a larger "
              "--shmem-size or interval\n"
              "incomplete: buffer overrun: the profile of pid 7 ('ng\\x1bx') ended early; try a "
              "larger --shmem-size\n"
              "            or interval, or --block-client\n");
    assert_int_equal(rc, HW_EXIT_INCOMPLETE);
}

/* sh → make → three compilers, of which one is named twice: the report is about the one that did
 * the work, what only started it is one line. */
static void starters_do_not_crowd(void **state)
{
    (void)state;
    static const struct {
        int64_t pid;
        const char *name;
        int64_t count, size;
    } processes[] = {{10, "/bin/sh", 4, 9000000},
                     {11, "make", 1, 8000},
                     {12, "bash", 1, 1000},
                     {13, "/usr/bin/bash", 1, 1000},
                     {20, "/usr/lib/cc1", 8, 5000},
                     {21, "cc1", 8, 4000},
                     {22, "x86_64-linux-gnu-gcc-12", 1, 500},
                     {30, "as", 1, 3000},
                     {31, "ld", 1, 9000}};
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    for (size_t i = 0; i < HW_ARRAY_LEN(processes); i++) {
        name_process(p, processes[i].pid, processes[i].name);
        uint32_t d = dump(p, processes[i].pid, 2, 1);
        fill_row(p, d, "main;work;malloc", processes[i].count, processes[i].size);
    }
    struct hw_report_options o = options();
    int rc = check(p, &o,
                   "ld (31)  1 dump over 1.000 s  interval 1 B  samples 1  lost 0\n"
                   "live 8.79 KiB   allocated 8.79 KiB   peak 8.79 KiB at 1.0 s\n"
                   "\n"
                   "             LIVE  ALLOCS   SITE\n"
                   "         8.79 KiB       1   work  (app)\n"
                   "\n"
                   "also: cc1 x2  live 8.79 KiB  allocated 8.79 KiB  (--pid PID shows it)\n"
                   "      as (30)  live 2.93 KiB  allocated 2.93 KiB\n"
                   "started by: sh, make, 2 bash, x86_64-linux-gnu-gcc-12  live 8.59 MiB  "
                   "allocated 8.59 MiB\n");
    assert_int_equal(rc, HW_EXIT_OK);
}

static struct hw_profile *ended_holding(int64_t left)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    name_process(p, 7, "python3.11");
    uint32_t peak = dump(p, 7, 3, 1);
    p->dumps.v[peak].trigger = fill_str(p, "peak");
    fill_row(p, peak, "main;parse;malloc", 10, 10000);
    uint32_t end = dump(p, 7, 5, 1);
    p->dumps.v[end].flags |= HW_DUMP_DISCONNECTED;
    fill_row(p, end, "main;parse;malloc", -9, left - 10000);
    fill_row(p, end, "main;noise;malloc", 1, 10);
    return p;
}

static void a_program_that_ended_shows_its_peak(void **state)
{
    (void)state;
    struct hw_report_options o = options();
    o.fold = true;
    (void)check(ended_holding(4000), &o,
                "python3.11 (7)  1 dump over 4.000 s  interval 1 B  samples 11  lost 0\n"
                "live 3.92 KiB   allocated 9.78 KiB   peak 9.77 KiB at 2.0 s\n"
                "\n"
                "most of it was freed by the end; the table shows the peak at 2.0 s\n"
                "\n"
                "          AT PEAK  ALLOCS   SITE\n"
                "         9.77 KiB      10   parse  (app)\n"
                "\n"
                "note: python keeps objects up to 512 bytes in arenas of its own (pymalloc), which "
                "malloc sees as a\n"
                "      whole or not at all; record with --python-allocators to see them one by "
                "one\n");
    struct hw_profile *p = ended_holding(6000);
    p->config_text = fill_str(p, "key: \"heapwise.python_allocators\"");
    (void)check(p, &o,
                "python3.11 (7)  1 dump over 4.000 s  interval 1 B  samples 11  lost 0\n"
                "live 5.87 KiB   allocated 9.78 KiB   peak 9.77 KiB at 2.0 s\n"
                "\n"
                "             LIVE  ALLOCS   SITE\n"
                "         5.86 KiB      10   parse  (app)\n"
                "             10 B   in 1 more site (--top 0: all)\n");
}

static void nothing_in_it(void **state)
{
    (void)state;
    struct hw_profile *p;
    struct hw_report_options o = options();
    assert_int_equal(hw_profile_new(&p), 0);
    assert_int_equal(check(p, &o, ""), HW_EXIT_NO_DATA);
    o.pid = 99;
    assert_int_equal(check(all_freed(), &o, ""), HW_EXIT_NO_DATA);
}

static void a_heap_that_never_allocated(void **state)
{
    (void)state;
    struct hw_profile *p;
    struct hw_report_options o = options();
    assert_int_equal(hw_profile_new(&p), 0);
    (void)dump(p, 3, 2, 4096);
    assert_int_equal(check(p, &o,
                           "pid 3  1 dump over 1.000 s  interval 4 KiB  samples 0  lost 0\n"
                           "live 0 B   allocated 0 B   peak 0 B at 1.0 s\n"
                           "\n"
                           "nothing is live\n"),
                     HW_EXIT_OK);
}

/* A maximum between two dumps was seen by nobody: what the dumps hold is not called the peak. */
static void without_recorded_maxima(void **state)
{
    (void)state;
    struct hw_profile *p;
    struct hw_report_options o = options();
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t d = dump(p, 3, 2, 1);
    fill_row(p, d, "main;malloc", 1, 1024);
    p->dumps.v[d].flags = 0;
    assert_int_equal(check(p, &o,
                           "pid 3  1 dump over 1.000 s  interval 1 B  samples 1  lost 0\n"
                           "live 1.00 KiB   allocated 1.00 KiB\n"
                           "\n"
                           "             LIVE  ALLOCS   SITE\n"
                           "         1.00 KiB       1   main  (app)\n"),
                     HW_EXIT_OK);

    assert_int_equal(hw_profile_new(&p), 0);
    d = dump(p, 3, 2, 1);
    fill_row(p, d, "main;malloc", 1, 1024);
    p->dumps.v[d].flags = 0;
    d = dump(p, 3, 3, 1);
    fill_row(p, d, "main;malloc", -1, -1024);
    p->dumps.v[d].flags = 0;
    assert_int_equal(check(p, &o,
                           "pid 3  2 dumps over 2.000 s  interval 1 B  samples 1  lost 0\n"
                           "live 0 B   allocated 1.00 KiB   largest dump 1.00 KiB at 1.0 s\n"
                           "\n"
                           "most of it was freed by the end; the table shows the peak at 1.0 s\n"
                           "\n"
                           "          AT PEAK  ALLOCS   SITE\n"
                           "         1.00 KiB       1   main  (app)\n"),
                     HW_EXIT_OK);
}

static void idle_bytes(void **state)
{
    (void)state;
    struct hw_profile *p;
    struct hw_report_options o = options();
    assert_int_equal(hw_profile_new(&p), 0);
    uint32_t d = dump(p, 3, 2, 1);
    fill_row(p, d, "main;malloc", 1, 1024);
    struct hw_alloc_row row = {.dump = d,
                               .callsite = fill_stack(p, "main;cache;malloc"),
                               .samples = 2,
                               .count = 2,
                               .size = 4096,
                               .idle = 3072};
    assert_int_equal(hw_alloc_rows_push(&p->allocs, &row), 0);
    p->dumps.v[d].flags = 0;
    assert_int_equal(check(p, &o,
                           "pid 3  1 dump over 1.000 s  interval 1 B  samples 3  lost 0\n"
                           "live 5.00 KiB   allocated 5.00 KiB\n"
                           "idle 3.00 KiB of it: live, and not touched since the dump before\n"
                           "\n"
                           "             LIVE       IDLE  ALLOCS   SITE\n"
                           "         4.00 KiB   3.00 KiB       2   cache  (app)\n"
                           "         1.00 KiB                  1   main  (app)\n"),
                     HW_EXIT_OK);
}

HW_TEST_MAIN(cmocka_unit_test(idle_bytes), cmocka_unit_test(growth_and_start_up),
             cmocka_unit_test(without_recorded_maxima), cmocka_unit_test(on_a_terminal),
             cmocka_unit_test(everything_freed_shows_the_peak),
             cmocka_unit_test(losses_have_a_remedy), cmocka_unit_test(starters_do_not_crowd),
             cmocka_unit_test(a_program_that_ended_shows_its_peak), cmocka_unit_test(nothing_in_it),
             cmocka_unit_test(a_heap_that_never_allocated))

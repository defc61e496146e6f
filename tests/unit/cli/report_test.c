/* Whole reports of profiles filled by hand. Times: the recording starts at 1 s. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#include "base/error.h"
#include "cli/cli.h"
#include "cli/report/report.h"
#include "model/graph/heap_graph_build.h"
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

static void find_in_report(struct hw_profile *p, const struct hw_report_options *o,
                           const char *want)
{
    char *text = NULL;
    size_t n = 0;
    struct hw_error err = {0};
    assert_int_equal(hw_profile_freeze(p), 0);
    FILE *f = open_memstream(&text, &n);
    (void)hw_report_print(p, o, f, &err);
    fclose(f);
    if (!strstr(text, want))
        fail_msg("'%s' is not in %s", want, text);
    free(text);
    hw_profile_free(p);
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
                                 .ts_ns = 150 * SECOND,
                                 .value = 150.0 * 1024 * 1024};
    assert_int_equal(hw_vec_push(&p->counters, rss), 0);
    return p;
}

static void an_older_rss_is_not_compared(void **state)
{
    (void)state;
    struct hw_report_options o = options();
    struct hw_profile *p = growing();
    p->counters.v[0].ts_ns = 91 * SECOND;
    o.top = 1;
    (void)check(
        p, &o,
        "server (4211)  5 dumps over 2m 30s  interval 4 KiB  samples 25.0 k  lost 0\n"
        "live 97.7 MiB +-1.3%   allocated 97.7 MiB   peak 97.7 MiB at 02:30   RSS 150.0 MiB at "
        "01:30\n"
        "\n"
        "             LIVE     change  ALLOCS   SITE\n"
        "  58.6 MiB +-1.6%  +11.7 MiB  15.0 k   Cache::insert  (app)                               "
        "growing\n"
        "         39.1 MiB   in 1 more site (--top 0: all)\n"
        "+-: 95% interval. Without it, and where a site is missing, up to 12.0 KiB of small\n"
        "   allocations may have gone unsampled.\n");
}

/* A burst: the account was read before it, and says so. One of the moment says no time. */
static void an_account_of_another_moment(void **state)
{
    (void)state;
    for (int i_case = 0; i_case < 3; i_case++) {
        bool earlier = i_case == 1, has_objects = i_case == 2;
        struct hw_profile *p;
        assert_int_equal(hw_profile_new(&p), 0);
        int64_t ts_ns = SECOND + 50000000 - earlier * 10000000;
        uint32_t d = fill_dump(p, 5, "libc.malloc", SECOND + 50000000, 1,
                               HW_DUMP_FROM_STARTUP | HW_DUMP_KEEPS_PEAK);
        p->dumps.v[d].start_ts_ns = SECOND;
        fill_row(p, d, "main;malloc", 1, 40 << 20);
        if (has_objects) {
            d = fill_dump(p, 5, "python.alloc", SECOND + 50000000, 1,
                          HW_DUMP_FROM_STARTUP | HW_DUMP_KEEPS_PEAK);
            p->dumps.v[d].start_ts_ns = SECOND;
        }
        const struct {
            const char *name;
            double value;
        } read[] = {{"account.rss", 50 << 20}, {"account.live", earlier ? 30 << 20 : 40 << 20}};
        for (size_t i = 0; i < 2; i++) {
            struct hw_counter_row row = {.upid = {0},
                                         .name = fill_str(p, read[i].name),
                                         .ts_ns = ts_ns,
                                         .value = read[i].value};
            assert_int_equal(hw_vec_push(&p->counters, row), 0);
        }
        struct hw_smaps_row row = {.upid = {0},
                                   .ts_ns = ts_ns,
                                   .path = fill_str(p, "[heap]"),
                                   .size_kb = 50 << 10,
                                   .rss_kb = 50 << 10,
                                   .pss_kb = 50 << 10,
                                   .aggregate_count = 1};
        assert_int_equal(hw_vec_push(&p->smaps, row), 0);
        struct hw_report_options o = options();
        find_in_report(p, &o,
                       has_objects ? "RSS 50.0 MiB = live in malloc 40.0 + "
                       : earlier   ? "RSS 50.0 MiB at 40 ms = live 30.0 + "
                                   : "RSS 50.0 MiB = live 40.0 + ");
    }
}

/* The allocator was asked a minute before what is shown, or at the same time. */
static void malloc_info_of_another_moment(void **state)
{
    (void)state;
    for (int64_t earlier = 0; earlier <= 60; earlier += 60) {
        struct hw_profile *p = growing();
        struct hw_report_options o = options();
        const char *const names[] = {"malloc_info.in_use", "malloc_info.free"};
        for (size_t i = 0; i < 2; i++) {
            struct hw_counter_row row = {.upid = {0},
                                         .name = fill_str(p, names[i]),
                                         .ts_ns = (150 - earlier) * SECOND,
                                         .value = 5 << 20};
            assert_int_equal(hw_vec_push(&p->counters, row), 0);
        }
        find_in_report(p, &o,
                       earlier ? "malloc_info: 5.00 MiB in use at 01:29 (since"
                               : "malloc_info: 5.00 MiB in use (since");
    }
}

/* It was read when the program was found, its session begins a moment later. */
static void an_rss_from_before_is_of_the_start(void **state)
{
    (void)state;
    struct hw_report_options o = options();
    struct hw_profile *p = growing();
    p->counters.v[0].ts_ns = SECOND - 1300000;
    o.top = 1;
    (void)check(
        p, &o,
        "server (4211)  5 dumps over 2m 30s  interval 4 KiB  samples 25.0 k  lost 0\n"
        "live 97.7 MiB +-1.3%   allocated 97.7 MiB   peak 97.7 MiB at 02:30   RSS 150.0 MiB at "
        "the start\n"
        "\n"
        "             LIVE     change  ALLOCS   SITE\n"
        "  58.6 MiB +-1.6%  +11.7 MiB  15.0 k   Cache::insert  (app)                               "
        "growing\n"
        "         39.1 MiB   in 1 more site (--top 0: all)\n"
        "+-: 95% interval. Without it, and where a site is missing, up to 12.0 KiB of small\n"
        "   allocations may have gone unsampled.\n");
}

static void counter(struct hw_profile *p, const char *name, double value)
{
    struct hw_counter_row c = {
        .upid = {0}, .name = fill_str(p, name), .ts_ns = 150 * SECOND, .value = value};
    assert_int_equal(hw_vec_push(&p->counters, c), 0);
}

/* What is said below the totals of a process that ended like this. */
static void assert_end(double status, double current, double limit, const char *want)
{
    struct hw_report_options o = options();
    struct hw_profile *p = growing();
    char text[1024];
    o.top = 1;
    if (status >= 0)
        counter(p, "exit.status", status);
    if (limit > 0) {
        counter(p, "cgroup.current", current);
        counter(p, "cgroup.limit", limit);
    }
    (void)snprintf(
        text, sizeof text,
        "server (4211)  5 dumps over 2m 30s  interval 4 KiB  samples 25.0 k  lost 0\n"
        "live 97.7 MiB +-1.3%%   allocated 97.7 MiB   peak 97.7 MiB at 02:30   RSS "
        "150.0 MiB  explained 65%%\n"
        "%s\n"
        "             LIVE     change  ALLOCS   SITE\n"
        "  58.6 MiB +-1.6%%  +11.7 MiB  15.0 k   Cache::insert  (app)                    "
        "           growing\n"
        "         39.1 MiB   in 1 more site (--top 0: all)\n"
        "+-: 95%% interval. Without it, and where a site is missing, up to 12.0 KiB of "
        "small\n"
        "   allocations may have gone unsampled.\n",
        want);
    (void)check(p, &o, text);
}

static void how_it_ended(void **state)
{
    (void)state;
    const double mib = 1024 * 1024;
    assert_end(-1, 0, 0, "");
    assert_end(0, 0, 0, "");
    assert_end(0, 50 * mib, 100 * mib, "");
    assert_end(9, 0, 0, "killed by SIGKILL\n");
    assert_end(9, 100 * mib, 100 * mib,
               "killed by SIGKILL, memory group at 100.0 MiB of its limit 100.0 MiB\n");
    assert_end(11 + 128, 50 * mib, 100 * mib, "killed by SIGSEGV\n"); /* with a core file */
    assert_end(3 * 256, 95 * mib, 100 * mib,
               "exited with status 3, memory group at 95.0 MiB of its limit 100.0 MiB\n");
    assert_end(-1, 95 * mib, 100 * mib, "memory group at 95.0 MiB of its limit 100.0 MiB\n");
    assert_end(1e300, 0, 0, "");
    assert_end(9.5, 0, 0, "");
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
        "start-up\n"
        "+-: 95% interval. Without it, and where a site is missing, up to 12.0 KiB of small\n"
        "   allocations may have gone unsampled.\n");
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
        "\xc2\xb1: 95% interval. Without it, and where a site is missing, up to 12.0 KiB of small\n"
        "   allocations may have gone unsampled.\n"
        "\n"
        "next: heapwise tree $'a b\\x1b.trace'\n");
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
              "+-: 95% interval. Without it, and where a site is missing, up to 12.0 KiB of small\n"
              "   allocations may have gone unsampled.\n"
              "\n"
              "also: small (8)  live 4.00 KiB  allocated 4.00 KiB  (--pid PID shows it)\n"
              "\n"
              "incomplete: ring full: 312 samples lost in pid 7 ('ng\\x1bx'); record again with a "
              "larger buffer\n"
              "            (--shmem-size 64M) or fewer samples (-i 64K)\n"
              "incomplete: buffer overrun: the profile of pid 7 ('ng\\x1bx') ended early: it "
              "allocated faster than\n"
              "            the recorder read; record again with --shmem-size 64M, -i 64K or "
              "--block-client\n");
    assert_int_equal(rc, HW_EXIT_INCOMPLETE);
}

static struct hw_profile *a_late_child(void)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    name_process(p, 7, "master");
    name_process(p, 8, "worker");
    name_process(p, 9, "worker");
    uint32_t d = dump(p, 7, 2, 4096);
    fill_row(p, d, "main;f;malloc", 20, 81920);
    for (int i = 0; i < 2; i++) {
        uint32_t e = dump(p, 8 + i, 2, 4096);
        fill_row(p, e, "main;g;malloc", 1, 4096);
        p->dumps.v[e].lost_samples = 100 + (uint64_t)i;
        p->dumps.v[e].lost_reason = fill_str(p, HW_LOST_LATE);
    }
    return p;
}

static void losses_of_others_are_said(void **state)
{
    (void)state;
    struct hw_report_options o = options();
    find_in_report(a_late_child(), &o,
                   "incomplete: 201 samples lost in 2 other processes, most in pid 9 ('worker') "
                   "(the recorder answered\n"
                   "            late); `heapwise stats` lists all; record again with a larger "
                   "interval (-i 64K), which\n"
                   "            leaves the recorder time to answer new processes; a larger buffer "
                   "does not help\n");
    struct hw_profile *p = a_late_child();
    struct hw_error err = {0};
    FILE *f = fopen("/dev/null", "w");
    assert_int_equal(hw_profile_freeze(p), 0);
    assert_int_equal(hw_report_print(p, &o, f, &err), HW_EXIT_INCOMPLETE);
    o.pid = 7;
    assert_int_equal(hw_report_print(p, &o, f, &err), HW_EXIT_OK);
    fclose(f);
    hw_profile_free(p);
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
    int rc =
        check(p, &o,
              "ld (31)  1 dump over 1.000 s  interval 1 B  samples 1  lost 0\n"
              "live 8.79 KiB   allocated 8.79 KiB   peak 8.79 KiB at 1.0 s\n"
              "\n"
              "             LIVE  ALLOCS   SITE\n"
              "         8.79 KiB       1   work  (app)\n"
              "\n"
              "also: cc1 x2 (20, 21)  live 8.79 KiB  allocated 8.79 KiB  (--pid PID shows it)\n"
              "      as (30)  live 2.93 KiB  allocated 2.93 KiB\n"
              "started by: sh, make, 2 bash, x86_64-linux-gnu-gcc-12  live 8.59 MiB  "
              "allocated 8.59 MiB\n");
    assert_int_equal(rc, HW_EXIT_OK);
}

static void give_line(struct hw_profile *p, const char *frame, const char *file, uint32_t line)
{
    hw_frame_id id = fill_frame(p, frame, strlen(frame));
    struct hw_symbol_line at = {hw_callsites_get_frame(p->callsites, id)->name, fill_str(p, file),
                                line};
    assert_int_equal(hw_symbol_sets_put(hw_callsites_symbol_sets(p->callsites), id, &at, 1), 0);
}

/* In 80 columns the line of the program's own function stays, its callers have the room left; a
 * library's line says less than who called it. */
static void a_narrow_row_names_the_line(void **state)
{
    (void)state;
    struct hw_report_options o = options();
    const char *const want[] = {"   remember_session  (src/sessions.c:142)\n",
                                "   tiny < ..ept_connections  (src/tiny.c:7)\n",
                                "   xmlParseDocument < accept_connections\n"};
    o.width = 80;
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct hw_profile *p;
        assert_int_equal(hw_profile_new(&p), 0);
        name_process(p, 7, "app");
        uint32_t d = dump(p, 7, 2, 1);
        fill_row(p, d, "main;accept_connections;remember_session;malloc", 1, 4096);
        fill_row(p, d, "main;accept_connections;tiny;malloc", 1, 2048);
        fill_row(p, d, "main;accept_connections;xmlParseDocument@/lib/libxml2.so.2;malloc", 1,
                 1024);
        give_line(p, "remember_session", "/w/src/sessions.c", 142);
        give_line(p, "tiny", "/w/src/tiny.c", 7);
        give_line(p, "xmlParseDocument@/lib/libxml2.so.2", "/build/libxml2/parser.c", 10800);
        find_in_report(p, &o, want[i]);
    }
}

/* Go's library has a row with its callers only where nothing of the program's own is above. */
static void rows_of_go(void **state)
{
    (void)state;
    struct hw_report_options o = options();
    o.width = 140;
    const char *const want[] = {
        "4.00 KiB       1   main.load  (src/main.go:16)\n",
        "textproto.ReadLine < http.readRequest < runtime.goexit  (textproto/reader.go:40)\n"};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct hw_profile *p;
        assert_int_equal(hw_profile_new(&p), 0);
        name_process(p, 7, "app");
        uint32_t d = dump(p, 7, 2, 1);
        fill_row(p, d, "runtime.goexit;main.load;strings.genSplit", 1, 4096);
        fill_row(p, d, "runtime.goexit;http.readRequest;textproto.ReadLine", 1, 2048);
        give_line(p, "runtime.goexit", "/usr/local/go/src/runtime/asm_amd64.s", 1594);
        give_line(p, "main.load", "/w/src/main.go", 16);
        give_line(p, "strings.genSplit", "/usr/local/go/src/strings/strings.go", 250);
        give_line(p, "http.readRequest", "/usr/local/go/src/net/http/request.go", 1);
        give_line(p, "textproto.ReadLine", "/usr/local/go/src/net/textproto/reader.go", 40);
        find_in_report(p, &o, want[i]);
    }
}

static struct hw_profile *ended_as(const char *name, int64_t left)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    name_process(p, 7, name);
    uint32_t peak = dump(p, 7, 3, 1);
    p->dumps.v[peak].trigger = fill_str(p, "peak");
    fill_row(p, peak, "main;parse;malloc", 10, 10000);
    uint32_t end = dump(p, 7, 5, 1);
    p->dumps.v[end].flags |= HW_DUMP_DISCONNECTED;
    fill_row(p, end, "main;parse;malloc", -9, left - 10000);
    fill_row(p, end, "main;noise;malloc", 1, 10);
    return p;
}

static struct hw_profile *ended_holding(int64_t left)
{
    return ended_as("python3.11", left);
}

/* 36 MB of a script in memory of its own, and a report of 2 MB that says nothing of them. */
static void memory_from_elsewhere_is_told(void **state)
{
    (void)state;
    struct hw_report_options o = options();
    o.fold = true;
    (void)check(
        ended_as("/usr/sbin/php-fpm8.2", 6000), &o,
        "php-fpm8.2 (7)  1 dump over 4.000 s  interval 1 B  samples 11  lost 0\n"
        "live 5.87 KiB   allocated 9.78 KiB   peak 9.77 KiB at 2.0 s\n"
        "\n"
        "note: php keeps a script's values in chunks of 2 MiB from mmap: '--heap "
        "mmap.anon' shows who needed\n"
        "      another chunk, or a value as large; with USE_ZEND_ALLOC=0 in its environment "
        "each value comes\n"
        "      from malloc and is in this report\n"
        "\n"
        "             LIVE  ALLOCS   SITE\n"
        "         5.86 KiB      10   parse  (app)\n"
        "             10 B   in 1 more site (--top 0: all)\n");
}

/* The engine's stack of 256 KiB, or a script's own values, are malloc's only with USE_ZEND_ALLOC=0. */
static void php_without_its_allocator_needs_no_advice(void **state)
{
    (void)state;
    static const struct {
        const char *stack;
        bool advised;
    } cases[] = {{"main;php_request_startup;zend_vm_stack_init@/usr/bin/php8.2;malloc", false},
                 {"main;{main}@/[php];keep@/[php];malloc", false},
                 {"main;zend_register_functions@/usr/bin/php8.2;malloc", true}};
    struct hw_report_options o = options();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hw_profile *p;
        assert_int_equal(hw_profile_new(&p), 0);
        name_process(p, 7, "php");
        fill_row(p, dump(p, 7, 2, 1), cases[i].stack, 1, 256 << 10);
        if (cases[i].advised)
            find_in_report(p, &o, "USE_ZEND_ALLOC=0");
        else
            find_in_report(p, &o, "peak 256.0 KiB at 1.0 s\n\n             LIVE");
    }
}

/* A frame that says why a stack ends is a row, or a caller: a note says what it is. */
static void stacks_that_could_not_be_read(void **state)
{
    (void)state;
    struct hw_profile *p;
    struct hw_report_options o = options();
    assert_int_equal(hw_profile_new(&p), 0);
    name_process(p, 7, "app");
    fill_row(p, dump(p, 7, 2, 1), "ERROR UNWIND_INFO@ERROR;parse;malloc", 1, 4096);
    (void)check(p, &o,
                "app (7)  1 dump over 1.000 s  interval 1 B  samples 1  lost 0\n"
                "live 4.00 KiB   allocated 4.00 KiB   peak 4.00 KiB at 1.0 s\n"
                "\n"
                "             LIVE  ALLOCS   SITE\n"
                "         4.00 KiB       1   parse < ERROR UNWIND_INFO\n"
                "a < b 60%: b called a, directly or not, for 60% of the row; no share: for all.\n"
                "\n"
                "note: ERROR in the table: the stack could not be read beyond that point, for the "
                "reason after it\n      (heapwise explain cut-stacks)\n");
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
                "this recording\n"
                "      lacks: they are the heap python.alloc, or with --python-allocators "
                "malloc's\n");
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
                           "nothing is live\n"
                           "\n"
                           "note: no allocation of this process was seen: it made almost none "
                           "(--exact sees all), or its calls\n"
                           "      bypass the library: its allocator is linked into it, or "
                           "LD_PRELOAD names another one before\n"
                           "      libheapprofd_glibc_preload.so, which must be the first\n"),
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

/* Objects: 1 of a.Owner refers to 2 and 3; 4 is garbage. */
static void give_graph(struct hw_profile *p, int64_t second, uint64_t bytes, bool is_oome)
{
    struct hw_graph_builder *b;
    struct hw_heap_graph *g;
    struct hw_strings *strings = hw_callsites_strings(p->callsites);
    const char *const names[] = {"a.Owner", "byte[]", "a.\033Odd"};
    assert_int_equal(hw_graph_builder_new(strings, &b), 0);
    for (uint64_t c = 0; c < 3; c++) {
        struct hw_graph_class row = {.name = fill_str(p, names[c]), .object_size = 16};
        assert_int_equal(hw_graph_class(b, c, &row), 0);
    }
    for (uint64_t o = 1; o <= 4; o++) {
        struct hw_graph_object row = {.id = o, .class_id = o == 1 ? 0 : o == 3 ? 2 : 1};
        row.self_size = row.class_id == 1 ? bytes : 0;
        assert_int_equal(hw_graph_object(b, &row), 0);
        for (uint64_t to = 2; o == 1 && to < 4; to++)
            assert_int_equal(hw_graph_ref(b, to, HW_FIELD_NONE), 0);
    }
    assert_int_equal(hw_graph_root(b, 1, HW_ROOT_STICKY_CLASS), 0);
    assert_int_equal(hw_graph_finish(b, &g, NULL), 0);
    hw_graph_builder_free(b);
    g->ts_ns = second * SECOND;
    g->is_oome = is_oome;
    g->oome_message = fill_str(p, is_oome ? "Java heap space" : "");
    assert_int_equal(hw_vec_push(&p->graphs, g), 0);
}

static struct hw_profile *java(void)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    name_process(p, 4211, "java");
    uint32_t d = dump(p, 4211, 31, 1);
    fill_row(p, d, "main;os::malloc(unsigned long)@/lib/libjvm.so;malloc", 1, 4096);
    return p;
}

/* What filled the heap that ran out of memory stands first, also when graphs came behind it. */
static void memory_that_ran_out_comes_first(void **state)
{
    (void)state;
    struct hw_report_options o = options();
    o.path = "app.trace";
    struct hw_profile *p = java();
    give_graph(p, 10, 1 << 20, /* is_oome = */ false);
    give_graph(p, 20, 48 << 20, /* is_oome = */ true);
    give_graph(p, 30, 4096, /* is_oome = */ false);
    (void)check(
        p, &o,
        "java (4211)  1 dump over 30.0 s  interval 1 B  samples 1  lost 0\n"
        "live 4.00 KiB   allocated 4.00 KiB   peak 4.00 KiB at 30.0 s\n"
        "\n"
        "its managed heap ran out of memory (Java heap space), with 48.0 MiB in 3 reachable "
        "objects:\n"
        "        own    objects  class\n"
        "   48.0 MiB          1  byte[]\n"
        "       16 B          1  a.Owner\n"
        "       16 B          1  a.\\x1bOdd\n"
        "what keeps them alive: heapwise graph --dominators app.trace\n"
        "below is what malloc gave, outside of that heap\n"
        "\n"
        "             LIVE  ALLOCS   SITE\n"
        "         4.00 KiB       1   os::malloc  (libjvm.so)\n"
        "\n"
        "note: malloc's heap is the JVM's own memory: Java objects, class data and compiled code "
        "come "
        "from\n      mmap; 'record --heap java.alloc' shows who allocates the objects\n"
        "\nnext: heapwise tree app.trace\n");
}

/* Else it is told beside, the last of the dumps. */
static void a_managed_heap_is_told_beside(void **state)
{
    (void)state;
    struct hw_report_options o = options();
    struct hw_profile *p = java();
    give_graph(p, 10, 1 << 20, /* is_oome = */ false);
    give_graph(p, 20, 3 << 20, /* is_oome = */ false);
    (void)check(
        p, &o,
        "java (4211)  1 dump over 30.0 s  interval 1 B  samples 1  lost 0\n"
        "live 4.00 KiB   allocated 4.00 KiB   peak 4.00 KiB at 30.0 s\n"
        "not in these figures: managed heap   3.00 MiB in 3 reachable objects; byte[] 3.00 MiB, "
        "a.Owner 16 B   (heapwise graph TRACE)\n"
        "\n"
        "             LIVE  ALLOCS   SITE\n"
        "         4.00 KiB       1   os::malloc  (libjvm.so)\n"
        "\n"
        "note: malloc's heap is the JVM's own memory: Java objects, class data and compiled code "
        "come "
        "from\n      mmap; 'record --heap java.alloc' shows who allocates the objects\n");
}

HW_TEST_MAIN(cmocka_unit_test(memory_that_ran_out_comes_first),
             cmocka_unit_test(a_managed_heap_is_told_beside), cmocka_unit_test(idle_bytes),
             cmocka_unit_test(growth_and_start_up), cmocka_unit_test(how_it_ended),
             cmocka_unit_test(an_older_rss_is_not_compared),
             cmocka_unit_test(an_account_of_another_moment),
             cmocka_unit_test(malloc_info_of_another_moment),
             cmocka_unit_test(an_rss_from_before_is_of_the_start),
             cmocka_unit_test(without_recorded_maxima), cmocka_unit_test(on_a_terminal),
             cmocka_unit_test(everything_freed_shows_the_peak),
             cmocka_unit_test(losses_have_a_remedy), cmocka_unit_test(losses_of_others_are_said),
             cmocka_unit_test(starters_do_not_crowd), cmocka_unit_test(a_narrow_row_names_the_line),
             cmocka_unit_test(rows_of_go), cmocka_unit_test(a_program_that_ended_shows_its_peak),
             cmocka_unit_test(stacks_that_could_not_be_read),
             cmocka_unit_test(memory_from_elsewhere_is_told),
             cmocka_unit_test(php_without_its_allocator_needs_no_advice),
             cmocka_unit_test(nothing_in_it), cmocka_unit_test(a_heap_that_never_allocated))

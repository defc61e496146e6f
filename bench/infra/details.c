/*
 * details - heap details of 100,000 rows, made for the first time: of one dump and of two
 *
 * Usage: details [ROWS [ROUNDS]]; milliseconds of CPU, the median of the rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory/map64.h"
#include "views/infra/heap_details.h"

static void check(int rc)
{
    if (rc < 0) {
        fprintf(stderr, "details: error %d\n", rc);
        exit(1);
    }
}

static hw_str_id str(struct hw_profile *p, const char *kind, unsigned i)
{
    char text[80];
    hw_str_id id;
    (void)snprintf(text, sizeof text, "ns::%s<%u>::method(int, char const*)", kind, i);
    check(hw_profile_str(p, hw_bytes_str(text), &id));
    return id;
}

/* Callstacks of 12 frames that share most of their callers, and 200 types. */
static void fill(struct hw_profile *p, size_t n_rows)
{
    struct hw_heap_dump d = {.ts_ns = 1};
    check(hw_profile_process(p, 1, &d.upid));
    check(hw_profile_str(p, hw_bytes_str("malloc"), &d.heap_name));
    for (uint32_t dump = 0; dump < 2; dump++, d.ts_ns++) {
        check(hw_vec_push(&p->dumps, d));
        for (size_t i = 0; i < n_rows; i++) {
            hw_callsite_id c = {HW_ID_NONE};
            for (unsigned depth = 0; depth < 12; depth++) {
                uint64_t path = i >> (2 * (11 - depth)) | (uint64_t)depth << 40;
                struct hw_frame f = {.mapping = {HW_ID_NONE}};
                hw_frame_id frame;
                f.name = str(p, "Class", (unsigned)(hw_hash_u64(path) % 20000));
                check(hw_callsites_frame(p->callsites, &f, &frame));
                check(hw_callsites_child(p->callsites, c, frame, &c));
            }
            struct hw_alloc_row row = {.dump = dump, .callsite = c, .samples = 1, .count = 1};
            row.type = str(p, "Type", (unsigned)(hw_hash_u64(i) % 200));
            row.size = 16 + (int64_t)(hw_hash_u64(i + dump) % 5000);
            check(hw_alloc_rows_push(&p->allocs, &row));
        }
    }
    check(hw_profile_freeze(p));
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double round_ms(const struct hw_profile *p, const struct hw_series *s, bool two)
{
    struct hw_type_sum sum = {0};
    hw_values_by_type values = {0};
    hw_detail_rows rows = {0};
    struct hw_heap_details *d;
    double from = now_ms();
    check(hw_heap_details_new(&d));
    check(hw_type_sum_at(&sum, p, s, 0, &values));
    if (two) {
        check(hw_heap_details_add(d, p, &values, NULL, HW_DETAIL_EARLIER));
        check(hw_type_sum_at(&sum, p, s, 1, &values));
    }
    check(hw_heap_details_add(d, p, &values, NULL, HW_DETAIL_NOW));
    check(hw_heap_details_finish(d));
    struct hw_detail_row root = hw_heap_details_root(d);
    check(hw_heap_details_frames(d, &root, HW_DETAIL_THRESHOLD, 1024, &rows));
    check(hw_heap_details_types(d, &root, HW_DETAIL_THRESHOLD, 1024, &rows));
    double ms = now_ms() - from;
    hw_heap_details_free(d);
    hw_vec_done(&rows);
    hw_vec_done(&values);
    hw_type_sum_done(&sum);
    return ms;
}

int main(int argc, char **argv)
{
    size_t n_rows = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
    size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 9;
    struct hw_series_list list;
    struct hw_profile *p;
    double ms[2][99];
    check(hw_profile_new(&p));
    fill(p, n_rows);
    check(hw_series_list_init(&list, p));
    for (size_t i = 0; i < rounds && i < 99; i++)
        for (int two = 0; two < 2; two++)
            ms[two][i] = round_ms(p, &list.v.v[0], two);
    for (int two = 0; two < 2; two++) {
        qsort(ms[two], rounds, sizeof ms[two][0], compare);
        printf("%zu rows, %s: %.1f ms\n", n_rows, two ? "two dumps" : "one dump", ms[two][rounds / 2]);
    }
    hw_series_list_done(&list);
    hw_profile_free(p);
    return 0;
}

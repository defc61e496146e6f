/*
 * tables_test.c - what lies where in the file, when the target maps only its beginning
 */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "daemon/code/modules.h"
#include "daemon/code/unwind_tables.h"

enum { N = 6, TABLE = 200 * 1024 };

static void make_files(struct hw_module_file *files, struct hw_table_range *ranges)
{
    for (int i = 0; i < N; i++) {
        files[i] = (struct hw_module_file){.table_state = HW_TABLE_READY, .table_bytes = TABLE};
        files[i].table = malloc(TABLE);
        memset(files[i].table, 'a' + i, TABLE);
        uint64_t lo = 0x100000u * (uint64_t)(i + 1);
        ranges[i] = (struct hw_table_range){lo, lo + 0x1000, lo, &files[i]};
    }
}

static void test_room(void **state)
{
    (void)state;
    static const uint32_t rooms_kib[] = {0, 1024, 1, UINT32_MAX};
    static const int n_near[] = {N, 4, 1, N};
    for (size_t r = 0; r < HW_ARRAY_LEN(rooms_kib); r++) {
        struct hw_module_file files[N];
        struct hw_table_range ranges[N];
        struct hw_tables t;
        make_files(files, ranges);
        assert_int_equal(hw_tables_init(&t, 1, rooms_kib[r]), HW_OK);
        assert_int_equal(hw_tables_publish(&t, ranges, N), 1);
        assert_int_equal(hw_tables_overflow(&t), n_near[r] < N);
        const struct hw_module_snapshot *s = hw_tables_snapshot(t.map);
        assert_non_null(s);
        /* Lists always lie where the target can read them. */
        assert_true((uint64_t)((const uint8_t *)(s->modules + N) - t.map) <= t.room);
        assert_int_equal(s->n_modules, N);
        /* That much is what the target maps, and it holds the list and the tables of its part. */
        const struct hw_tables_dir *dir = (const void *)t.map;
        assert_ptr_equal(hw_tables_snapshot_in(t.map, atomic_load(&dir->used)), s);
        assert_null(hw_tables_snapshot_in(t.map, atomic_load(&dir->used) - 1));
        int near = 0;
        for (int i = 0; i < N; i++) {
            uint64_t off = s->modules[i].table_off;
            assert_true(off + TABLE <= t.room || off >= t.room);
            assert_true(off + TABLE <= HW_TABLES_BYTES);
            near += off < t.room;
            assert_true(off >= t.room || off + TABLE <= atomic_load(&dir->used));
            assert_memory_equal(t.map + off, files[i].table, TABLE);
        }
        assert_int_equal(near, n_near[r]);
        /* Another list goes beside them, however many there were. */
        for (uint64_t i = 0; i < 50; i++) {
            ranges[0].bias = i;
            assert_int_equal(hw_tables_publish(&t, ranges, N), 1);
            assert_true((const uint8_t *)hw_tables_snapshot(t.map) < t.map + t.room);
        }
        hw_tables_done(&t);
        for (int i = 0; i < N; i++)
            free(files[i].table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

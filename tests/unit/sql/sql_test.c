/*
 * The tables against a brute-force twin: every comparison of every column is asked of the virtual
 * table and of a copy in a plain table, which SQLite scans. And the push-down itself: how many rows
 * a query looks at.
 */
#include "test.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "../views/fill.h"
#include "base/error.h"
#include "base/text/strbuf.h"
#include "sql/engine.h"
#include "sql/sql.h"

static struct hw_profile *make(unsigned n)
{
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    static const char *const stacks[] = {"main;a;malloc", "main;b;malloc@/lib/c.so",
                                         "main;a;@0x10"};
    for (unsigned i = 0; i < n; i++) {
        uint32_t d =
            fill_dump(p, 100 + i % 7, i % 2 ? "libc.malloc" : "custom", (int64_t)i * 10, 4096, 0);
        fill_row(p, d, stacks[i % 3], 1 + (int)(i % 5), 10 * (int64_t)(i % 11) - 20);
        hw_str_id name = fill_str(p, i % 3 ? "mem.rss" : "mem.swap");
        struct hw_counter_row c = {p->dumps.v[d].upid, name, (int64_t)i, (double)i / 4 - 3};
        assert_int_equal(hw_vec_push(&p->counters, c), 0);
    }
    assert_int_equal(hw_profile_freeze(p), 0);
    return p;
}

/* Results as text. */
static int collect_row(void *ctx, size_t n, const struct hw_sql_cell *cells)
{
    struct hw_strbuf *out = ctx;
    for (size_t i = 0; i < n; i++) {
        switch (cells[i].type) {
        case HW_SQL_NULL:
            hw_strbuf_adds(out, "NULL");
            break;
        case HW_SQL_INT:
            hw_strbuf_addf(out, "%lld", (long long)cells[i].i);
            break;
        case HW_SQL_REAL:
            hw_strbuf_addf(out, "%.17g", cells[i].d);
            break;
        case HW_SQL_TEXT:
        case HW_SQL_BLOB:
            hw_strbuf_add(out, cells[i].p, cells[i].n);
            break;
        }
        hw_strbuf_addc(out, i + 1 == n ? '\n' : '|');
    }
    return 0;
}

static int collect_begin(void *ctx, size_t n, const char *const *names)
{
    (void)ctx;
    (void)n;
    (void)names;
    return 0;
}

static int collect_end(void *ctx)
{
    (void)ctx;
    return 0;
}

static char *ask(struct hw_sql *db, const char *sql)
{
    struct hw_strbuf out = {0};
    struct hw_error err = {0};
    struct hw_sql_sink sink = {collect_begin, collect_row, collect_end, &out};
    if (hw_sql_run(db, sql, strlen(sql), &sink, NULL, &err) < 0)
        fail_msg("%s: %s", sql, err.text);
    return hw_strbuf_take(&out);
}

static void make_twin(struct hw_sql *db, const char *table)
{
    char sql[300];
    snprintf(sql, sizeof sql,
             "create table if not exists twin_%s as select *, rowid as twin_id from %s", table,
             table);
    free(ask(db, sql));
}

static void same(struct hw_sql *db, const char *table, const char *column, const char *op,
                 const char *value)
{
    char fast[400], slow[400];
    snprintf(fast, sizeof fast, "select rowid, *, rowid from %s where %s %s %s order by rowid",
             table, column, op, value);
    snprintf(slow, sizeof slow, "select twin_id, * from twin_%s where %s %s %s order by twin_id",
             table, strcmp(column, "rowid") == 0 ? "twin_id" : column, op, value);
    char *a = ask(db, fast), *b = ask(db, slow);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

static void test_push_down_equals_scan(void **state)
{
    static const char *const columns[][2] = {
        {"heap_profile_allocation", "id"},
        {"heap_profile_allocation", "ts"},
        {"heap_profile_allocation", "size"},
        {"heap_profile_allocation", "heap_name"},
        {"heap_profile_allocation", "upid"},
        {"stack_profile_callsite", "parent_id"},
        {"stack_profile_frame", "name"},
        {"stack_profile_frame", "deobfuscated_name"},
        {"stack_profile_mapping", "build_id"},
        {"counter", "value"},
        {"process", "upid"},
        {"process", "parent_upid"},
        {"process", "name"},
        {"heap_profile", "heap_name"},
        {"heap_profile_allocation", "rowid"},
    };
    static const char *const ops[] = {"=", "<", "<=", ">", ">=", "is", "is not"};
    static const char *const values[] = {
        "0",
        "1",
        "-10",
        "1.5",
        "2.0",
        "-1e300",
        "9e18",
        "'1'",
        "'main'",
        "NULL",
        "''",
        "'libc.malloc'",
        "x'00'",
        "9223372036854775807",
        "3",
        "-2.75",
        "'z'",
        "1e19",
        "-9223372036854775808",
    };
    (void)state;
    struct hw_profile *p = make(60);
    struct hw_sql *db;
    assert_int_equal(hw_sql_open(p, NULL, &db, NULL), 0);
    for (size_t c = 0; c < HW_ARRAY_LEN(columns); c++)
        make_twin(db, columns[c][0]);
    for (size_t c = 0; c < HW_ARRAY_LEN(columns); c++)
        for (size_t o = 0; o < HW_ARRAY_LEN(ops); o++)
            for (size_t v = 0; v < HW_ARRAY_LEN(values); v++)
                same(db, columns[c][0], columns[c][1], ops[o], values[v]);
    hw_sql_close(db);
    hw_profile_free(p);
}

static void test_order_is_kept(void **state)
{
    (void)state;
    struct hw_profile *p = make(60);
    struct hw_sql *db;
    assert_int_equal(hw_sql_open(p, NULL, &db, NULL), 0);
    static const char *const columns[][2] = {{"heap_profile_allocation", "size"},
                                             {"heap_profile_allocation", "callsite_id"},
                                             {"counter", "value"},
                                             {"stack_profile_frame", "name"},
                                             {"stack_profile_callsite", "parent_id"}};
    for (size_t i = 0; i < HW_ARRAY_LEN(columns) * 4; i++) {
        const char *table = columns[i / 4][0], *column = columns[i / 4][1];
        const char *way = i & 1 ? "desc" : "", *from = i & 2 ? "0" : "-1e9";
        char fast[300], slow[300];
        snprintf(fast, sizeof fast, "select %s, id from %s where %s > %s order by %s %s", column,
                 table, column, from, column, way);
        snprintf(slow, sizeof slow, "select %s, id from %s where +%s > %s order by +%s %s", column,
                 table, column, from, column, way);
        char *a = ask(db, fast), *b = ask(db, slow);
        if (strcmp(a, b) != 0)
            fail_msg("%s\n%s\n%s\n%s", fast, a, slow, b);
        free(a);
        free(b);
    }
    hw_sql_close(db);
    hw_profile_free(p);
}

/* Several rows a dump; n dumps, two or three of a moment. */
static struct hw_profile *make_dumps(unsigned n)
{
    static const char *const stacks[] = {"main;a;malloc", "main;b;malloc@/lib/c.so", "main;c",
                                         "main;a;@0x10"};
    struct hw_profile *p;
    assert_int_equal(hw_profile_new(&p), 0);
    for (unsigned i = 0; i < n; i++) {
        uint32_t d = fill_dump(p, 100 + i % 3, i % 4 < 2 ? "libc.malloc" : "custom",
                               (int64_t)(i * 2 / 5) * 10, 4096, 0);
        for (unsigned k = 0; k < 1 + i % 4; k++)
            fill_row(p, d, stacks[(i + k) % 4], 1 + (int)(k % 5), 10 * (int64_t)(i % 11) - 20);
    }
    assert_int_equal(hw_profile_freeze(p), 0);
    return p;
}

static void same_answers(struct hw_sql *db, const char *format, const char *a, const char *b)
{
    char fast[500], slow[500];
    snprintf(fast, sizeof fast, format, "heap_profile_allocation", "id", a, b);
    snprintf(slow, sizeof slow, format, "twin", "twin_id", a, b);
    char *x = ask(db, fast), *y = ask(db, slow);
    if (strcmp(x, y) != 0)
        fail_msg("%s\n%s\n%s\n%s", fast, x, slow, y);
    free(x);
    free(y);
}

/* Orders and groups over what all rows of a dump share, and over what they do not. */
static void test_orders_of_dumps(void **state)
{
    static const char *const columns[] = {
        "ts",          "ts desc",          "upid", "upid desc",       "heap_name", "heap_name desc",
        "callsite_id", "callsite_id desc", "size", "heap_profile_id", "count"};
    static const char *const conditions[] = {
        "1",
        "upid = 2",
        "upid = '2'",
        "upid = 2.0 and heap_name = 'custom'",
        "heap_name = 'libc.malloc' and ts > 50",
        "heap_name = 7",
        "upid in (1, 3) and ts between 20 and 100",
        "upid = NULL",
        "heap_name = 'custom' and callsite_id = 2",
        "heap_profile_id = 7 and upid = 2",
        "upid is null or upid = 3",
        "upid = 9",
    };
    static const char *const questions[] = {
        /* table, its id, condition or column, column */
        "select %2$s, upid, ts, heap_name, size from %1$s where %3$s order by %4$s, %2$s",
        "select %2$s, upid, ts, heap_name, size from %1$s order by %3$s, %4$s, %2$s",
        "select %2$s, upid, ts, heap_name, size from %1$s order by %3$s, %4$s, %2$s desc limit 7",
    };
    static const char *const groups[] = {
        "select %3$s, sum(size) from %1$s where %2$s %4$s group by 1 order by 2 desc, 1",
        "select %3$s, sum(size) from (select * from (select %3$s, sum(size) as size from %1$s "
        "where %2$s %4$s group by 1 order by 2 desc)) group by 1 order by 1",
        "select %3$s, max(size) from %1$s where %2$s %4$s group by 1 order by 1 desc",
        "select distinct %3$s from %1$s where %2$s %4$s order by 1 desc",
        "select count(*) from (select distinct %3$s, heap_name from %1$s where %2$s %4$s)",
    };
    (void)state;
    struct hw_profile *p = make_dumps(50);
    struct hw_sql *db;
    assert_int_equal(hw_sql_open(p, NULL, &db, NULL), 0);
    free(ask(db, "create table twin as select *, heap_profile_id, id as twin_id "
                 "from heap_profile_allocation"));
    for (size_t c = 0; c < HW_ARRAY_LEN(columns); c++) {
        for (size_t i = 0; i < HW_ARRAY_LEN(conditions); i++)
            same_answers(db, questions[0], conditions[i], columns[c]);
        for (size_t k = 0; k < HW_ARRAY_LEN(columns); k++) {
            same_answers(db, questions[1], columns[c], columns[k]);
            same_answers(db, questions[2], columns[c], columns[k]);
            if (!strchr(columns[c], ' ') && !strchr(columns[k], ' '))
                same_answers(db,
                             "select %3$s, %4$s, count(*), sum(size), min(%2$s), max(%2$s) "
                             "from %1$s group by %3$s, %4$s order by 1, 2, 3",
                             columns[c], columns[k]);
        }
        char bare[40];
        snprintf(bare, sizeof bare, "%.*s", (int)strcspn(columns[c], " "), columns[c]);
        for (size_t i = 0; i < HW_ARRAY_LEN(groups); i++)
            same_answers(db, groups[i], bare, "> 7");
    }
    hw_sql_close(db);
    hw_profile_free(p);
}

static uint64_t visits(struct hw_sql *db, const char *sql)
{
    uint64_t before = db->rows_visited;
    free(ask(db, sql));
    return db->rows_visited - before;
}

static void test_rows_visited(void **state)
{
    (void)state;
    struct hw_profile *p = make(1000);
    struct hw_sql *db;
    assert_int_equal(hw_sql_open(p, NULL, &db, NULL), 0);
    assert_int_equal(visits(db, "select * from heap_profile_allocation where id = 500"), 1);
    assert_int_equal(visits(db, "select * from heap_profile_allocation where id in (1, 5, 9)"), 3);
    assert_int_equal(visits(db, "select * from heap_profile_allocation where id >= 990"), 10);
    assert_int_equal(visits(db, "select * from heap_profile_allocation where ts = 5000"), 1);
    assert_int_equal(visits(db, "select * from heap_profile_allocation where ts < 100"), 10);
    assert_int_equal(visits(db, "select * from heap_profile_allocation where ts > 1e9"), 0);
    assert_int_equal(visits(db, "select * from stack_profile_frame where name = 'b'"), 1);
    assert_int_equal(visits(db, "select * from heap_profile_allocation where ts = NULL"), 0);
    /* of dumps that are not meant no row is looked at */
    assert_int_equal(visits(db, "select * from heap_profile_allocation where upid = 3"), 143);
    assert_int_equal(visits(db, "select * from heap_profile_allocation where upid = 3 and "
                                "heap_name = 'custom' and ts < 1000"),
                     7);
    /* at most one row of each table for each row of the first */
    assert_in_range(visits(db, "select count(f.name) from heap_profile_allocation a "
                               "join stack_profile_callsite c on c.id = a.callsite_id "
                               "join stack_profile_frame f on f.id = c.frame_id"),
                    1000, 3000);
    hw_sql_close(db);
    hw_profile_free(p);
}

static int run(struct hw_sql *db, const char *sql, struct hw_error *err)
{
    *err = (struct hw_error){0};
    return hw_sql_run(db, sql, strlen(sql), NULL, NULL, err);
}

static void test_limits(void **state)
{
    (void)state;
    struct hw_profile *p = make(100);
    struct hw_sql *db;
    struct hw_error err;
    struct hw_sql_limits limits = {.max_rows = 50, .max_bytes = 1000, .max_steps = 2000};
    assert_int_equal(hw_sql_open(p, &limits, &db, NULL), 0);
    assert_int_equal(run(db, "select 1 from heap_profile_allocation", &err), HW_ELIMIT);
    assert_int_equal(run(db, "select zeroblob(2000)", &err), HW_ELIMIT);
    assert_int_equal(run(db,
                         "with recursive n(i) as (select 1 union all select i + 1 from n) "
                         "select max(i) from n",
                         &err),
                     HW_ETIMEOUT);
    assert_int_equal(run(db, "select 1", &err), 0); /* it goes on afterwards */
    assert_int_equal(hw_sql_run(db, "select 1\0", 9, NULL, NULL, &err), HW_EINVAL);
    hw_sql_close(db);
    hw_profile_free(p);
}

static void test_refused(void **state)
{
    static const char *const refused[] = {
        "attach 'x' as y",
        "detach main",
        "vacuum",
        "vacuum into 'x'",
        "pragma user_version=1",
        "pragma writable_schema=1",
        "pragma temp_store=1",
        "select load_extension('x')",
        "create virtual table x using fts5(a)",
        "create temp trigger t after insert on x begin select 1; end",
    };
    (void)state;
    struct hw_profile *p = make(1);
    struct hw_sql *db;
    struct hw_error err;
    assert_int_equal(hw_sql_open(p, NULL, &db, NULL), 0);
    for (size_t i = 0; i < HW_ARRAY_LEN(refused); i++)
        if (run(db, refused[i], &err) != HW_EINVAL)
            fail_msg("not refused: %s", refused[i]);
    hw_sql_close(db);
    hw_profile_free(p);
}

/* instr, replace and trim are ours: against SQLite's own. */
static void test_text_functions(void **state)
{
    static const char *const hays[] = {"''",
                                       "'a'",
                                       "'abcabcab'",
                                       "'äbäbc'",
                                       "x'00ff'",
                                       "x'80c3a480'",
                                       "NULL",
                                       "12312",
                                       "1.5",
                                       "'aaaa'",
                                       "cast(x'80c3a480' as text)"};
    static const char *const needles[] = {"''",
                                          "'a'",
                                          "'ab'",
                                          "'ä'",
                                          "x'ff'",
                                          "x'80'",
                                          "'c'",
                                          "x'00'",
                                          "NULL",
                                          "12",
                                          "'aa'",
                                          "'äbc'",
                                          "'b'",
                                          "cast(x'80' as text)",
                                          "cast(x'a4' as text)"};
    static const char *const forms[] = {"instr(%s, %s)",      "hex(replace(%s, %s, 'xyz'))",
                                        "hex(trim(%s, %s))",  "hex(ltrim(%s, %s))",
                                        "hex(rtrim(%s, %s))", "typeof(replace(%s, %s, ''))"};
    (void)state;
    struct hw_profile *p = make(1);
    struct hw_sql *db;
    sqlite3 *own;
    assert_int_equal(hw_sql_open(p, NULL, &db, NULL), 0);
    assert_int_equal(sqlite3_open(":memory:", &own), SQLITE_OK);
    for (size_t f = 0; f < HW_ARRAY_LEN(forms); f++)
        for (size_t h = 0; h < HW_ARRAY_LEN(hays); h++)
            for (size_t n = 0; n < HW_ARRAY_LEN(needles); n++) {
                char sql[200] = "select ", want[200];
                sqlite3_stmt *stmt;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                (void)snprintf(sql + 7, sizeof sql - 7, forms[f], hays[h], needles[n]);
#pragma GCC diagnostic pop
                assert_int_equal(sqlite3_prepare_v2(own, sql, -1, &stmt, NULL), SQLITE_OK);
                assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
                const char *text = (const char *)sqlite3_column_text(stmt, 0);
                (void)snprintf(want, sizeof want, "%s\n", text ? text : "NULL");
                sqlite3_finalize(stmt);
                char *got = ask(db, sql);
                if (strcmp(got, want) != 0)
                    fail_msg("%s: %s instead of %s", sql, got, want);
                free(got);
            }
    sqlite3_close(own);
    hw_sql_close(db);
    hw_profile_free(p);
}

/* printf's results are SQLite's, also where arguments are missing or of another type. */
static void test_printf(void **state)
{
    static const char *const calls[] = {
        "printf('%d %5.2f|%-8s|%08d', 42, 3.14159, 'ab', 7)",
        "format('%,d %s %q %Q %%', 1234567, 'x', 'it''s', 'it''s')",
        "printf('%*d|%-*d|%.*f', 6, 1, -6, 2, 3, 2.5)",
        "printf('%.3c|%5c|%.0s|%.2000000000s', 'x', 'y', 'gone', 'whole')",
        "printf('%d %s')",
        "printf()",
        "printf(NULL, 1)",
        "printf('%x %o %e %g %n %j', 255, 8, 1e10, 0.1, 5)",
        "printf('%s', x'616263')",
        "typeof(printf('%s', NULL))",
        "length(printf('%9999999d', 1))",
    };
    static const char *const endless[] = {
        "select length(printf('%.*c', 2000000000, 'x'))",
        "select length(format('%.2000000000c', 'x'))",
        "select length(printf('%.*f', 2000000000, 1.5))",
        "select length(printf('%-*d', -2000000000, 1))",
        "select length(printf('%.60000000c%.60000000c', 'x', 'y'))",
    };
    (void)state;
    struct hw_profile *p = make(1);
    struct hw_sql *db;
    sqlite3 *own;
    struct hw_error err;
    assert_int_equal(hw_sql_open(p, NULL, &db, NULL), 0);
    assert_int_equal(sqlite3_open(":memory:", &own), SQLITE_OK);
    for (size_t i = 0; i < HW_ARRAY_LEN(calls); i++) {
        char sql[200], want[200];
        sqlite3_stmt *stmt;
        (void)snprintf(sql, sizeof sql, "select %s", calls[i]);
        assert_int_equal(sqlite3_prepare_v2(own, sql, -1, &stmt, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
        const char *text = (const char *)sqlite3_column_text(stmt, 0);
        (void)snprintf(want, sizeof want, "%s\n", text ? text : "NULL");
        sqlite3_finalize(stmt);
        char *got = ask(db, sql);
        assert_string_equal(got, want);
        free(got);
    }
    clock_t before = clock();
    for (size_t i = 0; i < HW_ARRAY_LEN(endless); i++)
        assert_int_equal(run(db, endless[i], &err), HW_EINVAL);
    assert_true(clock() - before < 2 * CLOCKS_PER_SEC);
    sqlite3_close(own);
    hw_sql_close(db);
    hw_profile_free(p);
}

/* One call cannot be ended by a deadline, so none may be slow: SQLite's take hours for these. */
static void test_calls_end(void **state)
{
    static const char *const slow[] = {
        "select instr(zeroblob(10000000), zeroblob(5000000) || x'01')",
        "select instr(hex(zeroblob(10000000)), hex(zeroblob(5000000)) || '1')",
        "select length(replace(hex(zeroblob(10000000)), hex(zeroblob(5000000)) || '1', 'x'))",
        "select length(trim(hex(zeroblob(5000000)), hex(zeroblob(5000000)) || '1'))",
    };
    (void)state;
    struct hw_profile *p = make(1);
    struct hw_sql *db;
    struct hw_error err;
    assert_int_equal(hw_sql_open(p, NULL, &db, NULL), 0);
    for (size_t i = 0; i < HW_ARRAY_LEN(slow); i++)
        assert_int_equal(run(db, slow[i], &err), 0);
    assert_int_equal(run(db, "select hex(zeroblob(9)) like '%' || hex(zeroblob(500))", &err),
                     HW_EINVAL);
    hw_sql_close(db);
    hw_profile_free(p);
}

/* A message without a place of its own names the line where its statement begins. */
static void test_lines_of_errors(void **state)
{
    (void)state;
    struct hw_profile *p = make(1);
    struct hw_sql *db;
    struct hw_error err;
    assert_int_equal(hw_sql_open(p, NULL, &db, NULL), 0);
    assert_int_equal(run(db, "select 1;\n\n-- x\nattach 'x'\nas y; select 2", &err), HW_EINVAL);
    assert_string_equal(err.text, "not authorized\n  line 4: attach 'x'");
    assert_int_equal(run(db, "select 1;\nselect * from missing", &err), HW_EINVAL);
    assert_string_equal(err.text, "no such table: missing\n  line 2: select * from missing");
    hw_sql_close(db);
    hw_profile_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push_down_equals_scan),
        cmocka_unit_test(test_order_is_kept),
        cmocka_unit_test(test_orders_of_dumps),
        cmocka_unit_test(test_rows_visited),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_text_functions),
        cmocka_unit_test(test_printf),
        cmocka_unit_test(test_calls_end),
        cmocka_unit_test(test_lines_of_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Rows in RowBinary, entries in files, the spool that keeps them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "codec/base64.h"
#include "fleet/push/entry.h"
#include "fleet/push/spool.h"
#include "fleet/store/rowbinary.h"
#include "test.h"

static void put_stack(struct hw_strbuf *out, uint64_t hash, const char *const *frames, size_t n)
{
    hw_row_put_u64(out, hash);
    for (int array = 0; array < 3; array++) {
        hw_row_put_length(out, n);
        for (size_t i = 0; i < n; i++)
            hw_row_put_text(out, hw_bytes_str(frames[i]));
    }
    hw_row_put_length(out, n);
    for (size_t i = 0; i < n; i++)
        hw_row_put_u32(out, (uint32_t)i);
    hw_row_put_u16(out, 20000);
}

static void test_rows(void **state)
{
    (void)state;
    struct hw_strbuf out = {0}, long_name = {0};
    for (int i = 0; i < 300; i++)
        hw_strbuf_addc(&long_name, 'x');
    const char *frames[] = {"main", "", long_name.p};
    put_stack(&out, 7, frames, 3);
    put_stack(&out, 8, frames, 0);
    struct hw_bytes rest = hw_bytes_of(out.p, out.n), names;
    struct hw_row row;
    assert_int_equal(hw_row_next(&rest, HW_FLEET_STACKS, &row), 1);
    assert_int_equal(hw_load_u64(row.cell[hw_row_column(HW_FLEET_STACKS, "hash")].p), 7);
    names = row.cell[hw_row_column(HW_FLEET_STACKS, "frames")];
    assert_int_equal(names.n, 1 + 5 + 1 + 302);
    assert_int_equal(hw_row_next(&rest, HW_FLEET_STACKS, &row), 1);
    assert_int_equal(hw_load_u64(row.cell[0].p), 8);
    assert_int_equal(hw_row_next(&rest, HW_FLEET_STACKS, &row), 0);
    /* Cut anywhere but between the rows it is broken, never read beyond. */
    size_t first = out.n - (8 + 4 + 2);
    for (size_t n = 1; n < out.n; n++) {
        char *part = malloc(n); /* its end is the allocation's, for the sanitizer */
        memcpy(part, out.p, n);
        rest = hw_bytes_of(part, n);
        int rc = hw_row_next(&rest, HW_FLEET_STACKS, &row);
        if (n < first)
            assert_int_equal(rc, HW_EFORMAT);
        else
            assert_int_equal(rc, 1);
        free(part);
    }
    static const uint8_t huge[] = {1,    0,    0,    0,    0,    0,    0,    0,   0xff,
                                   0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f};
    rest = hw_bytes_of(huge, sizeof huge);
    assert_int_equal(hw_row_next(&rest, HW_FLEET_STACKS, &row), HW_EFORMAT);
    hw_strbuf_done(&out);
    hw_strbuf_done(&long_name);
}

static void test_base64(void **state)
{
    (void)state;
    /* RFC 4648 section 10 */
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"},
                                           {"\xff\xfe\xfd", "//79"}};
    for (size_t i = 0; i < HW_ARRAY_LEN(pairs); i++) {
        struct hw_strbuf out = {0};
        hw_base64_add(&out, hw_bytes_str(pairs[i][0]));
        assert_string_equal(out.n ? out.p : "", pairs[i][1]);
        hw_strbuf_done(&out);
    }
}

static struct hw_entry make_entry(unsigned n, size_t bytes)
{
    struct hw_entry e = {.form = HW_STORE_INGEST, .n_rows = n};
    hw_strbuf_addf(&e.path, "/ingest?n=%u", n);
    hw_strbuf_adds(&e.type, "text/plain");
    for (size_t i = 0; i < bytes; i++) /* hard to compress */
        hw_strbuf_addc(&e.body, (char)((i * i * 2654435761u) >> 13 ^ i * 40503u >> 5));
    hw_entry_seal(&e);
    return e;
}

static void test_entry(void **state)
{
    (void)state;
    struct hw_entry e = make_entry(3, 1000), again = {0};
    struct hw_strbuf file = {0};
    assert_int_equal(hw_entry_pack(&e, &file, NULL), 0);
    assert_int_equal(hw_entry_unpack(hw_bytes_of(file.p, file.n), &again, NULL), 0);
    assert_int_equal(again.form, HW_STORE_INGEST);
    assert_int_equal(again.n_rows, 3);
    assert_true(again.id == e.id);
    assert_string_equal(again.path.p, e.path.p);
    assert_int_equal(again.body.n, e.body.n);
    assert_memory_equal(again.body.p, e.body.p, e.body.n);
    hw_entry_done(&again);
    /* Cut or changed anywhere it is known as broken: no half entry is ever sent. */
    for (size_t n = 0; n < file.n; n++)
        assert_true(hw_entry_unpack(hw_bytes_of(file.p, n), &again, NULL) < 0);
    for (size_t i = sizeof HW_ENTRY_MAGIC + 10; i < file.n; i++) {
        file.p[i] ^= 0x55;
        assert_true(hw_entry_unpack(hw_bytes_of(file.p, file.n), &again, NULL) < 0);
        file.p[i] ^= 0x55;
    }
    hw_strbuf_done(&file);
    hw_entry_done(&e);
}

/* Rows that waited while the program was renewed have the columns of then. */
static void older_entry(void **state)
{
    (void)state;
    static const size_t columns[] = {0, 15, 16, 19, 20};
    for (size_t i = 0; i < HW_ARRAY_LEN(columns); i++) {
        struct hw_entry e = {.form = HW_STORE_CLICKHOUSE, .n_columns = columns[i]}, again = {0};
        struct hw_strbuf file = {0};
        assert_int_equal(hw_entry_pack(&e, &file, NULL), 0);
        bool known = columns[i] == 0 || columns[i] == 16 || columns[i] == 19;
        assert_int_equal(hw_entry_unpack(hw_bytes_of(file.p, file.n), &again, NULL),
                         known ? HW_OK : HW_EFORMAT);
        if (known)
            assert_int_equal(again.n_columns, columns[i] ? columns[i] : 16);
        hw_strbuf_done(&file);
        hw_entry_done(&again);
    }
    assert_int_equal(hw_fleet_table_columns(HW_FLEET_SAMPLES), 19);
}

static void add(struct hw_spool *s, unsigned n, size_t bytes, int want)
{
    struct hw_entry e = make_entry(n, bytes);
    assert_int_equal(hw_spool_add(s, &e, NULL), want);
    hw_entry_done(&e);
}

static uint64_t oldest(struct hw_spool *s)
{
    struct hw_entry e;
    if (hw_spool_peek(s, &e, NULL) != 1)
        return 0;
    uint64_t n = e.n_rows;
    hw_entry_done(&e);
    return n;
}

static void remove_all(const char *dir)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

static void test_spool(void **state)
{
    (void)state;
    char dir[] = "/tmp/hw.spool.XXXXXX", path[64];
    struct hw_spool s, other;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(hw_spool_open(&s, dir, 5000, NULL), 0);
    assert_int_equal(hw_spool_open(&other, dir, 5000, NULL), HW_EBUSY);
    for (unsigned n = 1; n <= 3; n++)
        add(&s, n, 1000, HW_OK);
    assert_int_equal(oldest(&s), 1);
    hw_spool_close(&s);
    /* A name that was never given, and files of others. */
    (void)snprintf(path, sizeof path, "%s/half", dir);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0 && write(fd, "hwpush1\n", 8) == 8 && close(fd) == 0);
    (void)snprintf(path, sizeof path, "%s/1-2.push", dir);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_int_equal(hw_spool_open(&s, dir, 5000, NULL), 0);
    assert_int_equal(hw_spool_count(&s), 3);
    hw_spool_pop(&s);
    assert_int_equal(oldest(&s), 2);
    for (unsigned n = 4; n <= 8; n++)
        add(&s, n, 1000, HW_OK);
    assert_true(s.bytes <= 5000);
    assert_true(hw_spool_count(&s) >= 3);
    uint64_t left = hw_spool_count(&s), gone = s.dropped;
    assert_int_equal(left + gone, 7);
    assert_int_equal(oldest(&s), 9 - left);
    add(&s, 9, 20000, HW_ELIMIT); /* larger than all: it alone is dropped */
    hw_spool_close(&s);
    assert_int_equal(hw_spool_open(&s, dir, 5000, NULL), 0);
    assert_int_equal(hw_spool_count(&s), left);
    assert_int_equal(hw_spool_take_dropped(&s), gone + 1);
    assert_int_equal(hw_spool_take_dropped(&s), 0);
    hw_spool_close(&s);
    remove_all(dir);
}

/* Whose spool it is, sends in our name, and could make an entry a link. */
static void test_spool_of_others(void **state)
{
    char dir[] = "/tmp/hw.spool.XXXXXX";
    struct hw_spool s;
    struct hw_error err = {0};
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(hw_spool_open(&s, dir, 5000, &err), HW_EPERM);
    assert_non_null(strstr(err.text, "chmod o-w"));
    assert_int_equal(chmod(dir, 0700), 0);
    if (geteuid() == 0) { /* else nothing can be given away */
        assert_int_equal(chown(dir, 64001, 64001), 0);
        assert_int_equal(hw_spool_open(&s, dir, 5000, &err), HW_EPERM);
        assert_non_null(strstr(err.text, "user 64001"));
        assert_int_equal(chown(dir, 0, 64001) | chmod(dir, 0770), 0);
        assert_int_equal(hw_spool_open(&s, dir, 5000, &err), HW_EPERM);
        assert_int_equal(chmod(dir, 0750), 0);
    }
    assert_int_equal(hw_spool_open(&s, dir, 5000, &err), HW_OK);
    hw_spool_close(&s);
    char lock[64];
    (void)snprintf(lock, sizeof lock, "%s/lock", dir);
    (void)unlink(lock);
    assert_int_equal(rmdir(dir), 0);
}

HW_TEST_MAIN(cmocka_unit_test(test_rows), cmocka_unit_test(test_base64),
             cmocka_unit_test(test_entry), cmocka_unit_test(older_entry),
             cmocka_unit_test(test_spool), cmocka_unit_test(test_spool_of_others))

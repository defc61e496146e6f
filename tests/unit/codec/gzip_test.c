#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test.h"

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "codec/gzip.h"

enum { BIG = 1000000 };

static struct hw_bytes some_bytes(void)
{
    static uint8_t b[BIG];
    for (size_t i = 0; i < BIG; i++)
        b[i] = (uint8_t)(hw_hash_u64(i / 3) & 15);
    return hw_bytes_of(b, BIG);
}

static void both_wrappers_come_back(void **state)
{
    (void)state;
    struct hw_bytes in = some_bytes();
    for (int k = 0; k < 2; k++) {
        struct hw_strbuf z = {0}, back = {0};
        assert_int_equal(hw_deflate(in, k ? HW_GZIP_GZIP : HW_GZIP_ZLIB, &z, NULL), 0);
        assert_int_equal(hw_gzip_is(hw_bytes_of(z.p, z.n)), k);
        assert_int_equal(hw_inflate(hw_bytes_of(z.p, z.n), BIG + 1, &back, NULL), 0);
        assert_true(hw_bytes_equal(hw_bytes_of(back.p, back.n), in));
        /* cut short: what is there stays */
        hw_strbuf_clear(&back);
        assert_int_equal(hw_inflate(hw_bytes_of(z.p, z.n / 2), BIG + 1, &back, NULL),
                         HW_ETRUNCATED);
        assert_true(back.n > 0 && memcmp(back.p, in.p, back.n) == 0);
        /* more than allowed */
        hw_strbuf_clear(&back);
        assert_int_equal(hw_inflate(hw_bytes_of(z.p, z.n), BIG / 2, &back, NULL), HW_ELIMIT);
        assert_true(back.n <= BIG / 2);
        hw_strbuf_done(&z);
        hw_strbuf_done(&back);
    }
}

static void streaming_and_gzip_agree(void **state)
{
    (void)state;
    struct hw_bytes in = some_bytes();
    char path[] = "/tmp/hw-gzip-XXXXXX", command[64];
    int fd = mkstemp(path);
    struct hw_gzip_writer *w;
    struct hw_strbuf back = {0};
    assert_int_equal(hw_gzip_writer_new(fd, &w, NULL), 0);
    for (size_t at = 0; at < in.n; at += 70001) {
        size_t n = in.n - at < 70001 ? in.n - at : 70001;
        assert_int_equal(hw_gzip_write(w, hw_bytes_of(in.p + at, n), NULL), 0);
    }
    assert_int_equal(hw_gzip_writer_end(w, NULL), 0);
    hw_gzip_writer_free(w);
    (void)snprintf(command, sizeof command, "gzip -t < %s", path);
    assert_int_equal(system(command), 0);
    /* two members one after the other are one content */
    (void)snprintf(command, sizeof command, "printf tail | gzip >> %s", path);
    assert_int_equal(system(command), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(hw_inflate_fd(fd, BIG * 2, &back, NULL, NULL), 0);
    assert_int_equal(back.n, BIG + 4);
    assert_memory_equal(back.p, in.p, BIG);
    assert_memory_equal(back.p + BIG, "tail", 4);
    hw_strbuf_done(&back);
    close(fd);
    unlink(path);
}

static void garbage_is_no_stream(void **state)
{
    (void)state;
    struct hw_strbuf out = {0};
    struct hw_error err;
    assert_int_equal(hw_inflate(hw_bytes_of("hello world", 11), 100, &out, &err), HW_EFORMAT);
    assert_int_equal(hw_inflate(hw_bytes_of("", 0), 100, &out, &err), HW_ETRUNCATED);
    hw_strbuf_done(&out);
}

HW_TEST_MAIN(cmocka_unit_test(both_wrappers_come_back), cmocka_unit_test(streaming_and_gzip_agree),
             cmocka_unit_test(garbage_is_no_stream))

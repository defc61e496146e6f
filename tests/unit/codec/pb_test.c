#include <stdlib.h>
#include <string.h>

#include "test.h"

#include "base/error.h"
#include "codec/pb.h"

/* What is written is read back, also at the edges of each type. */
static void fields_come_back(void **state)
{
    (void)state;
    static const uint64_t values[] = {0,     1,          127,        128,       16383,
                                      16384, UINT32_MAX, 1ull << 35, INT64_MAX, UINT64_MAX};
    struct hw_pb w = {0};
    for (uint32_t i = 0; i < HW_ARRAY_LEN(values); i++) {
        hw_pb_uint(&w, 1 + i * 1000, values[i]);
        hw_pb_fixed64(&w, 2, values[i]);
        hw_pb_begin(&w, 3);
        hw_pb_raw_varint(&w, values[i]);
        hw_pb_end(&w);
    }
    hw_pb_sint64(&w, 4, -5);
    hw_pb_double(&w, 5, 0.25);
    assert_false(hw_pb_failed(&w));
    struct hw_pb_reader r = hw_pb_read(hw_pb_view(&w));
    struct hw_pb_field f;
    for (uint32_t i = 0; i < HW_ARRAY_LEN(values); i++) {
        uint64_t v;
        assert_int_equal(hw_pb_next(&r, &f), 1);
        assert_int_equal(f.number, 1 + i * 1000);
        assert_int_equal(f.value, values[i]);
        assert_int_equal(hw_pb_next(&r, &f), 1);
        assert_int_equal(f.wire, HW_PB_FIXED64);
        assert_int_equal(f.value, values[i]);
        assert_int_equal(hw_pb_next(&r, &f), 1);
        assert_int_equal(hw_pb_next_packed(&f.bytes, &v), 1);
        assert_int_equal(v, values[i]);
        assert_int_equal(hw_pb_next_packed(&f.bytes, &v), 0);
    }
    assert_int_equal(hw_pb_next(&r, &f), 1);
    assert_int_equal((int64_t)f.value, -5);
    assert_int_equal(hw_pb_next(&r, &f), 1);
    double d;
    memcpy(&d, &f.value, sizeof d);
    assert_true(d == 0.25);
    assert_int_equal(hw_pb_next(&r, &f), 0);
    hw_pb_done(&w);
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        int rc;
    } cases[] = {
        {"", 0, 0},
        {"\x08", 1, HW_ETRUNCATED},         /* no value */
        {"\x08\x80", 2, HW_ETRUNCATED},     /* varint cut */
        {"\x88", 1, HW_ETRUNCATED},         /* tag cut */
        {"\x0a\x05xy", 4, HW_ETRUNCATED},   /* longer than the message */
        {"\x09\x01\x02", 3, HW_ETRUNCATED}, /* fixed64 cut */
        {"\x0d\x01", 2, HW_ETRUNCATED},     /* fixed32 cut */
        {"\x00\x01", 2, HW_EFORMAT},        /* field 0 */
        {"\x0b", 1, HW_EFORMAT},            /* groups */
        {"\x0c", 1, HW_EFORMAT},
        {"\x0e", 1, HW_EFORMAT},
        {"\x0f", 1, HW_EFORMAT},
        {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, HW_EFORMAT},
        {"\x80\x80\x80\x80\x10\x00", 6, HW_EFORMAT}, /* tag over 32 bits */
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(cases); i++) {
        struct hw_pb_reader r = hw_pb_read(hw_bytes_of(cases[i].bytes, cases[i].n));
        struct hw_pb_field f;
        assert_int_equal(hw_pb_next(&r, &f), cases[i].rc);
        assert_ptr_equal(r.pos, r.start);
    }
}

static uint64_t seed = 1;

static uint64_t pick(uint64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
}

/* Anything, but mostly fields of the kinds that there are. */
static size_t random_fields(uint8_t *to, size_t max)
{
    size_t n = 0;
    while (n < max) {
        static const uint8_t tags[] = {0x08, 0x12, 0x19, 0x25, 0x00, 0x0b, 0x98};
        to[n++] = tags[pick(20) ? pick(4) : pick(sizeof tags)];
        for (uint64_t k = pick(5); k > 0 && n < max; k--)
            to[n++] = (uint8_t)(pick(3) ? pick(8) : 0x80 | pick(128));
    }
    return n;
}

/* A message in another is what it is alone, whatever is behind it. */
static void where_a_message_lies_is_all_one(void **state)
{
    (void)state;
    uint8_t all[64];
    for (int round = 0; round < 100000; round++) {
        size_t n = random_fields(all, sizeof all), from = pick(n), length = pick(n - from + 1);
        struct hw_pb_reader outer = hw_pb_read(hw_bytes_of(all, n));
        struct hw_bytes message = hw_bytes_of(all + from, length);
        struct hw_pb_reader in = hw_pb_read(message);
        if (length)
            in.readable = outer.readable;
        uint8_t *copy = malloc(length + 1); /* exactly as long: what reads on is seen */
        assert_non_null(copy);
        memcpy(copy, message.p, length);
        struct hw_pb_reader alone = hw_pb_read(hw_bytes_of(copy, length));
        int rc;
        do {
            struct hw_pb_field a, b;
            rc = hw_pb_next(&alone, &a);
            assert_int_equal(hw_pb_next(&in, &b), rc);
            assert_int_equal(in.pos - in.start, alone.pos - alone.start);
            if (rc != 1)
                break;
            assert_int_equal(a.number, b.number);
            assert_int_equal(a.wire, b.wire);
            assert_int_equal(a.value, b.value);
            assert_int_equal(a.offset, b.offset);
            assert_int_equal(a.bytes.n, b.bytes.n);
            assert_int_equal(memcmp(copy, message.p, length), 0);
        } while (rc == 1);
        free(copy);
    }
}

static void packed_numbers_come_at_once(void **state)
{
    (void)state;
    uint8_t all[64];
    for (int round = 0; round < 100000; round++) {
        size_t length = pick(40), n = 0, k = 0;
        uint64_t got[64], v;
        for (size_t i = 0; i < sizeof all; i++)
            all[i] = (uint8_t)(pick(2) ? pick(128) : 0x80 | pick(128));
        if (pick(10) == 0)
            memset(all, 0xff, 12);
        struct hw_pb_reader outer = hw_pb_read(hw_bytes_of(all, pick(2) ? sizeof all : length));
        struct hw_bytes rest = hw_bytes_of(all, length);
        int rc = hw_pb_packed_in(rest, &outer, got, &n), one;
        for (; (one = hw_pb_next_packed(&rest, &v)) == 1; k++)
            assert_int_equal(got[k], v);
        assert_int_equal(k, n);
        assert_int_equal(rc, one);
    }
}

static void long_varints_are_read(void **state)
{
    (void)state;
    struct hw_pb_reader r = hw_pb_read(hw_bytes_of("\x8a\x00\x85\x80\x80\x00hello", 11));
    struct hw_pb_field f;
    assert_int_equal(hw_pb_next(&r, &f), 1);
    assert_int_equal(f.number, 1);
    assert_memory_equal(f.bytes.p, "hello", 5);
    assert_int_equal(f.bytes.n, 5);
}

static void the_writer_fails_once_and_for_all(void **state)
{
    (void)state;
    struct hw_pb w = {0};
    for (int i = 0; i <= HW_PB_MAX_DEPTH; i++)
        hw_pb_begin(&w, 1);
    assert_true(hw_pb_failed(&w));
    hw_pb_clear(&w);
    assert_false(hw_pb_failed(&w));
    hw_pb_end(&w);
    assert_true(hw_pb_failed(&w));
    hw_pb_done(&w);
}

HW_TEST_MAIN(cmocka_unit_test(fields_come_back), cmocka_unit_test(bad_input_is_refused),
             cmocka_unit_test(long_varints_are_read),
             cmocka_unit_test(where_a_message_lies_is_all_one),
             cmocka_unit_test(packed_numbers_come_at_once),
             cmocka_unit_test(the_writer_fails_once_and_for_all))

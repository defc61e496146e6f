#include <stdio.h>

#include "test.h"

#include "base/text/strings.h"

static void same_bytes_same_number(void **state)
{
    (void)state;
    struct hw_strings *s;
    hw_str_id id, again;
    assert_int_equal(hw_strings_new(&s), 0);
    assert_int_equal(hw_strings_intern(s, hw_bytes_of(NULL, 0), &id), 0);
    assert_int_equal(id.v, 0);
    for (uint32_t i = 1; i < 5000; i++) {
        char text[32];
        int n = snprintf(text, sizeof text, "s%c%u", i % 2 ? 0 : 'x', i);
        assert_int_equal(hw_strings_intern(s, hw_bytes_of(text, (size_t)n), &id), 0);
        assert_int_equal(id.v, i);
        assert_int_equal(hw_strings_intern(s, hw_bytes_of(text, (size_t)n), &again), 0);
        assert_int_equal(again.v, i);
        assert_true(hw_bytes_equal(hw_strings_get(s, id), hw_bytes_of(text, (size_t)n)));
    }
    assert_int_equal(hw_strings_count(s), 5000);
    assert_int_equal(hw_strings_get(s, (hw_str_id){7000}).n, 0);
    hw_strings_free(s);
}

HW_TEST_MAIN(cmocka_unit_test(same_bytes_same_number))

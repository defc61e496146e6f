/* test.h - cmocka with the headers it forgets to include; the order matters, so it is kept here */
#ifndef HW_TESTS_UNIT_TEST_H
#define HW_TESTS_UNIT_TEST_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

/* Of doubles; cmocka's own compares floats. */
#define assert_near(got, want, eps)                                                                \
    do {                                                                                           \
        double got_ = (got), want_ = (want);                                                       \
        if (!(got_ - want_ <= (eps) && want_ - got_ <= (eps)))                                     \
            fail_msg("%s is %.12g, not %.12g", #got, got_, want_);                                 \
    } while (0)

#define HW_TEST_MAIN(...)                                                                          \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                           \
        return cmocka_run_group_tests(tests, NULL, NULL);                                          \
    }

#endif

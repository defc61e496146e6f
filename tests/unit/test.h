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

#define HW_TEST_MAIN(...)                                                                          \
    int main(void)                                                                                 \
    {                                                                                              \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                           \
        return cmocka_run_group_tests(tests, NULL, NULL);                                          \
    }

#endif

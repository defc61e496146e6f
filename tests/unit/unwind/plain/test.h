/* test.h - what known_random_test.c needs of cmocka, where there is none: cross-built, see arm64.sh */
#ifndef HW_TESTS_UNIT_UNWIND_PLAIN_TEST_H
#define HW_TESTS_UNIT_UNWIND_PLAIN_TEST_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define print_message printf
#define fail_msg(...)                                                                              \
    do {                                                                                           \
        printf("%s:%d: ", __FILE__, __LINE__);                                                     \
        printf(__VA_ARGS__);                                                                       \
        printf("\n");                                                                              \
        exit(1);                                                                                   \
    } while (0)
#define assert_true(c)                                                                             \
    do {                                                                                           \
        if (!(c))                                                                                  \
            fail_msg("%s", #c);                                                                    \
    } while (0)
#define assert_int_equal(a, b)       assert_true((a) == (b))
#define assert_memory_equal(a, b, n) assert_true(memcmp(a, b, n) == 0)

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};
#define cmocka_unit_test(f)                                                                        \
    {                                                                                              \
#f, f                                                                                      \
    }

static inline int cmocka_run_group_tests_plain(const struct CMUnitTest *t, size_t n,
                                               int (*setup)(void **), int (*teardown)(void **))
{
    if (setup(NULL) != 0)
        return 1;
    for (size_t i = 0; i < n; i++) {
        printf("%s: ", t[i].name);
        t[i].run(NULL);
        printf("ok\n");
    }
    return teardown(NULL);
}
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    cmocka_run_group_tests_plain(tests, sizeof(tests) / sizeof(tests)[0], setup, teardown)

#endif

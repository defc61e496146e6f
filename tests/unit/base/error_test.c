/* Each message says what failed and why, also where the caller knows only what it was about. */
#include "base/error.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_memory(void **state)
{
    (void)state;
    struct hw_error err;
    assert_int_equal(HW_ENOMEM, hw_fail(&err, HW_ENOMEM, 0, "heap graph"));
    assert_string_equal("heap graph: out of memory", err.text);
    (void)hw_fail(&err, HW_ENOMEM, 0, "no memory for a dump");
    assert_string_equal("no memory for a dump", err.text);
    (void)hw_fail(&err, HW_ENOMEM, 0, "heap graph:");
    assert_string_equal("heap graph: out of memory", err.text); /* once */
    (void)hw_fail(&err, HW_ENOMEM, 0, "%s", "");
    assert_string_equal("out of memory", err.text);
}

static void test_code(void **state)
{
    (void)state;
    struct hw_error err;
    assert_int_equal(HW_ELIMIT, hw_fail(&err, HW_ELIMIT, 7, "line %d:", 7));
    assert_string_equal("line 7: a limit was reached", err.text);
    assert_int_equal(7, err.offset);
    (void)hw_fail(&err, HW_EGONE, 0, "process 3 has ended");
    assert_string_equal("process 3 has ended", err.text);
}

/* A cut text stays within its room. */
static void test_long(void **state)
{
    (void)state;
    struct hw_error err;
    char name[2 * HW_ERROR_TEXT_MAX];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    (void)hw_fail(&err, HW_ENOMEM, 0, "%s", name);
    assert_int_equal(sizeof err.text - 1, strlen(err.text));
    (void)hw_fail(&err, HW_EGONE, 0, "%s", name);
    assert_int_equal(sizeof err.text - 1, strlen(err.text));
}

static void test_system(void **state)
{
    (void)state;
    struct hw_error err;
    errno = ENOSPC;
    assert_int_equal(HW_ESYS, hw_fail_sys(&err, "cannot write '%s'", "a"));
    assert_string_equal("cannot write 'a': No space left on device", err.text);
    assert_int_equal(ENOSPC, err.sys_errno);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_code),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* patchable_files_test.c - what is remembered of a file belongs to that file, as it is */
#include "test.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "inject/patchable_files.h"

static int file(void)
{
    int fd = memfd_create("program", MFD_CLOEXEC);
    assert_int_equal(write(fd, "code", 4), 4);
    return fd;
}

static void test_kept(void **state)
{
    (void)state;
    struct hw_error err = {0}, got = {0};
    int a = file(), b = file(), rc = 1;
    assert_int_equal(HW_PATCHABLE_UNKNOWN, hw_patchable_find(a, 4096, &rc, &got));
    assert_int_equal(HW_PATCHABLE_SOUGHT, hw_patchable_find(a, 4096, &rc, &got)); /* by us */
    assert_int_equal(HW_PATCHABLE_UNKNOWN, hw_patchable_find(b, 0, &rc, &got));
    (void)hw_fail(&err, HW_EUNSUPPORTED, 0, "its function malloc cannot be hooked: short");
    hw_patchable_keep(a, 4096, HW_EUNSUPPORTED, &err);
    hw_patchable_keep(b, 0, HW_OK, &err);
    assert_int_equal(HW_PATCHABLE_KNOWN, hw_patchable_find(a, 4096, &rc, &got));
    assert_int_equal(rc, HW_EUNSUPPORTED);
    assert_string_equal(got.text, err.text);
    assert_int_equal(HW_PATCHABLE_KNOWN, hw_patchable_find(b, 0, &rc, &got));
    assert_int_equal(rc, HW_OK);
    assert_int_equal(HW_PATCHABLE_UNKNOWN,
                     hw_patchable_find(a, 0, &rc, &got)); /* other code of the same file */
    struct timespec later[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(futimens(a, later), 0); /* as a package's new version would */
    assert_int_equal(HW_PATCHABLE_UNKNOWN, hw_patchable_find(a, 4096, &rc, &got));
    close(a);
    close(b);
}

static void test_not_kept(void **state)
{
    (void)state;
    struct hw_error err = {0};
    int a = file(), rc;
    (void)hw_fail(&err, HW_ENOMEM, 0, "no memory");
    assert_int_equal(HW_PATCHABLE_UNKNOWN, hw_patchable_find(a, 0, &rc, &err));
    hw_patchable_keep(a, 0, HW_ENOMEM, &err);
    assert_int_equal(HW_PATCHABLE_UNKNOWN, hw_patchable_find(a, 0, &rc, &err));
    for (int i = 0; i < 100; i++) { /* the oldest make room */
        int fd = file();
        assert_int_equal(HW_PATCHABLE_UNKNOWN, hw_patchable_find(fd, 0, &rc, &err));
        hw_patchable_keep(fd, 0, HW_OK, &err);
        assert_int_equal(HW_PATCHABLE_KNOWN, hw_patchable_find(fd, 0, &rc, &err));
        close(fd);
    }
    close(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kept),
                                       cmocka_unit_test(test_not_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * python_symbols_test.c - of one interpreter with its symbols and without (python_split.c): its parts are the same
 */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "elf/elf.h"
#include "elf/python_symbols.h"

static char **files; /* named, stripped, free-threaded */

static struct hw_python_symbols symbols_of(const char *path)
{
    struct hw_python_symbols s;
    struct hw_elf *e;
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(hw_elf_open(fd, &e, NULL), HW_OK);
    hw_python_symbols_find(e, fd, &s);
    hw_elf_close(e);
    return s;
}

static void test_cold_part(void **state)
{
    (void)state;
    struct hw_python_symbols named = symbols_of(files[0]), stripped = symbols_of(files[1]);
    assert_true(named.eval != 0 && named.eval_bytes != 0);
    assert_int_equal(stripped.eval, named.eval);
    if (named.cold == 0)
        skip(); /* this compiler does not split functions */
    assert_int_equal(stripped.cold, named.cold);
    assert_int_equal(stripped.cold_bytes, named.cold_bytes);
}

static void test_version(void **state)
{
    (void)state;
    assert_int_equal(symbols_of(files[1]).version, 0x030900f0);
    assert_false(symbols_of(files[1]).is_free_threaded);
    assert_int_equal(symbols_of(files[2]).version, 0x030d00f0);
    assert_true(symbols_of(files[2]).is_free_threaded);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    files = argv + 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cold_part),
        cmocka_unit_test(test_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

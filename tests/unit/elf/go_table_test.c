/*
 * go_table_test.c - the names in Go's table of functions: of files with one, in the layouts of 1.19 and 1.21, made by hand
 *
 * main.outer is 0x40 bytes of code at 0x401000; 0x10 to 0x20 of it are main.inlined. main.last follows, then the two
 * functions of the runtime that read its rate.
 */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "elf/go_table.h"

#define TEXT UINT64_C(0x401000)
#define DATA                                                                                       \
    UINT64_C(0x401100) /* functions' data, of which that of main.outer is 16 bytes behind */
#define RATE  UINT64_C(0x600010)
#define BLOCK 8 /* frames */

static const char *folder;

static int open_file(const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void is_frame(const struct hw_go_frame *f, const char *function, const char *file,
                     uint32_t line)
{
    assert_string_equal(f->function, function);
    assert_string_equal(f->file, file);
    assert_int_equal(f->line, line);
}

static void check_names(const char *name, const char *version)
{
    static struct hw_go_frame f[BLOCK];
    struct hw_go_table *t;
    hw_autofd int fd = open_file(name);
    uint64_t word;
    assert_true(hw_go_table_is_in(fd));
    assert_int_equal(hw_go_table_open(fd, &t, NULL), HW_OK);
    assert_string_equal(hw_go_table_version(t), version);

    /* Addresses are those that a call returns to. */
    assert_int_equal(hw_go_table_frames(t, TEXT + 0x10, false, f, BLOCK), 1);
    is_frame(f, "main.outer", "/src/a.go", 12);
    assert_int_equal(hw_go_table_frames(t, TEXT + 0x41, false, f, BLOCK), 1);
    is_frame(f, "main.last", "/src/a.go", 30);
    assert_int_equal(hw_go_table_frames(t, TEXT, false, f, BLOCK), 0);
    assert_int_equal(hw_go_table_frames(t, TEXT + 0x101, false, f, BLOCK), 0);
    assert_int_equal(hw_go_table_frames(t, TEXT + 0x100, false, f, BLOCK), 1);
    assert_int_equal(hw_go_table_frames(t, 0, false, f, BLOCK), 0);

    /* Until it is known where functions' data are, inlined code has its caller's name. */
    assert_int_equal(hw_go_table_frames(t, TEXT + 0x18, true, f, BLOCK), 1);
    is_frame(f, "main.outer", "/src/b.go", 7);
    hw_go_table_place(t, TEXT, DATA);
    assert_int_equal(hw_go_table_frames(t, TEXT + 0x18, false, f, BLOCK), 1);
    is_frame(f, "main.inlined", "/src/b.go", 7);
    assert_int_equal(hw_go_table_frames(t, TEXT + 0x18, true, f, BLOCK), 2);
    is_frame(f, "main.inlined", "/src/b.go", 7);
    is_frame(f + 1, "main.outer", "/src/a.go", 12);

    assert_int_equal(hw_go_table_rate(t), RATE);
    assert_true(hw_go_table_word(t, RATE, &word));
    assert_int_equal(word, 524288);
    assert_true(hw_go_table_word(t, RATE + 16, &word)); /* behind the file's bytes */
    assert_int_equal(word, 0);
    hw_go_table_close(t);
}

static void names_lines_and_inlined_functions(void **state)
{
    (void)state;
    check_names("go1.19", "go1.19.8");
    check_names("go1.21", "go1.21.13");
}

static void an_unknown_version_is_refused(void **state)
{
    struct hw_error err;
    struct hw_go_table *t;
    hw_autofd int fd = open_file("go1.99");
    (void)state;
    assert_int_equal(hw_go_table_open(fd, &t, &err), HW_EUNSUPPORTED);
    assert_non_null(
        strstr(err.text, "it was built with go1.99, and heapwise knows go1.19 to go1.23"));
}

static void other_files_are_not_gos(void **state)
{
    struct hw_go_table *t;
    hw_autofd int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    (void)state;
    assert_false(hw_go_table_is_in(self));
    assert_int_equal(hw_go_table_open(self, &t, NULL), HW_ENOTFOUND);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_lines_and_inlined_functions),
        cmocka_unit_test(an_unknown_version_is_refused),
        cmocka_unit_test(other_files_are_not_gos),
    };
    folder = argc == 2 ? argv[1] : ".";
    return cmocka_run_group_tests(tests, NULL, NULL);
}

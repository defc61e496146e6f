/* The directory of continuous recording, with times of the test's own: what goes, and what a clock
 * that was set does to it. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "record/web/profile_store.h"
#include "test.h"

#define SECOND INT64_C(1000000000)

static void add(struct hw_profile_store *s, int64_t time_s, const char *want)
{
    struct hw_profile_name name = {time_s * SECOND, "/srv/a-b/../x", "libc.malloc", 7};
    struct hw_error err = {0};
    char *path = NULL;
    if (hw_profile_store_add(s, &name, "0123456789", 10, &path, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(path, want);
    free(path);
}

static void open_it(struct hw_profile_store *s, const char *dir)
{
    struct hw_error err = {0};
    *s = (struct hw_profile_store){.fd = -1, .max_age_s = 3600};
    if (hw_profile_store_open(s, dir, &err) < 0)
        fail_msg("%s", err.text);
}

static size_t left(const struct hw_profile_store *s)
{
    return s->files.n - s->first;
}

static void put(const struct hw_profile_store *s, const char *name)
{
    int fd = openat(s->fd, name, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
}

static void test_store(void **state)
{
    (void)state;
    char dir[] = "/tmp/hw-store-XXXXXX";
    struct hw_profile_store s;
    assert_non_null(mkdtemp(dir));
    open_it(&s, dir);
    add(&s, 1000, "1970-01-01/001640.000-x-7-libc.malloc.pb.gz");
    add(&s, 90000, "1970-01-02/010000.000-x-7-libc.malloc.pb.gz");
    add(&s, 90000, "1970-01-02/010000.000-x-7-libc.malloc-2.pb.gz"); /* the clock was set back */
    put(&s, "1970-01-02/note.txt");
    put(&s, "1970-01-02/010001.000-x-7-libc.malloc.pb.gz.part");
    hw_profile_store_trim(&s, 0); /* not believed: nothing is old */
    assert_int_equal(left(&s), 3);
    hw_profile_store_trim(&s, 500); /* before all of them */
    assert_int_equal(left(&s), 3);
    hw_profile_store_trim(&s, 90000);
    assert_int_equal(left(&s), 2);
    assert_int_equal(s.bytes, 20);
    assert_int_equal(faccessat(s.fd, "1970-01-01", F_OK, 0), -1); /* its day, too */
    hw_profile_store_close(&s);

    open_it(&s, dir); /* finds what is its own, by name and time */
    assert_int_equal(left(&s), 2);
    assert_int_equal(s.bytes, 20);
    assert_int_equal(s.files.v[0].time_s, 90000);
    assert_int_equal(faccessat(s.fd, "1970-01-02/010001.000-x-7-libc.malloc.pb.gz.part", F_OK, 0),
                     -1);
    s.max_bytes = 15;
    hw_profile_store_trim(&s, 0);
    assert_int_equal(left(&s), 1);
    s.max_bytes = 0;
    hw_profile_store_trim(&s, 93600); /* as old as it may be */
    assert_int_equal(left(&s), 1);
    hw_profile_store_trim(&s, 93601);
    assert_int_equal(left(&s), 0);
    assert_int_equal(s.bytes, 0);
    assert_int_equal(faccessat(s.fd, "1970-01-02/note.txt", F_OK, 0), 0); /* nobody's of ours */
    (void)unlinkat(s.fd, "1970-01-02/note.txt", 0);
    (void)unlinkat(s.fd, "1970-01-02", AT_REMOVEDIR);
    hw_profile_store_close(&s);

    struct hw_error err = {0};
    assert_int_equal(chmod(dir, 0777), 0);
    assert_int_equal(hw_profile_store_open(&s, dir, &err), HW_EPERM);
    (void)rmdir(dir);
}

/* Its owner could make a day of it a link to where only we may write. */
static void test_directory_of_another(void **state)
{
    (void)state;
    char dir[] = "/tmp/hw-store-XXXXXX";
    struct hw_profile_store s = {.fd = -1};
    struct hw_error err = {0};
    if (geteuid() != 0)
        skip();
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chown(dir, 64001, 64001), 0);
    assert_int_equal(hw_profile_store_open(&s, dir, &err), HW_EPERM);
    assert_non_null(strstr(err.text, "belongs to user 64001"));
    assert_int_equal(chown(dir, 0, 64001), 0);
    assert_int_equal(chmod(dir, 0770), 0);
    assert_int_equal(hw_profile_store_open(&s, dir, &err), HW_EPERM);
    assert_int_equal(chmod(dir, 0750), 0);
    open_it(&s, dir);
    hw_profile_store_close(&s);
    (void)rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_store),
                                       cmocka_unit_test(test_directory_of_another)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

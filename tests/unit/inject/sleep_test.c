/* sleep_test.c - what the scheduler says of a sleeping thread, from files of ours */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/remote/calls.h"
#include "inject/remote/sleep.h"
#include "proc/pid.h"

#define THREAD 7

static char folder[] = "/tmp/hw-sleep-XXXXXX";
static struct hw_pid process = {.pid = 7, .dir = -1};
static const struct hw_call_now waits = {.number = SYS_epoll_wait, .args = {3, 4, 5, 100}};

static void put(const char *name, const char *text)
{
    int fd = openat(process.dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* The 39th field of stat is the processor: 0 exists everywhere. */
static void says(const char *exec_start, unsigned switches)
{
    char text[300];
    snprintf(text, sizeof text,
             "t (7, #threads: 1)\n---\nse.exec_start : %s\nnr_voluntary_switches : %u\n",
             exec_start, switches);
    put("task/7/sched", text);
    put("task/7/stat",
        "7 (t) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 "
        "0 17 0 0 0\n");
}

static int begin(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    process.dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return process.dir < 0 || mkdirat(process.dir, "task", 0700) ||
           mkdirat(process.dir, "task/7", 0700);
}

static int end(void **state)
{
    (void)state;
    unlinkat(process.dir, "task/7/sched", 0);
    unlinkat(process.dir, "task/7/stat", 0);
    unlinkat(process.dir, "task/7", AT_REMOVEDIR);
    unlinkat(process.dir, "task", AT_REMOVEDIR);
    close(process.dir);
    return rmdir(folder);
}

static struct hw_sleep inspected(const char *exec_start)
{
    struct hw_sleep s;
    says(exec_start, 12);
    hw_sleep_inspect(&process, THREAD, &waits, /* filtered = */ false, &s);
    return s;
}

static void test_since_it_ran(void **state)
{
    (void)state;
    struct hw_sleep s = inspected("1.000000"); /* soon after the machine has started */
    if (s.looked_ns == 0)
        skip(); /* a kernel without these files */
    assert_true(s.slept_ns > 1000000);
    hw_sleep_check(&process, THREAD, &s);
    assert_true(s.slept_ns > 0);
    says("1.000000", 13); /* the stop */
    assert_true(hw_sleep_until(&process, THREAD, &s, s.looked_ns) > 1000000);
    says("1.000000", 14);
    assert_int_equal(hw_sleep_until(&process, THREAD, &s, s.looked_ns), 0);
    hw_sleep_check(&process, THREAD, &s);
    assert_int_equal(s.slept_ns, 0);
}

/* The scheduler has moved it to another processor meanwhile, and does not know any more. */
static void test_moved_asleep(void **state)
{
    (void)state;
    struct hw_sleep s = inspected("0.000000");
    assert_int_equal(s.slept_ns, 0);
    says("0.000000", 13);
    assert_int_equal(hw_sleep_until(&process, THREAD, &s, UINT64_MAX / 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_since_it_ran),
        cmocka_unit_test(test_moved_asleep),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

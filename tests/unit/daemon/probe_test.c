/*
 * probe_test.c - what the answerer reads of an execve that waits, and of its file
 */
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "daemon/execwatch/exec_watch.h"

static const char *const argv_there[] = {"python3", "-u", "server.py", NULL};

static struct hw_exec_start command_of(int fd)
{
    static struct hw_exec_reader reader;
    struct hw_exec_call e = {.argv = (uint64_t)(uintptr_t)argv_there, .key = 7};
    struct hw_exec_start out = {0};
    (void)snprintf(e.path, sizeof e.path, "/usr/bin/python3");
    (void)snprintf(e.argv0, sizeof e.argv0, "python3");
    hw_exec_read_command(&reader, getpid(), &e, fd, &out);
    return out;
}

/* Each answerer has numbers of its own: nobody can make a command that counts as another's. */
static void test_numbers_are_no_ones_to_know(void **state)
{
    (void)state;
    struct hw_exec_start from[2];
    for (size_t i = 0; i < 2; i++) {
        int tell[2];
        assert_int_equal(pipe(tell), 0);
        pid_t pid = fork();
        if (pid == 0) {
            int fd = open("/proc/self/exe", O_RDONLY);
            struct hw_exec_start one = command_of(fd), again = command_of(fd);
            bool same = one.program == again.program && one.command == again.command;
            _exit(same && write(tell[1], &one, sizeof one) == sizeof one ? 0 : 1);
        }
        assert_int_equal(read(tell[0], &from[i], sizeof from[i]), sizeof from[i]);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        (void)close(tell[0]);
        (void)close(tell[1]);
    }
    assert_int_not_equal(from[0].program, from[1].program);
    assert_int_not_equal(from[0].command, from[1].command);
}

/* The same path below another root, as containers have them: another program. */
static void test_file_systems(void **state)
{
    (void)state;
    int here = open("/proc/self/exe", O_RDONLY), there = memfd_create("python3", MFD_CLOEXEC);
    struct hw_exec_start a = command_of(here), b = command_of(there), c = command_of(here);
    assert_int_not_equal(a.program, b.program);
    assert_int_not_equal(a.command, b.command);
    assert_int_equal(a.program, c.program);
    (void)close(here);
    (void)close(there);
}

/* tmpfs and overlay cannot say whether a file is in memory: nobody reads it here, and what it is has
 * to be known from a reader. */
static void test_script_in_memory(void **state)
{
    (void)state;
    static struct hw_exec_watch_shared shared;
    static const char line[] = "#!/usr/bin/python3 -u\n";
    struct hw_exec_file file = {.kind = HW_EXEC_FILE_SCRIPT, .interpreter = "/usr/bin/python3"};
    char name[HW_EXEC_LINE] = "", byte;
    struct iovec to = {&byte, 1};
    int fd = memfd_create("script", MFD_CLOEXEC);
    assert_int_equal(write(fd, line, sizeof line - 1), sizeof line - 1);
    bool says = preadv2(fd, &to, 1, 0, RWF_NOWAIT) == 1; /* later kernels may */
    assert_int_equal(hw_exec_read_interpreter(&shared, fd, name), says ? 1 : HW_EBUSY);
    assert_int_equal(hw_exec_file_id_of(fd, "", &file.id), 0);
    hw_exec_file_keep(&shared.files, &file);
    assert_int_equal(hw_exec_read_interpreter(&shared, fd, name), 1);
    assert_string_equal(name, "/usr/bin/python3");
    (void)close(fd);
}

/* A process of another user than root, who is never blamed. */
static pid_t somebody(void)
{
    int tell[2];
    char c;
    assert_int_equal(pipe(tell), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)!setuid(65534); /* not root: his own user does as well */
        (void)!write(tell[1], "u", 1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(tell[0], &c, 1), 1);
    (void)close(tell[0]);
    (void)close(tell[1]);
    return pid;
}

static void wait_for_memory(struct hw_exec_reader *r, int32_t pid)
{
    struct hw_exec_reading reading;
    hw_exec_reading_begin(r, pid, &reading);
    assert_int_equal(r->at, pid);
    (void)usleep(90000); /* a little less than what ends the answerer */
    hw_exec_reading_end(r, &reading);
    assert_int_equal(r->at, 0);
}

/* Memory that answers late, but answers: its user has 200 ms of everybody's time. */
static void test_slow_memory(void **state)
{
    (void)state;
    static struct hw_exec_reader r, of_root;
    static struct hw_exec_watch_shared shared;
    pid_t pid = somebody();
    wait_for_memory(&r, pid);
    assert_false(hw_exec_is_skipped(&shared, &r, pid));
    wait_for_memory(&r, pid);
    wait_for_memory(&r, pid);
    assert_true(hw_exec_is_skipped(&shared, &r, pid));
    if (getuid() == 0) {
        assert_false(hw_exec_is_skipped(&shared, &r, getpid()));
        for (int i = 0; i < 3; i++)
            wait_for_memory(&of_root, getpid());
        assert_false(hw_exec_is_skipped(&shared, &of_root, getpid()));
    }
    r.any_until_ns = 1; /* it is over */
    assert_false(hw_exec_is_skipped(&shared, &r, pid));
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* Who waits for a processor waits for nobody's memory. */
static void test_busy_is_not_slow(void **state)
{
    (void)state;
    static struct hw_exec_reader r;
    struct hw_exec_reading reading;
    pid_t pid = somebody();
    hw_exec_reading_begin(&r, pid, &reading);
    for (uint64_t end = hw_now_monotonic_ns() + 250000000; hw_now_monotonic_ns() < end;)
        ;
    hw_exec_reading_end(&r, &reading);
    assert_false(hw_exec_reader_avoids(&r, pid));
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_no_ones_to_know),
        cmocka_unit_test(test_file_systems),
        cmocka_unit_test(test_script_in_memory),
        cmocka_unit_test(test_slow_memory),
        cmocka_unit_test(test_busy_is_not_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

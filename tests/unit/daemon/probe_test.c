/*
 * probe_test.c - what the answerer reads of an execve that waits, and of its file
 */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/execwatch/exec_watch.h"

static const char *const argv_there[] = {"python3", "-u", "server.py", NULL};

static struct hw_exec_start command_of(int fd)
{
    _Atomic int32_t reading = 0;
    struct hw_exec_call e = {.argv = (uint64_t)(uintptr_t)argv_there, .key = 7};
    struct hw_exec_start out = {0};
    (void)snprintf(e.path, sizeof e.path, "/usr/bin/python3");
    (void)snprintf(e.argv0, sizeof e.argv0, "python3");
    hw_exec_read_command(&reading, getpid(), &e, fd, &out);
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

/* tmpfs and overlay cannot say whether a file is in memory. */
static void test_script_in_memory(void **state)
{
    (void)state;
    static const char line[] = "#!/usr/bin/python3 -u\n";
    char name[512] = "";
    int fd = memfd_create("script", MFD_CLOEXEC);
    assert_int_equal(write(fd, line, sizeof line - 1), sizeof line - 1);
    assert_int_equal(hw_exec_read_interpreter(fd, /* may_wait = */ false, name, sizeof name), 1);
    assert_string_equal(name, "/usr/bin/python3");
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_no_ones_to_know),
        cmocka_unit_test(test_file_systems),
        cmocka_unit_test(test_script_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A process that cannot be looked at has not ended for that. */
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "proc/pid.h"

static void too_few_descriptors_are_told_as_such(void **state)
{
    (void)state;
    struct hw_pid p;
    struct hw_error err = {0};
    struct rlimit before, few;
    assert_int_equal(hw_pid_open(getpid(), &p, &err), 0);
    hw_pid_done(&p);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0); /* the lowest that is free */
    assert_true(next >= 0);
    (void)close(next);
    few = (struct rlimit){(rlim_t)next + 1, before.rlim_max}; /* one: for the process itself */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int rc = hw_pid_open(getpid(), &p, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(rc, HW_ESYS);
    assert_non_null(strstr(err.text, "ulimit -n"));

    int ends[2];
    err = (struct hw_error){0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    few.rlim_cur = (rlim_t)next + 2; /* none left */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    rc = hw_pid_open_peer(ends[0], getpid(), &p, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(rc, HW_ESYS);
    assert_non_null(strstr(err.text, "ulimit -n"));
    (void)close(ends[0]);
    (void)close(ends[1]);
}

/* Before its parent has waited for it, and after that where the kernel still tells. */
static void how_a_process_ended(void **state)
{
    (void)state;
    static const int exits[] = {0, 3, -1}; /* -1: killed */
    for (size_t i = 0; i < sizeof exits / sizeof exits[0]; i++) {
        struct hw_pid p;
        struct hw_error err = {0};
        uint32_t status = 77;
        int waited, go[2];
        char c;
        assert_int_equal(pipe(go), 0);
        pid_t child = fork();
        if (child == 0) {
            (void)!read(go[0], &c, 1);
            _exit(exits[i]);
        }
        assert_true(child > 0);
        assert_int_equal(hw_pid_open(child, &p, &err), 0);
        assert_int_equal(hw_pid_exit_status(&p, &status), HW_EGONE); /* it runs */
        if (exits[i] < 0)
            assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(write(go[1], "g", 1), 1);
        siginfo_t info;
        assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
        assert_int_equal(hw_pid_exit_status(&p, &status), 0);
        assert_int_equal(waitpid(child, &waited, 0), child);
        assert_int_equal(status, waited);
        status = 77;
        if (hw_pid_exit_status(&p, &status) == HW_OK)
            assert_int_equal(status, waited);
        hw_pid_done(&p);
        (void)close(go[0]);
        (void)close(go[1]);
    }
}

HW_TEST_MAIN(cmocka_unit_test(too_few_descriptors_are_told_as_such),
             cmocka_unit_test(how_a_process_ended))

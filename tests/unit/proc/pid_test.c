/* A process that cannot be looked at has not ended for that. */
#include "test.h"

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
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

HW_TEST_MAIN(cmocka_unit_test(too_few_descriptors_are_told_as_such))

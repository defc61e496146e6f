/* thread_test.c - threads that cannot be seized */
#include "test.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "inject/remote/thread.h"

/* The kernel says EPERM of what has ended and was not waited for, as of what may not be traced. */
static void test_ended(void **state)
{
    (void)state;
    struct hw_thread t;
    struct hw_error err;
    siginfo_t i;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitid(P_PID, (id_t)child, &i, WEXITED | WNOWAIT), 0);
    t.number = child;
    assert_int_equal(hw_thread_take(&t, child, child, &err), HW_EGONE);
    assert_non_null(strstr(err.text, "has ended"));
    /* One that lives, and may not be traced: nobody traces a thread of its own process. */
    t.number = getpid();
    assert_int_equal(hw_thread_take(&t, getpid(), getpid(), &err), HW_EPERM);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ended)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * passed_test.c - programs whose start was not held, and numbers that others get after them
 */
#include "test.h"

#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/core.h"
#include "daemon/execwatch/exec_matcher_parts.h"

static struct hw_exec_watch_shared shared;
static struct hw_exec_finder finder = {.shared = &shared};

/* One continuous session, of which a start may be passed. */
static struct hw_exec_finder *fresh(void)
{
    struct hw_exec_watch_session s = {
        .id = 1, .all = true, .per_minute = 20, .young_ns = UINT64_C(1000000000000)};
    s.arm.interval_bytes = 1 << 20;
    hw_vec_clear(&finder.rules.sessions);
    assert_int_equal(hw_vec_push(&finder.rules.sessions, s), 0);
    return &finder;
}

static void pass(int32_t pid)
{
    uint32_t n = shared.n_passed;
    shared.passed[n % HW_EXEC_N_PASSED] = pid;
    shared.n_passed = n + 1;
}

/* Waits until its end of the pipe is closed. pid: its number; 0 = any. False: not to be had. */
struct waiting {
    pid_t pid;
    int stop;
};

static bool start(pid_t pid, struct waiting *out)
{
    int fds[2];
    char c;
    struct clone_args a = {.exit_signal = SIGCHLD};
    if (pid > 0) {
        a.set_tid = (uint64_t)(uintptr_t)&pid;
        a.set_tid_size = 1;
    }
    assert_int_equal(pipe(fds), 0);
    pid_t made = (pid_t)syscall(SYS_clone3, &a, sizeof a);
    if (made == 0) {
        (void)close(fds[1]);
        _exit(read(fds[0], &c, 1) == 0 ? 0 : 1);
    }
    (void)close(fds[0]);
    if (made < 0)
        (void)close(fds[1]);
    *out = (struct waiting){made, fds[1]};
    return made > 0;
}

static void end(struct waiting w)
{
    (void)close(w.stop);
    assert_int_equal(waitpid(w.pid, NULL, 0), w.pid);
}

static void test_number_used_again(void **state)
{
    (void)state;
    struct hw_exec_finder *f = fresh();
    struct waiting first, second;
    assert_true(start(0, &first));
    pass(first.pid);
    assert_true(hw_exec_was_passed(f, first.pid));
    end(first);
    (void)usleep(50000); /* some ticks, by which the kernel counts starts */
    if (!start(first.pid, &second))
        skip(); /* not root's, or taken */
    assert_false(hw_exec_was_passed(f, second.pid));
    end(second);
}

/* Whom a second session means must not wait until it is old. */
static void test_second_session(void **state)
{
    (void)state;
    struct hw_exec_finder *f = fresh();
    struct hw_exec_watch_session other = {.id = 2};
    struct waiting w;
    assert_true(start(0, &w));
    pass(w.pid);
    assert_true(hw_exec_was_passed(f, w.pid));
    assert_int_equal(hw_vec_push(&f->rules.sessions, other), 0);
    assert_false(hw_exec_was_passed(f, w.pid));
    hw_vec_clear(&f->rules.sessions);
    pass(w.pid);
    assert_false(hw_exec_was_passed(f, w.pid)); /* and no session is read of which there is none */
    end(w);
}

static void *number_of_thread(void *out)
{
    int32_t tid = (int32_t)syscall(SYS_gettid);
    *(bool *)out = tid != getpid() && hw_exec_process_of(tid) == getpid();
    return NULL;
}

/* The number of a thread that executes is over then. */
static void test_thread(void **state)
{
    (void)state;
    bool right = false;
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, number_of_thread, &right), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_true(right);
    assert_int_equal(hw_exec_process_of(getpid()), getpid());
}

/* Of a process the newest finding counts, also if it says that nothing was chosen. */
static void test_executes_another(void **state)
{
    (void)state;
    static struct hw_recorder r;
    struct hw_session s = {.rec = &r, .has_rule = true};
    s.start.starts_per_minute = 20;
    hw_exec_watch_found(&r.starts, 77, hw_exec_tell_share(4));
    assert_int_equal(hw_exec_watch_share(&s, 77, 0), 4);
    hw_exec_watch_found(&r.starts, 77, 0); /* a look through /proc */
    assert_int_equal(hw_exec_watch_share(&s, 77, 0), 4);
    hw_exec_watch_found(&r.starts, 77, hw_exec_tell_share(2));
    assert_int_equal(hw_exec_watch_share(&s, 77, 0), 2);
    hw_exec_watch_found(&r.starts, 77, hw_exec_tell_share(0));
    assert_int_equal(hw_exec_watch_share(&s, 77, 0), 0);
    assert_int_equal(hw_exec_watch_share(&s, 78, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_number_used_again),
        cmocka_unit_test(test_second_session),
        cmocka_unit_test(test_thread),
        cmocka_unit_test(test_executes_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

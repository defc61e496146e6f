/* A program that works for us has what we gave it, and ends when we do. */
#include "base/files/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../test.h"

extern char **environ;

static int start(const char *script, int in, int out, int more, uint64_t memory, pid_t *pid)
{
    char *argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)(uintptr_t)script, NULL};
    const struct hw_helper h = {.program = "sh",
                                .argv = argv,
                                .env = environ,
                                .in = in,
                                .out = out,
                                .more = more,
                                .max_memory = memory,
                                .max_cpu_s = memory ? 7 : 0};
    return hw_helper_start(&h, pid);
}

static size_t read_all(int fd, char *text, size_t max)
{
    size_t n = 0;
    for (ssize_t got; n < max - 1 && (got = read(fd, text + n, max - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = '\0';
    return n;
}

static void on_signal(int number)
{
    (void)number;
}

static void test_descriptors_limits_and_signals(void **state)
{
    (void)state;
    int out[2], more[2];
    char text[512];
    pid_t pid;
    int status;
    const struct sigaction act = {.sa_handler = on_signal};
    assert_int_equal(sigaction(SIGUSR1, &act, NULL), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC) | pipe2(more, O_CLOEXEC), 0);
    assert_int_equal(write(more[1], "there\n", 6), 6);
    assert_int_equal(
        start("read x <&3; read y; echo $x $y; ulimit -v; ulimit -t; ls /proc/self/fd | wc "
              "-l; grep -c 'SigBlk:.0*$' /proc/self/status; kill -USR1 $$; echo alive",
              -1, out[1], more[0], UINT64_C(1) << 30, &pid),
        0);
    (void)close(out[1]);
    (void)read_all(out[0], text, sizeof text);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    /* 0 to 3, and the one that ls has for the directory */
    assert_string_equal(text, "there\n1048576\n7\n5\n1\n");
    (void)close(out[0]);
    (void)close(more[0]);
    (void)close(more[1]);
}

/* Its places are ours as well: none is overwritten before it is taken. */
static void test_descriptors_crosswise(void **state)
{
    (void)state;
    int a[2], b[2], status;
    char text[64];
    pid_t pid, child;
    assert_int_equal(pipe2(a, O_CLOEXEC) | pipe2(b, O_CLOEXEC), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(b[1]);
        if (dup2(a[1], 0) != 0 || dup2(b[0], 1) != 1 || start("cat", 1, 0, -1, 0, &pid) != 0)
            _exit(1);
        _exit(waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 2);
    }
    (void)close(a[1]);
    assert_int_equal(write(b[1], "through", 7), 7);
    (void)close(b[1]);
    (void)close(b[0]);
    (void)read_all(a[0], text, sizeof text);
    (void)close(a[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_string_equal(text, "through");
}

static void test_what_cannot_start(void **state)
{
    (void)state;
    static const struct {
        const char *program;
        int error;
    } all[] = {
        {"/nowhere/at-all", ENOENT}, {"no-such-program-anywhere", ENOENT}, {"/etc/passwd", EACCES}};
    char *argv[] = {(char[]){"x"}, NULL};
    for (size_t i = 0; i < 3; i++) {
        pid_t pid = -7;
        const struct hw_helper h = {.program = all[i].program,
                                    .argv = argv,
                                    .env = environ,
                                    .in = -1,
                                    .out = -1,
                                    .more = -1};
        assert_int_equal(hw_helper_start(&h, &pid), all[i].error);
        assert_int_equal(pid, -7);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
    }
}

static void test_it_ends_with_us(void **state)
{
    (void)state;
    int out[2];
    char text[8];
    pid_t pid, child;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)start("echo; exec sleep 300", -1, out[1], -1, 0, &pid);
        (void)pause();
        _exit(0);
    }
    (void)close(out[1]);
    assert_int_equal(read(out[0], text, 1), 1); /* it runs */
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(read_all(out[0], text, sizeof text), 0); /* its end is the pipe's */
    assert_int_equal(waitpid(child, NULL, 0), child);
    (void)close(out[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors_limits_and_signals),
        cmocka_unit_test(test_descriptors_crosswise),
        cmocka_unit_test(test_what_cannot_start),
        cmocka_unit_test(test_it_ends_with_us),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

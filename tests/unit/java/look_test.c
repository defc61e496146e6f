/*
 * look_test.c - a JVM whose mappings cannot be read, because it holds the lock of its memory
 *
 * argv[1] is tests/targets/confined/locked.c, without which (no FUSE) nothing is tested. /proc/PID/maps does
 * without that lock in newer kernels; smaps, in its place here, does not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>
#include <signal.h>

#include "base/error.h"
#include "java/jvm/jvm_attach.h"
#include "proc/pid.h"

#include "../test.h"

static const char *locked;

static pid_t start(int *in, int *out)
{
    int to[2], from[2];
    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(to[0], 0);
        (void)dup2(from[1], 1);
        (void)close(to[1]);
        (void)close(from[0]);
        execl(locked, locked, "30000", (char *)NULL);
        _exit(77);
    }
    (void)close(to[0]);
    (void)close(from[1]);
    *in = to[1];
    *out = from[0];
    return pid;
}

/* Its /proc, with smaps for maps. */
static int proc_of(pid_t pid, const char *dir)
{
    static const char *const names[][2] = {{"status", "status"}, {"maps", "smaps"}};
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    for (size_t i = 0; i < 2; i++) {
        char to[64];
        (void)snprintf(to, sizeof to, "/proc/%d/%s", (int)pid, names[i][1]);
        assert_int_equal(symlinkat(to, fd, names[i][0]), 0);
    }
    return fd;
}

static void test_no_answer(void **state)
{
    (void)state;
    char dir[] = "/tmp/hw-look-XXXXXX", word[8];
    int in, out;
    assert_non_null(mkdtemp(dir));
    pid_t pid = start(&in, &out);
    if (read(out, word, 7) != 7) {
        (void)rmdir(dir);
        skip();
    }
    struct hw_pid p = {.pid = pid, .pidfd = -1, .dir = proc_of(pid, dir)};
    struct hw_jvm jvm;
    struct hw_error err = {0};
    int reason = hw_jvm_inspect(&p, &jvm, &err);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* it is locked still */
    assert_int_equal(reason, HW_JAVA_LOOKS_LONG);
    assert_non_null(strstr(err.text, "in time"));
    (void)close(in);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)unlinkat(p.dir, "status", 0);
    (void)unlinkat(p.dir, "maps", 0);
    (void)close(p.dir);
    (void)close(out);
    (void)rmdir(dir);
    usleep(200000); /* the thread that was left behind ends, too */
}

static void test_answer(void **state)
{
    (void)state;
    struct hw_pid p;
    struct hw_jvm jvm;
    assert_int_equal(hw_pid_open((int32_t)getpid(), &p, NULL), HW_OK);
    assert_int_equal(hw_jvm_inspect(&p, &jvm, NULL), HW_JAVA_NOT_A_JVM);
    hw_pid_done(&p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_answer),
                                       cmocka_unit_test(test_answer)};
    locked = argc > 1 ? argv[1] : "";
    return cmocka_run_group_tests(tests, NULL, NULL);
}

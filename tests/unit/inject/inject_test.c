/*
 * inject_test.c - a target that waits in a system call is injected into, with a failure at each
 * step: it must not notice. The target is a child that reports what its call gave.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "inject/inject.h"
#include "inject_child.h"
#include "library_copy.h"
#include "proc/pid.h"

static const char *library, *program; /* program: the child, when it is not ourselves */

struct target {
    pid_t pid;
    int to, from; /* what CALL_READ waits for; reports */
    struct hw_pid handle;
};

static void stop(struct target *t)
{
    kill(t->pid, SIGKILL);
    waitpid(t->pid, NULL, 0);
    hw_pid_done(&t->handle);
    close(t->to);
    close(t->from);
}

static int count_lines(pid_t pid, const char *what)
{
    char path[64], line[1024];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, "memfd:lib") == NULL;
    fclose(f);
    return n;
}

static int has_library(pid_t pid)
{
    char path[64], line[1024];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, "memfd:lib") != NULL;
    fclose(f);
    return n;
}

static int count_fds(pid_t pid)
{
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *d = opendir(path);
    while (d && readdir(d))
        n++;
    closedir(d);
    return n;
}

static void status_line(pid_t pid, const char *key, char out[128])
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "r");
    out[0] = 0;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            snprintf(out, 128, "%.120s", line);
    fclose(f);
}

static void wait_for_state(pid_t pid, char state)
{
    char line[128];
    for (int i = 0; i < 30000; i++) {
        status_line(pid, "State:", line);
        if (line[0] && line[strlen("State:\t")] == state)
            return;
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    fail_msg("%d does not come to state %c, but to %s", (int)pid, state, line);
}

/* Returns when it is in its call. */
static void wait_until_called(struct target *t, enum call c)
{
    struct report r;
    struct pollfd p = {.fd = t->from, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 30000), 1);
    assert_int_equal(read(t->from, &r, sizeof r), sizeof r);
    assert_int_equal(r.rc, CHILD_BEGINS);
    if (c != CALL_SPIN)
        wait_for_state(t->pid, 'S');
}

static void start(struct target *t, enum call c)
{
    int to[2], from[2];
    assert_return_code(pipe2(to, O_CLOEXEC), errno);
    assert_return_code(pipe2(from, O_CLOEXEC), errno);
    t->pid = fork();
    if (t->pid == 0 && program) {
        char args[3][16];
        int fds[] = {to[0], from[1]};
        for (int i = 0; i < 2; i++) {
            snprintf(args[i + 1], sizeof args[i], "%d", fds[i]);
            fcntl(fds[i], F_SETFD, 0);
        }
        snprintf(args[0], sizeof args[0], "%d", (int)c);
        execl(program, program, args[0], args[1], args[2], (char *)NULL);
        _exit(127);
    }
    if (t->pid == 0)
        child(c, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    t->to = to[1];
    t->from = from[0];
    assert_int_equal(hw_pid_open(t->pid, &t->handle, NULL), HW_OK);
    wait_until_called(t, c);
}

/* The program's code. */
static size_t read_code(pid_t pid, uint8_t **out)
{
    char path[64], line[512], name[512] = "";
    unsigned long lo = 0, hi = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "%lx-%lx r-xp %*s %*s %*s /%500s", &lo, &hi, name) == 3)
            break;
    fclose(f);
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    int fd = open(path, O_RDONLY);
    *out = malloc(hi - lo);
    assert_int_equal(pread(fd, *out, hi - lo, (off_t)lo), hi - lo);
    close(fd);
    return hi - lo;
}

static struct report take_report(struct target *t, enum call c)
{
    struct report r;
    if (c == CALL_READ)
        assert_int_equal(write(t->to, "x", 1), 1);
    struct pollfd p = {.fd = t->from, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 30000), 1);
    assert_int_equal(read(t->from, &r, sizeof r), sizeof r);
    return r;
}

static void check_report(enum call c, const struct report *r)
{
    if (c == CALL_FUTEX) {
        assert_int_equal(r->rc, -1);
        assert_int_equal(r->error, ETIMEDOUT);
    } else {
        assert_int_equal(r->rc, c == CALL_READ ? 1 : 0);
        assert_int_equal(r->error, 0);
    }
    if (c != CALL_READ)
        assert_in_range(r->ms, CHILD_MS - 1, 60000); /* some machines are busy */
    assert_true(r->sum == 6.0);
}

static int inject(struct target *t, enum hw_attach_command command, enum hw_inject_step fail_at,
                  struct hw_inject_result *out)
{
    struct hw_error err = {0};
    struct hw_inject_request q = {.pid = &t->handle,
                                  .library = library,
                                  .command = command,
                                  .socket_path = "@heapwise-inject-test-nobody",
                                  .generation = 77,
                                  .fail_at = fail_at};
    int rc = hw_inject(&q, out, &err);
    if (rc < 0 && !fail_at)
        print_message("inject: %s\n", err.text);
    return rc;
}

static void failures_leave_no_trace(void **state)
{
    (void)state;
    for (int c = program ? CALL_FUTEX : 0; c < CALL_COUNT; c += program ? 2 : 1) {
        for (int step = HW_INJECT_STOPPED; step < HW_INJECT_STEP_COUNT; step++) {
            struct target t;
            struct hw_inject_result r;
            char before[128], after[128];
            if (step == HW_INJECT_HELD && !program) /* only where code is changed */
                continue;
            start(&t, (enum call)c);
            int fds = count_fds(t.pid), maps = count_lines(t.pid, "maps");
            uint8_t *code, *code_after;
            size_t n_code = read_code(t.pid, &code);
            status_line(t.pid, "SigBlk", before);
            assert_int_equal(inject(&t, HW_ATTACH_HOOK, (enum hw_inject_step)step, &r), HW_ESYS);
            status_line(t.pid, "SigBlk", after);
            assert_string_equal(before, after);
            assert_int_equal(count_fds(t.pid), fds);
            if (step < HW_INJECT_LOADED && c != CALL_SPIN)
                assert_int_equal(count_lines(t.pid, "maps"), maps);
            assert_int_equal(read_code(t.pid, &code_after), n_code);
            assert_memory_equal(code, code_after, n_code);
            free(code);
            free(code_after);
            struct report p = take_report(&t, (enum call)c);
            check_report((enum call)c, &p);
            stop(&t);
        }
    }
}

/* Whoever loaded the library was killed before it could note anything: the next one takes it. */
static void loaded_by_a_dead_recorder(void **state)
{
    (void)state;
    struct target t;
    struct hw_inject_result r;
    start(&t, CALL_FUTEX);
    assert_int_equal(inject(&t, HW_ATTACH_HOOK, HW_INJECT_LOADED, &r), HW_ESYS);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(inject(&t, HW_ATTACH_HOOK, 0, &r), HW_OK);
        assert_true(program || !r.loaded);
        assert_int_equal(inject(&t, HW_ATTACH_UNHOOK, 0, &r), HW_OK);
    }
    struct report p = take_report(&t, CALL_FUTEX);
    check_report(CALL_FUTEX, &p);
    stop(&t);
}

static void hooks_come_and_go(void **state)
{
    (void)state;
    for (int c = 0; c < CALL_COUNT; c++) {
        struct target t;
        struct hw_inject_result r;
        start(&t, (enum call)c);
        int fds = count_fds(t.pid), maps = 0;
        for (int round = 0; round < 5; round++) {
            assert_int_equal(inject(&t, HW_ATTACH_HOOK, 0, &r), HW_OK);
            assert_true(r.n_slots > (program ? 5 : 10));
            assert_int_equal(r.loaded, round == 0);
            assert_int_equal(inject(&t, HW_ATTACH_UNHOOK, 0, &r), HW_OK);
            assert_int_equal(r.n_slots, 0);
            assert_true(r.n_changed > (program ? 5 : 10));
            assert_int_equal(count_fds(t.pid), fds);
            if (round == 1)
                maps = count_lines(t.pid, "maps");
        }
        assert_int_equal(count_lines(t.pid, "maps"), maps);
        struct report p = take_report(&t, (enum call)c);
        check_report((enum call)c, &p);
        stop(&t);
    }
}

static _Atomic bool storm_ends;

static void *storm(void *arg)
{
    pid_t pid = *(pid_t *)arg;
    struct timespec pause = {0, 300000};
    while (!storm_ends) {
        kill(pid, SIGSTOP);
        nanosleep(&pause, NULL);
        kill(pid, SIGCONT);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* Job control meanwhile: it goes in or is refused as one that is stopped, nothing half done, and
 * whoever stopped or continued it last has the last word. */
static void stops_and_continues(void **state)
{
    (void)state;
    struct target t;
    struct hw_inject_result r;
    struct hw_error err;
    pthread_t thread;
    int n_in = 0;
    char line[128];
    start(&t, CALL_SPIN);
    assert_int_equal(inject(&t, HW_ATTACH_HOOK, 0, &r), HW_OK);
    assert_int_equal(inject(&t, HW_ATTACH_UNHOOK, 0, &r), HW_OK);
    int fds = count_fds(t.pid), maps = count_lines(t.pid, "maps");
    storm_ends = false;
    assert_int_equal(pthread_create(&thread, NULL, storm, &t.pid), 0);
    for (int i = 0; i < 200; i++) {
        struct hw_inject_request q = {.pid = &t.handle,
                                      .library = library,
                                      .command = i % 2 ? HW_ATTACH_UNHOOK : HW_ATTACH_HOOK,
                                      .socket_path = "@heapwise-inject-test-nobody"};
        int rc = hw_inject(&q, &r, &err);
        n_in += rc == HW_OK;
        if (rc != HW_OK && rc != HW_EUNSUPPORTED && rc != HW_ETIMEOUT)
            fail_msg("try %d: %s", i, err.text);
    }
    storm_ends = true;
    pthread_join(thread, NULL);
    assert_true(n_in > 0);
    assert_int_equal(inject(&t, HW_ATTACH_HOOK, 0, &r), HW_OK);
    assert_int_equal(inject(&t, HW_ATTACH_UNHOOK, 0, &r), HW_OK);
    assert_int_equal(count_fds(t.pid), fds);
    assert_int_equal(count_lines(t.pid, "maps"), maps);
    status_line(t.pid, "State:", line);
    assert_null(strchr(line, 'T'));
    status_line(t.pid, "TracerPid:", line);
    assert_string_equal(line, "TracerPid:\t0\n");
    stop(&t);
}

/* How long the kernel was asked to wait by the epoll_wait that a process is in; -1 = it is in none. */
static long epoll_timeout_of(pid_t pid)
{
    char path[64], line[256] = "";
    long number = -1;
    unsigned long arg[4] = {0};
    snprintf(path, sizeof path, "/proc/%d/syscall", pid);
    FILE *f = fopen(path, "r");
    if (f && fgets(line, sizeof line, f))
        (void)sscanf(line, "%ld %lx %lx %lx %lx", &number, &arg[0], &arg[1], &arg[2], &arg[3]);
    if (f)
        fclose(f);
#ifdef SYS_epoll_wait
    return number == SYS_epoll_wait ? (long)(int)arg[3] : -1;
#else
    return number == SYS_epoll_pwait ? (long)(int)arg[3] : -1;
#endif
}

/* epoll_wait that is stopped behind a third of its time: what is left is waited for, not all of it
 * again, as the call says that it is in now. A busy machine may be later than its end. */
static void time_outs_go_on(void **state)
{
    (void)state;
    long left = -1;
    if (access("/proc/self/sched", R_OK) != 0)
        skip();
    for (int i = 0; i < 50 && left < 0; i++) {
        struct target t;
        struct hw_inject_result r;
        start(&t, CALL_EPOLL);
        struct timespec pause = {0, CHILD_MS / 3 * 1000000};
        nanosleep(&pause, NULL);
        assert_int_equal(inject(&t, HW_ATTACH_HOOK, 0, &r), HW_OK);
        for (int k = 0; k < 100 && left < 0; k++) {
            left = epoll_timeout_of(t.pid);
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        }
        struct pollfd p = {.fd = t.from, .events = POLLIN};
        if (poll(&p, 1, 0) != 0)
            left = -1; /* that is the next call */
        struct report report = take_report(&t, CALL_EPOLL);
        check_report(CALL_EPOLL, &report);
        stop(&t);
    }
    assert_in_range(left, 0, CHILD_MS / 3 * 2 + 1);
}

static void refusals_name_the_reason(void **state)
{
    (void)state;
    struct target t;
    struct hw_error err;
    start(&t, CALL_READ);
    kill(t.pid, SIGSTOP);
    wait_for_state(t.pid, 'T');
    assert_int_equal(hw_inject_check(&t.handle, &err), HW_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "kill -CONT"));
    kill(t.pid, SIGCONT);
    wait_for_state(t.pid, 'S');
    assert_int_equal(hw_inject_check(&t.handle, &err), HW_OK);
    kill(t.pid, SIGKILL);
    wait_for_state(t.pid, 'Z');
    assert_int_equal(hw_inject_check(&t.handle, &err), HW_EGONE);
    stop(&t);
}

/* ---- another program between the look and the stop ---- */

/* Waits for a line, then is the same program once more, at the same addresses. */
static int executes(int argc, char **argv)
{
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc < 3) {
        (void)personality(ADDR_NO_RANDOMIZE);
        execl("/proc/self/exe", argv[0], "executes", "first", (char *)NULL);
    }
    (void)!write(1, argv[2], 1);
    if (read(0, &byte, 1) == 1 && strcmp(argv[2], "first") == 0)
        execl("/proc/self/exe", argv[0], "executes", "second", (char *)NULL);
    return 1;
}

static void start_executing(struct target *t)
{
    int to[2], from[2];
    char said;
    assert_return_code(pipe2(to, O_CLOEXEC), errno);
    assert_return_code(pipe2(from, O_CLOEXEC), errno);
    t->pid = fork();
    if (t->pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        execl("/proc/self/exe", "executes", "executes", (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    t->to = to[1];
    t->from = from[0];
    assert_int_equal(read(t->from, &said, 1), 1);
    assert_int_equal(said, 'f');
    assert_int_equal(hw_pid_open(t->pid, &t->handle, NULL), HW_OK);
}

/* A copy of the library that cannot be opened until the lease is given back; -1 = no leases here.
 */
static int lease_library(char path[64])
{
    int to = copy_library(library, path);
    if (fcntl(to, F_SETLEASE, F_WRLCK) == 0)
        return to;
    close(to);
    unlink(path);
    return -1;
}

struct attempt {
    struct hw_inject_request q;
    struct hw_inject_result r;
    struct hw_error err;
    int rc;
};

static void *try_it(void *arg)
{
    struct attempt *a = arg;
    a->rc = hw_inject(&a->q, &a->r, &a->err);
    return NULL;
}

/* The library is opened when the process has been looked at; then that one executes its program
 * again. Nothing of what was found holds any more, though all of it would fit. */
static void another_image_is_left_alone(void **state)
{
    (void)state;
    struct target t;
    sigset_t io;
    char path[64], said;
    pthread_t thread;
    sigemptyset(&io);
    sigaddset(&io, SIGIO);
    pthread_sigmask(SIG_BLOCK, &io, NULL);
    int lease = program ? -1 : lease_library(path);
    if (lease < 0)
        skip();
    start_executing(&t);
    struct attempt a = {.q = {.pid = &t.handle,
                              .library = path,
                              .command = HW_ATTACH_HOOK,
                              .socket_path = "@heapwise-inject-test-nobody"}};
    assert_int_equal(pthread_create(&thread, NULL, try_it, &a), 0);
    assert_int_equal(sigtimedwait(&io, NULL, &(struct timespec){30, 0}), SIGIO);
    assert_int_equal(write(t.to, "x", 1), 1);
    assert_int_equal(read(t.from, &said, 1), 1);
    assert_int_equal(said, 's');
    close(lease); /* and on it goes */
    pthread_join(thread, NULL);
    unlink(path);
    assert_int_equal(a.rc, HW_EGONE);
    assert_non_null(strstr(a.err.text, "another program"));
    assert_int_equal(has_library(t.pid), 0);
    stop(&t);
}

/* The loader maps the first part and fails at the second: nothing of it is left, and the next attach
 * works. */
static void half_a_library_goes(void **state)
{
    (void)state;
    struct target t;
    struct hw_inject_result r;
    struct hw_error err;
    char path[64];
    if (program) /* loaded from outside */
        skip();
    close(copy_library(library, path));
    write_unloadable(path);
    start(&t, CALL_READ);
    struct hw_inject_request q = {.pid = &t.handle,
                                  .library = path,
                                  .command = HW_ATTACH_HOOK,
                                  .socket_path = "@heapwise-inject-test-nobody"};
    assert_int_equal(hw_inject(&q, &r, &err), HW_EUNSUPPORTED);
    assert_non_null(strstr(err.text, "dynamic linker"));
    assert_int_equal(has_library(t.pid), 0);
    unlink(path);
    q.library = library;
    assert_int_equal(hw_inject(&q, &r, &err), HW_OK);
    struct report p = take_report(&t, CALL_READ);
    check_report(CALL_READ, &p);
    stop(&t);
}

static int refuse(void *arg, const struct hw_pid *thread, struct hw_error *err)
{
    *(int *)arg += thread->pid > 0;
    return hw_fail(err, HW_EPERM, 0, "not any more");
}

/* Asked while it stands, whatever was said before. */
static void permission_is_asked_again(void **state)
{
    (void)state;
    struct target t;
    struct hw_inject_result r;
    struct hw_error err;
    int asked = 0;
    start(&t, CALL_READ);
    int maps = count_lines(t.pid, "maps");
    struct hw_inject_request q = {.pid = &t.handle,
                                  .library = library,
                                  .command = HW_ATTACH_HOOK,
                                  .socket_path = "@heapwise-inject-test-nobody",
                                  .may = refuse,
                                  .arg = &asked};
    assert_int_equal(hw_inject(&q, &r, &err), HW_EPERM);
    assert_true(asked > 0);
    assert_string_equal(err.text, "not any more");
    assert_int_equal(count_lines(t.pid, "maps"), maps);
    assert_int_equal(has_library(t.pid), 0);
    struct report p = take_report(&t, CALL_READ);
    check_report(CALL_READ, &p);
    stop(&t);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    if (strcmp(argv[1], "executes") == 0)
        return executes(argc, argv);
    library = argv[1];
    program = argc > 2 ? argv[2] : NULL;
#if !defined(__x86_64__)
    return 77;
#endif
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals_name_the_reason),  cmocka_unit_test(time_outs_go_on),
        cmocka_unit_test(stops_and_continues),       cmocka_unit_test(loaded_by_a_dead_recorder),
        cmocka_unit_test(hooks_come_and_go),         cmocka_unit_test(failures_leave_no_trace),
        cmocka_unit_test(half_a_library_goes),       cmocka_unit_test(another_image_is_left_alone),
        cmocka_unit_test(permission_is_asked_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

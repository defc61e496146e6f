/*
 * recorder_test.c - a service and its sessions: what it refuses, keeps, writes and lets go
 */
#include "served.h"

#include <linux/sched.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/arch.h"
#include "base/clock.h"
#include "base/error.h"
#include "config/config.h"
#include "daemon/code/worker.h"
#include "daemon/recorder.h"
#include "wire/handshake.h"

/* Executes n files that nobody else has. */
static void many_files_client(int n)
{
    struct hw_ring_writer w;
    for (int i = 0; i < n; i++) {
        char path[128], page[4096] = {0};
        snprintf(path, sizeof path, "%s/code-%d-%d", served_dir, getpid(), i);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
        if (fd < 0 || write(fd, page, sizeof page) != sizeof page ||
            mmap(NULL, sizeof page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
            _exit(1);
        close(fd);
    }
    for (int tries = 0; !served_shake_hands(&w); usleep(50000)) /* as a client does */
        if (++tries == 100)
            _exit(1);
    for (;;)
        pause();
}

/* The disk is full in the middle: a clear error, and the file keeps whole packets only. */
static void test_full_disk(void **state)
{
    (void)state;
    int out = memfd_create("out", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(out, 4096), 0);
    assert_int_equal(fcntl(out, F_ADD_SEALS, F_SEAL_GROW), 0);
    int fd = served_record("all: true block_client: true continuous_dump_config { dump_phase_ms: 1 "
                           "dump_interval_ms: 20 }",
                           out);
    assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
    pid_t a = served_run(served_good_client, 100);
    served_wait_until_done();
    assert_true(served_hear(fd, HW_CTL_ENDED, 0, 0));
    struct hw_control_ended e;
    memcpy(&e, served_body, sizeof e);
    assert_int_equal(e.status, HW_ESYS);
    assert_true(e.bytes_written <= 4096);
    assert_true(e.n_dumps >= 1);
    served_end(a);
    close(fd);
    close(out);
}

static void test_refusals(void **state)
{
    (void)state;
    int out = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int fd = served_record("all: true", out); /* not open for writing */
    assert_true(served_hear(fd, HW_CTL_ERROR, 0, 0));
    close(fd);
    close(out);
    fd = served_record("all: true", -1); /* no file at all */
    assert_true(served_hear(fd, HW_CTL_ERROR, 0, 0));
    close(fd);
    /* A pipe that nobody empties would stop the service for everybody. */
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    fd = served_record("all: true", ends[1]);
    assert_true(served_hear(fd, HW_CTL_ERROR, 0, 0));
    close(fd);
    close(ends[0]);
    close(ends[1]);
    /* A command that goes away ends its session. */
    out = memfd_create("out", MFD_CLOEXEC);
    fd = served_record("all: true", out);
    assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
    close(fd);
    served_wait_for_no_session();
    close(out);
}

/* A service runs for months: what its targets executed is let go with their sessions. */
static void test_files_are_let_go(void **state)
{
    (void)state;
    int before = served_descriptors();
    for (int round = 0; round < 3; round++) {
        int out = memfd_create("out", MFD_CLOEXEC);
        int fd = served_record("all: true", out);
        assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
        pid_t a = served_run(many_files_client, 200);
        assert_true(served_hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_CONNECTED, a));
        served_end(a);
        assert_true(served_hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_EXITED, a));
        served_tell(fd, HW_CTL_STOP, NULL, 0, -1);
        assert_true(served_hear(fd, HW_CTL_ENDED, 0, 0));
        close(fd);
        close(out);
        served_wait_for_no_session();
    }
    int after = served_descriptors();
    for (int i = 0; i < 6000 && after > before + 100; i++) {
        usleep(10000);
        after = served_descriptors();
    }
    assert_in_range(after, 0, (uintmax_t)before + 100);
}

/* What others ask about a session must fit in a message. */
static void test_long_name(void **state)
{
    (void)state;
    struct hw_error err = {0};
    struct hw_strbuf text = {0}, binary = {0}, b = {0};
    hw_strbuf_adds(&text, "buffers { size_kb: 64 } unique_session_name: \"");
    for (int i = 0; i < 60000; i++)
        hw_strbuf_adds(&text, "\\001");
    hw_strbuf_adds(&text, "\" data_sources { config { name: \"android.heapprofd\" } }");
    assert_int_equal(
        hw_config_text_to_binary("-", hw_bytes_of(text.p, text.n), false, &binary, &err), HW_OK);
    struct hw_control_start s = {.config_bytes = (uint32_t)binary.n};
    hw_strbuf_add(&b, &s, sizeof s);
    hw_strbuf_add(&b, binary.p, binary.n);
    int fd = served_dial(served_consumer), out = memfd_create("out", MFD_CLOEXEC);
    served_tell(fd, HW_CTL_START, b.p, b.n, out);
    served_tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
    assert_non_null(strstr(served_body, "\"sessions\":[]"));
    close(fd);
    close(out);
    hw_strbuf_done(&text);
    hw_strbuf_done(&binary);
    hw_strbuf_done(&b);
}

/* A socket's name that is somebody's file: refused, and the file stays. */
static void test_socket_on_a_file(void **state)
{
    (void)state;
    char path[100], other[100];
    snprintf(path, sizeof path, "%s/letter", served_dir);
    snprintf(other, sizeof other, "%s/other", served_dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, "dear", 4) == 4);
    close(fd);
    pid_t pid = fork();
    if (pid == 0) {
        struct hw_error err;
        struct hw_recorder_options o = {.controller_fd = -1,
                                        .producer_socket = path,
                                        .consumer_socket = other,
                                        .cache_dir = served_dir};
        alarm(10); /* the fault shows as a service that runs */
        _exit(hw_recorder_run(&o, &err) < 0 ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISREG(st.st_mode) && st.st_size == 4);
}

/* `ulimit -f`: a file that may not grow is an error, not the recorder's death. */
static void test_file_size_limit(void **state)
{
    (void)state;
    char p[100], c[100], saved[100];
    snprintf(p, sizeof p, "%s/producer2", served_dir);
    snprintf(c, sizeof c, "%s/consumer2", served_dir);
    pid_t pid = fork();
    if (pid == 0) {
        struct hw_error err;
        struct hw_recorder_options o = {.controller_fd = -1,
                                        .producer_socket = p,
                                        .consumer_socket = c,
                                        .cache_dir = served_dir};
        struct rlimit l = {8192, 8192};
        setrlimit(RLIMIT_FSIZE, &l);
        exit(hw_recorder_run(&o, &err) < 0);
    }
    memcpy(saved, served_consumer, sizeof saved);
    memcpy(served_consumer, c, sizeof c);
    int out = open(served_dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(out, 8192 - 16), 0);
    assert_true(lseek(out, 0, SEEK_END) > 0);
    int fd = served_record("all: true continuous_dump_config { dump_interval_ms: 20 }", out);
    memcpy(served_consumer, saved, sizeof saved);
    int status = -1;
    bool answered = served_hear(fd, HW_CTL_ERROR, 0, 0);
    kill(pid, SIGTERM);
    waitpid(pid, &status, 0);
    assert_true(answered);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(fd);
    close(out);
}

/* A command that asked for more than is kept for it still learns of its session's end. */
static void test_end_is_heard_behind_unread_news(void **state)
{
    (void)state;
    int out = memfd_create("out", MFD_CLOEXEC);
    int fd = served_record("all: true", out);
    assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
    served_tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
    const size_t kept = (4u << 20) + HW_CONTROL_MAX_BYTES; /* by the recorder and the socket */
    for (size_t n = 0; n < 2 * kept; n += strlen(served_body))
        served_tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    served_tell(fd, HW_CTL_STOP, NULL, 0, -1);
    served_wait_for_no_session();
    assert_true(served_hear(fd, HW_CTL_ENDED, 0, 0));
    close(fd);
    close(out);
}

static void stay(void)
{
    for (;;)
        pause();
}

/* Gives -1 without the right to choose a number. */
static pid_t run_as(void (*fn)(void), pid_t number)
{
    struct clone_args a = {
        .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&number, .set_tid_size = 1};
    pid_t pid = (pid_t)syscall(SYS_clone3, &a, sizeof a);
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
    fn();
    _exit(0);
}

/* A process that ended left its connection to a child; another one has its number by now. */
static void test_number_used_again(void **state)
{
    (void)state;
    int out = memfd_create("out", MFD_CLOEXEC), report[2];
    int fd = served_record("all: true", out);
    assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    pid_t first = fork();
    if (first == 0) {
        int s = served_dial(served_producer);
        if (fork() != 0)
            _exit(0);
        alarm(60); /* PDEATHSIG would be of the parent that ends now */
        char c;
        if (read(served_done[0], &c, 1) != 1) /* the number is taken */
            _exit(1);
        struct hw_hello h = {.magic = HW_HELLO_MAGIC,
                             .version = HW_WIRE_VERSION,
                             .arch = HW_ARCH_HERE,
                             .flags = HW_HELLO_STARTUP};
        struct hw_welcome w;
        if (send(s, &h, sizeof h, 0) != sizeof h)
            _exit(1);
        c = recv(s, &w, sizeof w, 0) == sizeof w && w.status == HW_WELCOME_PROFILE ? 'p' : 'n';
        _exit(write(report[1], &c, 1) != 1);
    }
    close(report[1]);
    waitpid(first, NULL, 0);
    pid_t second = run_as(stay, first);
    assert_int_equal(write(served_done[1], "", 1), 1);
    char c = 0;
    assert_int_equal(read(report[0], &c, 1), 1);
    if (second > 0)
        served_end(second);
    assert_int_equal(c, 'n');
    assert_true(second == first || second < 0); /* without the right to choose a number: nothing */
    close(fd);
    close(out);
    close(report[0]);
    served_wait_for_no_session();
}

static struct hw_welcome greet(void)
{
    struct hw_welcome w = {0};
    struct hw_hello h = {.magic = HW_HELLO_MAGIC,
                         .version = HW_WIRE_VERSION,
                         .arch = HW_ARCH_HERE,
                         .flags = HW_HELLO_STARTUP};
    int s = served_dial(served_producer);
    if (send(s, &h, sizeof h, 0) != sizeof h || recv(s, &w, sizeof w, 0) != sizeof w)
        _exit(1);
    return w;
}

static void greet_and_tell(void)
{
    char c = (char)('0' + greet().status);
    _exit(write(served_done[1], &c, 1) != 1);
}

static void stay_for(int unused)
{
    (void)unused;
    stay();
}

/* Who asked for a number meant the process that had it then, not one that has it later. */
static void test_later_process_of_that_number(void **state)
{
    (void)state;
    char options[40], c = 0;
    pid_t first = served_run(stay_for, 0);
    int out = memfd_create("out", MFD_CLOEXEC);
    (void)snprintf(options, sizeof options, "pid: %d", first);
    int fd = served_record(options, out);
    assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
    served_end(first);
    pid_t second = run_as(greet_and_tell, first);
    if (second > 0) {
        assert_int_equal(read(served_done[0], &c, 1), 1);
        assert_int_equal(c, '0' + HW_WELCOME_WAIT);
        served_end(second);
    }
    close(fd);
    close(out);
    served_wait_for_no_session();
    if (second < 0)
        skip();
}

/* Waits at the service, and leaves that connection to a child. */
static void leave_connection(int unused)
{
    (void)unused;
    if (greet().status != HW_WELCOME_WAIT)
        _exit(1);
    pid_t keeper = fork();
    if (keeper != 0)
        _exit(write(served_done[1], &keeper, sizeof keeper) != sizeof keeper);
    alarm(60); /* PDEATHSIG would be of the parent that ends now */
    stay();
}

/* Such a connection hides nobody from the recorder: of a process that has its number by now it says
 * what is with that one (here there is no library to attach with). */
static void test_number_of_a_connection(void **state)
{
    (void)state;
    char options[40];
    pid_t keeper, first = served_run(leave_connection, 0);
    assert_int_equal(waitpid(first, NULL, 0), first);
    assert_int_equal(read(served_done[0], &keeper, sizeof keeper), sizeof keeper);
    pid_t second = run_as(stay, first);
    if (second > 0) {
        int out = memfd_create("out", MFD_CLOEXEC);
        (void)snprintf(options, sizeof options, "pid: %d", second);
        int fd = served_record(options, out);
        assert_true(served_hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_FAILED, second));
        served_end(second);
        close(fd);
        close(out);
        served_wait_for_no_session();
    }
    kill(keeper, SIGKILL);
    if (second < 0)
        skip();
}

/* The workers' parent is busy, here: stopped. The recorder's end does not wait for it. */
static void test_workers_stop_at_once(void **state)
{
    (void)state;
    struct hw_workers w;
    assert_int_equal(hw_workers_start(&w, NULL), HW_OK);
    kill(w.pid, SIGSTOP);
    unsigned left = alarm(20);
    hw_workers_stop(&w);
    alarm(left);
}

/* Who starts a program because the recording has begun finds it later by the kernel's clock. */
static void test_started_is_later_than_the_start(void **state)
{
    (void)state;
    uint64_t tick = UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK);
    for (int i = 0; i < 10; i++) {
        int out = memfd_create("out", MFD_CLOEXEC);
        uint64_t before = hw_now_boottime_ns();
        int fd = served_record("process_cmdline: \"nobody\" no_startup: true", out);
        assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
        assert_in_range(hw_now_boottime_ns() / tick, before / tick + 1, UINT64_MAX);
        close(fd);
        close(out);
        served_wait_for_no_session();
    }
}

/* A forked child that asks, waits for nothing and ends. */
static void hasty_child(int unused)
{
    (void)unused;
    struct hw_hello h = {.magic = HW_HELLO_MAGIC,
                         .version = HW_WIRE_VERSION,
                         .arch = HW_ARCH_HERE,
                         .flags = HW_HELLO_FORKED};
    int fd = served_dial(served_producer);
    _exit(fd < 0 || send(fd, &h, sizeof h, 0) != sizeof h);
}

/* The kernel keeps fewer waiting at a socket when it is told so. */
static int most_that_wait(int wanted)
{
    int most = 0;
    FILE *f = fopen("/proc/sys/net/core/somaxconn", "re");
    if (f && fscanf(f, "%d", &most) != 1)
        most = 0;
    if (f)
        fclose(f);
    return most > 0 && most < wanted ? most : wanted;
}

/* What waits unread when the session is told to end belongs to it: every child is counted. */
static void test_children_before_the_end(void **state)
{
    (void)state;
    const int n = most_that_wait(600); /* more than are accepted, or heard, in one turn */
    int out = memfd_create("out", MFD_CLOEXEC);
    int fd = served_record("all: true", out);
    assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
    kill(served_pid, SIGSTOP);
    for (int i = 0; i < n; i++) {
        int status = -1;
        pid_t pid = served_run(hasty_child, 0);
        assert_true(waitpid(pid, &status, 0) == pid && status == 0);
    }
    served_tell(fd, HW_CTL_STOP, NULL, 0, -1);
    kill(served_pid, SIGCONT);
    assert_true(served_hear(fd, HW_CTL_ENDED, 0, 0));
    struct hw_control_ended e;
    memcpy(&e, served_body, sizeof e);
    assert_int_equal(e.n_missed, n);
    close(fd);
    close(out);
    served_wait_for_no_session();
}

static int all_tests(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_full_disk),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_files_are_let_go),
                                       cmocka_unit_test(test_long_name),
                                       cmocka_unit_test(test_socket_on_a_file),
                                       cmocka_unit_test(test_file_size_limit),
                                       cmocka_unit_test(test_end_is_heard_behind_unread_news),
                                       cmocka_unit_test(test_number_used_again),
                                       cmocka_unit_test(test_later_process_of_that_number),
                                       cmocka_unit_test(test_number_of_a_connection),
                                       cmocka_unit_test(test_workers_stop_at_once),
                                       cmocka_unit_test(test_children_before_the_end),
                                       cmocka_unit_test(test_started_is_later_than_the_start)};
    return cmocka_run_group_tests(tests, served_start, served_stop);
}

/* Recordings of all programs: here they see no others of the machine, whose number and size would be
 * this test's time. Without the right to that they do. */
int main(void)
{
    int status;
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return all_tests();
    pid_t first = fork();
    if (first != 0) /* no search for leaks: it starts a thread, and the namespace has ended */
        _exit(waitpid(first, &status, 0) == first && WIFEXITED(status) ? WEXITSTATUS(status) : 99);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mount("proc", "/proc", "proc", 0, NULL) < 0)
        _exit(98);
    pid_t tests = fork();
    if (tests == 0)
        exit(all_tests());
    for (pid_t ended; (ended = wait(&status)) != tests;) /* it inherits who has lost a parent */
        if (ended < 0)
            _exit(97);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
}

/*
 * recorder_test.c - a service in a child process, and clients of all kinds
 *
 * The clients here speak the wire themselves: good ones, and ones that scribble over ring and
 * socket. The session must live, and what the good ones sent must be in its books.
 */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "config/config.h"
#include "daemon/recorder.h"
#include "daemon/worker.h"
#include "unwind/walk.h"
#include "wire/control.h"
#include "wire/handshake.h"
#include "wire/ring.h"

static char dir[64], producer[100], consumer[100];
static pid_t service;
static int done[2]; /* a client writes a byte when all it had to say is in its ring */

static int dial(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    for (int i = 0; i < 500; i++) {
        if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
            return fd;
        usleep(10000);
    }
    close(fd);
    return -1;
}

static int n_descriptors(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", service);
    DIR *d = opendir(path);
    int n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static int start_service(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/hw-recorder-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    snprintf(producer, sizeof producer, "%s/producer", dir);
    snprintf(consumer, sizeof consumer, "%s/consumer", dir);
    if (pipe2(done, O_CLOEXEC) < 0)
        return -1;
    service = fork();
    if (service == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that was killed leaves nobody behind */
        struct hw_error err;
        struct hw_recorder_options o = {.controller_fd = -1,
                                        .producer_socket = producer,
                                        .consumer_socket = consumer,
                                        .cache_dir = dir};
        exit(hw_recorder_run(&o, &err) < 0);
    }
    return 0;
}

static int stop_service(void **state)
{
    (void)state;
    int status = -1;
    kill(service, SIGTERM);
    waitpid(service, &status, 0);
    char cmd[200];
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    (void)!system(cmd);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* ---- commands ---- */

static void tell(int fd, uint32_t type, const void *body, size_t n, int pass)
{
    struct hw_control_head h = {.version = HW_CONTROL_VERSION, .type = type, .length = (uint32_t)n};
    struct iovec iov[2] = {{&h, sizeof h}, {(void *)(uintptr_t)body, n}};
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};
    if (pass >= 0) {
        m.msg_control = control.bytes;
        m.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){CMSG_LEN(sizeof pass), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(c), &pass, sizeof pass);
    }
    assert_true(sendmsg(fd, &m, MSG_NOSIGNAL) >= 0);
}

static char body[HW_CONTROL_MAX_BYTES];

/* Waits for a message of this type (and state, for targets); body then holds what was in it. */
static bool hear(int fd, uint32_t type, uint32_t state, int32_t pid)
{
    static char buf[HW_CONTROL_MAX_BYTES + 64];
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 60000) <= 0)
            return false;
        ssize_t n = recv(fd, buf, sizeof buf, 0);
        struct hw_control_head h;
        if (n < (ssize_t)sizeof h)
            return false;
        memcpy(&h, buf, sizeof h);
        memcpy(body, buf + sizeof h, h.length);
        body[h.length] = '\0';
        struct hw_control_target_state t = {0};
        if (h.type == HW_CTL_TARGET_STATE)
            memcpy(&t, body, sizeof t);
        if (h.type == type && (type != HW_CTL_TARGET_STATE || (t.state == state && t.pid == pid)))
            return true;
    }
}

static int start_session(const char *options, int out)
{
    char text[600];
    struct hw_error err = {0};
    struct hw_strbuf binary = {0}, b = {0};
    snprintf(text, sizeof text,
             "buffers { size_kb: 64 }\ndata_sources { config { name: \"android.heapprofd\" "
             "heapprofd_config { sampling_interval_bytes: 1 %s } } }\n",
             options);
    assert_int_equal(hw_config_text_to_binary("-", hw_bytes_str(text), false, &binary, &err),
                     HW_OK);
    struct hw_control_start s = {.config_bytes = (uint32_t)binary.n};
    hw_strbuf_add(&b, &s, sizeof s);
    hw_strbuf_add(&b, binary.p, binary.n);
    int fd = dial(consumer);
    assert_true(fd >= 0);
    tell(fd, HW_CTL_START, b.p, b.n, out);
    hw_strbuf_done(&b);
    hw_strbuf_done(&binary);
    return fd;
}

/* ---- clients: each a process of its own ---- */

static bool shake_hands(struct hw_ring_writer *w)
{
    int fd = dial(producer);
    struct hw_hello h = {.magic = HW_HELLO_MAGIC,
                         .version = HW_WIRE_VERSION,
                         .arch = HW_ARCH_HERE,
                         .flags = HW_HELLO_STARTUP};
    if (fd < 0 || send(fd, &h, sizeof h, 0) != sizeof h)
        return false;
    struct hw_welcome wel;
    union {
        char bytes[CMSG_SPACE(sizeof(int) * HW_WELCOME_FDS)];
        struct cmsghdr align;
    } control;
    struct iovec iov = {&wel, sizeof wel};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = sizeof control.bytes};
    if (recvmsg(fd, &m, 0) != sizeof wel || wel.status != HW_WELCOME_PROFILE)
        return false;
    int fds[HW_WELCOME_FDS];
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fds);
    /* What we were given cannot be shrunk or grown under the recorder. */
    for (int i = 0; i < HW_WELCOME_FDS; i++)
        if (ftruncate(fds[i], 0) == 0)
            return false;
    return hw_ring_attach(fds[1], w) == HW_OK;
}

static void good_client(int n)
{
    struct hw_ring_writer w;
    if (!shake_hands(&w))
        _exit(1);
    struct {
        struct hw_rec_stack h;
        uint64_t pc[2], exact;
    } s = {.h = {.stack_id = 5, .n_frames = 2, .stop = HW_STOP_END}, .pc = {0x1111, 0x2222}};
    uint64_t pos = hw_ring_reserve(&w, sizeof s);
    memcpy((char *)hw_ring_at(&w, pos) + 8, (char *)&s + 8, sizeof s - 8);
    hw_ring_commit(&w, pos, sizeof s, HW_REC_STACK);
    for (int i = 0; i < n; i++) {
        struct hw_rec_alloc a = {.alloc_size = 10, .sample_size = 10, .stack_id = 5, .heap_id = 1};
        while (!(pos = hw_ring_reserve(&w, sizeof a)))
            usleep(100);
        memcpy((char *)hw_ring_at(&w, pos) + 8, (char *)&a + 8, sizeof a - 8);
        hw_ring_commit(&w, pos, sizeof a, HW_REC_ALLOC);
    }
    if (write(done[1], "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void wait_until_done(void)
{
    char c;
    assert_int_equal(read(done[0], &c, 1), 1);
}

/* Executes n files that nobody else has. */
static void many_files_client(int n)
{
    struct hw_ring_writer w;
    for (int i = 0; i < n; i++) {
        char path[128], page[4096] = {0};
        snprintf(path, sizeof path, "%s/code-%d-%d", dir, getpid(), i);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
        if (fd < 0 || write(fd, page, sizeof page) != sizeof page ||
            mmap(NULL, sizeof page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
            _exit(1);
        close(fd);
    }
    if (!shake_hands(&w))
        _exit(1);
    for (;;)
        pause();
}

static void hostile_client(int kind)
{
    struct hw_ring_writer w;
    if (!shake_hands(&w))
        _exit(1);
    uint64_t x = 0x9e3779b97f4a7c15u;
    volatile uint8_t *p = (volatile uint8_t *)w.shm;
    for (size_t i = 0; kind == 0 && i < 200000; i++) { /* everything, again and again */
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        size_t at = i % 2 ? x % 256 : x % (4096 + w.mask + 1);
        p[at] = (uint8_t)(x >> 40);
    }
    if (kind == 1) /* a claim that nobody could have made */
        atomic_store(&w.shm->write_pos, UINT64_MAX / 2);
    if (kind == 2) { /* a record in good order with a lie inside */
        uint64_t pos = hw_ring_reserve(&w, 24);
        struct hw_rec_stack s = {.stack_id = 1, .n_frames = 0xffffffff};
        memcpy((char *)hw_ring_at(&w, pos) + 8, (char *)&s + 8, sizeof s - 8);
        hw_ring_commit(&w, pos, 24, HW_REC_STACK);
    }
    for (;;)
        pause();
}

static pid_t run(void (*fn)(int), int arg)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
        fn(arg);
        _exit(0);
    }
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- tests ---- */

static void test_garbage_on_sockets(void **state)
{
    (void)state;
    uint64_t x = 1234567;
    char junk[4096];
    for (int i = 0; i < 60; i++) {
        int fd = dial(i % 2 ? producer : consumer);
        assert_true(fd >= 0);
        for (size_t k = 0; k < sizeof junk; k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            junk[k] = (char)x;
        }
        if (i % 4 >= 2) /* a right head with a wrong body */
            memcpy(junk,
                   &(struct hw_control_head){.version = HW_CONTROL_VERSION,
                                             .type = (uint32_t)i % 11,
                                             .length = (uint32_t)(i * 40)},
                   sizeof(struct hw_control_head));
        (void)!send(fd, junk, 24 + (size_t)i * 40, MSG_NOSIGNAL);
        (void)!send(fd, junk, 8, MSG_NOSIGNAL);
        close(fd);
    }
    int fd = dial(consumer);
    tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    assert_true(hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
    assert_non_null(strstr(body, "\"sessions\""));
    tell(fd, HW_CTL_STOP, NULL, 0, -1); /* nothing to stop: said, not fatal */
    assert_true(hear(fd, HW_CTL_ERROR, 0, 0));
    close(fd);
}

static void test_hostile_among_good(void **state)
{
    (void)state;
    int out = memfd_create("out", MFD_CLOEXEC);
    int fd = start_session("all: true block_client: true", out);
    assert_true(hear(fd, HW_CTL_STARTED, 0, 0));
    pid_t a = run(good_client, 1000);
    assert_true(hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_CONNECTED, a));
    pid_t bad[3];
    for (int i = 0; i < 3; i++) {
        bad[i] = run(hostile_client, i);
        assert_true(hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_CONNECTED, bad[i]));
        assert_true(hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_FAILED, bad[i]));
    }
    pid_t b = run(good_client, 500);
    assert_true(hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_CONNECTED, b));
    wait_until_done(); /* a's or b's */
    wait_until_done();
    end(b); /* killed: what it had sent counts */
    assert_true(hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_EXITED, b));
    tell(fd, HW_CTL_STOP, NULL, 0, -1);
    assert_true(hear(fd, HW_CTL_ENDED, 0, 0));
    struct hw_control_ended e;
    memcpy(&e, body, sizeof e);
    assert_int_equal(e.status, 0);
    assert_int_equal(e.n_targets, 5);
    assert_true(e.n_samples >= 1500);
    assert_true(e.n_dumps >= 1);
    for (int i = 0; i < 3; i++)
        end(bad[i]);
    end(a);
    close(fd);
    close(out);
}

/* The disk is full in the middle: a clear error, and the file keeps whole packets only. */
static void test_full_disk(void **state)
{
    (void)state;
    int out = memfd_create("out", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(out, 4096), 0);
    assert_int_equal(fcntl(out, F_ADD_SEALS, F_SEAL_GROW), 0);
    int fd = start_session("all: true block_client: true continuous_dump_config { dump_phase_ms: 1 "
                           "dump_interval_ms: 20 }",
                           out);
    assert_true(hear(fd, HW_CTL_STARTED, 0, 0));
    pid_t a = run(good_client, 100);
    wait_until_done();
    assert_true(hear(fd, HW_CTL_ENDED, 0, 0));
    struct hw_control_ended e;
    memcpy(&e, body, sizeof e);
    assert_int_equal(e.status, HW_ESYS);
    assert_true(e.bytes_written <= 4096);
    assert_true(e.n_dumps >= 1);
    end(a);
    close(fd);
    close(out);
}

static void test_refusals(void **state)
{
    (void)state;
    int out = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int fd = start_session("all: true", out); /* not open for writing */
    assert_true(hear(fd, HW_CTL_ERROR, 0, 0));
    close(fd);
    close(out);
    fd = start_session("all: true", -1); /* no file at all */
    assert_true(hear(fd, HW_CTL_ERROR, 0, 0));
    close(fd);
    /* A pipe that nobody empties would stop the service for everybody. */
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    fd = start_session("all: true", ends[1]);
    assert_true(hear(fd, HW_CTL_ERROR, 0, 0));
    close(fd);
    close(ends[0]);
    close(ends[1]);
    /* A command that goes away ends its session. */
    out = memfd_create("out", MFD_CLOEXEC);
    fd = start_session("all: true", out);
    assert_true(hear(fd, HW_CTL_STARTED, 0, 0));
    close(fd);
    fd = dial(consumer);
    for (int i = 0; i < 100; i++) {
        tell(fd, HW_CTL_STATUS, NULL, 0, -1);
        assert_true(hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
        if (strstr(body, "\"sessions\":[]"))
            break;
        usleep(20000);
    }
    assert_non_null(strstr(body, "\"sessions\":[]"));
    close(fd);
    close(out);
}

static void wait_for_no_session(void)
{
    int fd = dial(consumer);
    for (int i = 0; i < 500; i++) {
        tell(fd, HW_CTL_STATUS, NULL, 0, -1);
        assert_true(hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
        if (strstr(body, "\"sessions\":[]"))
            break;
        usleep(20000);
    }
    assert_non_null(strstr(body, "\"sessions\":[]"));
    close(fd);
}

/* A service runs for months: what its targets executed is let go with their sessions. */
static void test_files_are_let_go(void **state)
{
    (void)state;
    int before = n_descriptors();
    for (int round = 0; round < 3; round++) {
        int out = memfd_create("out", MFD_CLOEXEC);
        int fd = start_session("all: true", out);
        assert_true(hear(fd, HW_CTL_STARTED, 0, 0));
        pid_t a = run(many_files_client, 200);
        assert_true(hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_CONNECTED, a));
        end(a);
        assert_true(hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_EXITED, a));
        tell(fd, HW_CTL_STOP, NULL, 0, -1);
        assert_true(hear(fd, HW_CTL_ENDED, 0, 0));
        close(fd);
        close(out);
        wait_for_no_session();
    }
    int after = n_descriptors();
    for (int i = 0; i < 500 && after > before + 100; i++) {
        usleep(10000);
        after = n_descriptors();
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
    int fd = dial(consumer), out = memfd_create("out", MFD_CLOEXEC);
    tell(fd, HW_CTL_START, b.p, b.n, out);
    tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    assert_true(hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
    assert_non_null(strstr(body, "\"sessions\":[]"));
    close(fd);
    close(out);
    hw_strbuf_done(&text);
    hw_strbuf_done(&binary);
    hw_strbuf_done(&b);
}

static void flood(int unused)
{
    struct hw_control_head h = {.version = HW_CONTROL_VERSION, .type = HW_CTL_STATUS};
    int fd = dial(consumer);
    (void)unused;
    while (send(fd, &h, sizeof h, MSG_NOSIGNAL) > 0)
        ; /* and never reads an answer */
    for (;;)
        pause();
}

/* One command that asks without end does not keep the others waiting. */
static void test_flood_of_requests(void **state)
{
    (void)state;
    pid_t bad[3];
    for (int i = 0; i < 3; i++)
        bad[i] = run(flood, 0);
    usleep(200000);
    int fd = dial(consumer);
    tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    assert_true(hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
    close(fd);
    for (int i = 0; i < 3; i++)
        end(bad[i]);
}

/* A socket's name that is somebody's file: refused, and the file stays. */
static void test_socket_on_a_file(void **state)
{
    (void)state;
    char path[100], other[100];
    snprintf(path, sizeof path, "%s/letter", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, "dear", 4) == 4);
    close(fd);
    pid_t pid = fork();
    if (pid == 0) {
        struct hw_error err;
        struct hw_recorder_options o = {.controller_fd = -1,
                                        .producer_socket = path,
                                        .consumer_socket = other,
                                        .cache_dir = dir};
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
    snprintf(p, sizeof p, "%s/producer2", dir);
    snprintf(c, sizeof c, "%s/consumer2", dir);
    pid_t pid = fork();
    if (pid == 0) {
        struct hw_error err;
        struct hw_recorder_options o = {
            .controller_fd = -1, .producer_socket = p, .consumer_socket = c, .cache_dir = dir};
        struct rlimit l = {8192, 8192};
        setrlimit(RLIMIT_FSIZE, &l);
        exit(hw_recorder_run(&o, &err) < 0);
    }
    memcpy(saved, consumer, sizeof saved);
    memcpy(consumer, c, sizeof c);
    int out = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(out, 8192 - 16), 0);
    assert_true(lseek(out, 0, SEEK_END) > 0);
    int fd = start_session("all: true continuous_dump_config { dump_interval_ms: 20 }", out);
    memcpy(consumer, saved, sizeof saved);
    int status = -1;
    bool answered = hear(fd, HW_CTL_ERROR, 0, 0);
    kill(pid, SIGTERM);
    waitpid(pid, &status, 0);
    assert_true(answered);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(fd);
    close(out);
}

/* ---- limits and lies ---- */

static uint64_t service_cpu_ms(void)
{
    char path[64], text[1024];
    unsigned long user, kernel;
    snprintf(path, sizeof path, "/proc/%d/stat", service);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    assert_true(n > 0);
    text[n] = '\0';
    assert_int_equal(sscanf(strrchr(text, ')') + 1,
                            " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel),
                     2);
    return (user + kernel) * 1000 / (unsigned long)sysconf(_SC_CLK_TCK);
}

/* Without descriptors nobody can be let in; that must not become a busy loop. */
static void test_out_of_descriptors(void **state)
{
    (void)state;
    struct rlimit old, few = {20, 65536};
    int fds[40], n = 0;
    assert_int_equal(prlimit(service, RLIMIT_NOFILE, NULL, &old), 0);
    few.rlim_max = old.rlim_max;
    assert_int_equal(prlimit(service, RLIMIT_NOFILE, &few, NULL), 0);
    for (; n < 40; n++)
        fds[n] = dial(n % 2 ? producer : consumer);
    uint64_t before = service_cpu_ms();
    usleep(1000000);
    uint64_t used = service_cpu_ms() - before;
    for (int i = 0; i < n; i++)
        close(fds[i]);
    assert_int_equal(prlimit(service, RLIMIT_NOFILE, &old, NULL), 0);
    assert_in_range(used, 0, 300);
    int fd = dial(consumer);
    tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    assert_true(hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
    close(fd);
}

static void take_all(int n)
{
    if (setresuid(65534, 65534, 65534) < 0)
        _exit(1);
    for (int i = 0; i < n; i++)
        if (dial(consumer) < 0)
            _exit(1);
    if (write(done[1], "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

/* One user's connections do not shut the others out. */
static void test_quota_of_a_user(void **state)
{
    (void)state;
    if (getuid() != 0)
        skip();
    assert_int_equal(chmod(dir, 0711), 0);
    pid_t a = run(take_all, 300);
    wait_until_done();
    int fd = dial(consumer);
    tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    assert_true(hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
    close(fd);
    end(a);
    assert_int_equal(chmod(dir, 0700), 0);
}

/* A command that asked for more than is kept for it still learns of its session's end. */
static void test_end_is_heard_behind_unread_news(void **state)
{
    (void)state;
    int out = memfd_create("out", MFD_CLOEXEC);
    int fd = start_session("all: true", out);
    assert_true(hear(fd, HW_CTL_STARTED, 0, 0));
    for (int i = 0; i < 40000; i++)
        tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    tell(fd, HW_CTL_STOP, NULL, 0, -1);
    wait_for_no_session();
    assert_true(hear(fd, HW_CTL_ENDED, 0, 0));
    close(fd);
    close(out);
}

/* A process that ended left its connection to a child; another one has its number by now. */
static void test_number_used_again(void **state)
{
    (void)state;
    int out = memfd_create("out", MFD_CLOEXEC), report[2];
    int fd = start_session("all: true", out);
    assert_true(hear(fd, HW_CTL_STARTED, 0, 0));
    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    pid_t first = fork();
    if (first == 0) {
        int s = dial(producer);
        if (fork() != 0)
            _exit(0);
        alarm(60); /* PDEATHSIG would be of the parent that ends now */
        char c;
        if (read(done[0], &c, 1) != 1) /* the number is taken */
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
    struct clone_args a = {
        .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&first, .set_tid_size = 1};
    pid_t second = (pid_t)syscall(SYS_clone3, &a, sizeof a);
    if (second == 0)
        for (;;)
            pause();
    assert_int_equal(write(done[1], "", 1), 1);
    char c = 0;
    assert_int_equal(read(report[0], &c, 1), 1);
    if (second > 0)
        end(second);
    assert_int_equal(c, 'n');
    assert_true(second == first || second < 0); /* without the right to choose a number: nothing */
    close(fd);
    close(out);
    close(report[0]);
    wait_for_no_session();
}

/* The workers' parent is busy, here: stopped. The recorder's end does not wait for it. */
static void test_workers_stop_at_once(void **state)
{
    (void)state;
    struct hw_workers w;
    assert_int_equal(hw_workers_start(&w, NULL), HW_OK);
    kill(w.pid, SIGSTOP);
    alarm(20);
    hw_workers_stop(&w);
    alarm(0);
}

/* Asks for its mappings to be read, all 20,000 of them, again and again. */
static void asking_client(int unused)
{
    struct hw_ring_writer w;
    (void)unused;
    for (int i = 0; i < 20000; i++)
        if (mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
            MAP_FAILED)
            _exit(1);
    if (!shake_hands(&w) || write(done[1], "", 1) != 1)
        _exit(1);
    for (uint64_t pc = 4096;; pc += 16) {
        struct hw_rec_maps m = {.pc = pc};
        uint64_t pos = hw_ring_reserve(&w, sizeof m);
        if (pos) {
            memcpy((char *)hw_ring_at(&w, pos) + 8, (char *)&m + 8, sizeof m - 8);
            hw_ring_commit(&w, pos, sizeof m, HW_REC_MAPS);
        }
        usleep(500);
    }
}

static void test_maps_are_not_read_for_ever(void **state)
{
    (void)state;
    int out = memfd_create("out", MFD_CLOEXEC);
    int fd = start_session("all: true", out);
    assert_true(hear(fd, HW_CTL_STARTED, 0, 0));
    pid_t a = run(asking_client, 0);
    wait_until_done();
    usleep(500000); /* the burst is over */
    uint64_t before = service_cpu_ms();
    usleep(2000000);
    uint64_t used = service_cpu_ms() - before;
    end(a);
    close(fd);
    close(out);
    wait_for_no_session();
    assert_in_range(used, 0, 400);
}

/* ---- memory ---- */

static void put(struct hw_ring_writer *w, const void *rec, uint32_t size, enum hw_rec_type type)
{
    uint64_t pos;
    for (int i = 0; !(pos = hw_ring_reserve(w, size)); i++) {
        if (i > 30000) /* nobody reads any more */
            for (;;)
                pause();
        usleep(100);
    }
    memcpy((char *)hw_ring_at(w, pos) + 8, (const char *)rec + 8, size - 8);
    hw_ring_commit(w, pos, size, type);
}

/* 0: another stack each time; 1: samples that are never freed; 2: each stack in each heap. */
static void greedy_client(int kind)
{
    struct hw_ring_writer w;
    enum { FRAMES = 128 };
    struct {
        struct hw_rec_stack h;
        uint64_t pc[FRAMES], exact[FRAMES / 64];
    } s = {.h = {.n_frames = FRAMES, .stop = HW_STOP_END}};
    struct hw_rec_alloc a = {.alloc_size = 10, .sample_size = 10, .heap_id = 1};
    if (!shake_hands(&w))
        _exit(1);
    for (uint64_t i = 1;; i++) {
        a.stack_id = kind == 1 ? 1 : i;
        s.h.stack_id = i;
        s.h.n_frames = kind == 2 ? 1 : FRAMES;
        uint32_t size = kind == 2 ? (uint32_t)(sizeof s.h + 16) : (uint32_t)sizeof s;
        for (size_t k = 0; k < FRAMES; k++)
            s.pc[k] = i * 4096 + k * 16;
        if (kind != 1 || i == 1)
            put(&w, &s, size, HW_REC_STACK);
        for (uint32_t heap = 1; heap < (kind == 2 && i % 65536 == 0 ? HW_MAX_HEAPS : 2); heap++) {
            a.heap_id = heap;
            put(&w, &a, sizeof a, HW_REC_ALLOC);
        }
    }
}

static uint64_t peak_mb(pid_t pid)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    assert_true(n > 0);
    text[n] = '\0';
    return strtoull(strstr(text, "VmHWM:") + 6, NULL, 10) / 1024;
}

/* Whatever a target sends, it is its own profile that ends, and what it showed is written. */
static void test_greedy_targets(void **state)
{
    (void)state;
    char saved[2][100];
    memcpy(saved[0], producer, sizeof producer);
    memcpy(saved[1], consumer, sizeof consumer);
    snprintf(producer, sizeof producer, "%s/producer3", dir);
    snprintf(consumer, sizeof consumer, "%s/consumer3", dir);
    pid_t pid = fork();
    if (pid == 0) {
        struct hw_error err;
        struct hw_recorder_options o = {.controller_fd = -1,
                                        .producer_socket = producer,
                                        .consumer_socket = consumer,
                                        .cache_dir = dir};
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("HEAPWISE_MEMORY_MB", "256", 1); /* 64 a target */
        exit(hw_recorder_run(&o, &err) < 0);
    }
    int out = memfd_create("out", MFD_CLOEXEC);
    int fd = start_session("all: true block_client: true", out);
    assert_true(hear(fd, HW_CTL_STARTED, 0, 0));
    pid_t good = run(good_client, 100);
    wait_until_done();
    for (int kind = 0; kind < 3; kind++) {
        pid_t bad = run(greedy_client, kind);
        assert_true(hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_FAILED, bad));
        end(bad);
    }
    uint64_t peak = peak_mb(pid);
    tell(fd, HW_CTL_STOP, NULL, 0, -1);
    assert_true(hear(fd, HW_CTL_ENDED, 0, 0));
    struct hw_control_ended e;
    memcpy(&e, body, sizeof e);
    end(good);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    close(fd);
    close(out);
    memcpy(producer, saved[0], sizeof producer);
    memcpy(consumer, saved[1], sizeof consumer);
    assert_int_equal(e.status, 0);
    assert_int_equal(e.n_targets, 4);
    assert_true(e.n_dumps >= 4);
    print_message("peak %d MiB\n", (int)peak);
#ifndef __SANITIZE_THREAD__ /* which keeps notes on every byte */
    assert_in_range(peak, 1, 400);
#endif
}

/* ---- a file system that does not answer ---- */

struct fuse_request {
    struct fuse_in_header h;
    char rest[1 << 17];
};

static void fuse_reply(int fd, const struct fuse_request *q, const void *body_of, size_t n)
{
    char out[512] = {0};
    struct fuse_out_header h = {.len = (uint32_t)(sizeof h + n), .unique = q->h.unique};
    h.error = body_of || n == 0 ? 0 : -ENOSYS;
    if (h.error)
        h.len = sizeof h;
    memcpy(out, &h, sizeof h);
    if (body_of)
        memcpy(out + sizeof h, body_of, n);
    (void)!write(fd, out, h.len);
}

/* One file in the root, of which nothing can be read; until told to be silent. */
static void serve_files(int fd, const volatile bool *silent)
{
    static struct fuse_request q;
    struct fuse_attr file = {.ino = 2, .size = 65536, .mode = S_IFREG | 0755, .nlink = 1};
    struct fuse_attr root = {.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2};
    while (read(fd, &q, sizeof q) > 0) {
        if (*silent)
            continue;
        struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096};
        struct fuse_entry_out entry = {.nodeid = 2, .attr = file};
        struct fuse_attr_out attr = {.attr = q.h.nodeid == 1 ? root : file};
        struct fuse_open_out opened = {.fh = 1};
        if (q.h.opcode == FUSE_INIT)
            fuse_reply(fd, &q, &init, sizeof init);
        else if (q.h.opcode == FUSE_LOOKUP)
            fuse_reply(fd, &q, &entry, sizeof entry);
        else if (q.h.opcode == FUSE_GETATTR)
            fuse_reply(fd, &q, &attr, sizeof attr);
        else if (q.h.opcode == FUSE_OPEN)
            fuse_reply(fd, &q, &opened, sizeof opened);
        else if (q.h.opcode == FUSE_FLUSH || q.h.opcode == FUSE_ACCESS)
            fuse_reply(fd, &q, NULL, 0);
        else
            fuse_reply(fd, &q, NULL, 1);
    }
    _exit(0);
}

/* Executes a file that it serves itself. */
static void silent_files_client(int unused)
{
    char path[128], options[128], said = 'n';
    (void)unused;
    volatile bool *silent =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/fuse", dir);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, getuid(),
             getgid());
    if (fd >= 0 && unshare(CLONE_NEWNS) == 0 &&
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
        (mkdir(path, 0700) == 0 || errno == EEXIST) &&
        mount("hw", path, "fuse", MS_NOSUID | MS_NODEV, options) == 0) {
        pid_t server = fork();
        if (server == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve_files(fd, silent);
        }
        close(fd);
        snprintf(path, sizeof path, "%s/fuse/f", dir);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        if (file >= 0 &&
            mmap(NULL, 65536, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) != MAP_FAILED)
            said = 'y';
        close(file); /* its end would wait for an answer, too */
        *silent = true;
    }
    if (write(done[1], &said, 1) != 1 || said == 'n')
        _exit(1);
    struct hw_ring_writer w;
    (void)shake_hands(&w);
    if (write(done[1], "", 1) != 1) /* refused, or welcome */
        _exit(1);
    for (;;)
        pause();
}

static void test_files_that_do_not_answer(void **state)
{
    (void)state;
    int out = memfd_create("out", MFD_CLOEXEC);
    int fd = start_session("all: true", out);
    char can;
    assert_true(hear(fd, HW_CTL_STARTED, 0, 0));
    pid_t bad = run(silent_files_client, 0);
    assert_int_equal(read(done[0], &can, 1), 1);
    if (can == 'y') {
        wait_until_done();
        pid_t good = run(good_client, 10);
        assert_true(hear(fd, HW_CTL_TARGET_STATE, HW_TARGET_CONNECTED, good));
        wait_until_done();
        end(good);
    }
    tell(fd, HW_CTL_STOP, NULL, 0, -1);
    assert_true(hear(fd, HW_CTL_ENDED, 0, 0));
    end(bad);
    close(fd);
    close(out);
    if (can != 'y')
        skip(); /* no FUSE here */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_garbage_on_sockets),
                                       cmocka_unit_test(test_hostile_among_good),
                                       cmocka_unit_test(test_full_disk),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_files_are_let_go),
                                       cmocka_unit_test(test_long_name),
                                       cmocka_unit_test(test_flood_of_requests),
                                       cmocka_unit_test(test_socket_on_a_file),
                                       cmocka_unit_test(test_file_size_limit),
                                       cmocka_unit_test(test_out_of_descriptors),
                                       cmocka_unit_test(test_quota_of_a_user),
                                       cmocka_unit_test(test_end_is_heard_behind_unread_news),
                                       cmocka_unit_test(test_number_used_again),
                                       cmocka_unit_test(test_workers_stop_at_once),
                                       cmocka_unit_test(test_maps_are_not_read_for_ever),
                                       cmocka_unit_test(test_greedy_targets),
                                       cmocka_unit_test(test_files_that_do_not_answer)};
    return cmocka_run_group_tests(tests, start_service, stop_service);
}

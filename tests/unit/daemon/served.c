/*
 * served.c - see served.h; the clients speak the wire themselves
 */
#include "served.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/arch.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "config/config.h"
#include "daemon/recorder.h"
#include "unwind/walk.h"
#include "wire/handshake.h"

#define HANGS_S 300 /* without a message that was waited for */

char served_dir[64], served_producer[100], served_consumer[100];
pid_t served_pid;
unsigned served_stop_timeout_ms;
char served_body[HW_CONTROL_MAX_BYTES];
int served_done[2]; /* a client writes a byte when all it had to say is in its ring */
int served_dial(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    for (int i = 0; i < 6000; i++) { /* a minute: it hangs then */
        if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
            return fd;
        usleep(10000);
    }
    close(fd);
    return -1;
}

int served_descriptors(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", served_pid);
    DIR *d = opendir(path);
    int n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static void explain(const char *what, uint32_t type, int32_t pid);

static pid_t tester;

static void on_alarm(int signal)
{
    (void)signal;
    if (getpid() != tester)
        _exit(1);
    explain("the tests hang", 0, 0);
    kill(served_pid, SIGKILL);
    _exit(1);
}

int served_start(void **state)
{
    (void)state;
    tester = getpid();
    (void)signal(SIGALRM, on_alarm);
    alarm(HANGS_S); /* again with each message; children have none */
    snprintf(served_dir, sizeof served_dir, "/tmp/hw-recorder-XXXXXX");
    if (!mkdtemp(served_dir))
        return -1;
    snprintf(served_producer, sizeof served_producer, "%s/producer", served_dir);
    snprintf(served_consumer, sizeof served_consumer, "%s/consumer", served_dir);
    if (pipe2(served_done, O_CLOEXEC) < 0)
        return -1;
    served_pid = fork();
    if (served_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that was killed leaves nobody behind */
        struct hw_error err;
        struct hw_recorder_options o = {.controller_fd = -1,
                                        .producer_socket = served_producer,
                                        .consumer_socket = served_consumer,
                                        .cache_dir = served_dir};
        exit(hw_recorder_run(&o, &err) < 0);
    }
    return 0;
}

int served_stop(void **state)
{
    (void)state;
    int status = -1;
    kill(served_pid, SIGTERM);
    waitpid(served_pid, &status, 0);
    if (status != 0)
        print_message("the service ended with exit status %d, signal %d\n", WEXITSTATUS(status),
                      WTERMSIG(status));
    char cmd[200];
    snprintf(cmd, sizeof cmd, "rm -rf %s", served_dir);
    (void)!system(cmd);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* ---- commands ---- */

void served_tell(int fd, uint32_t type, const void *sent, size_t n, int pass)
{
    struct hw_control_head h = {.version = HW_CONTROL_VERSION, .type = type, .length = (uint32_t)n};
    struct iovec iov[2] = {{&h, sizeof h}, {(void *)(uintptr_t)sent, n}};
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

/* ---- what went wrong: printed when a message did not come ---- */

static char heard[16][160]; /* the last ones that were not waited for */
static unsigned n_heard;

static void note_other(const struct hw_control_head *h, const struct hw_control_target_state *t)
{
    bool is_state = h->type == HW_CTL_TARGET_STATE;
    (void)snprintf(heard[n_heard++ % 16], sizeof heard[0], "type %u state %u pid %d: %.100s",
                   h->type, t->state, t->pid, served_body + (is_state ? sizeof *t : 0));
}

static void print_file(const char *path)
{
    char line[256];
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        print_message("%s: %s", path, line);
    if (f)
        fclose(f);
}

/* Where the service's threads are, and what it told meanwhile. */
static void explain(const char *what, uint32_t type, int32_t pid)
{
    char path[64];
    print_message("message %u (pid %d): %s; %u others came:\n", type, pid, what, n_heard);
    for (unsigned i = n_heard > 16 ? n_heard - 16 : 0; i < n_heard; i++)
        print_message("  %s\n", heard[i % 16]);
    snprintf(path, sizeof path, "/proc/%d/task", served_pid);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        static const char *const files[] = {"comm", "stat", "wchan", "syscall", "stack"};
        for (size_t i = 0; e->d_name[0] != '.' && i < HW_ARRAY_LEN(files); i++) {
            char file[400];
            snprintf(file, sizeof file, "%s/%s/%s", path, e->d_name, files[i]);
            print_file(file);
        }
    }
    if (d)
        closedir(d);
}

/* Waits for a message of this type (and state, for targets); body then holds what was in it. */
bool served_hear(int fd, uint32_t type, uint32_t state, int32_t pid)
{
    static char buf[HW_CONTROL_MAX_BYTES + 64];
    const char *what = "it did not come in time";
    n_heard = 0;
    /* Other programs of the machine are told of, too: a message that never comes must not be waited for as long as others
     * do. */
    for (uint64_t end = hw_now_monotonic_ns() + UINT64_C(60000000000);
         hw_now_monotonic_ns() < end;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 60000) <= 0)
            break;
        ssize_t n = recv(fd, buf, sizeof buf, 0);
        struct hw_control_head h;
        if (n < (ssize_t)sizeof h) {
            what = "the connection ended";
            break;
        }
        memcpy(&h, buf, sizeof h);
        memcpy(served_body, buf + sizeof h, h.length);
        served_body[h.length] = '\0';
        struct hw_control_target_state t = {0};
        if (h.type == HW_CTL_TARGET_STATE)
            memcpy(&t, served_body, sizeof t);
        if (h.type == type && (type != HW_CTL_TARGET_STATE || (t.state == state && t.pid == pid))) {
            alarm(HANGS_S);
            return true;
        }
        note_other(&h, &t);
    }
    explain(what, type, pid);
    return false;
}

int served_record(const char *options, int out)
{
    return served_record_with(options, 0, out);
}

int served_record_with(const char *options, uint32_t flags, int out)
{
    char text[600];
    struct hw_error err = {0};
    struct hw_strbuf binary = {0}, b = {0};
    snprintf(text, sizeof text,
             "buffers { size_kb: 64 }\ndata_source_stop_timeout_ms: %u\n"
             "data_sources { config { name: \"android.heapprofd\" "
             "heapprofd_config { sampling_interval_bytes: 1 %s } } }\n",
             served_stop_timeout_ms, options);
    assert_int_equal(hw_config_text_to_binary("-", hw_bytes_str(text), false, &binary, &err),
                     HW_OK);
    struct hw_control_start s = {.flags = flags, .config_bytes = (uint32_t)binary.n};
    hw_strbuf_add(&b, &s, sizeof s);
    hw_strbuf_add(&b, binary.p, binary.n);
    int fd = served_dial(served_consumer);
    assert_true(fd >= 0);
    served_tell(fd, HW_CTL_START, b.p, b.n, out);
    hw_strbuf_done(&b);
    hw_strbuf_done(&binary);
    return fd;
}

/* ---- clients: each a process of its own ---- */

bool served_shake_hands(struct hw_ring_writer *w)
{
    int fd = served_dial(served_producer);
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
    ssize_t n = recvmsg(fd, &m, 0);
    if (n != sizeof wel || wel.status != HW_WELCOME_PROFILE) {
        (void)dprintf(2, "client %d: answer of %zd bytes, status %u\n", getpid(), n,
                      n == sizeof wel ? wel.status : 0);
        return false;
    }
    int fds[HW_WELCOME_FDS];
    memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fds);
    /* What we were given cannot be shrunk or grown under the recorder. */
    for (int i = 0; i < HW_WELCOME_FDS; i++)
        if (ftruncate(fds[i], 0) == 0)
            return false;
    return hw_ring_attach(fds[1], w) == HW_OK;
}

void served_send_allocations(struct hw_ring_writer *w, int n)
{
    struct {
        struct hw_rec_stack h;
        uint64_t pc[2], exact;
    } s = {.h = {.stack_id = 5, .n_frames = 2, .stop = HW_STOP_END}, .pc = {0x1111, 0x2222}};
    uint64_t pos = hw_ring_reserve(w, sizeof s);
    memcpy((char *)hw_ring_at(w, pos) + 8, (char *)&s + 8, sizeof s - 8);
    hw_ring_commit(w, pos, sizeof s, HW_REC_STACK);
    for (int i = 0; i < n; i++) {
        struct hw_rec_alloc a = {.alloc_size = 10, .sample_size = 10, .stack_id = 5, .heap_id = 1};
        while (!(pos = hw_ring_reserve(w, sizeof a)))
            usleep(100);
        memcpy((char *)hw_ring_at(w, pos) + 8, (char *)&a + 8, sizeof a - 8);
        hw_ring_commit(w, pos, sizeof a, HW_REC_ALLOC);
    }
}

void served_good_client(int n)
{
    struct hw_ring_writer w;
    if (!served_shake_hands(&w))
        _exit(1);
    served_send_allocations(&w, n);
    if (write(served_done[1], "", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

void served_wait_until_done(void)
{
    char c;
    assert_int_equal(read(served_done[0], &c, 1), 1);
}

pid_t served_run(void (*fn)(int), int arg)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
        fn(arg);
        _exit(0);
    }
    return pid;
}

void served_end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

void served_wait_for_no_session(void)
{
    int fd = served_dial(served_consumer);
    for (int i = 0; i < 3000; i++) {
        served_tell(fd, HW_CTL_STATUS, NULL, 0, -1);
        assert_true(served_hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
        if (strstr(served_body, "\"sessions\":[]"))
            break;
        usleep(20000);
    }
    if (!strstr(served_body, "\"sessions\":[]"))
        explain(served_body, HW_CTL_STATUS_REPLY, 0);
    assert_non_null(strstr(served_body, "\"sessions\":[]"));
    close(fd);
}

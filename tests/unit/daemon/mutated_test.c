/*
 * mutated_test.c - whole conversations that are nearly right: messages, greetings and records with
 * changed bytes, cut, repeated, in another order, with descriptors where none belong
 *
 * The numbers are the same in each run. The service must live, answer, and be as large as before;
 * what a good client sends meanwhile is whole. HW_MUTATED_ROUNDS: more of it, by hand, in a pid
 * namespace of its own; then the configuration of recordings is changed, too.
 */
#include "served.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/arch.h"
#include "base/error.h"
#include "config/config.h"
#include "unwind/walk.h"
#include "wire/handshake.h"

#define ROUNDS 400

static char config_text[300], only_ours[100];
static uint64_t chance = 88172645463325252u;

static uint64_t draw(uint64_t n)
{
    chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
    return (chance >> 11) % n;
}

/* ---- changed bytes ---- */

static void change(uint8_t *p, size_t from, size_t to)
{
    static const uint64_t values[] = {0,      1,         0x7f,       0xff,      0x7fff,
                                      0xffff, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};
    for (uint64_t k = draw(4); k > 0 && to > from; k--) {
        uint64_t v = values[draw(10)];
        size_t at = from + draw(to - from), n = (size_t)1 << draw(4);
        if (draw(2))
            p[at] ^= (uint8_t)(1u << draw(8));
        else
            memcpy(p + at, &v, n < to - at ? n : to - at);
    }
}

static void send_with(int fd, const void *p, size_t n, const int *given, int n_given)
{
    size_t n_bytes = (size_t)n_given * sizeof *given;
    union {
        char bytes[CMSG_SPACE(3 * sizeof *given)];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec iov = {(void *)(uintptr_t)p, n};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (n_given) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE(n_bytes);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){CMSG_LEN(n_bytes), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(c), given, n_bytes);
    }
    (void)sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT); /* it may be closed by now */
}

/* With up to three descriptors of kinds that may or may not belong there. */
static void throw(int fd, const void *p, size_t n)
{
    int given[3] = {-1, -1, -1}, n_given = draw(3) ? 0 : (int)draw(4);
    for (int i = 0; i < n_given; i++)
        given[i] = draw(3)   ? memfd_create("thrown", MFD_CLOEXEC)
                   : draw(2) ? open("/dev/null", O_RDWR | O_CLOEXEC)
                             : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    send_with(fd, p, n, given, n_given);
    for (int i = 0; i < n_given; i++)
        close(given[i]);
}

/* ---- commands ---- */

static size_t body_of(uint32_t type, uint8_t *body)
{
    static const char key[] = "a key";
    struct hw_control_live_request look = {.pid = getpid()};
    struct hw_control_target target = {.pid = getpid()};
    struct hw_control_mark mark = {0};
    int32_t pid = getpid();
    size_t n = 0;
    switch (type) {
    case HW_CTL_TARGET:
        memcpy(body, &target, n = sizeof target);
        break;
    case HW_CTL_DETACH:
    case HW_CTL_ATTACH:
    case HW_CTL_CLONE:
        memcpy(body, key, n = sizeof key - 1);
        break;
    case HW_CTL_LIVE:
        memcpy(body, &look, n = sizeof look);
        break;
    case HW_CTL_MARK:
        memcpy(body, &mark, sizeof mark);
        memcpy(body + sizeof mark, key, sizeof key - 1);
        n = sizeof mark + sizeof key - 1;
        break;
    case HW_CTL_DUMP:
    case HW_CTL_LEAVE:
        memcpy(body, &pid, n = sizeof pid);
        break;
    default:
        break;
    }
    return n;
}

static void start_recording(int fd, bool change_all)
{
    struct hw_error err;
    struct hw_strbuf binary = {0};
    struct {
        struct hw_control_head h;
        struct hw_control_start s;
        uint8_t config[600];
    } m = {.h = {.version = HW_CONTROL_VERSION, .type = HW_CTL_START}};
    assert_int_equal(hw_config_text_to_binary("-", hw_bytes_str(config_text), false, &binary, &err),
                     HW_OK);
    assert_true(binary.n < sizeof m.config);
    memcpy(m.config, binary.p, binary.n);
    m.s.config_bytes = (uint32_t)binary.n;
    m.h.length = (uint32_t)(sizeof m.s + binary.n);
    size_t n = sizeof m.h + m.h.length;
    hw_strbuf_done(&binary);
    if (draw(2))
        change((uint8_t *)&m, 0, change_all ? n : sizeof m.h + sizeof m.s);
    if (draw(4) == 0)
        n = draw(n + 1);
    int out = memfd_create("out", MFD_CLOEXEC);
    if (draw(4)) /* with the file that belongs there */
        send_with(fd, &m, n, &out, 1);
    else
        throw(fd, &m, n);
    close(out);
}

static void say_something(int fd)
{
    uint8_t m[4096] = {0};
    uint32_t type = (uint32_t)(draw(16) ? draw(13) : draw(HW_CTL_TYPE_COUNT + 2));
    struct hw_control_head h = {.version = HW_CONTROL_VERSION, .type = type};
    size_t n = body_of(type, m + sizeof h);
    h.length = (uint32_t)n;
    memcpy(m, &h, sizeof h);
    n += sizeof h;
    if (draw(3) == 0)
        change(m, 0, n);
    if (draw(6) == 0)
        n = draw(2) ? draw(n + 1) : n + draw(sizeof m - n);
    for (uint64_t k = draw(8) ? 1 : 20; k > 0; k--)
        throw(fd, m, n);
}

static void command(bool change_all)
{
    int fd = served_dial(served_consumer);
    char got[4096];
    for (uint64_t k = 1 + draw(8); k > 0; k--) {
        if (draw(4) == 0)
            start_recording(fd, change_all);
        else
            say_something(fd);
        if (draw(2)) {
            struct pollfd p = {.fd = fd, .events = POLLIN};
            (void)poll(&p, 1, (int)draw(3));
            (void)recv(fd, got, sizeof got, MSG_DONTWAIT);
        }
    }
    close(fd);
}

/* ---- clients ---- */

static void scribble(int ring)
{
    struct hw_ring_writer w;
    if (hw_ring_attach(ring, &w) < 0)
        return;
    for (int i = 0; i < 40; i++) {
        uint8_t body[512];
        uint32_t size = (uint32_t)(8 + 8 * draw(40));
        uint64_t pos = hw_ring_reserve(&w, size);
        for (size_t k = 0; k < sizeof body; k++)
            body[k] = (uint8_t)(draw(3) ? 0 : draw(256));
        change(body, 0, sizeof body);
        if (pos) {
            memcpy((char *)hw_ring_at(&w, pos) + 8, body, size - 8);
            hw_ring_commit(&w, pos, size, (enum hw_rec_type)draw(40));
        }
    }
    if (draw(2)) /* the page that both sides use, under the reader's eyes */
        for (int i = 0; i < 2000; i++)
            change((uint8_t *)w.shm, 0, sizeof *w.shm);
}

static void client(int unused)
{
    struct hw_hello h = {.magic = HW_HELLO_MAGIC,
                         .version = HW_WIRE_VERSION,
                         .arch = HW_ARCH_HERE,
                         .flags = HW_HELLO_STARTUP};
    (void)unused;
    int fd = served_dial(served_producer);
    uint8_t m[256] = {0};
    size_t n = sizeof h;
    h.flags = (uint32_t)draw(64);
    if (draw(4) == 0)
        h.arch = (uint32_t)draw(8);
    if (draw(3) == 0)
        h.tables_kib = (uint32_t)draw(UINT32_MAX);
    memcpy(m, &h, sizeof h);
    if (draw(3) == 0)
        change(m, 0, sizeof h);
    if (draw(8) == 0)
        n = draw(sizeof m);
    if (draw(2))
        (void)send(fd, m, n, MSG_NOSIGNAL);
    else
        throw(fd, m, n);
    struct hw_welcome welcome;
    union {
        char bytes[CMSG_SPACE(sizeof(int) * HW_WELCOME_FDS)];
        struct cmsghdr align;
    } control;
    struct iovec iov = {&welcome, sizeof welcome};
    struct msghdr got = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof control.bytes};
    struct pollfd p = {.fd = fd, .events = POLLIN};
    (void)poll(&p, 1, 20);
    if (recvmsg(fd, &got, MSG_DONTWAIT) == sizeof welcome && CMSG_FIRSTHDR(&got) &&
        welcome.status == HW_WELCOME_PROFILE) {
        int fds[HW_WELCOME_FDS];
        memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&got)), sizeof fds);
        scribble(fds[1]);
    }
    if (draw(2))
        throw(fd, m, n); /* it should be silent from now on */
    (void)poll(NULL, 0, (int)draw(20));
}

/* ---- the test ---- */

static void test_mutated_conversations(void **state)
{
    (void)state;
    const char *more = getenv("HW_MUTATED_ROUNDS");
    int rounds = more ? atoi(more) : ROUNDS, out = memfd_create("out", MFD_CLOEXEC);
    int fd = served_record(only_ours, out);
    assert_true(served_hear(fd, HW_CTL_STARTED, 0, 0));
    pid_t good = served_run(served_good_client, 1000);
    served_wait_until_done();
    int before = served_descriptors();
    for (int i = 0; i < rounds; i++) {
        if (draw(2)) {
            command(more != NULL);
        } else {
            pid_t pid = served_run(client, 0);
            (void)draw(7); /* the child has its own from here on */
            if (draw(2))
                waitpid(pid, NULL, 0);
            else
                served_end(pid);
        }
    }
    served_tell(fd, HW_CTL_STATUS, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_STATUS_REPLY, 0, 0));
    served_tell(fd, HW_CTL_STOP, NULL, 0, -1);
    assert_true(served_hear(fd, HW_CTL_ENDED, 0, 0));
    struct hw_control_ended e;
    memcpy(&e, served_body, sizeof e);
    assert_int_equal(e.status, 0);
    assert_true(e.n_samples >= 1000);
    served_end(good);
    close(fd);
    close(out);
    print_message("%d descriptors before, %d after\n", before, served_descriptors());
}

int main(int argc, char **argv)
{
    size_t n = strlen(argv[0]);
    (void)argc;
    memset(argv[0], 0, n);
    snprintf(argv[0], n + 1, "mutated-%d", (int)getpid());
    snprintf(only_ours, sizeof only_ours, "process_cmdline: \"%s\"", argv[0]);
    snprintf(config_text, sizeof config_text,
             "buffers { size_kb: 64 }\ndata_sources { config { name: \"android.heapprofd\" "
             "heapprofd_config { sampling_interval_bytes: 1 %s } } }\n",
             only_ours);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutated_conversations)};
    return cmocka_run_group_tests(tests, served_start, served_stop);
}

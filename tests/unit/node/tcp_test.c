/* The kernel's table of sockets, and connections that end in the right process only. */
#include "node/tcp.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text/strbuf.h"
#include "proc/pid.h"
#include "test.h"

#define HEAD "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
#define REST " 00000000:00000000 00:00000000 00000000  1000        0 "

static void test_table(void **unused)
{
    static const char text[] = HEAD
        "   0: 0100007F:240D 00000000:0000 0A" REST "41943 1 0 100 0 0 10 0\n"
        "   1: 0100007F:240D 0200007F:D431 01" REST "18446744073709551615 1\n"
        "   2: 0100007F:240D 0200007F:D431 06" REST "0 3\n" /* waits for its end */
        "   3: 0100007F:240D 0200007F:D431\n"
        "   4: 0100007:240D 00000000:0000 0A" REST "9\n"
        "nonsense\n\n"
        "   5: 00000000000000000000000001000000:0050 00000000000000000000000000000000:0000 0A" REST
        "7"; /* without a line's end */
    hw_tcp_rows rows = {0};
    (void)unused;
    assert_int_equal(hw_tcp_parse(text, &rows), HW_OK);
    assert_int_equal(rows.n, 3);
    assert_true(rows.v[0].listens && rows.v[0].inode == 41943 && rows.v[0].here.port == 9229);
    assert_true(hw_tcp_is_local(&rows.v[0].here));
    assert_true(!rows.v[1].listens && rows.v[1].inode == UINT64_MAX);
    assert_int_equal(rows.v[1].there.port, 0xd431);
    assert_int_equal(rows.v[1].there.bytes[12], 127);
    assert_int_equal(rows.v[1].there.bytes[15], 2);
    assert_true(rows.v[2].inode == 7 && rows.v[2].here.bytes[15] == 1 && rows.v[2].here.port == 80);
    hw_vec_done(&rows);
}

/* 20,000 lines, as a busy proxy has them: in a time that grows with them, not with their square. */
static void test_long_table(void **unused)
{
    struct hw_strbuf b = {0};
    hw_tcp_rows rows = {0};
    (void)unused;
    for (unsigned i = 0; i < 20000; i++)
        hw_strbuf_addf(&b, "%4u: 0100007F:240D 0200007F:%04X 01" REST "%u 1 0 20 4 30 10 -1\n", i,
                       i, i + 1);
    struct timespec before, after;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    assert_int_equal(hw_tcp_parse(b.p, &rows), HW_OK);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    assert_int_equal(rows.n, 20000);
    assert_true(after.tv_sec - before.tv_sec < 2); /* 0.02 s; measured whole each time: 6 s */
    hw_vec_done(&rows);
    hw_strbuf_done(&b);
}

/* A process that listens, and hands the port over. */
static pid_t listener(uint16_t *port, bool accepts)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    *port = ntohs(a.sin_port);
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
        while (accepts)
            (void)accept(fd, NULL, NULL);
        for (;;)
            (void)pause();
    }
    (void)close(fd);
    return child;
}

static void end(pid_t child)
{
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
}

static void test_connect(void **unused)
{
    uint16_t port, other_port;
    pid_t child = listener(&port, true), other = listener(&other_port, true);
    struct hw_pid pid;
    hw_tcp_rows rows = {0};
    struct hw_error err = {0};
    int fd = -1;
    (void)unused;
    assert_int_equal(hw_pid_open(child, &pid, NULL), HW_OK);
    assert_int_equal(hw_tcp_read(&pid, &rows, &err), HW_OK);
    unsigned found = 0;
    for (size_t i = 0; i < rows.n; i++) {
        const struct hw_tcp_row *r = &rows.v[i];
        if (!r->listens || (r->here.port != port && r->here.port != other_port))
            continue;
        found++;
        assert_int_equal(hw_tcp_is_of(&pid, r->inode), r->here.port == port);
        if (r->here.port == port) {
            assert_int_equal(hw_tcp_connect(&pid, r, &fd, &err), HW_OK);
            (void)close(fd);
        } else { /* the port was taken over in between */
            assert_int_equal(hw_tcp_connect(&pid, r, &fd, &err), HW_EPERM);
            assert_non_null(strstr(err.text, "is not process"));
        }
    }
    assert_int_equal(found, 2);
    hw_vec_done(&rows);
    hw_pid_done(&pid);
    end(child);
    end(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_long_table),
        cmocka_unit_test(test_connect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

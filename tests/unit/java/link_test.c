/*
 * A process that claims to have our library in it, and makes who asks it wait: it says nothing, or
 * a little now and then, and its pipe brings nothing or never ends. All of it is over when its
 * patience is.
 */
#include "java/jvm/jvm_link.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/fd_send.h"
#include "java/agent/agent_socket.h"
#include "java/graph.h"
#include "proc/pid.h"

#include "../test.h"

enum { SILENCE_MS = 100, MOST_MS = 30000 }; /* the most: of a hang */

enum habit { SILENT, NO_ACCEPT, WALK_OF_NOTHING, TRICKLE, TALKS_ON, SENDS_LINGERING };

static void say(int fd, uint32_t type, int with)
{
    struct hw_java_message m = {.type = type, .n = 1};
    (void)hw_fd_send(fd, &m, sizeof m, &with, with >= 0, 0);
}

static int table(void)
{
    static const char text[] = "\1\4\0\3LA;\0";
    int fd = memfd_create("table", MFD_CLOEXEC);
    (void)!write(fd, text, sizeof text);
    return fd;
}

/* A socket whose last close waits for a minute: nobody reads what was written to it. */
static int lingering(void)
{
    static const char junk[65536];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct linger minute = {1, 60};
    socklen_t n = sizeof at;
    int from = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(to, (struct sockaddr *)&at, n) < 0 || listen(to, 1) < 0 ||
        getsockname(to, (struct sockaddr *)&at, &n) < 0 ||
        connect(from, (struct sockaddr *)&at, n) < 0)
        return -1;
    (void)setsockopt(from, SOL_SOCKET, SO_LINGER, &minute, sizeof minute);
    while (send(from, junk, sizeof junk, MSG_DONTWAIT) > 0)
        ;
    return from;
}

_Noreturn static void target(enum habit habit, int ready)
{
    struct sockaddr_un at;
    struct stat st;
    struct hw_java_request q;
    int ends[2], fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    (void)alarm(30);
    (void)stat("/proc/self/ns/pid", &st);
    socklen_t n = hw_java_agent_address(st.st_ino, getpid(), &at);
    if (bind(fd, (struct sockaddr *)&at, n) < 0 || listen(fd, 0) < 0 || pipe(ends) < 0)
        _exit(1);
    (void)!write(ready, "x", 1);
    if (habit == NO_ACCEPT)
        for (;;)
            (void)pause();
    int c = accept(fd, NULL, NULL), with = habit == SENDS_LINGERING ? lingering() : -1;
    (void)recv(c, &q, sizeof q, 0);
    if (habit == WALK_OF_NOTHING || habit == TRICKLE) {
        say(c, HW_JAVA_CLASSES, table());
        say(c, HW_JAVA_ATTEMPT, ends[0]);
    }
    if (habit == TRICKLE)
        (void)!write(ends[1], "\x3b\2\1\2", 4); /* a root */
    for (;; (void)poll(NULL, 0, SILENCE_MS / 4)) {
        if (habit == TRICKLE)
            (void)!write(ends[1], "\x1b\2", 2); /* the same again */
        if (habit == TALKS_ON)
            say(c, HW_JAVA_HELLO, -1);
        if (habit == SENDS_LINGERING && with >= 0) {
            say(c, HW_JAVA_HELLO, with);
            say(c, HW_JAVA_EVENT, with);
            (void)shutdown(c, SHUT_WR); /* what comes next is no message */
            (void)close(with);
            with = -1;
        }
    }
}

static int object(void *ctx, const struct hw_java_object *o)
{
    (void)ctx, (void)o;
    return 0;
}

static int root(void *ctx, uint64_t id, uint32_t kind, const struct hw_java_holder *by)
{
    (void)ctx, (void)id, (void)kind, (void)by;
    return 0;
}

static int begin(void *ctx, struct hw_java_classes *classes, struct hw_java_graph **out)
{
    static const struct hw_java_sink sink = {NULL, object, root};
    (void)ctx;
    return hw_java_graph_new(classes, &sink, 1 << 20, out);
}

static struct hw_jvm jvm_of(const struct hw_pid *pid)
{
    return (struct hw_jvm){.pid = pid,
                           .inner = pid->pid,
                           .uid = geteuid(),
                           .gid = getegid(),
                           .silence_ms = SILENCE_MS};
}

/* Gives the reason that an attempt ended with. */
static int ask(enum habit habit)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0)
        target(habit, ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    struct hw_pid pid;
    struct hw_error err = {0};
    struct hw_java_link *link = NULL;
    assert_int_equal(hw_pid_open(child, &pid, &err), 0);
    struct hw_jvm jvm = jvm_of(&pid);
    uint64_t begun = hw_now_monotonic_ns();
    int filler = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (habit == NO_ACCEPT) { /* its one place is taken */
        struct sockaddr_un at;
        struct stat st;
        assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
        socklen_t n = hw_java_agent_address(st.st_ino, child, &at);
        assert_int_equal(connect(filler, (struct sockaddr *)&at, n), 0);
    }
    int rc = hw_java_link_open(&jvm, "", /* only_by_client = */ true, &link, &err);
    struct hw_java_taking t = {.begin = begin, .modes = 1};
    if (rc == 0)
        rc = hw_java_link_dump(link, &t, &err);
    hw_java_link_free(link);
    uint64_t took = (hw_now_monotonic_ns() - begun) / 1000000;
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    hw_pid_done(&pid);
    hw_autofd_close(&filler);
    hw_autofd_close(&ready[0]);
    hw_autofd_close(&ready[1]);
    if (took > MOST_MS)
        fail_msg("habit %d: %u ms", (int)habit, (unsigned)took);
    return rc;
}

static void lose_patience(void **state)
{
    (void)state;
    assert_int_equal(ask(SILENT), HW_JAVA_ATTACH_TIMEOUT);
    assert_int_equal(ask(NO_ACCEPT), HW_JAVA_NOT_READY);
    assert_int_equal(ask(WALK_OF_NOTHING), HW_JAVA_TALKS);
    assert_int_equal(ask(TRICKLE), HW_JAVA_TALKS);
    assert_int_equal(ask(TALKS_ON), HW_JAVA_ATTACH_TIMEOUT);
    assert_int_equal(ask(SENDS_LINGERING), HW_JAVA_TALKS);
}

HW_TEST_MAIN(cmocka_unit_test(lose_patience))

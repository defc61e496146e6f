/*
 * drive.c - records one command with the embedded recorder: the smallest controller there can be
 *
 *     drive LIBRARY CONFIG.txt OUT.trace FLAGS COMMAND…
 *     drive --service PRODUCER CONSUMER
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "config/config.h"
#include "daemon/recorder.h"
#include "wire/control.h"

static void send_message(int fd, uint32_t type, const void *body, size_t n, int pass)
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
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof pass);
        memcpy(CMSG_DATA(c), &pass, sizeof pass);
    }
    if (sendmsg(fd, &m, 0) < 0)
        perror("sendmsg");
}

static uint32_t wait_for(int fd, uint32_t type, int timeout_ms)
{
    static char buf[HW_CONTROL_MAX_BYTES];
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, timeout_ms) <= 0)
            return 0;
        ssize_t n = recv(fd, buf, sizeof buf, 0);
        struct hw_control_head h;
        if (n < (ssize_t)sizeof h)
            return 0;
        memcpy(&h, buf, sizeof h);
        const char *body = buf + sizeof h;
        if (h.type == HW_CTL_TARGET_STATE) {
            struct hw_control_target_state t;
            memcpy(&t, body, sizeof t);
            fprintf(stderr, "drive: target %d state %u %.*s\n", t.pid, t.state,
                    (int)(h.length - sizeof t), body + sizeof t);
        } else if (h.type == HW_CTL_ENDED) {
            struct hw_control_ended e;
            memcpy(&e, body, sizeof e);
            fprintf(stderr,
                    "drive: ended: %llu bytes, %llu samples, %llu lost, %u targets, %u dumps, "
                    "status %d: %.*s\n",
                    (unsigned long long)e.bytes_written, (unsigned long long)e.n_samples,
                    (unsigned long long)e.n_lost, e.n_targets, e.n_dumps, e.status,
                    (int)(h.length - sizeof e), body + sizeof e);
        } else if (h.type == HW_CTL_WARNING || h.type == HW_CTL_ERROR) {
            fprintf(stderr, "drive: %s: %.*s\n", h.type == HW_CTL_ERROR ? "error" : "warning",
                    (int)h.length, body);
        }
        if (h.type == type || h.type == HW_CTL_ERROR)
            return h.type;
    }
}

static int serve(const char *producer, const char *consumer)
{
    struct hw_error e = {0};
    struct hw_recorder_options o = {
        .controller_fd = -1, .producer_socket = producer, .consumer_socket = consumer};
    hw_log_init("heapprofd");
    int rc = hw_recorder_run(&o, &e);
    if (rc < 0)
        fprintf(stderr, "recorder: %s\n", e.text);
    return rc < 0;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--service") == 0)
        return serve(argv[2], argv[3]);
    if (argc < 6)
        return 2;
    char *text;
    size_t n;
    struct hw_error err = {0};
    struct hw_strbuf config = {0};
    if (hw_file_read(AT_FDCWD, argv[2], 1 << 20, &text, &n, &err) < 0 ||
        hw_config_text_to_binary(argv[2], hw_bytes_of(text, n), false, &config, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int out = open(argv[3], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644), s[2];
    char name[64];
    snprintf(name, sizeof name, "@hw-drive-%d", getpid());
    if (out < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s) < 0)
        return 1;
    pid_t recorder = fork();
    if (recorder == 0) {
        close(s[0]);
        hw_log_init("heapprofd");
        struct hw_recorder_options o = {.controller_fd = s[1], .producer_socket = name};
        int rc = hw_recorder_run(&o, &err);
        if (rc < 0)
            fprintf(stderr, "recorder: %s\n", err.text);
        exit(rc < 0);
    }
    close(s[1]);
    struct hw_control_start start = {.flags = (uint32_t)strtoul(argv[4], NULL, 0),
                                     .config_bytes = (uint32_t)config.n};
    struct hw_strbuf body = {0};
    hw_strbuf_add(&body, &start, sizeof start);
    hw_strbuf_add(&body, config.p, config.n);
    send_message(s[0], HW_CTL_START, body.p, body.n, out);
    if (wait_for(s[0], HW_CTL_STARTED, 5000) != HW_CTL_STARTED)
        return 1;
    int go[2];
    if (pipe2(go, O_CLOEXEC) < 0)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        char c;
        (void)!read(go[0], &c, 1);
        setenv("LD_PRELOAD", argv[1], 1);
        setenv("PERFETTO_PRODUCER_SOCK_NAME", name, 1);
        setenv("PERFETTO_HEAPPROFD_BLOCKING_INIT", "1", 1);
        execvp(argv[5], argv + 5);
        _exit(127);
    }
    struct hw_control_target t = {.pid = child};
    send_message(s[0], HW_CTL_TARGET, &t, sizeof t, -1);
    (void)!write(go[1], "g", 1);
    int status;
    waitpid(child, &status, 0);
    send_message(s[0], HW_CTL_STOP, NULL, 0, -1);
    wait_for(s[0], HW_CTL_ENDED, 40000);
    close(s[0]);
    free(text);
    hw_strbuf_done(&body);
    hw_strbuf_done(&config);
    struct rusage u;
    wait4(recorder, NULL, 0, &u);
    fprintf(stderr, "drive: recorder used %ld.%03ld s user, %ld.%03ld s system, %ld MiB\n",
            (long)u.ru_utime.tv_sec, (long)u.ru_utime.tv_usec / 1000, (long)u.ru_stime.tv_sec,
            (long)u.ru_stime.tv_usec / 1000, u.ru_maxrss / 1024);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

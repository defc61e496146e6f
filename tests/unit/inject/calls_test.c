/*
 * calls_test.c LIBRARY TARGET MODE - every blocking call of tests/targets/eintr, while the client
 * goes in and out all the time; a twin that nobody touches says how long it takes alone
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "inject/inject.h"
#include "proc/pid.h"

#define AT_ONCE    8 /* so that each is stopped several times in its 100 ms */
#define MAX_MODES  128
#define RUN_MS     "600"
#define SLACK_US   60000
#define GIVE_UP_NS UINT64_C(4000000000)

static _Atomic unsigned n_failed;
static struct timespec long_stop;              /* 0 = not */
static const char *library, *target, *variant; /* variant: "free", "limit" or "refuse" */

struct child {
    pid_t pid;
    int in, out;
    struct hw_pid handle;
};

struct pair {
    const char *mode;
    bool
        timed; /* takes 100 ms by itself; how long others take depends on what else the machine does */
    struct child touched, alone;
    unsigned n_in, n_out, n_late;
};

static void read_line(int fd, char line[64])
{
    size_t n = 0;
    while (n < 63 && read(fd, line + n, 1) == 1 && line[n] != '\n')
        n++;
    line[n] = '\0';
}

static void begin(struct child *c, const char *mode)
{
    int in[2], out[2];
    char line[64];
    assert_return_code(pipe2(in, O_CLOEXEC), errno);
    assert_return_code(pipe2(out, O_CLOEXEC), errno);
    c->pid = fork();
    if (c->pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execl(target, target, mode, RUN_MS, strcmp(variant, "free") == 0 ? NULL : variant,
              (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    c->in = in[1];
    c->out = out[0];
    read_line(c->out, line);
    assert_string_equal(line, "ready");
    assert_int_equal(hw_pid_open(c->pid, &c->handle, NULL), HW_OK);
}

/* Its best time in microseconds. */
static uint64_t end(struct child *c, const char *mode, const char *who)
{
    int status;
    char line[64];
    read_line(c->out, line);
    close(c->in);
    assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
    if (status != 0) {
        print_error("%s, %s: status %#x\n", mode, who, (unsigned)status);
        n_failed++;
    }
    close(c->out);
    hw_pid_done(&c->handle);
    return strtoull(line, NULL, 10);
}

/* It has not said yet how it was, nor ended. */
static bool runs(const struct child *c)
{
    struct pollfd p = {.fd = c->out, .events = POLLIN};
    return poll(&p, 1, 0) == 0;
}

/* A thread that is stopped for longer, as on a machine that is busy: its time-outs go on. */
static int stay_stopped(void *pause, const struct hw_pid *pid, struct hw_error *err)
{
    (void)pid, (void)err;
    nanosleep(pause, NULL);
    return HW_OK;
}

static void inject(struct pair *p, bool in)
{
    struct hw_error err = {0};
    struct hw_inject_result r;
    struct hw_inject_request q = {.pid = &p->touched.handle,
                                  .may = long_stop.tv_nsec ? stay_stopped : NULL,
                                  .arg = &long_stop,
                                  .library = library,
                                  .command = in ? HW_ATTACH_HOOK : HW_ATTACH_UNHOOK,
                                  .socket_path = "@heapwise-inject-test-nobody",
                                  .generation = 77};
    int rc = hw_inject(&q, &r, &err);
    p->n_in += rc == HW_OK && in;
    p->n_out += rc == HW_OK && !in;
    p->n_late += rc == HW_ETIMEOUT;
    bool refused = strcmp(variant, "refuse") == 0;
    if ((rc == HW_OK ? refused : rc != HW_ETIMEOUT && !(refused && rc == HW_EUNSUPPORTED)) &&
        runs(&p->touched))
        print_error("%s: %s\n", p->mode, rc < 0 ? err.text : "not refused"), n_failed++;
}

/* Until it has said how it was; not for ever, where a time-out never comes. */
static void *in_and_out(void *arg)
{
    struct pair *p = arg;
    uint64_t give_up_ns = hw_now_monotonic_ns() + GIVE_UP_NS;
    struct timespec pause = {0, 5000000};
    while (runs(&p->touched) && hw_now_monotonic_ns() < give_up_ns) {
        inject(p, p->n_in == p->n_out);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static void run_some(struct pair *pairs, size_t n)
{
    pthread_t threads[AT_ONCE];
    for (size_t i = 0; i < n; i++) {
        begin(&pairs[i].touched, pairs[i].mode);
        begin(&pairs[i].alone, pairs[i].mode);
    }
    for (size_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, in_and_out, &pairs[i]), 0);
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    /* A time-out that comes while the thread is stopped is seen after that, and the next stop may follow at once. */
    uint64_t slack_us = SLACK_US + 2 * (uint64_t)long_stop.tv_nsec / 1000;
    for (size_t i = 0; i < n; i++) {
        const struct pair *p = &pairs[i];
        uint64_t alone = end(&pairs[i].alone, p->mode, "alone");
        uint64_t us = end(&pairs[i].touched, p->mode, "with the client");
        print_message("%-20s in %3u, out %3u, no moment %3u: %7llu us, alone %7llu us\n", p->mode,
                      p->n_in, p->n_out, p->n_late, (unsigned long long)us,
                      (unsigned long long)alone);
        if (p->timed && alone < 110000 && us > alone + slack_us)
            print_error("%s: waits too long\n", p->mode), n_failed++;
    }
}

static void run_all(bool only_timed)
{
    static char names[MAX_MODES][64];
    static int timed[MAX_MODES];
    static struct pair pairs[MAX_MODES];
    char command[512];
    size_t n = 0;
    (void)snprintf(command, sizeof command, "'%s' list", target);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    while (n < MAX_MODES && fscanf(f, "%63s %d", names[n], &timed[n]) == 2)
        n++;
    pclose(f);
    assert_true(n > 40);
    const char *only = getenv("HW_MODE");
    for (size_t i = 0; i < n; i += AT_ONCE) {
        size_t k = 0;
        memset(pairs, 0, sizeof pairs);
        for (size_t j = i; j < n && j < i + AT_ONCE; j++)
            if ((!only || strcmp(only, names[j]) == 0) && (timed[j] || !only_timed))
                pairs[k++] = (struct pair){.mode = names[j], .timed = timed[j] != 0};
        run_some(pairs, k);
    }
    assert_int_equal(n_failed, 0);
}

static void test_nobody_notices(void **state)
{
    (void)state;
    run_all(/* only_timed = */ false);
}

/* More than half of the time it is stopped, and no time-out comes later for that. */
static void test_long_stops(void **state)
{
    (void)state;
    long_stop.tv_nsec = 30000000;
    run_all(/* only_timed = */ true);
    long_stop.tv_nsec = 0;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    library = argv[1];
    target = argv[2];
    variant = argv[3];
#if !defined(__x86_64__)
    return 77;
#endif
    if (strcmp(variant, "free") != 0 && geteuid() != 0) {
        puts("only root may read filters");
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nobody_notices),
                                       cmocka_unit_test(test_long_stops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

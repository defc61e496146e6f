/*
 * starts_test.c - what is read of a program that stands at the end of its execve: each thing once
 *
 * As the finder does it (exec_matcher.c, place).
 */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "daemon/execwatch/exec_rules.h"
#include "inject/inject_at_exec.h"
#include "proc/number.h"

/* Arguments, status, our own status, auxiliary vector, mappings: once each; of mappings also their
 * end. One more of the vector for who is not root, and one to spare. */
#define MOST_READS 8

struct program {
    pid_t parent, pid;
    int go[2], tell[2];
};

static _Noreturn void run(struct program *p)
{
    char c;
    pid_t pid = fork();
    if (pid == 0) {
        if (read(p->go[0], &c, 1) == 1)
            execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    if (write(p->tell[1], &pid, sizeof pid) == sizeof pid)
        (void)waitpid(pid, NULL, 0); /* what is below us directly would be our worker */
    _exit(0);
}

/* False: not to be traced here. */
static bool hold(struct program *p)
{
    int status;
    assert_int_equal(pipe(p->go), 0);
    assert_int_equal(pipe(p->tell), 0);
    p->parent = fork();
    if (p->parent == 0)
        run(p);
    assert_int_equal(read(p->tell[0], &p->pid, sizeof p->pid), sizeof p->pid);
    if (ptrace(PTRACE_SEIZE, p->pid, NULL, (void *)(uintptr_t)PTRACE_O_TRACEEXEC) < 0)
        return false;
    assert_int_equal(write(p->go[1], "g", 1), 1);
    assert_int_equal(waitpid(p->pid, &status, __WALL), p->pid);
    assert_int_equal(status >> 16, PTRACE_EVENT_EXEC);
    return true;
}

static void let_go(struct program *p)
{
    (void)kill(p->pid, SIGKILL);
    (void)waitpid(p->pid, NULL, __WALL); /* only where it was traced */
    (void)waitpid(p->parent, NULL, 0);
    for (int i = 0; i < 2; i++) {
        (void)close(p->go[i]);
        (void)close(p->tell[i]);
    }
}

/* Calls that read, of this thread; -1 = the kernel does not count them. */
static long reads(void)
{
    char text[512];
    int fd = open("/proc/thread-self/io", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *p = strstr(text, "syscr: ");
    return p ? strtol(p + 7, NULL, 10) : -1;
}

static int place(const struct hw_exec_rules *rules, struct hw_exec_watch_shared *shared,
                 pid_t number, struct hw_error *err)
{
    hw_autofd int dir = hw_proc_open_dir(number);
    struct hw_pid pid = {number, -1, dir, /* start_ticks = */ 0};
    struct hw_exec_candidate p;
    struct hw_start_world world;
    struct hw_start_request q = {.pid = &pid,
                                 .status = &p.status,
                                 .sight = HW_START_SEES,
                                 .library = "/bin/true",
                                 .socket_path = "@nobody",
                                 .world = &world};
    hw_start_world_read(&world);
    assert_true(hw_exec_candidate_read(rules, shared, &pid, &p));
    int rc = hw_exec_rules_permit(rules, &p, &pid, /* starts = */ false, err);
    if (rc == HW_OK)
        rc = hw_start_place(&q, err);
    hw_exec_candidate_done(&p);
    return rc;
}

/* Reads of the second one. -1 = cannot be told here. */
static long held(const struct hw_exec_rules *rules)
{
    static struct hw_exec_watch_shared shared;
    struct hw_error err = {0};
    long n = -1;
    for (int i = 0; i < 2; i++) {
        struct program p;
        bool is_held = hold(&p);
        long before = reads();
        int rc = is_held ? place(rules, &shared, p.pid, &err) : HW_OK;
        n = is_held && before >= 0 ? reads() - before - 1 : -1;
        let_go(&p);
        if (rc != HW_OK)
            fail_msg("%s", err.text);
    }
    return n;
}

static void test_held(void **state)
{
    (void)state;
    struct hw_policy policy = {.machine = HW_MACHINE_OPEN};
    struct hw_exec_message m = {.session = 1, .flags = HW_RULE_ALL};
    struct hw_exec_rules rules = {0};
    hw_requester_self(&m.who);
    assert_int_equal(hw_exec_rules_add(&rules, &policy, &m, "", 0), HW_OK);
    long n = held(&rules);
    hw_exec_rules_drop(&rules, 1);
    hw_vec_done(&rules.sessions);
    hw_vec_done(&rules.followed);
    if (n < 0)
        skip();
    assert_in_range(n, 1, MOST_READS);
}

static void add_rule(struct hw_exec_rules *rules, uint64_t session, uint64_t arm_interval_bytes)
{
    struct hw_policy policy = {.machine = HW_MACHINE_OPEN};
    struct hw_exec_message m = {.session = session,
                                .flags = HW_RULE_ALL,
                                .arm_interval_bytes = arm_interval_bytes,
                                .arm_token = 100 + session};
    hw_requester_self(&m.who);
    assert_int_equal(hw_exec_rules_add(rules, &policy, &m, "", 0), HW_OK);
}

/* Armed is whom exactly one session means, if that one says so; with its interval of the moment. */
static void test_armed(void **state)
{
    (void)state;
    struct hw_exec_candidate p = {.status = {.uid = getuid(), .tgid = 7, .ppid = 5}};
    struct hw_exec_rules rules = {0};
    assert_int_equal(hw_exec_rules_arm(&rules, &p).interval_bytes, 0);
    add_rule(&rules, 1, 1 << 19);
    assert_int_equal(hw_exec_rules_arm(&rules, &p).interval_bytes, 1 << 19);
    assert_int_equal(hw_exec_rules_arm(&rules, &p).token, 101);
    hw_exec_rules_set_interval(&rules, 1, 1 << 21);
    hw_exec_rules_set_interval(&rules, 3, 1 << 22);
    assert_int_equal(hw_exec_rules_arm(&rules, &p).interval_bytes, 1 << 21);
    assert_int_equal(hw_vec_push(&rules.followed, 5), 0);
    assert_int_equal(hw_exec_rules_arm(&rules, &p).interval_bytes, 0);
    hw_vec_clear(&rules.followed);
    for (uint64_t other = 0; other < 2; other++) {
        add_rule(&rules, 2, other << 19);
        assert_int_equal(hw_exec_rules_arm(&rules, &p).interval_bytes, 0);
    }
    hw_exec_rules_drop(&rules, 1);
    assert_int_equal(hw_exec_rules_arm(&rules, &p).token, 102);
    hw_exec_rules_drop(&rules, 2);
    hw_vec_done(&rules.sessions);
    hw_vec_done(&rules.followed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_held), cmocka_unit_test(test_armed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

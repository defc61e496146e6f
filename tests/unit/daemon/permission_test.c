/*
 * permission_test.c - who may be profiled: the whole table, users, names, what is above, bad
 * policies
 */
#include "test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "daemon/policy/permission.h"

/* A program of each kind, as hw_program_of finds it, on each machine. */
static void test_table(void **state)
{
    (void)state;
    static const struct {
        enum hw_program what;
        const char *exe, *cgroup;
        uint32_t uid;
        bool launched, may[HW_MACHINE_COUNT];
    } rows[] = {
        {HW_PROGRAM_CRITICAL, "systemd-journald", NULL, 0, false, {true, false, false}},
        {HW_PROGRAM_CRITICAL,
         "sshd",
         "0::/system.slice/ssh.service\n",
         0,
         false,
         {true, false, false}},
        {HW_PROGRAM_CRITICAL, "my-init", NULL, 1000, false, {true, false, false}},
        {HW_PROGRAM_SERVICE, "redis-server", NULL, 105, false, {true, true, false}},
        {HW_PROGRAM_SERVICE,
         "web",
         "0::/system.slice/web.service\n",
         0,
         false,
         {true, true, false}},
        {HW_PROGRAM_PROGRAM,
         "editor",
         "0::/user.slice/x.scope\n",
         1000,
         false,
         {true, true, false}},
        {HW_PROGRAM_PROGRAM, "tool", NULL, 0, false, {true, true, false}},
        {HW_PROGRAM_PROFILEABLE, "server-7", NULL, 105, false, {true, true, true}},
        {HW_PROGRAM_DEBUGGABLE, "test-x", NULL, 105, false, {true, true, true}},
        {HW_PROGRAM_DEBUGGABLE, "tool", NULL, 1000, true, {true, true, true}},
        /* Started by the one who records: his own program under a name of the system's. */
        {HW_PROGRAM_DEBUGGABLE, "sshd", NULL, 1000, true, {true, true, true}},
    };
    char *marked[] = {"server-*"}, *debuggable[] = {"test-*"}, *critical[] = {"my-init"};
    struct hw_policy p = {.profileable = {marked, 1, 1},
                          .debuggable = {debuggable, 1, 1},
                          .critical = {critical, 1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct hw_proc_status st = {.uid = rows[i].uid, .euid = rows[i].uid};
        enum hw_program what =
            hw_program_of(&p, rows[i].launched, &st, rows[i].exe, rows[i].cgroup);
        if (what != rows[i].what)
            fail_msg("%s: %d, not %d", rows[i].exe, what, rows[i].what);
        for (int m = 0; m < HW_MACHINE_COUNT; m++)
            if (hw_permission_table(what, (enum hw_machine)m) != rows[i].may[m])
                fail_msg("%s on a %s machine", rows[i].exe, hw_machine_name((enum hw_machine)m));
    }
    assert_false(hw_permission_table(HW_PROGRAM_COUNT, HW_MACHINE_OPEN));
    assert_false(hw_permission_table(HW_PROGRAM_DEBUGGABLE, HW_MACHINE_COUNT));
}

/* Process 1: by its pid namespace and ours. */
static void test_first(void **state)
{
    (void)state;
    static const struct {
        int32_t pid;
        uint64_t its_ns, our_ns;
        bool first;
    } rows[] = {
        {1, 0xEFFFFFFC, 0xEFFFFFFC, true},  /* the machine's */
        {1, 0xF0000123, 0xF0000123, false}, /* our container's */
        {1, 0xEFFFFFFC, 0xF0000123, true},  /* we are in a container that sees the outer /proc */
        {1, 0xF0000124, 0xF0000123, true},  /* another's /proc: nothing here is what it seems */
        {1, 0, 0xF0000123, true},           /* may not be looked at */
        {1, 0xF0000123, 0, true},           {1, 0, 0, true},
        {2, 0xEFFFFFFC, 0xEFFFFFFC, false}, {2, 0, 0, false},
        {0, 0xF0000123, 0xF0000123, true}, /* no process at all */
        {-1, 0xF0000123, 0xF0000123, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (hw_permission_is_first(rows[i].pid, rows[i].its_ns, rows[i].our_ns) != rows[i].first)
            fail_msg("row %zu", i);
    struct hw_pid p;
    struct stat st;
    assert_int_equal(stat("/proc/self/ns/pid", &st), 0);
    assert_int_equal(hw_pid_open(1, &p, NULL), 0);
    if (st.st_ino == 0xEFFFFFFC || geteuid() != 0)
        assert_true(hw_permission_is_machines_first(&p));
    hw_pid_done(&p);
}

/* A child that waits, under a name of its own. */
static pid_t child_of(const char *name, uint32_t uid, int *keep)
{
    int go[2], ready[2];
    char c = 0;
    assert_int_equal(pipe(go), 0);
    assert_int_equal(pipe(ready), 0);
    pid_t middle = fork(), pid = 0;
    if (middle == 0) { /* its child is not ours: what we start ourselves are workers */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(go[1]);
        pid = fork();
        if (pid == 0) {
            if (uid && (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0))
                _exit(1);
            (void)prctl(PR_SET_DUMPABLE, 1); /* as after an exec */
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            int fd = open("/proc/self/comm", O_WRONLY);
            (void)!write(fd, name, strlen(name));
            pid = getpid();
            (void)!write(ready[1], &pid, sizeof pid);
            (void)!read(go[0], &c, 1);
            _exit(0);
        }
        (void)!read(go[0], &c, 1);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &pid, sizeof pid), sizeof pid);
    close(go[0]);
    close(ready[0]);
    close(ready[1]);
    *keep = go[1];
    return pid;
}

static pid_t child_named(const char *name, int *keep)
{
    return child_of(name, 0, keep);
}

/* With root's rights where it is root; its process does not exist. */
static struct hw_permission_request asking_of(uint32_t uid, const struct hw_policy *p)
{
    struct hw_permission_request a = {.policy = p};
    hw_requester_self(&a.who);
    a.who.uid = a.who.gid = uid;
    a.who.capabilities = uid == 0 ? UINT64_MAX : 0;
    return a;
}

static int ask(const struct hw_permission_request *a, pid_t pid, char text[HW_ERROR_TEXT_MAX])
{
    struct hw_pid p;
    struct hw_proc_status st;
    struct hw_error err = {0};
    assert_int_equal(hw_pid_open(pid, &p, NULL), 0);
    assert_int_equal(hw_proc_status(p.dir, &st), 0);
    int rc = hw_permission_profile(a, &p, &st, &err);
    hw_pid_done(&p);
    (void)snprintf(text, HW_ERROR_TEXT_MAX, "%s", err.text);
    return rc;
}

static void test_users_and_names(void **state)
{
    (void)state;
    static const struct {
        uint32_t who, target;
        bool root_own, may;
    } users[] = {{1000, 1000, false, true}, {1000, 1001, false, false}, {1000, 0, false, false},
                 {0, 1000, false, true},    {0, 1000, true, false},     {0, 0, true, true}};
    int keep;
    char text[HW_ERROR_TEXT_MAX], *never[] = {"vault*"};
    if (geteuid() != 0) {
        print_message("not root: no processes of other users\n");
        skip();
    }
    for (size_t i = 0; i < sizeof users / sizeof *users; i++) {
        struct hw_policy p = {.machine = HW_MACHINE_DEVELOPER, .root_own = users[i].root_own};
        struct hw_permission_request a = asking_of(users[i].who, &p);
        int rc = ask(&a, child_of("a-tool", users[i].target, &keep), text);
        close(keep);
        if (rc != (users[i].may ? HW_OK : HW_EPERM) || (rc < 0) != (text[0] != '\0'))
            fail_msg("user %u profiles %u's: %d %s", users[i].who, users[i].target, rc, text);
    }
    /* Never means never: on an open machine, for root, for what the recording started. */
    struct hw_policy p = {.machine = HW_MACHINE_OPEN, .never = {never, 1, 1}};
    pid_t pid = child_named("vault-7", &keep);
    struct hw_permission_request a = asking_of(0, &p);
    a.all_launched = true;
    assert_int_equal(ask(&a, pid, text), HW_EPERM);
    assert_non_null(strstr(text, "the policy never lets"));
    p = (struct hw_policy){.machine = HW_MACHINE_PRODUCTION};
    a = asking_of(0, &p);
    assert_int_equal(ask(&a, pid, text), HW_EPERM);
    assert_non_null(strstr(text, "production machine"));
    /* What the recording has started, it and what is below, is recorded there, too. */
    struct hw_pid root;
    assert_int_equal(hw_pid_open(pid, &root, NULL), 0);
    a.root = (struct hw_relative){pid, root.start_ticks};
    assert_int_equal(ask(&a, pid, text), HW_OK);
    a.root.start_ticks++; /* another process with the same number */
    assert_int_equal(ask(&a, pid, text), HW_EPERM);
    a.root = (struct hw_relative){getpid(), 0};
    struct hw_pid self;
    assert_int_equal(hw_pid_open(getpid(), &self, NULL), 0);
    a.root.start_ticks = self.start_ticks;
    assert_int_equal(ask(&a, pid, text), HW_OK); /* its grandchild */
    a.root = (struct hw_relative){pid, root.start_ticks};
    int keep_other;
    assert_int_equal(ask(&a, child_named("other", &keep_other), text), HW_EPERM);
    close(keep_other);
    hw_pid_done(&root);
    hw_pid_done(&self);
    close(keep);
}

static void test_above(void **state)
{
    (void)state;
    char text[HW_ERROR_TEXT_MAX];
    int keep, keep_other;
    struct hw_policy p = {.machine = HW_MACHINE_OPEN};
    struct hw_permission_request a;
    struct hw_requester self;
    hw_requester_self(&self);
    pid_t child = child_named("command", &keep), other = child_named("other", &keep_other);
    hw_permission_request_init(&a, &self, child, &p);
    assert_int_equal(ask(&a, 1, text), HW_EPERM);
    assert_int_equal(ask(&a, getpid(), text), HW_EPERM);
    assert_int_equal(ask(&a, getppid(), text), getppid() > 0 ? HW_EPERM : HW_OK);
    assert_int_equal(ask(&a, child, text), HW_EPERM);
    assert_int_equal(ask(&a, other, text), HW_OK);
    /* What works for the recorder, also behind a process in between. */
    int keep_worker;
    assert_int_equal(ask(&a, child_named("heapprofd-allow", &keep_worker), text), HW_EPERM);
    assert_non_null(strstr(text, "its worker"));
    close(keep_worker);
    /* Another process with the same number is another process. */
    for (size_t i = 0; i < a.above.n; i++)
        a.above.v[i].start_ticks++;
    assert_int_equal(ask(&a, child, text), HW_OK);
    hw_permission_request_done(&a);
    close(keep);
    close(keep_other);
}

/* One that has ended and was not waited for has no memory that it could have closed. */
static void test_ended(void **state)
{
    (void)state;
    int keep;
    struct hw_error err = {0};
    struct hw_proc_status st;
    struct hw_policy policy = {.machine = HW_MACHINE_OPEN};
    struct hw_permission_request a = asking_of(geteuid() + 1, &policy); /* who may not profile it */
    pid_t pid = child_named("short", &keep);
    struct hw_pid p;
    assert_int_equal(hw_pid_open(pid, &p, NULL), 0);
    kill(pid, SIGKILL);
    struct pollfd end = {.fd = p.pidfd, .events = POLLIN};
    assert_int_equal(poll(&end, 1, 60000), 1);
    assert_int_equal(hw_proc_status(p.dir, &st), 0);
    assert_int_equal(hw_permission_profile(&a, &p, &st, &err), HW_EGONE);
    assert_non_null(strstr(err.text, "has ended"));
    hw_pid_done(&p);
    close(keep);
}

static void test_who_records(void **state)
{
    (void)state;
    uint32_t users[] = {1000, 1001}, groups[] = {5, 77};
    struct hw_policy open = {0}, named = {.has_users = true, .users = {users, 2, 2}},
                     group = {.has_group = true, .group = 77};
    assert_int_equal(hw_permission_record(&open, 4, NULL, 0, NULL), HW_OK);
    assert_int_equal(hw_permission_record(&named, 1001, NULL, 0, NULL), HW_OK);
    assert_int_equal(hw_permission_record(&named, 1002, groups, 2, NULL), HW_EPERM);
    assert_int_equal(hw_permission_record(&named, 0, NULL, 0, NULL), HW_OK);
    assert_int_equal(hw_permission_record(&group, 1002, groups, 2, NULL), HW_OK);
    assert_int_equal(hw_permission_record(&group, 1002, groups, 1, NULL), HW_EPERM);
}

static int read_policy(const char *text, mode_t mode, struct hw_policy *p, struct hw_error *err)
{
    char path[] = "/tmp/hw-policy-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    int rc = hw_policy_read(path, p, err);
    unlink(path);
    return rc;
}

static void test_policy_file(void **state)
{
    (void)state;
    struct hw_policy p;
    struct hw_error err = {0};
    assert_int_equal(read_policy("# ours\nmachine = production # now\n\nnever=a, b\nnever = c\n"
                                 "users = root 1234\ngroup = 0\nroot = own",
                                 0644, &p, &err),
                     HW_OK);
    assert_int_equal(p.machine, HW_MACHINE_PRODUCTION);
    assert_int_equal(p.never.n, 3);
    assert_string_equal(p.never.v[2], "c");
    assert_int_equal(p.users.n, 2);
    assert_int_equal(p.users.v[0], 0);
    assert_int_equal(p.users.v[1], 1234);
    assert_true(p.has_group && p.root_own);
    hw_policy_done(&p);
    static const char *const wrong[] = {
        "machine = mine\n",
        "machine\n",
        "nevr = a\n",
        "never =\n",
        "= a\n",
        "users = no-such-user-here\n",
        "group = 1 2\n",
        "root = no\n",
        "group = no-such-group-here\n",
        "users = 99999999999\n",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (read_policy(wrong[i], 0644, &p, &err) != HW_EINVAL)
            fail_msg("'%s' was taken", wrong[i]);
        assert_non_null(strstr(err.text, ":1: "));
    }
    assert_int_equal(read_policy("machine = open\n", 0666, &p, &err), HW_EPERM);
    assert_int_equal(read_policy("machine = open\n", 0620, &p, &err), HW_EPERM);
    assert_true(hw_policy_read("/nonexistent/policy", &p, &err) < 0);
    assert_true(hw_policy_read("/dev/null", &p, &err) < 0);
}

/* Switched off is the original's "enforcement off"; a machine without it is nobody's test device.
 */
static void test_selinux(void **state)
{
    (void)state;
    char dir[] = "/tmp/hw-selinux-XXXXXX", file[64];
    assert_non_null(mkdtemp(dir));
    (void)snprintf(file, sizeof file, "%s/enforce", dir);
    assert_int_equal(hw_selinux_state(dir), HW_SELINUX_NONE);
    for (int i = 0; i < 2; i++) {
        int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_int_equal(write(fd, i ? "1" : "0", 1), 1);
        close(fd);
        assert_int_equal(hw_selinux_state(dir), i ? HW_SELINUX_ENFORCING : HW_SELINUX_PERMISSIVE);
    }
    unlink(file);
    int guard;
    struct hw_error err;
    assert_int_equal(hw_selinux_disable(dir, &guard, &err), HW_ENOTFOUND);
    assert_non_null(strstr(err.text, "no SELinux"));
    for (int killed = 0; killed < 2; killed++) { /* on again, however the command ends */
        int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_int_equal(write(fd, "1", 1), 1);
        close(fd);
        pid_t child = killed ? fork() : 0;
        if (child == 0) {
            assert_int_equal(hw_selinux_disable(dir, &guard, &err), HW_OK);
            assert_true(guard >= 0);
            assert_int_equal(hw_selinux_state(dir), HW_SELINUX_PERMISSIVE);
            if (killed)
                raise(SIGKILL);
            hw_selinux_restore(dir, guard);
        } else {
            assert_int_equal(waitpid(child, NULL, 0), child);
            for (int i = 0; i < 30000 && hw_selinux_state(dir) != HW_SELINUX_ENFORCING; i++)
                usleep(2000);
        }
        assert_int_equal(hw_selinux_state(dir), HW_SELINUX_ENFORCING);
    }
    /* Off already: nothing to do, and nothing is switched on behind it. */
    int fd = open(file, O_WRONLY | O_TRUNC, 0600);
    assert_int_equal(write(fd, "0", 1), 1);
    close(fd);
    assert_int_equal(hw_selinux_disable(dir, &guard, &err), HW_OK);
    assert_int_equal(guard, -1);
    hw_selinux_restore(dir, guard);
    assert_int_equal(hw_selinux_state(dir), HW_SELINUX_PERMISSIVE);
    unlink(file);
    rmdir(dir);
    struct hw_policy p = {.machine = HW_MACHINE_DEVELOPER, .selinux = HW_SELINUX_PERMISSIVE};
    assert_int_equal(hw_policy_machine(&p), HW_MACHINE_OPEN);
    p.machine = HW_MACHINE_PRODUCTION;
    assert_int_equal(hw_policy_machine(&p), HW_MACHINE_PRODUCTION);
}

HW_TEST_MAIN(cmocka_unit_test(test_table), cmocka_unit_test(test_first),
             cmocka_unit_test(test_users_and_names), cmocka_unit_test(test_above),
             cmocka_unit_test(test_ended), cmocka_unit_test(test_who_records),
             cmocka_unit_test(test_policy_file), cmocka_unit_test(test_selinux))

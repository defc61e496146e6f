#include "daemon/permission.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/fd.h"
#include "config/config.h"
#include "daemon/privilege.h"
#include "proc/userns.h"

#include "base/banned.h"

#define MAX_ABOVE      64          /* a chain of parents longer than that is no shell's */
#define FIRST_USER_UID 1000u       /* below are the system's own, as login.defs has it */
#define FIRST_PID_NS   0xEFFFFFFCu /* the machine's, on every kernel: PROC_PID_INIT_INO */

/* Without them nobody can look after the machine. Cut as the kernel cuts its short names. */
static const char *const critical[] = {
    "init",           "systemd",        "systemd-*",   "dbus-daemon", "dbus-broker*", "udevd",
    "elogind*",       "auditd",         "sshd",        "login",       "agetty",       "polkitd",
    "NetworkManager", "wpa_supplicant", "containerd*", "dockerd",     "runc",         "conmon",
};

bool hw_permission_table(enum hw_program p, enum hw_machine m)
{
    static const bool may[HW_PROGRAM_COUNT][HW_MACHINE_COUNT] = {
        /*                          open, developer, production */
        [HW_PROGRAM_CRITICAL] = {true, false, false}, [HW_PROGRAM_SERVICE] = {true, true, false},
        [HW_PROGRAM_PROGRAM] = {true, true, false},   [HW_PROGRAM_PROFILEABLE] = {true, true, true},
        [HW_PROGRAM_DEBUGGABLE] = {true, true, true},
    };
    return p < HW_PROGRAM_COUNT && m < HW_MACHINE_COUNT && may[p][m];
}

/* ---- what is above the command ---- */

static void add_above(struct hw_asking *a, int32_t pid, int32_t *parent, bool with_tracer)
{
    struct hw_pid p;
    struct hw_proc_status st;
    *parent = 0;
    if (pid <= 0 || a->above.n >= MAX_ABOVE || hw_pid_open(pid, &p, NULL) < 0)
        return;
    if (hw_proc_status(p.dir, &st) == 0 &&
        hw_vec_push(&a->above, (struct hw_relative){pid, p.start_ticks}) == HW_OK) {
        int32_t unused;
        *parent = st.ppid;
        if (with_tracer)
            add_above(a, st.tracer_pid, &unused, false);
    }
    hw_pid_done(&p);
}

void hw_asking_init(struct hw_asking *a, uint32_t uid, int32_t pid, bool launched,
                    const struct hw_policy *policy)
{
    *a = (struct hw_asking){.uid = uid, .launched = launched, .policy = policy};
    for (int32_t up = pid; up > 0 && a->above.n < MAX_ABOVE;)
        add_above(a, up, &up, true);
}

void hw_asking_done(struct hw_asking *a)
{
    hw_vec_done(&a->above);
}

/* ---- process 1 ---- */

bool hw_permission_is_first(int32_t pid, uint64_t its_ns, uint64_t our_ns)
{
    bool in_container = its_ns != 0 && its_ns != FIRST_PID_NS && our_ns == its_ns;
    return pid <= 1 && !(pid == 1 && in_container);
}

/* A namespace that may not be looked at counts as the machine's. */
static uint64_t pid_ns(int dir, const char *name)
{
    struct stat st;
    return fstatat(dir, name, &st, 0) == 0 ? st.st_ino : 0;
}

bool hw_permission_is_machines_first(const struct hw_pid *p)
{
    return p->pid <= 1 && hw_permission_is_first(p->pid, pid_ns(p->dir, "ns/pid"),
                                                 pid_ns(AT_FDCWD, "/proc/self/ns/pid"));
}

/* ---- the order of questions ---- */

static int32_t our_tracer(void)
{
    struct hw_pid self;
    struct hw_proc_status st = {0};
    if (hw_pid_open(getpid(), &self, NULL) < 0)
        return 0;
    (void)hw_proc_status(self.dir, &st); /* unreadable: none */
    hw_pid_done(&self);
    return st.tracer_pid;
}

static int check_never(const struct hw_asking *a, const struct hw_pid *p,
                       const struct hw_proc_status *st, const char *exe, struct hw_error *err)
{
    if (hw_permission_is_machines_first(p))
        return hw_fail(err, HW_EPERM, 0, "process %d is never profiled", p->pid);
    if (p->pid == getpid() || st->ppid == getpid() || p->pid == our_tracer())
        return hw_fail(err, HW_EPERM, 0, "process %d is this recorder, its worker or its debugger",
                       p->pid);
    for (size_t i = 0; i < a->above.n; i++)
        if (a->above.v[i].pid == p->pid && a->above.v[i].start_ticks == p->start_ticks)
            return hw_fail(err, HW_EPERM, 0,
                           "process %d is the command that records, or above it, or debugs it",
                           p->pid);
    if (hw_policy_names_has(&a->policy->never, exe, st->name))
        return hw_fail(err, HW_EPERM, 0, "process %d: the policy never lets '%.64s' be profiled",
                       p->pid, exe[0] ? exe : st->name);
    return HW_OK;
}

static int check_user(const struct hw_asking *a, const struct hw_pid *p,
                      const struct hw_proc_status *st, struct hw_error *err)
{
    bool own = st->uid == a->uid && st->euid == a->uid;
    if (own || (a->uid == 0 && !a->policy->root_own))
        return HW_OK;
    /* The kernel lets him trace it, but not open its files of /proc: a service does that for him.
     */
    if (a->uid != 0 && hw_userns_is_of(p->dir, a->uid))
        return hw_privilege_has(CAP_SYS_PTRACE)
                   ? HW_OK
                   : hw_fail(
                         err, HW_EPERM, 0,
                         "process %d belongs to user %u of a container of yours; go in: nsenter "
                         "-U --preserve-credentials -t %d heapwise attach %d",
                         p->pid, st->uid, p->pid, p->pid);
    if (a->uid == 0)
        return hw_fail(err, HW_EPERM, 0,
                       "process %d belongs to user %u; the policy lets root profile its own only",
                       p->pid, st->uid);
    return hw_fail(err, HW_EPERM, 0,
                   "process %d belongs to user %u; only that user and root may profile it", p->pid,
                   st->uid);
}

static bool is_critical(const struct hw_policy *policy, const char *exe, const char *comm)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(critical); i++)
        if (hw_config_name_matches(critical[i], exe) || hw_config_name_matches(critical[i], comm))
            return true;
    return hw_policy_names_has(&policy->critical, exe, comm);
}

enum hw_program hw_program_of(const struct hw_asking *a, const struct hw_proc_status *st,
                              const char *exe, const char *cgroup)
{
    if (a->launched || hw_policy_names_has(&a->policy->debuggable, exe, st->name))
        return HW_PROGRAM_DEBUGGABLE;
    if (hw_policy_names_has(&a->policy->profileable, exe, st->name))
        return HW_PROGRAM_PROFILEABLE;
    if (is_critical(a->policy, exe, st->name))
        return HW_PROGRAM_CRITICAL;
    bool system_user = st->uid != 0 && st->uid < FIRST_USER_UID;
    return system_user || (cgroup && strstr(cgroup, "/system.slice/")) ? HW_PROGRAM_SERVICE
                                                                       : HW_PROGRAM_PROGRAM;
}

static int check_table(const struct hw_asking *a, const struct hw_pid *p,
                       const struct hw_proc_status *st, const char *exe, struct hw_error *err)
{
    static const char *const words[HW_PROGRAM_COUNT] = {
        [HW_PROGRAM_CRITICAL] = "a service that the machine depends on",
        [HW_PROGRAM_SERVICE] = "a service",
        [HW_PROGRAM_PROGRAM] = "a program",
        [HW_PROGRAM_PROFILEABLE] = "profileable",
        [HW_PROGRAM_DEBUGGABLE] = "debuggable",
    };
    char *cgroup = NULL;
    size_t n;
    (void)hw_file_read(p->dir, "cgroup", 64 * 1024, &cgroup, &n, NULL); /* NULL: not known */
    enum hw_program what = hw_program_of(a, st, exe, cgroup);
    enum hw_machine machine = hw_policy_machine(a->policy);
    free(cgroup);
    if (hw_permission_table(what, machine))
        return HW_OK;
    return hw_fail(err, HW_EPERM, 0,
                   "process %d ('%.64s') is %s, not to be profiled on a %s machine; its "
                   "administrator can mark it `profileable` in " HW_POLICY_FILE,
                   p->pid, exe[0] ? exe : st->name, words[what], hw_machine_name(machine));
}

int hw_permission_profile(const struct hw_asking *a, const struct hw_pid *p,
                          const struct hw_proc_status *st, struct hw_error *err)
{
    char exe[256];
    hw_proc_exe_name(p->dir, exe, sizeof exe);
    int rc = check_never(a, p, st, exe, err);
    if (rc == HW_OK)
        rc = check_user(a, p, st, err);
    return rc == HW_OK ? check_table(a, p, st, exe, err) : rc;
}

int hw_permission_record(const struct hw_policy *p, uint32_t uid, const uint32_t *groups, size_t n,
                         struct hw_error *err)
{
    bool may = uid == 0 || (!p->has_users && !p->has_group);
    for (size_t i = 0; i < p->users.n; i++)
        may |= p->users.v[i] == uid;
    for (size_t i = 0; p->has_group && i < n; i++)
        may |= groups[i] == p->group;
    if (may)
        return HW_OK;
    return hw_fail(err, HW_EPERM, 0,
                   "user %u may not record with this service: its policy names others", uid);
}

int hw_permission_session(uint32_t who, uint32_t owner)
{
    return who == 0 || who == owner ? HW_OK : HW_EPERM;
}

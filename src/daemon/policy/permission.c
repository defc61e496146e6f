#include "daemon/policy/permission.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/text_parts.h"
#include "config/config.h"
#include "daemon/policy/privilege.h"
#include "proc/rights/hidepid.h"
#include "proc/rights/userns.h"

#include "base/banned.h"

#define MAX_ABOVE      64          /* no shell has a longer chain of parents */
#define FIRST_USER_UID 1000u       /* below are the system's own, as login.defs has it */
#define FIRST_PID_NS   0xEFFFFFFCu /* the machine's, on every kernel: PROC_PID_INIT_INO */

/* Without them nobody can administer the machine. Cut as the kernel cuts its short names. */
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

/* ---- ancestors of the command ---- */

static void add_above(struct hw_permission_request *a, int32_t pid, int32_t *parent,
                      bool with_tracer)
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

void hw_permission_request_init(struct hw_permission_request *a, const struct hw_requester *who,
                                int32_t pid, const struct hw_policy *policy)
{
    *a = (struct hw_permission_request){.who = *who, .policy = policy};
    a->hides_others = who->uid != 0 && hw_hidepid_is_set();
    for (int32_t up = pid; up > 0 && a->above.n < MAX_ABOVE;)
        add_above(a, up, &up, true);
}

int hw_permission_request_copy(const struct hw_permission_request *from,
                               struct hw_permission_request *out)
{
    struct hw_permission_request a = *from;
    memset(&a.above, 0, sizeof a.above);
    for (size_t i = 0; i < from->above.n; i++)
        if (hw_vec_push(&a.above, from->above.v[i]) < 0) {
            hw_vec_done(&a.above);
            return HW_ENOMEM;
        }
    *out = a;
    return HW_OK;
}

void hw_permission_request_done(struct hw_permission_request *a)
{
    hw_vec_done(&a->above);
}

/* ---- process 1 ---- */

bool hw_permission_is_first(int32_t pid, uint64_t its_ns, uint64_t our_ns)
{
    bool in_container = its_ns != 0 && its_ns != FIRST_PID_NS && our_ns == its_ns;
    return pid <= 1 && !(pid == 1 && in_container);
}

/* A namespace that may not be inspected counts as the machine's. */
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

/* ---- the order of checks ---- */

/* Our processes have this name, and so do those they start: the answerer of starts is a
 * grandchild. */
static bool works_for_us(const struct hw_pid *p, const struct hw_proc_status *st)
{
    static const char ours[] = "heapprofd";
    struct hw_pid self;
    if (st->ppid == getpid())
        return true;
    if (!hw_starts_with(st->name, ours) || hw_pid_open(getpid(), &self, NULL) < 0)
        return false;
    struct hw_relative us = {self.pid, self.start_ticks};
    hw_pid_done(&self);
    return hw_launch_is_below(p, &us);
}

static int check_never(const struct hw_permission_request *a, const struct hw_pid *p,
                       const struct hw_proc_status *st, struct hw_error *err)
{
    if (hw_permission_is_machines_first(p))
        return hw_fail(err, HW_EPERM, 0, "process %d is never profiled", p->pid);
    if (p->pid == getpid() || works_for_us(p, st) || p->pid == hw_proc_own_tracer())
        return hw_fail(err, HW_EPERM, 0, "process %d is this recorder, its worker or its debugger",
                       p->pid);
    for (size_t i = 0; i < a->above.n; i++)
        if (a->above.v[i].pid == p->pid && a->above.v[i].start_ticks == hw_pid_start(p))
            return hw_fail(
                err, HW_EPERM, 0,
                "process %d is the command that records, one of its parents, or its debugger",
                p->pid);
    return HW_OK;
}

static int check_user(const struct hw_permission_request *a, const struct hw_pid *p,
                      const struct hw_proc_status *st, struct hw_error *err)
{
    if (a->who.uid == 0 && a->policy->root_own && (st->uid != 0 || st->euid != 0))
        return hw_fail(
            err, HW_EPERM, 0,
            "process %d belongs to user %u; the policy lets root profile only root's own processes",
            p->pid, st->uid);
    /* The kernel lets the user trace it, but not open its files of /proc: a service does that
     * for the user. */
    if (st->euid != a->who.uid && !hw_privilege_has(CAP_SYS_PTRACE) &&
        hw_userns_is_of(p->dir, a->who.uid, a->who.user_ns))
        return hw_fail(err, HW_EPERM, 0,
                       "process %d belongs to user %u of a container of yours; attach from inside "
                       "it: nsenter -U --preserve-credentials -t %d heapwise attach %d",
                       p->pid, st->uid, p->pid, p->pid);
    return hw_access_check(&a->who, p->pid, p->dir, st, err);
}

bool hw_permission_shows(const struct hw_permission_request *a, int32_t pid, int dir)
{
    struct hw_proc_status st;
    return hw_proc_status(dir, &st) == HW_OK &&
           hw_access_check(&a->who, pid, dir, &st, NULL) == HW_OK;
}

bool hw_permission_hides(const struct hw_permission_request *a, const struct hw_proc_status *st)
{
    return a->hides_others && (st->uid != a->who.uid || st->euid != a->who.uid);
}

/* One can see all the same that a process of that number exists (kill(2)); nothing else about
 * it. */
static int check_shown(const struct hw_permission_request *a, const struct hw_pid *p,
                       const struct hw_proc_status *st, struct hw_error *err)
{
    int rc = check_user(a, p, st, err);
    if (rc < 0 && hw_permission_hides(a, st))
        return hw_fail(err, rc, 0, "process %d is not yours, or hidden from you", p->pid);
    return rc;
}

/* After the check whose process it is: the name of another user's program is not revealed. */
static int check_name(const struct hw_permission_request *a, const struct hw_pid *p,
                      const struct hw_proc_status *st, const char *exe, struct hw_error *err)
{
    if (hw_policy_names_has(&a->policy->never, exe, st->name))
        return hw_fail(err, HW_EPERM, 0, "process %d: the policy never lets '%.64s' be profiled",
                       p->pid, exe[0] ? exe : st->name);
    return HW_OK;
}

static bool is_critical(const struct hw_policy *policy, const char *exe, const char *comm)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(critical); i++)
        if (hw_config_name_matches(critical[i], exe) || hw_config_name_matches(critical[i], comm))
            return true;
    return hw_policy_names_has(&policy->critical, exe, comm);
}

enum hw_program hw_program_of(const struct hw_policy *policy, bool launched,
                              const struct hw_proc_status *st, const char *exe, const char *cgroup)
{
    if (launched || hw_policy_names_has(&policy->debuggable, exe, st->name))
        return HW_PROGRAM_DEBUGGABLE;
    if (hw_policy_names_has(&policy->profileable, exe, st->name))
        return HW_PROGRAM_PROFILEABLE;
    if (is_critical(policy, exe, st->name))
        return HW_PROGRAM_CRITICAL;
    bool system_user = st->uid != 0 && st->uid < FIRST_USER_UID;
    return system_user || (cgroup && strstr(cgroup, "/system.slice/")) ? HW_PROGRAM_SERVICE
                                                                       : HW_PROGRAM_PROGRAM;
}

static int check_table(const struct hw_permission_request *a, const struct hw_pid *p,
                       const struct hw_permission_program *program, struct hw_error *err)
{
    static const char *const words[HW_PROGRAM_COUNT] = {
        [HW_PROGRAM_CRITICAL] = "a service that the machine depends on",
        [HW_PROGRAM_SERVICE] = "a service",
        [HW_PROGRAM_PROGRAM] = "a program",
        [HW_PROGRAM_PROFILEABLE] = "profileable",
        [HW_PROGRAM_DEBUGGABLE] = "debuggable",
    };
    hw_autofree char *read = NULL;
    size_t n;
    const char *exe = program->exe;
    enum hw_machine machine = hw_policy_machine(a->policy);
    bool launched = a->all_launched || hw_launch_is_below(p, &a->root);
    enum hw_program what =
        hw_program_of(a->policy, launched, program->status, exe, program->cgroup);
    /* The group distinguishes services from programs: read if one of them may not be profiled. */
    bool same = hw_permission_table(HW_PROGRAM_PROGRAM, machine) ==
                hw_permission_table(HW_PROGRAM_SERVICE, machine);
    if (hw_permission_table(what, machine) && (same || what != HW_PROGRAM_PROGRAM))
        return HW_OK;
    if (!program->cgroup) {
        (void)hw_file_read(p->dir, "cgroup", 64 * 1024, &read, &n, NULL); /* NULL: not known */
        what = hw_program_of(a->policy, launched, program->status, exe, read);
    }
    if (hw_permission_table(what, machine))
        return HW_OK;
    return hw_fail(err, HW_EPERM, 0,
                   "process %d ('%.64s') is %s, not to be profiled on a %s machine; its "
                   "administrator can mark it `profileable` in " HW_POLICY_FILE,
                   p->pid, exe[0] ? exe : program->status->name, words[what],
                   hw_machine_name(machine));
}

/* check: of the user. */
static int ask_all(const struct hw_permission_request *a, const struct hw_pid *p,
                   const struct hw_permission_program *program,
                   int (*check)(const struct hw_permission_request *, const struct hw_pid *,
                                const struct hw_proc_status *, struct hw_error *),
                   struct hw_error *err)
{
    int rc = check_never(a, p, program->status, err);
    if (rc == HW_OK)
        rc = check(a, p, program->status, err);
    if (rc == HW_OK)
        rc = check_name(a, p, program->status, program->exe, err);
    return rc == HW_OK ? check_table(a, p, program, err) : rc;
}

int hw_permission_profile_program(const struct hw_permission_request *a, const struct hw_pid *p,
                                  const struct hw_permission_program *program, struct hw_error *err)
{
    int rc = ask_all(a, p, program, check_shown, err);
    if (rc < 0 && p->pidfd >= 0 && !hw_pid_alive(p)) /* its files are root's, its memory is none */
        return hw_fail(err, HW_EGONE, 0, "process %d has ended", p->pid);
    return rc;
}

int hw_permission_profile(const struct hw_permission_request *a, const struct hw_pid *p,
                          const struct hw_proc_status *st, struct hw_error *err)
{
    char exe[256];
    hw_proc_exe_name(p->dir, exe, sizeof exe);
    return hw_permission_profile_program(a, p, &(struct hw_permission_program){st, exe, NULL}, err);
}

/* What the previous program was (setpriv, sudo) does not count: only its user does. */
static int check_starter(const struct hw_permission_request *a, const struct hw_pid *p,
                         const struct hw_proc_status *st, struct hw_error *err)
{
    bool own = st->uid == a->who.uid && st->euid == a->who.uid;
    return own ? HW_OK : check_shown(a, p, st, err);
}

int hw_permission_start(const struct hw_permission_request *a, const struct hw_pid *p,
                        const struct hw_permission_program *program, struct hw_error *err)
{
    return ask_all(a, p, program, check_starter, err);
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
                   "user %u may not record with this service: its policy "
                   "(/etc/heapwise/policy.conf) does not allow that user",
                   uid);
}

int hw_permission_session(uint32_t who, uint32_t owner)
{
    return who == 0 || who == owner ? HW_OK : HW_EPERM;
}

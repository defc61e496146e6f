/*
 * permission.h - who may profile whom
 *
 * Why:     one question, one place. A profile shows addresses, sizes and names of another process.
 * Shapes:  in this order: never (the machine's process 1, the recorder and its workers, the
 *          recording's own parents and debuggers, names the policy excludes), then users, then what
 *          the program is on what kind of machine:
 *
 *                               open   developer   production
 *              critical service yes    no          no
 *              service          yes    yes         no
 *              program          yes    yes         no
 *              profileable      yes    yes         yes
 *              debuggable       yes    yes         yes
 *
 *          debuggable: what the recording started itself, or the policy calls so.
 * Errors:  HW_EPERM with the reason in err.
 * Source:  the original's table of builds and targets; doc/guide/permissions.md
 */
#ifndef HW_DAEMON_PERMISSION_H
#define HW_DAEMON_PERMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "daemon/policy.h"
#include "proc/pid.h"

struct hw_error;

enum hw_program {
    HW_PROGRAM_CRITICAL,
    HW_PROGRAM_SERVICE,
    HW_PROGRAM_PROGRAM,
    HW_PROGRAM_PROFILEABLE,
    HW_PROGRAM_DEBUGGABLE,
    HW_PROGRAM_COUNT
};

struct hw_relative {
    int32_t pid;
    uint64_t start_ticks;
};

/* Who asks, and for what. */
struct hw_asking {
    uint32_t uid;                     /* from the socket */
    bool launched;                    /* the recording is about a program that it starts */
    const struct hw_policy *policy;   /* borrowed */
    HW_VEC(struct hw_relative) above; /* the command that records, its parents, their debuggers */
};

/* Finds what is above the process that asks. */
void hw_asking_init(struct hw_asking *a, uint32_t uid, int32_t pid, bool launched,
                    const struct hw_policy *policy);
void hw_asking_done(struct hw_asking *a);

/* May this process be profiled? */
int hw_permission_profile(const struct hw_asking *a, const struct hw_pid *pid,
                          const struct hw_proc_status *st, struct hw_error *err);
/* Is the process of that number the one without which the machine does not run? A container's own
 * process 1 is a program like others. its_ns, our_ns: inodes of the pid namespaces; 0 = unknown. */
bool hw_permission_is_first(int32_t pid, uint64_t its_ns, uint64_t our_ns);
/* ... asked of /proc. */
bool hw_permission_is_machines_first(const struct hw_pid *p);
/* The table. */
bool hw_permission_table(enum hw_program p, enum hw_machine m);
/* exe, comm: names. cgroup: text of /proc/PID/cgroup, NULL = unknown. */
enum hw_program hw_program_of(const struct hw_asking *a, const struct hw_proc_status *st,
                              const char *exe, const char *cgroup);
/* May this user begin a recording? groups: of his process. */
int hw_permission_record(const struct hw_policy *p, uint32_t uid, const uint32_t *groups, size_t n,
                         struct hw_error *err);
/* May `who` see or stop a session of `owner`? */
int hw_permission_session(uint32_t who, uint32_t owner);

#endif

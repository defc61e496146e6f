/*
 * permission.h - who may profile whom
 *
 * Why:     a profile reveals addresses, sizes and names of another process, so this is decided in
 *          one place.
 * Shapes:  in this order: never (the machine's process 1, the recorder and its workers, the
 *          recording's own parents and debuggers), then users as the kernel would
 *          (proc/rights/access.h), then names the policy excludes, then what the program is on what
 *          kind of machine:
 *
 *                               open   developer   production
 *              critical service yes    no          no
 *              service          yes    yes         no
 *              program          yes    yes         no
 *              profileable      yes    yes         yes
 *              debuggable       yes    yes         yes
 *
 *          debuggable: started by the recording, directly or not, or listed by the policy.
 * Errors:  HW_EPERM with the reason in err.
 * Source:  the original's table of builds and targets; doc/guide/permissions.md
 */
#ifndef HW_DAEMON_POLICY_PERMISSION_H
#define HW_DAEMON_POLICY_PERMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"
#include "daemon/policy/policy.h"
#include "proc/pid.h"
#include "proc/rights/access.h"

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
struct hw_permission_request {
    struct hw_requester who;        /* from the socket */
    struct hw_relative root;        /* what the recording has started; pid 0 = nothing */
    bool all_launched;              /* the recorder is embedded: no other process knows it */
    const struct hw_policy *policy; /* borrowed */
    bool hides_others; /* hidepid: they learn nothing about them (proc/rights/hidepid.h) */
    HW_VEC(struct hw_relative) above; /* the command that records, its parents, their debuggers */
};

/* Finds the processes above the one that asks. */
void hw_permission_request_init(struct hw_permission_request *a, const struct hw_requester *who,
                                int32_t pid, const struct hw_policy *policy);
int hw_permission_request_copy(const struct hw_permission_request *from,
                               struct hw_permission_request *out);
void hw_permission_request_done(struct hw_permission_request *a);

/* What has just been read about a program. */
struct hw_permission_program {
    const struct hw_proc_status *status;
    const char *exe;
    const char *cgroup; /* text of /proc/PID/cgroup; NULL: to be read */
};

/* May this process be profiled? HW_EGONE: it has ended, so nothing is said about its rights. */
int hw_permission_profile(const struct hw_permission_request *a, const struct hw_pid *pid,
                          const struct hw_proc_status *st, struct hw_error *err);
int hw_permission_profile_program(const struct hw_permission_request *a, const struct hw_pid *pid,
                                  const struct hw_permission_program *program,
                                  struct hw_error *err);
/* May they see what has just been read from inside a process that may have executed another
 * program since it was requested, or that nobody requested? As the kernel would answer them. */
bool hw_permission_shows(const struct hw_permission_request *a, int32_t pid, int dir);
/* Is that process hidden from the user, as long as they may not profile it? */
bool hw_permission_hides(const struct hw_permission_request *a, const struct hw_proc_status *st);
/* ... when it runs this program, which is about to start; its short name is in the status. Of
 * its present program nothing but the user counts: to be asked again when the new one is in
 * place. */
int hw_permission_start(const struct hw_permission_request *a, const struct hw_pid *pid,
                        const struct hw_permission_program *program, struct hw_error *err);
/* Is it the process without which the machine does not run? A container's own process 1 is a
 * program like others. its_ns, our_ns: inodes of the pid namespaces; 0 = unknown. */
bool hw_permission_is_first(int32_t pid, uint64_t its_ns, uint64_t our_ns);
/* ... by what /proc says. */
bool hw_permission_is_machines_first(const struct hw_pid *p);
/* The table. */
bool hw_permission_table(enum hw_program p, enum hw_machine m);
/* exe, comm: names. cgroup: text of /proc/PID/cgroup, NULL = unknown. */
enum hw_program hw_program_of(const struct hw_policy *policy, bool launched,
                              const struct hw_proc_status *st, const char *exe, const char *cgroup);
/* May this user start a recording? groups: of the user's process. */
int hw_permission_record(const struct hw_policy *p, uint32_t uid, const uint32_t *groups, size_t n,
                         struct hw_error *err);
/* launched_by.c: is the process the root, or started by one that is below it? */
bool hw_launch_is_below(const struct hw_pid *p, const struct hw_relative *root);
/* May `who` see or stop a session of `owner`? */
int hw_permission_session(uint32_t who, uint32_t owner);

#endif

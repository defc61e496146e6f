/*
 * exec_rules.h - which programs the sessions select, checked before a program is touched
 *
 * Why:     a program that nobody selected must not be traced even for a moment. So name, control
 *          group, role, user and the policy are checked against the program about to run, and again
 *          against the running one.
 * Shapes:  a candidate is what is known about a process: a running one from /proc, one held in
 *          execve from its arguments and the file's name.
 * Owns:    rules and their names; a candidate's texts.
 * Threads: the finder.
 */
#ifndef HW_DAEMON_EXECWATCH_EXEC_RULES_H
#define HW_DAEMON_EXECWATCH_EXEC_RULES_H

#include "base/memory/vec.h"
#include "config/memlog_modes.h"
#include "daemon/execwatch/exec_watch.h"
#include "daemon/policy/permission.h"
#include "inject/inject_at_exec.h"
#include "proc/pid.h"

struct hw_exec_watch_session {
    uint64_t id;
    uint32_t uid, generation;
    bool all;
    struct hw_start_arm arm; /* interval 0 = what starts asks at once */
    uint32_t per_minute;     /* starts of a command that are held; 0 = all (exec_share.h) */
    uint64_t young_ns;       /* whose start was not is found when it is so old */
    struct hw_permission_request asking;
    struct hw_memlog memlog; /* of sources that mean some of all */
    char *text;              /* owned: names */
    HW_VEC(const char *) names;
};

struct hw_exec_rules {
    HW_VEC(struct hw_exec_watch_session) sessions;
    HW_VEC(int32_t) followed;
};

struct hw_exec_candidate {
    int dir;              /* /proc/PID; borrowed */
    uint64_t start_ticks; /* 0 = no rule needs them */
    struct hw_proc_status status;
    bool starts;    /* its execve waits: what follows is of the new program */
    bool is_script; /* of one that starts: the file is */
    bool unread;    /* the same: it is not known what its file is */
    char *cmdline;  /* owned; of one that starts only the first argument */
    size_t n;
    char *groups; /* owned; text of /proc/PID/cgroup; NULL = not read */
    char exe[256], role[64], cgroup[512];
};

/* The exec of a script is asked about once more, for its interpreter: by the same call. */
#define HW_EXEC_SCRIPTS 64u
struct hw_exec_scripts {
    struct hw_exec_script {
        int32_t tid;
        uint64_t key;     /* struct hw_exec_call */
    } v[HW_EXEC_SCRIPTS]; /* by the tid */
};

/* A running one; pid: its directory at least. False: it is gone, or may not be read. */
bool hw_exec_candidate_read(const struct hw_exec_rules *r, struct hw_exec_watch_shared *shared,
                            const struct hw_pid *pid, struct hw_exec_candidate *out);
/* Its control groups, read once. HW_ELIMIT: there are more of them than are read. */
int hw_exec_candidate_groups(struct hw_exec_candidate *p);
/* One that is about to run; p->dir exists. 1; 0 = not asked for; HW_EPERM = it is left alone;
 * HW_EBUSY = not known yet. */
int hw_exec_candidate_of(const struct hw_exec_rules *r, struct hw_exec_watch_shared *shared,
                         struct hw_exec_scripts *scripts, const struct hw_exec_request *q, int fd,
                         struct hw_exec_candidate *p);
void hw_exec_candidate_done(struct hw_exec_candidate *p);

/* names, n: what the message carries (hw_exec_entry). */
int hw_exec_rules_add(struct hw_exec_rules *r, const struct hw_policy *policy,
                      const struct hw_exec_message *m, const char *names, size_t n);
void hw_exec_rules_drop(struct hw_exec_rules *r, uint64_t session);
bool hw_exec_rules_follow(const struct hw_exec_rules *r, int32_t pid);
/* How many starts of a command are held before others are passed; 0 = all are. */
uint32_t hw_exec_rules_starts_per_minute(const struct hw_exec_rules *r);
/* For the answerer: names if they decide, else that the finder must be asked. */
void hw_exec_rules_publish(const struct hw_exec_rules *r, struct hw_exec_watch_shared *shared);
/* Does a rule need this of a candidate? */
bool hw_exec_rules_need(const struct hw_exec_rules *r, enum hw_memlog_kind kind);
/* Does one mean only some of those that it would mean? */
bool hw_exec_rules_need_chance(const struct hw_exec_rules *r);
/* A user's rules apply to the user's own processes only. dir: /proc/PID */
bool hw_exec_rules_concern(const struct hw_exec_rules *r, int dir);

/* The quick question, which rules out most programs if no name means them. p: its directory */
bool hw_exec_rules_may_mean_unnamed(const struct hw_exec_rules *r, struct hw_exec_candidate *p);

/* By everything but the policy. */
bool hw_exec_rules_mean(const struct hw_exec_rules *r, const struct hw_exec_candidate *p);
/* The first session that does; 0 = it is followed, or no session means it. */
uint64_t hw_exec_rules_first(const struct hw_exec_rules *r, const struct hw_exec_candidate *p);
/* Only one session means it, and lets it draw by itself; else interval 0. */
struct hw_start_arm hw_exec_rules_arm(const struct hw_exec_rules *r,
                                      const struct hw_exec_candidate *p);
void hw_exec_rules_set_interval(struct hw_exec_rules *r, uint64_t session, uint64_t interval_bytes);
/* And may a session that means it profile it? HW_EPERM without a text: no session means it. */
int hw_exec_rules_permit(const struct hw_exec_rules *r, const struct hw_exec_candidate *p,
                         const struct hw_pid *pid, bool starts, struct hw_error *err);

#endif

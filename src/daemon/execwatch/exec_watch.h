/*
 * exec_watch.h - processes that start during a session, from their first allocation
 *
 * Why:     `-n server` means the servers that run and those that will start. A new program is held
 *          at its exec for a moment and gets the client before its loader runs.
 * Shapes:  three processes beside the recorder, none of which ever waits for it:
 *
 *            guard     forked before any thread; parent of the two below; starts them anew
 *            answerer  owns the fanotify group; says "go on" to every exec: at once where nobody
 *                      is meant by the arguments, else when the finder has said so or after 20 ms
 *            finder    traces, writes the environment; is notified of execs and renamings that were
 *                      not held (process connector, else /proc). Its readers, exec_files.h
 *
 *          When one of them is stopped it is killed; what was held goes on then.
 * Owns:    the recorder's side owns both sockets; rules are copied.
 * Errors:  without privilege there is no answerer, and the finder finds what has started already.
 * Threads: main thread.
 * Source:  doc/design/starts.md
 */
#ifndef HW_DAEMON_EXECWATCH_EXEC_WATCH_H
#define HW_DAEMON_EXECWATCH_EXEC_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/execwatch/exec_files.h"
#include "daemon/execwatch/exec_reader.h"
#include "daemon/execwatch/exec_share.h"
#include "proc/rights/access.h"

struct hw_error;
struct hw_policy;
struct hw_recorder;
struct hw_session;

/* ---- recorder and finder ---- */

#define HW_EXEC_BYTES (64u * 1024) /* of one message */

enum hw_exec_type {
    HW_EXEC_RULE = 1,   /* to the finder: then entries, each with its NUL (below) */
    HW_EXEC_DROP = 2,   /* a session is over */
    HW_EXEC_FOLLOW = 3, /* what this process starts is meant, too */
    HW_EXEC_SOCKET = 4, /* where clients connect; before the first rule */
    HW_EXEC_ARM = 5,    /* another interval for programs that start from now on */
    HW_EXEC_READY = 16, /* from the finder: it runs (again) and knows no rules */
    HW_EXEC_RULED = 17, /* the rule holds from now on */
    HW_EXEC_FOUND = 18, /* a running process to be checked */
    HW_EXEC_TAKEN = 19, /* one that starts, and another recorder holds */
    HW_EXEC_UNREAD = 20 /* one that starts and is not held, as its file or root does not answer */
};

/* An entry of a rule: one of these, '1' for one in three of them or '0', then the word. */
#define HW_EXEC_NAME 'n' /* a name as in the configuration's process_cmdline */
#define HW_EXEC_KIND 'A' /* + enum hw_memlog_kind: of a source that means some of all */

enum hw_exec_rule_flags { HW_RULE_ALL = 1 };

struct hw_exec_message {
    uint32_t type;
    uint32_t flags;          /* READY: HW_EXEC_HOLDS...; RULE: hw_exec_rule_flags */
    uint64_t session;        /* RULE; TAKEN, UNREAD: one that means it (UNREAD: 0 = not known) */
    struct hw_requester who; /* RULE: who asks */
    int32_t pid;             /* RULE: of the command; FOLLOW, FOUND, TAKEN, UNREAD */
    uint32_t generation;     /* RULE: of the session */
    int32_t holder;          /* TAKEN: the other recorder */
    uint32_t pad;
    uint64_t arm_interval_bytes; /* RULE, ARM: see inject/inject_at_exec.h */
    uint64_t arm_token;          /* RULE; its lowest bits are 0: a share's (exec_share.h) */
    uint16_t starts_per_minute;  /* RULE: more of a command are held by chance; 0 = all are */
    uint16_t young_s;            /* the same: one that was passed is found at this age */
    uint32_t pad2;
    char text[112]; /* FOUND: why it could not be prepared at its start; "" = it was not held.
                     * SOCKET: a path or '@name' */
};

#define HW_EXEC_HOLDS       1u /* programs are held at their exec */
#define HW_EXEC_HEARS       2u /* the process connector reports execs and new names */
#define HW_EXEC_RENAMED     1u /* FOUND: it has given itself the name */
#define HW_EXEC_ARMED       2u /* FOUND: it was armed a moment ago, and is no longer young */
#define HW_EXEC_SHARE_SHIFT 8u /* FOUND: above it, see hw_exec_tell_share */

/* FOUND: the share with which it was to be held, if this is about its start. */
static inline uint32_t hw_exec_tell_share(uint32_t share)
{
    return (share + 1) << HW_EXEC_SHARE_SHIFT;
}

/* What the three need to know from the start. */
struct hw_exec_watch_setup {
    const char *library; /* of the recorder's clients; NULL = none is placed */
    const struct hw_policy *policy;
};

/* ---- exec_supervisor.c ---- */

/* Before any thread is started. *talk: messages as above; *order: bytes 'b' (begin), 'e' (end). */
int hw_exec_fork(const struct hw_exec_watch_setup *s, int *talk, int *order, int32_t *pid,
                 struct hw_error *err);

/*
 * Memory of the three. Names and groups: written by the finder, version odd meanwhile (release;
 * pairs with the answerer's acquire). skip: of the guard; a process whose memory did not answer is
 * left alone, and so is every process of a user who had several of them. passed: of the answerer,
 * the last threads whose start was not held, since others of the same program are.
 */
#define HW_EXEC_SKIP     64u
#define HW_EXEC_USERS    64u
#define HW_EXEC_N_PASSED 4096u /* a ring: more than the starts between two scans of /proc */
#define HW_EXEC_NAMES    (HW_EXEC_BYTES - 256u)
#define HW_EXEC_GROUP    'g'
#define HW_EXEC_ROLE     'r'
enum hw_exec_selection {
    HW_EXEC_SELECT_MEANT, /* only what a name, a group or a role selects */
    HW_EXEC_SELECT_ALL,   /* any program may be selected: the finder decides */
    HW_EXEC_SELECT_NAMED  /* and not all names are listed */
};
struct hw_exec_watch_shared {
    _Atomic uint32_t version;
    uint32_t ask_always; /* enum hw_exec_selection */
    uint32_t n_bytes;
    char names[HW_EXEC_NAMES]; /* HW_EXEC_NAME, _GROUP or _ROLE, the word, NUL; and so on */
    struct hw_exec_reader answerer, finder;
    uint32_t n_skip;
    int32_t skip[HW_EXEC_SKIP];
    _Atomic uint32_t n_skip_users;
    uint32_t skip_users[HW_EXEC_USERS];
    uint32_t per_minute; /* with the names: starts of a command that are held; 0 = all */
    _Atomic uint32_t n_passed;
    _Atomic int32_t passed[HW_EXEC_N_PASSED];
    struct hw_exec_files files;
    _Atomic uint64_t turn_ns[2]; /* of answerer and finder: when they began their last one */
};
bool hw_exec_is_skipped(const struct hw_exec_watch_shared *s, const struct hw_exec_reader *reader,
                        int32_t pid);

/* SIGKILL for this process itself if it does not return in time: also if it is stopped. */
#define HW_EXEC_STANDS_MS 1000u /* nothing may keep them waiting for so long: they are killed */
#define HW_EXEC_BEAT_MS   300
void hw_exec_limit_init(void);
void hw_exec_limit(uint32_t ms); /* 0 = none */

/* ---- exec_events.c ---- */

struct proc_event;

#define HW_FAN_OPEN_EXEC_PERM 0x00040000u

/* A socket on which new names are reported, and execs, too; -1 = not here. */
int hw_exec_listen(bool execs);
/* HW_OK; HW_EBUSY = of another kind, continue; HW_ELIMIT = some were lost; HW_EGONE = none now. */
int hw_exec_next_event(int fd, struct proc_event *out);
/* Could programs be held at their exec? */
bool hw_exec_can_hold(void);

/* ---- exec_probe.c: at an exec, while its call waits ---- */

struct hw_exec_call {
    char argv0[512], path[512]; /* as its caller gives them */
    uint64_t argv, env;         /* where they are */
    uint64_t key;               /* the same as long as it is the same call */
};

/* The execve that the thread is in; through that reader. 1 = that; 0 = there is none; HW_EPERM =
 * it is left alone; HW_EBUSY = not known by until_ns (hw_now_monotonic_ns). */
int hw_exec_read_exec(const struct hw_exec_watch_shared *shared, struct hw_exec_reader *reader,
                      int32_t tid, uint64_t until_ns, struct hw_exec_call *out);
/* Its role as config/memlog_modes.h defines it, from the arguments and the environment that it will
 * have; reader as above. */
void hw_exec_read_role(struct hw_exec_reader *reader, int32_t tid, const struct hw_exec_call *e,
                       char role[64]);
/* How exec_share.h distinguishes programs and commands: separately for each user and each file
 * system, as a container's root has its own. fd: of the file; reader as above. */
void hw_exec_read_command(struct hw_exec_reader *reader, int32_t tid, const struct hw_exec_call *e,
                          int fd, struct hw_exec_start *out);
/* "#!/usr/bin/python3 -u" gives that path. 1 = a script; 0 = none; HW_EBUSY = not known: it would
 * have to be waited for. */
int hw_exec_read_interpreter(const struct hw_exec_watch_shared *shared, int fd,
                             char out[HW_EXEC_LINE]);
/* A thread that is not its process's first may execute, and then gets the process's number. */
int32_t hw_exec_process_of(int32_t tid);
bool hw_exec_is_loader(const struct hw_exec_watch_shared *shared, int fd);
/* May the answerer read control groups itself? */
bool hw_exec_groups_at_once(void);
/* HW_ELIMIT: there is more of it than is read here. */
int hw_exec_read_group(int32_t tid, char *out, size_t max);

/* ---- exec_gate.c and exec_matcher.c: never return ---- */

struct hw_exec_request { /* a descriptor of the file comes with it */
    uint32_t number;
    int32_t tid;
    uint64_t until_ns; /* then the answerer no longer waits */
    uint32_t unnamed;  /* 1: no name means it */
    uint32_t has_exec; /* 1: the call has been read, and still waits */
    uint32_t share;    /* with which it was drawn: exec_share.h */
    uint32_t pad;
    struct hw_exec_call exec;
};

struct hw_exec_answer {
    uint32_t number;
};

/* The answerer's first message to the finder. */
struct hw_exec_hello {
    uint32_t n_marks;
    int32_t error; /* errno */
};

_Noreturn void hw_exec_answer(struct hw_exec_watch_shared *shared, struct hw_exec_reader *reader,
                              int finder);
_Noreturn void hw_exec_find(const struct hw_exec_watch_setup *s,
                            struct hw_exec_watch_shared *shared, int recorder, int answerer);

#endif

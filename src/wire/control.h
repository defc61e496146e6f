/*
 * control.h - messages between commands and the recorder
 *
 * Why:     `heapwise record`, `heap_profile`, `perfetto`, `heapwise dump|stop|ps` steer a recorder,
 *          embedded (a socketpair inherited by a child of theirs) or running as a service (a socket
 *          with a path). Both use the same messages.
 * Shapes:  UNIX SOCK_SEQPACKET. One message = struct hw_control_head + body of `length` bytes; at
 *          most one descriptor with it. Strings in bodies have no NUL: they end with the body.
 * Errors:  an unknown type or a wrong length ends the connection, never the recorder.
 * Source:  private to this project, versioned by HW_CONTROL_VERSION.
 */
#ifndef HW_WIRE_CONTROL_H
#define HW_WIRE_CONTROL_H

#include <stdint.h>

#define HW_CONTROL_VERSION 1u
/* Where an embedded recorder answers other commands: status, dump, stop. + its pid */
#define HW_CONTROL_EMBEDDED  "@heapwise-recorder-"
#define HW_CONTROL_MAX_BYTES (256u * 1024u)

enum hw_control_type {
    HW_CTL_NONE = 0,
    /* command → recorder */
    HW_CTL_START =
        1, /* body: struct hw_control_start + binary TraceConfig; fd: output file, O_RDWR */
    HW_CTL_STOP = 2, /* session 0 = the one of this connection */
    HW_CTL_DUMP =
        3, /* body: empty = all, else i32 pids; from another connection: any session one may see */
    HW_CTL_STATUS = 4, /* answer: HW_CTL_STATUS_REPLY */
    HW_CTL_TARGET = 5, /* body: struct hw_control_target: "this pid is the command I started" */
    HW_CTL_FLUSH = 6,
    HW_CTL_DETACH = 7, /* body: the key. The session continues without this connection */
    HW_CTL_ATTACH = 8, /* body: the key. A detached session becomes this connection's */
    HW_CTL_CLONE = 9,  /* session, or 0 and body: its unique_session_name. Dumps, then CLONED */
    HW_CTL_LIVE = 10,  /* body: struct hw_control_live_request. A process's heaps as they are now */
    HW_CTL_MARK = 11,  /* body: struct hw_control_mark + text of a moment. 0 = of this connection */
    HW_CTL_LEAVE = 12, /* body: i32 pid. It is no longer profiled in that session: LEFT */
    HW_CTL_RATE = 13,  /* body: u32: how often the session's intervals are doubled, from now on */
    /* recorder → command */
    HW_CTL_STARTED =
        32, /* body: u64 session id; all data sources run, targets known so far profiled */
    HW_CTL_ERROR = 33,        /* body: text; the request failed, nothing was started */
    HW_CTL_WARNING = 34,      /* body: text */
    HW_CTL_TARGET_STATE = 35, /* body: struct hw_control_target_state + name */
    HW_CTL_PROGRESS = 36,     /* body: struct hw_control_progress, at most 10 a second */
    HW_CTL_DUMPED = 37,       /* body: struct hw_control_dumped: they are written */
    HW_CTL_ENDED =
        38, /* body: struct hw_control_ended + text of the reason; the file is complete */
    HW_CTL_STATUS_REPLY = 39, /* body: JSON text */
    HW_CTL_DETACHED = 40,     /* body: u64 session id */
    HW_CTL_ATTACHED = 41,     /* body: u64 session id */
    HW_CTL_CLONED = 42,     /* body: struct hw_control_cloned; fd: the session's file, of which the
                             * first `bytes` bytes are a whole trace; read by pread only */
    HW_CTL_LIVE_REPLY = 43, /* body: struct hw_control_live; fd: a trace with one dump of each heap,
                             * of every callstack, that the session's own file knows nothing of */
    HW_CTL_LEFT = 44,       /* body: u32 processes that are left in the session */
    HW_CTL_LAST = 45, /* as LIVE_REPLY, unasked: a process at its end; no descriptor: no sample */
    HW_CTL_TYPE_COUNT
};

struct hw_control_head {
    uint32_t version;
    uint32_t type;
    uint32_t length;
    uint32_t reserved;
    uint64_t session; /* 0 = this connection's; of HW_CTL_ERROR: the error's code without its sign,
                       * 0 = the request is wrong */
};

enum hw_control_start_flags {
    HW_START_FOLLOW_FORK = 1,
    HW_START_CHECKPOINTS = 2, /* a checkpoint dump at least every 60 s */
    HW_START_KEEP_PEAK = 4,   /* a dump of the peak besides the end (record) */
    HW_START_LAUNCHED = 8,    /* targets are the tree below HW_CTL_TARGET, not names */
    HW_START_IDLE = 16,       /* --idle-allocations */
    HW_START_MALLOC_INFO = 32,
    HW_START_STRIP_ENV = 64,
    HW_START_UNTIL_GONE = 128, /* ends when none of the processes named by number is left in it */
    HW_START_RESCAN = 512,     /* processes that it means and another recorder has are looked at
                                * again; and all, when starting programs may have been missed */
    HW_START_REGIONS = 1024,   /* at each dump the mappings with their addresses */
    HW_START_TELL_LAST = 256,  /* HW_CTL_LAST at the end of each process */
    HW_START_PINNED = 2048     /* --pinned */
};

struct hw_control_start {
    uint32_t flags;
    uint32_t smaps_ms;       /* 0 = off */
    uint32_t malloc_info_ms; /* 0 = off */
    uint32_t process_stats_ms;
    uint64_t seed; /* tests; 0 = random */
    uint32_t config_bytes;
    /* Of a command that starts more often, so many starts are held at random (0 = all are); one
     * that was not held, and lives, is found at this age (doc/design/starts.md, "A share of the
     * starts"). */
    uint16_t starts_per_minute, young_s;
};

struct hw_control_target {
    int32_t pid;
    uint32_t reserved;
};

#define HW_MARK_MAX_BYTES 200u

struct hw_control_mark {
    uint64_t boottime_ns; /* when; 0 or a time outside of the session = now */
};

enum hw_target_state {
    HW_TARGET_CONNECTED = 1, /* profiled from now on */
    HW_TARGET_REJECTED = 2,  /* belongs to another session */
    HW_TARGET_EXITED = 3,
    HW_TARGET_EXECED = 4,
    HW_TARGET_FAILED = 5, /* gave up: reason in the text */
    HW_TARGET_CALLED = 6  /* a running one: its next allocation connects it */
};

struct hw_control_target_state {
    int32_t pid;
    uint32_t state; /* enum hw_target_state; followed by the name or reason as text */
};

struct hw_control_progress {
    uint64_t bytes_written, n_samples, n_lost;
    uint32_t n_targets, n_dumps;
    /* CPU time that the recorder has used for samples of all its processes since its start. */
    uint64_t sampling_ns;
};

struct hw_control_dumped {
    uint32_t n;         /* processes */
    uint32_t n_missing; /* of them not written in time */
};

struct hw_control_cloned {
    uint64_t session, bytes;
    uint32_t n_targets; /* whose dumps were waited for */
    uint32_t n_missing; /* of them not answered in time: as they were at an earlier dump */
};

enum hw_live_request_flags {
    HW_LIVE_REQUEST_COUNTERS = 1 /* what /proc and the allocator say, too */
};

struct hw_control_live_request {
    int32_t pid; /* of any session that one may see */
    uint32_t flags;
    uint64_t
        moment_ns; /* CLOCK_MONOTONIC, for looks at several that are one; 0 = when it is made */
};

struct hw_control_live {
    int32_t pid;
    uint32_t share; /* it was held at random, and stands for 2^share starts; 0 = for itself */
    uint64_t bytes; /* of the trace */
    uint64_t n_samples, n_lost;
};

struct hw_control_ended {
    uint64_t bytes_written, n_samples, n_lost;
    uint32_t n_targets; /* processes profiled in the session */
    uint32_t n_dumps;
    int32_t status;    /* 0 or HW_E… */
    uint32_t n_missed; /* forked processes that could not be recorded in time */
};

#endif

/*
 * pid.h - one process, pinned, and what /proc says about it
 *
 * Why:     pids are reused. A process is named once by number, then held by a pidfd and one
 *          /proc/PID directory descriptor (which stays with that very process and answers ESRCH
 *          after its end); everything after goes through them.
 * Units:   kilobytes as in /proc; start_ticks in clock ticks since boot.
 * Owns:    both descriptors, until hw_pid_done.
 * Errors:  HW_EGONE (no such process, or it ended), HW_EPERM, HW_ESYS, HW_EFORMAT.
 */
#ifndef HW_PROC_PID_H
#define HW_PROC_PID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/memory/vec.h"

struct hw_error;

struct hw_pid {
    int32_t pid;
    int pidfd;            /* owned */
    int dir;              /* /proc/PID; owned */
    uint64_t start_ticks; /* 0 = not read: hw_pid_start */
};

#define HW_PID_NONE ((struct hw_pid){.pid = -1, .pidfd = -1, .dir = -1})

int hw_pid_open(int32_t pid, struct hw_pid *out, struct hw_error *err);
/* The process at the other end of a connected socket: pid is SO_PEERCRED's. If the kernel can
 * tell (SO_PEERPIDFD, Linux 6.5), not one that got the number later. */
int hw_pid_open_peer(int socket, int32_t pid, struct hw_pid *out, struct hw_error *err);
void hw_pid_done(struct hw_pid *p);
bool hw_pid_alive(const struct hw_pid *p);
/* How it ended, as wait() gives it: of one that its parent has not waited for yet, or (Linux 6.15) has.
 * HW_EGONE: nothing tells. */
int hw_pid_exit_status(const struct hw_pid *p, uint32_t *out);
/* Not one that got the number later. Of two whose start_ticks were read. */
static inline bool hw_pid_is_same(const struct hw_pid *a, const struct hw_pid *b)
{
    return a->pid == b->pid && a->start_ticks == b->start_ticks;
}
/* Its start_ticks; where they were not read (0), from its directory. 0 = it has ended. */
uint64_t hw_pid_start(const struct hw_pid *p);

struct hw_proc_stat {
    int32_t ppid;
    uint64_t start_ticks;
    uint64_t utime_ticks, stime_ticks;
    char state;
    int32_t
        exit_code; /* as wait() gives it, once it has ended; 0 also where that may not be seen */
};
int hw_proc_stat(int proc_dir, struct hw_proc_stat *out);

struct hw_proc_status {
    int32_t tgid, ppid, tracer_pid;
    uint32_t uid, euid, suid, fsuid;
    uint32_t gid, egid, sgid, fsgid;
    uint64_t cap_permitted, cap_effective;
    uint64_t signals_caught; /* bit 0 = signal 1 */
    int32_t nspid;           /* innermost */
    uint32_t threads;
    int32_t seccomp;
    uint64_t seccomp_filters; /* since Linux 5.9, else 0 */
    uint64_t vm_size_kb, vm_rss_kb, rss_anon_kb, rss_file_kb, rss_shmem_kb, vm_swap_kb,
        vm_locked_kb, vm_hwm_kb, vm_pte_kb;
    char name[64];
};
/* HW_EGONE; HW_ESYS: there are no more descriptors. */
int hw_proc_status(int proc_dir, struct hw_proc_status *out);
/* Of a process by its number; 0: not known. */
uint64_t hw_proc_rss_bytes(int32_t pid);
int hw_proc_own_status(struct hw_proc_status *out);
/* Who traces this process now; 0 = nobody, as far as can be seen. By one thread of it: the file
 * stays open. */
int32_t hw_proc_own_tracer(void);
/* From text, for tests: any bytes. */
void hw_proc_status_parse(const char *text, struct hw_proc_status *out);

int hw_proc_oom_score_adj(int proc_dir, int64_t *out);

/* Arguments separated by NUL; *out malloc'ed, n may be 0 (kernel thread). */
int hw_proc_cmdline(int proc_dir, char **out, size_t *n);
/* The part of argv[0] that people know: without the folder, which in a title is not the last
 * slash ("nginx: master process /usr/sbin/nginx -g"). Inside argv0; "" for a folder. */
const char *hw_proc_shown_name(const char *argv0);
/* Base name of the executable; "" when unreadable. */
void hw_proc_exe_name(int proc_dir, char *out, size_t max);

/* All pids of /proc now. */
typedef HW_VEC(int32_t) hw_pid_list;
int hw_proc_list(hw_pid_list *out);
/* Processes of other pid namespaces that are called `inner` there; of: only in this process's
 * namespace, 0 = in any. */
int hw_proc_inside(int32_t inner, int32_t of, hw_pid_list *out);
/* Does the process have a thread with that number in its own pid namespace? 1 = yes, 0 = no, or
 * it has ended; HW_EGONE, HW_ELIMIT (it has too many): cannot be told. */
int hw_proc_has_thread(int proc_dir, int32_t inner);

#endif

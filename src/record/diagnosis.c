#include "record/diagnosis.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "config/command/command.h"
#include "config/command/explain.h"
#include "config/config.h"
#include "daemon/policy/permission.h"
#include "elf/elf.h"
#include "inject/inject.h"
#include "proc/maps.h"
#include "proc/pid.h"
#include "proc/rights/userns.h"
#include "record/launch.h"
#include "record/process_reads.h"
#include "record/recording.h"

#include "base/banned.h"

enum { SHORT_MS = 1000 }; /* too short to claim that a program allocates nothing */

#define LIBRARY "libheapprofd_glibc_preload.so"

static void find(struct hw_finding *out, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void find(struct hw_finding *out, const char *code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(out->text, sizeof out->text, fmt, ap); /* a truncated sentence will do */
    va_end(ap);
    out->code = code;
}

/* ---- the program's file ---- */

static uint32_t our_machine(void)
{
#if defined(__x86_64__)
    return EM_X86_64;
#elif defined(__aarch64__)
    return EM_AARCH64;
#else
    return EM_NONE;
#endif
}

static bool is_i386(const struct hw_elf_info *info)
{
    return our_machine() == EM_X86_64 && info->machine == EM_386 && info->elf_class == 32;
}

/* What keeps the dynamic linker from loading our library. */
static void check_loads(const char *path, int fd, const struct hw_elf_info *info,
                        struct hw_finding *out)
{
    struct stat st;
    bool i386 = is_i386(info);
    if (i386 && !hw_launch_has_library_32())
        find(out, "32-bit",
             "'%s' is a 32-bit program (i386), and this build has no client library for those",
             path);
    else if (i386 && !info->has_interp)
        find(out, "static",
             "'%s' is a 32-bit program (i386) and statically linked: it loads no libraries", path);
    else if (!i386 && info->machine != our_machine())
        find(out, "other-architecture", "'%s' is a program for another architecture", path);
    else if (!info->has_interp && info->is_go)
        find(out, "go", "'%s' is a static Go program: it loads no libraries", path);
    else if (!info->has_interp)
        find(out, "static", "'%s' is statically linked: it loads no libraries", path);
    else if (info->is_sanitized)
        find(out, "asan",
             "'%s' is built with a sanitizer, which tolerates no library before its own", path);
    else if (info->is_musl)
        find(out, "musl", "'%s' uses musl, whose loader is not given heapwise's library", path);
    else if (fstat(fd, &st) == 0 && (((st.st_mode & S_ISUID) && st.st_uid != geteuid()) ||
                                     ((st.st_mode & S_ISGID) && st.st_gid != getegid())))
        find(out, "set-uid",
             "'%s' runs with another user's or group's rights: the dynamic linker "
             "ignores LD_PRELOAD",
             path);
}

/* What lets the library load but hides allocations from it. */
static void check_sees(const char *path, const struct hw_elf_info *info, struct hw_finding *out)
{
    if (info->is_go)
        find(out, "go", "'%s' is a Go program: its memory does not come from malloc", path);
    else if (info->defines_malloc)
        find(out, "allocator-inside",
             "'%s' has an allocator linked in: its calls do not go through the dynamic linker",
             path);
}

/* "#!/bin/sh" → the interpreter, which is what really runs. */
static bool script_interpreter(int fd, char *out, size_t max)
{
    char line[256];
    ssize_t n = pread(fd, line, sizeof line - 1, 0);
    if (n < 3 || line[0] != '#' || line[1] != '!')
        return false;
    line[n] = 0;
    char *p = line + 2 + strspn(line + 2, " \t");
    p[strcspn(p, " \t\r\n")] = 0;
    (void)snprintf(out, max, "%s", p); /* lines are shorter than max */
    return true;
}

/* fd < 0: unreadable, so nothing is known about it. */
static void diagnose_open(int fd, const char *path, bool loads, struct hw_finding *out)
{
    struct hw_elf *elf;
    struct hw_elf_info info;
    if (fd < 0 || hw_elf_open(fd, &elf, NULL) < 0)
        return;
    if (hw_elf_get_info(elf, &info, NULL) == 0) {
        check_loads(path, fd, &info, out);
        if (!out->code && !loads)
            check_sees(path, &info, out);
    }
    hw_elf_close(elf);
}

/* For the program itself, or a script's interpreter: then *path is set to that. */
static int open_program(const char **path, char *interpreter, size_t max)
{
    int fd = open(*path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || !script_interpreter(fd, interpreter, max))
        return fd;
    (void)close(fd);
    *path = interpreter;
    return open(interpreter, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

void hw_diagnose_file(const char *path, bool loads, struct hw_finding *out)
{
    char interpreter[256];
    *out = (struct hw_finding){0};
    hw_autofd int fd = open_program(&path, interpreter, sizeof interpreter);
    diagnose_open(fd, path, loads, out);
}

bool hw_diagnose_is_32_bit(const char *path)
{
    char interpreter[256];
    struct hw_elf *elf;
    struct hw_elf_info info;
    hw_autofd int fd = open_program(&path, interpreter, sizeof interpreter);
    if (fd < 0 || hw_elf_open(fd, &elf, NULL) < 0)
        return false;
    bool yes = hw_elf_get_info(elf, &info, NULL) == 0 && is_i386(&info);
    hw_elf_close(elf);
    return yes;
}

/* ---- a process ---- */

static bool has_library(const struct hw_pid *p, bool *readable)
{
    struct hw_maps maps = {0};
    *readable = hw_read_maps(p, &maps) == 0;
    bool found = *readable && hw_maps_find_code(&maps, LIBRARY);
    if (*readable)
        hw_maps_done(&maps);
    return found;
}

bool hw_diagnose_has_library(const struct hw_pid *p)
{
    bool readable;
    return has_library(p, &readable);
}

/* What the recorder would decide. A running service with its own policy will tell by itself. */
static void check_policy(const struct hw_pid *p, const struct hw_proc_status *status,
                         struct hw_finding *out)
{
    struct hw_policy policy;
    struct hw_permission_request asking;
    struct hw_error err;
    if (hw_policy_read(NULL, &policy, &err) < 0) {
        find(out, "refused", "%s", err.text);
        return;
    }
    struct hw_requester self;
    hw_requester_self(&self);
    hw_permission_request_init(&asking, &self, getpid(), &policy);
    if (hw_permission_profile(&asking, p, status, &err) < 0)
        find(out, "refused", "%s", err.text);
    hw_permission_request_done(&asking);
    hw_policy_done(&policy);
}

/* By the flags in `stat` (PF_KTHREAD): an exiting process has no command line either. */
static bool is_kernel_thread(const struct hw_pid *p)
{
    enum { KERNEL_THREAD = 0x00200000 };
    hw_autofree char *text = NULL;
    size_t n;
    unsigned flags = 0;
    if (hw_file_read(p->dir, "stat", 4096, &text, &n, NULL) < 0)
        return false;
    const char *behind = strrchr(text, ')'); /* the name in brackets may contain anything */
    return behind && sscanf(behind + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
           (flags & KERNEL_THREAD) != 0;
}

/* Each has a remedy of its own. */
static const char *code_of_refusal(const struct hw_pid *p, const struct hw_proc_status *status,
                                   const struct hw_error *why)
{
    struct hw_proc_stat stat;
    if (status->tracer_pid || (hw_proc_stat(p->dir, &stat) == 0 && strchr("Tt", stat.state)))
        return "held";
    if (why->code == HW_EPERM)
        return "not-permitted";
    if (strstr(why->text, "linked statically") || strstr(why->text, "has its allocator in"))
        return "not-hookable";
    return status->seccomp && strstr(why->text, "seccomp") ? "confined" : "not-attachable";
}

/* By a process of its own (process_reads.h). */
static void check_files(const struct hw_pid *p, void *arg)
{
    struct hw_finding *out = arg;
    struct hw_proc_status status;
    struct hw_error err;
    if (hw_proc_status(p->dir, &status) < 0 || hw_inject_check(p, &err) == HW_OK)
        return;
    char name[4096] = "its program";
    ssize_t len = readlinkat(p->dir, "exe", name, sizeof name - 1);
    if (len > 0)
        name[len] = '\0';
    hw_autofd int exe = openat(p->dir, "exe", O_RDONLY | O_CLOEXEC); /* whatever its root */
    /* Of the file's properties, only these explain more than what prevents attaching. */
    diagnose_open(exe, name, /* loads = */ true, out);
    if (!out->code || (strcmp(out->code, "go") != 0 && strcmp(out->code, "asan") != 0))
        find(out, code_of_refusal(p, &status, &err), "%s", err.text);
}

static void check_process(const struct hw_pid *p, struct hw_finding *out)
{
    struct hw_proc_status status;
    char *cmdline = NULL;
    size_t n = 0;
    bool readable;
    if (hw_proc_status(p->dir, &status) < 0) {
        find(out, "no-process", "process %d has ended", p->pid);
        return;
    }
    if (hw_permission_is_machines_first(p)) {
        find(out, "protected", "process 1 is never profiled");
        return;
    }
    int rc = hw_read_cmdline(p, &cmdline, &n);
    free(cmdline);
    if (rc == 0 && n == 0) { /* or it has just exited, or has overwritten its arguments */
        struct hw_proc_stat stat;
        if (hw_proc_stat(p->dir, &stat) < 0 || stat.state == 'Z' || stat.state == 'X')
            find(out, "no-process", "process %d has ended", p->pid);
        else if (is_kernel_thread(p))
            find(out, "kernel-thread", "process %d is a kernel thread", p->pid);
        if (out->code)
            return;
    }
    struct hw_requester self;
    hw_requester_self(&self);
    if (self.uid != 0 && status.uid != self.uid &&
        !hw_userns_is_of(p->dir, self.uid, self.user_ns)) {
        find(out, "not-yours", "process %d belongs to user %u", p->pid, status.uid);
        return;
    }
    check_policy(p, &status, out);
    if (out->code || has_library(p, &readable))
        return;
    if (!readable) {
        find(out, "not-permitted", "process %d may not be inspected", p->pid);
        return;
    }
    struct hw_finding found = {0};
    int rc_files = hw_read_files(p, check_files, &found, sizeof found);
    if (rc_files < 0)
        find(out, "not-permitted",
             "process %d may not be inspected: its files or its root directory do not answer (%s)",
             p->pid, hw_errc_text(rc_files));
    else
        *out = found;
}

void hw_diagnose_pid(int32_t pid, struct hw_finding *out)
{
    *out = (struct hw_finding){0};
    struct hw_pid p;
    struct hw_error err;
    int rc = hw_pid_open(pid, &p, &err);
    if (rc < 0) {
        if (rc == HW_EGONE)
            find(out, "no-process", "no process %d", pid);
        else
            find(out, "not-permitted", "process %d: %s", pid, err.text);
        return;
    }
    check_process(&p, out);
    hw_pid_done(&p);
}

static bool has_name(int32_t pid, const char *name)
{
    struct hw_pid p;
    char argv0[512];
    if (hw_pid_open(pid, &p, NULL) < 0)
        return false;
    hw_read_argv0(&p, argv0, sizeof argv0);
    hw_pid_done(&p);
    return argv0[0] && hw_config_name_matches(name, argv0);
}

/* True if the process exists; *out says why it cannot be profiled, if so. */
static bool diagnose_name(const char *name, struct hw_finding *out)
{
    hw_pid_list all = {0};
    bool found = false;
    (void)hw_proc_list(&all); /* entries read before a failure count */
    for (size_t i = 0; i < all.n && !out->code; i++)
        if (has_name(all.v[i], name)) {
            found = true;
            hw_diagnose_pid(all.v[i], out);
        }
    hw_vec_done(&all);
    return found;
}

void hw_diagnose_wanted(const uint64_t *pids, size_t n_pids, char *const *names, size_t n_names,
                        bool no_running, struct hw_finding *out)
{
    *out = (struct hw_finding){0};
    for (size_t i = 0; i < n_pids && !out->code; i++)
        if (pids[i] <= INT32_MAX)
            hw_diagnose_pid((int32_t)pids[i], out);
        else
            find(out, "no-process", "no process %llu", (unsigned long long)pids[i]);
    for (size_t i = 0; i < n_names && !out->code; i++)
        if (!diagnose_name(names[i], out))
            find(out, "no-process", "no process named '%s' ran", names[i]);
    if (!out->code && no_running)
        find(out, "left-out", "the process was already running, and --no-running leaves those out");
    if (!out->code && n_pids)
        find(out, "not-ready",
             "process %llu is there, and the recording ended before it was ready to be profiled",
             (unsigned long long)pids[0]);
    else if (!out->code)
        find(out, "not-ready",
             "'%s' is there, and the recording ended before it was ready to be profiled",
             n_names ? names[0] : "the process");
}

/* ---- a recording ---- */

/* From then on to the end of the recording, not of its file. */
static uint64_t ms_since(const struct hw_recording *r, uint64_t ns)
{
    uint64_t end = r->stopped_ns ? r->stopped_ns : hw_now_monotonic_ns();
    return end > ns ? (end - ns) / 1000000 : 0;
}

/* It was ready to be profiled from its next allocation, and never connected: on a busy machine it may have had no time
 * for that. */
static void asked_for_nothing(const struct hw_recording *r, const struct hw_seen_target *t,
                              struct hw_finding *out)
{
    int32_t pid = t->pid;
    bool ended = kill(pid, 0) < 0 && errno == ESRCH;
    uint64_t ready_ms = ms_since(r, t->called_ns);
    if (!ended && ready_ms < SHORT_MS) {
        find(out, "not-ready",
             "process %d was ready to be profiled only for the last %llu ms of the recording, and "
             "did not answer in them: nothing could be recorded",
             pid, (unsigned long long)ready_ms);
        return;
    }
    find(out, "never-allocated",
         ended ? "process %d was ready to be profiled, and ended without another allocation"
               : "process %d was ready to be profiled, but allocated nothing",
         pid);
}

static void no_target(const struct hw_recording *r, const char *program, struct hw_finding *out)
{
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i].reason && r->targets.v[i].state == HW_TARGET_REJECTED &&
            strncmp(r->targets.v[i].reason, "process ", 8) == 0) { /* by the policy: a sentence */
            find(out,
                 strstr(r->targets.v[i].reason, "process 1 is never") ? "protected" : "refused",
                 "%s", r->targets.v[i].reason);
            return;
        } else if (r->targets.v[i].reason) {
            find(out, r->targets.v[i].state == HW_TARGET_REJECTED ? "rejected" : "gave-up",
                 "process %d: %s", r->targets.v[i].pid, r->targets.v[i].reason);
            return;
        }
    for (size_t i = 0; i < r->targets.n; i++)
        if (r->targets.v[i].called) {
            asked_for_nothing(r, &r->targets.v[i], out);
            return;
        }
    if (r->lacked_descriptors) {
        find(out, "no-descriptors",
             "the recorder had no more descriptors for what it should profile");
        return;
    }
    if (program) {
        hw_diagnose_file(program, /* loads = */ true, out);
        if (!out->code)
            find(out, "not-seen", "'%s' never asked to be profiled", program);
        return;
    }
    if (r->is_adopted && r->ended.n_targets)
        find(out, "never-allocated", "none of its processes' allocations was sampled");
    else if (r->is_adopted)
        find(out, "no-process", "no process was profiled while it ran");
    else
        find(out, "no-process", "no process of that name or pid was profiled");
}

void hw_diagnose_recording(const struct hw_recording *r, const char *program,
                           struct hw_finding *out)
{
    *out = (struct hw_finding){0};
    const struct hw_seen_target *t = hw_recording_main_target(r);
    if (!t) {
        no_target(r, program, out);
        return;
    }
    if (!hw_recording_is_empty(r, t))
        return;
    if (t->reason)
        find(out, "gave-up", "process %d ('%s'): %s", t->pid, t->name ? t->name : "?", t->reason);
    else if (r->ended.n_lost)
        find(out, "buffer-overrun", "all %llu samples were lost: the buffer was full",
             (unsigned long long)r->ended.n_lost);
    else if (hw_recording_is_starter(t))
        find(
            out, "not-seen",
            "only '%s' (%d) was profiled, which starts other programs; none of those contacted the "
            "recorder",
            t->name ? t->name : "?", t->pid);
    else if (program)
        hw_diagnose_file(program, /* loads = */ false, out);
    if (!out->code && t->called && ms_since(r, t->connected_ns) < SHORT_MS)
        find(out, "not-ready",
             "process %d ('%s') was profiled only for the last %llu ms of the recording, and none "
             "of "
             "its allocations was sampled in them",
             t->pid, t->name ? t->name : "?", (unsigned long long)ms_since(r, t->connected_ns));
    if (!out->code)
        find(out, "never-allocated",
             "none of the allocations of '%s' (%d) was sampled during the recording",
             t->name ? t->name : "?", t->pid);
}

bool hw_diagnose_is_readable(const struct hw_finding *f)
{
    return f->code && strcmp(f->code, "go") == 0;
}

int hw_diagnose_exit(const struct hw_finding *f)
{
    static const char *const never[] = {
        "refused",           "set-uid", "not-yours", "not-permitted", "protected", "kernel-thread",
        "not-attachable",    "static",  "go",        "musl",          "asan",      "32-bit",
        "other-architecture"};
    for (size_t i = 0; i < HW_ARRAY_LEN(never); i++)
        if (f->code && strcmp(f->code, never[i]) == 0)
            return HW_EXIT_UNSUPPORTED;
    return HW_EXIT_FAILED;
}

void hw_diagnose_print(const struct hw_cli *cli, const struct hw_finding *f)
{
    const char *remedy = hw_explain_remedy(f->code);
    hw_cli_error(cli, f->code, "the profile is empty: %s", f->text);
    if (remedy)
        hw_cli_hint("%s", remedy);
}

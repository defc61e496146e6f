/* program_check.c - refusals by what /proc and the program's file say */
#include "inject/remote/program_check.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "elf/image.h"
#include "inject/filters/seccomp.h"
#include "proc/pid.h"

#include "base/banned.h"

#if defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#define OUR_MACHINE EM_X86_64
#endif

/* Reads its first bytes as text; gives how many, or -1. */
static ssize_t read_small(const char *path, char *out, size_t max)
{
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, max - 1);
    if (n >= 0)
        out[n] = '\0';
    return n;
}

int hw_check_status(const struct hw_pid *pid, struct hw_proc_status *st, struct hw_error *err)
{
    struct hw_proc_stat stat;
    if (hw_proc_status(pid->dir, st) < 0 || hw_proc_stat(pid->dir, &stat) < 0)
        return hw_fail(err, HW_EGONE, 0, "process %d has ended", pid->pid);
    if (stat.state == 'Z' || stat.state == 'X')
        return hw_fail(err, HW_EGONE, 0,
                       "process %d has ended; its parent has not yet collected it (zombie)",
                       pid->pid);
    if (st->tracer_pid != 0)
        return hw_fail(
            err, HW_EBUSY, 0,
            "process %d is being traced by process %d (a debugger, strace?); end that first",
            pid->pid, st->tracer_pid);
    if (stat.state == 'T' || stat.state == 't')
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "process %d is stopped; continue it first: kill -CONT %d", pid->pid,
                       pid->pid);
    if (st->vm_size_kb == 0)
        return hw_fail(err, HW_EUNSUPPORTED, 0, "process %d is a kernel thread", pid->pid);
    if (st->seccomp == 1)
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "process %d may only read, write and exit (strict seccomp), so nothing can "
                       "be loaded into it; start it with 'heapwise record --'",
                       pid->pid);
    if (st->seccomp != 0) /* which calls, is checked when a thread is stopped */
        return hw_seccomp_readable(pid, err);
    return HW_OK;
}

bool hw_pid_ignores(const struct hw_pid *pid, int signal)
{
    char text[8192];
    hw_autofd int fd = openat(pid->dir, "status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    const char *line = strstr(text, "\nSigIgn:");
    return line && (strtoull(line + 8, NULL, 16) >> (signal - 1) & 1);
}

#define CAP_PTRACE_BIT 19

/* Yama restricts tracing to descendants (1), to the privileged (2), or forbids it (3). */
int hw_check_scope(const struct hw_pid *pid, struct hw_error *err)
{
    char text[4096];
    long scope = 0;
    unsigned long long caps = 0;
    ssize_t rc = read_small("/proc/sys/kernel/yama/ptrace_scope", text, sizeof text);
    if (rc <= 0 || (scope = strtol(text, NULL, 10)) == 0)
        return HW_OK;
    if (read_small("/proc/self/status", text, sizeof text) > 0) {
        const char *line = strstr(text, "\nCapEff:");
        caps = line ? strtoull(line + 8, NULL, 16) : 0;
    }
    if (scope < 3 && (caps >> CAP_PTRACE_BIT & 1))
        return HW_OK;
    hw_autofd int memory = scope == 1 ? openat(pid->dir, "mem", O_RDONLY | O_CLOEXEC) : -1;
    if (memory >= 0) /* asks for the same right, which a process may grant (PR_SET_PTRACER) */
        return HW_OK;
    return hw_fail(
        err, HW_EPERM, 0,
        "process %d may not be traced: /proc/sys/kernel/yama/ptrace_scope is %ld; run as "
        "root, or write 0 there",
        pid->pid, scope);
}

static const char *machine_name(uint32_t machine)
{
    switch (machine) {
    case EM_386:
        return "i386";
    case EM_X86_64:
        return "x86-64";
    case EM_ARM:
        return "arm";
    case EM_AARCH64:
        return "arm64";
    case EM_RISCV:
        return "riscv";
    default:
        return "another";
    }
}

static void read_loader(const struct hw_image *img, const struct hw_image_segment *s,
                        struct hw_checked_program *out)
{
    uint8_t *text;
    out->dynamic = true;
    if (hw_image_read(img, s->offset, s->file_bytes, 4096, &text, NULL) < 0)
        return;
    const char *slash = strrchr((const char *)text, '/');
    (void)snprintf(out->loader, sizeof out->loader, "%s", slash ? slash + 1 : (const char *)text);
    free(text);
}

int hw_check_file(const struct hw_pid *pid, struct hw_checked_program *out, struct hw_error *err)
{
    struct hw_image img;
    hw_autofd int fd = openat(pid->dir, "exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return hw_fail(err, HW_EGONE, 0, "process %d has no executable file (a kernel thread?)",
                       pid->pid);
    if (fd < 0)
        return hw_fail(err, HW_EPERM, 0, "process %d may not be inspected (%s)", pid->pid,
                       strerror(errno));
    int rc = hw_image_open(&img, fd, NULL, 0, /* with_sections = */ false, err);
    if (rc < 0)
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "process %d runs a program that is not an ELF file heapwise can read",
                       pid->pid);
    for (size_t i = 0; i < img.n_segments; i++)
        if (img.segments[i].type == PT_INTERP)
            read_loader(&img, &img.segments[i], out);
    uint32_t machine = img.machine;
    uint8_t bits = img.elf_class;
    hw_image_close(&img);
    if (bits != 64 || machine != OUR_MACHINE)
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "process %d is a %u-bit program for %s; this build attaches to 64-bit %s "
                       "programs only: %s %s",
                       pid->pid, bits, machine_name(machine), machine_name(OUR_MACHINE),
                       OUR_MACHINE == EM_X86_64 && machine == EM_386
                           ? "start it with 'heapwise record --', which profiles those of"
                           : "build the program for 64-bit, or heapwise for",
                       machine_name(machine));
    out->fd = fd;
    fd = -1;
    return HW_OK;
}

/*
 * process.c - preflight
 *
 * Text of libc that belongs to its allocator has no symbols of its own left for its inner
 * functions (_int_malloc, sysmalloc …), but all of malloc.c is linked in one piece: it reaches from
 * the end of the last exported function below the family's lowest to the first above its highest.
 * An allocator that is a library of its own is forbidden as a whole, and so is the loader.
 */
#include "inject/process.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/error.h"
#include "base/fd.h"
#include "elf/image.h"
#include "elf/symbols.h"
#include "inject/inject.h"
#include "proc/file.h"

#include "base/banned.h"

#define MAX_CODE (64u * 1024 * 1024)
#if defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#define OUR_MACHINE EM_X86_64
#endif

int hw_process_read(const struct hw_process *p, uint64_t at, void *out, size_t n)
{
    struct iovec to = {out, n}, from = {(void *)(uintptr_t)at, n};
    ssize_t got = process_vm_readv(p->pid->pid, &to, 1, &from, 1, 0);
    if (got == (ssize_t)n)
        return HW_OK;
    return got < 0 && errno == ESRCH ? HW_EGONE : got < 0 && errno == EPERM ? HW_EPERM : HW_ESYS;
}

/* ---- refusals by what /proc says ---- */

/* Its first bytes as a text; how many, or -1. */
static ssize_t read_small(const char *path, char *out, size_t max)
{
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, max - 1);
    if (n >= 0)
        out[n] = '\0';
    return n;
}

static int check_status(const struct hw_pid *pid, struct hw_proc_status *st, struct hw_error *err)
{
    struct hw_proc_stat stat;
    if (hw_proc_status(pid->dir, st) < 0 || hw_proc_stat(pid->dir, &stat) < 0)
        return hw_fail(err, HW_EGONE, 0, "process %d has ended", pid->pid);
    if (stat.state == 'Z' || stat.state == 'X')
        return hw_fail(err, HW_EGONE, 0, "process %d has ended (it is a zombie)", pid->pid);
    if (st->tracer_pid != 0)
        return hw_fail(err, HW_EBUSY, 0,
                       "process %d is traced by process %d (a debugger, strace?); end that first",
                       pid->pid, st->tracer_pid);
    if (stat.state == 'T' || stat.state == 't')
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "process %d is stopped; continue it first: kill -CONT %d", pid->pid,
                       pid->pid);
    if (st->vm_size_kb == 0)
        return hw_fail(err, HW_EUNSUPPORTED, 0, "process %d is a kernel thread", pid->pid);
    if (st->seccomp != 0)
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "process %d restricts its system calls (seccomp); start it with 'heapwise "
                       "record --'",
                       pid->pid);
    return HW_OK;
}

#define CAP_PTRACE_BIT 19

/* Yama restricts tracing to descendants (1), to the privileged (2), or forbids it (3). */
static int check_scope(const struct hw_pid *pid, struct hw_error *err)
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
    return hw_fail(
        err, HW_EPERM, 0,
        "process %d may not be traced: /proc/sys/kernel/yama/ptrace_scope is %ld; run as "
        "root, or write 0 there",
        pid->pid, scope);
}

static int check_program(const struct hw_pid *pid, struct hw_error *err)
{
    struct hw_image img;
    hw_autofd int fd = openat(pid->dir, "exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return hw_fail(err, HW_EGONE, 0, "process %d has no program", pid->pid);
    if (fd < 0)
        return hw_fail(err, HW_EPERM, 0, "process %d: may not be looked at (%s)", pid->pid,
                       strerror(errno));
    int rc = hw_image_open(&img, fd, NULL, 0, /* with_sections = */ false, err);
    if (rc < 0)
        return hw_fail(err, HW_EUNSUPPORTED, 0, "process %d: its program is no ELF file we know",
                       pid->pid);
    bool dynamic = false;
    for (size_t i = 0; i < img.n_segments; i++)
        dynamic |= img.segments[i].type == PT_INTERP;
    uint32_t machine = img.machine;
    uint8_t bits = img.elf_class;
    hw_image_close(&img);
    if (bits != 64 || machine != OUR_MACHINE)
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "process %d is a %u-bit program of another machine type than this tool",
                       pid->pid, bits);
    if (!dynamic)
        return hw_fail(
            err, HW_EUNSUPPORTED, 0,
            "process %d is linked statically: there is no loader to bring the library in",
            pid->pid);
    return HW_OK;
}

/* ---- libc ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_libc(const char *path)
{
    const char *b = base_name(path);
    return strcmp(b, "libc.so.6") == 0 || strncmp(b, "libc-2.", 7) == 0;
}

static bool is_loader(const char *path)
{
    return strncmp(base_name(path), "ld-", 3) == 0;
}

static const struct hw_map *image_start(const struct hw_maps *m, size_t i)
{
    const struct hw_map *e = &m->maps.v[i];
    while (i > 0 && m->maps.v[i - 1].inode == e->inode && e->inode != 0 &&
           strcmp(m->maps.v[i - 1].path, e->path) == 0)
        i--;
    return &m->maps.v[i];
}

/* Names between which libc's allocator lies. */
static const char *const family[] = {"malloc",         "free",     "calloc",      "realloc",
                                     "memalign",       "valloc",   "pvalloc",     "aligned_alloc",
                                     "posix_memalign", "mallinfo", "malloc_trim", "malloc_info"};
/* Functions that hold a lock which loading takes, too, or a process that is about to go. */
static const char *const others[] = {"fork",
                                     "_Fork",
                                     "__libc_fork",
                                     "vfork",
                                     "exit",
                                     "quick_exit",
                                     "dl_iterate_phdr",
                                     "__register_atfork",
                                     "__cxa_atexit",
                                     "__cxa_finalize",
                                     "__cxa_thread_atexit_impl",
                                     "dlopen",
                                     "dlclose",
                                     "dlsym",
                                     "dlvsym",
                                     "dladdr",
                                     "dlerror",
                                     "pthread_exit"};

static bool is_one_of(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, list[i]) == 0)
            return true;
    return false;
}

static int forbid(struct hw_process *p, uint64_t lo, uint64_t hi)
{
    return hw_vec_push(&p->forbidden, (struct hw_code_range){lo, hi}) < 0 ? HW_ENOMEM : HW_OK;
}

static int forbid_allocator(struct hw_process *p, const struct hw_symbols *s, uint64_t bias)
{
    uint64_t first = UINT64_MAX, last = 0, lo = 0, hi = UINT64_MAX;
    for (size_t i = 0; i < s->list.n; i++) {
        const struct hw_symbol *y = &s->list.v[i];
        if (!is_one_of(y->name, family, HW_ARRAY_LEN(family)))
            continue;
        first = y->start < first ? y->start : first;
        last = y->start > last ? y->start : last;
    }
    if (first > last)
        return HW_OK;
    for (size_t i = 0; i < s->list.n; i++) {
        const struct hw_symbol *y = &s->list.v[i];
        if (y->start < first && y->start > lo)
            lo = y->start;
        if (y->start > last && y->start < hi)
            hi = y->start;
    }
    for (size_t i = 0; i < s->list.n; i++) /* the function below is not the allocator's */
        if (s->list.v[i].start == lo && s->list.v[i].end > lo && s->list.v[i].end <= first)
            lo = s->list.v[i].end;
    return forbid(p, lo + bias, hi + bias);
}

static int take_symbols(struct hw_process *p, const struct hw_symbols *s, uint64_t bias)
{
    uint64_t old_open = 0, old_sym = 0;
    int rc = HW_OK;
    for (size_t i = 0; i < s->list.n && rc == HW_OK; i++) {
        const struct hw_symbol *y = &s->list.v[i];
        if (strcmp(y->name, "dlopen") == 0)
            p->dlopen_at = y->start + bias;
        else if (strcmp(y->name, "dlsym") == 0)
            p->dlsym_at = y->start + bias;
        else if (strcmp(y->name, "malloc") == 0)
            p->malloc_at = y->start + bias;
        else if (strcmp(y->name, "__libc_dlopen_mode") == 0) /* before 2.34 */
            old_open = y->start + bias;
        else if (strcmp(y->name, "__libc_dlsym") == 0)
            old_sym = y->start + bias;
        if (is_one_of(y->name, others, HW_ARRAY_LEN(others)))
            rc = forbid(p, y->start + bias, (y->sized ? y->end : y->start + 1) + bias);
    }
    if (!p->dlopen_at || !p->dlsym_at) {
        p->dlopen_at = old_open;
        p->dlsym_at = old_sym;
    }
    return rc < 0 ? rc : forbid_allocator(p, s, bias);
}

static int read_libc(struct hw_process *p, size_t i, struct hw_error *err)
{
    const struct hw_map *start = image_start(&p->maps, i);
    struct hw_image img;
    struct hw_symbols s = {0};
    hw_autofd int fd = -1;
    int rc = hw_proc_open_mapping(p->pid->dir, p->status.uid, &p->maps.maps.v[i], &fd, err);
    if (rc < 0)
        return rc;
    rc = hw_image_open(&img, fd, NULL, 0, /* with_sections = */ true, err);
    if (rc < 0)
        return rc;
    rc = hw_symbols_add(&s, &img, ".dynsym", err);
    if (rc == HW_OK)
        rc = take_symbols(p, &s, start->start - start->offset);
    hw_symbols_done(&s);
    hw_image_close(&img);
    if (rc == HW_OK && (!p->dlopen_at || !p->dlsym_at))
        rc = hw_fail(err, HW_EUNSUPPORTED, 0, "process %d: its libc has no way to load a library",
                     p->pid->pid);
    return rc;
}

/* An allocator of its own: jemalloc, tcmalloc, mimalloc. */
static bool is_allocator(const char *path)
{
    const char *b = base_name(path);
    return strncmp(b, "libjemalloc", 11) == 0 || strncmp(b, "libtcmalloc", 11) == 0 ||
           strncmp(b, "libmimalloc", 11) == 0;
}

static int walk_maps(struct hw_process *p, struct hw_error *err)
{
    size_t libc = SIZE_MAX;
    for (size_t i = 0; i < p->maps.maps.n; i++) {
        const struct hw_map *m = &p->maps.maps.v[i];
        const char *b = base_name(m->path);
        if (strncmp(b, "ld-musl", 7) == 0)
            return hw_fail(err, HW_EUNSUPPORTED, 0,
                           "process %d uses musl; the library is built for glibc", p->pid->pid);
        if (strncmp(b, "libasan.", 8) == 0 || strncmp(b, "libtsan.", 8) == 0)
            return hw_fail(err, HW_EUNSUPPORTED, 0,
                           "process %d is built with a sanitizer, whose allocator nobody may hook",
                           p->pid->pid);
        if (strcmp(b, HW_INJECT_CARRIER_NAME) == 0)
            return hw_fail(err, HW_EBUSY, 0, "process %d was started with the library",
                           p->pid->pid);
        if (strcmp(b, "memfd:" HW_INJECT_CARRIER_NAME) == 0 && !p->library)
            p->library = m->start - m->offset;
        if (!(m->flags & HW_MAP_EXEC))
            continue;
        if (is_libc(m->path))
            libc = i;
        if ((is_loader(m->path) || is_allocator(m->path)) && forbid(p, m->start, m->end) < 0)
            return HW_ENOMEM;
    }
    if (libc == SIZE_MAX)
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "process %d has no libc.so.6: another C library, or linked statically",
                       p->pid->pid);
    return read_libc(p, libc, err);
}

/* x86-64: 0f 05. The kernel's own page has one; any other mapping would do as well. */
static int find_syscall(struct hw_process *p, struct hw_error *err)
{
    for (size_t i = 0; i < p->maps.maps.n; i++) {
        const struct hw_map *m = &p->maps.maps.v[i];
        bool vdso = strcmp(m->path, "[vdso]") == 0;
        if (!(m->flags & HW_MAP_EXEC) || (!vdso && !is_libc(m->path)) ||
            m->end - m->start > MAX_CODE)
            continue;
        size_t n = (size_t)(m->end - m->start);
        hw_autofree uint8_t *code = malloc(n);
        if (!code || hw_process_read(p, m->start, code, n) < 0)
            continue;
        for (size_t k = 0; k + 1 < n; k++)
            if (code[k] == 0x0f && code[k + 1] == 0x05) {
                p->syscall_at = m->start + k;
                if (vdso)
                    return HW_OK;
                break;
            }
    }
    return p->syscall_at ? HW_OK
                         : hw_fail(err, HW_EUNSUPPORTED, 0,
                                   "process %d: no instruction that enters the kernel was found",
                                   p->pid->pid);
}

static int cmp_range(const void *a, const void *b)
{
    const struct hw_code_range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

int hw_process_look(const struct hw_pid *pid, struct hw_process *out, struct hw_error *err)
{
    struct hw_process p = {.pid = pid};
#if !defined(__x86_64__)
    return hw_fail(err, HW_EUNSUPPORTED, 0,
                   "attaching to a running process works on x86-64 only; start it with 'heapwise "
                   "record --'");
#endif
    int rc = check_status(pid, &p.status, err);
    if (rc == HW_OK)
        rc = check_scope(pid, err);
    if (rc == HW_OK)
        rc = check_program(pid, err);
    if (rc == HW_OK)
        rc = hw_maps_read(pid->dir, &p.maps, err);
    if (rc == HW_OK)
        rc = walk_maps(&p, err);
    if (rc == HW_OK)
        rc = find_syscall(&p, err);
    if (rc < 0) {
        hw_process_done(&p);
        return rc;
    }
    qsort(p.forbidden.v, p.forbidden.n, sizeof *p.forbidden.v, cmp_range);
    *out = p;
    return HW_OK;
}

void hw_process_done(struct hw_process *p)
{
    hw_maps_done(&p->maps);
    hw_vec_done(&p->forbidden);
}

bool hw_process_forbids(const struct hw_process *p, uint64_t pc)
{
    for (size_t i = 0; i < p->forbidden.n; i++)
        if (pc - p->forbidden.v[i].lo < p->forbidden.v[i].hi - p->forbidden.v[i].lo)
            return true;
    return false;
}

int hw_inject_check(const struct hw_pid *pid, struct hw_error *err)
{
    struct hw_process p;
    int rc = hw_process_look(pid, &p, err);
    if (rc == HW_OK)
        hw_process_done(&p);
    return rc;
}

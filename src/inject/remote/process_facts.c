/*
 * process_facts.c - preflight
 *
 * libc has no symbols left for the inner functions of its allocator (_int_malloc, sysmalloc …), but
 * all of malloc.c is linked in one piece: it extends from the end of the last exported function
 * below the family's lowest to the first one above its highest. An allocator that is a separate
 * library is forbidden as a whole, and so is the loader.
 */
#include "inject/remote/process_facts.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/text_parts.h"
#include "elf/image.h"
#include "elf/symbols.h"
#include "inject/inject.h"
#include "inject/patchable_files.h"
#include "inject/remote/job.h"
#include "inject/remote/program_check.h"
#include "proc/file.h"
#include "proc/root_path.h"

#include "base/banned.h"

#define MAX_CODE (64u * 1024 * 1024)

int hw_process_read(const struct hw_process *p, uint64_t at, void *out, size_t n)
{
    struct iovec to = {out, n}, from = {(void *)(uintptr_t)at, n};
    ssize_t got = p->mem >= 0 ? pread(p->mem, out, n, (off_t)at)
                              : process_vm_readv(p->pid->pid, &to, 1, &from, 1, 0);
    if (got == (ssize_t)n)
        return HW_OK;
    if (got == 0 && n) /* that image is gone: the process has executed another program */
        return HW_EGONE;
    return got < 0 && errno == ESRCH ? HW_EGONE : got < 0 && errno == EPERM ? HW_EPERM : HW_ESYS;
}

/* ---- libc ---- */

static bool is_libc(const char *path)
{
    const char *b = hw_base_name(path);
    return strcmp(b, "libc.so.6") == 0 || strncmp(b, "libc-2.", 7) == 0;
}

static bool is_loader(const char *path)
{
    return strncmp(hw_base_name(path), "ld-", 3) == 0;
}

static const struct hw_map *image_start(const struct hw_maps *m, size_t i)
{
    const struct hw_map *e = &m->maps.v[i];
    while (i > 0 && m->maps.v[i - 1].inode == e->inode && e->inode != 0 &&
           strcmp(m->maps.v[i - 1].path, e->path) == 0)
        i--;
    return &m->maps.v[i];
}

/* Names that enclose libc's allocator. */
static const char *const family[] = {"malloc",         "free",     "calloc",      "realloc",
                                     "memalign",       "valloc",   "pvalloc",     "aligned_alloc",
                                     "posix_memalign", "mallinfo", "malloc_trim", "malloc_info"};
/* Functions that hold a lock which loading takes, too, or run when a process is about to end. */
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

/* A separate allocator library: jemalloc, tcmalloc, mimalloc. */
static bool is_allocator(const char *path)
{
    const char *b = hw_base_name(path);
    return strncmp(b, "libjemalloc", 11) == 0 || strncmp(b, "libtcmalloc", 11) == 0 ||
           strncmp(b, "libmimalloc", 11) == 0;
}

/* Only code is loaded: a part that a failed loader left, or a debugger reads, has the name, too. */
static int check_code(struct hw_process *p, size_t i, struct hw_error *err)
{
    const char *b = hw_base_name(p->maps.maps.v[i].path);
    if (hw_symbols_is_sanitizer(b))
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "process %d is built with a sanitizer, whose allocator tolerates no hooks",
                       p->pid->pid);
    if (strncmp(b, "vgpreload_core", 14) == 0)
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "process %d runs under valgrind, which interprets its code; use "
                       "'valgrind --tool=massif', or run it without valgrind",
                       p->pid->pid);
    if (strcmp(b, HW_INJECT_CARRIER_NAME) == 0)
        return hw_fail(err, HW_EBUSY, 0, "process %d was started with the client library",
                       p->pid->pid);
    if (strcmp(b, "memfd:" HW_INJECT_CARRIER_NAME) == 0 && !p->library) {
        const struct hw_map *m = image_start(&p->maps, i);
        p->library = m->start - m->offset;
    }
    return HW_OK;
}

static bool is_file(const struct hw_map *m, int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && m->inode != 0 && st.st_ino == m->inode;
}

/* musl's library is its loader: installed under one name, requested under another. */
static bool is_musl(const struct hw_checked_program *g, const struct hw_map *m)
{
    const char *b = hw_base_name(m->path);
    bool by_name = strncmp(b, "ld-musl", 7) == 0 || strncmp(b, "libc.musl", 9) == 0;
    return by_name || (strncmp(g->loader, "ld-musl", 7) == 0 && strcmp(b, "libc.so") == 0);
}

static bool is_ours(const struct hw_map *m)
{
    return strncmp(hw_base_name(m->path), "memfd:", 6) == 0;
}

/* A library that defines malloc for all others, before libc's. */
static bool defines_malloc(const struct hw_process *p, const struct hw_map *m)
{
    hw_autofd int fd = -1;
    return hw_proc_open_mapping(p->pid->dir, p->status.uid, m, &fd, NULL) == HW_OK &&
           hw_allocator_is_in(fd, /* whole = */ false);
}

struct found {
    size_t program, libc, musl; /* executable mappings; SIZE_MAX = none */
};

/*
 * A program without a loader that has a libc mapped uses it in an unusual way: valgrind interprets
 * it, a static program has it beside its own for name services. It was not set up for calls from
 * outside. A loader that was executed directly has loaded its libc as usual.
 */
static bool runs_its_libc(const struct hw_process *p, const struct found *f,
                          const struct hw_checked_program *g)
{
    return g->dynamic || (f->program != SIZE_MAX && is_loader(p->maps.maps.v[f->program].path));
}

/* Without it the loader cannot open our file, which has no other name (a bare chroot). */
static bool sees_proc(const struct hw_process *p)
{
    struct stat st;
    hw_autofd int root = hw_root_open(p->pid->dir);
    hw_autofd int proc = root < 0 ? -1 : hw_root_find(root, "proc", HW_ROOT_LINKS);
    return proc >= 0 && fstatat(proc, "self", &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* glibc before 2.34, recognized by its file name: it lacks symbol versions that our library
 * needs. */
static bool is_older_libc(const struct hw_process *p, size_t libc)
{
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
    return libc != SIZE_MAX && strncmp(hw_base_name(p->maps.maps.v[libc].path), "libc-2.", 7) == 0;
#else
    (void)p, (void)libc;
    return false;
#endif
}

/*
 * The allocator that has to be changed in place: that of a static program, of one that brings its
 * own, or musl's, unless a library precedes it. SIZE_MAX = glibc's loader and tables will do.
 */
static size_t raw_allocator(const struct hw_process *p, const struct found *f,
                            const struct hw_checked_program *g)
{
    bool is_static = !g->dynamic && f->libc == SIZE_MAX && f->musl == SIZE_MAX;
    if (is_static ||
        (f->program != SIZE_MAX && hw_allocator_is_in(g->fd, false) && f->program != f->musl))
        return f->program;
    size_t libc = f->musl;
    if (libc == SIZE_MAX && (!sees_proc(p) || is_older_libc(p, f->libc)))
        libc = f->libc;
    for (size_t i = 0; libc != SIZE_MAX && i < p->maps.maps.n; i++) {
        const struct hw_map *m = &p->maps.maps.v[i];
        if ((m->flags & HW_MAP_EXEC) && m->inode && i != libc && i != f->program && !is_ours(m) &&
            !is_loader(m->path) && defines_malloc(p, m))
            return i;
    }
    return libc; /* not the loader: up to glibc 2.33 it has a malloc for the time before libc's */
}

static int read_raw(struct hw_process *p, size_t i, int program, bool is_static,
                    struct hw_error *err)
{
    const struct hw_map *m = &p->maps.maps.v[i];
    struct hw_error why;
    hw_autofd int own = -1;
    int fd = program;
    if (!is_file(m, program)) {
        int rc = hw_proc_open_mapping(p->pid->dir, p->status.uid, m, &own, err);
        if (rc < 0)
            return rc;
        fd = own;
    }
    p->raw = true;
    p->allocator_path = m->path;
    int rc = HW_OK;
    enum hw_patchable is =
        p->checks ? hw_patchable_find(fd, m->offset, &rc, &why) : HW_PATCHABLE_UNKNOWN;
    if (is == HW_PATCHABLE_SOUGHT)
        return hw_fail(err, HW_ETIMEOUT, 0,
                       "process %d: the code of '%s' is being examined; try again", p->pid->pid,
                       hw_base_name(m->path));
    if (is == HW_PATCHABLE_UNKNOWN) {
        rc = hw_allocator_read(fd, m, &p->allocator, &why);
        if (p->checks && rc == HW_OK)
            rc = hw_raw_check(p, &why);
        if (p->checks)
            hw_patchable_keep(fd, m->offset, rc, &why);
    }
    if (rc < 0)
        rc = hw_fail(err, rc == HW_ENOTFOUND ? HW_EUNSUPPORTED : rc, 0,
                     is_static ? "process %d runs '%s', which is linked statically: %s"
                               : "process %d has its allocator in '%s': %s",
                     p->pid->pid, hw_base_name(m->path), why.text);
    return rc;
}

static int walk_maps(struct hw_process *p, const struct hw_checked_program *g, struct hw_error *err)
{
    struct found f = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
    for (size_t i = 0; i < p->maps.maps.n; i++) {
        const struct hw_map *m = &p->maps.maps.v[i];
        if (!(m->flags & HW_MAP_EXEC))
            continue;
        int rc = check_code(p, i, err);
        if (rc < 0)
            return rc;
        if (f.program == SIZE_MAX && is_file(m, g->fd))
            f.program = i;
        if (is_musl(g, m))
            f.musl = i;
        if (is_libc(m->path))
            f.libc = i;
        if ((is_loader(m->path) || is_allocator(m->path)) && forbid(p, m->start, m->end) < 0)
            return HW_ENOMEM;
    }
    if (!runs_its_libc(p, &f, g))
        f.libc = SIZE_MAX;
    size_t raw = raw_allocator(p, &f, g);
    if (raw != SIZE_MAX)
        return read_raw(p, raw, g->fd, !g->dynamic && raw == f.program, err);
    if (f.libc == SIZE_MAX)
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "process %d has neither glibc (libc.so.6) nor musl: how its C library "
                       "allocates is not known",
                       p->pid->pid);
    return read_libc(p, f.libc, err);
}

/* x86-64. The kernel's own page has the first; libc, or a static program, the other two. */
#define SYSCALL     "\x0f\x05"
#define SYSCALL_RET "\x0f\x05\xc3"
#define RESTORER    "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05" /* mov $15, %rax; syscall */

static void look_for(const uint8_t *code, size_t n, uint64_t at, const char *what, size_t n_what,
                     uint64_t *out)
{
    const uint8_t *found = *out ? NULL : memmem(code, n, what, n_what);
    if (found)
        *out = at + (uint64_t)(found - code);
}

/* Searches a mapping in pieces, since what we look for is mostly in the first one. */
static void find_in(struct hw_process *p, const struct hw_map *m, uint8_t *code, size_t n_code)
{
    const size_t shared = sizeof RESTORER; /* it may span two pieces */
    for (uint64_t at = m->start; at < m->end; at += n_code - shared) {
        size_t n = m->end - at < n_code ? (size_t)(m->end - at) : n_code;
        if (hw_process_read(p, at, code, n) < 0)
            return;
        look_for(code, n, at, SYSCALL, sizeof SYSCALL - 1, &p->syscall_at);
        look_for(code, n, at, SYSCALL_RET, sizeof SYSCALL_RET - 1, &p->syscall_ret_at);
        look_for(code, n, at, RESTORER, sizeof RESTORER - 1, &p->restorer_at);
        if (p->syscall_at && (p->checks || (p->syscall_ret_at && p->restorer_at)))
            return;
    }
}

static int find_syscall(struct hw_process *p, struct hw_error *err)
{
    size_t n_code = 1024u * 1024;
    hw_autofree uint8_t *code = malloc(n_code);
    for (size_t i = 0; code && i < p->maps.maps.n; i++) {
        const struct hw_map *m = &p->maps.maps.v[i];
        bool vdso = strcmp(m->path, "[vdso]") == 0;
        bool libc = p->raw ? strcmp(m->path, p->allocator_path) == 0 : is_libc(m->path);
        if ((m->flags & HW_MAP_EXEC) && (vdso || libc) && m->end - m->start <= MAX_CODE)
            find_in(p, m, code, n_code);
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

static int look(const struct hw_pid *pid, bool checks, struct hw_process *out, struct hw_error *err)
{
    struct hw_process p = {.pid = pid, .mem = -1, .checks = checks};
#if !defined(__x86_64__)
    return hw_fail(err, HW_EUNSUPPORTED, 0,
                   "attaching to a running process works on x86-64 only; start it with 'heapwise "
                   "record --'");
#endif
    struct hw_checked_program g = {.fd = -1};
    int rc = hw_check_status(pid, &p.status, err);
    if (rc == HW_OK)
        rc = hw_check_scope(pid, err);
    if (rc == HW_OK && !checks && (rc = hw_exec_id_read(pid->pid, pid->dir, -1, &p.id)) < 0)
        rc =
            hw_fail(err, rc, 0, "process %d may not be inspected (%s)", pid->pid, hw_errc_text(rc));
    p.ignores_trap = hw_pid_ignores(pid, SIGTRAP);
    if (rc == HW_OK)
        rc = hw_check_file(pid, &g, err);
    if (rc == HW_OK)
        rc = hw_maps_read(pid->dir, &p.maps, err);
    if (rc == HW_OK)
        rc = walk_maps(&p, &g, err);
    if (rc == HW_OK)
        rc = find_syscall(&p, err);
    if (g.fd >= 0)
        (void)close(g.fd); /* it was only read */
    if (rc < 0) {
        hw_process_done(&p);
        return rc;
    }
    if (p.forbidden.n)
        qsort(p.forbidden.v, p.forbidden.n, sizeof *p.forbidden.v, cmp_range);
    *out = p;
    return HW_OK;
}

int hw_process_inspect(const struct hw_pid *pid, struct hw_process *out, struct hw_error *err)
{
    return look(pid, /* checks = */ false, out, err);
}

void hw_process_done(struct hw_process *p)
{
    if (p->mem >= 0)
        (void)close(p->mem); /* every write was whole */
    p->mem = -1;
    hw_maps_done(&p->maps);
    hw_allocator_done(&p->allocator);
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
    struct hw_process p = {.mem = -1};
    int rc = look(pid, /* checks = */ true, &p, err);
    hw_process_done(&p);
    return rc;
}

/*
 * inject_at_exec.c - adds three variables to a new program's stack
 *
 *        before                           after
 *   top  strings of kernel and arguments  the same, untouched
 *        auxv .. AT_NULL                  (free)
 *        env[0..] NULL                    LD_PRELOAD=... HEAPWISE_SOCKET=... HEAPWISE_HELD=1
 *        argv[0..] NULL                   auxv .. AT_NULL
 *   sp   argc                             env[0..] ours NULL
 *                                         argv[0..] NULL
 *                                    sp   argc
 *
 * Nothing points into the block from argc to AT_NULL, so it may move; the kernel has mapped 128 KiB
 * below it. /proc/PID/environ shows the strings it knew, ours are not among them.
 *
 * The program's loader must treat the variable as glibc's does: musl's ends a program whose
 * preloaded library needs glibc, so the name of the mapped loader decides. AddressSanitizer's
 * runtime ends a program in which another library comes before it.
 */
#include "inject/inject_at_exec.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "elf/image.h"
#include "elf/symbols.h"
#include "inject/filters/seccomp.h"
#include "inject/remote/process_facts.h"
#include "proc/maps.h"
#include "proc/pid.h"
#include "proc/rights/as_user.h"
#include "proc/rights/userns.h"
#include "proc/root_path.h"
#include "wire/handshake.h"

#include "base/banned.h"

#define WORD      sizeof(uint64_t)
#define MAX_STACK (8u * 1024 * 1024)
#define MAX_AUXV  4096u
#define MAX_VARS  8u
#define PRELOAD   "LD_PRELOAD"

#if defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#else
#define OUR_MACHINE EM_X86_64
#endif

/* ---- the stack ---- */

static uint64_t word_at(const uint8_t *stack, size_t i)
{
    uint64_t w;
    memcpy(&w, stack + i * WORD, WORD);
    return w;
}

/* A string on the stack; NULL if it does not lie there entirely. */
static const char *string_at(const uint8_t *stack, size_t n, uint64_t sp, uint64_t at)
{
    uint64_t off = at - sp;
    return off < n && memchr(stack + off, 0, n - off) ? (const char *)stack + off : NULL;
}

struct layout {
    size_t env;     /* index of the first pointer */
    size_t n_env;   /* without the NULL */
    size_t n_words; /* to behind AT_NULL */
};

static int find_layout(const uint8_t *stack, size_t n, struct layout *out)
{
    size_t words = n / WORD;
    if (words < 4)
        return HW_EFORMAT;
    uint64_t argc = word_at(stack, 0);
    if (argc >= words - 3 || word_at(stack, 1 + argc) != 0)
        return HW_EFORMAT;
    size_t i = 2 + (size_t)argc;
    out->env = i;
    while (i < words && word_at(stack, i) != 0)
        i++;
    out->n_env = i - out->env;
    for (i++; i + 1 < words && word_at(stack, i) != AT_NULL; i += 2)
        ;
    out->n_words = i + 2;
    return out->n_words <= words ? HW_OK : HW_EFORMAT;
}

static bool same_name(const char *var, const char *entry)
{
    size_t n = strcspn(var, "=");
    return strncmp(var, entry, n) == 0 && entry[n] == '=';
}

/* What the program already preloads comes after ours, which a sanitizer does not tolerate. */
static bool preloads_sanitizer(const uint8_t *stack, size_t n, uint64_t sp)
{
    struct layout l;
    if (find_layout(stack, n, &l) < 0)
        return false;
    for (size_t e = 0; e < l.n_env; e++) {
        const char *s = string_at(stack, n, sp, word_at(stack, l.env + e));
        if (!s || !same_name(PRELOAD "=", s))
            continue;
        hw_autofree char *list = strdup(s + sizeof PRELOAD);
        char *save = NULL;
        for (char *p = list ? strtok_r(list, ": ", &save) : NULL; p;
             p = strtok_r(NULL, ": ", &save))
            if (hw_symbols_is_sanitizer(p))
                return true;
    }
    return false;
}

int hw_start_rewrite(const uint8_t *stack, size_t n, uint64_t sp, const char *const *vars,
                     size_t n_vars, struct hw_strbuf *out, uint64_t *new_sp)
{
    struct layout l;
    size_t replaces[MAX_VARS], n_new = 0, bytes = 0;
    const char *behind[MAX_VARS] = {0};
    if (n_vars > MAX_VARS || sp % WORD)
        return HW_EINVAL;
    int rc = find_layout(stack, n, &l);
    if (rc < 0)
        return rc;
    for (size_t v = 0; v < n_vars; v++) {
        replaces[v] = SIZE_MAX;
        for (size_t e = 0; e < l.n_env && replaces[v] == SIZE_MAX; e++) {
            const char *s = string_at(stack, n, sp, word_at(stack, l.env + e));
            if (!s || !same_name(vars[v], s))
                continue;
            replaces[v] = e;
            if (same_name(PRELOAD "=", s) && s[sizeof PRELOAD])
                behind[v] = s + sizeof PRELOAD;
        }
        n_new += replaces[v] == SIZE_MAX;
        bytes += strlen(vars[v]) + 1 + (behind[v] ? strlen(behind[v]) + 1 : 0);
    }
    bytes = (bytes + 15) & ~(size_t)15;
    size_t block = (l.n_words + n_new) * WORD;
    uint64_t to = (sp + l.n_words * WORD - bytes - block) & ~UINT64_C(15);
    uint64_t text = to + block, own[MAX_VARS];
    for (size_t v = 0; v < n_vars; v++) {
        own[v] = text;
        text += strlen(vars[v]) + 1 + (behind[v] ? strlen(behind[v]) + 1 : 0);
    }
    hw_strbuf_clear(out);
    hw_strbuf_add(out, stack, l.env * WORD);
    for (size_t e = 0; e < l.n_env; e++) {
        uint64_t w = word_at(stack, l.env + e);
        for (size_t v = 0; v < n_vars; v++)
            w = replaces[v] == e ? own[v] : w;
        hw_strbuf_add(out, &w, WORD);
    }
    for (size_t v = 0; v < n_vars; v++)
        if (replaces[v] == SIZE_MAX)
            hw_strbuf_add(out, &own[v], WORD);
    size_t rest = l.env + l.n_env; /* NULL and auxv */
    hw_strbuf_add(out, stack + rest * WORD, (l.n_words - rest) * WORD);
    for (size_t v = 0; v < n_vars; v++) {
        hw_strbuf_adds(out, vars[v]);
        if (behind[v])
            hw_strbuf_addc(out, ':');
        if (behind[v])
            hw_strbuf_adds(out, behind[v]);
        hw_strbuf_addc(out, '\0');
    }
    *new_sp = to;
    return out->failed ? HW_ENOMEM : HW_OK;
}

/* ---- the program ---- */

/* Go's standard library makes its system calls by itself. The client does not see a filter that
 * such a program sets, but has to know of it if it asks for a recorder later than at the start. */
static bool makes_own_calls(const struct hw_image *img)
{
    static const char *const names[] = {".go.buildinfo", ".note.go.buildid", ".gopclntab"};
    for (size_t i = 0; i < HW_ARRAY_LEN(names); i++)
        if (hw_image_find(img, names[i]))
            return true;
    return false;
}

const char *hw_start_forbids(enum hw_start_verdict v)
{
    switch (v) {
    case HW_START_FITS:
        return NULL;
    case HW_START_UNREADABLE:
        return "cannot be read";
    case HW_START_NO_ELF:
        return "is not an ELF file heapwise can read";
    case HW_START_OTHER_MACHINE:
        return "is a program for another architecture than heapwise's";
    case HW_START_STATIC:
        return "is linked statically: it loads no libraries";
    case HW_START_SANITIZER:
        return "is built with a sanitizer, which tolerates no library before its own";
    case HW_START_OWN_ALLOCATOR:
        return "has an allocator linked into the program itself";
    case HW_START_VERDICT_COUNT:
        break;
    }
    return "cannot be read"; /* a number from elsewhere */
}

void hw_start_examine(int fd, struct hw_start_file *out)
{
    struct hw_image img;
    uint64_t va;
    bool loads = false;
    *out = (struct hw_start_file){HW_START_NO_ELF, 1};
    if (hw_image_open(&img, fd, NULL, 0, /* with_sections = */ true, NULL) < 0)
        return;
    out->own_calls = makes_own_calls(&img);
    out->verdict = HW_START_FITS;
    for (size_t i = 0; i < img.n_segments; i++)
        loads |= img.segments[i].type == PT_INTERP;
    if (img.elf_class != 64 || img.machine != OUR_MACHINE)
        out->verdict = HW_START_OTHER_MACHINE;
    else if (!loads)
        out->verdict = HW_START_STATIC;
    else if (hw_symbols_have_sanitizer(&img, ".dynsym"))
        out->verdict = HW_START_SANITIZER;
    else if (hw_symbols_find(&img, ".dynsym", "malloc", &va))
        out->verdict = HW_START_OWN_ALLOCATOR;
    hw_image_close(&img);
}

static int read_auxv(const struct hw_pid *pid, uint64_t *base, bool *secure)
{
    uint64_t words[MAX_AUXV / WORD];
    hw_autofd int fd = openat(pid->dir, "auxv", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, words, sizeof words);
    if (n < (ssize_t)(2 * WORD))
        return HW_EGONE;
    *base = 0;
    *secure = true; /* unless it says otherwise */
    for (size_t i = 0; i + 1 < (size_t)n / WORD && words[i] != AT_NULL; i += 2) {
        if (words[i] == AT_BASE)
            *base = words[i + 1];
        else if (words[i] == AT_SECURE)
            *secure = words[i + 1] != 0;
    }
    return HW_OK;
}

static bool is_glibc_loader(const struct hw_maps *maps, uint64_t base)
{
    const struct hw_map *m = hw_maps_find(maps, base);
    const char *name = m ? strrchr(m->path, '/') : NULL;
    return name && (strncmp(name, "/ld-linux", 9) == 0 || strncmp(name, "/ld-2.", 6) == 0);
}

/* Can the program open the very file, under the name by which we know it? */
static bool sees_library(int root, uint32_t uid, const char *path)
{
    struct stat ours, theirs, again;
    struct hw_as_user user = {0};
    if (root < 0 || path[0] != '/' || stat(path, &ours) < 0)
        return false;
    (void)hw_as_user_begin(&user, uid, getegid()); /* else as ourselves, who may less */
    hw_autofd int found = hw_root_find(root, path, HW_ROOT_LINKS);
    hw_autofd int fd = found >= 0 && fstat(found, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
                               ours.st_ino == theirs.st_ino
                           ? hw_root_read(found, &again)
                           : -1;
    hw_as_user_end(&user);
    return fd >= 0;
}

/* Does the recorder's socket exist there, too? An abstract name belongs to its network
 * namespace. */
static bool sees_socket(int root, const char *path)
{
    struct stat ours, theirs;
    if (path[0] == '@')
        return true;
    hw_autofd int found = root < 0 ? -1 : hw_root_find(root, path, HW_ROOT_LINKS);
    return found >= 0 && stat(path, &ours) == 0 && fstat(found, &theirs) == 0 &&
           ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

enum hw_start_sight hw_start_check(int root, uint32_t uid, const char *library, const char *socket)
{
    return !sees_library(root, uid, library) ? HW_START_NO_LIBRARY
           : !sees_socket(root, socket)      ? HW_START_NO_SOCKET
                                             : HW_START_SEES;
}

int hw_start_sight_error(enum hw_start_sight sight, int32_t pid, const char *library,
                         const char *socket, struct hw_error *err)
{
    if (sight == HW_START_SEES)
        return HW_OK;
    if (sight == HW_START_NO_LIBRARY)
        return hw_fail(err, HW_EUNSUPPORTED, 0, "process %d cannot open '%s'", pid, library);
    return hw_fail(err, HW_EUNSUPPORTED, 0, "process %d cannot reach '%s'", pid, socket);
}

void hw_start_world_read(struct hw_start_world *out)
{
    out->net = hw_ns_inode(AT_FDCWD, "/proc/self/ns/net");
    out->user = hw_ns_inode(AT_FDCWD, "/proc/self/ns/user");
}

/* Whether the recorder's name means the same there, and its user is trusted. */
static bool shares_world(const struct hw_start_world *ours, const struct hw_pid *pid)
{
    return ours->net != 0 && ours->net == hw_ns_inode(pid->dir, "ns/net") && ours->user != 0 &&
           ours->user == hw_userns_inode(pid->dir);
}

/* If they cannot be read it is not held either; a later attach says why. */
static int check_filters(const struct hw_start_request *q, struct hw_error *err)
{
    if (q->status->seccomp == 0 ||
        hw_seccomp_check(q->pid, q->pid->pid, q->status, HW_SECCOMP_HELD, err) == HW_OK)
        return HW_OK;
    err->code = HW_EUNSUPPORTED;
    return HW_EUNSUPPORTED;
}

/* Only what the kernel knows: somebody could keep a file from us for ever, and it stands. */
static int check(const struct hw_start_request *q, struct hw_maps *maps, struct hw_error *err)
{
    uint64_t base;
    bool secure;
    int pid = q->pid->pid;
    if (read_auxv(q->pid, &base, &secure) < 0)
        return hw_fail(err, HW_EGONE, 0, "process %d has ended", pid);
    if (secure)
        return hw_fail(err, HW_EPERM, 0,
                       "process %d runs with other rights than its starter's (set-uid, "
                       "capabilities): never profiled",
                       pid);
    const char *why = hw_start_forbids(q->file.verdict);
    if (why)
        return hw_fail(err, HW_EUNSUPPORTED, 0, "process %d %s", pid, why);
    int rc = hw_maps_read(q->pid->dir, maps, err);
    if (rc < 0)
        return rc;
    if (!is_glibc_loader(maps, base))
        return hw_fail(err, HW_EUNSUPPORTED, 0, "process %d is not loaded by glibc's ld.so", pid);
    if (strpbrk(q->library, " \t\n:$"))
        return hw_fail(err, HW_EUNSUPPORTED, 0, "'%s' has characters that LD_PRELOAD cannot name",
                       q->library);
    if (!shares_world(q->world, q->pid))
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "process %d starts in another network or user namespace, where it could not "
                       "reach the recorder",
                       pid);
    rc = hw_start_sight_error(q->sight, pid, q->library, q->socket_path, err);
    if (rc < 0)
        return rc;
    return check_filters(q, err);
}

/* ---- the stopped process ---- */

static void write_mark(char *out, size_t max, const struct hw_start_request *q, bool arms)
{
    uint64_t filters = q->status->seccomp_filters;
    bool tells = arms || (q->arm.token & HW_TOKEN_SHARE_MASK) != 0;
    if (tells)
        (void)snprintf(out, max, HW_START_HELD_VARIABLE "=" HW_ARMED_MARK,
                       arms ? (unsigned long long)q->arm.interval_bytes : 0,
                       (unsigned long long)q->arm.token,
                       filters < UINT32_MAX ? (unsigned)filters + 1 : 0); /* it fits */
    else
        (void)snprintf(out, max, HW_START_HELD_VARIABLE "=1");
}

static int move_stack(const struct hw_start_request *q, bool arms, uint64_t *sp, uint64_t end,
                      struct hw_error *err)
{
    char preload[4096], socket[256];
    char mark[sizeof HW_START_HELD_VARIABLE + HW_ARMED_MARK_BYTES];
    const char *vars[] = {preload, socket, mark};
    int pid = q->pid->pid;
    if (end <= *sp || end - *sp > MAX_STACK)
        return hw_fail(err, HW_EUNSUPPORTED, 0, "process %d has too many arguments", pid);
    size_t n = (size_t)(end - *sp);
    hw_autofree uint8_t *stack = malloc(n);
    struct hw_strbuf out = {0};
    uint64_t to = 0;
    struct iovec here = {stack, n}, there = {(void *)(uintptr_t)*sp, n};
    if (!stack)
        return hw_fail(err, HW_ENOMEM, 0, "process %d", pid);
    if (process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)n)
        return hw_fail_sys(err, "stack of process %d", pid);
    if (memmem(stack, n, HW_INJECT_CARRIER_NAME, sizeof HW_INJECT_CARRIER_NAME - 1))
        return hw_fail(err, HW_EBUSY, 0, "process %d is started with the client library", pid);
    if (preloads_sanitizer(stack, n, *sp))
        return hw_fail(err, HW_EUNSUPPORTED, 0,
                       "process %d preloads a sanitizer, which tolerates no library before its own",
                       pid);
    if (snprintf(preload, sizeof preload, PRELOAD "=%s", q->library) >= (int)sizeof preload ||
        snprintf(socket, sizeof socket, "HEAPWISE_SOCKET=%s", q->socket_path) >= (int)sizeof socket)
        return hw_fail(err, HW_EINVAL, 0, "paths are too long");
    write_mark(mark, sizeof mark, q, arms);
    int rc = hw_start_rewrite(stack, n, *sp, vars, HW_ARRAY_LEN(vars), &out, &to);
    here = (struct iovec){out.p, out.n};
    there = (struct iovec){(void *)(uintptr_t)to, out.n};
    if (rc < 0)
        rc = hw_fail(err, rc, 0, "process %d starts with an unexpected stack; it is left alone",
                     pid);
    else if (process_vm_writev(pid, &here, 1, &there, 1, 0) != (ssize_t)out.n)
        rc = hw_fail_sys(err, "stack of process %d", pid);
    hw_strbuf_done(&out);
    if (rc == HW_OK)
        *sp = to;
    return rc;
}

int hw_start_place(const struct hw_start_request *q, struct hw_error *err)
{
    struct hw_maps maps = {0};
#if defined(__aarch64__)
    struct user_regs_struct regs;
    unsigned long long *reg = &regs.sp;
#else
    struct user_regs_struct regs;
    unsigned long long *reg = &regs.rsp;
#endif
    struct iovec io = {&regs, sizeof regs};
    void *set = (void *)(uintptr_t)NT_PRSTATUS;
    int pid = q->pid->pid;
    int rc = check(q, &maps, err);
    bool arms = q->arm.interval_bytes != 0 && !q->file.own_calls;
    if (rc == HW_OK && (ptrace(PTRACE_GETREGSET, pid, set, &io) < 0 || io.iov_len != sizeof regs))
        rc = hw_fail_sys(err, "registers of process %d", pid);
    if (rc == HW_OK) {
        uint64_t sp = *reg;
        const struct hw_map *m = hw_maps_find(&maps, sp);
        rc = move_stack(q, arms, &sp, m ? m->end : 0, err);
        *reg = sp;
    }
    if (rc == HW_OK && ptrace(PTRACE_SETREGSET, pid, set, &io) < 0)
        rc = hw_fail_sys(err, "registers of process %d", pid);
    hw_maps_done(&maps);
    return rc == HW_OK && arms ? 1 : rc;
}

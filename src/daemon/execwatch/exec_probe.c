/*
 * exec_probe.c - what is known about a program while its execve waits
 *
 * The process is still the old program. /proc/TID/syscall has the call's arguments; the strings
 * they point to are in the old program's memory, which can block a reader (userfaultfd, a mapped
 * file of FUSE): the reading process has a time limit, and is replaced by one that skips this
 * process.
 */
#include "daemon/execwatch/exec_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "config/memlog_modes.h"
#include "proc/number.h"
#include "proc/pid.h"
#include "wire/handshake.h"

#include "base/banned.h"

#define PAGE_BYTES  4096u
#define YIELDS      2
#define MAX_WORDS   512u
#define WORD_BYTES  512u
#define MAX_LIST    16384u
#define BATCH       32u
#define MOMENT_NS   100000
#define GROUP_BYTES 4096u
#define FEW         8u
#define FEW_BYTES   256u
#define HEAD_BYTES  4096u

static bool is_of_skipped_user(const struct hw_exec_watch_shared *s, int32_t pid)
{
    struct hw_proc_status st;
    uint32_t n = atomic_load_explicit(&s->n_skip_users, memory_order_acquire);
    if (n == 0)
        return false;
    hw_autofd int dir = hw_proc_open_dir(pid);
    bool known = dir >= 0 && hw_proc_status(dir, &st) == HW_OK;
    for (uint32_t i = 0; known && i < n && i < HW_EXEC_USERS; i++)
        if (s->skip_users[i] == st.uid)
            return true;
    return false;
}

bool hw_exec_is_skipped(const struct hw_exec_watch_shared *s, const struct hw_exec_reader *reader,
                        int32_t pid)
{
    uint32_t n = s->n_skip < HW_EXEC_SKIP ? s->n_skip : HW_EXEC_SKIP;
    for (uint32_t i = 0; i < n; i++)
        if (s->skip[i] == pid)
            return true;
    return hw_exec_reader_avoids(reader, pid) || is_of_skipped_user(s, pid);
}

/* "/proc/TID/NAME": by hand, since this is done for every exec of the machine. name: "/NAME" */
static int open_of(int32_t tid, const char *name)
{
    char path[40] = "/proc/2147483647", *p = path + sizeof "/proc/2147483647" - 1;
    if (tid <= 0)
        return -1;
    memcpy(p, name, strlen(name) + 1); /* of ours, all short */
    for (; tid > 0; tid /= 10)
        *--p = (char)('0' + tid % 10);
    p -= sizeof "/proc/" - 1; /* instead of the digits that are not needed */
    memcpy(p, "/proc/", sizeof "/proc/" - 1);
    return open(p, O_RDONLY | O_CLOEXEC);
}

static uint64_t next_hex(const char **p)
{
    uint64_t v = 0;
    for (*p += strspn(*p, " "); **p && **p != ' ' && **p != '\n'; ++*p) {
        char c = **p;
        if (c != 'x') /* of 0x */
            v = v << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return v;
}

struct call {
    uint64_t path, argv, env, key;
};

/*
 * "59 0x7ffc... 0x55d4... 0x55d4... ...": the number and its arguments. "running": it has put its
 * question, but does not wait for the answer yet, because we have taken its processor: up to half
 * of the execs on a busy machine. 1, 0 = no execve, HW_EBUSY = still running, HW_EPERM = our
 * library makes way for a sanitizer.
 */
static int find_call(int32_t tid, uint64_t until_ns, struct call *out)
{
    const struct timespec moment = {.tv_nsec = MOMENT_NS};
    char text[256], *end;
    hw_autofd int fd = open_of(tid, "/syscall");
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    for (int i = 0; n > 0 && text[0] == 'r' && hw_now_monotonic_ns() < until_ns; i++) {
        if (i < YIELDS)
            (void)sched_yield(); /* never fails */
        else
            (void)nanosleep(&moment, NULL); /* shorter is fine */
        n = pread(fd, text, sizeof text - 1, 0);
    }
    if (n > 0 && text[0] == 'r')
        return HW_EBUSY;
    if (n <= 0 || text[0] < '0' || text[0] > '9')
        return 0;
    text[n] = '\0';
    long number = strtol(text, &end, 10);
    const char *p = end;
    if (number == SYS_execveat)
        (void)next_hex(&p); /* the directory */
    else if (number != SYS_execve)
        return 0;
    out->path = next_hex(&p);
    out->argv = next_hex(&p);
    out->env = next_hex(&p);
    if (number == SYS_execve && next_hex(&p) == HW_EXEC_WITHOUT_LIBRARY)
        return HW_EPERM;
    out->key = hw_hash_bytes(text, (size_t)n); /* its stack's address is part of it */
    return out->argv != 0;
}

static bool read_there(int32_t tid, uint64_t at, void *out, size_t n)
{
    struct iovec to = {out, n}, from = {(void *)(uintptr_t)at, n};
    return process_vm_readv(tid, &to, 1, &from, 1, 0) == (ssize_t)n;
}

/* Up to its NUL, a page at a time: the next one may not exist. */
static bool read_text(int32_t tid, uint64_t at, char *out, size_t max)
{
    size_t have = 0;
    while (have + 1 < max) {
        size_t step = PAGE_BYTES - (size_t)((at + have) % PAGE_BYTES);
        step = step < max - 1 - have ? step : max - 1 - have;
        if (!read_there(tid, at + have, out + have, step))
            return false;
        size_t len = strnlen(out + have, step);
        have += len;
        if (len < step)
            break;
    }
    out[have] = '\0';
    return true;
}

/*
 * Most programs are started with their path as argv[0], often the very same string: so that is read
 * together with argv[0]'s address, one call instead of two.
 */
static bool read_names(int32_t tid, const struct call *c, struct hw_exec_call *out)
{
    uint64_t at = 0;
    size_t step = PAGE_BYTES - (size_t)(c->path % PAGE_BYTES);
    step = step < sizeof out->path - 1 ? step : sizeof out->path - 1;
    struct iovec to[] = {{&at, sizeof at}, {out->path, step}};
    struct iovec from[] = {{(void *)(uintptr_t)c->argv, sizeof at},
                           {(void *)(uintptr_t)c->path, step}};
    ssize_t n = process_vm_readv(tid, to, 2, from, 2, 0);
    if (n < (ssize_t)sizeof at || !at)
        return false;
    if (!memchr(out->path, 0, (size_t)n - sizeof at) &&
        !read_text(tid, c->path, out->path, sizeof out->path))
        return false;
    if (at != c->path)
        return read_text(tid, at, out->argv0, sizeof out->argv0);
    memcpy(out->argv0, out->path, sizeof out->argv0);
    return true;
}

int hw_exec_read_exec(const struct hw_exec_watch_shared *shared, struct hw_exec_reader *reader,
                      int32_t tid, uint64_t until_ns, struct hw_exec_call *out)
{
    struct call c;
    struct hw_exec_reading reading;
    int rc = hw_exec_is_skipped(shared, reader, tid) ? HW_EPERM : find_call(tid, until_ns, &c);
    if (rc != 1)
        return rc;
    out->argv = c.argv;
    out->env = c.env;
    out->key = c.key;
    hw_exec_reading_begin(reader, tid, &reading);
    rc = read_names(tid, &c, out);
    hw_exec_reading_end(reader, &reading);
    return rc;
}

/* Up to the end of their page: the next one may not exist. 0 = none. */
static size_t read_pointers(int32_t tid, uint64_t at, uint64_t *out)
{
    size_t n = (PAGE_BYTES - (size_t)(at % PAGE_BYTES)) / sizeof *out;
    n = n == 0 ? 1 : n < BATCH ? n : BATCH;
    return read_there(tid, at, out, n * sizeof *out) ? n : 0;
}

struct beginning {
    size_t n; /* as much as there is up to the end of its page */
    char text[WORD_BYTES];
};

/* n strings, in one call. Gives how many could be read before one that could not. */
static size_t read_beginnings(int32_t tid, const uint64_t *at, size_t n, size_t most,
                              struct beginning *out)
{
    struct iovec to[BATCH], from[BATCH];
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        size_t step = PAGE_BYTES - (size_t)(at[i] % PAGE_BYTES);
        out[i].n = step < most ? step : most;
        to[i] = (struct iovec){out[i].text, out[i].n};
        from[i] = (struct iovec){(void *)(uintptr_t)at[i], out[i].n};
    }
    ssize_t got = n ? process_vm_readv(tid, to, n, from, n, 0) : 0;
    for (; k < n && got >= (ssize_t)out[k].n; k++)
        got -= (ssize_t)out[k].n;
    return k;
}

/* Adds a wanted string, whole; false: there is no more room, or it cannot be read. */
static bool add_string(int32_t tid, uint64_t at, const char *begin, struct beginning *b, char *out,
                       size_t max, size_t *n)
{
    size_t len = begin ? strlen(begin) : 0;
    if (begin && b->n >= len && strncmp(b->text, begin, len) != 0)
        return true;
    if ((begin || !memchr(b->text, 0, b->n)) && !read_text(tid, at, b->text, sizeof b->text))
        return false;
    if (begin && strncmp(b->text, begin, len) != 0)
        return true;
    len = strlen(b->text) + 1;
    if (len > max - *n)
        return false;
    memcpy(out + *n, b->text, len);
    *n += len;
    return true;
}

/* Two calls for each BATCH of strings: a thousand of them would be two thousand. */
static size_t read_list(int32_t tid, uint64_t at, const char *begin, char *out, size_t max)
{
    static struct beginning some[BATCH];
    uint64_t p[BATCH];
    size_t n = 0, got = 0;
    for (size_t i = 0; at && i < MAX_WORDS; i += got) {
        size_t there = 0;
        got = read_pointers(tid, at + i * sizeof *p, p);
        while (there < got && p[there])
            there++;
        size_t most = begin ? strlen(begin) : WORD_BYTES - 1;
        size_t read = read_beginnings(tid, p, there, most, some);
        for (size_t k = 0; k < read; k++)
            if (!add_string(tid, p[k], begin, &some[k], out, max, &n))
                return n;
        if (read < got || got == 0)
            break;
    }
    return n;
}

/* A thread that is not its process's first may execute, too. */
static bool leads_session(int32_t tid)
{
    char path[64];
    pid_t session = getsid(tid);
    if (session <= 0 || session == tid)
        return session == tid;
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d", session, tid);
    return access(path, F_OK) == 0;
}

void hw_exec_read_role(struct hw_exec_reader *reader, int32_t tid, const struct hw_exec_call *e,
                       char role[64])
{
    static char environment[WORD_BYTES], words[MAX_LIST];
    struct hw_exec_reading reading;
    hw_exec_reading_begin(reader, tid, &reading);
    size_t n = read_list(tid, e->env, "MEMLOG_ROLE=", environment, sizeof environment);
    size_t n_words = read_list(tid, e->argv, NULL, words, sizeof words);
    hw_exec_reading_end(reader, &reading);
    hw_memlog_role(hw_bytes_of(environment, n), hw_bytes_of(words, n_words), leads_session(tid),
                   role);
}

/* The first argument that is not an option, among the first few; "" = there is none. */
static void read_argument(int32_t tid, const struct hw_exec_call *e, struct beginning *out)
{
    uint64_t p[BATCH];
    size_t n = read_pointers(tid, e->argv, p), there = 1;
    out->text[0] = '\0';
    while (there < n && there <= FEW && p[there])
        there++;
    for (size_t i = 1; i < there; i++) {
        if (read_beginnings(tid, &p[i], 1, FEW_BYTES, out) != 1)
            break;
        out->text[out->n] = '\0';
        if (out->text[0] != '-')
            return;
    }
    out->text[0] = '\0';
}

/* Its user, and where the file is. A user who knew these numbers could choose names that count
 * as another user's command. */
static uint64_t whose(int32_t tid, int fd)
{
    struct stat file = {0};
    (void)fstat(fd, &file); /* cannot fail on what the kernel has opened */
    return hw_hash_mix(hw_hash_mix(hw_hash_seed(), hw_exec_user_of(tid)), file.st_dev);
}

void hw_exec_read_command(struct hw_exec_reader *reader, int32_t tid, const struct hw_exec_call *e,
                          int fd, struct hw_exec_start *out)
{
    static struct beginning argument;
    struct hw_exec_reading reading;
    hw_exec_reading_begin(reader, tid, &reading);
    read_argument(tid, e, &argument);
    hw_exec_reading_end(reader, &reading);
    uint64_t path = hw_hash_bytes_seeded(whose(tid, fd), e->path, strlen(e->path));
    out->program = hw_hash_mix(path, hw_hash_bytes(e->argv0, strlen(e->argv0))) | 1;
    out->command = hw_hash_mix(out->program, hw_hash_bytes(argument.text, strlen(argument.text))) &
                   ~UINT64_C(1);
    out->call = hw_hash_mix(e->key, (uint64_t)tid) | 1;
}

/* Of a file that is executed next, so its begin is in memory as a rule. Overlay and tmpfs cannot be
 * asked whether it is, and others do not say while its lock is held: then by what a reader has
 * found (exec_files.h). HW_EBUSY: none has. */
static int kind_of(const struct hw_exec_files *files, int fd, uint32_t *kind,
                   char interpreter[HW_EXEC_LINE])
{
    _Alignas(8) char head[HEAD_BYTES];
    struct iovec to = {head, sizeof head};
    struct hw_exec_file known;
    ssize_t n = preadv2(fd, &to, 1, 0, RWF_NOWAIT);
    if (n >= 0) {
        *kind = hw_exec_file_kind_of(head, (size_t)n, interpreter);
        return HW_OK;
    }
    if (hw_exec_file_id_of(fd, "", &known.id) < 0 || !hw_exec_file_find(files, &known.id, &known))
        return HW_EBUSY;
    *kind = known.kind;
    memcpy(interpreter, known.interpreter, HW_EXEC_LINE);
    return HW_OK;
}

int hw_exec_read_interpreter(const struct hw_exec_watch_shared *shared, int fd,
                             char out[HW_EXEC_LINE])
{
    uint32_t kind;
    int rc = kind_of(&shared->files, fd, &kind, out);
    return rc < 0 ? rc : kind == HW_EXEC_FILE_SCRIPT;
}

/* Before Linux 6.8 reading /proc/TID/cgroup waits, uninterruptibly, for whoever creates or
 * removes a control group. And the numbers of /proc must be ours, as for the arguments. */
bool hw_exec_groups_at_once(void)
{
    struct utsname u;
    char self[16] = "";
    unsigned major, minor;
    bool new = uname(&u) == 0 && sscanf(u.release, "%u.%u", &major, &minor) == 2 &&
               (major > 6 || (major == 6 && minor >= 8));
    return new &&readlink("/proc/self", self, sizeof self - 1) > 0 &&
           strtol(self, NULL, 10) == (long)getpid();
}

int hw_exec_read_group(int32_t tid, char *out, size_t max)
{
    char text[GROUP_BYTES];
    hw_autofd int fd = open_of(tid, "/cgroup");
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n < 0)
        return HW_EGONE;
    if (n == (ssize_t)sizeof text - 1)
        return HW_ELIMIT;
    text[n] = '\0';
    hw_memlog_cgroup(text, out, max);
    return HW_OK;
}

int32_t hw_exec_process_of(int32_t tid)
{
    struct hw_proc_status st;
    hw_autofd int pidfd = (int)syscall(SYS_pidfd_open, tid, 0); /* of first threads only */
    if (pidfd >= 0)
        return tid;
    hw_autofd int dir = hw_proc_open_dir(tid);
    return dir >= 0 && hw_proc_status(dir, &st) == HW_OK ? st.tgid : tid;
}

/* The name alone does not suffice: in a mount namespace of their own users can mount anything
 * under it. */
bool hw_exec_is_loader(const struct hw_exec_watch_shared *shared, int fd)
{
    char link[40], path[4096], unused[HW_EXEC_LINE];
    uint32_t kind;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    const char *base = strrchr(path, '/');
    return base &&
           (strncmp(base, "/ld-linux", 9) == 0 || strncmp(base, "/ld-2.", 6) == 0 ||
            strncmp(base, "/ld-musl", 8) == 0) &&
           kind_of(&shared->files, fd, &kind, unused) == HW_OK && kind == HW_EXEC_FILE_LOADER;
}

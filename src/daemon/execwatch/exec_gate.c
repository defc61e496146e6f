/*
 * exec_gate.c - the process that answers the machine's execs
 *
 *   kernel ── exec of FILE by TID ──> question (FILE's descriptor) ──> finder
 *          <── allow ───────────────  answer, or 20 ms ───────────────<
 *
 * While a question is open, a program's execve waits. So nothing here may wait for anything but the
 * next event: descriptors are made by the kernel, the finder's socket never blocks, no memory is
 * taken, pages are locked once used. The kernel opens the file for the event's descriptor inside
 * our read, which a file system that does not answer could block for ever: such are not marked, and
 * a kernel timer ends this process then, as it does when somebody stops us together with the
 * guard, which would notice it (SIGSTOP to all, a frozen cgroup). When this process ends, the
 * fanotify group is closed, and the kernel lets all execs continue.
 */
#include "daemon/execwatch/exec_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/fd_send.h"
#include "config/config.h"
#include "config/memlog_modes.h"

#include "base/banned.h"

#define MS          UINT64_C(1000000)
#define ANSWER_NS   (20 * MS)
#define LOOK_NS     (3 * MS) /* for a thread that has asked and does not wait yet, in one round */
#define ROUND_MS    100u     /* a read that takes longer does not return */
#define RECENT      8u
#define MAX_OPEN    256u
#define MOST_OF_ONE 64u /* open questions about one user's starts: others have room */
#define EVENT_BYTES 4096
#define MAX_MARKS   512u

#ifndef FAN_REPORT_TID
#define FAN_REPORT_TID 0x00000100
#endif
#ifndef FAN_MARK_FILESYSTEM
#define FAN_MARK_FILESYSTEM 0x00000100
#endif

struct question {
    int fd; /* of the event; -1 = free */
    uint32_t number, uid;
    uint64_t until_ns;
};

/* What is known about an exec; its call is read once. */
struct look {
    int fd;
    int32_t tid;
    uint64_t until_ns;
    bool unnamed, is_read;
    int rc; /* of hw_exec_read_exec */
    struct hw_exec_call exec;
    uint32_t share; /* exec_share.h */
};

struct answerer {
    struct hw_exec_watch_shared *shared;
    struct hw_exec_reader *reader;
    int group, finder, mounts;
    uint32_t version;    /* of the names below */
    uint32_t ask_always; /* enum hw_exec_selection */
    uint32_t per_minute; /* 0 = no start is passed */
    uint32_t n_bytes, next_recent;
    bool has_names, has_groups, has_roles;
    char names[HW_EXEC_NAMES];
    int32_t recent[RECENT]; /* threads whose exec was seen: what they open next is the loader */
    uint32_t n_marks, next;
    size_t n_open;
    struct question open[MAX_OPEN];
    dev_t marked[MAX_MARKS];
    struct hw_exec_shares shares;
};

/* ---- which file systems ---- */

/* Local ones: they answer. Programs on the others are found after their start. */
static bool is_local(const char *type)
{
    static const char *const types[] = {"ext2",  "ext3",     "ext4",  "xfs",      "btrfs",
                                        "f2fs",  "overlay",  "tmpfs", "ramfs",    "zfs",
                                        "erofs", "squashfs", "jfs",   "bcachefs", "rootfs",
                                        "vfat",  "iso9660",  "aufs",  "devtmpfs", "reiserfs"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i], type) == 0)
            return true;
    return false;
}

/* "36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw": the path has \040 for blanks.
 */
static bool parse_mount(char *line, char **path, char **type, unsigned *dev)
{
    unsigned major, minor;
    char *words[6], *save = NULL, *dash = strstr(line, " - ");
    if (!dash)
        return false;
    *dash = '\0';
    *type = dash + 3;
    (*type)[strcspn(*type, " ")] = '\0';
    for (size_t i = 0; i < 5; i++)
        if (!(words[i] = strtok_r(i ? NULL : line, " ", &save)))
            return false;
    if (sscanf(words[2], "%u:%u", &major, &minor) != 2)
        return false;
    *dev = major << 20 | (minor & 0xfffff);
    char *out = words[4];
    *path = out;
    for (const char *p = out; *p;) {
        unsigned code;
        if (p[0] == '\\' && sscanf(p + 1, "%3o", &code) == 1 && strlen(p) >= 4) {
            *out++ = (char)code;
            p += 4;
        } else {
            *out++ = *p++;
        }
    }
    *out = '\0';
    return true;
}

static bool is_marked(struct answerer *a, dev_t dev)
{
    for (uint32_t i = 0; i < a->n_marks; i++)
        if (a->marked[i] == dev)
            return true;
    return false;
}

/* errno of the last failure if nothing could be marked. */
static int mark_all(struct answerer *a)
{
    char *text = NULL, *save = NULL;
    size_t n;
    int failed = 0;
    (void)lseek(a->mounts, 0, SEEK_SET);
    if (a->mounts < 0 || hw_fd_read_file(a->mounts, 8u << 20, &text, &n, NULL) < 0)
        return ENOENT;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *path, *type;
        unsigned dev;
        if (!parse_mount(line, &path, &type, &dev) || !is_local(type) || is_marked(a, dev) ||
            a->n_marks == MAX_MARKS)
            continue;
        if (fanotify_mark(a->group, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, HW_FAN_OPEN_EXEC_PERM,
                          AT_FDCWD, path) == 0)
            a->marked[a->n_marks++] = dev;
        else
            failed = errno;
    }
    free(text);
    return a->n_marks ? 0 : failed ? failed : ENOENT;
}

/* ---- questions ---- */

static void allow(struct answerer *a, int fd)
{
    struct fanotify_response r = {.fd = fd, .response = FAN_ALLOW};
    if (write(a->group, &r, sizeof r) < 0 && errno != ENOENT)
        _exit(4);    /* then the closing of the group allows it */
    (void)close(fd); /* read only */
}

/* NULL: this user may have no more. */
static struct question *free_question(struct answerer *a, uint32_t uid)
{
    struct question *q = NULL;
    uint32_t n_of_user = 0;
    for (size_t i = 0; i < MAX_OPEN; i++) {
        if (a->open[i].fd < 0)
            q = q ? q : &a->open[i];
        else
            n_of_user += a->open[i].uid == uid;
    }
    return n_of_user < MOST_OF_ONE ? q : NULL;
}

static bool send_candidate(struct answerer *a, const struct look *l, uint64_t now)
{
    uint32_t uid = hw_exec_user_of(l->tid);
    struct question *q = free_question(a, uid);
    struct hw_exec_request m = {.number = ++a->next,
                                .tid = l->tid,
                                .until_ns = now + ANSWER_NS,
                                .unnamed = l->unnamed,
                                .has_exec = l->is_read && l->rc == 1,
                                .share = l->share};
    if (m.has_exec)
        m.exec = l->exec;
    if (!q || hw_fd_send(a->finder, &m, sizeof m, &l->fd, 1, MSG_DONTWAIT) < 0)
        return false;
    *q = (struct question){l->fd, m.number, uid, m.until_ns};
    a->n_open++;
    return true;
}

/* ---- matching in the gate ---- */

/* A writer that died halfway leaves an odd version: its successor publishes again. */
static void take_names(struct answerer *a)
{
    const struct hw_exec_watch_shared *s = a->shared;
    uint32_t version = atomic_load_explicit(&s->version, memory_order_acquire);
    if (version == a->version || version % 2)
        return;
    a->n_bytes = s->n_bytes <= sizeof a->names ? s->n_bytes : 0;
    a->ask_always = s->ask_always;
    a->per_minute = s->per_minute;
    memcpy(a->names, s->names, a->n_bytes);
    if (a->n_bytes)
        a->names[a->n_bytes - 1] = '\0'; /* which it is, but in the middle of a change */
    a->has_names = a->has_groups = a->has_roles = false;
    for (uint32_t i = 0; i < a->n_bytes; i += (uint32_t)strlen(a->names + i) + 1) {
        a->has_names |= a->names[i] == HW_EXEC_NAME;
        a->has_groups |= a->names[i] == HW_EXEC_GROUP;
        a->has_roles |= a->names[i] == HW_EXEC_ROLE;
    }
    atomic_thread_fence(memory_order_acquire);
    if (atomic_load_explicit(&s->version, memory_order_relaxed) == version)
        a->version = version; /* else they are copied again with the next event */
}

static bool is_wanted(const struct answerer *a, const char *name)
{
    for (uint32_t i = 0; i < a->n_bytes; i += (uint32_t)strlen(a->names + i) + 1)
        if (a->names[i] == HW_EXEC_NAME && hw_config_name_matches(a->names + i + 1, name))
            return true;
    return false;
}

static int read_exec(const struct answerer *a, struct look *l)
{
    if (!l->is_read)
        l->rc = hw_exec_read_exec(a->shared, a->reader, l->tid, l->until_ns, &l->exec);
    l->is_read = true;
    return l->rc;
}

/* Or that is not known yet. */
static bool is_in_wanted_group(const struct answerer *a, int32_t tid)
{
    char group[512];
    if (!a->has_groups)
        return false;
    int rc = hw_exec_read_group(tid, group, sizeof group);
    for (uint32_t i = 0; rc == HW_OK && i < a->n_bytes; i += (uint32_t)strlen(a->names + i) + 1)
        if (a->names[i] == HW_EXEC_GROUP && hw_memlog_is_in_group(group, a->names + i + 1))
            return true;
    return rc == HW_ELIMIT;
}

/* The same. */
static bool has_wanted_role(const struct answerer *a, struct look *l)
{
    char role[64];
    if (!a->has_roles)
        return false;
    int rc = read_exec(a, l);
    if (rc == 1)
        hw_exec_read_role(a->reader, l->tid, &l->exec, role);
    for (uint32_t i = 0; rc == 1 && i < a->n_bytes; i += (uint32_t)strlen(a->names + i) + 1)
        if (a->names[i] == HW_EXEC_ROLE && strcmp(a->names + i + 1, role) == 0)
            return true;
    return rc == HW_EBUSY;
}

static bool was_recent(struct answerer *a, int32_t tid)
{
    for (uint32_t i = 0; i < RECENT; i++)
        if (a->recent[i] == tid)
            return true;
    a->recent[a->next_recent++ % RECENT] = tid;
    return false;
}

/* Half of all events: the loader of every program. */
static bool is_no_more_asked(struct answerer *a, const struct look *l)
{
    atomic_store_explicit(&a->reader->at, l->tid, memory_order_relaxed); /* for the guard */
    bool is_loader = hw_exec_is_loader(a->shared, l->fd);
    atomic_store_explicit(&a->reader->at, 0, memory_order_relaxed);
    if (!is_loader)
        return false;
    (void)fanotify_mark(a->group,
                        FAN_MARK_ADD | FAN_MARK_IGNORED_MASK | FAN_MARK_IGNORED_SURV_MODIFY,
                        HW_FAN_OPEN_EXEC_PERM, l->fd, NULL); /* an offer */
    return true;
}

/* Or its name cannot be read yet. */
static bool has_wanted_name(const struct answerer *a, struct look *l)
{
    char name[HW_EXEC_LINE];
    if (!a->has_names)
        return false;
    int rc = read_exec(a, l);
    if (rc == HW_EBUSY || (rc == 1 && is_wanted(a, l->exec.argv0)))
        return true;
    atomic_store_explicit(&a->reader->at, l->tid, memory_order_relaxed); /* as above */
    rc = hw_exec_read_interpreter(a->shared, l->fd, name);
    atomic_store_explicit(&a->reader->at, 0, memory_order_relaxed);
    return rc == HW_EBUSY || (rc == 1 && is_wanted(a, name));
}

/* Whether to ask the finder. */
static bool may_be_meant(struct answerer *a, struct look *l)
{
    if (was_recent(a, l->tid) && is_no_more_asked(a, l))
        return false;
    l->unnamed = a->ask_always != HW_EXEC_SELECT_NAMED && !has_wanted_name(a, l);
    return a->ask_always != HW_EXEC_SELECT_MEANT || !l->unnamed || is_in_wanted_group(a, l->tid) ||
           has_wanted_role(a, l);
}

/* False: others of its kind are held. It may live long, so the finder is told about it. */
static bool is_drawn(struct answerer *a, struct look *l, uint64_t now)
{
    struct hw_exec_start start = {.at_ns = now};
    if (a->per_minute == 0 || read_exec(a, l) != 1)
        return true;
    hw_exec_read_command(a->reader, l->tid, &l->exec, l->fd, &start);
    uint32_t drawn = hw_exec_share_draw(&a->shares, &start, a->per_minute);
    if (drawn != HW_EXEC_PASSED) {
        l->share = drawn;
        return true;
    }
    struct hw_exec_watch_shared *s = a->shared;
    uint32_t n = atomic_load_explicit(&s->n_passed, memory_order_relaxed);
    atomic_store_explicit(&s->passed[n % HW_EXEC_N_PASSED], hw_exec_process_of(l->tid),
                          memory_order_relaxed);
    atomic_store_explicit(&s->n_passed, n + 1, memory_order_release);
    return false;
}

static void on_events(struct answerer *a)
{
    _Alignas(struct fanotify_event_metadata) char buffer[EVENT_BYTES];
    hw_exec_limit(ROUND_MS);
    ssize_t n = read(a->group, buffer, sizeof buffer);
    uint64_t now = hw_now_monotonic_ns();
    take_names(a);
    const struct fanotify_event_metadata *e = (const void *)buffer;
    for (; n > 0 && FAN_EVENT_OK(e, n); e = FAN_EVENT_NEXT(e, n)) {
        struct look l = {.fd = e->fd, .tid = e->pid, .until_ns = now + LOOK_NS};
        if (e->fd < 0)
            continue;
        if (!(e->mask & HW_FAN_OPEN_EXEC_PERM))
            (void)close(e->fd); /* none was asked for */
        else if (e->pid <= 0 || !may_be_meant(a, &l) || !is_drawn(a, &l, now) ||
                 !send_candidate(a, &l, now))
            allow(a, e->fd);
    }
}

static void answered(struct answerer *a, struct question *q)
{
    allow(a, q->fd);
    q->fd = -1;
    a->n_open--;
}

static void on_finder(struct answerer *a)
{
    struct hw_exec_answer m;
    ssize_t n;
    while ((n = recv(a->finder, &m, sizeof m, MSG_DONTWAIT)) == sizeof m)
        for (size_t i = 0; i < MAX_OPEN; i++) {
            struct question *q = &a->open[i];
            if (q->fd < 0 || q->number != m.number)
                continue;
            answered(a, q);
            break;
        }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        _exit(0); /* the finder is gone: the guard starts both again */
}

static int overdue(struct answerer *a)
{
    uint64_t now = hw_now_monotonic_ns(), next = UINT64_MAX;
    for (size_t i = 0; i < MAX_OPEN && a->n_open; i++) {
        struct question *q = &a->open[i];
        if (q->fd >= 0 && now >= q->until_ns)
            answered(a, q);
        else if (q->fd >= 0 && q->until_ns < next)
            next = q->until_ns;
    }
    int ms = a->n_open ? (int)((next - now) / MS) + 1 : HW_EXEC_BEAT_MS;
    return ms < HW_EXEC_BEAT_MS ? ms : HW_EXEC_BEAT_MS;
}

_Noreturn void hw_exec_answer(struct hw_exec_watch_shared *shared, struct hw_exec_reader *reader,
                              int finder)
{
    static struct answerer a;
    struct hw_exec_hello hello = {0};
    (void)prctl(PR_SET_NAME, "heapprofd-allow");
    a.shared = shared;
    a.reader = reader;
    a.finder = finder;
    if (getrandom(&a.shares.random, sizeof a.shares.random, GRND_NONBLOCK) < 0)
        a.shares.random = hw_now_monotonic_ns(); /* it only has to differ from start to start */
    a.shares.random |= 1;
    for (size_t i = 0; i < MAX_OPEN; i++)
        a.open[i].fd = -1;
    a.mounts = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    a.group = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK | FAN_REPORT_TID,
                            O_RDONLY | O_CLOEXEC | O_LARGEFILE);
    hw_exec_limit_init();
    hw_exec_limit(HW_EXEC_STANDS_MS);
    (void)setpriority(PRIO_PROCESS, 0, -15); /* an offer, as is the next */
    (void)mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT);
    hello.error = a.group < 0 ? errno : mark_all(&a);
    hello.n_marks = a.n_marks;
    (void)send(finder, &hello, sizeof hello, MSG_NOSIGNAL); /* its end is seen below */
    if (hello.error)
        _exit(3);
    for (;;) { /* stopping this process, the guard and the recorder blocks no exec */
        hw_exec_limit(HW_EXEC_STANDS_MS);
        atomic_store_explicit(&shared->turn_ns[0], hw_now_monotonic_ns(), memory_order_relaxed);
        struct pollfd p[] = {{.fd = a.group, .events = POLLIN},
                             {.fd = a.finder, .events = POLLIN},
                             {.fd = a.mounts, .events = POLLPRI}};
        (void)poll(p, 3, overdue(&a)); /* a signal only shortens it */
        if (p[1].revents)
            on_finder(&a);
        if (p[0].revents)
            on_events(&a);
        if (p[2].revents & POLLPRI) {
            hw_exec_limit(HW_EXEC_STANDS_MS);
            (void)mark_all(&a); /* what is there already stays */
        }
    }
}

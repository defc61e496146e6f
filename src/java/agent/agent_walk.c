/*
 * One walk over the heap.
 *
 *     our thread ── FollowReferences ──> the JVM's thread, all Java threads stopped
 *                                          first callback: fork()
 *                         <── ABORT ────── parent: the program continues
 *                                          child:  walks its frozen copy, writes to the pipe,
 *                                                  exits at agent_end.c's hook
 *
 * Without fork (if the user allowed it) the same callbacks write while the program is stopped.
 *
 * A callback may be on the JVM's thread in the JVM's own process: no allocation there but mmap, no
 * lock, no call into the JVM.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "java/agent/agent.h"

#include "base/banned.h"

enum {
    BUFFER = 1 << 20,
    OP_MAX = 256,     /* bytes of one callback's ops at most */
    REGION_BITS = 25, /* one bitmap for so much of the address space */
    REGION_BYTES = 1 << (REGION_BITS - 3 - 3),
    N_REGIONS = 1 << (48 - REGION_BITS),
    PROGRESS_EVERY = 1024,
    CHILD_NICE = 10,
    CHILD_SECONDS = 1800, /* the last resort */
    EXIT_UNVERIFIED = 3,
    EXIT_WRITE = 4,
    WRITE_MS = 2000, /* paused: the asker reads, or the walk ends */
    LOOK_MS = 5,
    BUSY_FACTOR = 15 /* a child that computes gets so many times longer */
};

struct shared { /* with the child */
    _Atomic uint64_t progress;
    _Atomic uint32_t writing;
};

static struct walk {
    const struct agent_walk *how;
    struct shared *shared;
    uint64_t **regions;
    uint8_t *buffer;
    size_t n;
    uint64_t owner, next_tag, n_refs;
    bool by_tag, paused, forked, met_known, reads;
    int failed; /* exit status */
    pid_t child;
    int fork_errno;
    uint64_t stop_ns, fork_ns, started_ns;
} w;

/* ---- the stream ---- */

static void flush(void)
{
    size_t at = 0;
    atomic_store_explicit(&w.shared->writing, 1, memory_order_relaxed);
    while (at < w.n && !w.failed) {
        ssize_t n = write(w.how->pipe, w.buffer + at, w.n - at);
        if (n > 0) {
            at += (size_t)n;
            continue;
        }
        struct pollfd p = {.fd = w.how->pipe, .events = POLLOUT};
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && poll(&p, 1, WRITE_MS) > 0 && !(p.revents & POLLERR))
            continue;
        w.failed = EXIT_WRITE;
    }
    w.n = 0;
    atomic_store_explicit(&w.shared->writing, 0, memory_order_relaxed);
}

static void put(uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        w.buffer[w.n++] = (uint8_t)(v | 0x80);
    w.buffer[w.n++] = (uint8_t)v;
}

static void put_signed(int64_t v)
{
    put((uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

static void end_of_walk(void)
{
    if (!w.by_tag && !w.met_known) { /* nothing proved that referrers are what we took them for */
        w.failed = EXIT_UNVERIFIED;
        return;
    }
    w.buffer[w.n++] = HW_JAVA_OP_END;
    flush();
}

/* ---- which objects were seen ---- */

/* Marks id; gives whether it was marked before. Without memory the walk ends. */
static bool mark(uint64_t id, bool only_look)
{
    uint64_t **region = &w.regions[id >> (REGION_BITS - 3) & (N_REGIONS - 1)];
    if (!*region) {
        void *p = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) {
            w.failed = EXIT_WRITE;
            return true;
        }
        *region = p;
    }
    uint64_t bit = id & ((1u << (REGION_BITS - 3)) - 1);
    uint64_t *word = &(*region)[bit >> 6];
    bool was = *word >> (bit & 63) & 1;
    if (!only_look)
        *word |= 1ull << (bit & 63);
    return was;
}

/* An object's id, 0 = what is there is no address. */
static uint64_t address_id(uint64_t address)
{
    return (address & 7) || address >> 47 ? 0 : address >> 3;
}

static uint64_t id_of(int64_t *tag, bool referrer, bool same)
{
    if (w.by_tag) {
        if (*tag == 0)
            *tag = (int64_t)w.next_tag++;
        return (uint64_t)*tag;
    }
    int back = referrer && !same ? w.how->cells.referrer : w.how->cells.referred;
    return address_id((uint64_t)tag[-back]);
}

/* ---- the child ---- */

static void child_ended(void)
{
    if (w.paused)
        return;
    end_of_walk();
    _exit(w.failed);
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t ignored = write(fd, text, strlen(text)); /* a kernel without it: nothing is lost */
    (void)ignored;
    (void)close(fd);
}

/* A copy that nobody should notice: it keeps none of the program's files open, and is killed
 * first. */
static void become_child(void)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGPIPE, SIGALRM};
    struct sched_param none = {0};
    sigset_t mask;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        (void)signal(crashes[i], SIG_DFL);
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGALRM);
    (void)sigprocmask(SIG_UNBLOCK, &mask, NULL);
    (void)alarm(CHILD_SECONDS);
    (void)setpriority(PRIO_PROCESS, 0, CHILD_NICE);
    (void)sched_setscheduler(0, SCHED_BATCH, &none);
    write_text("/proc/self/oom_score_adj", "1000");
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        (void)dup2(null, fd);
#ifdef SYS_close_range
    unsigned keep = (unsigned)w.how->pipe;
    if (keep > 3)
        (void)syscall(SYS_close_range, 3u, keep - 1, 0u);
    (void)syscall(SYS_close_range, keep + 1, ~0u, 0u);
#endif
    agent_end_arm(child_ended);
}

/* The first callback. Gives whether this process continues the walk. */
static bool begin(void)
{
    uint64_t before = agent_now_ns(CLOCK_MONOTONIC);
    w.started_ns = agent_now_ns(CLOCK_BOOTTIME);
    w.stop_ns = before;
    if (w.paused) {
        w.reads = w.by_tag || agent_values_proved(w.how->values);
        return true;
    }
    w.forked = true;
    w.child = fork();
    if (w.child == 0) {
        become_child();
        w.reads = w.by_tag || agent_values_proved(w.how->values);
        return true;
    }
    w.fork_errno = w.child < 0 ? errno : 0;
    w.fork_ns = w.stop_ns = agent_now_ns(CLOCK_MONOTONIC) - before;
    return false;
}

/* ---- callbacks ---- */

static int32_t stop(int status)
{
    if (!w.failed)
        w.failed = status;
    if (!w.paused) {
        flush();
        _exit(w.failed);
    }
    return HW_TI_ABORT;
}

static bool has_index(int32_t kind)
{
    return kind == HW_REF_FIELD || kind == HW_REF_STATIC;
}

static uint64_t thread_number(int64_t tag)
{
    return tag > AGENT_THREAD_TAG ? (uint64_t)(tag - AGENT_THREAD_TAG) : 0;
}

/* Whose root it is. tag: of the object itself. */
static void put_holder(int32_t kind, const struct hw_jvm_on_stack *s, int64_t tag)
{
    if (kind == HW_ROOT_THREAD) {
        put(thread_number(tag));
        return;
    }
    bool is_local = kind == HW_ROOT_STACK;
    put(thread_number(s->thread_tag));
    put((uint64_t)s->thread_id);
    put((uint64_t)((int64_t)s->depth + 1));
    if (w.how->frames)
        put(agent_frame_number(w.how->frames, s->method, is_local ? s->bci : -1));
    else
        put(s->method ? HW_JAVA_FRAME_LOST : 0);
    put(is_local ? (uint64_t)((int64_t)s->slot + 1) : 0);
}

/* What is referred to, and for the first time what it is. */
static int32_t put_reference(int32_t kind, const union hw_jvm_reference_info *info, uint64_t id,
                             int64_t tag, int64_t class_tag, int64_t size)
{
    bool fresh = !mark(id, /* only_look = */ false);
    bool class_object = tag >= 1 && tag <= w.how->n_classes;
    if (kind == HW_REF_CLASS && !fresh)
        return HW_TI_VISIT; /* said with the object already */
    w.buffer[w.n++] = (uint8_t)(kind | (fresh ? HW_JAVA_OP_FRESH : 0) |
                                (fresh && class_object ? HW_JAVA_OP_CLASS_OBJECT : 0));
    if (has_index(kind))
        put((uint32_t)info->index);
    if (hw_jvm_has_holder((uint32_t)kind))
        put_holder(kind, &info->on_stack, tag);
    put_signed((int64_t)(id - w.owner));
    if (fresh) {
        put((uint64_t)class_tag);
        put((uint64_t)size >> 3);
        if (class_object)
            put((uint64_t)tag);
    }
    return HW_TI_VISIT;
}

/* ---- numbers of the owner ---- */

static bool is_read(int64_t class_tag)
{
    return w.reads && class_tag >= 1 && class_tag <= w.how->n_classes &&
           w.how->values->row_of[class_tag];
}

static void put_value(uint32_t role, uint64_t value)
{
    w.buffer[w.n++] = HW_JAVA_OP_VALUE;
    put(role);
    put(value);
}

static void put_inner(uint32_t class, uint64_t address)
{
    uint64_t inner[AGENT_MAX_INNER];
    size_t n = agent_values_inner(w.how->values, class, address, inner);
    for (size_t i = 0; i < n; i++)
        put_value(HW_JAVA_VALUE_INNER, inner[i]);
}

static void put_values(uint32_t class, uint64_t object)
{
    uint64_t address, bytes;
    if (!agent_values_read(w.how->values, class, object, &address, &bytes))
        return;
    put_value(HW_JAVA_VALUE_ADDRESS, address);
    if (bytes)
        put_value(HW_JAVA_VALUE_BYTES, bytes);
    put_inner(class, address);
}

static void put_owner(uint64_t owner)
{
    w.buffer[w.n++] = HW_JAVA_OP_OWNER;
    put_signed((int64_t)(owner - w.owner));
    w.owner = owner;
}

/* Of a walk by tags, which knows no addresses. */
static int32_t on_primitive(int32_t kind, const union hw_jvm_reference_info *info,
                            int64_t class_tag, int64_t *tag, int64_t value, int32_t type, void *arg)
{
    (void)arg;
    if (kind != HW_REF_FIELD || type != 'J' || !is_read(class_tag) || w.failed || *tag == 0)
        return HW_TI_VISIT;
    if (w.n > BUFFER - OP_MAX)
        flush();
    if ((uint64_t)*tag != w.owner)
        put_owner((uint64_t)*tag);
    put_value(HW_JAVA_VALUE_INDEX + (uint32_t)info->index, (uint64_t)value);
    if (w.how->values->of[w.how->values->row_of[class_tag] - 1].bytes < 0) /* zlib: the address */
        put_inner((uint32_t)class_tag, (uint64_t)value);
    return HW_TI_VISIT;
}

static int32_t on_reference(int32_t kind, const union hw_jvm_reference_info *info,
                            int64_t class_tag, int64_t referrer_class_tag, int64_t size,
                            int64_t *tag, int64_t *referrer_tag, int32_t length, void *arg)
{
    (void)length, (void)arg;
    if (!w.started_ns && !begin())
        return HW_TI_ABORT;
    if (w.failed)
        return stop(w.failed);
    if (w.n > BUFFER - OP_MAX)
        flush();
    if (++w.n_refs % PROGRESS_EVERY == 0) {
        atomic_fetch_add_explicit(&w.shared->progress, 1, memory_order_relaxed);
        while (w.how->fail && !w.paused)
            (void)pause();
    }
    int64_t known = *tag; /* before it gets one of ours */
    uint64_t id = id_of(tag, /* referrer = */ false, false);
    if (!id)
        return stop(EXIT_UNVERIFIED);
    if (referrer_tag) {
        uint64_t owner = id_of(referrer_tag, /* referrer = */ true, referrer_tag == tag);
        if (!owner || (owner != w.owner && !mark(owner, /* only_look = */ true)))
            return stop(EXIT_UNVERIFIED);
        if (!w.by_tag && *referrer_tag == AGENT_TAG + AGENT_KNOWN) {
            w.met_known = true;
            if (owner != address_id(agent_address(w.how->known->handle[AGENT_KNOWN])))
                return stop(EXIT_UNVERIFIED);
        }
        if (owner != w.owner) {
            put_owner(owner);
            if (!w.by_tag && is_read(referrer_class_tag))
                put_values((uint32_t)referrer_class_tag, owner << 3);
        }
    }
    return put_reference(kind, info, id, known, class_tag, size);
}

/* ---- around the call ---- */

static bool make_room(void)
{
    w.shared =
        mmap(NULL, sizeof *w.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    w.regions = mmap(NULL, N_REGIONS * sizeof *w.regions, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    w.buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return w.shared != MAP_FAILED && w.regions != MAP_FAILED && w.buffer != MAP_FAILED;
}

static void free_room(void)
{
    for (size_t i = 0; w.paused && w.regions != MAP_FAILED && i < N_REGIONS; i++)
        if (w.regions[i])
            (void)munmap(w.regions[i], REGION_BYTES);
    if (w.shared != MAP_FAILED)
        (void)munmap(w.shared, sizeof *w.shared);
    if (w.regions != MAP_FAILED)
        (void)munmap(w.regions, N_REGIONS * sizeof *w.regions);
    if (w.buffer != MAP_FAILED)
        (void)munmap(w.buffer, BUFFER);
}

static char state_of(pid_t pid)
{
    char path[32] = "/proc/", text[256], *end;
    size_t n = strlen(path);
    char digits[12];
    int k = 0;
    for (unsigned v = (unsigned)pid; v || !k; v /= 10)
        digits[k++] = (char)('0' + v % 10);
    while (k)
        path[n++] = digits[--k];
    memcpy(path + n, "/stat", 6);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        (void)close(fd);
    text[got > 0 ? got : 0] = 0;
    end = strrchr(text, ')');
    return end && end[1] ? end[2] : '?';
}

/* Waits for the child, and ends one that makes no progress. */
static void watch(struct hw_java_message *out)
{
    uint64_t last = 0, since = agent_now_ns(CLOCK_MONOTONIC);
    int status = 0;
    for (;;) {
        pid_t got = waitpid(w.child, &status, WNOHANG);
        if (got == w.child)
            break;
        if (got < 0 && errno == ECHILD) { /* SIGCHLD is ignored here: the stream's end must do */
            if (kill(w.child, 0) < 0)
                return;
        }
        uint64_t now = agent_now_ns(CLOCK_MONOTONIC);
        uint64_t progress = atomic_load_explicit(&w.shared->progress, memory_order_relaxed);
        bool writing = atomic_load_explicit(&w.shared->writing, memory_order_relaxed);
        if (progress != last || writing)
            since = now;
        last = progress;
        uint64_t limit = (uint64_t)w.how->stall_ms * 1000000u;
        if (now - since > limit &&
            (state_of(w.child) != 'R' || now - since > BUSY_FACTOR * limit)) {
            (void)kill(w.child, SIGKILL);
            (void)waitpid(w.child, &status, 0); /* it dies of the kill */
            out->reason = HW_JAVA_STALLED;
            return;
        }
        agent_rest(LOOK_MS);
    }
    if (WIFSIGNALED(status)) {
        out->reason = HW_JAVA_CRASHED;
        out->detail = WTERMSIG(status);
    } else if (WEXITSTATUS(status)) {
        out->reason =
            WEXITSTATUS(status) == EXIT_UNVERIFIED ? HW_JAVA_UNVERIFIED : HW_JAVA_INCOMPLETE;
    }
}

static void walk_forked(struct agent *a, struct hw_java_message *out)
{
    const struct hw_jvm_callbacks callbacks = {.reference = on_reference,
                                               .primitive = w.by_tag ? on_primitive : NULL};
    int rc = HW_JVM(a->ti, HW_TI_FOLLOW, hw_ti_follow_fn *)(a->ti, 0, NULL, NULL, &callbacks, NULL);
    out->call_ns = agent_now_ns(CLOCK_MONOTONIC) - out->call_ns;
    (void)close(w.how->pipe); /* the child has the only other one */
    if (!w.forked || w.child < 0) {
        out->reason = w.forked ? HW_JAVA_FORK_FAILED : HW_JAVA_FAILED;
        out->detail = w.forked ? w.fork_errno : rc;
        return;
    }
    watch(out);
}

static void walk_paused(struct agent *a, struct hw_java_message *out)
{
    const struct hw_jvm_callbacks callbacks = {.reference = on_reference,
                                               .primitive = w.by_tag ? on_primitive : NULL};
    int flags = fcntl(w.how->pipe, F_GETFL);
    (void)fcntl(w.how->pipe, F_SETFL, flags | O_NONBLOCK); /* else a write may last */
    int rc = HW_JVM(a->ti, HW_TI_FOLLOW, hw_ti_follow_fn *)(a->ti, 0, NULL, NULL, &callbacks, NULL);
    out->call_ns = agent_now_ns(CLOCK_MONOTONIC) - out->call_ns;
    if (w.started_ns)
        w.stop_ns = agent_now_ns(CLOCK_MONOTONIC) - w.stop_ns;
    if (!w.failed && rc == 0)
        end_of_walk();
    (void)close(w.how->pipe);
    if (rc)
        out->reason = HW_JAVA_FAILED;
    else if (w.failed)
        out->reason = w.failed == EXIT_UNVERIFIED ? HW_JAVA_UNVERIFIED : HW_JAVA_INCOMPLETE;
    out->detail = rc;
}

void agent_walk_run(struct agent *a, struct agent_walk *how, struct hw_java_message *out)
{
    memset(&w, 0, sizeof w);
    w.how = how;
    if (how->frames)
        agent_frames_clear(how->frames); /* of a walk that failed */
    w.by_tag = how->mode == HW_JAVA_FORK_TAGS || how->mode == HW_JAVA_PAUSED_TAGS;
    w.paused = how->mode == HW_JAVA_PAUSED_ADDRESS || how->mode == HW_JAVA_PAUSED_TAGS;
    w.next_tag = (uint64_t)how->n_classes + 1;
    if (!make_room()) {
        out->reason = HW_JAVA_FAILED;
        out->detail = ENOMEM;
        free_room();
        (void)close(how->pipe);
        return;
    }
    out->call_ns = agent_now_ns(CLOCK_MONOTONIC);
    uint64_t begun = out->call_ns;
    if (w.paused)
        walk_paused(a, out);
    else
        walk_forked(a, out);
    out->stop_ns = w.stop_ns;
    out->fork_ns = w.fork_ns;
    out->age_ns = w.started_ns ? agent_now_ns(CLOCK_BOOTTIME) - w.started_ns : 0;
    out->walk_ns = agent_now_ns(CLOCK_MONOTONIC) - begun;
    free_room();
}

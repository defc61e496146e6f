/*
 * libheapwise_java.so: comes into a JVM, serves requests for heap graphs on threads of its own.
 *
 * The JVM's attach listener serves one client at a time, so Agent_OnAttach returns at once. The
 * options are the path of a socket where the asker waits; when that connection ends, so does the
 * thread. Between dumps none of our code runs.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "java/agent/agent.h"

#include "base/banned.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int32_t Agent_OnLoad(hw_jvm_env vm, char *options, void *reserved);
EXPORT int32_t Agent_OnAttach(hw_jvm_env vm, char *options, void *reserved);
EXPORT void Agent_OnUnload(hw_jvm_env vm);

enum { RETRIES = 2, RETRY_MS = 500, READY_RETRIES = 4, PIPE_BYTES = 1 << 20, MAX_STALL_MS = 60000 };

static atomic_int busy; /* one walk at a time in this JVM */

/* ---- the connection ---- */

bool agent_say(struct agent *a, const struct hw_java_message *what, int fd, int flags)
{
    struct iovec bytes = {(void *)(uintptr_t)what, sizeof *what};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr m = {.msg_iov = &bytes, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = &control;
        m.msg_controllen = sizeof control.room;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    ssize_t n;
    do
        n = sendmsg(a->socket, &m, MSG_NOSIGNAL | flags);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof *what;
}

static bool say(struct agent *a, const struct hw_java_message *what, int fd)
{
    return agent_say(a, what, fd, /* flags = */ 0);
}

/* Who may be told what is in this process: root, and its own user. */
static bool is_trusted(int fd)
{
    struct ucred who;
    socklen_t len = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
           (who.uid == 0 || who.uid == geteuid());
}

static int connect_to(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof at.sun_path)
        return -1;
    memcpy(at.sun_path, path, n + 1);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0 && is_trusted(fd))
        return fd;
    (void)close(fd);
    return -1;
}

/* ---- one dump ---- */

static bool table(struct agent *a, struct agent_values *values, struct hw_java_message *done,
                  uint32_t *n)
{
    int fd = memfd_create("heapwise-classes", MFD_CLOEXEC);
    if (fd < 0) {
        done->reason = HW_JAVA_FAILED;
        done->detail = errno;
        return false;
    }
    done->reason = agent_classes_write(a, fd, values, n);
    struct hw_java_message out = {.type = HW_JAVA_CLASSES, .n = *n};
    bool ok = !done->reason && say(a, &out, fd);
    (void)close(fd);
    return ok;
}

static bool attempt(struct agent *a, struct agent_walk *walk, struct hw_java_message *ended)
{
    int ends[2];
    struct hw_java_message begun = {.type = HW_JAVA_ATTEMPT, .mode = walk->mode};
    if (pipe2(ends, O_CLOEXEC) < 0) {
        ended->reason = HW_JAVA_FAILED;
        ended->detail = errno;
        return true;
    }
    (void)fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES); /* else the usual size */
    walk->pipe = ends[1];
    bool ok = say(a, &begun, ends[0]);
    (void)close(ends[0]);
    if (ok)
        agent_walk_run(a, walk, ended);
    else
        (void)close(ends[1]);
    return ok;
}

static int make_environment(struct agent *a)
{
    static const uint8_t bits[HW_TI_CAPABILITY_BYTES] = {HW_TI_CAN_TAG};
    static const uint8_t of_lines[HW_TI_CAPABILITY_BYTES] = {
        [HW_TI_CAN_SOURCE_FILE / 8] = 1 << HW_TI_CAN_SOURCE_FILE % 8 | 1 << HW_TI_CAN_LINES % 8};
    _Static_assert(HW_TI_CAN_SOURCE_FILE / 8 == HW_TI_CAN_LINES / 8, "one byte");
    void *env = NULL;
    int rc = HW_JVM(a->vm, HW_VM_GET_ENV, hw_vm_get_env_fn *)(a->vm, &env, HW_TI_VERSION);
    a->ti = env;
    if (rc == 0)
        rc = HW_JVM(a->ti, HW_TI_ADD_CAPABILITIES, hw_ti_capabilities_fn *)(a->ti, bits);
    if (rc == 0) /* without them methods have no file or line */
        (void)HW_JVM(a->ti, HW_TI_ADD_CAPABILITIES, hw_ti_capabilities_fn *)(a->ti, of_lines);
    return rc;
}

static void drop_environment(struct agent *a)
{
    if (a->ti)
        (void)HW_JVM(a->ti, HW_TI_DISPOSE, hw_ti_fn *)(a->ti); /* nothing of ours is left in it */
    a->ti = NULL;
}

/* Tags of a walk that numbered by tags must not be found by the next one. A JVM that already
 * listens may still need a moment for what we want. */
static bool fresh_environment(struct agent *a, struct hw_java_message *done)
{
    for (int i = 0; i <= READY_RETRIES; i++) {
        done->detail = make_environment(a);
        if (done->detail == 0)
            return true;
        drop_environment(a);
        agent_rest(RETRY_MS);
    }
    done->reason = HW_JAVA_UNSUPPORTED;
    return false;
}

/* Without them roots have a kind, and no more. */
static void name_holders(struct agent *a, struct agent_holders *h)
{
    int fd = h ? memfd_create("heapwise-holders", MFD_CLOEXEC) : -1;
    struct hw_java_message out = {.type = HW_JAVA_HOLDERS};
    if (fd >= 0 && agent_holders_write(a, h, fd))
        (void)say(a, &out, fd); /* nobody is there any more: the next message shows it */
    if (fd >= 0)
        (void)close(fd);
}

/* Down the ladder until a walk is complete. done: the last reason. */
static void follow_parents(struct agent *a, const struct hw_java_request *q, uint32_t n_classes,
                           const struct agent_values *values, struct agent_holders *holders,
                           struct hw_java_message *done)
{
    const struct agent_known *known = &a->known;
    struct agent_cells cells;
    bool measured = agent_cells_find(a, known, &cells) == HW_JAVA_OK;
    done->reason = HW_JAVA_NO_MODE;
    for (uint32_t mode = 0; mode < HW_JAVA_MODE_COUNT; mode++) {
        bool by_address = mode == HW_JAVA_FORK_ADDRESS || mode == HW_JAVA_PAUSED_ADDRESS;
        bool fork = mode == HW_JAVA_FORK_ADDRESS || mode == HW_JAVA_FORK_TAGS;
        if (!(q->modes >> mode & 1) || mode == HW_JAVA_OWN_DUMP)
            continue;
        if (by_address && !measured) {
            struct hw_java_message no = {
                .type = HW_JAVA_ENDED, .mode = mode, .reason = HW_JAVA_UNVERIFIED};
            if (!say(a, &no, -1))
                return;
            continue;
        }
        for (int i = 0; i <= (fork ? RETRIES : 0); i++) {
            struct agent_walk walk = {.mode = mode,
                                      .cells = measured ? cells : (struct agent_cells){0},
                                      .known = known,
                                      .values = values,
                                      .frames = agent_holders_frames(holders),
                                      .n_classes = n_classes,
                                      .stall_ms = q->stall_ms,
                                      .fail = q->fail >> mode & 1};
            struct hw_java_message ended = {.type = HW_JAVA_ENDED, .mode = mode};
            if (!attempt(a, &walk, &ended) || !say(a, &ended, -1))
                return;
            done->reason = ended.reason;
            done->detail = ended.detail;
            if (ended.reason == HW_JAVA_OK) {
                name_holders(a, holders);
                return;
            }
            if (ended.reason != HW_JAVA_STALLED && ended.reason != HW_JAVA_CRASHED &&
                ended.reason != HW_JAVA_INCOMPLETE)
                break; /* the same would happen again */
            agent_rest(RETRY_MS);
        }
    }
}

static void dump(struct agent *a, const struct hw_java_request *q)
{
    struct hw_java_message done = {.type = HW_JAVA_DONE};
    struct agent_values values = {0};
    uint32_t n = 0;
    if (q->version != HW_JAVA_PROTOCOL || q->stall_ms > MAX_STALL_MS)
        done.reason = HW_JAVA_UNSUPPORTED;
    else if ((done.heap_bytes = agent_heap_bytes(a, &done.heap_left)) < q->min_heap_bytes)
        done.reason = HW_JAVA_SMALL;
    else if (atomic_exchange(&busy, 1))
        done.reason = HW_JAVA_RUNNING;
    else {
        if (agent_end_prepare())
            done.reason = HW_JAVA_UNSUPPORTED;
        else if (fresh_environment(a, &done) && table(a, &values, &done, &n)) {
            done.reason = agent_known_make(a);
            if (!done.reason)
                done.reason = agent_known_tag(a);
            if (!done.reason) {
                values.probe = agent_values_probe(a); /* without it nothing is read */
                values.probe_offset = a->probe_offset;
                struct agent_holders *holders = agent_holders_new(a);
                follow_parents(a, q, n, &values, holders, &done);
                agent_holders_free(holders);
            }
        }
        agent_values_done(&values);
        drop_environment(a);
        atomic_store(&busy, 0);
    }
    (void)say(a, &done, -1); /* nobody is there any more: the next receive shows it */
}

/* ---- moments ---- */

/* What a dump needs of the heap is allocated now: at that moment there may be nothing left. */
static void watch(struct agent *a, const struct hw_java_request *q)
{
    struct hw_java_message done = {.type = HW_JAVA_DONE};
    if (q->version != HW_JAVA_PROTOCOL || !agent_events_watch(a, q->events, q->hold_ms))
        done.reason = HW_JAVA_UNSUPPORTED;
    (void)agent_known_make(a); /* tried again by the dump */
    (void)agent_values_probe(a);
    done.heap_bytes = agent_heap_bytes(a, &done.heap_left);
    (void)say(a, &done, -1);
}

static void answer(struct agent *a, const struct hw_java_request *q)
{
    struct hw_java_message done = {.type = HW_JAVA_DONE};
    switch ((enum hw_java_command)q->ask) {
    case HW_JAVA_COMMAND_DUMP:
        dump(a, q);
        return;
    case HW_JAVA_COMMAND_WATCH:
        watch(a, q);
        return;
    case HW_JAVA_COMMAND_RELEASE:
        agent_events_release(a, q->events);
        return;
    default:
        done.reason = HW_JAVA_UNSUPPORTED;
        break;
    }
    (void)say(a, &done, -1); /* nobody is there any more: the next receive shows it */
}

/* ---- the thread ---- */

struct start {
    hw_jvm_env vm;
    int socket; /* -1: to be connected to path */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

static void serve(struct agent *a)
{
    struct hw_java_request q;
    struct hw_java_message hello = {.type = HW_JAVA_HELLO, .n = HW_JAVA_PROTOCOL, .pid = getpid()};
    if (!say(a, &hello, -1))
        return;
    for (;;) {
        ssize_t n = recv(a->socket, &q, sizeof q, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n != (ssize_t)sizeof q)
            return;
        agent_events_serve(a, /* begins = */ true);
        answer(a, &q);
        agent_events_serve(a, /* begins = */ false);
    }
}

static void *run(void *arg)
{
    static char name[] = "heapwise";
    struct start *s = arg;
    struct agent a = {.vm = s->vm};
    struct hw_jvm_attach attach = {.version = HW_JNI_VERSION, .name = name};
    void *env = NULL;
    if (agent_client)
        agent_client->suppress();
    agent_events_ours();
    a.socket = s->socket >= 0 ? s->socket : connect_to(s->path);
    if (a.socket >= 0 &&
        HW_JVM(a.vm, HW_VM_ATTACH_DAEMON, hw_vm_attach_fn *)(a.vm, &env, &attach) == 0) {
        a.jni = env;
        serve(&a);
        agent_events_forget(&a);
        (void)HW_JVM(a.vm, HW_VM_DETACH, hw_vm_fn *)(a.vm); /* it was attached */
    }
    if (a.socket >= 0)
        (void)close(a.socket);
    free(s);
    return NULL;
}

/* The program's signals are not for this thread, but those that its own faults raise. */
static int start_thread(struct start *s)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
    pthread_t thread;
    pthread_attr_t attr;
    sigset_t all, before;
    (void)sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        (void)sigdelset(&all, faults[i]);
    if (pthread_attr_init(&attr))
        return -1;
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    int rc = pthread_create(&thread, &attr, run, s);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return rc ? -1 : 0;
}

static int32_t come_in(hw_jvm_env vm, const char *options)
{
    size_t n = options ? strlen(options) : 0;
    struct start *s = n && n < sizeof s->path ? calloc(1, sizeof *s) : NULL;
    if (!s)
        return -1;
    s->vm = vm;
    s->socket = -1;
    memcpy(s->path, options, n + 1);
    if (start_thread(s) == 0)
        return 0;
    free(s);
    return -1;
}

void agent_serve(hw_jvm_env vm, int connection)
{
    struct start *s = is_trusted(connection) ? calloc(1, sizeof *s) : NULL;
    if (s) {
        s->vm = vm;
        s->socket = connection;
        if (start_thread(s) == 0)
            return;
    }
    free(s);
    (void)close(connection);
}

int32_t Agent_OnAttach(hw_jvm_env vm, char *options, void *reserved)
{
    (void)reserved;
    return come_in(vm, options);
}

/* -agentpath: without options it only stays ready. */
int32_t Agent_OnLoad(hw_jvm_env vm, char *options, void *reserved)
{
    (void)reserved;
    return options && *options ? come_in(vm, options) : 0;
}

void Agent_OnUnload(hw_jvm_env vm)
{
    (void)vm; /* the JVM ends: threads of ours end with it */
}

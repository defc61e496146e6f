/*
 * What happens on the wire: NUL-ended strings "1", command, three arguments; then everything up to
 * the end of the connection is the answer. Its first line is a number that says little: newer JVMs
 * give 0 for a library they did not load. The text behind is what counts.
 */
#include "java/jvm/jvm_attach.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "base/text/utf8.h"
#include "java/jvm/jvm_files.h"
#include "java/jvm/jvm_maps.h"
#include "proc/maps.h"
#include "proc/pid.h"
#include "proc/root_path.h"

#include "base/banned.h"

enum {
    READY_MS = 1000,
    SOCKET_MS = 6000,
    SILENCE_MS = 120000, /* a heap dump is an answer too, and a safepoint may be long in coming */
    STEP_MS = 10,
    MAX_ANSWER = 1 << 20,
    MAX_STATUS = 1 << 16,
    MAX_WORD = 1024
};

int hw_java_fail(struct hw_error *err, int reason, const char *fmt, ...)
{
    char more[256] = "";
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(more, sizeof more, fmt, args); /* cut is fine */
    va_end(args);
    const char *remedy = hw_java_reason_remedy(reason);
    (void)hw_fail(err, HW_EUNSUPPORTED, 0, "%s: %s%s%s%s%s%s", hw_java_reason_code(reason),
                  hw_java_reason_text(reason), more[0] ? " (" : "", more, more[0] ? ")" : "",
                  remedy[0] ? "; " : "", remedy);
    return reason;
}

/* ---- looking ---- */

/* The number after a key of /proc/PID/status; column: which of several, -1 = the last. */
static bool number(const char *text, const char *key, int base, int column, uint64_t *out)
{
    const char *at = strstr(text, key);
    if (!at)
        return false;
    at += strlen(key);
    for (int i = 0;; i++) {
        char *end;
        while (*at == ' ' || *at == '\t')
            at++;
        uint64_t v = strtoull(at, &end, base);
        if (end == at)
            return column < 0 && i > 0;
        *out = v;
        if (i == column)
            return true;
        at = end;
    }
}

static int status(const struct hw_pid *pid, char **text, struct hw_error *err)
{
    size_t n;
    if (hw_file_read(pid->dir, "status", MAX_STATUS, text, &n, NULL) < 0)
        return hw_java_fail(err, HW_JAVA_GONE, "pid %d", pid->pid);
    return 0;
}

static bool is_heap_in_a_file(const struct hw_map *m)
{
    static const char *const names[] = {"/memfd:java_heap", "/jvmheap.", "/SYSV", "/anon_hugepage"};
    if (!(m->flags & HW_MAP_SHARED) || !(m->flags & HW_MAP_WRITE))
        return false;
    for (size_t i = 0; i < HW_ARRAY_LEN(names); i++)
        if (strstr(m->path, names[i]))
            return true;
    return false;
}

static int look_at_maps(const struct hw_pid *pid, struct hw_jvm *out, struct hw_error *err)
{
    struct hw_maps maps;
    int rc = hw_jvm_maps(pid, &maps);
    if (rc == HW_ETIMEOUT)
        return hw_java_fail(err, HW_JAVA_LOOKS_LONG, "pid %d", pid->pid);
    if (rc < 0) /* for one's own user, too: it may be protected */
        return hw_java_fail(err, hw_pid_alive(pid) ? HW_JAVA_MAPS_DENIED : HW_JAVA_GONE, "pid %d",
                            pid->pid);
    for (size_t i = 0; i < maps.maps.n; i++) {
        const struct hw_map *m = &maps.maps.v[i];
        out->shared_heap |= is_heap_in_a_file(m);
        out->zgc |= strstr(m->path, "/memfd:java_heap") != NULL;
    }
    bool found = hw_maps_find_code(&maps, "libjvm.so");
    out->has_client = hw_maps_find_code(&maps, "libheapprofd_glibc_preload.so");
    out->has_library = hw_maps_find_code(&maps, "libheapwise_java.so");
    hw_maps_done(&maps);
    if (!found)
        return hw_java_fail(err, HW_JAVA_NOT_A_JVM, "pid %d", pid->pid);
    return 0;
}

int hw_jvm_inspect(const struct hw_pid *pid, struct hw_jvm *out, struct hw_error *err)
{
    hw_autofree char *text = NULL;
    uint64_t uid = 0, gid = 0, inner = 0, anon = 0;
    memset(out, 0, sizeof *out);
    out->pid = pid;
    int reason = status(pid, &text, err);
    if (reason)
        return reason;
    if (!number(text, "\nUid:", 10, 1, &uid) || !number(text, "\nGid:", 10, 1, &gid) ||
        !number(text, "\nNSpid:", 10, -1, &inner))
        return hw_java_fail(err, HW_JAVA_GONE, "pid %d", pid->pid);
    uint64_t rss = 0, swap = 0, huge = 0;
    (void)number(text, "\nRssAnon:", 10, 0, &anon); /* older kernels: 0 */
    (void)number(text, "\nVmRSS:", 10, 0, &rss);
    (void)number(text, "\nVmSwap:", 10, 0, &swap);
    (void)number(text, "\nHugetlbPages:", 10, 0, &huge);
    out->uid = (uint32_t)uid;
    out->gid = (uint32_t)gid;
    out->inner = (int32_t)inner;
    out->anon_kb = anon;
    out->held_kb = rss + swap + huge;
    out->silence_ms = SILENCE_MS;
    if (geteuid() != 0 && (geteuid() != out->uid || getegid() != out->gid))
        return hw_java_fail(err, HW_JAVA_ATTACH_DENIED, "pid %d is of user %u", pid->pid, out->uid);
    return look_at_maps(pid, out, err);
}

/* ---- the handshake ---- */

static void rest(unsigned ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL); /* a signal only shortens it */
}

static bool takes_quit(const struct hw_pid *pid)
{
    hw_autofree char *text = NULL;
    uint64_t caught = 0;
    size_t n;
    return hw_file_read(pid->dir, "status", MAX_STATUS, &text, &n, NULL) == 0 &&
           number(text, "\nSigCgt:", 16, 0, &caught) && (caught >> (SIGQUIT - 1) & 1);
}

/* In the JVM's working directory or its /tmp, a file that tells its SIGQUIT handler to listen. */
struct trigger {
    int dir; /* owned; -1 = none was made */
    char name[HW_JVM_NAME_MAX];
};

static bool make_trigger(const struct hw_jvm *jvm, int tmp, struct trigger *t)
{
    (void)snprintf(t->name, sizeof t->name, ".attach_pid%d", jvm->inner);
    hw_autofd int cwd = hw_root_cwd(jvm->pid->dir);
    int in[] = {cwd, tmp};
    for (size_t i = 0; i < HW_ARRAY_LEN(in); i++) {
        if (in[i] < 0)
            continue;
        if (hw_jvm_touch(jvm, in[i], t->name) == 0) {
            t->dir = fcntl(in[i], F_DUPFD_CLOEXEC, 3);
            return true;
        }
        if (errno == EEXIST)
            return true; /* of another client that waits for the same */
    }
    return false;
}

static void remove_trigger(const struct hw_jvm *jvm, struct trigger *t)
{
    if (t->dir < 0)
        return;
    hw_jvm_remove(jvm, t->dir, t->name); /* the JVM does not */
    (void)close(t->dir);                 /* O_PATH */
    t->dir = -1;
}

static int wait_for_socket(const struct hw_jvm *jvm, int tmp, const char *name,
                           struct hw_error *err)
{
    for (unsigned ms = 0; ms < SOCKET_MS; ms += STEP_MS) {
        int there = hw_jvm_socket(jvm, tmp, name);
        if (there)
            return there > 0 ? 0 : hw_java_fail(err, -there, HW_JVM_TMP "/%s", name);
        if (!hw_pid_alive(jvm->pid))
            return hw_java_fail(err, HW_JAVA_GONE, "pid %d", jvm->pid->pid);
        rest(STEP_MS);
    }
    /* It took the signal and does not listen: disabled, or too busy to have got to it. */
    return hw_java_fail(err, HW_JAVA_ATTACH_DISABLED, "pid %d, or it is too busy", jvm->pid->pid);
}

/* Such a JVM answers SIGQUIT with the stacks of its threads, on its standard output. Options from
 * files and from the environment are not seen. */
static bool says_no(const struct hw_pid *pid)
{
    hw_autofree char *text = NULL;
    size_t n = 0;
    if (hw_proc_cmdline(pid->dir, &text, &n) < 0)
        return false;
    for (const char *p = text; p < text + n; p += strlen(p) + 1) /* NUL behind each */
        if (strcmp(p, "-XX:+DisableAttachMechanism") == 0)
            return true;
    return false;
}

static int wake(const struct hw_jvm *jvm, int tmp, const char *name, struct hw_error *err)
{
    struct trigger trigger = {.dir = -1};
    unsigned ms = 0;
    if (says_no(jvm->pid))
        return hw_java_fail(err, HW_JAVA_ATTACH_DISABLED, "pid %d", jvm->pid->pid);
    for (; ms < READY_MS && !takes_quit(jvm->pid); ms += STEP_MS)
        rest(STEP_MS);
    if (!takes_quit(jvm->pid))
        return hw_java_fail(err, hw_pid_alive(jvm->pid) ? HW_JAVA_NOT_READY : HW_JAVA_GONE,
                            "pid %d", jvm->pid->pid);
    if (!make_trigger(jvm, tmp, &trigger))
        return hw_java_fail(err, HW_JAVA_NO_ROOM, "%s", strerror(errno));
    int reason = 0;
    if (syscall(SYS_pidfd_send_signal, jvm->pid->pidfd, SIGQUIT, NULL, 0) < 0)
        reason = hw_java_fail(err, errno == EPERM ? HW_JAVA_ATTACH_DENIED : HW_JAVA_GONE, "pid %d",
                              jvm->pid->pid);
    if (!reason)
        reason = wait_for_socket(jvm, tmp, name, err);
    remove_trigger(jvm, &trigger);
    return reason;
}

static int reach(const struct hw_jvm *jvm, int *out, struct hw_error *err)
{
    hw_autofd int tmp = -1;
    char name[HW_JVM_NAME_MAX];
    (void)snprintf(name, sizeof name, ".java_pid%d", jvm->inner);
    int reason = hw_jvm_tmp(jvm, &tmp, err);
    int there = reason ? 0 : hw_jvm_socket(jvm, tmp, name);
    if (there < 0)
        reason = hw_java_fail(err, -there, HW_JVM_TMP "/%s", name);
    if (!reason && there == 0)
        reason = wake(jvm, tmp, name, err);
    bool refused = false;
    if (!reason)
        reason = hw_jvm_connect(jvm, tmp, name, out, &refused, err);
    if (refused) { /* left by an earlier process of this number */
        hw_jvm_remove(jvm, tmp, name);
        reason = wake(jvm, tmp, name, err);
        if (!reason)
            reason = hw_jvm_connect(jvm, tmp, name, out, &refused, err);
    }
    return reason;
}

/* ---- commands ---- */

/* To its end, which has to come: an answer is a page at most, and each wait is for a first byte. */
static int read_answer(const struct hw_jvm *jvm, int fd, struct hw_strbuf *answer)
{
    char buffer[4096];
    uint64_t end = hw_now_monotonic_ns() + jvm->silence_ms * UINT64_C(1000000);
    for (;;) {
        uint64_t now = hw_now_monotonic_ns();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int ready = now >= end ? 0 : poll(&p, 1, (int)((end - now) / 1000000) + 1);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return HW_ETIMEOUT;
        ssize_t n = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return HW_EGONE;
        if (n == 0)
            return answer->n ? HW_OK : HW_EGONE;
        if (answer->n + (size_t)n > MAX_ANSWER)
            return HW_ELIMIT;
        hw_strbuf_add(answer, buffer, (size_t)n);
    }
}

static int hw_jvm_command(const struct hw_jvm *jvm, const char *const words[4],
                          struct hw_strbuf *answer, struct hw_error *err)
{
    struct hw_strbuf request = {0};
    hw_autofd int fd = -1;
    hw_strbuf_add(&request, "1", 2);
    for (int i = 0; i < 4; i++) {
        const char *word = words[i] ? words[i] : "";
        if (strlen(word) > MAX_WORD) {
            hw_strbuf_done(&request);
            return hw_java_fail(err, HW_JAVA_FAILED, "an argument of more than %d bytes", MAX_WORD);
        }
        hw_strbuf_add(&request, word, strlen(word) + 1);
    }
    int reason = reach(jvm, &fd, err);
    if (!reason &&
        (request.failed || send(fd, request.p, request.n, MSG_NOSIGNAL) != (ssize_t)request.n))
        reason = hw_java_fail(err, HW_JAVA_GONE, "pid %d", jvm->pid->pid);
    hw_strbuf_done(&request);
    if (reason)
        return reason;
    int rc = read_answer(jvm, fd, answer);
    if (rc < 0)
        return hw_java_fail(err,
                            rc == HW_ETIMEOUT        ? HW_JAVA_ATTACH_TIMEOUT
                            : rc == HW_ELIMIT        ? HW_JAVA_TALKS
                            : hw_pid_alive(jvm->pid) ? HW_JAVA_ATTACH_DENIED
                                                     : HW_JAVA_GONE,
                            "no answer to '%s'", words[0]);
    return answer->failed ? hw_java_fail(err, HW_JAVA_FAILED, "out of memory") : 0;
}

/* The answer without its code line, in one line, and without control sequences. */
static void one_line(struct hw_strbuf *answer)
{
    char *p = answer->p, *out = p, *first = strchr(p, '\n');
    for (p = first ? first + 1 : p; *p;) {
        size_t n = hw_utf8_len(p, strlen(p));
        bool hidden = n == 0 || hw_utf8_is_hidden(hw_utf8_code(p, n));
        n = n ? n : 1;
        memmove(out, hidden ? " " : p, hidden ? 1 : n);
        out += hidden ? 1 : n;
        p += n;
    }
    while (out > answer->p && out[-1] == ' ')
        out--;
    *out = '\0';
}

int hw_jvm_load(const struct hw_jvm *jvm, const char *path, const char *options,
                struct hw_error *err)
{
    const char *const words[4] = {"load", path, "true", options};
    struct hw_strbuf answer = {0};
    int reason = hw_jvm_command(jvm, words, &answer, err);
    /* JDK 8 gives the bare number in the second line. */
    if (!reason && !strstr(answer.p, "return code: 0") && !strstr(answer.p, "0\n0\n")) {
        bool refused = strstr(answer.p, "EnableDynamicAgentLoading") != NULL;
        bool ours = strstr(answer.p, "return code:") != NULL;
        one_line(&answer);
        reason = hw_java_fail(err,
                              refused ? HW_JAVA_AGENT_DISABLED
                              : ours  ? HW_JAVA_UNSUPPORTED
                                      : HW_JAVA_AGENT_OPEN,
                              "%.200s", refused ? "" : answer.p);
    }
    hw_strbuf_done(&answer);
    return reason;
}

int hw_jvm_dump_heap(const struct hw_jvm *jvm, const char *path, bool live, struct hw_error *err)
{
    const char *const words[4] = {"dumpheap", path, live ? "-live" : "-all", NULL};
    struct hw_strbuf answer = {0};
    int reason = hw_jvm_command(jvm, words, &answer, err);
    if (!reason && !strstr(answer.p, "Heap dump file created")) {
        bool exists = strstr(answer.p, "File exists") != NULL;
        one_line(&answer);
        reason =
            hw_java_fail(err, exists ? HW_JAVA_PATH_EXISTS : HW_JAVA_FAILED, "%.200s", answer.p);
    }
    hw_strbuf_done(&answer);
    return reason;
}

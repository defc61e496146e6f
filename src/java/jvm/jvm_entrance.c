/*
 * How we get in: a socket with a name nobody can guess is bound in the JVM's /tmp (from outside, so
 * mount and network namespaces do not matter), the library is loaded with that name as its option,
 * connects, and both files are removed again. Any other process that connects is refused.
 */
#include "java/jvm/jvm_entrance.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "java/agent/agent_socket.h"
#include "java/jvm/jvm_files.h"
#include "proc/pid.h"
#include "proc/root_path.h"

#include "base/banned.h"

#define LIBRARY "libheapwise_java.so"

enum { CONNECT_MS = 10000, LOBBY_STEP_MS = 20, CLIENT_MS = 1000, LIBRARY_MS = 3000 };

/* ---- the library's file ---- */

int hw_java_find_library(char **out, struct hw_error *err)
{
    static const char *const beside[] = {"/../" HW_LIBDIR_NAME "/", "/../lib/", "/../lib/heapwise/",
                                         "/../java/", "/"};
    char self[PATH_MAX], path[2 * PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = n > 0 ? memrchr(self, '/', (size_t)n) : NULL;
    for (size_t i = 0; slash && i < HW_ARRAY_LEN(beside); i++) {
        (void)snprintf(path, sizeof path, "%.*s%s" LIBRARY, (int)(slash - self), self, beside[i]);
        if ((*out = realpath(path, NULL)))
            return 0;
    }
    if ((*out = realpath(HW_LIBDIR "/" LIBRARY, NULL)))
        return 0;
    return hw_fail(err, HW_ENOTFOUND, 0, "no " LIBRARY " beside this program nor in " HW_LIBDIR);
}

/* ---- entering ---- */

struct names { /* in the JVM's /tmp */
    int tmp;   /* owned */
    char socket[HW_JVM_NAME_MAX];
    char copy[HW_JVM_NAME_MAX]; /* "" = none was made */
};

static void path_of(const char *name, char out[sizeof HW_JVM_TMP + HW_JVM_NAME_MAX])
{
    (void)snprintf(out, sizeof HW_JVM_TMP + HW_JVM_NAME_MAX, HW_JVM_TMP "/%s", name);
}

/* Whether a name leads the JVM to our very file. */
static bool sees(const struct hw_jvm *jvm, const char *library)
{
    struct stat ours, theirs;
    hw_autofd int root = hw_root_open(jvm->pid->dir);
    hw_autofd int fd = root < 0 ? -1 : hw_root_find(root, library, HW_ROOT_LINKS);
    return fd >= 0 && stat(library, &ours) == 0 && fstat(fd, &theirs) == 0 &&
           ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/* The path by which the JVM can open our library: the same, or that of a copy. */
static int place(const struct hw_jvm *jvm, const char *library, struct names *n, char out[PATH_MAX],
                 struct hw_error *err)
{
    char name[HW_JVM_NAME_MAX];
    (void)snprintf(out, PATH_MAX, "%s", library); /* of realpath: it fits */
    if (sees(jvm, library))
        return 0;
    int reason = hw_jvm_choose_name(name, ".so", err);
    if (!reason)
        reason = hw_jvm_copy(jvm, n->tmp, name, library, err);
    if (reason)
        return reason;
    memcpy(n->copy, name, sizeof n->copy);
    path_of(name, out);
    return 0;
}

static int accept_it(const struct hw_jvm *jvm, int listener, int *out, struct hw_error *err)
{
    uint64_t end = hw_now_monotonic_ns() + CONNECT_MS * UINT64_C(1000000);
    for (uint64_t now; (now = hw_now_monotonic_ns()) < end;) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        if (poll(&p, 1, (int)((end - now) / 1000000) + 1) <= 0)
            continue; /* a signal, or the end */
        hw_autofd int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0 || !hw_jvm_is_peer(jvm, fd))
            continue;
        *out = hw_fd_take(&fd);
        return 0;
    }
    return hw_java_fail(err, HW_JAVA_ATTACH_TIMEOUT,
                        "heapwise's library in the JVM did not answer");
}

/* The library is already there, loaded by the client. */
static int visit_lobby(const struct hw_jvm *jvm, int *out)
{
    struct sockaddr_un at;
    struct stat st;
    if (fstatat(jvm->pid->dir, "ns/pid", &st, 0) < 0)
        return HW_ENOTFOUND;
    socklen_t n = hw_java_agent_address(st.st_ino, jvm->inner, &at);
    hw_autofd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return HW_ENOTFOUND;
    hw_jvm_set_timeouts(jvm, fd); /* anybody may have taken the name, and never accept */
    if (connect(fd, (struct sockaddr *)&at, n) < 0 || !hw_jvm_is_peer(jvm, fd))
        return HW_ENOTFOUND;
    *out = hw_fd_take(&fd);
    return HW_OK;
}

/* If the client is active it loads the library within a moment of the JVM's start, and the
 * library waits for the JVM. From here, a client that was not told to looks the same. */
static bool await_lobby(const struct hw_jvm *jvm, int *out)
{
    struct hw_jvm now = *jvm;
    struct timespec step = {0, LOBBY_STEP_MS * 1000000};
    for (unsigned ms = 0;; ms += LOBBY_STEP_MS) {
        if (visit_lobby(jvm, out) == HW_OK)
            return true;
        if (!now.has_client || ms >= (now.has_library ? LIBRARY_MS : CLIENT_MS))
            return false;
        (void)nanosleep(&step, NULL);
        if (hw_jvm_inspect(jvm->pid, &now, NULL))
            return false; /* it has ended */
    }
}

static int load_by(const struct hw_jvm *jvm, const char *library, struct names *n, int *out,
                   struct hw_error *err)
{
    char path[PATH_MAX], socket[sizeof HW_JVM_TMP + HW_JVM_NAME_MAX];
    hw_autofd int listener = -1;
    int reason = hw_jvm_listen(jvm, n->tmp, n->socket, &listener, err);
    if (reason)
        return reason;
    path_of(n->socket, socket);
    reason = place(jvm, library, n, path, err);
    if (!reason)
        reason = hw_jvm_load(jvm, path, socket, err);
    if (!reason)
        reason = accept_it(jvm, listener, out, err);
    hw_jvm_remove(jvm, n->tmp, n->socket);
    if (n->copy[0])
        hw_jvm_remove(jvm, n->tmp, n->copy);
    return reason;
}

static int load_it(const struct hw_jvm *jvm, const char *library, int *out, struct hw_error *err)
{
    struct names n = {.tmp = -1};
    int reason = hw_jvm_tmp(jvm, &n.tmp, err);
    if (!reason)
        reason = hw_jvm_choose_name(n.socket, "", err);
    if (!reason)
        reason = load_by(jvm, library, &n, out, err);
    hw_autofd_close(&n.tmp);
    return reason;
}

int hw_jvm_enter(const struct hw_jvm *jvm, const char *library, bool only_by_client, int *out,
                 struct hw_error *err)
{
    int reason = 0;
    hw_autofd int fd = -1;
    if (!await_lobby(jvm, &fd))
        reason = only_by_client ? hw_java_fail(err, HW_JAVA_NOT_READY, "pid %d", jvm->pid->pid)
                                : load_it(jvm, library, &fd, err);
    if (reason)
        return reason;
    hw_jvm_set_timeouts(jvm, fd);
    *out = hw_fd_take(&fd);
    return 0;
}

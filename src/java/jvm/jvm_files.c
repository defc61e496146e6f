/*
 * Rights: a JVM of the asker's own user needs nothing. Root works in the JVM's folders as the JVM's
 * user (proc/rights/as_user.h), so what is created belongs to that user from the first moment and
 * is never handed over by name, and no name leads to more than that user may do.
 */
#include "java/jvm/jvm_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/pid.h"
#include "proc/rights/as_user.h"
#include "proc/root_path.h"

#include "base/banned.h"

static int no_room(const char *name, struct hw_error *err)
{
    return hw_java_fail(err, HW_JAVA_NO_ROOM, HW_JVM_TMP "/%s: %s", name, strerror(errno));
}

int hw_jvm_tmp(const struct hw_jvm *jvm, int *out, struct hw_error *err)
{
    int dir = hw_root_tmp(jvm->pid->dir, jvm->uid);
    if (dir < 0 && (errno == ESTALE || errno == ELOOP))
        return hw_java_fail(
            err, HW_JAVA_NOT_OWN,
            HW_JVM_TMP
            " is a link, belongs to somebody else, or lets everybody rename the files in it");
    if (dir < 0)
        return hw_java_fail(err, HW_JAVA_NO_ROOM, HW_JVM_TMP ": %s", strerror(errno));
    *out = dir;
    return 0;
}

int hw_jvm_choose_name(char out[HW_JVM_NAME_MAX], const char *ending, struct hw_error *err)
{
    uint64_t r[2];
    if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r)
        return hw_java_fail(err, HW_JAVA_FAILED, "getrandom: %s", strerror(errno));
    (void)snprintf(out, HW_JVM_NAME_MAX, ".heapwise-%016" PRIx64 "%016" PRIx64 "%s", r[0], r[1],
                   ending);
    return 0;
}

/* ---- making and removing ---- */

static void address_of(int dir, const char *name, struct sockaddr_un *out)
{
    _Static_assert(sizeof out->sun_path >= HW_ROOT_NAME_MAX, "a name fits");
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    hw_root_name(dir, name, out->sun_path);
}

/* The file gets the socket's mode (man 7 unix), so none is changed by name. */
static int bind_as_user(const struct hw_jvm *jvm, int fd, int dir, const char *name)
{
    struct sockaddr_un at;
    struct hw_as_user user;
    address_of(dir, name, &at);
    if (fchmod(fd, 0600) < 0 || hw_as_user_begin(&user, jvm->uid, jvm->gid) < 0)
        return -1;
    int rc = bind(fd, (const struct sockaddr *)&at, sizeof at);
    hw_as_user_end(&user);
    return rc;
}

int hw_jvm_listen(const struct hw_jvm *jvm, int dir, const char *name, int *out,
                  struct hw_error *err)
{
    hw_autofd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind_as_user(jvm, fd, dir, name) < 0)
        return no_room(name, err);
    if (listen(fd, 1) < 0) {
        int reason = no_room(name, err);
        hw_jvm_remove(jvm, dir, name);
        return reason;
    }
    *out = hw_fd_take(&fd);
    return 0;
}

static int create_as_user(const struct hw_jvm *jvm, int dir, const char *name, mode_t mode)
{
    struct hw_as_user user;
    if (hw_as_user_begin(&user, jvm->uid, jvm->gid) < 0)
        return -1;
    hw_autofd int fd =
        openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    bool ok = fd >= 0 && fchmod(fd, mode) == 0; /* whatever our umask is */
    hw_as_user_end(&user);
    return ok ? hw_fd_take(&fd) : -1;
}

static bool copy(int in, int out)
{
    struct stat st;
    if (fstat(in, &st) < 0)
        return false;
    for (off_t left = st.st_size; left > 0;) {
        ssize_t n = sendfile(out, in, NULL, (size_t)left);
        if (n <= 0)
            return false;
        left -= n;
    }
    return true;
}

int hw_jvm_copy(const struct hw_jvm *jvm, int dir, const char *name, const char *from,
                struct hw_error *err)
{
    hw_autofd int in = open(from, O_RDONLY | O_CLOEXEC);
    hw_autofd int out = in < 0 ? -1 : create_as_user(jvm, dir, name, 0755);
    if (out < 0)
        return no_room(name, err);
    if (copy(in, out))
        return 0;
    int reason = no_room(name, err);
    hw_jvm_remove(jvm, dir, name);
    return reason;
}

int hw_jvm_touch(const struct hw_jvm *jvm, int dir, const char *name)
{
    hw_autofd int fd = create_as_user(jvm, dir, name, 0660);
    return fd < 0 ? -1 : 0;
}

void hw_jvm_remove(const struct hw_jvm *jvm, int dir, const char *name)
{
    struct hw_as_user user;
    if (hw_as_user_begin(&user, jvm->uid, jvm->gid) < 0)
        return; /* then nothing was made either */
    (void)unlinkat(dir, name, 0);
    hw_as_user_end(&user);
}

/* ---- what the JVM has made ---- */

/* O_PATH of what is called so, if it is the JVM's user's and of that type; -1 with errno. */
static int find_own(const struct hw_jvm *jvm, int dir, const char *name, mode_t type)
{
    struct stat st;
    hw_autofd int fd = hw_root_find(dir, name, HW_ROOT_NO_LINKS);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    if ((st.st_mode & S_IFMT) != type || st.st_uid != jvm->uid) {
        errno = ESTALE;
        return -1;
    }
    return hw_fd_take(&fd);
}

int hw_jvm_socket(const struct hw_jvm *jvm, int dir, const char *name)
{
    hw_autofd int fd = find_own(jvm, dir, name, S_IFSOCK);
    return fd >= 0 ? 1 : errno == ESTALE || errno == ELOOP ? -HW_JAVA_NOT_OWN : 0;
}

bool hw_jvm_is_peer(const struct hw_jvm *jvm, int socket)
{
    struct ucred who = {0};
    socklen_t len = sizeof who;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 && who.uid == jvm->uid &&
           (who.pid == 0 || who.pid == jvm->pid->pid); /* 0: of another pid namespace */
}

void hw_jvm_set_timeouts(const struct hw_jvm *jvm, int socket)
{
    struct timeval t = {jvm->silence_ms / 1000, (suseconds_t)(jvm->silence_ms % 1000) * 1000};
    (void)setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t); /* known to every socket */
    (void)setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

/* The very file that was looked at is connected to, by its descriptor. */
static int connect_to(const struct hw_jvm *jvm, int found, int fd)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    (void)snprintf(at.sun_path, sizeof at.sun_path, "/proc/self/fd/%d", found);
    hw_jvm_set_timeouts(jvm, fd); /* who does not accept lets us wait */
    return connect(fd, (const struct sockaddr *)&at, sizeof at);
}

int hw_jvm_connect(const struct hw_jvm *jvm, int dir, const char *name, int *out, bool *refused,
                   struct hw_error *err)
{
    *refused = false;
    hw_autofd int found = find_own(jvm, dir, name, S_IFSOCK);
    hw_autofd int fd = found < 0 ? -1 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (found < 0 || fd < 0)
        return hw_java_fail(err, HW_JAVA_NOT_OWN, HW_JVM_TMP "/%s: %s", name, strerror(errno));
    if (connect_to(jvm, found, fd) < 0) {
        *refused = errno == ECONNREFUSED;
        return hw_java_fail(err, errno == EAGAIN ? HW_JAVA_ATTACH_TIMEOUT : HW_JAVA_ATTACH_DENIED,
                            HW_JVM_TMP "/%s: %s", name, strerror(errno));
    }
    if (!hw_jvm_is_peer(jvm, fd))
        return hw_java_fail(err, HW_JAVA_NOT_OWN, "another process listens at " HW_JVM_TMP "/%s",
                            name);
    *out = hw_fd_take(&fd);
    return 0;
}

int hw_jvm_read(const struct hw_jvm *jvm, int dir, const char *name, int *out, struct hw_error *err)
{
    struct stat st;
    hw_autofd int found = find_own(jvm, dir, name, S_IFREG);
    int fd = found < 0 ? -1 : hw_root_read(found, &st);
    if (fd < 0)
        return hw_java_fail(err, errno == ESTALE ? HW_JAVA_NOT_OWN : HW_JAVA_NO_ROOM,
                            HW_JVM_TMP "/%s: %s", name, strerror(errno));
    *out = fd;
    return 0;
}

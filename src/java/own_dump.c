#include "java/own_dump.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"

#include "base/banned.h"

/* A file is at most a little larger than the heap, which is part of this. */
static int has_room(const struct hw_jvm *jvm, struct hw_error *err)
{
    char tmp[HW_JVM_PATH_MAX];
    struct statvfs fs;
    int reason = hw_jvm_path(jvm, "/tmp", tmp, err);
    if (reason)
        return reason;
    if (statvfs(tmp, &fs) < 0)
        return hw_java_fail(err, HW_JAVA_NO_ROOM, "%s", strerror(errno));
    uint64_t free_kb = (uint64_t)fs.f_bavail * (fs.f_frsize / 512) / 2;
    return free_kb >= jvm->anon_kb ? 0
                                   : hw_java_fail(err, HW_JAVA_NO_ROOM,
                                                  "%" PRIu64 " MB free, the dump may need %" PRIu64,
                                                  free_kb >> 10, jvm->anon_kb >> 10);
}

/* What lies there must be what the JVM has written. */
static int take(const struct hw_jvm *jvm, const char *path, int *out, struct hw_error *err)
{
    struct stat st;
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return hw_java_fail(err, HW_JAVA_NO_ROOM, "%s", strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_uid != jvm->uid)
        return hw_java_fail(err, HW_JAVA_FAILED, "its dump is no file of its own");
    *out = hw_fd_take(&fd);
    return 0;
}

int hw_java_own_dump(const struct hw_jvm *jvm, int *out, struct hw_error *err)
{
    uint64_t r[2];
    char inner[64], path[HW_JVM_PATH_MAX];
    if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r)
        return hw_java_fail(err, HW_JAVA_FAILED, "getrandom: %s", strerror(errno));
    (void)snprintf(inner, sizeof inner, "/tmp/.heapwise-%016" PRIx64 "%016" PRIx64 ".hprof", r[0],
                   r[1]);
    int reason = hw_jvm_path(jvm, inner, path, err);
    if (!reason)
        reason = has_room(jvm, err);
    if (reason)
        return reason;
    reason = hw_jvm_dump_heap(jvm, inner, /* live = */ false, err);
    if (!reason)
        reason = take(jvm, path, out, err);
    (void)unlink(path); /* also what a JVM that was stopped has begun */
    return reason;
}

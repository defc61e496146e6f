#include "java/jvm/jvm_dump_fallback.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "java/jvm/jvm_files.h"

#include "base/banned.h"

/* A file is at most a little larger than the heap, which is part of this. */
static int has_room(const struct hw_jvm *jvm, int tmp, struct hw_error *err)
{
    struct statvfs fs;
    if (fstatvfs(tmp, &fs) < 0)
        return hw_java_fail(err, HW_JAVA_NO_ROOM, "%s", strerror(errno));
    uint64_t free_kb = (uint64_t)fs.f_bavail * (fs.f_frsize / 512) / 2;
    return free_kb >= jvm->anon_kb ? 0
                                   : hw_java_fail(err, HW_JAVA_NO_ROOM,
                                                  "%" PRIu64 " MB free, the dump may need %" PRIu64,
                                                  free_kb >> 10, jvm->anon_kb >> 10);
}

int hw_java_own_dump(const struct hw_jvm *jvm, int *out, struct hw_error *err)
{
    hw_autofd int tmp = -1;
    char name[HW_JVM_NAME_MAX], inner[sizeof HW_JVM_TMP + HW_JVM_NAME_MAX];
    int reason = hw_jvm_tmp(jvm, &tmp, err);
    if (!reason)
        reason = has_room(jvm, tmp, err);
    if (!reason)
        reason = hw_jvm_choose_name(name, ".hprof", err);
    if (reason)
        return reason;
    (void)snprintf(inner, sizeof inner, HW_JVM_TMP "/%s", name);
    reason = hw_jvm_dump_heap(jvm, inner, /* live = */ false, err);
    if (!reason)
        reason = hw_jvm_read(jvm, tmp, name, out, err);
    hw_jvm_remove(jvm, tmp, name); /* also what a JVM that was stopped has begun */
    return reason;
}

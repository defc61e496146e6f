/* Apart from fd.c, which clients link: they need no newer libc for it. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>

#include "base/error.h"
#include "base/files/fd.h"

#include "base/banned.h"

int hw_fd_temp(const char *dir)
{
    const char *given = getenv("TMPDIR");
    int fd = open(given && *given ? given : dir, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    return fd < 0 ? memfd_create("heapwise", MFD_CLOEXEC) : fd;
}

/* A file in memory has no disk: what is free counts then. */
static bool measure(int fd, uint64_t *all, uint64_t *left)
{
    struct statvfs st;
    struct sysinfo memory;
    if (fstatvfs(fd, &st) == 0 && st.f_blocks) {
        *all = (uint64_t)st.f_blocks * st.f_frsize;
        *left = (uint64_t)st.f_bavail * st.f_frsize;
        return true;
    }
    if (sysinfo(&memory) < 0)
        return false;
    *all = (uint64_t)memory.totalram * memory.mem_unit;
    *left = ((uint64_t)memory.freeram + memory.bufferram) * memory.mem_unit;
    return true;
}

int hw_fd_check_room(int fd, uint64_t n, struct hw_error *err)
{
    static const uint64_t most = (uint64_t)1 << 30;
    uint64_t all, left;
    if (!measure(fd, &all, &left))
        return HW_OK; /* writing will tell */
    uint64_t kept = all / 20 < most ? all / 20 : most;
    if (left >= kept && n <= left - kept)
        return HW_OK;
    return hw_fail(err, HW_ELIMIT, 0,
                   "the disk for temporary files has %llu MiB left, of which %llu MiB stay free; "
                   "TMPDIR names another one",
                   (unsigned long long)(left >> 20), (unsigned long long)(kept >> 20));
}

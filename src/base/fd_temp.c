/* Apart from fd.c, which clients link: they need no newer libc for it. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fd.h"

#include "base/banned.h"

int hw_fd_temp(const char *dir)
{
    const char *given = getenv("TMPDIR");
    int fd = open(given && *given ? given : dir, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    return fd < 0 ? memfd_create("heapwise", MFD_CLOEXEC) : fd;
}

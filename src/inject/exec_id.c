#include "inject/exec_id.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"

#include "base/banned.h"

#define WORD sizeof(uint64_t)

static uint64_t value_of(const struct hw_exec_id *id, uint64_t type)
{
    for (size_t at = 0; at + 2 * WORD <= id->n; at += 2 * WORD) {
        uint64_t pair[2];
        memcpy(pair, id->auxv + at, sizeof pair);
        if (pair[0] == type)
            return pair[1];
    }
    return 0;
}

static bool read_random(int32_t pid, int mem, struct hw_exec_id *id)
{
    uint64_t at = value_of(id, AT_RANDOM);
    struct iovec to = {id->random, sizeof id->random},
                 from = {(void *)(uintptr_t)at, sizeof id->random};
    ssize_t n = mem >= 0 ? pread(mem, id->random, sizeof id->random, (off_t)at)
                         : process_vm_readv(pid, &to, 1, &from, 1, 0);
    return at != 0 && n == (ssize_t)sizeof id->random;
}

int hw_exec_id_read(int32_t pid, int dir, int mem, struct hw_exec_id *out)
{
    struct hw_exec_id id = {0};
    struct stat st;
    hw_autofd int fd = openat(dir, "auxv", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES || errno == EPERM ? HW_EPERM : HW_EGONE;
    ssize_t n = read(fd, id.auxv, sizeof id.auxv);
    if (n <= 0 || fstatat(dir, "exe", &st, 0) < 0)
        return HW_EGONE;
    id.n = (size_t)n;
    id.dev = st.st_dev;
    id.inode = st.st_ino;
    if (!read_random(pid, mem, &id))
        return HW_EFORMAT;
    *out = id;
    return HW_OK;
}

bool hw_exec_id_same(const struct hw_exec_id *a, const struct hw_exec_id *b)
{
    return a->dev == b->dev && a->inode == b->inode && a->n == b->n &&
           memcmp(a->auxv, b->auxv, a->n) == 0 &&
           memcmp(a->random, b->random, sizeof a->random) == 0;
}

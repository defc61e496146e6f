/*
 * client_page.c - the page through which a client is switched on and off
 *
 * Sealed before it is sent: the client maps it read-only, and cannot shorten it while we use it.
 */
#include "daemon/clients/client_page.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/pid.h"
#include "wire/control_page.h"

#include "base/banned.h"

#define MAX_TASKS  256
#define PAGE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

void hw_page_beat(struct hw_page *p)
{
    (void)atomic_fetch_add_explicit(&p->map->heartbeat, 1, memory_order_relaxed);
}

int hw_page_init(struct hw_page *p, uint32_t version, const char *socket_path,
                 const struct hw_filters *at_hello)
{
    char name[32];
    (void)snprintf(name, sizeof name, HW_CONTROL_NAME, (int)getpid());
    *p = (struct hw_page){.fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (p->fd < 0 || ftruncate(p->fd, HW_CONTROL_BYTES) < 0)
        goto fail;
    p->map = mmap(NULL, HW_CONTROL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd, 0);
    if (p->map == MAP_FAILED) {
        p->map = NULL;
        goto fail;
    }
    p->map->magic = HW_CONTROL_MAGIC;
    p->map->version = version;
    p->map->filters = at_hello->n < UINT32_MAX ? (uint32_t)at_hello->n + 1 : 0;
    (void)snprintf(p->map->socket_path, sizeof p->map->socket_path, "%s", socket_path);
    if (fcntl(p->fd, F_ADD_SEALS, PAGE_SEALS) < 0)
        goto fail;
    return HW_OK;
fail:
    hw_page_done(p);
    return HW_ESYS;
}

void hw_page_done(struct hw_page *p)
{
    if (p->map)
        (void)munmap(p->map, HW_CONTROL_BYTES); /* cannot fail on a mapping of ours */
    if (p->fd >= 0)
        (void)close(p->fd); /* memory only */
    *p = (struct hw_page){.fd = -1};
}

/* ---- which system calls its process may make ---- */

struct hw_filters hw_filters_of(int proc_dir, bool all_threads)
{
    struct hw_proc_status st = {0};
    struct hw_filters f = {0};
    if (hw_proc_status(proc_dir, &st) == HW_OK)
        f = (struct hw_filters){st.seccomp, st.seccomp_filters};
    if (!all_threads || st.threads == 1)
        return f;
    hw_autofd int tasks = openat(proc_dir, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = tasks < 0 ? NULL : fdopendir(dup(tasks));
    const struct dirent *e;
    for (int n = 0; d && n < MAX_TASKS && (e = readdir(d)); n++) {
        hw_autofd int task =
            e->d_name[0] == '.' ? -1 : openat(tasks, e->d_name, O_PATH | O_CLOEXEC);
        if (task < 0 || hw_proc_status(task, &st) < 0)
            continue;
        if (st.seccomp == 1 || st.seccomp_filters > f.n || (f.seccomp == 0 && st.seccomp != 0))
            f = (struct hw_filters){st.seccomp, st.seccomp_filters};
    }
    if (d)
        (void)closedir(d); /* it was only read */
    return f;
}

bool hw_page_update_filters(struct hw_page *p, int proc_dir, const struct hw_filters *before,
                            bool all_threads)
{
    struct hw_filters now = hw_filters_of(proc_dir, all_threads);
    if (now.seccomp == before->seccomp && now.n <= before->n)
        return false;
    if (p->map)
        atomic_store(&p->map->sandbox, now.seccomp == 1 ? HW_SANDBOX_STRICT : HW_SANDBOX_FILTER);
    return true;
}

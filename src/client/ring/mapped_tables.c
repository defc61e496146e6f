/*
 * mapped_tables.c - the part of the tables' file that is mapped here
 *
 * When the program locks its memory, everything mapped becomes resident at once, for good, and
 * counts against its limits. So only what is in use is mapped, and half as much again:
 *
 *      file      | directory | tables, lists .... used |                        room |
 *      view 0    |================|
 *      view 1    |===================================|    where that did not reach
 *
 * The file has its whole length from the start, and its seals keep it: no view extends beyond its
 * end. Its descriptor is closed by the time a view is used up. A further view is made from the
 * first one (mremap of no bytes of a shared mapping gives another mapping of the same file). Views
 * stay in place until the session ends: a thread may be using them for a walk.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/arch.h"
#include "client/client.h"
#include "client/kernel/kernel.h"
#include "client/ring/mapped_tables.h"

#define STEP_BYTES (64ull * 1024) /* the largest page there is */

static uint64_t view_bytes(uint64_t used, uint64_t room)
{
    if (used == 0 || used >= room) /* 0: a recorder that does not say so */
        return room;
    uint64_t n = (used + used / 2 + STEP_BYTES) & ~(STEP_BYTES - 1);
    return n < room ? n : room;
}

static void *map(int fd, uint64_t n_bytes)
{
    void *p = mmap(NULL, (size_t)n_bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

bool hw_tables_map(struct hw_client_session *s, int fd, uint64_t room)
{
    struct hw_tables_dir *d = map(fd, sizeof *d);
    if (!d)
        return false;
    bool ok =
        d->magic == HW_TABLES_MAGIC && d->version == HW_TABLE_VERSION && d->arch == HW_ARCH_HERE;
    uint64_t n_bytes = view_bytes(atomic_load_explicit(&d->used, memory_order_acquire), room);
    (void)munmap(d, sizeof *d);
    s->tables = ok ? map(fd, n_bytes) : NULL;
    if (!s->tables)
        return false;
    s->tables_room = room;
    s->views[0] = (struct hw_tables_view){s->tables, n_bytes};
    atomic_store_explicit(&s->n_views, 1, memory_order_release);
    return true;
}

void hw_tables_unmap(const struct hw_client_session *s)
{
    for (uint32_t i = atomic_load(&s->n_views); i-- > 0;)
        (void)munmap((void *)(uintptr_t)s->views[i].at, (size_t)s->views[i].n_bytes);
}

static const struct hw_tables_view *newest(const struct hw_client_session *s)
{
    return &s->views[atomic_load_explicit(&s->n_views, memory_order_acquire) - 1];
}

/* If it cannot be done (a sandbox, a limit), what lies beyond the view is left to the recorder,
 * and it is not tried again. */
HW_COLD const struct hw_tables_view *hw_tables_grow(struct hw_client_session *s, uint64_t used)
{
    uint32_t free_lock = 0;
    int saved = errno;
    if (newest(s)->n_bytes >= s->tables_room || hw_sandbox() ||
        !atomic_compare_exchange_strong(&s->views_lock, &free_lock, 1))
        return newest(s);
    uint32_t n = atomic_load(&s->n_views);
    uint64_t n_bytes = view_bytes(used, s->tables_room);
    if (s->views[n - 1].n_bytes < used && n < HW_TABLES_VIEWS) {
        void *p = (void *)hw_kernel(SYS_mremap, s->tables, 0, (size_t)n_bytes, MREMAP_MAYMOVE);
        if (p == MAP_FAILED) {
            errno = saved;
            return newest(s); /* with the lock */
        }
        s->views[n] = (struct hw_tables_view){p, n_bytes};
        atomic_store_explicit(&s->n_views, n + 1, memory_order_release);
    }
    atomic_store(&s->views_lock, 0);
    errno = saved;
    return newest(s);
}

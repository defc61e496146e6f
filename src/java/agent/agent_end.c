/*
 * How a child's walk ends. JVMTI does not say that a callback was the last one. After the walk the
 * JVM's thread wakes the one that asked for it, or waits for its next work, and both go through
 * condition variables, semaphores or futexes of libc. In the child (its own copy of memory)
 * libjvm's slots for those functions are made to lead here.
 *
 * A lock that another thread held at the fork is held for ever, as that thread does not exist in
 * the child: seen with an arena's lock that a compiler thread held (JDK 25). The lock's slot leads
 * to "try, and continue if it is busy".
 */
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/loaded_tables.h"
#include "java/agent/agent.h"

#include "base/banned.h"

enum { MAX_SLOTS = 64 };

static const char *const wakers[] = {
    "pthread_cond_wait",   "pthread_cond_timedwait", "pthread_cond_clockwait",
    "pthread_cond_signal", "pthread_cond_broadcast", "sem_wait",
    "sem_timedwait",       "sem_clockwait",          "sem_post"};

static struct {
    size_t n_end, n_lock;
    uint64_t end[MAX_SLOTS], lock[MAX_SLOTS];
    void (*ended)(void);
} slots;

static bool is_libjvm(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, "libjvm.so") == 0;
}

static int find(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    if (!info->dlpi_name || !is_libjvm(info->dlpi_name))
        return 0;
    hw_loaded_tables_read(arg, info);
    return 1;
}

static void take_slots(const struct hw_loaded_tables *t, const ElfW(Rela) * rela, size_t n)
{
    for (size_t i = 0; rela && i < n; i++) {
        const char *name = hw_loaded_slot_name(t, &rela[i]);
        if (!name)
            continue;
        uint64_t at = t->base + rela[i].r_offset;
        if (strcmp(name, "pthread_mutex_lock") == 0 && slots.n_lock < MAX_SLOTS)
            slots.lock[slots.n_lock++] = at;
        for (size_t k = 0; k < sizeof wakers / sizeof *wakers; k++)
            if (strcmp(name, wakers[k]) == 0 && slots.n_end < MAX_SLOTS)
                slots.end[slots.n_end++] = at;
    }
}

int agent_end_prepare(void)
{
    struct hw_loaded_tables t = {0};
    if (slots.n_end)
        return HW_JAVA_OK;
    if (!dl_iterate_phdr(find, &t) || !t.symbols || !t.names)
        return HW_JAVA_UNSUPPORTED;
    for (size_t i = 0; i < 2; i++)
        take_slots(&t, t.slots[i].v, t.slots[i].n);
    return slots.n_end ? HW_JAVA_OK : HW_JAVA_UNSUPPORTED;
}

static int on_wake(void)
{
    slots.ended();
    return 0;
}

static int on_lock(pthread_mutex_t *m)
{
    int rc = pthread_mutex_trylock(m);
    return rc == EBUSY ? 0 : rc;
}

static void set(uint64_t at, uint64_t value)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)(at & ~(page - 1));
    if (mprotect(start, page, PROT_READ | PROT_WRITE) == 0)
        memcpy((void *)at, &value, sizeof value); /* else the asker sees a child that stalls */
}

void agent_end_arm(void (*ended)(void))
{
    slots.ended = ended;
    for (size_t i = 0; i < slots.n_end; i++)
        set(slots.end[i], (uint64_t)(uintptr_t)on_wake);
    for (size_t i = 0; i < slots.n_lock; i++)
        set(slots.lock[i], (uint64_t)(uintptr_t)on_lock);
}

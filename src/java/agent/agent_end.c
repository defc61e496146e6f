/*
 * How a child's walk ends. JVMTI does not tell a callback that it was the last one. After the walk
 * the JVM's thread wakes whoever asked for it, or waits for its next work, and both go through
 * condition variables, semaphores or futexes of libc. In the child (its own copy of memory)
 * libjvm's slots for those functions are made to lead here.
 *
 * A lock that another thread held at the fork is held for ever, as that thread does not exist in
 * the child: seen with an arena's lock that a compiler thread held (JDK 25). The lock's slot leads
 * to "try, and go on if it is busy".
 */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "java/agent/agent.h"

#include "base/banned.h"

enum { MAX_SLOTS = 64 };

#if defined(__x86_64__)
#define SLOT_TYPE(t) ((t) == R_X86_64_JUMP_SLOT || (t) == R_X86_64_GLOB_DAT)
#elif defined(__aarch64__)
#define SLOT_TYPE(t) ((t) == R_AARCH64_JUMP_SLOT || (t) == R_AARCH64_GLOB_DAT)
#else
#define SLOT_TYPE(t) ((void)(t), 0)
#endif

static const char *const wakers[] = {
    "pthread_cond_wait",   "pthread_cond_timedwait", "pthread_cond_clockwait",
    "pthread_cond_signal", "pthread_cond_broadcast", "sem_wait",
    "sem_timedwait",       "sem_clockwait",          "sem_post"};

static struct {
    size_t n_end, n_lock;
    uint64_t end[MAX_SLOTS], lock[MAX_SLOTS];
    void (*ended)(void);
} slots;

struct libjvm {
    uint64_t base;
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * rela, *plt;
    size_t n_rela, n_plt;
};

static bool is_libjvm(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash ? slash + 1 : path, "libjvm.so") == 0;
}

static int find(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    struct libjvm *j = arg;
    if (!info->dlpi_name || !is_libjvm(info->dlpi_name))
        return 0;
    j->base = info->dlpi_addr;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC)
            continue;
        const ElfW(Dyn) *d = (const void *)(j->base + info->dlpi_phdr[i].p_vaddr);
        for (; d->d_tag != DT_NULL; d++) {
            uint64_t v = d->d_un.d_ptr; /* glibc has made it absolute, musl has not */
            const void *p = (const void *)(v < j->base ? v + j->base : v);
            if (d->d_tag == DT_SYMTAB)
                j->symbols = p;
            else if (d->d_tag == DT_STRTAB)
                j->names = p;
            else if (d->d_tag == DT_RELA)
                j->rela = p;
            else if (d->d_tag == DT_RELASZ)
                j->n_rela = d->d_un.d_val / sizeof *j->rela;
            else if (d->d_tag == DT_JMPREL)
                j->plt = p;
            else if (d->d_tag == DT_PLTRELSZ)
                j->n_plt = d->d_un.d_val / sizeof *j->plt;
        }
    }
    return 1;
}

static void take_slots(const struct libjvm *j, const ElfW(Rela) * rela, size_t n)
{
    for (size_t i = 0; rela && i < n; i++) {
        if (!SLOT_TYPE(ELF64_R_TYPE(rela[i].r_info)))
            continue;
        const char *name = j->names + j->symbols[ELF64_R_SYM(rela[i].r_info)].st_name;
        uint64_t at = j->base + rela[i].r_offset;
        if (strcmp(name, "pthread_mutex_lock") == 0 && slots.n_lock < MAX_SLOTS)
            slots.lock[slots.n_lock++] = at;
        for (size_t k = 0; k < sizeof wakers / sizeof *wakers; k++)
            if (strcmp(name, wakers[k]) == 0 && slots.n_end < MAX_SLOTS)
                slots.end[slots.n_end++] = at;
    }
}

int agent_end_prepare(void)
{
    struct libjvm j = {0};
    if (slots.n_end)
        return HW_JAVA_OK;
    if (!dl_iterate_phdr(find, &j) || !j.symbols || !j.names)
        return HW_JAVA_UNSUPPORTED;
    take_slots(&j, j.rela, j.n_rela);
    take_slots(&j, j.plt, j.n_plt);
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

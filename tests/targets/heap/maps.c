/*
 * maps.c - what it has mapped, kept in a ledger page by page: who mapped each of them last
 *
 * The ledger knows nothing of how the recorder keeps its ranges. EXPECT counts a call as freed when
 * none of its pages is left.
 *
 * maps [storm N | limit | fork | wait]: N times one page mapped and unmapped; single pages unmapped until
 * the kernel refuses to split one more; a recorded child, which has what its parent had mapped; or
 * waits for a line before and after.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target.h"

#define PAGE    4096u
#define MAX     400000u /* pages */
#define N_CALLS 300000u

struct page {
    uint64_t at;
    uint32_t call;
};

static struct page *pages; /* in no order; below n_pages */
static size_t n_pages;
static uint32_t *left;         /* pages of each call */
static struct site **owner_of; /* of each call */
static uint32_t n_calls;
static int64_t *slots; /* by address */
#define SLOTS (1u << 21)

static size_t slot(uint64_t at)
{
    size_t i = (size_t)((at / PAGE * 0x9e3779b97f4a7c15u) >> 43);
    while (slots[i] != 0 && (slots[i] < 0 || pages[slots[i] - 1].at != at))
        i = (i + 1) % SLOTS;
    return i;
}

static void drop(uint64_t at)
{
    size_t i = slot(at);
    if (slots[i] == 0)
        return;
    struct page *p = &pages[slots[i] - 1];
    struct site *s = owner_of[p->call];
    s->freed += PAGE;
    s->freed_objs += --left[p->call] == 0;
    *p = pages[--n_pages];
    int64_t number = slots[i];
    slots[i] = -1;
    if (number != (int64_t)n_pages + 1)
        slots[slot(p->at)] = number;
}

static void ledger_drop(void *at, size_t n)
{
    for (size_t i = 0; i < n; i += PAGE)
        drop((uintptr_t)at + i);
}

static size_t whole(size_t n)
{
    return (n + PAGE - 1) & ~(size_t)(PAGE - 1);
}

static void *ledger_add(struct site *s, void *at, size_t n)
{
    if (at == MAP_FAILED)
        abort();
    n = whole(n);
    ledger_drop(at, n);
    if (n_calls == N_CALLS || n_pages + n / PAGE > MAX)
        abort();
    owner_of[n_calls] = s;
    left[n_calls] = (uint32_t)(n / PAGE);
    for (size_t i = 0; i < n; i += PAGE) {
        uint64_t page = (uintptr_t)at + i;
        pages[n_pages] = (struct page){page, n_calls};
        slots[slot(page)] = (int64_t)++n_pages;
    }
    n_calls++;
    s->alloc += n;
    s->objs++;
    return at;
}

#define MAPS(fn, flags)                                                                            \
    static struct site site_##fn = {.name = #fn};                                                  \
    NOIPA static void *fn(void *at, size_t n, int fd)                                              \
    {                                                                                              \
        void *p = mmap(at, n, PROT_READ | PROT_WRITE, (flags), fd, 0);                             \
        return ledger_add(&site_##fn, p, n);                                                       \
    }

MAPS(fn_anon, MAP_PRIVATE | MAP_ANONYMOUS)
MAPS(fn_parts, MAP_PRIVATE | MAP_ANONYMOUS)
MAPS(fn_single, MAP_PRIVATE | MAP_ANONYMOUS)
MAPS(fn_over, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED)
MAPS(fn_file_over, MAP_PRIVATE | MAP_FIXED)
MAPS(fn_file, MAP_PRIVATE)
MAPS(fn_shared, MAP_SHARED | MAP_ANONYMOUS)
MAPS(fn_memfd, MAP_SHARED)
MAPS(fn_thread, MAP_PRIVATE | MAP_ANONYMOUS)

static struct site site_fn_remap = {.name = "fn_remap"}, site_fn_shm = {.name = "fn_shm"},
                   site_fn_sbrk = {.name = "fn_sbrk"};

static void give(void *at, size_t n)
{
    if (munmap(at, n) != 0)
        abort();
    ledger_drop(at, whole(n));
}

NOIPA static void *fn_remap(void *at, size_t n, size_t wanted, int flags, void *to)
{
    void *p = mremap(at, n, wanted, flags, to);
    if (p == MAP_FAILED)
        abort();
    if (wanted <= n && (flags & MREMAP_FIXED) == 0) {
        ledger_drop((char *)at + wanted, n - wanted);
        return p;
    }
    ledger_drop(at, n);
    return ledger_add(&site_fn_remap, p, wanted);
}

NOIPA static void *fn_shm(int id, size_t n)
{
    return ledger_add(&site_fn_shm, shmat(id, NULL, 0), n);
}

NOIPA static void *fn_sbrk(intptr_t n)
{
    void *p = sbrk(n);
    if (p == (void *)-1)
        abort();
    uint64_t from = whole((uintptr_t)p), to = whole((uintptr_t)p + (uint64_t)n);
    if (n > 0)
        return ledger_add(&site_fn_sbrk, (void *)(uintptr_t)from, to - from);
    ledger_drop((void *)(uintptr_t)to, from - to);
    return p;
}

static void parts(void)
{
    char *p = fn_parts(NULL, 16 * PAGE, -1);
    give(p, PAGE);                 /* the first */
    give(p + 15 * PAGE, PAGE);     /* the last */
    give(p + 7 * PAGE, 2 * PAGE);  /* two in the middle */
    give(p + 4 * PAGE, 8 * PAGE);  /* over the hole */
    (void)munmap(p + 1, PAGE);     /* not possible */
    (void)munmap(p + 2 * PAGE, 0); /* nor this */
    p = fn_parts(NULL, 1000 * PAGE + 1, -1);
    for (size_t i = 0; i < 500; i++)
        give(p + 2 * i * PAGE, PAGE);
    char *a = fn_single(NULL, 3 * PAGE, -1);
    give(a, PAGE);
    give(a + 2 * PAGE, PAGE);
    give(fn_over(a, 3 * PAGE, -1), 3 * PAGE); /* over what is left, by one that is larger */
}

static void overlays(int fd)
{
    char *p = fn_anon(NULL, 32 * PAGE, -1);
    (void)fn_over(p + 4 * PAGE, 4 * PAGE, -1);
    (void)fn_file_over(p + 6 * PAGE, 4 * PAGE, fd);
    (void)fn_over(p + 5 * PAGE, PAGE, -1);
    p = fn_file(NULL, 3 * PAGE - 100, fd);
    give(fn_file(NULL, 3 * PAGE, fd), 3 * PAGE);
    p = fn_shared(NULL, 8 * PAGE, -1);
    give(p + PAGE, PAGE);
}

static void moves(void)
{
    char *p = fn_anon(NULL, 64 * PAGE, -1);
    p = fn_remap(p, 64 * PAGE, 40 * PAGE, 0, NULL);
    p = fn_remap(p, 40 * PAGE, 400 * PAGE, MREMAP_MAYMOVE, NULL);
    char *to = fn_anon(NULL, 600 * PAGE, -1);
    p = fn_remap(p, 400 * PAGE, 300 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to + 100 * PAGE);
    (void)mremap(p, 300 * PAGE, (size_t)1 << 46, 0); /* fails: everything stays */
    (void)mremap(p + 1, PAGE, PAGE, MREMAP_MAYMOVE);
    char *s = fn_shared(NULL, 8 * PAGE, -1);
    (void)fn_remap(s, 8 * PAGE, 16 * PAGE, MREMAP_MAYMOVE, NULL);
}

static void *in_thread(void *arg)
{
    void *kept[16] = {0};
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the ledger */
    for (size_t i = 0; i < 2000; i++) {
        size_t k = i * 7 % 16, n = (1 + i % 5) * PAGE;
        pthread_mutex_lock(&lock);
        if (kept[k])
            give(kept[k], PAGE);
        kept[k] = fn_thread(NULL, n, -1);
        pthread_mutex_unlock(&lock);
    }
    return arg;
}

static void threads(void)
{
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        (void)pthread_create(&t[i], NULL, in_thread, NULL);
    for (int i = 0; i < 4; i++)
        (void)pthread_join(t[i], NULL);
}

static void segment(void)
{
    int id = shmget(IPC_PRIVATE, 5 * PAGE, IPC_CREAT | 0600);
    if (id < 0)
        abort();
    void *a = fn_shm(id, 5 * PAGE), *b = fn_shm(id, 5 * PAGE);
    give((char *)b + PAGE, PAGE);
    (void)shmctl(id, IPC_RMID, NULL);
    if (shmdt(b) != 0)
        abort();
    ledger_drop(b, 5 * PAGE);
    (void)shmdt((char *)a + PAGE); /* fails */
}

/* It maps, unmaps what is its parent's, and ends: nothing of that is the parent's. */
static void child(void *p)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)munmap(p, 4 * PAGE);
        (void)mmap(NULL, 100 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        _exit(0);
    }
    (void)waitpid(pid, NULL, 0);
}

static void library(void)
{
    void *h = dlopen("libm.so.6", RTLD_NOW); /* the loader's mappings are not ours */
    if (h)
        dlclose(h);
}

/* Every other page of many: each unmapping makes one mapping more, up to vm.max_map_count. */
static void limit(void)
{
    size_t n = 140000, failed = 0;
    char *p = fn_parts(NULL, n * PAGE, -1);
    for (size_t i = 1; i < n; i += 2)
        if (munmap(p + i * PAGE, PAGE) == 0)
            ledger_drop(p + i * PAGE, PAGE);
        else
            failed++;
    printf("FAILED %s\n", failed ? "some" : "none");
}

/* What is left at a fork is what the child begins with, call by call. */
static void inherit(void)
{
    for (uint32_t i = 0; i < n_calls; i++)
        *owner_of[i] = (struct site){.name = owner_of[i]->name};
    for (uint32_t i = 0; i < n_calls; i++) {
        owner_of[i]->alloc += (size_t)left[i] * PAGE;
        owner_of[i]->objs += left[i] != 0;
    }
}

/* Recorded by now: only then is what it does next of its own books. */
static void await_ring(void)
{
    for (int i = 0; i < 5000; i++) {
        char line[512];
        bool found = false;
        FILE *f = fopen("/proc/self/maps", "r");
        while (f && !found && fgets(line, sizeof line, f))
            found = strstr(line, "heapwise-ring") != NULL;
        if (f)
            fclose(f);
        if (found)
            return;
        usleep(1000);
    }
}

static void show(void);

static void recorded_child(void)
{
    char *p = fn_parts(NULL, 64 * PAGE, -1), *q = fn_anon(NULL, 32 * PAGE, -1);
    char *gone = fn_single(NULL, 8 * PAGE, -1), *s = fn_shared(NULL, 8 * PAGE, -1);
    give(p + 10 * PAGE, 5 * PAGE);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        inherit();
        await_ring();
        give(p, 12 * PAGE); /* over the hole, which was there before */
        (void)fn_over(q + 4 * PAGE, 4 * PAGE, -1);
        (void)fn_anon(NULL, 3 * PAGE, -1);
        give(s, 8 * PAGE);
        show();
        fflush(stdout);
        _exit(0);
    }
    give(gone, 8 * PAGE); /* the child still has it */
    (void)waitpid(pid, NULL, 0);
    puts("PARENT");
}

static int temporary(void)
{
    char name[] = "/var/tmp/hwmapsXXXXXX";
    int fd = mkstemp(name);
    if (fd < 0 || unlink(name) != 0 || ftruncate(fd, 64 * PAGE) != 0)
        abort();
    return fd;
}

static void show(void)
{
    expect(&site_fn_anon, &site_fn_parts, &site_fn_single, &site_fn_over, &site_fn_file_over,
           &site_fn_file, &site_fn_shared, &site_fn_memfd, &site_fn_thread, &site_fn_remap,
           &site_fn_shm, &site_fn_sbrk, NULL);
}

static void await_line(void)
{
    char c;
    fflush(stdout);
    while (read(0, &c, 1) == 1 && c != '\n')
        ;
}

static void all(void)
{
    int fd = temporary(), memfd = memfd_create("maps", MFD_CLOEXEC);
    (void)ftruncate(memfd, 16 * PAGE);
    parts();
    overlays(fd);
    moves();
    threads();
    segment();
    child(fn_anon(NULL, 4 * PAGE, -1));
    library();
    (void)fn_memfd(NULL, 16 * PAGE, memfd);
    (void)fn_sbrk(8 * PAGE);
    (void)fn_sbrk(100);
    (void)fn_sbrk(-3 * (intptr_t)PAGE);
}

int main(int argc, char **argv)
{
    size_t storm = argc > 2 && strcmp(argv[1], "storm") == 0 ? strtoul(argv[2], NULL, 10) : 0;
    pages = calloc(MAX, sizeof *pages);
    left = calloc(N_CALLS, sizeof *left);
    owner_of = calloc(N_CALLS, sizeof *owner_of);
    slots = calloc(SLOTS, sizeof *slots);
    if (argc > 1 && strcmp(argv[1], "wait") == 0) {
        puts("ready");
        await_line();
        free(malloc(100)); /* joins */
    }
    if (storm) {
        for (size_t i = 0; i < storm; i++) {
            void *p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (p == MAP_FAILED || munmap(p, PAGE) != 0)
                abort();
        }
        printf("STORM %zu\n", storm);
    } else if (argc > 1 && strcmp(argv[1], "limit") == 0) {
        limit();
    } else if (argc > 1 && strcmp(argv[1], "fork") == 0) {
        recorded_child();
    } else {
        all();
    }
    show();
    if (argc > 1 && strcmp(argv[1], "wait") == 0)
        await_line();
    fflush(stdout);
    return 0;
}

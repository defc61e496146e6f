/* wrapper.c - a program that defines malloc itself, in front of any library, and holds a lock that
 * knows no owner around the real one; and allocates wherever libc may hold locks of its own: in
 * handlers of fork, destructors of thread-local data, an indirect function's resolver, callbacks of
 * dl_iterate_phdr, streams of its own, constructors of what it loads. Each would wait for ever if
 * what is behind malloc took such a lock, or allocated. Whoever makes system calls by libc's names
 * meets functions of this program that want the lock, too, and do nothing; and keys of thread-local
 * data are so many that those of a library need memory. */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target.h"

static _Atomic int lock;
static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void (*next_free)(void *);
static char early[65536];
static size_t n_early;

static void take(void)
{
    while (atomic_exchange(&lock, 1))
        ;
}

static void give(void)
{
    atomic_store(&lock, 0);
}

static void *from_early(size_t n)
{
    size_t at = n_early;
    n_early += (n + 15) & ~(size_t)15;
    return n_early <= sizeof early ? early + at : NULL;
}

static int is_early(const void *p)
{
    return (const char *)p >= early && (const char *)p < early + sizeof early;
}

static int finding;
static int found(void)
{
    if (next_free)
        return 1;
    if (finding)
        return 0;
    finding = 1;
    *(void **)&next_malloc = dlsym(RTLD_NEXT, "malloc");
    *(void **)&next_calloc = dlsym(RTLD_NEXT, "calloc");
    *(void **)&next_realloc = dlsym(RTLD_NEXT, "realloc");
    *(void **)&next_free = dlsym(RTLD_NEXT, "free");
    return 1;
}

void *malloc(size_t n)
{
    if (!found())
        return from_early(n);
    take();
    void *p = next_malloc(n);
    give();
    return p;
}

void *calloc(size_t n, size_t size)
{
    if (!found())
        return from_early(n * size);
    take();
    void *p = next_calloc(n, size);
    give();
    return p;
}

void *realloc(void *p, size_t n)
{
    if (!found() || is_early(p)) {
        void *q = malloc(n);
        return q && p ? memcpy(q, p, n) : q;
    }
    take();
    void *q = next_realloc(p, n);
    give();
    return q;
}

void free(void *p)
{
    if (!p || is_early(p) || !found())
        return;
    take();
    next_free(p);
    give();
}

#define REFUSED(name)                                                                              \
    long refused_##name(void) __asm__(#name);                                                      \
    long refused_##name(void)                                                                      \
    {                                                                                              \
        take();                                                                                    \
        give();                                                                                    \
        errno = ENOSYS;                                                                            \
        return -1;                                                                                 \
    }
REFUSED(connect)
REFUSED(fcntl)
REFUSED(fcntl64)
REFUSED(fstat)
REFUSED(fstat64)
REFUSED(geteuid)
REFUSED(getpid)
REFUSED(getrandom)
REFUSED(getrlimit)
REFUSED(getrlimit64)
REFUSED(getsockopt)
REFUSED(gettid)
REFUSED(madvise)
REFUSED(mmap)
REFUSED(mmap64)
REFUSED(mprotect)
REFUSED(munmap)
REFUSED(prlimit)
REFUSED(prlimit64)
REFUSED(sigaltstack)
REFUSED(socket)
REFUSED(syscall)
REFUSED(sysconf)

/* Before the constructor of any library. libc has room for 32 without allocating. */
static void make_keys(void)
{
    pthread_key_t k;
    for (int i = 0; i < 40; i++)
        (void)pthread_key_create(&k, NULL);
}
static void (*const first)(void) __attribute__((section(".preinit_array"), used)) = make_keys;

SITE(fn_thread)
SITE(fn_atfork)
SITE(fn_key)
SITE(fn_resolver)
SITE(fn_phdr)
SITE(fn_cookie)
SITE(fn_deep)

static void at_fork(void)
{
    (void)!fn_atfork(100);
}

static pthread_key_t key;
static void at_end(void *p)
{
    (void)p;
    (void)!fn_key(100);
}

static void answer(void)
{
}
static void *kept;
static void (*resolve(void))(void)
{
    kept = __builtin_malloc(64); /* before anything is relocated: no more than this */
    return answer;
}
void resolved(void) __attribute__((ifunc("resolve")));

static int each(struct dl_phdr_info *info, size_t n, void *arg)
{
    (void)info, (void)n, (void)arg;
    (void)!fn_phdr(100);
    return 1; /* how many there are is not the same with and without us */
}

static ssize_t written(void *c, const char *p, size_t n)
{
    (void)c, (void)p;
    (void)!fn_cookie(100);
    return (ssize_t)n;
}

NOIPA static void deep(int n)
{
    char frame[3000];
    __asm__ volatile("" : : "r"(frame) : "memory");
    if (n)
        deep(n - 1);
    (void)!fn_deep(50);
    __asm__ volatile("" : : "r"(frame) : "memory");
}

static void *run(void *arg)
{
    pthread_setspecific(key, arg);
    for (int i = 0; i < 50; i++)
        (void)!fn_thread(100);
    dl_iterate_phdr(each, NULL);
    deep(20);
    return NULL;
}

int main(void)
{
    pthread_t t[4];
    pthread_key_create(&key, at_end);
    pthread_atfork(at_fork, at_fork, at_fork);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 4; i++)
            if (pthread_create(&t[i], NULL, run, t) != 0)
                return 1;
        dl_iterate_phdr(each, NULL);
        for (int i = 0; i < 4; i++)
            pthread_join(t[i], NULL);
    }
    FILE *f = fopencookie(NULL, "w", (cookie_io_functions_t){.write = written});
    setvbuf(f, NULL, _IONBF, 0);
    for (int i = 0; i < 10; i++)
        fputs("x", f);
    fclose(f);
    resolved();
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    int status;
    waitpid(pid, &status, 0);
    if (!dlopen("libhwplug.so", RTLD_NOW | RTLD_LOCAL))
        printf("no plug-in\n");
    (void)!fn_resolver(8);
    expect(&site_fn_thread, &site_fn_key, &site_fn_phdr, &site_fn_cookie, &site_fn_deep, NULL);
    return status;
}

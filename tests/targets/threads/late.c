/* late: runs before anybody looks. A line on stdin is a command: "go N" allocates N times at three
 * sites and tells what it did; "old" frees and reallocates blocks from the start; "plug FILE" loads
 * a library, and "use N" lets it allocate; "map FILE" maps one and does not; "ways N" goes through
 * the family; "threads N" allocates in threads that come and go. "comm NAME" and "argv NAME" rename
 * it, "fork" goes on in a child, "vfork N" and "clone N" let children run in our memory, "exec"
 * starts itself again. Between lines one small block comes and goes every 2 ms, so that somebody
 * who calls is answered.
 */
#ifndef LATE_STATIC
#include <dlfcn.h>
#endif
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __GLIBC__ /* musl's compiler has no headers of the kernel */
#include <linux/filter.h>
#include <linux/seccomp.h>
#endif
#include <stddef.h>

#include "target.h"

SITE(late_kept)
SITE(late_freed)
static struct site site_late_moved = {.name = "late_realloc"};

static struct site site_plug = {.name = "plug_alloc"};
static void *(*plug)(size_t);

#define N_OLD 64
static void *old_blocks[N_OLD];

NOIPA static void *early(size_t n)
{
    void *p = malloc(n);
    memset(p, 1, n);
    return p;
}

NOIPA static void *late_realloc(void *p, size_t n)
{
    void *q = realloc(p, n);
    return site_add(&site_late_moved, q, n);
}

NOIPA static void beat(void)
{
    void *volatile p = malloc(24);
    free(p);
}

static void go(long n)
{
    for (long i = 0; i < n; i++) {
        (void)late_kept(100);
        void *p = late_freed(200);
        FREE_OF(late_freed, p, 200);
    }
}

static void use_old(void)
{
    for (int i = 0; i < N_OLD / 2; i++)
        free(old_blocks[i]);
    for (int i = N_OLD / 2; i < N_OLD; i++)
        old_blocks[i] = late_realloc(old_blocks[i], 5000);
}

/* Each function of the family, also where one could be made of another. */
SITE(late_thread)
#define WAY(fn, expression)                                                                        \
    static struct site site_##fn = {.name = #fn};                                                  \
    NOIPA static void *fn(size_t n)                                                                \
    {                                                                                              \
        void *p = expression;                                                                      \
        return site_add(&site_##fn, p, n);                                                         \
    }

NOIPA static void *take_posix(size_t align, size_t n)
{
    void *p;
    return posix_memalign(&p, align, n) == 0 ? p : NULL;
}

WAY(way_calloc, calloc(1, n))
WAY(way_realloc, realloc(NULL, n))
WAY(way_reallocarray, reallocarray(NULL, n, 1))
WAY(way_memalign, memalign(8, n))
WAY(way_memalign_wide, memalign(256, n))
WAY(way_aligned, aligned_alloc(16, n))
WAY(way_posix, take_posix(8, n))
WAY(way_posix_wide, take_posix(1024, n))

static void ways(long n)
{
    for (long i = 0; i < n; i++) {
        FREE_OF(way_calloc, way_calloc(48), 48);
        (void)way_realloc(64);
        (void)way_reallocarray(80);
        FREE_OF(way_memalign, way_memalign(96), 96);
        (void)way_memalign_wide(112);
        FREE_OF(way_aligned, way_aligned(128), 128);
        (void)way_posix(144);
        FREE_OF(way_posix_wide, way_posix_wide(160), 160);
    }
}

static void *in_thread(void *arg)
{
    for (long i = 0; i < (long)(intptr_t)arg; i++)
        (void)late_thread(56);
    return NULL;
}

/* From now on this system call is answered so; all others are as before. */
static void filter(long number, long action)
{
#ifdef __GLIBC__
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, (unsigned)action), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog all = {4, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) < 0)
        abort();
#else
    (void)number, (void)action;
#endif
}

/* Several at a time, and then again where others have been. */
static void threads(long n)
{
    for (int round = 0; round < 3; round++) {
        pthread_t t[4];
        for (int i = 0; i < 4; i++)
            pthread_create(&t[i], NULL, in_thread, (void *)(intptr_t)n);
        for (int i = 0; i < 4; i++)
            pthread_join(t[i], NULL);
    }
}

#ifdef LATE_STATIC
static void load(char *path)
{
    (void)path;
}
#else
static void load(char *path)
{
    path[strcspn(path, "\n")] = 0;
    void *h = dlopen(path, RTLD_NOW);
    *(void **)&plug = h ? dlsym(h, "plug_alloc") : NULL;
}
#endif

/* As setproctitle does. */
static void title(char **argv, const char *name)
{
    char *end = argv[0] + strlen(argv[0]);
    for (int i = 1; argv[i]; i++)
        end = argv[i] + strlen(argv[i]);
    memset(argv[0], 0, (size_t)(end - argv[0]));
    strncpy(argv[0], name, (size_t)(end - argv[0]));
}

static void go_on_in_child(void)
{
    int status;
    pid_t pid = fork();
    if (pid > 0) {
        waitpid(pid, &status, 0);
        exit(WEXITSTATUS(status));
    }
    printf("child %d\n", (int)getpid());
}

static void *volatile from_child;

static int in_our_memory(void *arg)
{
    (void)arg;
    from_child = late_kept(100);
    return 0;
}

static void clone_children(long n)
{
    size_t size = 1 << 18;
    char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (long i = 0; i < n && stack != MAP_FAILED; i++)
        waitpid(clone(in_our_memory, stack + size, CLONE_VM | SIGCHLD, NULL), NULL, 0);
}

NOIPA static pid_t spawn(bool executes)
{
    pid_t pid = vfork();
    if (pid == 0) {
        from_child = late_kept(100);
        if (executes)
            execl("/bin/true", "true", (char *)NULL);
        _exit(0);
    }
    return pid;
}

static void vfork_children(long n)
{
    for (long i = 0; i < n; i++)
        waitpid(spawn(i % 2), NULL, 0);
}

static void children(char *line, char **argv)
{
    long n;
    char name[400];
    long number, action;
    if (sscanf(line, "filter %ld %li", &number, &action) == 2)
        filter(number, action);
    else if (sscanf(line, "comm %399s", name) == 1)
        prctl(PR_SET_NAME, name);
    else if (sscanf(line, "argv %399s", name) == 1)
        title(argv, name);
    else if (sscanf(line, "vfork %ld", &n) == 1)
        vfork_children(n);
    else if (sscanf(line, "clone %ld", &n) == 1)
        clone_children(n);
    else if (strncmp(line, "fork", 4) == 0)
        go_on_in_child();
    else if (strncmp(line, "exec", 4) == 0)
        execv("/proc/self/exe", argv);
}

/* As an interpreter of machine code has its guest's libraries. */
static void map_as_code(char *path)
{
    path[strcspn(path, "\n")] = '\0';
    int fd = open(path, O_RDONLY);
    if (fd < 0 || mmap(NULL, 1 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
        abort();
    close(fd);
}

int main(int argc, char **argv)
{
    char line[512];
    (void)argc;
    for (int i = 0; i < N_OLD; i++)
        old_blocks[i] = early(1000);
    setvbuf(stdin, NULL, _IONBF, 0);
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        struct pollfd p = {0, POLLIN, 0};
        if (poll(&p, 1, 2) == 0) {
            beat();
            continue;
        }
        if (!fgets(line, sizeof line, stdin))
            return 0;
        long n;
        if (sscanf(line, "go %ld", &n) == 1)
            go(n);
        else if (sscanf(line, "ways %ld", &n) == 1)
            ways(n);
        else if (sscanf(line, "threads %ld", &n) == 1)
            threads(n);
        else if (strncmp(line, "old", 3) == 0)
            use_old();
        else if (strncmp(line, "plug ", 5) == 0)
            load(line + 5);
        else if (strncmp(line, "map ", 4) == 0)
            map_as_code(line + 4);
        else if (plug && sscanf(line, "use %ld", &n) == 1)
            for (long i = 0; i < n; i++)
                site_add(&site_plug, plug(70), 70);
        else
            children(line, argv);
        expect(&site_late_kept, &site_late_freed, &site_late_moved, &site_plug, NULL);
        expect(&site_late_kept, &site_late_freed, &site_late_moved, &site_plug, &site_late_thread,
               &site_way_calloc, &site_way_realloc, &site_way_reallocarray, &site_way_memalign,
               &site_way_memalign_wide, &site_way_aligned, &site_way_posix, &site_way_posix_wide,
               NULL);
        printf("done\n");
        fflush(stdout);
    }
}

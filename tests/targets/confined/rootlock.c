/*
 * rootlock.c - a program whose root directory is locked: whoever looks up a name there waits in the
 * kernel, where no signal ends it
 *
 *     thread 1  lists the directory into a page that never comes (userfaultfd): it keeps the lock,
 *               shared
 *     thread 2  makes a file there: it waits for the lock, and all others wait behind it
 *
 *     rootlock starts PROGRAM NAME   for each line that comes, a child in that root executes PROGRAM
 *                                    under that name
 *     rootlock stays                 is itself in that root, and in another network namespace, and
 *                                    allocates
 *
 * It prints "locked", and frees all when its input ends, or it is killed; 77 where that cannot be.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target.h"

#define BYTES 65536u

static int dir = -1;
static void *page;
static atomic_int maker;

/* A page of which the kernel asks us, who never answer. */
static int never(void)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    struct uffdio_api api = {.api = UFFD_API};
    page = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register r = {.range = {(uintptr_t)page, BYTES},
                                .mode = UFFDIO_REGISTER_MODE_MISSING};
    if (fd < 0 || page == MAP_FAILED || ioctl(fd, UFFDIO_API, &api) < 0 ||
        ioctl(fd, UFFDIO_REGISTER, &r) < 0)
        return -1;
    return fd;
}

static void *list(void *unused)
{
    (void)syscall(SYS_getdents64, dir, page, BYTES);
    return unused;
}

static void *make(void *unused)
{
    atomic_store(&maker, (int)syscall(SYS_gettid));
    int fd = openat(dir, "new", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    (void)close(fd);
    return unused;
}

static bool waits(int tid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    (void)close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *p = strrchr(text, ')');
    return p && p[2] == 'D';
}

/* These names are known, so they are found without the lock: what is looked up first are others. A
 * program starts with what is in them. */
static int make_root(void)
{
    static const char *const names[] = {"/usr", "/lib", "/lib64", "/var"};
    char there[32];
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", "/mnt", "tmpfs", 0, "mode=755") < 0 || mkdir("/mnt/proc", 0755) < 0 ||
        mount("/proc", "/mnt/proc", NULL, MS_BIND | MS_REC, NULL) < 0)
        return -1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(there, sizeof there, "/mnt%s", names[i]);
        (void)mkdir(there, 0755);
        (void)mount(names[i], there, NULL, MS_BIND | MS_REC, NULL); /* not every machine has each */
    }
    return open("/mnt", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The child waits in the kernel; what it keeps open would not end. */
static void start(int program, const char *name, int uffd)
{
    char *argv[] = {(char *)(uintptr_t)name, NULL}, *env[] = {NULL};
    if (fork() != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(uffd);
    if (fchdir(dir) < 0 || chroot(".") < 0)
        _exit(1);
    (void)syscall(SYS_execveat, program, "", argv, env, AT_EMPTY_PATH);
    _exit(1);
}

static void *keep(size_t n)
{
    void *p = malloc(n);
    *(volatile char *)p = 1;
    return p;
}

int main(int argc, char **argv)
{
    bool stays = argc == 2;
    int program = argc == 4 ? open(argv[2], O_RDONLY | O_CLOEXEC) : -1, uffd = never();
    pthread_t lister, other;
    struct pollfd asked = {.fd = uffd, .events = POLLIN}, in = {.fd = 0, .events = POLLIN};
    char line;
    signal(SIGCHLD, SIG_IGN);
    if (uffd < 0 || (!stays && program < 0) || (dir = make_root()) < 0 ||
        (stays && (unshare(CLONE_NEWNET) < 0 || fchdir(dir) < 0 || chroot(".") < 0)))
        return 77;
    pthread_create(&lister, NULL, list, NULL);
    if (poll(&asked, 1, 10000) != 1)
        return 77;
    pthread_create(&other, NULL, make, NULL);
    while (atomic_load(&maker) == 0 || !waits(atomic_load(&maker)))
        usleep(1000);
    (void)!write(1, "locked\n", 7);
    for (;;) {
        int n = poll(&in, 1, stays ? 5 : -1);
        if (n > 0 && read(0, &line, 1) != 1)
            break;
        if (n > 0 && line == '\n' && !stays)
            start(program, argv[3], uffd);
        if (stays)
            keep(1000);
    }
    close(uffd); /* the page comes now, empty */
    pthread_join(lister, NULL);
    pthread_join(other, NULL);
    return 0;
}

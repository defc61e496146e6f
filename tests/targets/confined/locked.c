/*
 * locked.c - a process whose memory nobody can look at: its lock is held by a system call that
 * waits for a file system, which the process serves itself and which does not answer
 *
 *     child     reads a page of the file: the page stays locked, the answer never comes
 *     thread    maps the file without a cache: under the lock of its memory the kernel waits for
 * that page
 *
 * So /proc/PID/cmdline, maps and mem wait, too. It prints "locked" and ends after as many
 * milliseconds as its argument says; 77 without FUSE. A second argument is the user it becomes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target.h"

static void reply(int fd, const struct fuse_in_header *h, const void *body, size_t n, int error)
{
    char out[512];
    struct fuse_out_header o = {
        .len = (uint32_t)(sizeof o + n), .error = error, .unique = h->unique};
    memcpy(out, &o, sizeof o);
    if (n)
        memcpy(out + sizeof o, body, n);
    (void)!write(fd, out, o.len);
}

static int asked[2]; /* a pipe: the server has been asked for the page */

/* One file in the root. Its second opening is one without a cache. */
static void serve(int fd)
{
    bool is_asked = false;
    static struct {
        struct fuse_in_header h;
        char rest[1 << 17];
    } q;
    struct fuse_attr file = {.ino = 2, .size = 65536, .mode = S_IFREG | 0755, .nlink = 1};
    struct fuse_attr root = {.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2};
    struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096};
    struct fuse_entry_out entry = {.nodeid = 2, .attr = file, .attr_valid = 60, .entry_valid = 60};
    int n_opened = 0;
    while (read(fd, &q, sizeof q) > 0) {
        struct fuse_attr_out attr = {.attr = q.h.nodeid == 1 ? root : file, .attr_valid = 60};
        struct fuse_open_out opened = {.fh = 1};
        if (q.h.opcode == FUSE_INIT) {
            reply(fd, &q.h, &init, sizeof init, 0);
        } else if (q.h.opcode == FUSE_LOOKUP) {
            reply(fd, &q.h, &entry, sizeof entry, 0);
        } else if (q.h.opcode == FUSE_GETATTR) {
            reply(fd, &q.h, &attr, sizeof attr, 0);
        } else if (q.h.opcode == FUSE_OPEN) {
            opened.open_flags = n_opened++ ? FOPEN_DIRECT_IO : 0;
            reply(fd, &q.h, &opened, sizeof opened, 0);
        } else if (q.h.opcode == FUSE_READ) {
            if (!is_asked)
                (void)!write(asked[1], "", 1); /* the page is locked */
            is_asked = true;
        } else {
            reply(fd, &q.h, NULL, 0, q.h.opcode == FUSE_FLUSH ? 0 : -ENOSYS);
        }
    }
    _exit(0);
}

static pid_t run(void (*fn)(int), int fd)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        fn(fd);
        _exit(0);
    }
    return pid;
}

static void read_page(int fd)
{
    char byte;
    (void)!pread(fd, &byte, 1, 0);
}

static int
    go[2]; /* a pipe: the other thread's pages are all there, so that it need not wait, too */

static void *map(void *arg)
{
    char byte;
    if (read(go[0], &byte, 1) != 1)
        return NULL;
    return mmap(NULL, 65536, PROT_READ, MAP_PRIVATE, *(int *)arg, 0);
}

static int locked[2]; /* a pipe: the lock is held */

/* The state of a thread of our parent's, as the kernel says without that lock. */
static char state_of(const char *tid)
{
    char path[512], text[256];
    snprintf(path, sizeof path, "/proc/%d/task/%s/stat", getppid(), tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    const char *name_end = strrchr(text, ')');
    if (fd >= 0)
        close(fd);
    return name_end ? name_end[2] : '?';
}

/* Does its other thread wait in a way that no signal ends? */
static bool is_stuck(void)
{
    char path[64], self[16];
    bool is = false;
    snprintf(path, sizeof path, "/proc/%d/task", getppid());
    snprintf(self, sizeof self, "%d", getppid());
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && strcmp(e->d_name, self) != 0)
            is |= state_of(e->d_name) == 'D';
    if (d)
        closedir(d);
    return is;
}

/* A process of its own: whoever touches a page for the first time waits for the lock, too. For a
 * moment the thread may wait for something else. */
static void watch(int fd)
{
    for (int n_seen = 0; n_seen < 5; n_seen = is_stuck() ? n_seen + 1 : 0)
        usleep(5000);
    (void)!write(fd, "", 1);
}

int main(int argc, char **argv)
{
    char dir[] = "/tmp/hw-locked-XXXXXX", options[128], path[64];
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%d,group_id=%d", fd, getuid(),
             getgid());
    char byte;
    if (fd < 0 || pipe(asked) < 0 || pipe(locked) < 0 || pipe(go) < 0 || !mkdtemp(dir) ||
        unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("hw", dir, "fuse", MS_NOSUID | MS_NODEV, options) < 0)
        return 77;
    pid_t server = run(serve, fd);
    close(fd);
    snprintf(path, sizeof path, "%s/f", dir);
    int cached = open(path, O_RDONLY | O_CLOEXEC), direct = open(path, O_RDONLY | O_CLOEXEC);
    if (cached < 0 || direct < 0)
        return 77;
    pid_t reader = run(read_page, cached);
    pthread_t thread;
    if (read(asked[0], &byte, 1) != 1)
        return 77;
    pid_t watcher = run(watch, locked[1]);
    pthread_create(&thread, NULL, map, &direct);
    if (mlockall(MCL_CURRENT) < 0)
        return 77;
    uid_t uid = argc > 2 ? (uid_t)atoi(argv[2]) : getuid();
    /* Of this thread: the other one could not be asked at the end. */
    if (syscall(SYS_setresuid, uid, uid, -1) < 0)
        return 77;
    if (write(go[1], "", 1) != 1 || read(locked[0], &byte, 1) != 1)
        return 77;
    (void)!write(1, "locked\n", 7);
    struct pollfd end = {.fd = 0, .events = POLLIN};
    (void)poll(&end, 1, argc > 1 ? atoi(argv[1]) : 1000);
    (void)syscall(SYS_setresuid, -1, 0, -1);
    kill(server, SIGKILL); /* whoever waits gets an error then */
    kill(reader, SIGKILL);
    kill(watcher, SIGKILL);
    waitpid(server, NULL, 0);
    waitpid(reader, NULL, 0);
    waitpid(watcher, NULL, 0);
    pthread_join(thread, NULL);
    umount2(dir, MNT_DETACH);
    rmdir(dir);
    return 0;
}

/* hostile: turns against whoever looks into it, with no more rights than its user has. "swap FILE":
 * a thread puts a descriptor of FILE, which it may not even read, in place of the recorder's memory
 * file; "exec PROGRAM" becomes that program at a line of its input, "kept PROGRAM" does, too, while
 * a child keeps all its descriptors, "held PROGRAM" as soon as one of its threads is held; "closed" asks to be left alone (PR_SET_DUMPABLE), and "enter PID" goes
 * into that process's user namespace, at a line. Otherwise it allocates, to be asked, until its
 * input ends. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target.h"

#define CARRIER  "/memfd:lib"
#define MANY_FDS 64

static const char *what;

static void *swap(void *unused)
{
    int victim = open(what, O_PATH);
    char link[32], path[64];
    if (victim < 0)
        abort();
    for (;;)
        for (int fd = 3; fd < MANY_FDS; fd++) {
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            ssize_t n = readlink(link, path, sizeof path - 1);
            path[n > 0 ? n : 0] = '\0';
            if (strncmp(path, CARRIER, sizeof CARRIER - 1) == 0)
                dup2(victim, fd);
        }
    return unused;
}

static void become(void)
{
    execl(what, what, "late", (char *)NULL);
    abort();
}

static void *become_when_told(void *unused)
{
    char c;
    if (read(0, &c, 1) == 1)
        become();
    return unused;
}

/* No handler of a fork runs in the child. */
static void *become_with_child(void *unused)
{
    char c;
    if (read(0, &c, 1) == 1) {
        if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
        become();
    }
    return unused;
}

static void *become_when_held(void *unused)
{
    char text[512];
    int fd = open("/proc/self/status", O_RDONLY); /* of the process: its first thread */
    for (;;) {
        ssize_t n = pread(fd, text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        const char *line = strstr(text, "\nTracerPid:");
        if (line && strtol(line + 11, NULL, 10) != 0)
            become();
    }
    return unused;
}

static void enter(void)
{
    char path[64], c;
    snprintf(path, sizeof path, "/proc/%s/ns/user", what);
    int fd = open(path, O_RDONLY);
    if (read(0, &c, 1) != 1 || fd < 0 || setns(fd, CLONE_NEWUSER) < 0)
        abort();
}

static void begin(const char *mode)
{
    static const struct {
        const char *mode;
        void *(*thread)(void *);
    } threads[] = {{"swap", swap},
                   {"exec", become_when_told},
                   {"kept", become_with_child},
                   {"held", become_when_held}};
    pthread_t t;
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        if (strcmp(mode, threads[i].mode) == 0 && pthread_create(&t, NULL, threads[i].thread, NULL))
            abort();
    if (strcmp(mode, "closed") == 0 && prctl(PR_SET_DUMPABLE, 0) < 0)
        abort();
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    what = argc > 2 ? argv[2] : NULL;
    struct pollfd p = {.fd = 0, .events = POLLIN};
    bool reads = strcmp(mode, "exec") == 0 || strcmp(mode, "kept") == 0; /* the other thread does */
    begin(mode);
    printf("ready\n");
    fflush(stdout);
    if (strcmp(mode, "enter") == 0)
        enter();
    while (reads || !p.revents) {
        void *volatile block = malloc(24);
        free(block);
        poll(&p, !reads, 2);
    }
    return 0;
}

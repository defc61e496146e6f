/*
 * How the client loads this library (wire/java_entrance.h), and the socket that it then opens.
 *
 * The client finds libjvm while it is still being loaded. JNI_GetCreatedJavaVMs returns a JVM from
 * the first moment of its creation, and attaching a thread to one that is not complete ends the
 * process. The JVM starts its thread for periodic work when everything else is there; we wait for
 * that thread's name. A JVM without one has had time enough after a while with a signal thread.
 *
 * If the client sees the JVM being created (client/hooks/launcher.c) there is nothing to wait for.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "java/agent/agent.h"
#include "java/agent/agent_socket.h"
#include "java/agent/agent_stacks.h"

#include "base/banned.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void heapwise_java_enter(struct hw_java_entrance *client);
EXPORT void heapwise_java_made(struct hw_java_entrance *client, void *vm, void *env);

enum {
    STEP_MS = 10,
    LATE_STEP_MS = 200,
    EARLY_STEPS = 1000,
    SETTLED_MS = 5000, /* behind the signal thread's start, where nothing else tells */
    HIGH_FD = 1000,    /* programs use and close low numbers */
    BACKLOG = 8
};

struct hw_java_entrance *agent_client;

typedef int32_t created_fn(hw_jvm_env *vms, int32_t room, int32_t *n);

/* ---- is it made? ---- */

static bool has_thread(const char *name)
{
    DIR *d = opendir("/proc/self/task");
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        char path[300], text[32] = "";
        (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
        if (fd >= 0)
            (void)close(fd);
        found = n > 0 && strncmp(text, name, strlen(name)) == 0;
    }
    if (d)
        (void)closedir(d);
    return found;
}

static int path_of_libjvm(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    char *out = arg;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    if (!slash || strcmp(slash, "/libjvm.so") != 0 || strlen(info->dlpi_name) >= 4096)
        return 0;
    memcpy(out, info->dlpi_name, strlen(info->dlpi_name) + 1);
    return 1;
}

static created_fn *find_created(void)
{
    char path[4096];
    created_fn *fn = NULL;
    void *jvm =
        dl_iterate_phdr(path_of_libjvm, path) ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (jvm)
        *(void **)&fn = dlsym(jvm, "JNI_GetCreatedJavaVMs");
    return fn; /* the handle stays: a JVM is never unloaded */
}

static hw_jvm_env wait_for_jvm(void)
{
    unsigned signal_ms = 0;
    for (unsigned i = 0;; i++) {
        created_fn *created = find_created();
        hw_jvm_env vm = NULL;
        int32_t n = 0;
        unsigned step = i < EARLY_STEPS ? STEP_MS : LATE_STEP_MS;
        if (created && created(&vm, 1, &n) == 0 && n > 0 && vm) {
            if (has_thread("VM Periodic Tas") || signal_ms >= SETTLED_MS)
                return vm;
            signal_ms += has_thread("Signal Dispatch") ? step : 0;
        }
        agent_rest(step);
    }
}

/* ---- the socket ---- */

static int listen_here(void)
{
    struct sockaddr_un at;
    char space[64] = ""; /* "pid:[4026531836]" */
    unsigned long long inode;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    if (high >= 0) {
        (void)close(fd);
        fd = high;
    }
    if (readlink("/proc/self/ns/pid", space, sizeof space - 1) > 0 &&
        sscanf(space, "pid:[%llu]", &inode) == 1) {
        socklen_t n = hw_java_agent_address(inode, getpid(), &at);
        if (bind(fd, (struct sockaddr *)&at, n) == 0 && listen(fd, BACKLOG) == 0)
            return fd;
    }
    (void)close(fd);
    return -1;
}

static void serve_all(hw_jvm_env vm, int listener)
{
    for (;;) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        if (poll(&p, 1, -1) < 0 && errno != EINTR)
            return;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            agent_serve(vm, fd);
        else if (errno == EBADF || errno == ENOTSOCK || errno == EINVAL)
            return; /* the program closed our number: whatever it is now is not ours */
        else if (errno != EINTR && errno != ECONNABORTED)
            agent_rest(LATE_STEP_MS); /* no descriptor is free just now */
    }
}

static bool take_client(struct hw_java_entrance *client)
{
    if (client->version != HW_JAVA_ENTRANCE_VERSION || client->bytes != sizeof *client)
        return false;
    agent_client = client;
    return true;
}

static void receive(hw_jvm_env vm)
{
    int listener = listen_here();
    if (listener < 0)
        return;
    serve_all(vm, listener);
    (void)close(listener);
}

void heapwise_java_enter(struct hw_java_entrance *client)
{
    if (!take_client(client))
        return;
    (void)prctl(PR_SET_NAME, "heapwise");
    agent_events_ours();
    hw_jvm_env vm = wait_for_jvm();
    agent_stacks_begin(vm);
    receive(vm);
}

static void *run(void *vm)
{
    (void)prctl(PR_SET_NAME, "heapwise");
    agent_events_ours();
    agent_client->suppress();
    receive(vm);
    return NULL;
}

void heapwise_java_made(struct hw_java_entrance *client, void *vm, void *env)
{
    pthread_t thread; /* the caller has blocked the program's signals */
    if (!take_client(client))
        return;
    agent_stacks_made(vm, env);
    if (pthread_create(&thread, NULL, run, vm) == 0)
        (void)pthread_detach(thread);
}

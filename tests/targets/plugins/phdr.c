/* phdr.c - two locks in two orders: one thread allocates under a lock of the program's, and closes
 * modules that stay; another takes that lock in a callback of dl_iterate_phdr, under the loader's.
 * Allocates until a line comes. */
#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "target.h"

enum { CLOSES = 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int inside;

static int on_module(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)info, (void)size, (void)arg;
    inside = 1;
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return 1;
}

static void *walk(void *arg)
{
    dl_iterate_phdr(on_module, arg);
    return NULL;
}

int main(void)
{
    pthread_t t;
    struct pollfd line = {.fd = 0, .events = POLLIN};
    void *handle = NULL;
    for (int i = 0; i < CLOSES; i++)
        handle = dlopen("libc.so.6", RTLD_NOW);
    pthread_mutex_lock(&lock);
    if (pthread_create(&t, NULL, walk, NULL) != 0)
        return 1;
    while (!inside)
        usleep(1000);
    (void)!write(1, "ready\n", 6);
    for (int n = 0; poll(&line, 1, 1) == 0; n++) {
        if (handle && n < CLOSES)
            dlclose(handle);
        for (volatile int i = 0; i < 1000; i++)
            free(malloc(1000));
    }
    pthread_mutex_unlock(&lock);
    pthread_join(t, NULL);
    (void)!write(1, "done\n", 5);
    return 0;
}

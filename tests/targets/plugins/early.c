/*
 * early.c - a library that allocates in its constructor, which runs before that of a preloaded one
 *
 * The first allocation is that of a child in the same memory, which is not this process; then setenv's,
 * made under the lock of the environment; then a thread's.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target.h"

SITE(early_kept)
SITE(early_dropped)
SITE(early_of_thread)

static void *blocks_of_thread(void *arg)
{
    for (int i = 0; i < 50; i++)
        (void)early_of_thread(40);
    return arg;
}

__attribute__((constructor)) static void early(void)
{
    pthread_t thread;
    void *volatile p;
    pid_t pid = vfork();
    if (pid == 0) {
        p = malloc(33);
        (void)p;
        _exit(0);
    }
    (void)waitpid(pid, NULL, 0);
    if (setenv("HW_EARLY", "set", 1) != 0 || pthread_create(&thread, NULL, blocks_of_thread, NULL))
        abort();
    pthread_join(thread, NULL);
    for (int i = 0; i < 200; i++) {
        (void)early_kept(100);
        FREE_OF(early_dropped, early_dropped(60), 60);
    }
}

/* Part of what the program prints. */
void early_expect(void);
void early_expect(void)
{
    expect(&site_early_kept, &site_early_dropped, &site_early_of_thread, NULL);
}

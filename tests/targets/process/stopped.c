/*
 * stopped.c - threads stopped at random points of allocation while others go on
 *
 * SIGSTOP would stop the whole process; a handler that spins until it is let go stops one thread
 * wherever it is: inside malloc, inside our hook, between the two. The other threads must not wait
 * for it longer than the allocator itself makes them.
 */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target.h"

enum { THREADS = 4, ROUNDS = 40, PER_THREAD = 60000 };
SITE(fn_thread)
static _Atomic int hold;
static _Atomic pid_t tids[THREADS];
static _Atomic int done;

static void on_signal(int sig)
{
    (void)sig;
    while (hold)
        __asm__ volatile("" ::: "memory");
}

static void *run(void *arg)
{
    tids[(intptr_t)arg] = (pid_t)syscall(SYS_gettid);
    void *p[16] = {NULL};
    for (int i = 0; i < PER_THREAD; i++) {
        if (p[i % 16])
            FREE_OF(fn_thread, p[i % 16], 48);
        p[i % 16] = fn_thread(48);
    }
    done++;
    while (done < THREADS + 1) /* stays, so that its thread id stays ours */
        usleep(1000);
    return NULL;
}

int main(void)
{
    struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &a, NULL);
    pthread_t t[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, run, (void *)i);
    for (int r = 0; r < ROUNDS; r++) {
        pid_t tid = tids[r % THREADS];
        if (!tid) {
            usleep(200);
            continue;
        }
        hold = 1;
        syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
        usleep(5000);
        hold = 0;
        usleep(200);
    }
    while (done < THREADS)
        usleep(1000);
    done++;
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    expect(&site_fn_thread, NULL);
    return 0;
}

/* holes.c - threads that stop in the middle of a record: at each instruction behind a reservation
 * one ends by the bare system call, one by pthread_exit, one leaves by siglongjmp and goes on, one
 * sleeps and goes on where it was. A single step is a signal; the ring's positions are read
 * where the library has mapped it. Says whether they were there, and when they stood still. With an
 * argument it waits for a recorder to come, and threads only end. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target.h"

SITE(fn_wait)
SITE(fn_main)
SITE(fn_left)
SITE(fn_slow)

enum { STEPS = 24, WRITE_POS = 64, READ_POS = 128, PATIENCE_MS = 3000 };
enum way { JUMPS, ENDS, EXITS, SLEEPS, WAYS };

static const volatile uint64_t *write_pos, *read_pos;
static uint64_t before;
static int left; /* steps behind the reservation until it stops; -1 = it has */
static enum way way;
static bool frees;
static sigjmp_buf back;

static void find_ring(void)
{
    char text[65536];
    size_t n = 0;
    int fd = open("/proc/self/maps", O_RDONLY);
    for (ssize_t k; n < sizeof text - 1 && (k = read(fd, text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)k;
    close(fd);
    text[n] = '\0';
    char *p = strstr(text, "heapwise-ring");
    if (!p)
        return;
    while (p > text && p[-1] != '\n')
        p--;
    write_pos = (const volatile uint64_t *)(strtoul(p, NULL, 16) + WRITE_POS);
    read_pos = (const volatile uint64_t *)(strtoul(p, NULL, 16) + READ_POS);
}

static void on_step(int sig)
{
    (void)sig;
    if (!write_pos || left < 0 || *write_pos == before || left-- > 0)
        return;
    if (way == JUMPS)
        siglongjmp(back, 1);
    if (way == ENDS)
        syscall(SYS_exit, 0);
    if (way == EXITS)
        pthread_exit(NULL);
    nanosleep(&(struct timespec){0, 10000000}, NULL);
}

static void steps_begin(void)
{
    before = write_pos ? *write_pos : 0;
    __asm__ volatile("pushfq\n\torl $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}

static void steps_end(void)
{
    __asm__ volatile("pushfq\n\tandl $~0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
}

/* The block is in the thread's cache: libc takes no lock for it that could stay taken. */
static void *one(void *arg)
{
    void *volatile p = NULL;
    (void)arg;
    if (sigsetjmp(back, 1) == 0) {
        for (int i = 0; i < 3; i++) { /* the stack is known the second time */
            if (i == 2 && !frees)
                steps_begin();
            p = way == SLEEPS ? fn_slow(64) : fn_left(64);
            if (i == 2 && frees)
                steps_begin();
            if (way == SLEEPS)
                FREE_OF(fn_slow, p, 64);
            else
                free(p);
        }
        steps_end();
    }
    free(fn_left(48));
    return NULL;
}

static void watch_reader(int step)
{
    uint64_t end = write_pos ? *write_pos : 0;
    for (int i = 0; write_pos && *read_pos < end; i++)
        if (i == PATIENCE_MS) {
            printf("stuck: way %d, %s, step %d\n", way, frees ? "free" : "malloc", step);
            fflush(stdout);
            exit(1);
        } else
            nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static void round_of(int step, bool threads)
{
    pthread_t t;
    left = step;
    if (!threads) {
        one(NULL);
    } else {
        if (pthread_create(&t, NULL, one, NULL) != 0)
            exit(1);
        pthread_join(t, NULL);
    }
    for (int i = 0; i < 10; i++)
        (void)!fn_main(100);
    if (step % 8 == 7)
        watch_reader(step);
}

static void wait_for_recorder(void)
{
    (void)!write(1, "ready\n", 6);
    for (; !write_pos; find_ring()) {
        (void)!fn_wait(100);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    for (int k = 0; k < STEPS * 2; k++) {
        frees = k % 2 != 0;
        way = ENDS;
        round_of(k / 2, true);
    }
    printf("ring: seen\n");
    expect(&site_fn_main, NULL);
}

int main(int argc, char **argv)
{
    struct sigaction a = {.sa_handler = on_step};
    (void)argv;
    sigaction(SIGTRAP, &a, NULL);
    if (argc > 1) {
        wait_for_recorder();
        return 0;
    }
    (void)!fn_main(100);
    find_ring();
    for (int k = 0; k < STEPS * 2; k++) {
        frees = k % 2 != 0;
        way = JUMPS;
        round_of(k / 2, false);
    }
    for (int k = 0; k < STEPS * 2; k++)
        for (way = JUMPS; way < WAYS; way++) {
            frees = k % 2 != 0;
            round_of(k / 2, true);
        }
    printf("ring: %s\n", write_pos ? "seen" : "not there");
    expect(&site_fn_main, &site_fn_slow, NULL);
    return 0;
}

/* raised.c - raises its own limit of stack and runs threads: without randomised addresses their
 * stacks then lie where the main one might have grown to. Their upper ends have nothing above. One
 * unloads a library all the time, so that the stacks of the others are copied as they are. */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <unistd.h>

#include "target.h"

SITE(fn_thread)
static _Atomic int stop;

NOIPA static void deeper(int n)
{
    char frame[500];
    __asm__ volatile("" : : "r"(frame) : "memory");
    if (n)
        deeper(n - 1);
    else
        free(fn_thread(20000));
    __asm__ volatile("" : : "r"(frame) : "memory");
}

static void *reload(void *arg)
{
    while (!stop) {
        void *h = dlopen("libhwplug.so", RTLD_NOW | RTLD_LOCAL);
        if (h)
            dlclose(h);
        usleep(1000);
    }
    return arg;
}

static void *run(void *arg)
{
    for (int i = 0; !stop; i++) {
        deeper(i % 20);
        usleep(200);
    }
    return arg;
}

int main(int argc, char **argv)
{
    enum { BYTES = 65536, PAGE = 4096 };
    struct rlimit lim;
    if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
        personality(ADDR_NO_RANDOMIZE);
        execv("/proc/self/exe", argv);
    }
    (void)argc;
    getrlimit(RLIMIT_STACK, &lim);
    lim.rlim_cur = lim.rlim_max;
    if (setrlimit(RLIMIT_STACK, &lim) != 0)
        return 77;
    for (int i = 0; i < 4; i++) {
        char *p = mmap(NULL, BYTES + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                       -1, 0);
        pthread_attr_t a;
        pthread_t t;
        pthread_attr_init(&a);
        if (p == MAP_FAILED || mprotect(p, PAGE, PROT_NONE) != 0 ||
            mprotect(p + PAGE + BYTES, PAGE, PROT_NONE) != 0 ||
            pthread_attr_setstack(&a, p + PAGE, BYTES) != 0 ||
            pthread_create(&t, &a, i ? run : reload, NULL) != 0)
            return 1;
    }
    printf("ready\n");
    fflush(stdout);
    (void)!getchar();
    stop = 1;
    usleep(20000);
    return 0;
}

/* dlloop.c - dlopen and dlclose in a loop while other threads allocate through the plug-in's code
 */
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "target.h"

SITE(fn_thread)
static _Atomic int stop;
static const char *path;

/* Opens, allocates through the plug-in, closes: the code that allocated is gone afterwards. */
static struct site plug = {.name = "plug_alloc"};
static void *loop(void *arg)
{
    long rounds = (long)arg;
    for (long i = 0; i < rounds; i++) {
        void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!h) {
            fprintf(stderr, "%s\n", dlerror());
            exit(1);
        }
        void *(*alloc)(size_t) = (void *(*)(size_t))dlsym(h, "plug_alloc");
        for (int k = 0; k < 10; k++) {
            void *p = site_add(&plug, alloc(48), 48);
            if (k % 2) {
                free(p);
                site_sub(&plug, 48);
            }
        }
        dlclose(h);
    }
    return NULL;
}

static void *allocate(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20000; i++) {
        void *p = fn_thread(32);
        FREE_OF(fn_thread, p, 32);
    }
    while (!stop)
        FREE_OF(fn_thread, fn_thread(16), 16), usleep(1000);
    return NULL;
}

int main(int argc, char **argv)
{
    path = argc > 1 ? argv[1] : "libhwplug.so"; /* found by our RUNPATH */
    pthread_t a[2], l[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&a[i], NULL, allocate, NULL);
    for (int i = 0; i < 2; i++)
        pthread_create(&l[i], NULL, loop, (void *)200L);
    for (int i = 0; i < 2; i++)
        pthread_join(l[i], NULL);
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(a[i], NULL);
    expect(&plug, NULL); /* fn_thread's number depends on time: not printed */
    return 0;
}

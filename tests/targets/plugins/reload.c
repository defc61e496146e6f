/* reload.c - two plug-ins in turn at one address, each closed before the other is opened */
#include <dlfcn.h>

#include "target.h"

static struct site sites[2] = {{.name = "swap_a"}, {.name = "swap_b"}};
static const char *const files[2] = {"libhwswapa.so", "libhwswapb.so"};
static void *seen[2];

NOIPA static void fn_round(int which, int n)
{
    void *h = dlopen(files[which], RTLD_NOW | RTLD_LOCAL);
    if (!h) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    void *(*alloc)(size_t) = (void *(*)(size_t))dlsym(h, sites[which].name);
    seen[which] = (void *)alloc;
    for (int k = 0; k < n; k++) {
        void *p = site_add(&sites[which], alloc(40), 40);
        if (k % 2) {
            free(p);
            site_sub(&sites[which], 40);
        }
    }
    dlclose(h);
}

int main(void)
{
    int same = 0;
    for (int i = 0; i < 60; i++) {
        fn_round(i % 2, 1 + i % 7);
        same += i % 2 && seen[0] == seen[1];
    }
    expect(&sites[0], &sites[1], NULL);
    return same == 0 ? 1 : 0; /* nothing would be tested */
}

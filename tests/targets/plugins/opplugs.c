/*
 * opplugs.c - a C program whose plug-ins bring operators new and delete of their own
 *
 * It asks whether there is an operator new in the process at all, keeps a block of each of two
 * plug-ins at a time, and closes plug-ins whose operators were called.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if __SIZEOF_SIZE_T__ == 8
#define NEW "_Znwm"
#else
#define NEW "_Znwj"
#endif

extern void *operator_new(size_t) __asm__(NEW) __attribute__((weak));
extern void operator_delete(void *) __asm__("_ZdlPv") __attribute__((weak));

struct plug {
    void *handle;
    int (*run)(int);
    void *(*make)(void);
    void (*give)(void *);
};

static struct plug plug_open(const char *name, int flags)
{
    struct plug p = {.handle = dlopen(name, flags)};
    if (!p.handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    *(void **)&p.run = dlsym(p.handle, "opplug_run");
    *(void **)&p.make = dlsym(p.handle, "opplug_new");
    *(void **)&p.give = dlsym(p.handle, "opplug_delete");
    return p;
}

static void weak(void)
{
    void *(*volatile make)(size_t) = operator_new;
    void (*volatile give)(void *) = operator_delete;
    printf("operator new: %s, by name: %s\n", make ? "yes" : "no",
           dlsym(RTLD_DEFAULT, NEW) ? "yes" : "no");
    if (make && give)
        give(make(10));
    fflush(stdout);
}

int main(void)
{
    static const char *const names[] = {"libhwopplug1.so", "libhwopplug2.so", "libhwopplug0.so"};
    weak();
    for (int round = 0; round < 6; round++) {
        struct plug a = plug_open(names[round % 3], RTLD_NOW | RTLD_LOCAL);
        struct plug b = plug_open(names[(round + 1) % 3], RTLD_LAZY | RTLD_LOCAL);
        void *of_a = a.make(), *of_b = b.make();
        int foreign = a.run(20) + b.run(20);
        printf("round %d: %d foreign blocks\n", round, foreign);
        fflush(stdout);
        a.give(of_a);
        b.give(of_b);
        dlclose(a.handle);
        weak();
        foreign = b.run(5);
        dlclose(b.handle);
        printf("alone: %d\n", foreign);
        fflush(stdout);
    }
    return 0;
}

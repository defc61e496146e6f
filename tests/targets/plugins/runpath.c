/* runpath.c - a plug-in that only this program's RUNPATH can find */
#include <dlfcn.h>

#include "target.h"

int main(void)
{
    static struct site plug = {.name = "plug_alloc"};
    void *h = dlopen("libhwplug.so", RTLD_NOW);
    if (!h) {
        printf("not found: %s\n", dlerror());
        return 1;
    }
    int (*answer)(void) = (int (*)(void))dlsym(h, "plug_answer");
    void *(*alloc)(size_t) = (void *(*)(size_t))dlsym(h, "plug_alloc");
    printf("answer %d\n", answer());
    for (int i = 0; i < 30; i++)
        site_add(&plug, alloc(70), 70);
    expect(&plug, NULL);
    return 0;
}

/* plug.c - a plug-in that allocates from a function of its own; built as libhwplug.so */
#include <stdlib.h>

void *plug_alloc(size_t n);
int plug_answer(void);

__attribute__((noipa)) void *plug_alloc(size_t n)
{
    void *volatile p = malloc(n);
    return p;
}

int plug_answer(void)
{
    return 42;
}

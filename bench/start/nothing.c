/* nothing.c - the shortest program that allocates */
#include <stdlib.h>

int main(void)
{
    void *volatile p = malloc(100);
    free(p);
    return 0;
}

/* swap.c - a plug-in built twice, as libhwswapa.so and libhwswapb.so: the same addresses, another
 * function there with a frame of another size */
#include <stdlib.h>

void *SWAP_NAME(size_t n);
static void *(*volatile get)(size_t) = malloc;

__attribute__((noipa)) void *SWAP_NAME(size_t n)
{
    volatile char frame[SWAP_FRAME];
    frame[0] = 1;
    void *p = get(n);
    frame[SWAP_FRAME - 1] = frame[0];
    return p;
}

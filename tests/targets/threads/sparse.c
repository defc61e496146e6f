/*
 * sparse.c [N] - 60 or N small blocks, one each 10 ms: 60 are less than 4 KiB in all
 */
#include <time.h>

#include "target.h"

SITE(fn_sparse)

int main(int argc, char **argv)
{
    long n = argc > 1 ? strtol(argv[1], NULL, 10) : 60;
    static char buffer[BUFSIZ]; /* libc's own would be more than all the blocks together */
    if (setvbuf(stdout, buffer, _IOFBF, sizeof buffer) != 0)
        return 1;
    struct timespec step = {0, 10000000};
    for (long i = 0; i < n; i++) {
        FREE_OF(fn_sparse, fn_sparse(48), 48);
        (void)nanosleep(&step, NULL);
    }
    expect(&site_fn_sparse, NULL);
    return 0;
}

/* chain.c - `chain LEFT BLOCKS`: BLOCKS blocks of 66,000 bytes, then itself until none is LEFT */
#include <unistd.h>

#include "target.h"

SITE(fn_warm)

int main(int argc, char **argv)
{
    int left = argc > 1 ? atoi(argv[1]) : 0, blocks = argc > 2 ? atoi(argv[2]) : 1;
    char next[16];
    for (int i = 0; i < blocks; i++)
        free(fn_warm(66000));
    if (left == 0)
        return 0;
    (void)snprintf(next, sizeof next, "%d", left - 1);
    execl(argv[0], argv[0], next, argv[2], (char *)NULL);
    return 1;
}

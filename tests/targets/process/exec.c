/* exec.c - execs itself twice; the last image is the program that counts */
#include <unistd.h>

#include "target.h"

SITE(fn_first)
SITE(fn_second)
SITE(fn_last)

int main(int argc, char **argv)
{
    int stage = argc > 1 ? argv[1][0] - '0' : 0;
    void *(*site[])(size_t) = {fn_first, fn_second, fn_last};
    for (int i = 0; i < 40; i++)
        (void)!site[stage](256);
    printf("stage %d\n", stage);
    fflush(stdout);
    if (stage < 2) {
        execl("/proc/self/exe", argv[0], stage == 0 ? "1" : "2", (char *)NULL);
        return 1;
    }
    expect(&site_fn_last, NULL);
    return 0;
}

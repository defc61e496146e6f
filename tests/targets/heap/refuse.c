/*
 * refuse.c free|abort|hold|kill [MIB] - takes memory until malloc refuses it
 *
 * free: gives all back, allocates elsewhere and ends; abort: ends at once; hold: stops at 97 % of
 * its limit and waits for a line; kill: no limit of its own, takes and touches memory until it is
 * killed. Prints what fn_a held when it was refused: "REFUSED bytes objects".
 */
#include <sys/resource.h>
#include <unistd.h>

#include "target.h"

#define BLOCK ((size_t)256 << 10)

SITE(fn_b)

static void *blocks[1 << 16];

NOIPA static void *fn_a(size_t n)
{
    char *p = malloc(n);
    if (p)
        p[0] = 1; /* after the call: no tail call */
    return p;
}

static unsigned long long pages(void)
{
    unsigned long long n = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%llu", &n) != 1)
        abort();
    fclose(f);
    return n * (unsigned long long)sysconf(_SC_PAGESIZE);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "free";
    size_t n = 0;
    /* What is there already (buffer and tables of a recorder) is not to be counted. */
    rlim_t most = (rlim_t)pages() + ((rlim_t)(argc > 2 ? strtoul(argv[2], NULL, 10) : 200) << 20);
    struct rlimit l = {most, most};
    if (strcmp(how, "kill") != 0 && setrlimit(RLIMIT_AS, &l) < 0)
        return 1;
    while (n < sizeof blocks / sizeof *blocks && (blocks[n] = fn_a(BLOCK))) {
        memset(blocks[n], 1, BLOCK);
        n++;
        if (strcmp(how, "hold") == 0 && pages() > most / 100 * 97)
            break;
        if (strcmp(how, "kill") == 0)
            usleep(2000);
    }
    printf("REFUSED %zu %zu\n", n * BLOCK, n);
    fflush(stdout);
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "hold") == 0)
        return getchar() == EOF;
    for (size_t i = 0; i < n; i++)
        free(blocks[i]);
    for (int i = 0; i < 100; i++)
        (void)!fn_b(1000);
    return 0;
}

/*
 * steps.c - does what its standard input says, one line a step, and answers "ok"
 *
 * a N   allocate N blocks of 1000 bytes in fn_a      f N   free the N oldest blocks
 * b N   allocate N blocks of 2000 bytes in fn_b      s MS  sleep
 * x     exec itself again                            q     end with the EXPECT lines
 * w     allocate 66,000 bytes in fn_warm and free them
 * c N   N times: allocate 1000 bytes in fn_churn and free them
 */
#include <unistd.h>

#include "target.h"

SITE(fn_a)
SITE(fn_b)
SITE(fn_warm)
SITE(fn_churn)
enum { MAX = 1 << 20 };
static struct {
    void *p;
    size_t n;
} live[MAX];

int main(int argc, char **argv)
{
    char line[64];
    size_t head = 0, tail = 0;
    (void)argc;
    printf("ready %d\n", 1);
    fflush(stdout);
    /* One system call a line: nothing is read ahead that an exec would lose. */
    for (;;) {
        size_t k = 0;
        while (k < sizeof line - 1 && read(0, line + k, 1) == 1 && line[k] != '\n')
            k++;
        line[k] = '\0';
        if (k == 0)
            break;
        long n = strtol(line + 1, NULL, 10);
        switch (line[0]) {
        case 'a':
        case 'b':
            for (long i = 0; i < n && head < MAX; i++, head++) {
                live[head].n = line[0] == 'a' ? 1000 : 2000;
                live[head].p = line[0] == 'a' ? fn_a(1000) : fn_b(2000);
            }
            break;
        case 'f':
            for (long i = 0; i < n && tail < head; i++, tail++) {
                if (live[tail].n == 1000)
                    FREE_OF(fn_a, live[tail].p, 1000);
                else
                    FREE_OF(fn_b, live[tail].p, 2000);
            }
            break;
        case 's':
            usleep((useconds_t)n * 1000);
            break;
        case 'w':
            FREE_OF(fn_warm, fn_warm(66000), 66000);
            break;
        case 'c':
            for (long i = 0; i < n; i++)
                FREE_OF(fn_churn, fn_churn(1000), 1000);
            break;
        case 'x':
            execv("/proc/self/exe", argv);
            return 1;
        case 'q':
            expect(&site_fn_a, &site_fn_b, NULL);
            return 0;
        default:
            return 2;
        }
        printf("ok\n");
        fflush(stdout);
    }
    return 0;
}

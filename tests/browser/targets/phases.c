/*
 * Phases of two seconds: one function grows and is freed, another grows; few blocks stay between many freed
 * ones; one site is reached by two ways that differ five callers up; a function that calls itself.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

enum { STEPS = 12, STEP_US = 150000, SMALL = 1000, MANY = 1024 };

static void *early[STEPS], *volatile sink;
static void *few[MANY];

static NOINLINE void *fill(size_t n)
{
    void *p = malloc(n);
    if (p)
        memset(p, 1, n);
    sink = p;
    return p;
}

static NOINLINE void grow_early(int i)
{
    early[i] = malloc(60000);
    memset(early[i], 1, 60000);
}

static NOINLINE void grow_late(void)
{
    void *p = malloc(500000);
    memset(p, 1, 500000);
    sink = p;
}

static NOINLINE void twice(int depth)
{
    if (depth > 0)
        twice(depth - 1);
    else
        sink = malloc(400000);
    sink = sink;
}

static NOINLINE void keep_few(int i)
{
    few[i] = malloc(SMALL);
    memset(few[i], 1, SMALL);
    sink = few[i];
}

/* All but every 64th of them goes again. */
static NOINLINE void spread(void)
{
    for (int i = 0; i < MANY; i++)
        keep_few(i);
    for (int i = 0; i < MANY; i++)
        if (i % 64)
            free(few[i]);
}

static NOINLINE void same_site(void)
{
    void *p = malloc(200000);
    memset(p, 1, 200000);
    sink = p;
}

#define THROUGH(name, next)                                                                        \
    static NOINLINE void name(void)                                                                \
    {                                                                                              \
        next();                                                                                    \
        sink = sink;                                                                               \
    }
THROUGH(through_1, same_site)
THROUGH(through_2, through_1)
THROUGH(through_3, through_2)
THROUGH(through_4, through_3)
THROUGH(grow_a, through_4)
THROUGH(grow_b, through_4)

int main(void)
{
    sink = fill(1000);
    spread();
    for (int i = 0; i < STEPS; i++) {
        if (i < STEPS / 2)
            grow_early(i);
        else
            grow_late();
        if (i == STEPS / 2)
            for (int k = 0; k < STEPS / 2; k++)
                free(early[k]);
        twice(3);
        grow_a();
        grow_b();
        sink = sink;
        usleep(STEP_US);
    }
    return 0;
}

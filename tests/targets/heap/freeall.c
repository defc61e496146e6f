/* freeall.c - holds 40 MiB in the middle of its life and nothing at its end */
#include "target.h"

SITE(fn_big)
SITE(fn_small)

int main(void)
{
    enum { N = 400 };
    void *p[N];
    for (int i = 0; i < N; i++)
        p[i] = fn_big(102400);
    for (int i = 0; i < N; i++)
        FREE_OF(fn_big, p[i], 102400);
    for (int i = 0; i < 1000; i++) {
        void *q = fn_small(100);
        FREE_OF(fn_small, q, 100);
    }
    expect(&site_fn_big, &site_fn_small, NULL);
    return 0;
}

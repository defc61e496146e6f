/* lowered.c - becomes another user before it allocates much, and executes nothing */
#include <unistd.h>

#include "target.h"

#define OTHER_USER 54321

SITE(fn_after)

int main(void)
{
    if (geteuid() == 0 && setresuid(OTHER_USER, OTHER_USER, 0) != 0)
        return 77;
    for (int i = 0; i < 100; i++)
        FREE_OF(fn_after, fn_after(100000), 100000);
    expect(&site_fn_after, NULL);
    return 0;
}

/* constructor.c - a program whose library allocates before main: early.c */
#include "target.h"

void early_expect(void);

SITE(in_main)

int main(void)
{
    const char *set = getenv("HW_EARLY");
    printf("HW_EARLY %s, PATH %s\n", set ? set : "lost", getenv("PATH") ? "set" : "lost");
    for (int i = 0; i < 30; i++)
        (void)in_main(70);
    expect(&site_in_main, NULL);
    early_expect();
    return 0;
}

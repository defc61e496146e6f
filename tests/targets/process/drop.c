/* drop.c - chroots into an empty directory and becomes nobody after its start, then allocates on */
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "target.h"

SITE(fn_before)
SITE(fn_after)

static void *run(void *arg)
{
    for (int i = 0; i < 300; i++)
        (void)!fn_after(90);
    return arg;
}

int main(void)
{
    char path[] = "/tmp/drop.XXXXXX";
    for (int i = 0; i < 1000; i++)
        (void)!fn_before(50);
    if (!mkdtemp(path) || chroot(path) < 0 || chdir("/") < 0 || setgid(65534) < 0 ||
        setuid(65534) < 0)
        return 77;
    for (int i = 0; i < 3; i++) {
        pthread_t t;
        if (pthread_create(&t, NULL, run, NULL) != 0)
            return 1;
        pthread_join(t, NULL);
        usleep(150000);
    }
    printf("uid %d, dumpable %d\n", (int)getuid(), prctl(PR_GET_DUMPABLE));
    expect(&site_fn_before, &site_fn_after, NULL);
    return 0;
}

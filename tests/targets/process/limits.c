/*
 * limits.c as|nofile|nproc - reaches a limit of its own and says what it met
 *
 * What is printed does not depend on how much a guest needs, but would change if one failed badly.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include "target.h"

SITE(fn_a)

static void *run(void *arg)
{
    for (int i = 0; i < 100; i++)
        FREE_OF(fn_a, fn_a(40), 40);
    return arg;
}

/* Memory for tables, thread slabs and growing maps is refused from here on, and sometimes not. */
static int address_space(void)
{
    void *big[4096];
    struct rlimit l = {300u << 20, 300u << 20};
    int refused = 0;
    if (setrlimit(RLIMIT_AS, &l) < 0)
        return 1;
    for (int round = 0; round < 20; round++) {
        int n = 0;
        while (n < 4096 && (big[n] = malloc(1 << 20)))
            n++;
        refused += n < 4096 && errno == ENOMEM;
        void *small[1000];
        for (int i = 0; i < 1000; i++)
            small[i] = malloc(100);
        for (int i = 0; i < 1000; i++)
            free(small[i]);
        for (int i = 0; i < n; i++)
            free(big[i]);
        pthread_t t;
        if (pthread_create(&t, NULL, run, NULL) == 0)
            pthread_join(t, NULL);
    }
    printf("refused %d times\n", refused);
    return 0;
}

static int descriptors(void)
{
    struct rlimit l = {40, 40};
    int n = 0, last = -1;
    if (setrlimit(RLIMIT_NOFILE, &l) < 0)
        return 1;
    for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0; n++)
        last = fd;
    printf("%d descriptors, the last is %d, then %s\n", n, last, strerror(errno));
    return 0;
}

static int threads(void)
{
    pthread_t t[50];
    struct rlimit l = {0, 0};
    int n = 0;
    (void)setrlimit(RLIMIT_NPROC, &l);
    for (int i = 0; i < 50; i++)
        if (pthread_create(&t[n], NULL, run, NULL) == 0)
            n++;
    for (int i = 0; i < n; i++)
        pthread_join(t[i], NULL);
    printf("%d threads\n", n);
    return 0;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "as";
    for (int i = 0; i < 1000; i++)
        (void)!fn_a(64);
    int rc = strcmp(how, "as") == 0       ? address_space()
             : strcmp(how, "nofile") == 0 ? descriptors()
                                          : threads();
    printf("end %d\n", rc);
    return rc;
}

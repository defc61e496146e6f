/* late: runs before anybody looks. A line on stdin is a command: "go N" allocates N times at three
 * sites and tells what it did; "old" frees and reallocates blocks from the start; "plug FILE" loads
 * a library, and "use N" lets it allocate. Between lines one small block comes and goes every 2 ms,
 * so that somebody who calls is answered. */
#include <dlfcn.h>
#include <poll.h>

#include "target.h"

SITE(late_kept)
SITE(late_freed)
static struct site site_late_moved = {.name = "late_realloc"};

static struct site site_plug = {.name = "plug_alloc"};
static void *(*plug)(size_t);

#define N_OLD 64
static void *old_blocks[N_OLD];

NOIPA static void *early(size_t n)
{
    void *p = malloc(n);
    memset(p, 1, n);
    return p;
}

NOIPA static void *late_realloc(void *p, size_t n)
{
    void *q = realloc(p, n);
    return site_add(&site_late_moved, q, n);
}

NOIPA static void beat(void)
{
    void *volatile p = malloc(24);
    free(p);
}

static void go(long n)
{
    for (long i = 0; i < n; i++) {
        (void)late_kept(100);
        void *p = late_freed(200);
        FREE_OF(late_freed, p, 200);
    }
}

static void use_old(void)
{
    for (int i = 0; i < N_OLD / 2; i++)
        free(old_blocks[i]);
    for (int i = N_OLD / 2; i < N_OLD; i++)
        old_blocks[i] = late_realloc(old_blocks[i], 5000);
}

static void load(char *path)
{
    path[strcspn(path, "\n")] = 0;
    void *h = dlopen(path, RTLD_NOW);
    *(void **)&plug = h ? dlsym(h, "plug_alloc") : NULL;
}

int main(void)
{
    char line[512];
    for (int i = 0; i < N_OLD; i++)
        old_blocks[i] = early(1000);
    setvbuf(stdin, NULL, _IONBF, 0);
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        struct pollfd p = {0, POLLIN, 0};
        if (poll(&p, 1, 2) == 0) {
            beat();
            continue;
        }
        if (!fgets(line, sizeof line, stdin))
            return 0;
        long n;
        if (sscanf(line, "go %ld", &n) == 1)
            go(n);
        else if (strncmp(line, "old", 3) == 0)
            use_old();
        else if (strncmp(line, "plug ", 5) == 0)
            load(line + 5);
        else if (plug && sscanf(line, "use %ld", &n) == 1)
            for (long i = 0; i < n; i++)
                site_add(&site_plug, plug(70), 70);
        expect(&site_late_kept, &site_late_freed, &site_late_moved, &site_plug, NULL);
        printf("done\n");
        fflush(stdout);
    }
}

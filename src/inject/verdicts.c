/* verdicts.c - see verdicts.h */
#include "inject/verdicts.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/error.h"

#include "base/banned.h"

#define N_VERDICTS 16u

static struct verdict {
    struct stat file; /* st_mode 0: none here */
    uint64_t at;
    int rc;
    char why[sizeof(struct hw_error){0}.text];
} verdicts[N_VERDICTS];
static size_t next;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

bool hw_verdict_find(int fd, uint64_t at, int *rc, struct hw_error *why)
{
    struct stat st;
    bool found = false;
    if (fstat(fd, &st) < 0)
        return false;
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < N_VERDICTS && !found; i++) {
        const struct verdict *v = &verdicts[i];
        if (!v->file.st_mode || v->at != at || !same(&v->file, &st))
            continue;
        found = true;
        *rc = v->rc;
        if (v->rc < 0)
            (void)hw_fail(why, v->rc, 0, "%s", v->why);
    }
    (void)pthread_mutex_unlock(&lock);
    return found;
}

void hw_verdict_keep(int fd, uint64_t at, int rc, const struct hw_error *why)
{
    struct stat st;
    if ((rc < 0 && rc != HW_ENOTFOUND && rc != HW_EUNSUPPORTED) || fstat(fd, &st) < 0)
        return;
    (void)pthread_mutex_lock(&lock);
    struct verdict *v = &verdicts[next++ % N_VERDICTS];
    *v = (struct verdict){.file = st, .at = at, .rc = rc};
    if (rc < 0)
        (void)snprintf(v->why, sizeof v->why, "%s", why->text);
    (void)pthread_mutex_unlock(&lock);
}

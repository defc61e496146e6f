/* patchable_files.c - see patchable_files.h */
#include "inject/patchable_files.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"

#include "base/banned.h"

#define N_VERDICTS 16u
/* Until then a file that is being inspected keeps its entry: one that was written to meanwhile
 * is never found again. */
#define FORGOTTEN_NS UINT64_C(60000000000)

static struct verdict {
    struct stat file; /* st_mode 0: none here */
    uint64_t at;
    uint64_t sought_ns; /* since when a thread is inspecting it; 0 = none is */
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

/* Under the lock. NULL = not here. */
static struct verdict *find(const struct stat *st, uint64_t at)
{
    for (size_t i = 0; i < N_VERDICTS; i++)
        if (verdicts[i].file.st_mode && verdicts[i].at == at && same(&verdicts[i].file, st))
            return &verdicts[i];
    return NULL;
}

/* Under the lock. NULL = a thread is inspecting each of them. */
static struct verdict *make_room(uint64_t now)
{
    for (size_t i = 0; i < N_VERDICTS; i++) {
        struct verdict *v = &verdicts[next++ % N_VERDICTS];
        if (!v->file.st_mode || !v->sought_ns || now - v->sought_ns > FORGOTTEN_NS)
            return v;
    }
    return NULL;
}

enum hw_patchable hw_patchable_find(int fd, uint64_t at, int *rc, struct hw_error *why)
{
    struct stat st;
    enum hw_patchable is = HW_PATCHABLE_UNKNOWN;
    uint64_t now = hw_now_monotonic_ns();
    if (fstat(fd, &st) < 0)
        return is;
    (void)pthread_mutex_lock(&lock);
    struct verdict *v = find(&st, at);
    if (v && v->sought_ns) {
        is = HW_PATCHABLE_SOUGHT;
    } else if (v) {
        is = HW_PATCHABLE_KNOWN;
        *rc = v->rc;
        if (v->rc < 0)
            (void)hw_fail(why, v->rc, 0, "%s", v->why);
    } else if ((v = make_room(now)) != NULL) {
        *v = (struct verdict){.file = st, .at = at, .sought_ns = now};
    }
    (void)pthread_mutex_unlock(&lock);
    return is;
}

void hw_patchable_keep(int fd, uint64_t at, int rc, const struct hw_error *why)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return;
    (void)pthread_mutex_lock(&lock);
    struct verdict *v = find(&st, at);
    if (v && rc < 0 && rc != HW_ENOTFOUND && rc != HW_EUNSUPPORTED) {
        v->file.st_mode = 0;
    } else if (v) {
        v->sought_ns = 0;
        v->rc = rc;
        if (rc < 0)
            (void)snprintf(v->why, sizeof v->why, "%s", why->text);
    }
    (void)pthread_mutex_unlock(&lock);
}

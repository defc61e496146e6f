/*
 * file_facts.c - a table without lists: a colliding entry replaces the old one
 *
 * The time of change (ctime) is the kernel's: nobody sets it, and an owner or a right that changes
 * moves it. A file system that a user serves says what it likes, and may get the device number of
 * an earlier one: its files are read each time, and so are those of overlays, which may lie over
 * one.
 */
#include "daemon/code/file_facts.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/files/fd_close.h"
#include "base/memory/map64.h"

#include "base/banned.h"

#define PLACES 256u

struct identity {
    uint64_t dev, inode, size, mtime_ns, ctime_ns;
};

struct hw_facts {
    pthread_mutex_t lock;
    struct {
        bool known;
        struct identity of;
        struct hw_module_facts facts;
    } places[PLACES];
};

int hw_facts_new(struct hw_facts **out)
{
    struct hw_facts *f = calloc(1, sizeof *f);
    if (!f)
        return HW_ENOMEM;
    (void)pthread_mutex_init(&f->lock, NULL); /* cannot fail on Linux */
    *out = f;
    return HW_OK;
}

void hw_facts_free(struct hw_facts *f)
{
    if (!f)
        return;
    (void)pthread_mutex_destroy(&f->lock); /* no thread holds it */
    free(f);
}

static uint64_t ns_of(const struct timespec *t)
{
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

static bool identify(int fd, struct identity *out)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return false;
    *out = (struct identity){st.st_dev, st.st_ino, (uint64_t)st.st_size, ns_of(&st.st_mtim),
                             ns_of(&st.st_ctim)};
    return true;
}

static bool is_same(const struct identity *a, const struct identity *b)
{
    return a->dev == b->dev && a->inode == b->inode && a->size == b->size &&
           a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

static bool recall(struct hw_facts *f, size_t place, const struct identity *id,
                   struct hw_module_facts *out)
{
    pthread_mutex_lock(&f->lock);
    bool known = f->places[place].known && is_same(&f->places[place].of, id);
    if (known)
        *out = f->places[place].facts;
    pthread_mutex_unlock(&f->lock);
    return known;
}

static void keep(struct hw_facts *f, size_t place, const struct identity *id,
                 const struct hw_module_facts *facts)
{
    pthread_mutex_lock(&f->lock);
    f->places[place].known = true;
    f->places[place].of = *id;
    f->places[place].facts = *facts;
    pthread_mutex_unlock(&f->lock);
}

int hw_facts_read(struct hw_facts *f, int fd, struct hw_module_facts *out)
{
    struct identity before, after;
    if (!identify(fd, &before))
        return HW_ESYS;
    if (hw_fd_is_slow(fd))
        return hw_module_facts_read(fd, out);
    size_t place = (size_t)(hw_hash_mix(before.dev, before.inode) % PLACES);
    if (recall(f, place, &before, out))
        return HW_OK;
    int rc = hw_module_facts_read(fd, out);
    if (rc == HW_OK && identify(fd, &after) && is_same(&before, &after))
        keep(f, place, &before, out);
    return rc;
}

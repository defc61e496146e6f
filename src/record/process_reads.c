#include "record/process_reads.h"

#include <pthread.h>

#include "base/error.h"
#include "daemon/code/blocking_reader.h"

#include "base/banned.h"

/* One per process: it remembers unresponsive targets, and how many threads it left behind. */
static struct {
    pthread_mutex_t lock;
    struct hw_blocking_reader *looker;
} reads = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Locked until hw_unlock; NULL: out of memory, not locked. */
static struct hw_blocking_reader *lock(void)
{
    pthread_mutex_lock(&reads.lock);
    if (!reads.looker && hw_blocking_reader_new(&reads.looker) < 0)
        reads.looker = NULL;
    if (!reads.looker)
        pthread_mutex_unlock(&reads.lock);
    return reads.looker;
}

static void unlock(void)
{
    pthread_mutex_unlock(&reads.lock);
}

static struct hw_reading_who who_is(const struct hw_pid *p)
{
    struct hw_proc_status st;
    return hw_reading_at(p, hw_proc_status(p->dir, &st) == HW_OK ? st.uid : 0);
}

void hw_read_argv0(const struct hw_pid *p, char *out, size_t max)
{
    struct hw_blocking_reader *l = lock();
    out[0] = '\0';
    if (!l)
        return;
    hw_reading_argv0(l, who_is(p), out, max);
    unlock();
}

int hw_read_cmdline(const struct hw_pid *p, char **out, size_t *n)
{
    struct hw_blocking_reader *l = lock();
    if (!l)
        return HW_ENOMEM;
    int rc = hw_reading_cmdline(l, who_is(p), out, n);
    unlock();
    return rc;
}

int hw_read_environ(const struct hw_pid *p, char **out, size_t *n)
{
    struct hw_blocking_reader *l = lock();
    if (!l)
        return HW_ENOMEM;
    int rc = hw_reading_environ(l, who_is(p), out, n);
    unlock();
    return rc;
}

int hw_read_maps(const struct hw_pid *p, struct hw_maps *out)
{
    struct hw_reading_image image;
    struct hw_blocking_reader *l = lock();
    if (!l)
        return HW_ENOMEM;
    int rc = hw_reading_image(l, who_is(p), HW_READING_NO_FILES, NULL, NULL, 0, &image);
    unlock();
    if (rc < 0)
        return rc;
    *out = image.maps;
    image.maps = (struct hw_maps){0};
    hw_reading_image_done(&image);
    return HW_OK;
}

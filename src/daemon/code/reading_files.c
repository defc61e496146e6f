/* Readings that open files of a process: one that grows, and those that it executes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/files/fd_close.h"
#include "base/memory/lower_bound.h"
#include "daemon/code/blocking_reader_job.h"
#include "daemon/code/file_facts.h"
#include "proc/file.h"
#include "proc/pid.h"

#include "base/banned.h"

/* ---- a file that grows ---- */

struct piece_job {
    struct hw_reading_job job;
    char *path;        /* own; NULL: of the map */
    struct hw_map map; /* its path is own */
    int fd;            /* the job's own */
    bool opened, slow;
    uint8_t *bytes; /* own */
    size_t max, n;
    uint64_t offset, size, dev, inode;
};

static void run_piece(struct hw_reading_job *j)
{
    struct piece_job *p = (struct piece_job *)(void *)j;
    struct stat st;
    if (p->fd < 0) {
        j->rc = p->path
                    ? hw_proc_open_written(j->who.dir, j->who.uid, p->path, &p->fd, NULL)
                    : hw_proc_open_written_mapping(j->who.dir, j->who.uid, &p->map, &p->fd, NULL);
        p->opened = j->rc == HW_OK;
        p->slow = p->opened && hw_fd_is_slow(p->fd);
    }
    if (j->rc < 0)
        return;
    if (fstat(p->fd, &st) < 0) {
        j->rc = HW_ESYS;
        return;
    }
    p->size = (uint64_t)st.st_size;
    p->dev = st.st_dev;
    p->inode = st.st_ino;
    if (p->offset >= p->size)
        return;
    ssize_t n = pread(p->fd, p->bytes, p->max, (off_t)p->offset);
    if (n < 0)
        j->rc = HW_ESYS;
    else
        p->n = (size_t)n;
}

static void drop_piece(struct hw_reading_job *j)
{
    struct piece_job *p = (struct piece_job *)(void *)j;
    hw_modules_close_file(p->fd, p->slow);
    free(p->path);
    free((char *)p->map.path);
    free(p->bytes);
}

static struct piece_job *piece_job(const struct hw_reading_who *who,
                                   const struct hw_reading_piece *p)
{
    struct piece_job *j = hw_reading_job_new(sizeof *j, who, run_piece, drop_piece);
    if (!j)
        return NULL;
    j->fd = *p->fd >= 0 ? fcntl(*p->fd, F_DUPFD_CLOEXEC, 3) : -1;
    j->slow = *p->fd >= 0 && p->slow;
    j->offset = p->offset;
    j->max = p->max;
    j->bytes = malloc(p->max + 1);
    if (*p->fd < 0 && p->path) {
        j->path = strdup(p->path);
    } else if (*p->fd < 0) {
        j->map = *p->map;
        j->map.path = strdup(p->map->path);
    }
    if (j->bytes && (*p->fd < 0 ? j->path || j->map.path : j->fd >= 0))
        return j;
    hw_reading_job_free(&j->job);
    return NULL;
}

int hw_reading_piece(struct hw_blocking_reader *l, struct hw_reading_who who,
                     struct hw_reading_piece *p)
{
    struct piece_job *j = piece_job(&who, p);
    int rc = j ? hw_reading_job_do(l, &j->job) : HW_ENOMEM;
    if (rc < 0)
        return rc;
    rc = j->job.rc;
    if (j->opened) {
        p->slow = j->slow;
        *p->fd = j->fd;
        j->fd = -1;
    }
    memcpy(p->out, j->bytes, j->n);
    p->n = j->n;
    p->size = j->size;
    p->dev = j->dev;
    p->inode = j->inode;
    p->cpu_ns = j->job.cpu_ns;
    hw_reading_job_free(&j->job);
    return rc;
}

/* ---- the image ---- */

struct image_job {
    struct hw_reading_job job;
    enum hw_reading_files which;
    char name[64];
    struct hw_facts *facts;         /* borrowed */
    struct hw_reading_known *known; /* owned; sorted by start */
    size_t n_known;
    struct hw_reading_image image;
    bool wants_words;
    struct hw_reading_words words;
};

static bool is_known(const struct image_job *i, const struct hw_map *m)
{
    size_t lo = HW_LOWER_BOUND(mid, 0, i->n_known, i->known[mid].start < m->start);
    if (lo == i->n_known)
        return false;
    const struct hw_reading_known *k = &i->known[lo];
    return k->start == m->start && k->end == m->end && k->inode == m->inode &&
           k->offset == m->offset;
}

static bool is_wanted(const struct image_job *i, const struct hw_map *m)
{
    if (!(m->flags & HW_MAP_EXEC) || m->path[0] != '/' || m->start >> 63)
        return false;
    const char *base = strrchr(m->path, '/');
    return i->which == HW_READING_ALL_FILES ? !is_known(i, m) : strcmp(base + 1, i->name) == 0;
}

static void run_image(struct hw_reading_job *j)
{
    struct image_job *i = (struct image_job *)(void *)j;
    struct hw_maps *maps = &i->image.maps;
    if (i->wants_words)
        hw_reading_read_words(&j->who, &i->words);
    j->rc = hw_maps_read(j->who.dir, maps, NULL);
    size_t n = 0;
    for (size_t k = 0; j->rc == HW_OK && i->which != HW_READING_NO_FILES && k < maps->maps.n; k++)
        n += is_wanted(i, &maps->maps.v[k]);
    if (n == 0 || !(i->image.files = calloc(n, sizeof *i->image.files)))
        return; /* without memory: mappings without files */
    for (size_t k = 0; k < maps->maps.n && i->image.n_files < n; k++) {
        struct hw_reading_file f = {.map = k};
        if (!is_wanted(i, &maps->maps.v[k]) ||
            hw_proc_open_mapping(j->who.dir, j->who.uid, &maps->maps.v[k], &f.fd, NULL) < 0)
            continue;
        if (hw_facts_read(i->facts, f.fd, &f.facts) < 0)
            (void)close(f.fd); /* its status cannot even be read */
        else
            i->image.files[i->image.n_files++] = f;
        if (i->which == HW_READING_ONE_FILE)
            return;
    }
}

void hw_reading_image_done(struct hw_reading_image *i)
{
    for (size_t k = 0; k < i->n_files; k++)
        hw_modules_close_file(i->files[k].fd, i->files[k].facts.slow);
    free(i->files);
    hw_maps_done(&i->maps);
    *i = (struct hw_reading_image){0};
}

static void drop_image(struct hw_reading_job *j)
{
    struct image_job *i = (struct image_job *)(void *)j;
    free(i->known);
    hw_reading_image_done(&i->image);
}

int hw_reading_image(struct hw_blocking_reader *l, struct hw_reading_who who,
                     enum hw_reading_files which, const char *name,
                     const struct hw_reading_known *known, size_t n_known,
                     struct hw_reading_image *out)
{
    struct image_job *i = hw_reading_job_new(sizeof *i, &who, run_image, drop_image);
    if (!i)
        return HW_ENOMEM;
    i->which = which;
    i->facts = hw_reading_facts(l);
    (void)snprintf(i->name, sizeof i->name, "%s", name ? name : "");
    i->wants_words = which == HW_READING_ALL_FILES && !hw_reading_has_words(l, &who);
    i->known = n_known ? malloc(n_known * sizeof *known) : NULL;
    if (i->known) {
        memcpy(i->known, known, n_known * sizeof *known);
        i->n_known = n_known;
    }
    int rc = hw_reading_job_do(l, &i->job);
    if (rc < 0)
        return rc;
    rc = i->job.rc;
    if (i->wants_words)
        hw_reading_keep_words(l, &i->words);
    if (rc == HW_OK) {
        *out = i->image;
        out->cpu_ns = i->job.cpu_ns;
        i->image = (struct hw_reading_image){0};
    }
    hw_reading_job_free(&i->job);
    return rc;
}

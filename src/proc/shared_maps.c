/*
 * shared_maps.c - a line of mountinfo:
 *
 *   36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
 *         dev                                  | kind
 *
 * Memory files of the kernel's own mounts (memfd, System V) are in no such list, and known by name.
 */
#include "proc/shared_maps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/lower_bound.h"
#include "base/text/text_parts.h"
#include "proc/maps.h"

#include "base/banned.h"

#define MAX_MOUNTS (4u << 20) /* bytes of text */
#define SEGMENT    "/SYSV"

bool hw_mounts_hold_memory(const char *mountinfo, uint32_t dev_major, uint32_t dev_minor)
{
    static const char *const kinds[] = {"tmpfs ", "hugetlbfs ", "ramfs "};
    char dev[32];
    (void)snprintf(dev, sizeof dev, " %u:%u ", dev_major, dev_minor);
    for (const char *line = mountinfo; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *end = line + strcspn(line, "\n");
        const char *at = strstr(line, dev), *kind = strstr(line, " - ");
        if (!at || at >= end || !kind || kind >= end || at > kind)
            continue;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (hw_starts_with(kind + 3, kinds[i]))
                return true;
    }
    return false;
}

static bool is_memory_by_name(const char *path)
{
    static const char *const names[] = {"/memfd:", "/dev/shm/", SEGMENT, "/dev/zero",
                                        "/anon_hugepage"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (hw_starts_with(path, names[i]))
            return true;
    return path[0] != '/'; /* [anon_shmem:...], or without a name */
}

/* Of the last device that was asked about: neighbours are often of one. */
struct mounts {
    int proc_dir;
    char *text; /* owned; NULL = not read, or not to be read */
    bool is_read;
    uint32_t dev_major, dev_minor;
    bool is_known, is_memory;
};

static bool is_memory_by_mount(struct mounts *k, const struct hw_map *m)
{
    size_t n;
    if (!k->is_read)
        (void)hw_file_read(k->proc_dir, "mountinfo", MAX_MOUNTS, &k->text, &n, NULL);
    k->is_read = true;
    if (!k->is_known || k->dev_major != m->dev_major || k->dev_minor != m->dev_minor) {
        k->is_memory = hw_mounts_hold_memory(k->text, m->dev_major, m->dev_minor);
        k->dev_major = m->dev_major;
        k->dev_minor = m->dev_minor;
        k->is_known = true;
    }
    return k->is_memory;
}

int hw_shared_maps_read(int proc_dir, struct hw_shared_maps *out)
{
    struct hw_shared_maps shared = {0};
    struct mounts mounts = {.proc_dir = proc_dir};
    struct hw_maps maps;
    int rc = hw_maps_read(proc_dir, &maps, NULL);
    if (rc < 0)
        return rc;
    for (size_t i = 0; rc == HW_OK && i < maps.maps.n && shared.v.n < HW_SHARED_MAPS_MAX; i++) {
        const struct hw_map *m = &maps.maps.v[i];
        struct hw_shared_map s = {.start = m->start, .end = m->end};
        if (!(m->flags & HW_MAP_SHARED))
            continue;
        s.is_memory = is_memory_by_name(m->path) || is_memory_by_mount(&mounts, m);
        if (hw_starts_with(m->path, SEGMENT) && (m->flags & HW_MAP_DELETED) &&
            m->inode <= UINT32_MAX) {
            s.segment = m->inode + 1;
            s.segment_bytes = m->offset + (m->end - m->start);
        }
        if (hw_vec_push(&shared.v, s) < 0)
            rc = HW_ENOMEM;
    }
    free(mounts.text);
    hw_maps_done(&maps);
    if (rc < 0)
        hw_shared_maps_done(&shared);
    else
        *out = shared;
    return rc;
}

void hw_shared_maps_done(struct hw_shared_maps *m)
{
    hw_vec_done(&m->v);
}

enum hw_shared_kind hw_shared_maps_kind(const struct hw_shared_maps *m, uint64_t address)
{
    size_t i = HW_LOWER_BOUND(mid, 0, m->v.n, m->v.v[mid].end <= address);
    if (i >= m->v.n || m->v.v[i].start > address)
        return HW_SHARED_UNKNOWN;
    return m->v.v[i].is_memory ? HW_SHARED_MEMORY : HW_SHARED_FILE;
}

uint64_t hw_shared_maps_segment(const struct hw_shared_maps *m, uint32_t id)
{
    uint64_t n = 0;
    for (size_t i = 0; i < m->v.n; i++)
        if (m->v.v[i].segment == (uint64_t)id + 1 && m->v.v[i].segment_bytes > n)
            n = m->v.v[i].segment_bytes;
    return n;
}

/*
 * idle_pages.c - see idle_pages.h
 *
 *   pagemap[page]   bit 63 present, 62 swapped, 0-54 number of the page of memory (0 without
 * rights) bitmap          u64 words, bit n of word w = page 64 * w + n; writing a 1 marks, a 0 does
 * nothing kpageflags      u64 a page of memory: bit 15 first, 16 further page of a compound (huge)
 * one
 *
 * Only the first page of a huge one can be marked. Pages are looked up in the order of memory, so
 * that each word is read and written once.
 */
#include "proc/idle_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/files/fd.h"
#include "proc/smaps.h"

#include "base/banned.h"

#define PRESENT   (UINT64_C(1) << 63)
#define FRAME     ((UINT64_C(1) << 55) - 1)
#define TAIL      (UINT64_C(1) << 16)
#define HUGE      512u /* pages of the largest huge page that is searched for */
#define RUN_PAGES 512u /* read from pagemap at once */
#define NO_FRAME  UINT64_MAX

struct place {
    uint64_t frame; /* page of memory, NO_FRAME = none */
    size_t i;       /* of the caller's list */
};

enum hw_idle_way hw_idle_available(void)
{
    if (access(HW_IDLE_BITMAP, R_OK | W_OK) == 0)
        return HW_IDLE_BY_BITMAP;
    return access("/proc/self/clear_refs", W_OK) == 0 ? HW_IDLE_REFERENCED : HW_IDLE_NONE;
}

int hw_idle_open(int proc_dir, const char *bitmap, const char *flags, struct hw_idle *out,
                 struct hw_error *err)
{
    struct hw_idle x = {.dir = proc_dir,
                        .pagemap_fd = -1,
                        .bitmap_fd = -1,
                        .flags_fd = -1,
                        .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE)};
    if (bitmap)
        x.bitmap_fd = open(bitmap, O_RDWR | O_CLOEXEC);
    if (x.bitmap_fd >= 0)
        x.pagemap_fd = openat(proc_dir, "pagemap", O_RDONLY | O_CLOEXEC);
    if (x.pagemap_fd >= 0) {
        x.way = HW_IDLE_BY_BITMAP;
        x.flags_fd = flags ? open(flags, O_RDONLY | O_CLOEXEC) : -1;
    } else if (faccessat(proc_dir, "clear_refs", W_OK, 0) == 0) {
        x.way = HW_IDLE_REFERENCED;
    }
    *out = x;
    if (x.way != HW_IDLE_NONE)
        return HW_OK;
    hw_idle_done(out);
    return hw_fail(err, HW_ENOTFOUND, 0, "the kernel has no idle page bitmap and no clear_refs");
}

void hw_idle_done(struct hw_idle *x)
{
    int *fds[] = {&x->pagemap_fd, &x->bitmap_fd, &x->flags_fd};
    for (size_t i = 0; i < HW_ARRAY_LEN(fds); i++) {
        if (*fds[i] >= 0)
            (void)close(*fds[i]); /* nothing was buffered */
        *fds[i] = -1;
    }
    x->way = HW_IDLE_NONE;
}

/* ---- by the bitmap ---- */

/* The first page of the huge one that this frame is in; itself otherwise. */
static uint64_t first_of(const struct hw_idle *x, uint64_t frame)
{
    uint64_t flags[HUGE];
    uint64_t base = frame & ~(uint64_t)(HUGE - 1);
    size_t n = (size_t)(frame - base + 1);
    if (x->flags_fd < 0 || hw_fd_pread_all(x->flags_fd, &flags[n - 1], 8, frame * 8) < 0 ||
        !(flags[n - 1] & TAIL) || hw_fd_pread_all(x->flags_fd, flags, n * 8, base * 8) < 0)
        return frame;
    while (n > 1 && (flags[n - 1] & TAIL))
        n--;
    return base + n - 1;
}

static int find_frames(const struct hw_idle *x, const uint64_t *pages, size_t n, struct place *out,
                       struct hw_error *err)
{
    uint64_t run[RUN_PAGES];
    for (size_t i = 0; i < n;) {
        size_t k = 1;
        while (i + k < n && k < RUN_PAGES && pages[i + k] == pages[i] + k)
            k++;
        int rc = hw_fd_pread_all(x->pagemap_fd, run, k * 8, pages[i] * 8);
        for (size_t j = 0; j < k; j++) {
            uint64_t e = rc < 0 ? 0 : run[j]; /* no longer mapped */
            out[i + j] = (struct place){e & PRESENT ? e & FRAME : NO_FRAME, i + j};
            if ((e & PRESENT) && (e & FRAME) == 0)
                return hw_fail(
                    err, HW_EPERM, 0,
                    "/proc/PID/pagemap hides where pages lie: that takes root (CAP_SYS_ADMIN)");
            if (e & PRESENT)
                out[i + j].frame = first_of(x, e & FRAME);
        }
        i += k;
    }
    return HW_OK;
}

static int by_frame(const void *a, const void *b)
{
    uint64_t x = ((const struct place *)a)->frame, y = ((const struct place *)b)->frame;
    return (x > y) - (x < y);
}

static int look_at_bitmap(struct hw_idle *x, const uint64_t *pages, size_t n, bool *idle,
                          struct hw_error *err)
{
    hw_autofree struct place *p = calloc(n + 1, sizeof *p);
    if (!p)
        return hw_fail(err, HW_ENOMEM, 0, "idle pages");
    int rc = find_frames(x, pages, n, p, err);
    if (rc < 0)
        return rc;
    qsort(p, n, sizeof *p, by_frame);
    for (size_t i = 0; i < n;) {
        if (p[i].frame == NO_FRAME) { /* swapped out, or never present: nobody has used it */
            idle[p[i++].i] = x->marked;
            continue;
        }
        uint64_t word = p[i].frame / 64, bits, marks = 0;
        if (hw_fd_pread_all(x->bitmap_fd, &bits, 8, word * 8) < 0)
            return hw_fail_sys(err, "idle page bitmap");
        for (; i < n && p[i].frame != NO_FRAME && p[i].frame / 64 == word; i++) {
            uint64_t bit = UINT64_C(1) << p[i].frame % 64;
            idle[p[i].i] = x->marked && (bits & bit);
            marks |= bit;
        }
        if (pwrite(x->bitmap_fd, &marks, 8, (off_t)(word * 8)) != 8)
            return hw_fail_sys(err, "idle page bitmap");
    }
    return HW_OK;
}

/* ---- by the mappings' numbers ---- */

static int look_at_mappings(struct hw_idle *x, const uint64_t *pages, size_t n, bool *idle,
                            struct hw_error *err)
{
    struct hw_smaps m;
    if (hw_smaps_read(x->dir, /* rollup = */ 0, &m) < 0)
        return hw_fail(err, HW_EGONE, 0, "smaps");
    size_t e = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t at = pages[i] * x->page_bytes;
        while (e < m.entries.n && m.entries.v[e].end <= at)
            e++;
        idle[i] = x->marked && e < m.entries.n && m.entries.v[e].start <= at &&
                  m.entries.v[e].referenced_kb == 0;
    }
    hw_smaps_done(&m);
    hw_autofd int fd = openat(x->dir, "clear_refs", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "1", 1) != 1)
        return hw_fail_sys(err, "clear_refs");
    return HW_OK;
}

int hw_idle_scan(struct hw_idle *x, const uint64_t *pages, size_t n, bool *idle,
                 struct hw_error *err)
{
    int rc = x->way == HW_IDLE_BY_BITMAP    ? look_at_bitmap(x, pages, n, idle, err)
             : x->way == HW_IDLE_REFERENCED ? look_at_mappings(x, pages, n, idle, err)
                                            : hw_fail(err, HW_ENOTFOUND, 0, "idle pages");
    if (rc == HW_OK)
        x->marked = true;
    return rc;
}

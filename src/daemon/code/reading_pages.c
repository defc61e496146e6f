/* reading_pages.c - which pages of a process are in memory, by its page map */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "daemon/code/blocking_reader_job.h"

#include "base/banned.h"

#define AT_ONCE 512u /* entries of 8 bytes */
#define PRESENT (UINT64_C(1) << 63)

struct pages_job {
    struct hw_reading_job job;
    uint64_t *pages; /* own */
    bool *resident;  /* own */
    size_t n;
};

/* Pages [i, k) lie within AT_ONCE of each other. */
static int read_some(struct pages_job *p, int fd, size_t i, size_t k)
{
    uint64_t entries[AT_ONCE], first = p->pages[i];
    size_t n = (size_t)(p->pages[k - 1] - first) + 1;
    ssize_t got = pread(fd, entries, n * sizeof *entries, (off_t)(first * sizeof *entries));
    if (got < 0)
        return HW_ESYS;
    if (got == 0)
        return HW_EGONE;
    for (; i < k; i++) {
        size_t at = (size_t)(p->pages[i] - first);
        p->resident[i] = at < (size_t)got / sizeof *entries && (entries[at] & PRESENT);
    }
    return HW_OK;
}

static void run_pages(struct hw_reading_job *j)
{
    struct pages_job *p = (struct pages_job *)(void *)j;
    hw_autofd int fd = openat(j->who.dir, "pagemap", O_RDONLY | O_CLOEXEC);
    j->rc = fd < 0 ? HW_ESYS : HW_OK;
    for (size_t i = 0, k; j->rc == HW_OK && i < p->n; i = k) {
        for (k = i + 1; k < p->n && p->pages[k] - p->pages[i] < AT_ONCE;)
            k++;
        j->rc = read_some(p, fd, i, k);
    }
}

static void drop_pages(struct hw_reading_job *j)
{
    struct pages_job *p = (struct pages_job *)(void *)j;
    free(p->pages);
    free(p->resident);
}

int hw_reading_pages(struct hw_blocking_reader *l, struct hw_reading_who who, const uint64_t *pages,
                     size_t n, bool *resident, uint64_t *cpu_ns)
{
    struct pages_job *p = hw_reading_job_new(sizeof *p, &who, run_pages, drop_pages);
    if (!p)
        return HW_ENOMEM;
    p->n = n;
    p->pages = calloc(n + 1, sizeof *p->pages);
    p->resident = calloc(n + 1, sizeof *p->resident);
    if (!p->pages || !p->resident) {
        hw_reading_job_free(&p->job);
        return HW_ENOMEM;
    }
    memcpy(p->pages, pages, n * sizeof *pages);
    int rc = hw_reading_job_do(l, &p->job);
    if (rc < 0)
        return rc;
    rc = p->job.rc;
    *cpu_ns = p->job.cpu_ns;
    memcpy(resident, p->resident, n * sizeof *resident);
    hw_reading_job_free(&p->job);
    return rc;
}

/* ---- how many of a range ---- */

struct present_job {
    struct hw_reading_job job;
    struct hw_reading_range *ranges; /* own */
    size_t n;
    uint64_t max_pages;
    int error;
};

/* False: it cannot be read. */
static bool count_range(int fd, uint64_t page_bytes, struct hw_reading_range *r)
{
    uint64_t entries[AT_ONCE], n = 0;
    for (uint64_t page = r->lo / page_bytes, end = r->hi / page_bytes; page < end;) {
        size_t want = end - page < AT_ONCE ? (size_t)(end - page) : AT_ONCE;
        ssize_t got = pread(fd, entries, want * sizeof *entries, (off_t)(page * sizeof *entries));
        if (got < (ssize_t)sizeof *entries)
            return false;
        for (size_t i = 0; i < (size_t)got / sizeof *entries; i++)
            n += (entries[i] & PRESENT) != 0;
        page += (size_t)got / sizeof *entries;
    }
    r->n_pages = n;
    return true;
}

static void run_present(struct hw_reading_job *j)
{
    struct present_job *p = (struct present_job *)(void *)j;
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), left = p->max_pages;
    hw_autofd int fd = openat(j->who.dir, "pagemap", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        p->error = errno;
    for (size_t i = 0; fd >= 0 && i < p->n; i++) {
        struct hw_reading_range *r = &p->ranges[i];
        uint64_t pages = (r->hi - r->lo) / page_bytes;
        if (pages > left)
            break;
        left -= pages;
        if (!count_range(fd, page_bytes, r))
            break;
    }
}

static void drop_present(struct hw_reading_job *j)
{
    free(((struct present_job *)(void *)j)->ranges);
}

int hw_reading_present(struct hw_blocking_reader *l, struct hw_reading_who who,
                       struct hw_reading_range *ranges, size_t n, uint64_t max_pages, int *error,
                       uint64_t *cpu_ns)
{
    for (size_t i = 0; i < n; i++)
        ranges[i].n_pages = HW_PAGES_UNKNOWN;
    struct present_job *p = hw_reading_job_new(sizeof *p, &who, run_present, drop_present);
    if (!p)
        return HW_ENOMEM;
    p->n = n;
    p->max_pages = max_pages;
    p->ranges = calloc(n + 1, sizeof *p->ranges);
    if (!p->ranges) {
        hw_reading_job_free(&p->job);
        return HW_ENOMEM;
    }
    memcpy(p->ranges, ranges, n * sizeof *ranges);
    int rc = hw_reading_job_do(l, &p->job);
    if (rc < 0)
        return rc;
    memcpy(ranges, p->ranges, n * sizeof *ranges);
    *error = p->error;
    *cpu_ns = p->job.cpu_ns;
    hw_reading_job_free(&p->job);
    return HW_OK;
}

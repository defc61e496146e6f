#include "proc/heaps/target_memory.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/lower_bound.h"
#include "base/text/text_parts.h"
#include "proc/maps.h"

#include "base/banned.h"

#define PAGE         HW_TARGET_PAGE
#define PRESENT      (UINT64_C(1) << 63)
#define OF_FILE      (UINT64_C(1) << 61) /* or shared */
#define ADDRESS_BITS 47
#define FEW_PAGES    16u /* of the page map, for who follows pointers */

void hw_target_memory_init(struct hw_target_memory *m, const struct hw_smaps *mappings, int mem,
                           int pagemap, uint64_t max_cpu_ns)
{
    m->mappings = mappings;
    m->mem = mem;
    m->pagemap = pagemap;
    m->until_ns = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) + max_cpu_ns;
    hw_target_memory_forget(m);
}

void hw_target_memory_forget(struct hw_target_memory *m)
{
    m->map.n = 0;
    m->window.lo = m->window.hi = 0;
    for (size_t i = 0; i < HW_TARGET_PAGES; i++)
        m->pages[i].lo = UINT64_MAX;
}

bool hw_target_is_late(const struct hw_target_memory *m)
{
    return hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) > m->until_ns;
}

/* ---- mappings ---- */

bool hw_target_is_data(const struct hw_smaps_entry *e)
{
    return (e->flags & HW_MAP_READ) && (e->flags & HW_MAP_WRITE) && !(e->flags & HW_MAP_SHARED);
}

static bool has_no_file(const struct hw_smaps_entry *e)
{
    return !e->path[0] || strcmp(e->path, "[heap]") == 0 || hw_starts_with(e->path, "[anon:");
}

bool hw_target_is_anonymous(const struct hw_smaps_entry *e)
{
    return hw_target_is_data(e) && has_no_file(e);
}

static bool is_private(const struct hw_smaps_entry *e)
{
    return !(e->flags & HW_MAP_SHARED) && has_no_file(e);
}

/* The first that ends behind it. */
static size_t mapping_of(const struct hw_target_memory *m, uint64_t at)
{
    const struct hw_smaps *s = m->mappings;
    return HW_LOWER_BOUND(i, 0, s->entries.n, s->entries.v[i].end <= at);
}

static bool covers(const struct hw_target_memory *m, uint64_t lo, uint64_t hi,
                   bool (*is_fit)(const struct hw_smaps_entry *))
{
    const struct hw_smaps *s = m->mappings;
    uint64_t at = lo;
    for (size_t i = mapping_of(m, lo); at < hi && i < s->entries.n; i++) {
        const struct hw_smaps_entry *e = &s->entries.v[i];
        if (e->start > at || !is_fit(e))
            return false;
        at = e->end;
    }
    return lo < hi && at >= hi;
}

bool hw_target_is_heap(const struct hw_target_memory *m, uint64_t lo, uint64_t hi)
{
    return covers(m, lo, hi, hw_target_is_anonymous);
}

bool hw_target_is_private(const struct hw_target_memory *m, uint64_t lo, uint64_t hi)
{
    return covers(m, lo, hi, is_private);
}

/* A handler of faults in the process may never answer. */
static bool is_watched(const struct hw_target_memory *m, uint64_t at)
{
    const struct hw_smaps *s = m->mappings;
    size_t i = mapping_of(m, at);
    return i == s->entries.n || s->entries.v[i].start > at || s->entries.v[i].has_fault_handler;
}

/* ---- pages ---- */

/* Its word in the page map; 0: none. ahead: pages from it on whose words are wanted, too: each costs the kernel 10 ns. */
static uint64_t page_word(struct hw_target_memory *m, uint64_t page, size_t ahead)
{
    if (page >> (ADDRESS_BITS - 12))
        return 0;
    if (page < m->map.first || page >= m->map.first + m->map.n) {
        size_t n = ahead < HW_TARGET_MAP_PAGES ? ahead : HW_TARGET_MAP_PAGES;
        ssize_t got =
            pread(m->pagemap, m->map.words, n * sizeof(uint64_t), (off_t)(page * sizeof(uint64_t)));
        m->map.first = page;
        m->map.n = got > 0 ? (size_t)got / sizeof(uint64_t) : 0;
    }
    return page - m->map.first < m->map.n ? m->map.words[page - m->map.first] : 0;
}

bool hw_target_is_present(struct hw_target_memory *m, uint64_t page)
{
    return page_word(m, page, HW_TARGET_MAP_PAGES) & PRESENT;
}

/* To read it waits for nobody. */
static bool is_readable(struct hw_target_memory *m, uint64_t page, size_t ahead)
{
    return (page_word(m, page, ahead) & (PRESENT | OF_FILE)) == PRESENT &&
           !is_watched(m, page * PAGE);
}

uint64_t hw_target_resident(struct hw_target_memory *m, uint64_t lo, uint64_t hi)
{
    uint64_t n = 0, first = (lo + PAGE - 1) / PAGE;
    for (uint64_t page = first; page < hi / PAGE; page++) {
        if (page % HW_TARGET_MAP_PAGES == 0 && hw_target_is_late(m))
            break;
        n += page_word(m, page, hi / PAGE - page) & PRESENT ? PAGE : 0;
    }
    return n;
}

/* n: at most, of pages that follow each other; how many there are. */
static int load(struct hw_target_memory *m, uint64_t first, size_t *n, uint8_t *out)
{
    size_t most = *n;
    *n = 0;
    if (hw_target_is_late(m))
        return HW_ETIMEOUT;
    size_t ahead = most == 1 ? FEW_PAGES : HW_TARGET_MAP_PAGES;
    while (*n < most && is_readable(m, first + *n, ahead))
        ++*n;
    return *n > 0 && hw_fd_pread_all(m->mem, out, *n * PAGE, first * PAGE) == HW_OK ? HW_OK
                                                                                    : HW_EGONE;
}

int hw_target_word(struct hw_target_memory *m, uint64_t at, uint64_t *out)
{
    if (at % sizeof *out)
        return HW_EFORMAT;
    if (at < m->window.lo || at >= m->window.hi) {
        size_t n = HW_TARGET_WINDOW_PAGES;
        m->window.lo = m->window.hi = 0;
        int rc = load(m, at / PAGE, &n, m->window.bytes);
        if (rc < 0)
            return rc;
        m->window.lo = at / PAGE * PAGE;
        m->window.hi = m->window.lo + n * PAGE;
    }
    memcpy(out, m->window.bytes + (at - m->window.lo), sizeof *out);
    return HW_OK;
}

int hw_target_word_anywhere(struct hw_target_memory *m, uint64_t at, uint64_t *out)
{
    size_t i = at / PAGE % HW_TARGET_PAGES;
    if (at % sizeof *out)
        return HW_EFORMAT;
    if (m->pages[i].lo != at / PAGE * PAGE) {
        size_t n = 1;
        m->pages[i].lo = UINT64_MAX;
        int rc = load(m, at / PAGE, &n, m->pages[i].bytes);
        if (rc < 0)
            return rc;
        m->pages[i].lo = at / PAGE * PAGE;
    }
    memcpy(out, m->pages[i].bytes + at % PAGE, sizeof *out);
    return HW_OK;
}

int hw_target_read(struct hw_target_memory *m, uint64_t at, void *out, size_t n)
{
    if (at + n < at)
        return HW_EGONE;
    if (hw_target_is_late(m))
        return HW_ETIMEOUT;
    for (uint64_t page = at / PAGE; page <= (at + n - 1) / PAGE; page++)
        if (!is_readable(m, page, FEW_PAGES))
            return HW_EGONE;
    return hw_fd_pread_all(m->mem, out, n, at) == HW_OK ? HW_OK : HW_EGONE;
}

int hw_target_page(int mem, int pagemap, uint64_t page, uint8_t out[HW_TARGET_PAGE])
{
    uint64_t word;
    if (page >> (ADDRESS_BITS - 12) ||
        hw_fd_pread_all(pagemap, &word, sizeof word, page * sizeof word) < 0 || !(word & PRESENT))
        return HW_EGONE;
    return hw_fd_pread_all(mem, out, PAGE, page * PAGE) == HW_OK ? HW_OK : HW_EGONE;
}

/*
 * go_heap.c - Go's statistics (runtime.memstats) among the program's variables, in words:
 *
 *     3 times      0 committed, 1 released, 2 in spans of objects, 3 of stacks, 4 of work buffers, 5 of pointer bits
 *     (their sum   6 tiny objects, 7 bytes of large objects, 8 large objects
 *     counts)      9 objects allocated, by class of 68; 77 bytes of large objects freed, 78 large objects freed
 *                 79 objects freed, by class of 68
 *     then       441 which of the three is written, 442 a lock
 *                443 stacks of the system, 444 spans, 445 caches, 446 profiling, 447 collector, 448 other
 */
#include "proc/heaps/go_heap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "proc/heaps/target_memory.h"
#include "proc/heaps/target_variables.h"

#include "base/banned.h"

#define MAX_CPU_NS   UINT64_C(100000000)
#define HEAP_START   UINT64_C(0xc000000000)
#define HEAP_END     UINT64_C(0xd000000000)
#define SPAN_PAGE    8192u
#define MOST_BYTES   (UINT64_C(1) << 46)
#define CLASSES      68u
#define TURNS        3u
#define SUMMED       147u /* words */
#define AT_TURN      441u
#define AT_SYSTEM    443u
#define AT_PROFILING 446u
#define N_SYSTEM     6u
#define STATS        (AT_SYSTEM + N_SYSTEM)
#define AT_LARGE     7u
#define AT_SMALL     9u
#define AT_FREED     77u
#define AT_SMALL_OFF 79u

enum { COMMITTED, RELEASED, IN_USE, STACKS, WORK, BITS, N_FIRST };

static const uint16_t class_bytes[CLASSES] = {
    0,     8,     16,    24,    32,    48,    64,    80,    96,    112,   128,   144,  160,   176,
    192,   208,   224,   240,   256,   288,   320,   352,   384,   416,   448,   480,  512,   576,
    640,   704,   768,   896,   1024,  1152,  1280,  1408,  1536,  1792,  2048,  2304, 2688,  3072,
    3200,  3456,  4096,  4864,  5376,  6144,  6528,  6784,  6912,  8192,  9472,  9728, 10240, 10880,
    12288, 13568, 14336, 16384, 18432, 19072, 20480, 21760, 24576, 27264, 28672, 32768};

/* Of the three turns, which are differences: it may overflow and come back. */
static uint64_t sum(const uint64_t *w, size_t i)
{
    uint64_t n = 0;
    for (size_t t = 0; t < TURNS; t++)
        n += w[t * SUMMED + i];
    return n;
}

static bool is_pages(uint64_t n, uint64_t page)
{
    return n % page == 0 && n < MOST_BYTES;
}

/* No more was freed than allocated, of any class, and what is left fits. */
static bool add_objects(const uint64_t *w, uint64_t in_use, uint64_t *objects)
{
    uint64_t large = sum(w, AT_LARGE), freed = sum(w, AT_FREED);
    if (sum(w, AT_SMALL) != 0 || sum(w, AT_SMALL_OFF) != 0 || freed > large ||
        large - freed > in_use)
        return false;
    *objects = large - freed;
    for (size_t c = 1; c < CLASSES; c++) {
        uint64_t n = sum(w, AT_SMALL + c), off = sum(w, AT_SMALL_OFF + c);
        if (off > n || n - off > in_use / class_bytes[c])
            return false;
        *objects += (n - off) * class_bytes[c];
    }
    return *objects > 0 && *objects <= in_use;
}

/* Bytes that are mapped: of the range of its heap, and where its tables can be. */
struct mapped {
    uint64_t heap, beside;
};

static bool is_stats(const uint64_t *w, const struct mapped *mapped, struct hw_go_heap *out)
{
    uint64_t f[N_FIRST], system = 0;
    for (size_t i = 0; i < N_FIRST; i++) {
        f[i] = sum(w, i);
        if (!is_pages(f[i], i < IN_USE ? HW_TARGET_PAGE : SPAN_PAGE))
            return false;
    }
    uint64_t used = f[IN_USE] + f[STACKS] + f[WORK] + f[BITS];
    if (f[COMMITTED] + f[RELEASED] != mapped->heap || f[IN_USE] == 0 || f[STACKS] == 0 ||
        used > f[COMMITTED] || !add_objects(w, f[IN_USE], &out->objects))
        return false;
    if (w[AT_TURN] >= TURNS)
        return false;
    for (size_t i = 1; i < N_SYSTEM; i++) { /* stacks of the system are the program's */
        bool may_be_none = AT_SYSTEM + i == AT_PROFILING;
        if (w[AT_SYSTEM + i] >= MOST_BYTES || (w[AT_SYSTEM + i] == 0 && !may_be_none))
            return false;
        system += w[AT_SYSTEM + i];
    }
    if (system > mapped->beside)
        return false;
    out->state = HW_GO_HEAP_KNOWN;
    out->committed = f[COMMITTED];
    out->in_use = f[IN_USE];
    out->stacks = f[STACKS];
    out->work = f[WORK] + f[BITS];
    out->idle = f[COMMITTED] - used;
    out->metadata = system;
    return true;
}

static bool is_any_file(const char *path)
{
    return path[0] == '/';
}

static struct mapped mapped_of(const struct hw_smaps *s)
{
    struct mapped m = {0};
    for (size_t i = 0; i < s->entries.n; i++) {
        const struct hw_smaps_entry *e = &s->entries.v[i];
        bool is_named = e->path[0] && strncmp(e->path, "[anon: Go:", 10) != 0;
        bool is_heap = !is_named && e->start >= HEAP_START && e->end <= HEAP_END;
        if (is_heap && hw_target_is_data(e))
            m.heap += e->end - e->start;
        else if (hw_target_is_anonymous(e))
            m.beside += e->end - e->start;
    }
    return m;
}

/* The last one: a turn that is zero, and zeros before the first, make it fit earlier. */
static void find_stats(const struct hw_target_memory *m, const struct hw_target_variables *all,
                       const struct mapped *mapped, struct hw_go_heap *out)
{
    for (size_t i = 0; i < all->v.n; i++)
        for (uint64_t k = 0; k + STATS <= all->v.v[i].n; k++) {
            struct hw_go_heap found;
            if (is_stats(all->v.v[i].words + k, mapped, &found))
                *out = found;
            if (k % 1024 == 0 && hw_target_is_late(m)) {
                *out = (struct hw_go_heap){.state = HW_GO_HEAP_UNKNOWN};
                return;
            }
        }
}

int hw_go_heap_read(const struct hw_smaps *s, int mem, int pagemap, struct hw_go_heap *out)
{
    struct mapped mapped = mapped_of(s);
    *out = (struct hw_go_heap){.state = HW_GO_HEAP_NONE};
    if (mem < 0 || pagemap < 0 || mapped.heap == 0)
        return HW_OK;
    struct hw_target_memory *m = calloc(1, sizeof *m);
    struct hw_target_variables all = {.v = {0}};
    if (!m)
        return HW_ENOMEM;
    hw_target_memory_init(m, s, mem, pagemap, MAX_CPU_NS);
    int rc = hw_target_variables_read(m, s, is_any_file, &all);
    out->state = HW_GO_HEAP_UNKNOWN;
    if (rc == HW_OK)
        find_stats(m, &all, &mapped, out);
    hw_target_variables_done(&all);
    free(m);
    return rc;
}

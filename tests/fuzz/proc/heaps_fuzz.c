/*
 * heaps_fuzz.c - any bytes as a process whose heaps are read from outside: malloc's arenas, Python's, Go's and the samples of its
 * allocations, a JVM's figures, V8's spaces
 *
 *     u8  1 = not all mappings are known     u64 where the program's break began; Go's sampling rate; a JVM's table of types
 *     u8  number of mappings, each:          u64 page  u32 pages  u8 flags (enum hw_map_flags, 16 = fault handler)  u8 name
 *     then pages in memory until the end:    u64 page  u8 1 = a file's  u16 bytes, which follow; the rest of the page is zero
 *
 * Little-endian. Memory and page map are files with holes. Seeds are small heaps that are known, and lies about them
 * (*_twice, *_unmapped, *_at_the_end).
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "proc/heaps/glibc_arenas.h"
#include "proc/heaps/go_heap.h"
#include "proc/heaps/go_profile.h"
#include "proc/heaps/jvm_code.h"
#include "proc/heaps/jvm_counters.h"
#include "proc/heaps/python_heap.h"
#include "proc/heaps/target_memory.h"
#include "proc/heaps/v8_heap.h"
#include "proc/maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#define PAGE           HW_TARGET_PAGE
#define LAST_PAGE      (UINT64_C(1) << 35)
#define PRESENT        (UINT64_C(1) << 63)
#define OF_FILE        (UINT64_C(1) << 61)
#define MAX_FILE_PAGES 256u
#define FLAGS          15u
#define HANDLER        16u
#define MAX_CPU_NS     UINT64_C(3000000000) /* far beyond what a reader may take, with a sanitizer */

static char names[][24] = {"",
                           "[heap]",
                           "[stack]",
                           "[anon: Go: heap]",
                           "/lib/libc.so.6",
                           "/usr/bin/python3",
                           "/lib/libpython3.12.so",
                           "/app",
                           "/tmp/hsperfdata_u/1"};

struct input {
    const uint8_t *p;
    size_t n;
};

static uint64_t take(struct input *in, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes && in->n; i++, in->p++, in->n--)
        v |= (uint64_t)*in->p << (8 * i);
    return v;
}

static int by_start(const void *pa, const void *pb)
{
    const struct hw_smaps_entry *a = pa, *b = pb;
    return a->start < b->start ? -1 : a->start > b->start;
}

/* In the kernel's order, none in another. */
static void take_mappings(struct input *in, struct hw_smaps *s)
{
    size_t kept = 0;
    for (uint64_t n = take(in, 1); n > 0 && in->n; n--) {
        uint64_t start = take(in, 8) % LAST_PAGE, pages = take(in, 4), flags = take(in, 1);
        struct hw_smaps_entry e = {.start = start * PAGE,
                                   .rss_kb = PAGE >> 10, /* or it is passed over */
                                   .flags = (uint32_t)flags & FLAGS,
                                   .has_fault_handler = flags & HANDLER,
                                   .path = names[take(in, 1) % (sizeof names / sizeof *names)]};
        if (e.path[0] ==
            '/') /* variables are all looked at, up to 64 MiB, which would take most of the time */
            pages %= MAX_FILE_PAGES;
        e.end = (pages < LAST_PAGE - start ? start + pages : LAST_PAGE) * PAGE;
        if (e.end > e.start && hw_vec_push(&s->entries, e) < 0)
            abort();
    }
    if (s->entries.n)
        qsort(s->entries.v, s->entries.n, sizeof *s->entries.v, by_start);
    for (size_t i = 0; i < s->entries.n; i++)
        if (kept == 0 || s->entries.v[kept - 1].end <= s->entries.v[i].start)
            s->entries.v[kept++] = s->entries.v[i];
    s->entries.n = kept;
}

static void put(int fd, const void *p, size_t n, uint64_t at)
{
    if (pwrite(fd, p, n, (off_t)at) != (ssize_t)n)
        abort();
}

static void take_pages(struct input *in, int mem, int pagemap)
{
    if (ftruncate(mem, 0) | ftruncate(pagemap, 0) | ftruncate(mem, (off_t)(LAST_PAGE * PAGE)) |
        ftruncate(pagemap, (off_t)(LAST_PAGE * 8)))
        abort();
    while (in->n) {
        uint64_t page = take(in, 8) % LAST_PAGE, word = PRESENT | (take(in, 1) & 1 ? OF_FILE : 0);
        uint64_t n = take(in, 2) % (PAGE + 1);
        n = n < in->n ? n : in->n;
        put(mem, in->p, n, page * PAGE);
        put(pagemap, &word, sizeof word, page * sizeof word);
        in->p += n;
        in->n -= n;
    }
}

static void must(bool is_true)
{
    if (!is_true)
        __builtin_trap();
}

static uint64_t sum_of(const struct hw_smaps *s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s->entries.n; i++)
        if (hw_target_is_data(&s->entries.v[i]))
            n += s->entries.v[i].end - s->entries.v[i].start;
    return n;
}

static void read_arenas(const struct hw_smaps *s, int mem, int pagemap, uint64_t heap_start)
{
    struct hw_glibc_arenas all;
    uint64_t sum = 0, n_main = 0;
    if (hw_glibc_arenas_read(s, mem, pagemap, heap_start, &all) < 0)
        return;
    must(all.v.n <= HW_GLIBC_ARENAS_MAX);
    for (size_t i = 0; i < all.v.n; i++) {
        const struct hw_glibc_arena *a = &all.v.v[i];
        n_main += a->is_main;
        sum += a->system;
        must(a->system <= sum);
        if (a->state != HW_GLIBC_ARENA_KNOWN)
            continue;
        must(a->in_use <= a->system && a->is_free <= a->system && a->top <= a->system &&
             a->cached <= a->system && a->fast <= a->system && a->returnable <= a->system &&
             a->resident <= a->system);
        must(a->in_use + a->is_free + a->top + a->cached + a->fast == a->system);
    }
    must(n_main <= 1 && sum <= sum_of(s));
    hw_glibc_arenas_done(&all);
}

static void read_python(const struct hw_smaps *s, int mem, int pagemap)
{
    struct hw_python_heap h;
    if (hw_python_heap_read(s, mem, pagemap, &h) < 0 || h.state != HW_PYTHON_HEAP_KNOWN)
        return;
    must(h.committed == h.arenas << 20 && h.committed <= sum_of(s) && h.resident <= h.committed);
    must(h.used <= h.committed && h.free_blocks <= h.committed &&
         h.used + h.free_blocks + h.free_pools <= h.committed);
}

static void read_go(const struct hw_smaps *s, int mem, int pagemap)
{
    struct hw_go_heap h;
    if (hw_go_heap_read(s, mem, pagemap, &h) < 0 || h.state != HW_GO_HEAP_KNOWN)
        return;
    must(h.in_use + h.idle + h.stacks + h.work == h.committed && h.objects <= h.in_use);
    must(h.metadata <= sum_of(s) && h.committed <= sum_of(s) - h.metadata);
}

static void read_go_profile(const struct hw_smaps *s, int mem, int pagemap, uint64_t rate)
{
    struct hw_go_places at = {.table = rate & ~(HW_TARGET_PAGE - 1),
                              .table_bytes = HW_TARGET_PAGE,
                              .data_word = 38,
                              .rate = rate,
                              .rate_before = 1};
    struct hw_go_profile p;
    if (hw_go_profile_read(s, mem, pagemap, &at, &p) < 0)
        return;
    must(p.state == HW_GO_PROFILE_KNOWN || (p.buckets.n == 0 && p.pcs.n == 0));
    must(p.buckets.n <= HW_GO_BUCKETS_MAX);
    for (size_t i = 0; i < p.buckets.n; i++) {
        const struct hw_go_bucket *b = &p.buckets.v[i];
        must(b->n <= HW_GO_DEPTH_MAX && b->first <= p.pcs.n && b->n <= p.pcs.n - b->first);
        must(b->size > 0 && b->freed <= b->allocated);
    }
    hw_go_profile_done(&p);
}

static bool text_at(void *arg, uint64_t at, char *out, size_t max)
{
    static const char *const texts[] = {"CodeCache",          "_heaps",
                                        "GrowableArrayBase",  "_len",
                                        "GrowableArray<int>", "_data",
                                        "CodeHeap",           "_memory",
                                        "CodeHeap",           "_log2_segment_size",
                                        "VirtualSpace",       "_low",
                                        "VirtualSpace",       "_high",
                                        "HeapBlock",          "_header",
                                        "HeapBlock::Header",  "_length",
                                        "HeapBlock::Header",  "_used"};
    const char *text = texts[at % (sizeof texts / sizeof *texts)];
    (void)arg;
    must(strlen(text) < max);
    memcpy(out, text, strlen(text) + 1);
    return true;
}

static void read_jvm_code(const struct hw_smaps *s, int mem, int pagemap, uint64_t table)
{
    struct hw_jvm_texts texts = {text_at, NULL};
    struct hw_jvm_code code;
    if (hw_jvm_code_read(s, mem, pagemap, table, &texts, &code) < 0 || !code.is_known)
        return;
    must(code.used <= code.committed && code.committed <= sum_of(s));
}

static void read_v8(const struct hw_smaps *s, int mem, int pagemap, bool is_later)
{
    struct hw_v8_heap h;
    uint64_t sum = 0, mapped = 0;
    if (hw_v8_heap_read(s, mem, pagemap, is_later ? 12 : 11, is_later ? 4 : 3, &h) < 0)
        return;
    for (size_t i = 0; i < s->entries.n; i++)
        if (!(s->entries.v[i].flags & HW_MAP_SHARED))
            mapped += s->entries.v[i].end - s->entries.v[i].start;
    for (size_t i = 0; i < HW_V8_SPACES; i++) {
        sum += h.spaces[i].committed;
        must(h.spaces[i].used <= h.spaces[i].committed &&
             h.spaces[i].resident <= h.spaces[i].committed);
    }
    must(sum <= mapped && (h.state == HW_V8_HEAP_KNOWN || sum == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static int mem = -1, pagemap = -1;
    struct input in = {data, n};
    struct hw_smaps s = {.cut = take(&in, 1) & 1};
    struct hw_jvm_counters jvm;
    uint64_t heap_start = take(&in, 8), began = hw_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (mem < 0) {
        mem = memfd_create("mem", MFD_CLOEXEC);
        pagemap = memfd_create("pagemap", MFD_CLOEXEC);
    }
    take_mappings(&in, &s);
    take_pages(&in, mem, pagemap);
    read_arenas(&s, mem, pagemap, heap_start);
    read_python(&s, mem, pagemap);
    read_go(&s, mem, pagemap);
    read_go_profile(&s, mem, pagemap, heap_start);
    read_jvm_code(&s, mem, pagemap, heap_start);
    read_v8(&s, mem, pagemap, heap_start & 1);
    (void)hw_jvm_counters_read(&s, mem, pagemap, &jvm);
    hw_vec_done(&s.entries);
    must(hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began < MAX_CPU_NS);
    return 0;
}

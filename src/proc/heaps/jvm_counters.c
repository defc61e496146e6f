/*
 * jvm_counters.c - the file's layout, all numbers in the JVM's byte order:
 *
 *     +0  u4 magic (big-endian)  +4 u1 byte order  +5 u1 major  +6 u1 minor  +7 u1 accessible
 *     +8  i4 used  +12 i4 overflow  +16 i8 time  +24 i4 first entry  +28 i4 number of entries
 *
 *     entry: +0 i4 length  +4 i4 name  +8 i4 elements (0 = a scalar)  +12 u1 type ('J')  +13 u1 flags
 *            +14 u1 unit  +15 u1 variability  +16 i4 value; offsets from the entry's beginning
 */
#include "proc/heaps/jvm_counters.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/text_parts.h"
#include "proc/heaps/target_memory.h"

#include "base/banned.h"

#define MAGIC       0xcafec0c0u
#define HEAD_BYTES  32u
#define ENTRY_BYTES 20u
#define MAX_ENTRIES 4096u
#define MOST_BYTES  65536u /* HotSpot's are 32 KiB */
#define AT_USED     8u

bool hw_jvm_counters_are_in(const char *path)
{
    return strstr(path, "/hsperfdata_") != NULL;
}

static uint32_t u32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static bool is(const char *name, const char *what)
{
    return strcmp(name, what) == 0;
}

/* sun.gc.generation.0.space.1.used: behind the number of the generation; NULL = it is no such. */
static const char *of_generation(const char *name)
{
    static const char begin[] = "sun.gc.generation.";
    if (!hw_starts_with(name, begin))
        return NULL;
    const char *rest = name + sizeof begin - 1;
    rest += strspn(rest, "0123456789");
    return *rest == '.' ? rest + 1 : NULL;
}

static const char *of_space(const char *rest)
{
    static const char begin[] = "space.";
    if (!hw_starts_with(rest, begin))
        return NULL;
    rest += sizeof begin - 1;
    rest += strspn(rest, "0123456789");
    return *rest == '.' ? rest + 1 : NULL;
}

static void add(uint64_t *to, uint64_t v)
{
    if (*to == UINT64_MAX)
        *to = 0;
    *to = v < UINT64_MAX - 1 - *to ? *to + v : UINT64_MAX - 1;
}

/* Of G1 each generation may take the whole heap, and says so as its maximum. */
struct taken {
    struct hw_jvm_counters c;
    uint64_t largest_max; /* of a generation */
    bool is_g1;
};

static void take(struct taken *t, const char *name, uint64_t v)
{
    struct hw_jvm_counters *c = &t->c;
    const char *generation = of_generation(name), *space = generation ? of_space(generation) : NULL;
    if (space && is(space, "used"))
        add(&c->heap_used, v);
    else if (generation && is(generation, "capacity"))
        add(&c->heap_committed, v);
    else if (generation && is(generation, "maxCapacity")) {
        add(&c->heap_max, v);
        t->largest_max = v > t->largest_max ? v : t->largest_max;
    } else if (is(name, "sun.gc.metaspace.used"))
        c->metaspace_used = v;
    else if (is(name, "sun.gc.metaspace.capacity"))
        c->metaspace_committed = v;
    else if (is(name, "java.threads.live"))
        c->threads = v;
}

/* Its bytes lie within n; they are the target's. */
static void take_entry(struct taken *t, const uint8_t *e, uint32_t n)
{
    static const char g1[] = "G1";
    uint32_t name = u32(e + 4), elements = u32(e + 8), value = u32(e + 16);
    uint64_t v;
    if (name >= n || value > n || n - value < sizeof v || !memchr(e + name, 0, n - name))
        return;
    if (elements >= sizeof g1 && e[12] == 'B' &&
        is((const char *)e + name, "sun.gc.collector.0.name"))
        t->is_g1 = memcmp(e + value, g1, sizeof g1 - 1) == 0;
    if (elements != 0 || e[12] != 'J')
        return;
    memcpy(&v, e + value, sizeof v);
    take(t, (const char *)e + name, v);
}

bool hw_jvm_counters_parse(const uint8_t *p, size_t n, struct hw_jvm_counters *out)
{
    struct taken t = {
        .c = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};
    bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    if (n < HEAD_BYTES ||
        __builtin_bswap32(u32(p)) != (little ? MAGIC : __builtin_bswap32(MAGIC)) ||
        p[4] != little || p[5] != 2 || p[7] == 0)
        return false;
    uint32_t at = u32(p + 24), left = u32(p + 28);
    for (; left > 0 && left <= MAX_ENTRIES && at <= n && n - at >= ENTRY_BYTES; left--) {
        uint32_t length = u32(p + at);
        if (length < ENTRY_BYTES || length > n - at)
            break;
        take_entry(&t, p + at, length);
        at += length;
    }
    if (t.is_g1)
        t.c.heap_max = t.largest_max;
    if (t.c.metaspace_committed == 0) /* told at collections only, and there was none */
        t.c.metaspace_used = t.c.metaspace_committed = UINT64_MAX;
    *out = t.c;
    return true;
}

bool hw_jvm_counters_read(const struct hw_smaps *s, int mem, int pagemap,
                          struct hw_jvm_counters *out)
{
    const struct hw_smaps_entry *e = NULL;
    size_t got = 0;
    for (size_t i = 0; !e && i < s->entries.n; i++) {
        const struct hw_smaps_entry *x = &s->entries.v[i];
        if (hw_jvm_counters_are_in(x->path) && x->end > x->start &&
            x->end - x->start <= MOST_BYTES && !x->has_fault_handler)
            e = x;
    }
    if (!e || mem < 0 || pagemap < 0)
        return false;
    size_t n = e->end - e->start;
    hw_autofree uint8_t *p = malloc(n);
    while (p && got + HW_TARGET_PAGE <= n &&
           hw_target_page(mem, pagemap, (e->start + got) / HW_TARGET_PAGE, p + got) == HW_OK)
        got += HW_TARGET_PAGE;
    return got > 0 && u32(p + AT_USED) <= got && hw_jvm_counters_parse(p, got, out);
}

/*
 * jvm_code_test.c - a code cache that this process only pretends to have: two heaps, described as HotSpot describes its own
 */
#include "test.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "proc/heaps/jvm_code.h"

enum { ENTRY = 6, SEGMENT_LOG2 = 7, SEGMENT = 1 << SEGMENT_LOG2, HEAP_BYTES = 16384 };

static const struct entry {
    const char *type, *field;
    uint64_t offset;
} fields[] = {
    {"Universe", "_heap", 0}, /* one of many that do not matter */
    {"CodeCache", "_heaps", 0},
    {"GrowableArrayBase", "_len", 4},
    {"GrowableArray<int>", "_data", 8},
    {"CodeHeap", "_memory", 16},
    {"CodeHeap", "_log2_segment_size", 84},
    {"VirtualSpace", "_low", 8},
    {"VirtualSpace", "_high", 24},
    {"HeapBlock", "_header", 0},
    {"HeapBlock::Header", "_length", 0},
    {"HeapBlock::Header", "_used", 8},
};
enum { N = sizeof fields / sizeof *fields };

/* One page of words, and the heaps behind it. */
static struct fake {
    uint64_t table, entries[(N + 1) * ENTRY]; /* the pointer to the entries */
    uint64_t list_at, list[2], data[2], heap[2][12];
} * fake;
static uint8_t *heaps;

static uint64_t address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

static bool text_of(void *arg, uint64_t at, char *out, size_t max)
{
    (void)arg;
    if (at == 0 || at > 2 * (uint64_t)N)
        return false;
    const struct entry *e = &fields[(at - 1) / 2];
    const char *text = at % 2 ? e->type : e->field;
    if (strlen(text) >= max)
        return false;
    memcpy(out, text, strlen(text) + 1);
    return true;
}

static void put_block(size_t heap, size_t segment, uint64_t segments, bool is_used)
{
    uint8_t *p = heaps + heap * HEAP_BYTES + segment * SEGMENT;
    memcpy(p, &segments, sizeof segments);
    p[8] = is_used;
}

static void begin(void)
{
    void *p = mmap(NULL, 4096 + 2 * HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    assert_true(p != MAP_FAILED);
    _Static_assert(sizeof *fake <= 4096, "a page");
    fake = p;
    heaps = (uint8_t *)p + 4096;
    fake->table = address(fake->entries);
    for (uint64_t i = 0; i < N; i++) {
        uint64_t *w = fake->entries + i * ENTRY;
        w[0] = 2 * i + 1;
        w[1] = 2 * i + 2;
        w[3] = i == 1;
        w[4] = fields[i].offset;
        w[5] = i == 1 ? address(&fake->list_at) : 0;
    }
    fake->list_at = address(fake->list);
    fake->list[0] = UINT64_C(2) << 32; /* how many */
    fake->list[1] = address(fake->data);
    for (size_t i = 0; i < 2; i++) {
        fake->data[i] = address(fake->heap[i]);
        fake->heap[i][3] = address(heaps + i * HEAP_BYTES);
        fake->heap[i][5] = address(heaps + (i + 1) * HEAP_BYTES);
        fake->heap[i][10] = (uint64_t)SEGMENT_LOG2 << 32;
        memset(heaps + i * HEAP_BYTES, 0, HEAP_BYTES);
    }
    put_block(0, 0, 10, true);
    put_block(0, 10, 5, false);
    put_block(0, 15, HEAP_BYTES / SEGMENT - 15, true); /* up to its end */
    put_block(1, 0, 3, true);
}

static struct hw_jvm_code read_it(void)
{
    struct hw_smaps s;
    struct hw_jvm_code code;
    struct hw_jvm_texts texts = {text_of, NULL};
    hw_autofd int dir = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    hw_autofd int mem = openat(dir, "mem", O_RDONLY | O_CLOEXEC);
    hw_autofd int pagemap = openat(dir, "pagemap", O_RDONLY | O_CLOEXEC);
    assert_int_equal(hw_smaps_read(dir, 0, &s), HW_OK);
    assert_int_equal(hw_jvm_code_read(&s, mem, pagemap, address(&fake->table), &texts, &code),
                     HW_OK);
    hw_smaps_done(&s);
    return code;
}

static void blocks_in_use_are_summed(void **state)
{
    (void)state;
    begin();
    struct hw_jvm_code code = read_it();
    assert_true(code.is_known);
    assert_int_equal(code.committed, 2 * HEAP_BYTES);
    assert_int_equal(code.used, HEAP_BYTES - 5 * SEGMENT + 3 * SEGMENT);
    (void)munmap(fake, 4096 + 2 * HEAP_BYTES);
}

/* As of JDK 25: the word of the length has the mark in its upper half. */
static void lengths_may_be_half_a_word(void **state)
{
    (void)state;
    begin();
    fake->entries[(N - 1) * ENTRY + 4] = 4;
    for (size_t i = 0; i < 2 * HEAP_BYTES; i += SEGMENT) {
        heaps[i + 4] = heaps[i + 8];
        heaps[i + 8] = 0xa5;
    }
    struct hw_jvm_code code = read_it();
    assert_true(code.is_known);
    assert_int_equal(code.used, HEAP_BYTES - 5 * SEGMENT + 3 * SEGMENT);
    (void)munmap(fake, 4096 + 2 * HEAP_BYTES);
}

static void lies_are_not_believed(void **state)
{
    (void)state;
    begin();
    const struct {
        uint64_t *word, value;
    } lies[] = {
        {&fake->table, 8},                                  /* nothing is there */
        {&fake->entries[2 * ENTRY], 0},                     /* it ends early */
        {&fake->entries[4 * ENTRY + 4], UINT64_C(1) << 40}, /* an offset */
        {&fake->list_at, 4},
        {&fake->list[0], UINT64_C(1000) << 32},
        {&fake->data[1], address(fake->heap[0])}, /* the same heap twice */
        {&fake->heap[0][3], address(heaps) + 8},
        {&fake->heap[0][5], address(heaps) + (UINT64_C(1) << 40)}, /* more than is mapped */
        {&fake->heap[0][5], address(heaps)},
        {&fake->heap[0][10], UINT64_C(60) << 32},
        {(uint64_t *)(void *)heaps, 1000}, /* a block beyond its heap */
        {(uint64_t *)(void *)heaps, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        uint64_t before = *lies[i].word;
        *lies[i].word = lies[i].value;
        assert_false(read_it().is_known);
        *lies[i].word = before;
    }
    assert_true(read_it().is_known);
    (void)munmap(fake, 4096 + 2 * HEAP_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_in_use_are_summed),
        cmocka_unit_test(lengths_may_be_half_a_word),
        cmocka_unit_test(lies_are_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

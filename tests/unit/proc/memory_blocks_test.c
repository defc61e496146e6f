/* Large blocks of malloc: of this very process, whose blocks and mappings are known. */
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc/memory_owner.h"

#define MIB  ((size_t)1 << 20)
#define PAGE ((size_t)4096)

/* Resident and whole bytes by name, of what lies in [start, start + size). */
struct owned {
    uint64_t rss, size;
};

static struct owned owned_by(const char *name, const void *start, size_t size)
{
    int dir = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct hw_smaps s;
    struct hw_owner_facts f;
    struct owned sum = {0};
    uint64_t from = (uintptr_t)start & ~(uint64_t)(PAGE - 1), to = from + size;
    assert_true(dir >= 0);
    assert_int_equal(hw_smaps_read(dir, 0, &s), 0);
    assert_int_equal(hw_owner_facts_read(dir, HW_OWNER_GLIBC, &f), 0);
    assert_int_equal(hw_owners_name(&s, &f), 0);
    for (size_t i = 0; i < s.entries.n; i++) {
        const struct hw_smaps_entry *e = &s.entries.v[i];
        if (e->start >= to || e->end <= from || strcmp(e->path, name) != 0)
            continue;
        sum.rss += e->rss_kb * 1024;
        sum.size += e->size_kb * 1024;
    }
    hw_owner_facts_done(&f);
    hw_smaps_done(&s);
    (void)close(dir);
    return sum;
}

static void *mapped(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

/* A block of whoever reads all this may lie beside it, and counts with it. */
static void near(uint64_t have, uint64_t want)
{
    assert_in_range(have, want - 64 * 1024, want + MIB);
}

static bool is_glibc(void)
{
    char *volatile p = malloc(4 * MIB);
    uintptr_t at = (uintptr_t)p;
    bool is = at % PAGE == 16 && *(const size_t *)(at - 8) == ((4 * MIB + PAGE) | 2);
    free(p);
    return is;
}

/* numpy advises the kernel about the inside of its arrays, and the kernel divides the mapping there. */
static void block_over_mappings(void **state)
{
    (void)state;
    if (!is_glibc())
        skip();
    size_t size = 8 * MIB;
    char *block = malloc(size), *inner = (char *)(((uintptr_t)block + MIB) & ~(MIB - 1));
    memset(block, 1, size / 2);
    assert_int_equal(madvise(inner, size / 4, MADV_DONTDUMP), 0);
    assert_int_equal(madvise(inner + size / 2 + MIB, MIB, MADV_DONTDUMP), 0); /* never touched */
    struct owned o = owned_by("[malloc block]", block, size);
    near(o.rss, size / 2);
    near(o.size, size);
    free(block);
}

/* The kernel joins what a program maps with the blocks above it: there are more pages than one wants to look
 * at one after the other, and a block behind memory that nobody touched. */
static void blocks_among_mappings(void **state)
{
    (void)state;
    if (!is_glibc())
        skip();
    char *behind = malloc(4 * MIB);
    char *many = mapped(100 * MIB);
    char *between = malloc(4 * MIB);
    char *untouched = mapped(64 * MIB);
    memset(behind, 1, 4 * MIB);
    memset(many, 1, 100 * MIB);
    memset(between, 1, 4 * MIB);
    near(owned_by("[malloc block]", behind, 4 * MIB).rss, 4 * MIB);
    near(owned_by("[malloc block]", between, 4 * MIB).rss, 4 * MIB);
    unsigned char present[64];
    assert_int_equal(mincore(untouched, sizeof present * PAGE, present), 0);
    for (size_t i = 1; i < sizeof present; i++)
        assert_int_equal(present[i] & 1, 0); /* to look at it is not to touch it */
    (void)munmap(many, 100 * MIB);
    (void)munmap(untouched, 64 * MIB);
    free(behind);
    free(between);
}

/* A runtime's heap takes all readings that there are: not those of the others. */
static void block_beside_much(void **state)
{
    (void)state;
    if (!is_glibc())
        skip();
    size_t size = (HW_OWNERS_MAX_PROBES + 4096) * PAGE;
    /* Below the others, so it is looked into before them. */
    char *heap = mmap((void *)(uintptr_t)0x10000000000, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *block = malloc(4 * MIB);
    assert_ptr_not_equal(heap, MAP_FAILED);
    memset(block, 1, 4 * MIB);
    memset(heap, 1, size);
    near(owned_by("[malloc block]", block, 4 * MIB).rss, 4 * MIB);
    (void)munmap(heap, size);
    free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(block_over_mappings),
                                       cmocka_unit_test(blocks_among_mappings),
                                       cmocka_unit_test(block_beside_much)};
    (void)mallopt(M_PERTURB, 0); /* the runner's: it fills blocks that are not to be touched */
    (void)mallopt(M_MMAP_THRESHOLD, 128 * 1024); /* and not more, the more blocks are freed */
    return cmocka_run_group_tests(tests, NULL, NULL);
}

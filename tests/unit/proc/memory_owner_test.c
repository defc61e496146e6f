/*
 * memory_owner_test.c - whose memory it is, of a process that does what it can to make that costly:
 * this test's own.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "proc/memory_owner.h"
#include "proc/smaps.h"

#define SECOND UINT64_C(1000000000)
#define MANY   (64u << 20)

static struct hw_smaps read_own(uint64_t max_cpu_ns)
{
    struct hw_smaps s;
    hw_autofd int dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0);
    assert_int_equal(hw_smaps_read_some(dir, MANY, max_cpu_ns, &s), 0);
    return s;
}

static void name_own(struct hw_smaps *s, struct hw_owner_facts *f)
{
    hw_autofd int dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(hw_owner_facts_read(dir, HW_OWNER_GLIBC, f), 0);
    assert_int_equal(hw_owners_name(s, f), 0);
}

static const struct hw_smaps_entry *find(const struct hw_smaps *s, const char *name)
{
    for (size_t i = 0; i < s->entries.n; i++)
        if (strcmp(s->entries.v[i].path, name) == 0)
            return &s->entries.v[i];
    return NULL;
}

/* Bytes that read(2) and its like have given us so far: the same on a slow machine. */
static uint64_t bytes_read(void)
{
    unsigned long long n = 0;
    FILE *f = fopen("/proc/self/io", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "rchar: %llu", &n), 1);
    (void)fclose(f);
    return n;
}

/* Terabytes of address space, each piece with the header of a large block at its beginning: to
 * divide them, their page map is looked at, which is 2 MiB for each GiB. */
static void page_map_is_bounded(void **state)
{
    enum { PIECES = 200 };
    static const uint64_t size = (UINT64_C(4) << 30) - 8192;
    static uint64_t *pieces[PIECES];
    struct hw_owner_facts f;
    (void)state;
    for (size_t i = 0; i < PIECES; i++) {
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            skip(); /* an address space with a limit */
        if (i % 2)
            (void)madvise(p, size, MADV_DONTFORK); /* so that the kernel joins no neighbours */
        pieces[i] = p;
        pieces[i][0] = 0;
        pieces[i][1] = 2 * 4096 | 2;
    }
    struct hw_smaps s = read_own(60 * SECOND);
    uint64_t before = bytes_read(), rss = 0, named_rss = 0;
    for (size_t i = 0; i < s.entries.n; i++)
        rss += s.entries.v[i].rss_kb;
    name_own(&s, &f);
    uint64_t took = bytes_read() - before;
    for (size_t i = 0; i < s.entries.n; i++)
        named_rss += s.entries.v[i].rss_kb;
    assert_int_equal(named_rss, rss);
    assert_non_null(find(&s, "[malloc block]"));
    assert_in_range(took, 1, PIECES * (size / 4096) * 8 / 4);
    hw_owner_facts_done(&f);
    hw_smaps_done(&s);
    for (size_t i = 0; i < PIECES; i++)
        (void)munmap(pieces[i], size);
}

/* Numbers at a multiple of 64 MiB that are not an arena's, and a block behind them: the head of a Python pool once hid 38 MiB. */
static void numbers_are_no_arena(void **state)
{
    static const uint64_t arena = UINT64_C(64) << 20, mib = UINT64_C(1) << 20;
    char *p = mmap(NULL, 2 * arena, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(p != MAP_FAILED);
    char *head = p + (arena - (uint64_t)(uintptr_t)p % arena) % arena, *block = head + mib;
    uint64_t at = (uint64_t)(uintptr_t)head;
    const uint64_t heads[][4] = {
        {100, 0, 50000, 5 * mib + 8},        /* small numbers, */
        {100, 0, 2 * mib, 5 * mib},          /* of whole pages */
        {at - arena + 48, 0, mib, 5 * mib},  /* a first heap has its record in it, */
        {at + 48, at - arena, mib, 5 * mib}, /* and no other one has */
        {at + 48, 0, mib + 8, 5 * mib},      {at + 48, 0, mib, 5 * mib + 8},
    };
    (void)state;
    ((uint64_t *)(void *)block)[1] = 2 * mib | 2;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct hw_owner_facts f;
        bool has_block = false;
        memcpy(head, heads[i], sizeof heads[i]);
        struct hw_smaps s = read_own(60 * SECOND);
        name_own(&s, &f);
        for (size_t k = 0; k < s.entries.n; k++)
            has_block |= s.entries.v[k].start == at + mib && s.entries.v[k].end == at + 3 * mib &&
                         strcmp(s.entries.v[k].path, "[malloc block]") == 0;
        assert_true(has_block);
        hw_owner_facts_done(&f);
        hw_smaps_done(&s);
    }
    (void)munmap(p, 2 * arena);
}

/* Thousands of mappings, each with a name of its own. */
static void names_are_bounded(void **state)
{
    enum { NAMES = 1000 };
    static char *pieces[NAMES];
    struct hw_owner_facts f;
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "name %zu", i);
        hw_autofd int fd = memfd_create(name, MFD_CLOEXEC);
        assert_return_code(ftruncate(fd, 4096), errno);
        pieces[i] = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(pieces[i] != MAP_FAILED);
        pieces[i][0] = 1;
    }
    struct hw_smaps s = read_own(60 * SECOND);
    uint64_t rss = 0, sum = 0, mappings = s.entries.n, n = 0;
    for (size_t i = 0; i < s.entries.n; i++)
        rss += s.entries.v[i].rss_kb;
    name_own(&s, &f);
    assert_int_equal(hw_smaps_sum(&s), 0);
    hw_owner_facts_done(&f); /* names are copies now */
    const struct hw_smaps_entry *other = find(&s, "/memfd:other");
    assert_non_null(other);
    assert_in_range(other->n_mappings, NAMES - HW_OWNERS_MAX_NAMES, NAMES);
    assert_in_range(s.entries.n, 1, 2 * HW_OWNERS_MAX_NAMES);
    for (size_t i = 0; i < s.entries.n; i++) {
        sum += s.entries.v[i].rss_kb;
        n += s.entries.v[i].n_mappings;
        if (i)
            assert_true(strcmp(s.entries.v[i - 1].path, s.entries.v[i].path) < 0);
    }
    assert_int_equal(sum, rss);
    assert_true(n >= mappings); /* some were divided */
    hw_smaps_done(&s);
    for (size_t i = 0; i < NAMES; i++)
        (void)munmap(pieces[i], 4096);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* Where the profiler says that its own memory is, and nowhere else: the middle of one mapping, of which the kernel
 * shows nothing but the sum. What has the same flags is not its own, unless it does not say. */
static void own_is_told(void **state)
{
    enum { PAGES = 64, LO = 16, HI = 24 };
    static const size_t page = 4096;
    (void)state;
    char *p = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(p != MAP_FAILED);
    assert_return_code(madvise(p, PAGES * page, MADV_NOHUGEPAGE), errno);
    for (size_t i = 0; i < PAGES; i += i < 32 ? 1 : 2) /* half of what is behind */
        p[i * page] = 1;
    for (int told = 0; told < 2; told++) {
        hw_autofd int dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct hw_smaps s = read_own(60 * SECOND);
        struct hw_owner_facts f;
        uint64_t kb = 0;
        assert_int_equal(hw_owner_facts_read(dir, HW_OWNER_GLIBC, &f), 0);
        f.own.by_flags = !told;
        uint64_t at = (uintptr_t)p;
        if (told) { /* in no order, and one of them twice */
            f.own.v[f.own.n++] = (struct hw_owner_range){at + 20 * page, at + HI * page};
            f.own.v[f.own.n++] = (struct hw_owner_range){at + LO * page, at + 21 * page};
            f.own.v[f.own.n++] = (struct hw_owner_range){at + 20 * page, at + 22 * page};
            f.own.v[f.own.n++] = (struct hw_owner_range){4096, 8192}; /* nothing is there */
        }
        assert_int_equal(hw_owners_name(&s, &f), 0);
        for (size_t i = 0; i < s.entries.n; i++) {
            const struct hw_smaps_entry *e = &s.entries.v[i];
            bool own = strcmp(e->path, "[heapwise]") == 0;
            if (own && told)
                assert_true(e->start >= at + LO * page && e->end <= at + HI * page);
            kb += own ? e->rss_kb : 0;
        }
        if (told)
            assert_int_equal(kb, (HI - LO) * 4);
        else /* a sanitizer has mappings with these flags, too */
            assert_in_range(kb, 48 * 4, SANITIZED ? SIZE_MAX : 48 * 4);
        hw_owner_facts_done(&f);
        hw_smaps_done(&s);
    }
    (void)munmap(p, PAGES * page);
}

/* Two memory files of one name: the recorder's is the one that it has made. A library is the client's where the client
 * says so, or says nothing. */
static void own_files_are_known(void **state)
{
    static const char name[] = "/memfd:heapwise-ring (deleted)",
                      lib[] = "/memfd:libheapwise-x (deleted)";
    void *p[3];
    struct stat st[3];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        hw_autofd int fd = memfd_create(i < 2 ? "heapwise-ring" : "libheapwise-x", MFD_CLOEXEC);
        assert_return_code(ftruncate(fd, 8192), errno);
        assert_return_code(fstat(fd, &st[i]), errno);
        p[i] = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(p[i] != MAP_FAILED);
    }
    for (int told = 0; told < 3; told++) {
        hw_autofd int dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
        struct hw_smaps s = read_own(60 * SECOND);
        struct hw_owner_facts f;
        assert_int_equal(hw_owner_facts_read(dir, HW_OWNER_GLIBC, &f), 0);
        f.own.files[f.own.n_files++] =
            (struct hw_owner_file){major(st[1].st_dev), minor(st[1].st_dev), st[1].st_ino};
        uint64_t at = told == 2 ? (uintptr_t)p[2] : 4096;
        if (told)
            f.own.v[f.own.n++] = (struct hw_owner_range){at, at + 8192};
        assert_int_equal(hw_owners_name(&s, &f), 0);
        for (size_t i = 0; i < s.entries.n; i++) {
            const struct hw_smaps_entry *e = &s.entries.v[i];
            if (e->start == (uintptr_t)p[0])
                assert_string_equal(e->path, name);
            if (e->start == (uintptr_t)p[1])
                assert_string_equal(e->path, "[heapwise:shared]");
            if (e->start == (uintptr_t)p[2])
                assert_string_equal(e->path, told == 1 ? lib : "[heapwise:library]");
        }
        hw_owner_facts_done(&f);
        hw_smaps_done(&s);
    }
    for (size_t i = 0; i < 3; i++)
        (void)munmap(p[i], 8192);
}

/* Without any time left it gives what it has: whole mappings, and says that there are more. */
static void time_is_bounded(void **state)
{
    (void)state;
    struct hw_smaps s = read_own(0), all = read_own(60 * SECOND);
    assert_true(s.cut);
    assert_false(all.cut);
    assert_in_range(s.entries.n, 1, all.entries.n - 1);
    for (size_t i = 0; i < s.entries.n; i++)
        assert_int_equal(s.entries.v[i].start, all.entries.v[i].start);
    assert_int_equal(s.entries.v[s.entries.n - 1].size_kb, all.entries.v[s.entries.n - 1].size_kb);
    hw_smaps_done(&s);
    hw_smaps_done(&all);
}

struct stack {
    char *start;
    size_t n;
};

static void *note_stack(void *arg)
{
    struct stack *out = arg;
    pthread_attr_t attr;
    void *start;
    size_t n;
    assert_int_equal(pthread_getattr_np(pthread_self(), &attr), 0);
    assert_int_equal(pthread_attr_getstack(&attr, &start, &n), 0);
    (void)pthread_attr_destroy(&attr);
    *out = (struct stack){start, n};
    return NULL;
}

/* The stack of a thread that has ended, which libc keeps, and other memory of that size: jemalloc's extents have it. */
static void stacks_are_told(void **state)
{
    (void)state;
    enum { STACK = 8 << 20 };
    struct stack s = {0};
    pthread_t t;
    hw_autofd int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    hw_autofd int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    assert_true(mem >= 0 && pagemap >= 0);
    assert_int_equal(pthread_create(&t, NULL, note_stack, &s), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    uint64_t start = (uint64_t)(uintptr_t)s.start;
    assert_true(hw_owner_was_stack(mem, pagemap, start, start + s.n));
    uint64_t *other = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(other != MAP_FAILED);
    start = (uint64_t)(uintptr_t)other;
    other[STACK / 8 - 100] = start + STACK - 800; /* an empty list points at itself once */
#if defined(__x86_64__)
    assert_false(hw_owner_was_stack(mem, pagemap, start, start + STACK));
#endif
    unsigned char in_memory = 1;
    assert_int_equal(madvise(other, STACK, MADV_DONTNEED), 0);
    assert_false(hw_owner_was_stack(mem, pagemap, start, start + STACK));
    assert_int_equal(mincore((char *)other + STACK - 4096, 4096, &in_memory), 0);
    assert_false(in_memory & 1); /* looking brings nothing there */
    assert_true(hw_owner_was_stack(-1, -1, start, start + STACK)); /* nobody knows */
    (void)munmap(other, STACK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_no_arena), cmocka_unit_test(page_map_is_bounded),
        cmocka_unit_test(names_are_bounded),    cmocka_unit_test(own_is_told),
        cmocka_unit_test(own_files_are_known),  cmocka_unit_test(time_is_bounded),
        cmocka_unit_test(stacks_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

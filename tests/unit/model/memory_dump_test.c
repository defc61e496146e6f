/* Effective sizes against a twin that charges byte by byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/memory/memory_dump.h"
#include "model/profile.h"
#include "test.h"

enum { MAX_OWNERS = 6, MAX_SIZE = 60, ROUNDS = 2000 };

static uint64_t state = 88172645463325252u;

static unsigned below(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state % n);
}

static uint32_t add(struct hw_profile *p, uint32_t process, const char *path, uint64_t guid,
                    uint64_t size)
{
    struct hw_memory_node *n;
    assert_int_equal(hw_memory_node(p, process, hw_bytes_str(path), guid, &n), HW_OK);
    n->has_size = true;
    n->size = size;
    return (uint32_t)(n - p->memory.nodes.v);
}

static const struct hw_memory_node *find(const struct hw_profile *p, uint64_t guid)
{
    for (size_t i = 0; i < p->memory.nodes.n; i++)
        if (p->memory.nodes.v[i].guid == guid)
            return &p->memory.nodes.v[i];
    fail_msg("node %llu is gone", (unsigned long long)guid);
    return NULL;
}

struct owner {
    unsigned size, importance;
    double share;
};

/* Owners hold a beginning of what they own. Each byte goes to the most important that hold it, in
 * equal parts; what nobody holds stays. */
static double charge(struct owner *owners, unsigned n, unsigned size)
{
    double rest = 0;
    for (unsigned byte = 0; byte < size; byte++) {
        int best = -1;
        unsigned holders = 0;
        for (unsigned i = 0; i < n; i++)
            if (owners[i].size > byte && (int)owners[i].importance > best)
                best = (int)owners[i].importance;
        for (unsigned i = 0; i < n; i++)
            holders += owners[i].size > byte && (int)owners[i].importance == best;
        for (unsigned i = 0; i < n; i++)
            if (owners[i].size > byte && (int)owners[i].importance == best)
                owners[i].share += 1.0 / holders;
        rest += holders == 0;
    }
    return rest;
}

static void test_shares(void **unused)
{
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        struct hw_profile *p;
        struct owner owners[MAX_OWNERS] = {0};
        unsigned n = 1 + below(MAX_OWNERS), size = 1 + below(MAX_SIZE);
        uint32_t snapshot, process;
        hw_upid upid;
        char path[32];
        assert_int_equal(hw_profile_new(&p), HW_OK);
        assert_int_equal(hw_profile_process(p, 7, &upid), HW_OK);
        assert_int_equal(hw_memory_snapshot(&p->memory, 1, HW_MEMORY_DETAILED, &snapshot), HW_OK);
        assert_int_equal(hw_memory_process(&p->memory, snapshot, upid, &process), HW_OK);
        (void)add(p, process, "owned", 1, size);
        for (unsigned i = 0; i < n; i++) {
            owners[i] = (struct owner){.size = 1 + below(size), .importance = below(3)};
            (void)snprintf(path, sizeof path, "group%u/owner", i);
            (void)add(p, process, path, 10 + i, owners[i].size);
            assert_int_equal(hw_memory_edge(&p->memory, snapshot, 10 + i, 1, owners[i].importance),
                             HW_OK);
        }
        assert_int_equal(hw_memory_dumps_finish(p), HW_OK);
        double rest = charge(owners, n, size);
        /* Whole bytes are shown: the fraction is cut off. */
        assert_near((double)find(p, 1)->effective_size, rest, 0.5);
        for (unsigned i = 0; i < n; i++) {
            double got = (double)find(p, 10 + i)->effective_size;
            if (owners[i].share - got < -1e-6 || owners[i].share - got > 1 + 1e-6)
                fail_msg("round %d owner %u: %g, not %g", round, i, got, owners[i].share);
        }
        hw_profile_free(p);
    }
}

/* A chain of owners: what the last one owns is charged to the first. A deep path is no problem. */
static void test_chain(void **unused)
{
    enum { CHAIN = 2000 };
    struct hw_profile *p;
    uint32_t snapshot, process;
    hw_upid upid;
    char path[4000];
    (void)unused;
    assert_int_equal(hw_profile_new(&p), HW_OK);
    assert_int_equal(hw_profile_process(p, 7, &upid), HW_OK);
    assert_int_equal(hw_memory_snapshot(&p->memory, 1, HW_MEMORY_LIGHT, &snapshot), HW_OK);
    assert_int_equal(hw_memory_process(&p->memory, snapshot, upid, &process), HW_OK);
    for (unsigned i = 0; i < CHAIN; i++) {
        (void)snprintf(path, sizeof path, "n%u", i);
        (void)add(p, process, path, 1 + i, 100);
        if (i)
            assert_int_equal(hw_memory_edge(&p->memory, snapshot, i, i + 1, 0), HW_OK);
    }
    for (size_t i = 0; i < 127; i++) /* 64 names, as deep as it may be */
        path[i] = i % 2 ? '/' : 'x';
    path[127] = 0;
    (void)add(p, process, path, 9999, 5);
    assert_int_equal(hw_memory_dumps_finish(p), HW_OK);
    assert_int_equal(find(p, 1)->effective_size, 100);
    for (unsigned i = 1; i < CHAIN; i++)
        assert_int_equal(find(p, 1 + i)->effective_size, 0);
    assert_int_equal(p->memory.nodes.v[find(p, 9999)->parent].effective_size, 5);
    assert_int_equal(p->memory.n_bad, 0);
    hw_profile_free(p);
}

/* Each parent has a name of its own. */
static void test_depth(void **unused)
{
    struct hw_profile *p;
    struct hw_memory_node *n;
    uint32_t snapshot, process;
    char path[128 + 1];
    (void)unused;
    for (size_t i = 0; i < sizeof path - 1; i++)
        path[i] = i % 2 ? '/' : 'a';
    assert_int_equal(hw_profile_new(&p), HW_OK);
    assert_int_equal(hw_memory_snapshot(&p->memory, 1, HW_MEMORY_LIGHT, &snapshot), HW_OK);
    assert_int_equal(hw_memory_process(&p->memory, snapshot, (hw_upid){0}, &process), HW_OK);
    assert_int_equal(hw_memory_node(p, process, hw_bytes_of(path, 127), 0, &n), HW_OK);
    assert_int_equal(hw_memory_node(p, process, hw_bytes_of(path, 128), 0, &n), HW_EINVAL);
    assert_int_equal(p->memory.nodes.n, 64);
    hw_profile_free(p);
}

/* A few bytes of a trace are a snapshot. To look through all for each would outlast the test's time. */
static void test_many_snapshots(void **unused)
{
    struct hw_memory_dumps m = {0};
    uint32_t at;
    (void)unused;
    for (int64_t i = 0; i < 400000; i++) {
        assert_int_equal(hw_memory_snapshot(&m, i * 1000, HW_MEMORY_LIGHT, &at), HW_OK);
        assert_int_equal(at, i);
    }
    assert_int_equal(hw_memory_snapshot(&m, 7000, HW_MEMORY_LIGHT, &at), HW_OK);
    assert_int_equal(at, 7);
    hw_memory_dumps_done(&m);
}

HW_TEST_MAIN(cmocka_unit_test(test_shares), cmocka_unit_test(test_chain),
             cmocka_unit_test(test_depth), cmocka_unit_test(test_many_snapshots))

/* Tables: the check refuses every damage; lookups equal a linear twin; modules are found. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "cfi/cfi.h"
#include "unwind/table.h"

static void *table;
static size_t n_bytes;

static int setup(void **state)
{
    (void)state;
    hw_autofd int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    return hw_cfi_compile(fd, -1, &table, &n_bytes, NULL, NULL);
}

static int teardown(void **state)
{
    (void)state;
    free(table);
    return 0;
}

static struct hw_rule twin(const struct hw_table_header *h, uint64_t va)
{
    const char *base = (const char *)h;
    const uint32_t *index = (const uint32_t *)(const void *)(base + h->chunk_index_off);
    const uint16_t *lo = (const uint16_t *)(const void *)(base + h->row_lo_off);
    const uint16_t *rule = (const uint16_t *)(const void *)(base + h->row_rule_off);
    const struct hw_rule *rules = (const struct hw_rule *)(const void *)(base + h->rules_off);
    struct hw_rule r = {0};
    if (va < h->lo_va || va >= h->hi_va)
        return r;
    for (uint32_t c = 0; c < h->n_chunks; c++)
        for (uint32_t i = index[c]; i < index[c + 1]; i++)
            if ((((uint64_t)h->first_chunk + c) << 16) + lo[i] <= va)
                r = rules[rule[i]];
    return r;
}

static void lookup_equals_linear_twin(void **state)
{
    (void)state;
    const struct hw_table_header *h = table;
    for (uint64_t va = h->lo_va - 20; va < h->hi_va + 20; va++) {
        struct hw_rule a = hw_table_lookup(h, va), b = twin(h, va);
        assert_memory_equal(&a, &b, sizeof a);
    }
    assert_int_equal(hw_table_lookup(h, 0).kind, HW_RULE_NONE);
    assert_int_equal(hw_table_lookup(h, UINT64_MAX).kind, HW_RULE_NONE);
}

static void check_refuses_damage(void **state)
{
    (void)state;
    assert_int_equal(hw_table_check(table, n_bytes), HW_OK);
    for (size_t cut = 0; cut < n_bytes; cut += cut < 256 ? 1 : 97)
        assert_int_equal(hw_table_check(table, cut), HW_EFORMAT);
    hw_autofree char *t = malloc(n_bytes);
    const size_t not_checked_lo = offsetof(struct hw_table_header, build_id);
    for (size_t i = 0; i < n_bytes; i++) {
        bool is_name = i >= not_checked_lo && i < offsetof(struct hw_table_header, lo_va);
        bool is_free = (i >= 16 && i < 20) ||
                       (i >= offsetof(struct hw_table_header, compiler_version) &&
                        i < offsetof(struct hw_table_header, checksum)) ||
                       i >= offsetof(struct hw_table_header, reserved);
        bool is_range = i >= offsetof(struct hw_table_header, lo_va) &&
                        i < offsetof(struct hw_table_header, first_chunk);
        bool is_arch = i == offsetof(struct hw_table_header, arch);
        bool is_id_len = i >= 20 && i < not_checked_lo;
        if (i < sizeof(struct hw_table_header) &&
            (is_name || is_free || is_range || is_arch || is_id_len))
            continue;
        memcpy(t, table, n_bytes);
        t[i] = (char)(t[i] ^ 0x41);
        assert_int_equal(hw_table_check(t, n_bytes), HW_EFORMAT);
    }
}

/* With the checksum made right again, damaged rows must be refused or be harmless. */
static void resealed_damage_is_harmless(void **state)
{
    (void)state;
    hw_autofree char *t = malloc(n_bytes);
    uint64_t rng = 3;
    unsigned n_passed = 0;
    for (int round = 0; round < 3000; round++) {
        memcpy(t, table, n_bytes);
        for (int k = 0; k < 4; k++) {
            rng = hw_hash_mix(rng, 1);
            size_t at = k ? rng % n_bytes : rng % sizeof(struct hw_table_header);
            t[at] = (char)(rng >> 56);
        }
        struct hw_table_header *h = (struct hw_table_header *)(void *)t;
        h->checksum = hw_table_checksum(t + sizeof *h, n_bytes - sizeof *h);
        if (hw_table_check(t, n_bytes) < 0)
            continue;
        n_passed++;
        for (int k = 0; k < 100; k++) {
            rng = hw_hash_mix(rng, 2);
            struct hw_rule r = hw_table_lookup(h, h->lo_va - 8 + rng % (h->hi_va - h->lo_va + 16));
            assert_true(r.kind < HW_RULE_KIND_COUNT);
        }
    }
    assert_true(n_passed > 0);
}

static void modules_are_found(void **state)
{
    (void)state;
    for (uint32_t n = 0; n < 20; n++) {
        struct hw_module_snapshot *s = calloc(1, sizeof *s + (n + 1) * sizeof(struct hw_module));
        assert_non_null(s);
        s->n_modules = n;
        for (uint32_t i = 0; i < n; i++)
            s->modules[i] = (struct hw_module){.lo = 100 + 20 * i, .hi = 110 + 20 * i};
        for (uint64_t pc = 0; pc < 600; pc++) {
            const struct hw_module *m = hw_module_find(s, pc), *want = NULL;
            for (uint32_t i = 0; i < n; i++)
                if (pc >= s->modules[i].lo && pc < s->modules[i].hi)
                    want = &s->modules[i];
            assert_ptr_equal(m, want);
        }
        free(s);
    }
    assert_null(hw_module_find(NULL, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookup_equals_linear_twin), cmocka_unit_test(check_refuses_damage),
        cmocka_unit_test(resealed_damage_is_harmless), cmocka_unit_test(modules_are_found)};
    return cmocka_run_group_tests(tests, setup, teardown);
}

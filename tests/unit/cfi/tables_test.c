/*
 * Compiled tables against libdw's interpreter of the same .eh_frame: for many addresses of real
 * files, CFA, return-address slot and caller's fp are computed both ways from the same made-up
 * registers and memory, and must be equal.
 */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "cfi/cfi.h"
#include "unwind/table.h"

enum { X86_FP = 6, X86_SP = 7, X86_RA = 16 };

static const uint64_t fp = 0x7ffc00010000u, sp = 0x7ffc00008000u;

/* Memory that holds something else at each address. */
static uint64_t memory(uint64_t a)
{
    return hw_hash_u64(a) & 0x7ffffffffff8u;
}

/* ---- libdw's side: a value, or why there is none ---- */

enum answer { VALUE, SAME, UNDEFINED, NOT_EXPRESSIBLE };

struct stack {
    uint64_t v[16];
    int n;
    bool bad;
};

static void push(struct stack *s, uint64_t v)
{
    if (s->n == 16)
        s->bad = true;
    else
        s->v[s->n++] = v;
}

static uint64_t pop(struct stack *s)
{
    if (!s->n) {
        s->bad = true;
        return 0;
    }
    return s->v[--s->n];
}

static bool reg_value(uint64_t reg, uint64_t pc, uint64_t *v)
{
    *v = reg == X86_FP ? fp : reg == X86_SP ? sp : pc;
    return reg == X86_FP || reg == X86_SP || reg == X86_RA;
}

static bool evaluate(const Dwarf_Op *ops, size_t n, uint64_t pc, uint64_t cfa, uint64_t *v,
                     bool *is_value)
{
    struct stack s = {0};
    uint64_t a, b;
    *is_value = false;
    for (size_t i = 0; i < n; i++) {
        uint8_t op = ops[i].atom;
        if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
            push(&s, op - DW_OP_lit0);
        } else if ((op >= DW_OP_breg0 && op <= DW_OP_breg31) || op == DW_OP_bregx) {
            uint64_t reg = op == DW_OP_bregx ? ops[i].number : (uint64_t)(op - DW_OP_breg0);
            uint64_t off = op == DW_OP_bregx ? ops[i].number2 : ops[i].number;
            if (!reg_value(reg, pc, &a))
                return false;
            push(&s, a + off);
        } else if (op == DW_OP_call_frame_cfa) {
            push(&s, cfa);
        } else if (op == DW_OP_plus_uconst) {
            push(&s, pop(&s) + ops[i].number);
        } else if (op == DW_OP_deref) {
            push(&s, memory(pop(&s)));
        } else if (op == DW_OP_and || op == DW_OP_ge || op == DW_OP_shl || op == DW_OP_plus) {
            b = pop(&s);
            a = pop(&s);
            push(&s, op == DW_OP_and   ? (a & b)
                     : op == DW_OP_ge  ? (int64_t)a >= (int64_t)b
                     : op == DW_OP_shl ? a << (b & 63)
                                       : a + b);
        } else if (op == DW_OP_stack_value) {
            *is_value = true;
        } else {
            return false;
        }
    }
    *v = pop(&s);
    return !s.bad;
}

static enum answer their_reg(Dwarf_Frame *f, int reg, uint64_t pc, uint64_t cfa, uint64_t *slot)
{
    Dwarf_Op mem[3], *ops;
    size_t n;
    bool is_value;
    if (dwarf_frame_register(f, reg, mem, &ops, &n) != 0)
        return NOT_EXPRESSIBLE;
    if (n == 0)
        return ops == NULL ? SAME : UNDEFINED;
    if (!evaluate(ops, n, pc, cfa, slot, &is_value) || is_value)
        return NOT_EXPRESSIBLE;
    return VALUE;
}

/* ---- ours ---- */

static bool our_cfa(struct hw_rule r, uint64_t pc, uint64_t *cfa)
{
    switch ((enum hw_rule_kind)r.kind) {
    case HW_RULE_SP:
        *cfa = sp + 8ull * r.cfa_off;
        return true;
    case HW_RULE_FP:
        *cfa = fp + 8ull * r.cfa_off;
        return true;
    case HW_RULE_FP_DEREF:
        *cfa = memory(fp + 8 * (uint64_t)(int16_t)r.cfa_off);
        return true;
    case HW_RULE_SP_DEREF:
        *cfa = memory(sp + 8ull * (r.cfa_off & 0xfff)) + 8ull * (r.cfa_off >> 12);
        return true;
    case HW_RULE_PLT:
        *cfa = sp + 8 + ((pc & 15) >= r.cfa_off ? 8 : 0);
        return true;
    case HW_RULE_NONE:
    case HW_RULE_SIGNAL:
    case HW_RULE_END:
    case HW_RULE_REG:
    case HW_RULE_UNSUP:
    case HW_RULE_KIND_COUNT:
        break;
    }
    return false;
}

struct tally {
    unsigned long n, n_none, n_unsup, n_wrong;
};

static void wrong(struct tally *t, const char *path, uint64_t pc, struct hw_rule r,
                  const char *what)
{
    if (t->n_wrong++ < 10)
        print_error("%s %#lx: %s (kind %u cfa %u fp %u %d)\n", path, (unsigned long)pc, what,
                    r.kind, r.cfa_off, r.fp_kind, r.fp_off);
}

static void compare_fp(struct tally *t, const char *path, uint64_t pc, struct hw_rule r,
                       Dwarf_Frame *f, uint64_t cfa)
{
    uint64_t slot;
    switch (their_reg(f, X86_FP, pc, cfa, &slot)) {
    case SAME:
        if (r.fp_kind != HW_RULE_FP_SAME)
            wrong(t, path, pc, r, "fp is not the same");
        break;
    case VALUE: {
        uint64_t base = r.fp_kind == HW_RULE_FP_AT_CFA ? cfa : fp;
        bool loads = r.fp_kind == HW_RULE_FP_AT_CFA || r.fp_kind == HW_RULE_FP_AT_FP;
        if (!loads || base + 8 * (uint64_t)r.fp_off != slot)
            wrong(t, path, pc, r, "fp's slot");
        break;
    }
    case UNDEFINED:
    case NOT_EXPRESSIBLE:
        if (r.fp_kind != HW_RULE_FP_UNSUP)
            wrong(t, path, pc, r, "fp is not expressible");
        break;
    }
}

static void compare(struct tally *t, const char *path, Dwarf_CFI *cfi,
                    const struct hw_table_header *table, uint64_t pc)
{
    struct hw_rule r = hw_table_lookup(table, pc);
    hw_autofree Dwarf_Frame *f = NULL;
    t->n++;
    if (dwarf_cfi_addrframe(cfi, pc, &f) != 0) {
        /* Short gaps inherit; what is called there never returns. */
        t->n_none++;
        return;
    }
    Dwarf_Op *ops;
    size_t n;
    bool signal = false, is_value;
    Dwarf_Addr start, end;
    int ra = dwarf_frame_info(f, &start, &end, &signal);
    uint64_t slot, cfa, ours;
    if (r.kind == HW_RULE_UNSUP || r.kind == HW_RULE_REG) {
        t->n_unsup++;
        return;
    }
    if (r.kind == HW_RULE_NONE) {
        wrong(t, path, pc, r, "covered, but NONE");
        return;
    }
    if (signal && r.kind == HW_RULE_SIGNAL)
        return;
    if (dwarf_frame_cfa(f, &ops, &n) != 0)
        n = 0;
    bool known = n && evaluate(ops, n, pc, 0, &cfa, &is_value);
    enum answer a = their_reg(f, ra, pc, known ? cfa : 0, &slot);
    if (a == UNDEFINED || r.kind == HW_RULE_END) {
        if (a != UNDEFINED || r.kind != HW_RULE_END)
            wrong(t, path, pc, r, "end of stack");
        return;
    }
    if (!known || !our_cfa(r, pc, &ours) || ours != cfa) {
        wrong(t, path, pc, r, "CFA");
        return;
    }
    if (a != VALUE || slot != cfa + 8 * (uint64_t)r.ra_off)
        wrong(t, path, pc, r, "return address");
    compare_fp(t, path, pc, r, f, cfa);
}

/* Rows' first and last bytes, where mistakes are, and a random address in each. */
static void compare_rows(struct tally *t, const char *path, Dwarf_CFI *cfi,
                         const struct hw_table_header *h)
{
    const char *base = (const char *)h;
    const uint32_t *index = (const uint32_t *)(const void *)(base + h->chunk_index_off);
    const uint16_t *lo = (const uint16_t *)(const void *)(base + h->row_lo_off);
    uint32_t step = h->n_rows / 20000 + 1;
    for (uint32_t c = 0, row = 0; c < h->n_chunks; c++) {
        uint64_t chunk = ((uint64_t)h->first_chunk + c) << HW_TABLE_CHUNK_BITS;
        for (; row < index[c + 1]; row++) {
            uint64_t start = chunk + lo[row];
            uint64_t end = row + 1 < index[c + 1] ? chunk + lo[row + 1] : chunk + 0x10000;
            if (row % step || start < h->lo_va)
                continue;
            compare(t, path, cfi, h, start);
            compare(t, path, cfi, h, start + hw_hash_u64(start) % (end - start));
            if (end <= h->hi_va)
                compare(t, path, cfi, h, end - 1);
        }
    }
}

static void compare_file(const char *path)
{
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return; /* not installed here */
    hw_autofree void *table = NULL;
    size_t n;
    struct hw_error err = {0};
    if (hw_cfi_compile(fd, -1, &table, &n, NULL, &err) < 0)
        fail_msg("%s: %s", path, err.text);
    assert_int_equal(hw_table_check(table, n), HW_OK);
    assert_int_equal(elf_version(EV_CURRENT), EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    Dwarf_CFI *cfi = dwarf_getcfi_elf(elf);
    GElf_Ehdr ehdr;
    assert_non_null(cfi);
    assert_non_null(gelf_getehdr(elf, &ehdr));
    if (ehdr.e_machine == EM_X86_64) {
        struct tally t = {0};
        compare_rows(&t, path, cfi, table);
        print_message("%s: %lu addresses, %lu uncovered, %lu unsupported, %lu wrong\n", path, t.n,
                      t.n_none, t.n_unsup, t.n_wrong);
        assert_true(t.n > 0);
        assert_int_equal(t.n_wrong, 0);
    }
    dwarf_cfi_end(cfi);
    elf_end(elf);
}

static void agree_with_libdw(void **state)
{
    (void)state;
    static const char *const paths[] = {"/lib/x86_64-linux-gnu/libc.so.6",
                                        "/lib64/ld-linux-x86-64.so.2",
                                        "/lib/x86_64-linux-gnu/libstdc++.so.6",
                                        "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
                                        "/usr/bin/python3.11",
                                        "/usr/bin/sqlite3",
                                        "/usr/bin/node",
                                        "/usr/bin/redis-server",
                                        "/proc/self/exe"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        compare_file(paths[i]);
}

/* The loader calls the libraries' constructors from code without unwind data. */
static void loader_begins_a_stack(void **state)
{
    (void)state;
    const char *path = "/lib64/ld-linux-x86-64.so.2";
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        skip();
    hw_autofree void *table = NULL;
    size_t n;
    GElf_Ehdr ehdr;
    assert_int_equal(hw_cfi_compile(fd, -1, &table, &n, NULL, NULL), HW_OK);
    assert_int_equal(elf_version(EV_CURRENT), EV_CURRENT);
    Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
    assert_non_null(gelf_getehdr(elf, &ehdr));
    assert_int_equal(hw_table_lookup(table, ehdr.e_entry).kind, HW_RULE_END);
    assert_int_equal(hw_table_lookup(table, ehdr.e_entry + 8).kind, HW_RULE_END);
    elf_end(elf);
}

/* ---- damaged files ---- */

static int memory_file(const void *p, size_t n)
{
    int fd = memfd_create("elf", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(hw_fd_write_all(fd, p, n), HW_OK);
    return fd;
}

static void damaged_files_give_errors_or_sound_tables(void **state)
{
    (void)state;
    hw_autofree char *bytes = NULL;
    size_t n;
    assert_int_equal(hw_file_read(AT_FDCWD, "/proc/self/exe", 256 << 20, &bytes, &n, NULL), HW_OK);
    uint64_t rng = 1;
    for (int i = 0; i < 60; i++) {
        rng = hw_hash_mix(rng, (uint64_t)i);
        size_t cut = i % 3 == 0 ? rng % n : n;
        hw_autofd int fd = memory_file(bytes, cut);
        for (int k = 0; k < 64; k++) {
            rng = hw_hash_mix(rng, (uint64_t)k);
            /* Half of the damage goes to the first page: headers. */
            off_t at = (off_t)(k % 2 ? rng % 4096 : rng % (cut + 1));
            uint8_t b = (uint8_t)(rng >> 56);
            if ((size_t)at < cut)
                assert_int_equal(pwrite(fd, &b, 1, at), 1);
        }
        hw_autofree void *table = NULL;
        size_t n_table;
        if (hw_cfi_compile(fd, -1, &table, &n_table, NULL, NULL) == HW_OK)
            assert_int_equal(hw_table_check(table, n_table), HW_OK);
    }
}

static void other_files_are_refused_by_name(void **state)
{
    (void)state;
    struct hw_error err = {0};
    void *table;
    size_t n;
    hw_autofd int text =
        memory_file("#!/bin/sh\nexit 0\n and some more text to be long enough\n", 53);
    assert_int_equal(hw_cfi_compile(text, -1, &table, &n, NULL, &err), HW_EUNSUPPORTED);
    hw_autofd int empty = memory_file("", 0);
    assert_int_equal(hw_cfi_compile(empty, -1, &table, &n, NULL, &err), HW_EUNSUPPORTED);
    hw_autofd int dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(hw_cfi_compile(dir, -1, &table, &n, NULL, &err), HW_EUNSUPPORTED);
}

/* ---- cache ---- */

static void cache_gives_back_what_was_put(void **state)
{
    (void)state;
    char path[] = "/tmp/hw-cfi-XXXXXX", key[HW_CFI_KEY_MAX], again[HW_CFI_KEY_MAX];
    assert_non_null(mkdtemp(path));
    hw_autofd int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    hw_autofd int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    hw_autofree void *table = NULL, *back = NULL;
    size_t n, n_back;
    assert_int_equal(hw_cfi_compile(fd, -1, &table, &n, NULL, NULL), HW_OK);
    assert_int_equal(hw_cfi_cache_key(fd, key, NULL), HW_OK);
    assert_int_equal(hw_cfi_cache_key(fd, again, NULL), HW_OK);
    assert_string_equal(key, again);
    assert_int_equal(hw_cfi_cache_get(dir, key, &back, &n_back), HW_ENOTFOUND);
    assert_int_equal(hw_cfi_cache_put(dir, key, table, n), HW_OK);
    assert_int_equal(hw_cfi_cache_get(dir, key, &back, &n_back), HW_OK);
    assert_int_equal(n, n_back);
    assert_memory_equal(table, back, n);
    assert_int_equal(hw_cfi_cache_get(dir, "../etc/passwd", &back, &n_back), HW_EINVAL);

    /* A damaged file in the cache is no table. */
    hw_autofd int file = openat(dir, key, O_RDWR | O_CLOEXEC);
    assert_int_equal(pwrite(file, "x", 1, (off_t)n / 2), 1);
    hw_autofree void *damaged = NULL;
    assert_int_equal(hw_cfi_cache_get(dir, key, &damaged, &n_back), HW_EFORMAT);
    assert_int_equal(unlinkat(dir, key, 0), 0);
    assert_int_equal(rmdir(path), 0);
}

/* The same build id in a file of another owner: another entry. */
static void forged_build_ids_stay_with_their_owner(void **state)
{
    (void)state;
    char key[HW_CFI_KEY_MAX], other[HW_CFI_KEY_MAX], path[] = "/tmp/hw-cfi-owner-XXXXXX";
    hw_autofd int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    hw_autofd int copy = mkstemp(path);
    assert_int_equal(unlink(path), 0);
    struct stat st;
    assert_int_equal(fstat(own, &st), 0);
    for (off_t at = 0; at < st.st_size;)
        assert_true(sendfile(copy, own, &at, (size_t)(st.st_size - at)) > 0);
    if (fchown(copy, 65534, 65534) < 0)
        skip(); /* only root may give files away */
    assert_int_equal(hw_cfi_cache_key(own, key, NULL), HW_OK);
    assert_int_equal(hw_cfi_cache_key(copy, other, NULL), HW_OK);
    assert_memory_equal(key, other, 16); /* the build id's begin */
    assert_string_not_equal(key, other);
}

HW_TEST_MAIN(cmocka_unit_test(forged_build_ids_stay_with_their_owner),
             cmocka_unit_test(agree_with_libdw), cmocka_unit_test(loader_begins_a_stack),
             cmocka_unit_test(damaged_files_give_errors_or_sound_tables),
             cmocka_unit_test(other_files_are_refused_by_name),
             cmocka_unit_test(cache_gives_back_what_was_put))

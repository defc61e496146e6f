/* ELF files against libelf and the running loader: identity, flags, symbols by address and name. */
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

#include "base/error.h"
#include "base/fd.h"
#include "base/map64.h"
#include "elf/elf.h"

static const char *const paths[] = {"/lib/x86_64-linux-gnu/libc.so.6",
                                    "/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/bin/python3.11",
                                    "/usr/bin/redis-server", "/proc/self/exe"};

struct loaded {
    const char *name; /* "" = the program itself */
    uint8_t id[64];
    size_t n_id;
    uint64_t base;
};

static int on_loaded(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    struct loaded *l = arg;
    if (l->n_id || strcmp(info->dlpi_name, l->name) != 0)
        return 0;
    l->base = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const char *n = (const char *)(info->dlpi_addr + p->p_vaddr);
        if (p->p_type != PT_NOTE)
            continue;
        for (size_t at = 0; at + 12 < p->p_memsz;) {
            const ElfW(Nhdr) *h = (const ElfW(Nhdr) *)(const void *)(n + at);
            if (h->n_type == NT_GNU_BUILD_ID) {
                l->n_id = h->n_descsz;
                memcpy(l->id, n + at + 16, l->n_id);
            }
            at += 12 + ((h->n_namesz + 3) & ~3u) + ((h->n_descsz + 3) & ~3u);
        }
    }
    return 0;
}

static void identity_is_what_the_loader_mapped(void **state)
{
    (void)state;
    struct loaded l = {.name = ""};
    (void)dl_iterate_phdr(on_loaded, &l);
    hw_autofd int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    uint8_t id[HW_BUILD_ID_MAX];
    uint32_t n;
    uint64_t bias;
    assert_int_equal(hw_elf_read_identity(fd, id, &n, &bias, NULL), HW_OK);
    assert_true(n > 0);
    assert_int_equal(n, l.n_id);
    assert_memory_equal(id, l.id, n);
    struct hw_elf *e;
    struct hw_elf_info info;
    assert_int_equal(hw_elf_open(fd, &e, NULL), HW_OK);
    assert_int_equal(hw_elf_get_info(e, &info, NULL), HW_OK);
    assert_int_equal(info.load_bias, bias);
    assert_memory_equal(info.build_id, id, n);
    assert_true(info.has_interp && info.has_dynamic && info.has_symtab && info.has_eh_frame);
    assert_false(info.is_go);
    assert_false(info.defines_malloc && !info.is_asan);
    /* Our own functions: static ones are in .symtab only. */
    uint64_t start, va = (uint64_t)(uintptr_t)identity_is_what_the_loader_mapped - l.base;
    const char *name = hw_elf_function_at(e, va + 5, &start);
    assert_non_null(name);
    assert_string_equal(name, "identity_is_what_the_loader_mapped");
    assert_int_equal(start, va);
    assert_true(hw_elf_find_symbol(e, "main", &start));
    assert_string_equal(hw_elf_function_at(e, start, NULL), "main");
    assert_false(hw_elf_find_symbol(e, "no_such_function_anywhere", &start));
    hw_elf_close(e);
}

static void libc_has_what_dlsym_finds(void **state)
{
    (void)state;
    struct loaded l = {.name = "/lib/x86_64-linux-gnu/libc.so.6"};
    (void)dl_iterate_phdr(on_loaded, &l);
    hw_autofd int fd = open(l.name, O_RDONLY | O_CLOEXEC);
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    if (fd < 0 || !l.base || !libc)
        skip();
    struct hw_elf *e;
    struct hw_elf_info info;
    assert_int_equal(hw_elf_open(fd, &e, NULL), HW_OK);
    assert_int_equal(hw_elf_get_info(e, &info, NULL), HW_OK);
    assert_true(info.defines_malloc);
    static const char *const names[] = {"qsort", "calloc", "getenv", "fopen", "pthread_create"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint64_t va, start, here = (uint64_t)(uintptr_t)dlsym(libc, names[i]) - l.base;
        if (here >> 40)
            continue; /* interposed, as sanitizers do */
        assert_true(hw_elf_find_symbol(e, names[i], &va));
        assert_non_null(hw_elf_function_at(e, here + 1, &start));
        assert_int_equal(start, here);
    }
    hw_elf_close(e);
    (void)dlclose(libc);
}

/* ---- a linear twin over libelf ---- */

struct twin {
    GElf_Sym *v;
    size_t n;
};

static void twin_add(struct twin *t, Elf *elf, GElf_Word type)
{
    Elf_Scn *scn = NULL;
    while ((scn = elf_nextscn(elf, scn))) {
        GElf_Shdr sh;
        Elf_Data *data = elf_getdata(scn, NULL);
        if (!gelf_getshdr(scn, &sh) || sh.sh_type != type || !data)
            continue;
        size_t n = sh.sh_size / sh.sh_entsize;
        t->v = realloc(t->v, (t->n + n) * sizeof *t->v);
        for (size_t i = 0; i < n; i++) {
            GElf_Sym s;
            assert_non_null(gelf_getsym(data, (int)i, &s));
            int kind = GELF_ST_TYPE(s.st_info);
            if ((kind == STT_FUNC || kind == STT_GNU_IFUNC) && s.st_shndx && s.st_size)
                t->v[t->n++] = s;
        }
    }
}

static void addresses_agree_with_twin(void **state)
{
    (void)state;
    assert_int_equal(elf_version(EV_CURRENT), EV_CURRENT);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        hw_autofd int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            continue;
        struct hw_elf *e;
        assert_int_equal(hw_elf_open(fd, &e, NULL), HW_OK);
        Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
        struct twin t = {0};
        twin_add(&t, elf, SHT_SYMTAB);
        if (!t.n)
            twin_add(&t, elf, SHT_DYNSYM);
        uint64_t rng = 5;
        for (int k = 0; t.n && k < 500; k++) {
            rng = hw_hash_mix(rng, 1);
            const GElf_Sym *pick = &t.v[rng % t.n];
            uint64_t va = pick->st_value + (rng >> 32) % pick->st_size, best = 0, start;
            for (size_t j = 0; j < t.n; j++)
                if (va - t.v[j].st_value < t.v[j].st_size && t.v[j].st_value > best)
                    best = t.v[j].st_value;
            assert_non_null(hw_elf_function_at(e, va, &start));
            assert_true(start >= best); /* a symbol without a size may lie nearer */
            if (start != best)
                print_message("%s %#lx: nearer symbol without size\n", paths[i], (long)va);
        }
        free(t.v);
        elf_end(elf);
        hw_elf_close(e);
    }
}

/* ---- hostile ---- */

static void damaged_files_never_crash(void **state)
{
    (void)state;
    hw_autofree char *bytes = NULL;
    size_t n;
    assert_int_equal(hw_file_read(AT_FDCWD, "/proc/self/exe", 256 << 20, &bytes, &n, NULL), HW_OK);
    uint64_t rng = 9;
    for (int i = 0; i < 100; i++) {
        hw_autofd int fd = memfd_create("elf", MFD_CLOEXEC);
        size_t cut = i % 4 == 0 ? (rng >> 8) % n : n;
        assert_int_equal(hw_fd_write_all(fd, bytes, cut), HW_OK);
        for (int k = 0; k < 200; k++) {
            rng = hw_hash_mix(rng, (uint64_t)k);
            size_t at = k % 2 ? rng % 4096 : rng % n;
            uint8_t b = (uint8_t)(rng >> 56);
            if (at < cut)
                assert_int_equal(pwrite(fd, &b, 1, (off_t)at), 1);
        }
        struct hw_elf *e;
        struct hw_elf_info info;
        uint8_t id[HW_BUILD_ID_MAX];
        uint32_t n_id;
        uint64_t va;
        (void)hw_elf_read_identity(fd, id, &n_id, &va, NULL);
        if (hw_elf_open(fd, &e, NULL) < 0)
            continue;
        (void)hw_elf_get_info(e, &info, NULL);
        for (int k = 0; k < 50; k++) {
            rng = hw_hash_mix(rng, 3);
            const char *name = hw_elf_function_at(e, rng % (n * 2), NULL);
            assert_true(!name || strlen(name) > 0);
        }
        (void)hw_elf_find_symbol(e, "main", &va);
        hw_elf_close(e);
    }
}

HW_TEST_MAIN(cmocka_unit_test(identity_is_what_the_loader_mapped),
             cmocka_unit_test(libc_has_what_dlsym_finds),
             cmocka_unit_test(addresses_agree_with_twin),
             cmocka_unit_test(damaged_files_never_crash))

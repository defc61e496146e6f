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
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "elf/elf.h"
#include "elf/image.h"

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
    assert_false(info.defines_malloc && !info.is_sanitized);
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

/* A table of n sections behind the header, of which section 0 tells the numbers (e_shnum 0, or
 * SHN_XINDEX); the last one is the table of names. */
static int many_sections(uint64_t n, uint64_t says, uint32_t names, uint16_t shnum)
{
    static const char text[] = "\0.last";
    int fd = memfd_create("elf", MFD_CLOEXEC);
    Elf64_Ehdr h = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                    .e_type = ET_DYN,
                    .e_machine = EM_X86_64,
                    .e_version = EV_CURRENT,
                    .e_phoff = sizeof h,
                    .e_shoff = 4096,
                    .e_ehsize = sizeof h,
                    .e_phentsize = sizeof(Elf64_Phdr),
                    .e_phnum = 1,
                    .e_shentsize = sizeof(Elf64_Shdr),
                    .e_shnum = shnum,
                    .e_shstrndx = SHN_XINDEX};
    Elf64_Phdr p = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = 4096, .p_memsz = 4096};
    Elf64_Shdr zero = {.sh_size = says, .sh_link = names};
    Elf64_Shdr last = {.sh_name = 1, .sh_type = SHT_STRTAB, .sh_size = sizeof text};
    last.sh_offset = 4096 + n * sizeof zero;
    assert_int_equal(ftruncate(fd, (off_t)(last.sh_offset + sizeof text)), 0);
    assert_int_equal(pwrite(fd, &h, sizeof h, 0), sizeof h);
    assert_int_equal(pwrite(fd, &p, sizeof p, sizeof h), sizeof p);
    assert_int_equal(pwrite(fd, &zero, sizeof zero, 4096), sizeof zero);
    assert_int_equal(pwrite(fd, &last, sizeof last, (off_t)(last.sh_offset - sizeof last)),
                     sizeof last);
    assert_int_equal(pwrite(fd, text, sizeof text, (off_t)last.sh_offset), sizeof text);
    return fd;
}

/* More sections than the header has room for; and numbers that no file can keep. */
static void numbers_of_sections_in_section_zero(void **state)
{
    (void)state;
    static const struct {
        uint64_t n, says;
        uint32_t names;
        uint16_t shnum;
        size_t found; /* sections; 0: as if it had none */
        bool named;
    } cases[] = {
        {65500, 65500, 65499, 0, 65500, true},
        {65500, 0, 65499, 65279, 65279, false},
        {8, 8, 7, 0, 8, true},
        {8, 8, 8, 0, 8, false},
        {8, 8, UINT32_MAX, 0, 8, false},
        {8, 0, 0, 0, 0, false},
        {70000, 70000, 69999, 0, 0, false},
        {8, 1000, 7, 0, 0, false},
        {8, UINT64_C(1) << 58, 7, 0, 0, false},
        {8, UINT64_MAX, 7, 0, 0, false},
        {8, UINT64_C(0x400000000000008), 7, 0, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hw_image img;
        hw_autofd int fd = many_sections(cases[i].n, cases[i].says, cases[i].names, cases[i].shnum);
        assert_int_equal(hw_image_open(&img, fd, NULL, 0, /* with_sections = */ true, NULL), 0);
        if (img.n_sections != cases[i].found ||
            (hw_image_find(&img, ".last") != NULL) != cases[i].named)
            fail_msg("case %zu: %zu sections", i, img.n_sections);
        hw_image_close(&img);
        struct hw_elf *e;
        struct hw_elf_info info;
        if (hw_elf_open(fd, &e, NULL) < 0) /* elfutils reads it, too */
            continue;
        (void)hw_elf_get_info(e, &info, NULL);
        (void)hw_elf_function_at(e, 100, NULL);
        hw_elf_close(e);
    }
}

HW_TEST_MAIN(cmocka_unit_test(identity_is_what_the_loader_mapped),
             cmocka_unit_test(libc_has_what_dlsym_finds),
             cmocka_unit_test(addresses_agree_with_twin),
             cmocka_unit_test(damaged_files_never_crash),
             cmocka_unit_test(numbers_of_sections_in_section_zero))

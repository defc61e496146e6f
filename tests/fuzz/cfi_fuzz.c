/* The table compiler and the ELF reader on hostile files: the input is a whole ELF file. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "cfi/cfi.h"
#include "elf/elf.h"
#include "unwind/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void look_up(const struct hw_table_header *h, size_t n)
{
    if (hw_table_check(h, n) != HW_OK)
        abort(); /* the compiler must make sound tables or none */
    uint64_t step = (h->hi_va - h->lo_va) / 64 + 1;
    for (uint64_t va = h->lo_va; va < h->hi_va; va += step)
        if (hw_table_lookup(h, va).kind >= HW_RULE_KIND_COUNT)
            abort();
}

static void ask(struct hw_elf *e, size_t n)
{
    struct hw_elf_info info;
    uint64_t va;
    (void)hw_elf_get_info(e, &info, NULL);
    for (uint64_t at = 0; at < n * 2; at += n / 16 + 1)
        (void)hw_elf_function_at(e, at, &va);
    (void)hw_elf_find_symbol(e, "main", &va);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    hw_autofd int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || hw_fd_write_all(fd, data, n) < 0)
        return 0;
    hw_autofree void *table = NULL;
    size_t n_table;
    struct hw_cfi_stats stats;
    char key[HW_CFI_KEY_MAX];
    if (hw_cfi_compile(fd, fd, &table, &n_table, &stats, NULL) == HW_OK)
        look_up(table, n_table);
    (void)hw_cfi_cache_key(fd, key, NULL);
    struct hw_elf *e;
    if (hw_elf_open(fd, &e, NULL) == HW_OK) {
        ask(e, n);
        hw_elf_close(e);
    }
    return 0;
}

/*
 * Any bytes as an ELF file with symbols and debug info, and addresses asked of it. Under
 * AddressSanitizer only our own symbol reader runs: libdw 0.188 reads beyond a .debug_line that
 * ends inside a string (dwarf_getsrclines), which is not ours to mend. Programs read debug info in
 * a process of its own for that reason (enrich/lines/line_worker.h).
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/files/fd.h"
#include "elf/elf.h"
#include "elf/lines.h"
#include "elf/new_types.h"

#ifdef __has_feature /* clang's word for it */
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int check(void *ctx, size_t index, const struct hw_line *chain, size_t n)
{
    (void)ctx;
    (void)index;
    for (size_t i = 0; i < n; i++)
        if (chain[i].line && !chain[i].file)
            abort(); /* a line of nothing */
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    enum { N = 128 };
    uint64_t va[N];
    struct hw_lines *l;
    hw_autofd int fd = memfd_create("lines", MFD_CLOEXEC);
    if (fd < 0 || hw_fd_write_all(fd, data, n) < 0 || hw_lines_open(fd, &l, NULL) < 0)
        return 0;
    for (uint64_t i = 0; i < N; i++)
        va[i] = i * 0x40;
#ifdef __SANITIZE_ADDRESS__
    (void)check;
#else
    (void)hw_lines_resolve(l, va, N, check, NULL); /* damage is as if absent */
    (void)hw_lines_new_types(l, va, N, check, NULL);
#endif
    (void)hw_lines_is_folded(l, va[N / 2]);
    hw_lines_close(l);
    return 0;
}

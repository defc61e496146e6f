/*
 * library_copy.h - copies of the client library, whole and broken; for one test program
 */
#ifndef HW_TESTS_INJECT_LIBRARY_COPY_H
#define HW_TESTS_INJECT_LIBRARY_COPY_H

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* path: out. -> its descriptor, for writing */
static inline int copy_library(const char *library, char path[64])
{
    char buf[65536];
    ssize_t n;
    snprintf(path, 64, "/tmp/hw-inject-XXXXXX");
    int from = open(library, O_RDONLY | O_CLOEXEC), to = mkostemp(path, O_CLOEXEC);
    assert_true(from >= 0 && to >= 0);
    while ((n = read(from, buf, sizeof buf)) > 0)
        assert_int_equal(write(to, buf, (size_t)n), n);
    close(from);
    return to;
}

/* Where its second segment lies in the file: beyond what any file may have, so it cannot be mapped. */
static inline void write_unloadable(char path[64])
{
    Elf64_Ehdr e;
    Elf64_Phdr p;
    int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, &e, sizeof e, 0), sizeof e);
    for (int i = 0; i < e.e_phnum; i++) {
        off_t at = (off_t)(e.e_phoff + (uint64_t)i * sizeof p);
        assert_int_equal(pread(fd, &p, sizeof p, at), sizeof p);
        if (p.p_type != PT_LOAD || !(p.p_flags & PF_X))
            continue;
        p.p_offset = (UINT64_MAX >> 1 & ~UINT64_C(0xffff)) | (p.p_vaddr & 0xffff);
        assert_int_equal(pwrite(fd, &p, sizeof p, at), sizeof p);
    }
    close(fd);
}

#endif

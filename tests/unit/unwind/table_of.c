/* table_of ELF OUT: compiles the unwind table of a file, for tests on other architectures. */
#include <fcntl.h>
#include <stdio.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "cfi/cfi.h"

int main(int argc, char **argv)
{
    struct hw_error err = {0};
    hw_autofree void *table = NULL;
    size_t n;
    if (argc != 3)
        return 2;
    hw_autofd int in = open(argv[1], O_RDONLY | O_CLOEXEC);
    hw_autofd int out = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (in < 0 || out < 0 || hw_cfi_compile(in, -1, &table, &n, NULL, &err) < 0 ||
        hw_fd_write_all(out, table, n) < 0) {
        fprintf(stderr, "%s: %s\n", argv[1], err.text);
        return 1;
    }
    return 0;
}

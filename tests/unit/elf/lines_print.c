/*
 * lines_print FILE [PROGRAM] <ADDRESSES: for each hexadecimal address the chain as addr2line -a -i
 * -f has it; with PROGRAM, an llvm-symbolizer, by that.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/vec.h"
#include "elf/lines.h"
#include "enrich/lines/llvm.h"

struct print {
    const uint64_t *va;
};

static int put(void *ctx, size_t index, const struct hw_line *chain, size_t n)
{
    const struct print *p = ctx;
    printf("0x%016" PRIx64 "\n", p->va[index]);
    for (size_t i = 0; i < n; i++)
        printf("%s\n%s:%u\n", chain[i].function ? chain[i].function : "??",
               chain[i].file ? chain[i].file : "??", chain[i].line);
    if (n == 0)
        printf("??\n??:0\n");
    return 0;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static int by_llvm(const char *program, const char *file, struct print *p, size_t n)
{
    struct hw_llvm *l;
    struct hw_error err = {0};
    int rc = hw_llvm_start(program, /* limit_ms = */ 60000, &l, &err);
    if (rc == 0) {
        rc = hw_llvm_resolve(l, file, p->va, n, put, p, &err);
        hw_llvm_stop(l);
    }
    if (rc < 0)
        fprintf(stderr, "%s\n", err.text);
    return rc;
}

int main(int argc, char **argv)
{
    HW_VEC(uint64_t) va = {0};
    struct hw_lines *l;
    struct hw_error err = {0};
    uint64_t v;
    hw_autofd int fd = argc >= 2 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
    if (hw_lines_open(fd, &l, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    while (scanf("%" SCNx64, &v) == 1)
        if (hw_vec_push(&va, v) < 0)
            return 1;
    if (va.n)
        qsort(va.v, va.n, sizeof *va.v, compare);
    struct print p = {va.v};
    int rc =
        argc > 2 ? by_llvm(argv[2], argv[1], &p, va.n) : hw_lines_resolve(l, va.v, va.n, put, &p);
    hw_lines_close(l);
    hw_vec_done(&va);
    return rc < 0;
}

/*
 * tables.c - size and compile time of unwind tables
 *
 * Usage: tables FILE...   one line per ELF file: best of 5 compiles, the file in the page cache
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "cfi/cfi.h"
#include "unwind/table.h"

#include "base/banned.h"

static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int one(const char *path)
{
    hw_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct hw_error err = {0};
    struct hw_cfi_stats st;
    double best = 1e9;
    size_t n_bytes = 0;
    if (fd < 0) {
        perror(path);
        return 1;
    }
    for (int i = 0; i < 5; i++) {
        hw_autofree void *t = NULL;
        double t0 = now_ms();
        if (hw_cfi_compile(fd, -1, &t, &n_bytes, &st, &err) < 0) {
            fprintf(stderr, "%s: %s\n", path, err.text);
            return 1;
        }
        double ms = now_ms() - t0;
        best = ms < best ? ms : best;
        if (hw_table_check(t, n_bytes) < 0) {
            fprintf(stderr, "%s: table fails its own check\n", path);
            return 1;
        }
    }
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    double mb = (double)st.eh_frame_bytes / (1 << 20);
    printf("%-28.28s eh_frame %8" PRIu64 "  table %8zu (%.2f)  rows %7" PRIu64 " unsup %5" PRIu64
           "  rules %5" PRIu64 "  fdes %6" PRIu64 " dropped %3" PRIu64 "  %6.2f ms (%.1f ms/MB)\n",
           name, st.eh_frame_bytes, n_bytes,
           (double)n_bytes / (double)(st.eh_frame_bytes ? st.eh_frame_bytes : 1), st.n_rows,
           st.n_unsup_rows, st.n_rules, st.n_fdes, st.n_dropped_fdes, best, best / mb);
    return 0;
}

int main(int argc, char **argv)
{
    int bad = argc < 2;
    for (int i = 1; i < argc; i++)
        bad |= one(argv[i]);
    return bad;
}

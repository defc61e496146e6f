/* Go's table of functions in hostile files: the input is a whole ELF file. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "elf/go_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MOST = 4 };

static void name_all(struct hw_go_table *t)
{
    static struct hw_go_frame frames[MOST];
    uint64_t lo, hi;
    hw_go_table_text(t, &lo, &hi);
    if (lo > hi)
        abort();
    uint64_t step = (hi - lo) / 64 + 1;
    for (uint64_t at = lo, i = 0; at <= hi && i < 66; at += step, i++) {
        size_t k = hw_go_table_frames(t, at, /* is_last = */ i % 2, frames, MOST);
        if (k > MOST || (i % 2 == 0 && k > 1))
            abort();
        while (k-- > 0)
            if (strlen(frames[k].function) >= HW_GO_NAME_MAX ||
                strlen(frames[k].file) >= HW_GO_NAME_MAX)
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    hw_autofd int fd = memfd_create("fuzz", MFD_CLOEXEC);
    struct hw_go_table *t;
    uint64_t word, lo, hi;
    if (fd < 0 || hw_fd_write_all(fd, data, n) < 0)
        return 0;
    (void)hw_go_table_is_in(fd);
    if (hw_go_table_open(fd, &t, NULL) < 0)
        return 0;
    name_all(t);
    (void)hw_go_table_word(t, hw_go_table_rate(t), &word);
    hw_go_table_text(t, &lo, &hi);
    hw_go_table_place(t, lo, hw_go_table_first(t));
    name_all(t);
    hw_go_table_place(t, lo, hi);
    name_all(t);
    hw_go_table_close(t);
    return 0;
}

/* Any bytes as a perf map and as a jitdump, in two pieces. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "proc/jit/jit_code.h"
#include "proc/jit/jitdump.h"
#include "proc/jit/perf_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const struct hw_jit_code *c)
{
    for (size_t i = 0; i < c->recent.n; i++) {
        const struct hw_jit_range *r = &c->recent.v[i];
        if (r->lo >= r->hi || (i > 0 && r[-1].hi > r->lo) || hw_jit_code_find(c, r->lo) != r)
            abort();
        (void)hw_jit_line_of(r, r->lo); /* only that it ends well */
    }
}

static void as_dump(const uint8_t *data, size_t n, size_t cut)
{
    struct hw_jitdump d = {0};
    struct hw_jit_code c = {0};
    uint64_t at = 0, used = 1;
    size_t size, ends[2] = {cut, n};
    for (int i = 0; i < 2; i++)
        for (used = 1; used && at < ends[i]; at += used)
            if (hw_jitdump_read(&d, &c, hw_bytes_of(data + at, ends[i] - (size_t)at),
                                i ? UINT64_MAX : UINT64_MAX / 2, &used, &size) < 0)
                goto done;
done:
    check(&c);
    hw_jitdump_done(&d);
    hw_jit_code_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_jit_code c = {0};
    size_t cut = n ? data[0] % (n + 1) : 0, used;
    uint64_t n_bad = 0;
    if (hw_perf_map_read(&c, hw_bytes_of(data, cut), false, &used, &n_bad) == 0)
        (void)hw_perf_map_read(&c, hw_bytes_skip(hw_bytes_of(data, n), used), true, &used, &n_bad);
    check(&c);
    hw_jit_code_done(&c);
    as_dump(data, n, cut);
    return 0;
}

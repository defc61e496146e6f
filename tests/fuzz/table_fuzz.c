/* A table from a hostile cache: what passes the check must be safe to look up in. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "unwind/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_table_header *h =
        malloc(n ? n : 1); /* aligned, and its end is a sanitizer's redzone */
    if (!h)
        return 0;
    if (n)
        memcpy(h, data, n);
    if (n >= sizeof *h && h->total_bytes >= sizeof *h && h->total_bytes <= n)
        h->checksum = hw_table_checksum(h + 1, (size_t)h->total_bytes - sizeof *h);
    if (hw_table_check(h, n) == HW_OK) {
        uint64_t step = (h->hi_va - h->lo_va) / 997 + 1;
        for (uint64_t va = h->lo_va - step; va - h->lo_va + step < h->hi_va - h->lo_va + 3 * step;
             va += step)
            if (hw_table_lookup(h, va).kind >= HW_RULE_KIND_COUNT)
                abort();
    }
    free(h);
    return 0;
}

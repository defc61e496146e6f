/* Any bytes as what the process that reads debug info answers to a question for some addresses. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "enrich/lines/line_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { N = 16 };

static int check(void *ctx, size_t index, const struct hw_line *chain, size_t n, bool folded)
{
    size_t *next = ctx, bytes = folded;
    if (index != (*next)++ || index >= N || n > HW_MAX_INLINE_DEPTH)
        abort();
    for (size_t i = 0; i < n; i++)
        bytes += (chain[i].function ? strlen(chain[i].function) : 0) +
                 (chain[i].file ? strlen(chain[i].file) : 0);
    return bytes == SIZE_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    size_t next = 0;
    int rc = hw_line_reader_parse(hw_bytes_of(data, n), N, check, &next, NULL);
    if (rc == 0 && next != N)
        abort(); /* an end before all were answered */
    return 0;
}

/* Any bytes as a Breakpad symbol file, and addresses asked of it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "enrich/symbols/breakpad.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_breakpad *b;
    struct hw_line line;
    if (hw_breakpad_parse(hw_bytes_of(data, n), &b, NULL) < 0)
        return 0;
    for (uint64_t va = 0; va < 0x3000; va += 0x71)
        if (hw_breakpad_at(b, va, &line) && !line.function)
            abort(); /* what is found has a name */
    hw_breakpad_free(b);
    return 0;
}

/* Any bytes as what a disassembler prints. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "enrich/lines/disassemble.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_code c = {.start = 0x1000, .end = 0x2100};
    if (hw_disassemble_parse(hw_bytes_of(data, n), &c) == 0)
        for (size_t i = 0; i < c.list.n; i++) {
            const struct hw_instruction *x = &c.list.v[i];
            if (x->va < c.start || x->va >= c.end || (i && x[-1].va >= x->va))
                abort();
            if (x->text >= c.texts.n || x->text + strlen(c.texts.p + x->text) >= c.texts.n)
                abort();
            if (hw_code_at(&c, x->va) != x || (i && hw_code_at(&c, x->va - 1) != x - 1))
                abort();
        }
    hw_code_done(&c);
    return 0;
}

/* x86_main.c - "bytes in hex | text" a line, as x86.py makes them of objdump's: are the lengths
 * ours? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inject/remote/x86.h"

int main(void)
{
    static char line[4096];
    unsigned long n = 0, wrong = 0;
    while (fgets(line, sizeof line, stdin)) {
        uint8_t b[64];
        size_t want = 0;
        char *bar = strchr(line, '|'), *p = line, *end;
        if (!bar)
            continue;
        *bar = 0;
        for (;; p = end) {
            unsigned long v = strtoul(p, &end, 16);
            if (end == p || want == 16)
                break;
            b[want++] = (uint8_t)v;
        }
        memset(b + want, 0x90, 16);
        struct hw_x86 x;
        int have = hw_x86_decode((struct hw_bytes){b, want + 16}, &x);
        int cut = hw_x86_decode((struct hw_bytes){b, want - 1}, &x);
        n++;
        if ((size_t)have == want && cut == 0)
            continue;
        if (wrong++ < 20)
            printf("%zu bytes, not %d (%d of one less): %s |%s", want, have, cut, line, bar + 1);
    }
    printf("%lu instructions, %lu wrong\n", n, wrong);
    return wrong != 0 || n < 10000;
}

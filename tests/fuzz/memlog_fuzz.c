/* Modes of memory internals, and what a process is by its environment, arguments and groups. */
#include <stdlib.h>
#include <string.h>

#include "config/memlog_modes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hw_memlog m = {0};
    char role[64], group[48];
    size_t half = size / 2;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    hw_memlog_role(hw_bytes_of(data, half), hw_bytes_skip(hw_bytes_of(data, size), half), size & 1,
                   role);
    hw_memlog_cgroup(text, group, sizeof group);
    if (hw_memlog_parse(hw_bytes_of(data, size), &m, NULL) == 0) {
        struct hw_memlog_process p = {
            .role = role, .argv0 = text, .cgroup = group, .chance = size, .others = size & 2};
        (void)hw_memlog_means(&m, &p); /* any answer is right */
    }
    hw_memlog_done(&m);
    free(text);
    return 0;
}

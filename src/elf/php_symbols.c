#include "elf/php_symbols.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "elf/image.h"
#include "elf/symbols.h"

#include "base/banned.h"

#define MAX_SECTION (64u << 20)

/* "API20220829,NTS" with a NUL on either side. */
static uint32_t api_in(const uint8_t *p, size_t n)
{
    static const char before[] = "\0API", after[] = ",NTS";
    const size_t n_before = 4, n_digits = 8;
    const uint8_t *end = p + n;
    for (const uint8_t *at = p; (at = memmem(at, (size_t)(end - at), before, n_before)); at++) {
        const uint8_t *digit = at + n_before;
        uint32_t api = 0;
        if ((size_t)(end - digit) < n_digits + sizeof after ||
            memcmp(digit + n_digits, after, sizeof after) != 0)
            continue;
        for (size_t i = 0; i < n_digits; i++)
            api = digit[i] >= '0' && digit[i] <= '9' ? api * 10 + (digit[i] - '0') : 0;
        if (api)
            return api;
    }
    return 0;
}

void hw_php_symbols_find(int elf_fd, struct hw_php_symbols *out)
{
    struct hw_image img;
    uint8_t *bytes = NULL;
    size_t n = 0;
    *out = (struct hw_php_symbols){0};
    if (hw_image_open(&img, elf_fd, NULL, 0, true, NULL) < 0)
        return;
    if (!hw_symbols_find_sized(&img, ".dynsym", "execute_ex", &out->exec, &out->exec_bytes)) {
        out->exec = 0;
    } else {
        const struct hw_image_section *s = hw_image_find(&img, ".rodata");
        if (!hw_symbols_find_sized(&img, ".dynsym", "executor_globals", &out->globals,
                                   &out->globals_bytes))
            out->globals = 0;
        if (s && hw_image_read_section(&img, s, MAX_SECTION, &bytes, &n, NULL) == HW_OK)
            out->api = api_in(bytes, n);
    }
    free(bytes);
    hw_image_close(&img);
}

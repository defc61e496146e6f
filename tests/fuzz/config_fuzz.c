/*
 * The configuration parser: text in both modes, the same bytes as a binary message, and what text
 * gives printed and read again, which must change nothing.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void binary(struct hw_bytes in)
{
    struct hw_trace_config c;
    struct hw_error err;
    if (hw_config_read(in, &c, &err) == 0)
        hw_trace_config_done(&c);
}

static void text(struct hw_bytes in, bool lossy)
{
    struct hw_strbuf one = {0}, printed = {0}, two = {0};
    struct hw_error err;
    if (hw_config_text_to_binary("f", in, lossy, &one, &err) == 0) {
        binary(hw_bytes_of(one.p, one.n));
        if (hw_config_binary_to_text(hw_bytes_of(one.p, one.n), &printed, &err) != 0 ||
            hw_config_text_to_binary("f", hw_bytes_of(printed.p, printed.n), false, &two, &err) !=
                0)
            abort();
        if (one.n != two.n || (one.n && memcmp(one.p, two.p, one.n) != 0))
            abort();
    }
    hw_strbuf_done(&one);
    hw_strbuf_done(&printed);
    hw_strbuf_done(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct hw_bytes in = hw_bytes_of(data, n);
    text(in, false);
    text(in, true);
    binary(in);
    struct hw_strbuf printed = {0};
    (void)hw_config_binary_to_text(in, &printed, NULL); /* broken ones are refused */
    hw_strbuf_done(&printed);
    return 0;
}

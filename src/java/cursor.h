/*
 * cursor.h - bytes of the agent, read from the front
 *
 * Trust:   they are another process's: what does not fit sets `bad`, and reads give 0 and empty
 *          texts from then on.
 */
#ifndef HW_JAVA_CURSOR_H
#define HW_JAVA_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_java_cursor {
    const uint8_t *p, *end;
    bool bad;
};

static inline uint64_t hw_java_get(struct hw_java_cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && c->p < c->end; shift += 7) {
        uint8_t b = *c->p++;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            return v;
    }
    c->bad = true;
    return 0;
}

static inline struct hw_bytes hw_java_get_text(struct hw_java_cursor *c)
{
    uint64_t n = hw_java_get(c);
    if (n > (uint64_t)(c->end - c->p)) {
        c->bad = true;
        n = 0;
    }
    struct hw_bytes text = hw_bytes_of(c->p, (size_t)n);
    c->p += n;
    return text;
}

#endif

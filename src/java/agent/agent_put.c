#include <string.h>
#include <unistd.h>

#include "java/agent/agent.h"

#include "base/banned.h"

enum { MAX_TEXT = 1 << 16 };

static void flush(struct agent_out *o)
{
    size_t at = 0;
    while (at < o->n && !o->failed) {
        ssize_t n = write(o->fd, o->bytes + at, o->n - at);
        if (n <= 0)
            o->failed = true; /* a memory file: no room */
        else
            at += (size_t)n;
    }
    o->n = 0;
}

void agent_put_begin(struct agent_out *o, int fd)
{
    o->fd = fd;
    o->failed = false;
    o->n = 0;
}

void agent_put(struct agent_out *o, uint64_t v)
{
    if (o->n + 10 > sizeof o->bytes)
        flush(o);
    for (; v >= 0x80; v >>= 7)
        o->bytes[o->n++] = (uint8_t)(v | 0x80);
    o->bytes[o->n++] = (uint8_t)v;
}

void agent_put_text(struct agent_out *o, const char *text)
{
    size_t n = text ? strnlen(text, MAX_TEXT) : 0;
    agent_put(o, n);
    for (size_t i = 0; i < n; i++) {
        if (o->n == sizeof o->bytes)
            flush(o);
        o->bytes[o->n++] = (uint8_t)text[i];
    }
}

bool agent_put_end(struct agent_out *o)
{
    flush(o);
    return !o->failed;
}

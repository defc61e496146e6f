#include "base/memory/arena.h"

#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

struct hw_arena_block {
    struct hw_arena_block *next;
    char data[];
};

enum { BLOCK_BYTES = 64 * 1024 };

void hw_arena_done(struct hw_arena *a)
{
    while (a->blocks) {
        struct hw_arena_block *next = a->blocks->next;
        free(a->blocks);
        a->blocks = next;
    }
    *a = (struct hw_arena){0};
}

void *hw_arena_alloc(struct hw_arena *a, size_t n)
{
    if (n > (size_t)-1 / 2)
        return NULL;
    n = (n + 7) & ~(size_t)7;
    if (n > (size_t)(a->end - a->next)) {
        size_t bytes = n > BLOCK_BYTES / 4 ? n : BLOCK_BYTES;
        struct hw_arena_block *b = malloc(sizeof *b + bytes);
        if (!b)
            return NULL;
        a->total += bytes;
        b->next = a->blocks;
        a->blocks = b;
        if (bytes == n) /* a block of its own: the current one keeps its free rest */
            return b->data;
        a->next = b->data;
        a->end = b->data + bytes;
    }
    void *p = a->next;
    a->next += n;
    return p;
}

char *hw_arena_copy(struct hw_arena *a, const void *p, size_t n)
{
    char *c = n < (size_t)-1 / 4 ? hw_arena_alloc(a, n + 1) : NULL;
    if (!c)
        return NULL;
    if (n)
        memcpy(c, p, n);
    c[n] = 0;
    return c;
}

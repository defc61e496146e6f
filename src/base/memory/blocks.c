/*
 * A block begins at a multiple of its usual size, and every piece in the first of these multiples:
 * so the block is found from the piece. It goes when the last of its pieces is released, unless it
 * is the one that is being filled.
 */
#include "base/memory/blocks.h"

#include <string.h>
#include <sys/mman.h>

#include "base/banned.h"

static const size_t block_bytes = 1 << 20;

struct hw_block {
    struct hw_block *before, *after;
    size_t bytes; /* of the mapping */
    size_t used;
    size_t n_pieces; /* not released yet */
};

static void unmap(void *p, size_t n)
{
    if (n)
        (void)munmap(p, n); /* of what we mapped: cannot fail */
}

/* Maps more than is needed and gives back what is too much at either end. */
static struct hw_block *block_new(size_t bytes)
{
    size_t mapped = bytes + block_bytes;
    char *p = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t skip = (size_t)(-(uintptr_t)p & (block_bytes - 1));
    unmap(p, skip);
    unmap(p + skip + bytes, mapped - skip - bytes);
    struct hw_block *b = (struct hw_block *)(void *)(p + skip);
    *b = (struct hw_block){.bytes = bytes, .used = sizeof *b};
    return b;
}

static void block_free(struct hw_blocks *b, struct hw_block *k)
{
    if (k->before)
        k->before->after = k->after;
    else
        b->first = k->after;
    if (k->after)
        k->after->before = k->before;
    unmap(k, k->bytes);
}

void hw_blocks_done(struct hw_blocks *b)
{
    while (b->first)
        block_free(b, b->first);
    *b = (struct hw_blocks){0};
}

static struct hw_block *room_for(struct hw_blocks *b, size_t n)
{
    size_t head = sizeof(struct hw_block) + HW_BLOCKS_SLACK;
    struct hw_block *full = b->current;
    if (full && full->used < block_bytes && n + HW_BLOCKS_SLACK <= full->bytes - full->used)
        return full;
    size_t need = n <= block_bytes - head ? block_bytes : (head + n + 0xfff) & ~(size_t)0xfff;
    struct hw_block *k = block_new(need);
    if (!k)
        return NULL;
    k->after = b->first;
    if (b->first)
        b->first->before = k;
    b->first = k;
    b->current = k;
    if (full && !full->n_pieces)
        block_free(b, full);
    return k;
}

const uint8_t *hw_blocks_add(struct hw_blocks *b, struct hw_bytes piece)
{
    struct hw_block *k = piece.n < (size_t)-1 / 4 ? room_for(b, piece.n) : NULL;
    if (!k)
        return NULL;
    uint8_t *p = (uint8_t *)k + k->used;
    if (piece.n)
        memcpy(p, piece.p, piece.n);
    k->used += piece.n;
    k->n_pieces++;
    return p;
}

void hw_blocks_release(struct hw_blocks *b, const uint8_t *piece)
{
    struct hw_block *k = (struct hw_block *)(void *)((uintptr_t)piece & ~(block_bytes - 1));
    if (--k->n_pieces == 0 && k != b->current)
        block_free(b, k);
}

#include "base/memory/vec.h"

#include <stdint.h>

#include "base/banned.h"
#include "base/error.h"

int hw_vec_grow(void **v, size_t *cap, size_t want, size_t elem_size)
{
    size_t next = *cap ? *cap * 2 : 16;
    if (next < want)
        next = want;
    size_t bytes;
    if (__builtin_mul_overflow(next, elem_size, &bytes))
        return HW_ENOMEM;
    void *grown = realloc(*v, bytes);
    if (!grown)
        return HW_ENOMEM;
    *v = grown;
    *cap = next;
    return HW_OK;
}

/*
 * vec.h - a growing array of one element type
 *
 * Shapes:  struct { T *v; size_t n, cap; } declared with HW_VEC(T); zero-initialised is empty.
 * Owns:    its storage; hw_vec_done frees it.
 * Errors:  hw_vec_reserve / hw_vec_push give HW_OK or HW_ENOMEM and leave the array as it was.
 *
 *     HW_VEC(uint64_t) pcs = {0};
 *     if (hw_vec_push(&pcs, pc) < 0) ...
 */
#ifndef HW_BASE_MEMORY_VEC_H
#define HW_BASE_MEMORY_VEC_H

#include <stddef.h>
#include <stdlib.h>

#define HW_VEC(T)                                                                                  \
    struct {                                                                                       \
        T *v;                                                                                      \
        size_t n, cap;                                                                             \
    }

int hw_vec_grow(void **v, size_t *cap, size_t want, size_t elem_size);

#define hw_vec_reserve(vec, want)                                                                  \
    ((want) <= (vec)->cap                                                                          \
         ? 0                                                                                       \
         : hw_vec_grow((void **)&(vec)->v, &(vec)->cap, (want), sizeof *(vec)->v))
#define hw_vec_push(vec, ...)                                                                      \
    (hw_vec_reserve((vec), (vec)->n + 1) < 0 ? -1 : ((vec)->v[(vec)->n++] = (__VA_ARGS__), 0))
/* The elements from i on; of an empty array no sum is formed with its null pointer. */
#define hw_vec_from(vec, i) ((vec)->n ? (vec)->v + (i) : (vec)->v)
#define hw_vec_clear(vec)   ((void)((vec)->n = 0))
#define hw_vec_done(vec)    (free((vec)->v), (vec)->v = NULL, (void)((vec)->n = (vec)->cap = 0))

#endif

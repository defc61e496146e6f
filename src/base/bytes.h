/*
 * bytes.h - a view of bytes, and little-endian loads and stores
 *
 * Why:     input is hostile until checked; a view carries its length with it.
 * Owns:    nothing. A view lives as long as what it looks at.
 * Source:  usable inside a target: no libc calls but inlined memcpy.
 */
#ifndef HW_BASE_BYTES_H
#define HW_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct hw_bytes {
    const uint8_t *p;
    size_t n;
};

static inline struct hw_bytes hw_bytes_of(const void *p, size_t n)
{
    return (struct hw_bytes){(const uint8_t *)p, n};
}

static inline struct hw_bytes hw_bytes_str(const char *s)
{
    return (struct hw_bytes){(const uint8_t *)s, strlen(s)};
}

/* Behind the last byte. Nothing may be added to a null pointer, not even 0: compilers draw
 * conclusions from the sum. */
static inline const uint8_t *hw_bytes_end(struct hw_bytes b)
{
    return b.n ? b.p + b.n : b.p;
}

/* Without the first n, which it must have. */
static inline struct hw_bytes hw_bytes_skip(struct hw_bytes b, size_t n)
{
    return n ? hw_bytes_of(b.p + n, b.n - n) : b;
}

static inline int hw_bytes_equal(struct hw_bytes a, struct hw_bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline uint16_t hw_load_u16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t hw_load_u32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t hw_load_u64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

#define HW_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
/* Fetches the line at p for writing. The empty asm: gcc takes a function that does nothing but
 * prefetch for one without effect, and drops the calls (seen with gcc 12). */
#define hw_prefetch_write(p)                                                                       \
    do {                                                                                           \
        __builtin_prefetch((p), 1);                                                                \
        __asm__ volatile("");                                                                      \
    } while (0)

#define hw_likely(x)   __builtin_expect(!!(x), 1)
#define hw_unlikely(x) __builtin_expect(!!(x), 0)

#endif

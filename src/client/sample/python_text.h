/*
 * python_text.h - what python.c reads of the interpreter's objects: words, strings, lines of code
 *
 * Why:     apart from the chain of frames, which needs none of how a string or a table of lines is written.
 * Shapes:  an object is its address. Offsets are those of wire/python.def.
 * Errors:  k->bad, for good: an address that cannot be one. Then values are 0.
 * Threads: see python.c.
 */
#ifndef HW_CLIENT_SAMPLE_PYTHON_TEXT_H
#define HW_CLIENT_SAMPLE_PYTHON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/client.h"
#include "client/interpreters/chain_reader.h"
#include "wire/python.def"

#define MAX_LINES  (1u << 22) /* bytes of a table of lines */
#define SOME_LINES 64u        /* bytes of one that are compared */

#define HASH_1 0x9e3779b97f4a7c15u
#define HASH_2 0xd6e8feb86659fd92u /* even: HASH_1 and its multiples stay odd */
#define HASH_3 0x9fb21c651e98df25u

/* Objects: reference count, type; then what each kind has. */
#define TYPE_AT    8u
#define SIZE_AT    16u /* of strings: characters; of bytes */
#define HASH_AT    24u
#define STATE_AT   32u
#define BYTES_AT   32u
#define NOT_HASHED UINT64_MAX /* yet */

#define STATE_COMPACT 0x20u
#define STATE_ASCII   0x40u
#define STATE_KIND(s) ((s) >> 2 & 7u)

struct layout {
    uint32_t minor;
    uint16_t finalizing, tss, cframe, current, code, previous, instr, owner, is_entry, first_line,
        file, name, qualname, lines, first_traceable, bytecode, ascii, compact, version;
};

static const struct layout layouts[] = {
#define ROW(...) {__VA_ARGS__},
    HW_PYTHONS(ROW)
#undef ROW
};

#define N_OLD 3 /* layouts of versions whose frames have an evaluation each */

static inline bool is_old(const struct layout *l)
{
    return l->owner == HW_PYTHON_NONE;
}

/* ---- loads ---- */

/* The same where the compiler knows whether the reader is careful. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE uint64_t fast_at(struct chain_reader *k, bool careful, uint64_t at)
{
    return careful ? word_at(k, at) : *(const volatile uint64_t *)(uintptr_t)at;
}

static inline bool is_address(uint64_t at)
{
    return at - HW_CHAIN_NULL_BYTES < (1ull << 47) - HW_CHAIN_NULL_BYTES && at % 8 == 0;
}

/* ---- names ---- */

static inline char *utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    } else {
        *out++ = (char)(0xf0 | (c >> 18 & 7));
        *out++ = (char)(0x80 | (c >> 12 & 0x3f));
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    }
    return out;
}

/* A string object's text; out has HW_NAME_MAX_BYTES + 8 for one that is not ASCII. */
static inline struct text text_of(struct chain_reader *k, uint64_t string, char *out)
{
    uint64_t n = word_at(k, string + SIZE_AT);
    uint32_t state = u32_at(k, string + STATE_AT), kind = STATE_KIND(state);
    struct text none = {NULL, 0};
    if (k->bad || !(state & STATE_COMPACT) || n == 0 || n >> 32 ||
        (kind != 1 && kind != 2 && kind != 4))
        return none;
    if (n > HW_NAME_MAX_BYTES)
        n = HW_NAME_MAX_BYTES;
    uint64_t at = string + (state & STATE_ASCII ? k->l->ascii : k->l->compact);
    if (!may_read(k, at, n * kind))
        return none;
    if (state & STATE_ASCII)
        return (struct text){(const char *)(uintptr_t)at, n};
    char *end = out;
    for (uint64_t i = 0; i < n && end < out + HW_NAME_MAX_BYTES; i++) {
        const char *p = (const char *)(uintptr_t)(at + i * kind);
        uint32_t c = 0;
        memcpy(&c, p, kind); /* little endian */
        end = utf8(end, c);
    }
    return (struct text){out, (size_t)(end - out)};
}

static inline const uint8_t *skip_varint(const uint8_t *p, const uint8_t *end, uint32_t *out)
{
    uint32_t v = 0, shift = 0;
    for (; p < end && !(*p & 0x80); shift += 6) {
        uint8_t b = *p++;
        if (shift < 30)
            v |= (uint32_t)(b & 0x3f) << shift;
        if (!(b & 0x40))
            break;
    }
    *out = v;
    return p;
}

/*
 * Up to 3.10 a table consists of pairs: how many bytes of code, and by how much the line moves, signed. Up to 3.9 the line
 * moves behind those bytes, in 3.10 before them, and -128 means that they have no line.
 */
static inline uint32_t line_in_pairs(const struct layout *l, const uint8_t *p, uint64_t n,
                                     int64_t line, int64_t at)
{
    bool is_before = l->minor >= 10;
    int64_t byte = is_before ? 2 * at : at, end = 0;
    bool is_none = is_before;
    for (; n >= 2; n -= 2, p += 2) {
        int8_t moved = (int8_t)p[1];
        end += p[0];
        is_none = is_before && moved == INT8_MIN;
        if (is_before && !is_none)
            line += moved;
        if (end > byte)
            break;
        if (!is_before)
            line += moved;
        is_none = is_before;
    }
    return is_none || line < 0 || line > INT32_MAX ? 0 : (uint32_t)line;
}

/*
 * The table of locations of 3.11 and later: each entry begins with 1ccccnnn, n + 1 units long; the
 * line moves by a signed varint (c 13, 14), by c - 10 (10 to 12), or not; 15 has no line.
 */
static inline uint32_t line_of(struct chain_reader *k, uint64_t code, int64_t at)
{
    uint64_t lines = word_at(k, code + k->l->lines), n = word_at(k, lines + SIZE_AT);
    int64_t line = (int32_t)u32_at(k, code + k->l->first_line), unit = 0;
    if (k->bad || at < 0 || n == 0 || n > MAX_LINES || !may_read(k, lines + BYTES_AT, n))
        return line > 0 ? (uint32_t)line : 0;
    const uint8_t *p = (const uint8_t *)(uintptr_t)(lines + BYTES_AT), *end = p + n;
    if (is_old(k->l))
        return line_in_pairs(k->l, p, n, line, at);
    while (p < end) {
        uint32_t c = *p >> 3 & 15, v = 0;
        unit += (*p++ & 7) + 1;
        if (c == 13 || c == 14) {
            p = skip_varint(p, end, &v);
            line += v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
        } else if (c >= 10 && c <= 12) {
            line += c - 10;
        }
        if (at < unit)
            return c == 15 || line < 0 || line > INT32_MAX ? 0 : (uint32_t)line;
        while (p < end && !(*p & 0x80))
            p++;
    }
    return 0;
}

/* Of n bytes at a multiple of 8. The products do not wait for each other. */
static inline uint64_t digest(struct chain_reader *k, uint64_t at, uint64_t n)
{
    uint64_t h = n, factor = HASH_1;
    for (; n > 8; n -= 8, at += 8, factor += HASH_2)
        h += word_at(k, at) * factor;
    return n ? h ^ (word_at(k, at) << (64 - 8 * n)) * HASH_3 : h;
}

/* Most strings and tables of compiled code have been hashed by the interpreter. */
static inline uint64_t digest_string(struct chain_reader *k, uint64_t string)
{
    uint64_t n = word_at(k, string + SIZE_AT), hash = word_at(k, string + HASH_AT);
    if (hash != NOT_HASHED)
        return hash;
    uint32_t state = u32_at(k, string + STATE_AT), kind = STATE_KIND(state);
    if (!(state & STATE_COMPACT) || n == 0 || kind > 4)
        return n;
    if (n > HW_NAME_MAX_BYTES)
        n = HW_NAME_MAX_BYTES; /* no more of it is shown */
    return digest(k, string + (state & STATE_ASCII ? k->l->ascii : k->l->compact), n * kind);
}

static inline uint64_t digest_lines(struct chain_reader *k, uint64_t lines)
{
    uint64_t n = word_at(k, lines + SIZE_AT), hash = word_at(k, lines + HASH_AT);
    if (hash != NOT_HASHED)
        return hash ^ n;
    if (n <= SOME_LINES)
        return digest(k, lines + BYTES_AT, n);
    uint64_t last = word_at(k, lines + BYTES_AT + ((n - 8) & ~7ull));
    return digest(k, lines + BYTES_AT, SOME_LINES) + (n ^ last * HASH_3);
}

#endif

/*
 * text_parts.h - how a text begins and ends, and the last part of a path
 *
 * Why:     C has no names for these, and so each file had its own.
 * Owns:    nothing; a part points into the text that was given.
 */
#ifndef HW_BASE_TEXT_TEXT_PARTS_H
#define HW_BASE_TEXT_TEXT_PARTS_H

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"

static inline bool hw_starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static inline bool hw_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && memcmp(text + n - m, end, m) == 0;
}

static inline bool hw_bytes_start_with(struct hw_bytes b, const char *start)
{
    size_t n = strlen(start);
    return b.n >= n && memcmp(b.p, start, n) == 0;
}

static inline bool hw_bytes_end_with(struct hw_bytes b, const char *end)
{
    size_t n = strlen(end);
    return b.n >= n && memcmp(b.p + b.n - n, end, n) == 0;
}

/* What follows the last slash; all of it where nothing does. */
static inline const char *hw_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static inline struct hw_bytes hw_bytes_base_name(struct hw_bytes path)
{
    const uint8_t *slash = path.n ? memrchr(path.p, '/', path.n) : NULL;
    size_t start = slash ? (size_t)(slash + 1 - path.p) : 0;
    return start < path.n ? hw_bytes_skip(path, start) : path;
}

#endif

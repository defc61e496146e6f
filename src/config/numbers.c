#include "config/numbers.h"

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

#include "base/banned.h"

int hw_parse_uint(const char *text, uint64_t *out, struct hw_error *err)
{
    uint64_t v = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
            return hw_fail(err, HW_EINVAL, 0, "number '%s' is too large", text);
    if (p == text || *p)
        return hw_fail(err, HW_EINVAL, 0, "'%s' is not a number", text);
    *out = v;
    return HW_OK;
}

struct unit {
    const char *name;
    uint64_t factor;
};

/* Digits with an optional fraction, then a unit. Fractions (1.5G) are exact to 9 digits. */
static int parse_with_unit(const char *text, const struct unit *units, size_t n_units,
                           const char *what, uint64_t *out, struct hw_error *err)
{
    uint64_t whole = 0, part = 0, scale = 1;
    const char *p = text;
    bool digits = false, big = false;
    for (; *p >= '0' && *p <= '9'; p++, digits = true)
        big |= __builtin_mul_overflow(whole, (uint64_t)10, &whole) ||
               __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole);
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++, digits = true)
            if (scale < 1000000000) {
                part = part * 10 + (uint64_t)(*p - '0');
                scale *= 10;
            }
    if (!digits)
        return hw_fail(err, HW_EINVAL, 0, "'%s' is not a %s", text, what);
    const struct unit *u = NULL;
    for (size_t i = 0; i < n_units && !u; i++)
        if (strcasecmp(p, units[i].name) == 0)
            u = &units[i];
    if (!u)
        return hw_fail(err, HW_EINVAL, 0, "'%s' is not a %s: unknown unit '%s'", text, what, p);
    uint64_t v;
    big |= __builtin_mul_overflow(whole, u->factor, &v);
    big |= __builtin_add_overflow(v, (uint64_t)((unsigned __int128)part * u->factor / scale), &v);
    if (big)
        return hw_fail(err, HW_EINVAL, 0, "%s '%s' is too large", what, text);
    *out = v;
    return HW_OK;
}

int hw_parse_size(const char *text, uint64_t *out, struct hw_error *err)
{
    static const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"K", 1ull << 10},
        {"KiB", 1ull << 10},
        {"KB", 1000},
        {"M", 1ull << 20},
        {"MiB", 1ull << 20},
        {"MB", 1000000},
        {"G", 1ull << 30},
        {"GiB", 1ull << 30},
        {"GB", 1000000000},
        {"T", 1ull << 40},
        {"TiB", 1ull << 40},
        {"TB", 1000000000000},
    };
    return parse_with_unit(text, units, HW_ARRAY_LEN(units), "size", out, err);
}

int hw_parse_time_ms(const char *text, uint64_t *out, struct hw_error *err)
{
    static const struct unit units[] = {{"", 1},        {"ms", 1},      {"s", 1000},
                                        {"m", 60000},   {"min", 60000}, {"h", 3600000},
                                        {"d", 86400000}};
    return parse_with_unit(text, units, HW_ARRAY_LEN(units), "time", out, err);
}

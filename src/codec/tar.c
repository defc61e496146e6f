/*
 * A header block, all fields text:
 *
 *     0 name[100]  100 mode[8]  124 size[12]  136 mtime[12]  148 sum[8]  156 type
 *     257 "ustar"  263 version[2]  265 user[32]  297 group[32]  345 prefix[155]
 *
 * Numbers are octal; GNU tar writes large ones as big-endian binary with the first bit set. The sum
 * is that of all bytes of the block, with its own field taken as blanks. A member of type 'x'
 * contains pax records ("27 path=a/b\n") for the next one, GNU's 'L' the next one's name.
 */
#include "codec/tar.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

#include "base/banned.h"

enum { AT_MODE = 100, AT_SIZE = 124, AT_TIME = 136, AT_SUM = 148, AT_TYPE = 156, AT_MAGIC = 257 };
enum { N_NAME = 100, AT_PREFIX = 345, N_PREFIX = 155 };

bool hw_tar_is(struct hw_bytes head)
{
    return head.n >= HW_TAR_BLOCK && memcmp(head.p + AT_MAGIC, "ustar", 5) == 0;
}

/* ---- reading ---- */

static bool number(const uint8_t *p, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;
    if (p[0] & 0x80) {
        for (i = 0; i < n; i++) {
            uint8_t byte = i ? p[i] : p[i] & 0x7f;
            if (v >> 56)
                return false;
            v = v << 8 | byte;
        }
        *out = v;
        return true;
    }
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(p[i] - '0');
    *out = v;
    return i == n || p[i] == 0 || p[i] == ' ';
}

static uint64_t sum_of(const uint8_t *block)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < HW_TAR_BLOCK; i++)
        sum += i >= AT_SUM && i < AT_SUM + 8 ? ' ' : block[i];
    return sum;
}

static void set_name(struct hw_tar_member *m, const void *p, size_t n)
{
    if (n > HW_TAR_MAX_NAME)
        n = HW_TAR_MAX_NAME;
    memcpy(m->name, p, n);
    m->name[n] = 0;
}

static void name_of_header(struct hw_tar_member *m, const uint8_t *block)
{
    size_t n = strnlen((const char *)block, N_NAME);
    size_t n_prefix = strnlen((const char *)block + AT_PREFIX, N_PREFIX);
    char whole[N_PREFIX + 1 + N_NAME];
    if (n_prefix) {
        memcpy(whole, block + AT_PREFIX, n_prefix);
        whole[n_prefix++] = '/';
    }
    memcpy(whole + n_prefix, block, n);
    set_name(m, whole, n_prefix + n);
}

/* What extended headers give for the member after them. */
struct extended {
    bool name, size;
    uint64_t n_bytes;
};

/* Records "LENGTH KEY=VALUE\n", the length counting all of it. */
static void read_pax(struct hw_bytes b, struct hw_tar_member *m, struct extended *extended)
{
    while (b.n) {
        uint64_t length = 0;
        size_t i = 0;
        for (; i < b.n && i < 10 && b.p[i] >= '0' && b.p[i] <= '9'; i++)
            length = length * 10 + (uint64_t)(b.p[i] - '0');
        if (i == 0 || i >= b.n || b.p[i] != ' ' || length > b.n || length < i + 2)
            return;
        const uint8_t *key = b.p + i + 1, *end = b.p + length - 1;
        size_t n = (size_t)(end - key);
        if (n > 5 && memcmp(key, "path=", 5) == 0) {
            set_name(m, key + 5, n - 5);
            extended->name = true;
        } else if (n > 5 && memcmp(key, "size=", 5) == 0) {
            uint64_t v = 0;
            for (const uint8_t *p = key + 5; p < end && *p >= '0' && *p <= '9'; p++)
                v = v > UINT64_MAX / 16 ? UINT64_MAX / 16 : v * 10 + (uint64_t)(*p - '0');
            extended->n_bytes = v;
            extended->size = true;
        }
        b = hw_bytes_of(b.p + length, b.n - (size_t)length);
    }
}

static int damaged(const struct hw_tar *t, struct hw_error *err)
{
    return hw_fail(err, HW_EFORMAT, t->pos, "damaged archive: no header");
}

int hw_tar_next(struct hw_tar *t, struct hw_tar_member *out, struct hw_error *err)
{
    struct extended extended = {0};
    for (;;) {
        uint64_t left = t->file.n - t->pos, size, sum;
        const uint8_t *block = left ? t->file.p + t->pos : NULL;
        if (left == 0 || (left >= HW_TAR_BLOCK && block[0] == 0 && sum_of(block) == 8 * ' '))
            return 0;
        if (left < HW_TAR_BLOCK)
            return hw_fail(err, HW_ETRUNCATED, t->pos, "the archive ends inside a header");
        if (!number(block + AT_SUM, 8, &sum) || sum != sum_of(block) ||
            !number(block + AT_SIZE, 12, &size))
            return damaged(t, err);
        if (extended.size)
            size = extended.n_bytes;
        left -= HW_TAR_BLOCK;
        uint64_t present = size < left ? size : left;
        uint64_t padded = present + hw_tar_padding(present);
        struct hw_bytes bytes = hw_bytes_of(block + HW_TAR_BLOCK, (size_t)present);
        t->pos += HW_TAR_BLOCK + (padded < left ? padded : left);
        switch (block[AT_TYPE]) {
        case 'x':
            read_pax(bytes, out, &extended);
            continue;
        case 'L':
            set_name(out, bytes.p, strnlen((const char *)bytes.p, bytes.n));
            extended.name = true;
            continue;
        case 0:
        case '0':
        case '7':
            if (!extended.name)
                name_of_header(out, block);
            out->bytes = bytes;
            out->truncated = present < size;
            return 1;
        default: /* directories, links, devices, global headers */
            extended = (struct extended){0};
            continue;
        }
    }
}

/* ---- writing ---- */

static void put_number(uint8_t *at, size_t n, uint64_t v)
{
    if (v >> (3 * (n - 1)) == 0) {
        for (size_t i = n - 1; i-- > 0; v >>= 3)
            at[i] = (uint8_t)('0' + (v & 7));
        return;
    }
    for (size_t i = n; i-- > 0; v >>= 8)
        at[i] = (uint8_t)v;
    at[0] |= 0x80;
}

int hw_tar_header(const char *name, uint64_t size, int64_t mtime_s, uint8_t out[HW_TAR_BLOCK])
{
    size_t n = strlen(name);
    if (n == 0 || n > N_NAME)
        return HW_EINVAL;
    memset(out, 0, HW_TAR_BLOCK);
    memcpy(out, name, n);
    put_number(out + AT_MODE, 8, 0644);
    put_number(out + AT_MODE + 8, 8, 0);
    put_number(out + AT_MODE + 16, 8, 0);
    put_number(out + AT_SIZE, 12, size);
    put_number(out + AT_TIME, 12, mtime_s < 0 ? 0 : (uint64_t)mtime_s);
    out[AT_TYPE] = '0';
    memcpy(out + AT_MAGIC, "ustar\00000", 8);
    put_number(out + AT_SUM, 7, sum_of(out));
    out[AT_SUM + 7] = ' ';
    return HW_OK;
}

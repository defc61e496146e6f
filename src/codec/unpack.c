/*
 * Traces and heap dumps compress 3 to 40 times, a heap of zeros 1000 times by deflate, which is its
 * maximum, and 30,000 times by zstd. Small files may be anything; a file that unpacks to more than
 * 256 MiB and 200 times its size was made to do so.
 */
#include "codec/unpack.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/files/machine_memory.h"
#include "codec/gzip.h"

#include "base/banned.h"

#define ANY_MAX ((uint64_t)256 << 20)
#define TIMES   200u
#define ALL_MAX ((uint64_t)4 << 30)

static bool is_zstd(struct hw_bytes head)
{
    return head.n >= 4 && hw_load_u32(head.p) == 0xfd2fb528u;
}

bool hw_is_packed(struct hw_bytes head)
{
    return hw_gzip_is(head) || is_zstd(head);
}

/* The limit set by the user, in bytes; 0 = none. */
static uint64_t user_limit(void)
{
    const char *text = secure_getenv("HEAPWISE_UNPACK_MB");
    uint64_t mb = text && text[0] >= '1' && text[0] <= '9' ? strtoull(text, NULL, 10) : 0;
    return mb < SIZE_MAX >> 20 ? mb << 20 : SIZE_MAX;
}

uint64_t hw_unpack_max_passing(uint64_t packed_bytes)
{
    uint64_t max = user_limit();
    if (max)
        return max;
    if (__builtin_mul_overflow(packed_bytes, (uint64_t)TIMES, &max))
        return UINT64_MAX;
    return max < ANY_MAX ? ANY_MAX : max;
}

/* The same if all of them are kept in memory. */
static size_t hw_unpack_max(uint64_t packed_bytes)
{
    uint64_t max = hw_unpack_max_passing(packed_bytes), memory = hw_machine_memory() / 2;
    if (user_limit())
        return max;
    if (max > ALL_MAX)
        max = ALL_MAX;
    return max < memory ? max : memory;
}

int hw_unpack_refuse(uint64_t max, uint64_t offset, struct hw_error *err)
{
    return hw_fail(err, HW_ELIMIT, offset,
                   "it unpacks to more than %llu MiB; HEAPWISE_UNPACK_MB=%llu allows twice as much",
                   (unsigned long long)max >> 20, (unsigned long long)max >> 19);
}

void hw_unpack_head(struct hw_bytes head, size_t max, struct hw_strbuf *out)
{
    size_t before = out->n;
    /* Only the output counts, whatever stopped it. */
    if (is_zstd(head))
        (void)hw_zstd_inflate(head, max, out, NULL);
    else
        (void)hw_inflate(head, max, out, NULL);
    if (out->n - before > max)
        out->n = before + max;
}

int hw_unpack(struct hw_bytes in, struct hw_strbuf *out, struct hw_error *err)
{
    size_t max = hw_unpack_max(in.n);
    int rc = is_zstd(in) ? hw_zstd_inflate(in, max, out, err) : hw_inflate(in, max, out, err);
    return rc == HW_ELIMIT && in.n <= UINT32_MAX ? hw_unpack_refuse(max, 0, err) : rc;
}

int hw_unpack_gzip_fd(int fd, struct hw_strbuf *out, struct hw_progress *progress,
                      struct hw_error *err)
{
    struct stat st;
    size_t max = hw_unpack_max(fstat(fd, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0);
    int rc = hw_inflate_fd(fd, max, out, progress, err);
    return rc == HW_ELIMIT ? hw_unpack_refuse(max, 0, err) : rc;
}

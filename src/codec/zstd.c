#include "base/error.h"
#include "codec/gzip.h"

#ifdef HW_HAVE_ZSTD

#include <zstd.h>

#include "base/banned.h"

int hw_zstd_inflate(struct hw_bytes in, size_t max_out, struct hw_strbuf *out, struct hw_error *err)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    ZSTD_inBuffer from = {in.p, in.n, 0};
    size_t before = out->n, step = ZSTD_DStreamOutSize(), rc = 1;
    if (!z)
        return hw_fail(err, HW_ENOMEM, 0, "zstd");
    int result = HW_OK;
    while (rc != 0 || from.pos < from.size) {
        if (hw_strbuf_reserve(out, step) < 0) {
            result = hw_fail(err, HW_ENOMEM, from.pos, "inflated data");
            break;
        }
        ZSTD_outBuffer to = {out->p + out->n, step, 0};
        rc = ZSTD_decompressStream(z, &to, &from);
        if (ZSTD_isError(rc)) {
            result = hw_fail(err, HW_EFORMAT, from.pos, "zstd: %s", ZSTD_getErrorName(rc));
            break;
        }
        out->n += to.pos;
        out->p[out->n] = 0;
        if (out->n - before > max_out) {
            result = hw_fail(err, HW_ELIMIT, from.pos, "inflates to more than %zu bytes", max_out);
            break;
        }
        if (rc != 0 && from.pos == from.size && to.pos < step) {
            result = hw_fail(err, HW_ETRUNCATED, from.pos, "zstd data ends early");
            break;
        }
    }
    ZSTD_freeDStream(z);
    return result;
}

bool hw_zstd_is_here(void)
{
    return true;
}

int hw_zstd_deflate(struct hw_bytes in, int level, struct hw_strbuf *out, struct hw_error *err)
{
    int lowest = ZSTD_minCLevel(), highest = ZSTD_maxCLevel();
    level = level < lowest ? lowest : level > highest ? highest : level;
    size_t room = ZSTD_compressBound(in.n);
    if (hw_strbuf_reserve(out, room) < 0)
        return hw_fail(err, HW_ENOMEM, 0, "zstd");
    size_t n = ZSTD_compress(out->p + out->n, room, in.p, in.n, level);
    if (ZSTD_isError(n))
        return hw_fail(err, HW_ENOMEM, 0, "zstd: %s", ZSTD_getErrorName(n));
    out->n += n;
    out->p[out->n] = 0;
    return HW_OK;
}

#else

#include "base/banned.h"

int hw_zstd_inflate(struct hw_bytes in, size_t max_out, struct hw_strbuf *out, struct hw_error *err)
{
    (void)in;
    (void)max_out;
    (void)out;
    return hw_fail(err, HW_EUNSUPPORTED, 0, "this build has no zstd");
}

bool hw_zstd_is_here(void)
{
    return false;
}

int hw_zstd_deflate(struct hw_bytes in, int level, struct hw_strbuf *out, struct hw_error *err)
{
    (void)in;
    (void)level;
    (void)out;
    return hw_fail(err, HW_EUNSUPPORTED, 0, "this build has no zstd");
}

#endif

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

#else

#include "base/banned.h"

int hw_zstd_inflate(struct hw_bytes in, size_t max_out, struct hw_strbuf *out, struct hw_error *err)
{
    (void)in;
    (void)max_out;
    (void)out;
    return hw_fail(err, HW_EUNSUPPORTED, 0, "this build has no zstd");
}

#endif

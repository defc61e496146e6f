#include "export/gz.h"

#include <limits.h>
#include <zlib.h>

#include "base/error.h"

#include "base/banned.h"

#define GZIP_WINDOW (15 + 16) /* zlib: window bits, + 16 asks for a gzip header */

/* zlib counts its input in unsigned int. */
static int deflate_all(z_stream *z, struct hw_bytes in, FILE *out, struct hw_error *err)
{
    unsigned char buf[32768];
    int rc = Z_OK;
    do {
        if (z->avail_in == 0 && in.n) {
            size_t take = in.n < (1u << 30) ? in.n : 1u << 30;
            z->next_in = (unsigned char *)(uintptr_t)in.p; /* zlib's field lacks const */
            z->avail_in = (unsigned)take;
            in.p += take;
            in.n -= take;
        }
        z->next_out = buf;
        z->avail_out = sizeof buf;
        rc = deflate(z, in.n ? Z_NO_FLUSH : Z_FINISH);
        size_t n = sizeof buf - z->avail_out;
        if (fwrite(buf, 1, n, out) != n)
            return hw_fail_sys(err, "cannot write the output");
    } while (rc == Z_OK || rc == Z_BUF_ERROR);
    return rc == Z_STREAM_END ? HW_OK : hw_fail(err, HW_ENOMEM, 0, "cannot compress");
}

int hw_gz_write(struct hw_bytes in, FILE *out, struct hw_error *err)
{
    z_stream z = {0};
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return hw_fail(err, HW_ENOMEM, 0, "cannot compress");
    int rc = deflate_all(&z, in, out, err);
    (void)deflateEnd(&z); /* only frees; the stream was finished or has failed already */
    return rc;
}

#include "trace/append.h"

#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "codec/gzip.h"
#include "codec/source.h"

#include "base/banned.h"

static const unsigned char packet_tag = 0x0a;

bool hw_trace_is_plain(int fd)
{
    unsigned char first = 0;
    return pread(fd, &first, 1, 0) == 1 && first == packet_tag;
}

static int put(int out, struct hw_bytes b, struct hw_error *err)
{
    return hw_fd_write_all(out, b.p, b.n) < 0 ? hw_fail_sys(err, "cannot write") : HW_OK;
}

static int copy(struct hw_source *from, const char *name, int out, struct hw_error *err)
{
    uint8_t block[1 << 16];
    bool started = false;
    for (;;) {
        int64_t n = from->read(from->ctx, block, sizeof block, err);
        if (n < 0)
            return (int)n;
        if (!started && (n == 0 || block[0] != packet_tag))
            return hw_fail(err, HW_EUNSUPPORTED, 0, "'%s' is not a trace of packets", name);
        if (n == 0)
            return HW_OK;
        started = true;
        int rc = put(out, hw_bytes_of(block, (size_t)n), err);
        if (rc < 0)
            return rc;
    }
}

int hw_trace_copy_with(int in, const char *name, struct hw_bytes packets, int out,
                       struct hw_error *err)
{
    uint8_t head[2];
    struct hw_source from;
    bool packed = pread(in, head, 2, 0) == 2 && hw_gzip_is(hw_bytes_of(head, 2));
    if (lseek(in, 0, SEEK_SET) < 0)
        return hw_fail_sys(err, "cannot read '%s' once more", name);
    int rc = packed ? hw_source_gzip_fd(in, &from) : hw_source_fd(in, &from);
    if (rc < 0)
        return hw_fail(err, rc, 0, "'%s':", name);
    rc = copy(&from, name, out, err);
    hw_source_done(&from);
    return rc < 0 ? rc : put(out, packets, err);
}

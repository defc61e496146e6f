#include "trace/text.h"

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/strbuf.h"
#include "schema/print.h"
#include "schema/schema.h"
#include "trace/reader.h"

#include "base/banned.h"

enum { FLUSH_BYTES = 256 * 1024 };

static int flush(struct hw_strbuf *text, int fd, struct hw_error *err)
{
    if (hw_fd_write_all(fd, text->p, text->n) < 0)
        return hw_fail_sys(err, "cannot write the text");
    hw_strbuf_clear(text);
    return HW_OK;
}

int hw_trace_print_text(struct hw_trace_reader *r, int out_fd, size_t *damaged,
                        struct hw_error *err)
{
    const struct hw_schema_message *m = hw_schema_message_find("TracePacket");
    struct hw_strbuf text = {0};
    struct hw_packet p;
    size_t unused = 0;
    int rc;
    while ((rc = hw_trace_reader_next(r, &p, err)) == 1) {
        hw_strbuf_adds(&text, "packet {\n");
        rc = hw_schema_print(m, p.bytes, /* indent = */ 1, &text, damaged ? damaged : &unused, err);
        hw_strbuf_adds(&text, "}\n");
        if (rc == HW_OK && text.n >= FLUSH_BYTES)
            rc = flush(&text, out_fd, err);
        if (rc < 0)
            break;
    }
    if (rc == HW_OK)
        rc = flush(&text, out_fd, err);
    hw_strbuf_done(&text);
    return rc;
}

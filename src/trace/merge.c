#include "trace/merge.h"

#include "base/error.h"
#include "base/files/fd.h"
#include "base/memory/map64.h"
#include "codec/pb.h"
#include "schema/fields.h"

#include "base/banned.h"

enum { FLUSH_BYTES = 1 << 20 };

struct append {
    struct hw_trace_merge *m;
    struct hw_map64 new_id; /* the reader's sequence → ours */
    struct hw_pb packet;
    struct hw_strbuf buf; /* packets to be written */
};

static int flush(struct append *a, struct hw_error *err)
{
    if (a->buf.failed || hw_pb_failed(&a->packet))
        return hw_fail(err, HW_ENOMEM, 0, "cannot hold a packet");
    if (a->buf.n && hw_fd_write_all(a->m->out_fd, a->buf.p, a->buf.n) < 0)
        return hw_fail_sys(err, "cannot write the merged trace");
    hw_strbuf_clear(&a->buf);
    return HW_OK;
}

static int id_of(struct append *a, uint64_t sequence, uint64_t *out)
{
    uint64_t *id;
    bool fresh;
    int rc = hw_map64_at(&a->new_id, sequence, &id, &fresh);
    if (rc == 0 && fresh)
        *id = ++a->m->n_sequences;
    if (rc == 0)
        *out = *id;
    return rc;
}

/* The packet's fields as they are, but for the sequence's number. */
static int copy_packet(struct append *a, const struct hw_packet *p)
{
    struct hw_pb_reader r = hw_pb_read(p->bytes);
    struct hw_pb_field f;
    uint64_t id = 0;
    size_t kept = 0; /* bytes up to here are in the copy */
    hw_pb_clear(&a->packet);
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number != HW_F_TracePacket_trusted_packet_sequence_id || f.wire != HW_PB_VARINT)
            continue;
        int rc = id_of(a, p->sequence, &id);
        if (rc < 0)
            return rc;
        hw_strbuf_add(&a->packet.buf, p->bytes.p + kept, f.offset - kept);
        hw_pb_uint(&a->packet, HW_F_TracePacket_trusted_packet_sequence_id, id);
        kept = (size_t)(r.pos - r.start);
    }
    hw_strbuf_add(&a->packet.buf, p->bytes.p + kept, p->bytes.n - kept);
    struct hw_pb frame = {.buf = a->buf}; /* the trace itself is a message of packets */
    hw_pb_bytes(&frame, HW_F_Trace_packet, a->packet.buf.p, a->packet.buf.n);
    a->buf = frame.buf;
    a->m->n_packets++;
    return HW_OK;
}

int hw_trace_merge_add(struct hw_trace_merge *m, int in_fd, struct hw_reader_stats *stats,
                       struct hw_error *err)
{
    struct append a = {.m = m};
    struct hw_trace_reader *reader;
    struct hw_packet p;
    int rc = hw_trace_reader_open_fd(in_fd, &reader, err);
    if (rc < 0)
        return rc;
    while ((rc = hw_trace_reader_next(reader, &p, err)) == 1) {
        rc = copy_packet(&a, &p);
        if (rc == 0 && a.buf.n >= FLUSH_BYTES)
            rc = flush(&a, err);
        if (rc < 0)
            break;
    }
    if (rc == 0)
        rc = flush(&a, err);
    *stats = *hw_trace_reader_stats(reader);
    hw_trace_reader_free(reader);
    hw_map64_done(&a.new_id);
    hw_pb_done(&a.packet);
    hw_strbuf_done(&a.buf);
    return rc;
}

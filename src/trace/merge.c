#include "trace/merge.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

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

/* Copies the packet's fields unchanged, except for the sequence id. */
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

/* ---- merging inputs ---- */

/* BOOTTIME in a clock snapshot. False: another packet, or a snapshot without this clock. */
static bool boot_time(const struct hw_packet *p, uint64_t *out)
{
    struct hw_pb_reader r = hw_pb_read(p->data);
    struct hw_pb_field f, g;
    if (p->data_field != HW_F_TracePacket_clock_snapshot)
        return false;
    while (hw_pb_next(&r, &f) == 1) {
        uint64_t clock = 0, ts = 0;
        if (f.number != HW_F_ClockSnapshot_clocks || f.wire != HW_PB_BYTES)
            continue;
        struct hw_pb_reader c = hw_pb_read(f.bytes);
        while (hw_pb_next(&c, &g) == 1)
            if (g.number == HW_F_ClockSnapshot_Clock_clock_id)
                clock = g.value;
            else if (g.number == HW_F_ClockSnapshot_Clock_timestamp)
                ts = g.value;
        if (clock == HW_V_BuiltinClock_BUILTIN_CLOCK_BOOTTIME) {
            *out = ts;
            return true;
        }
    }
    return false;
}

/* An input. Its next packet begins a part, which extends to the next snapshot. */
struct source {
    struct hw_trace_merge_input *in; /* borrowed */
    uint64_t at;                     /* the part's time */
    struct hw_trace_reader *reader;  /* NULL = not open */
    int own;                         /* its descriptor, if it is ours */
    struct hw_packet next;           /* the snapshot that begins the next part */
    bool has_next, ended;
    struct append to;
};

static int open_source(struct source *s, struct hw_error *err)
{
    if (s->in->path && (s->own = open(s->in->path, O_RDONLY | O_CLOEXEC)) < 0)
        return hw_fail_sys(err, "cannot open '%s'", s->in->path);
    return hw_trace_reader_open_fd(s->in->path ? s->own : s->in->fd, &s->reader, err);
}

static void close_source(struct source *s)
{
    hw_trace_reader_free(s->reader);
    s->reader = NULL;
    if (s->own >= 0)
        (void)close(s->own); /* it was only read */
    s->own = -1;
}

static int start_source(struct source *s, struct hw_trace_merge *m, struct hw_error *err)
{
    struct hw_packet p;
    s->to.m = m;
    int rc = open_source(s, err);
    while (rc == 0 && hw_trace_reader_next(s->reader, &p, err) == 1 && !boot_time(&p, &s->at)) {
    }
    close_source(s); /* most are not needed for a long time */
    return rc;
}

static void end_source(struct source *s)
{
    if (s->reader)
        s->in->stats = *hw_trace_reader_stats(s->reader);
    close_source(s);
    s->ended = true;
    hw_map64_done(&s->to.new_id);
    hw_pb_done(&s->to.packet);
    hw_strbuf_done(&s->to.buf);
}

static int copy_part(struct source *s, struct hw_error *err)
{
    int rc = s->reader ? HW_OK : open_source(s, err);
    bool first = !s->has_next;
    if (rc == 0 && s->has_next)
        rc = copy_packet(&s->to, &s->next);
    s->has_next = false;
    int got = 0;
    while (rc == 0 && (got = hw_trace_reader_next(s->reader, &s->next, err)) == 1) {
        uint64_t at;
        if (boot_time(&s->next, &at) && !first) {
            s->at = at > s->at ? at : s->at;
            s->has_next = true;
            break;
        }
        first &= s->next.data_field != HW_F_TracePacket_clock_snapshot;
        rc = copy_packet(&s->to, &s->next);
        if (rc == 0 && s->to.buf.n >= FLUSH_BYTES)
            rc = flush(&s->to, err);
    }
    if (rc == 0)
        rc = got < 0 ? got : flush(&s->to, err);
    if (!s->has_next)
        end_source(s);
    return rc;
}

static struct source *earliest(struct source *s, size_t n)
{
    struct source *found = NULL;
    for (size_t i = 0; i < n; i++)
        if (!s[i].ended && (!found || s[i].at < found->at))
            found = &s[i];
    return found;
}

int hw_trace_merge(struct hw_trace_merge *m, struct hw_trace_merge_input *in, size_t n,
                   struct hw_error *err)
{
    struct source *s = calloc(n ? n : 1, sizeof *s), *next;
    int rc = s ? HW_OK : hw_fail(err, HW_ENOMEM, 0, "cannot merge");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        s[i] = (struct source){.in = &in[i], .own = -1};
        rc = start_source(&s[i], m, err);
    }
    while (rc == 0 && (next = earliest(s, n)))
        rc = copy_part(next, err);
    for (size_t i = 0; s && i < n; i++)
        if (s[i].in && !s[i].ended)
            end_source(&s[i]);
    free(s);
    return rc;
}

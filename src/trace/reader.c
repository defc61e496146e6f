/*
 * Where a packet starts is known only from where the previous one ended. When that chain breaks
 * (bad tag, a length beyond the end), the reader moves forward byte by byte to the next position
 * that `hw_packet_is_plausible` accepts: a packet whose fields are all in the schema with the right
 * wire type, with a sequence id and an owner, which the service appends to each. Of a packet with
 * intact framing but damaged fields only this packet is dropped, unless no packet follows it, or it
 * contains further packets: then its length is damaged.
 */
#include "trace/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/memory/vec.h"
#include "base/text/strbuf.h"
#include "codec/gzip.h"
#include "codec/pb.h"
#include "codec/unpack.h"
#include "schema/fields.h"
#include "trace/packet.h"
#include "trace/writer.h"

#include "base/banned.h"

enum {
    WINDOW = 1 << 20,
    MAX_INFLATED = 64 << 20, /* of one compressed packet; writers keep to 512 KiB deflated */
    PACKET_COST = 32,        /* bytes that cost as much as an empty packet; a sample has more */
    MIN_LEFT_OUT = 64 << 10, /* smaller packets are read as quickly as inspected */
    MAX_UNSURE = 8,          /* packets in a row with fields that are not in the schema */
    RESYNC_LIMIT = 64 << 20  /* bytes in all that `hw_packet_is_plausible` may examine */
};

#define F(name) HW_F_TracePacket_##name

struct sequence {
    uint32_t generation;
    bool valid;   /* its incremental state can be relied on */
    bool started; /* a packet of it was seen */
    uint32_t default_clock;
};

struct hw_trace_reader {
    /* The file: all of it in memory, or a window of it. */
    int fd; /* -1: window is the file */
    uint64_t size;
    struct hw_bytes window; /* bytes from window_at */
    uint64_t window_at;
    uint8_t *buffer; /* owned; of size capacity */
    size_t capacity;
    uint64_t pos;
    bool leaves_out_samples;

    /* The content of the compressed packet being read. */
    struct hw_strbuf inflated;
    uint64_t n_inflated, max_inflated; /* of all compressed packets */
    uint64_t n_short;                  /* what their packets lack of PACKET_COST; same limit */
    size_t inner_pos;
    bool inner;
    uint64_t inner_offset;

    HW_VEC(struct sequence) sequences;
    struct hw_map64 sequence_by_id; /* hw_packet.sequence -> index */
    uint64_t resync_budget;
    struct hw_reader_stats stats;
    hw_reader_loss_fn *on_loss; /* NULL = none */
    void *on_loss_ctx;
};

/* ---- the file ---- */

static int reader_new(struct hw_trace_reader **out, struct hw_error *err)
{
    struct hw_trace_reader *r = calloc(1, sizeof *r);
    if (!r)
        return hw_fail(err, HW_ENOMEM, 0, "trace reader");
    r->fd = -1;
    r->resync_budget = RESYNC_LIMIT;
    *out = r;
    return HW_OK;
}

int hw_trace_reader_open_bytes(struct hw_bytes file, struct hw_trace_reader **out,
                               struct hw_error *err)
{
    int rc = reader_new(out, err);
    if (rc < 0)
        return rc;
    (*out)->window = file;
    (*out)->size = file.n;
    (*out)->max_inflated = hw_unpack_max_passing(file.n);
    return HW_OK;
}

int hw_trace_reader_open_fd(int fd, struct hw_trace_reader **out, struct hw_error *err)
{
    char byte;
    struct stat st;
    if (fstat(fd, &st) < 0 || pread(fd, &byte, 1, 0) < 0)
        return hw_fail_sys(err, "cannot read the trace");
    int rc = reader_new(out, err);
    if (rc < 0)
        return rc;
    (*out)->fd = fd;
    (*out)->size = (uint64_t)st.st_size;
    (*out)->max_inflated = hw_unpack_max_passing((*out)->size);
    return HW_OK;
}

void hw_trace_reader_free(struct hw_trace_reader *r)
{
    if (!r)
        return;
    free(r->buffer);
    hw_strbuf_done(&r->inflated);
    hw_vec_done(&r->sequences);
    hw_map64_done(&r->sequence_by_id);
    free(r);
}

void hw_trace_reader_rewind(struct hw_trace_reader *r)
{
    r->pos = 0;
    r->leaves_out_samples = false;
    r->inner = false;
    r->n_inflated = 0;
    r->n_short = 0;
    r->sequences.n = 0;
    hw_map64_done(&r->sequence_by_id);
    r->resync_budget = RESYNC_LIMIT;
    r->stats = (struct hw_reader_stats){0};
}

void hw_trace_reader_on_loss(struct hw_trace_reader *r, hw_reader_loss_fn *fn, void *ctx)
{
    r->on_loss = fn;
    r->on_loss_ctx = ctx;
}

static void count_loss(struct hw_trace_reader *r, enum hw_reader_loss what, uint64_t offset,
                       uint64_t n)
{
    struct hw_reader_stats *s = &r->stats;
    uint64_t *const counts[] = {
        [HW_READER_DAMAGED] = &s->damaged_packets,
        [HW_READER_SKIPPED] = &s->skipped_bytes,
        [HW_READER_UNKNOWN] = &s->unknown_fields,
        [HW_READER_COMPRESSED] = &s->damaged_compressed,
        [HW_READER_CUT] = &s->unpacked_cut,
        [HW_READER_UNSUPPORTED] = &s->unsupported_packets,
        [HW_READER_INTERNED] = &s->interned_skipped,
        [HW_READER_STATE] = &s->needs_state_skipped,
        [HW_READER_LOSS] = &s->sequence_losses,
    };
    if (what == HW_READER_TRUNCATED)
        s->truncated = true;
    else
        *counts[what] += what == HW_READER_SKIPPED ? n : 1;
    if (r->on_loss)
        r->on_loss(r->on_loss_ctx, what, offset, n);
}

void hw_trace_reader_leave_out_samples(struct hw_trace_reader *r)
{
    r->leaves_out_samples = r->fd >= 0;
}

uint64_t hw_trace_reader_size(const struct hw_trace_reader *r)
{
    return r->size;
}

const struct hw_reader_stats *hw_trace_reader_stats(const struct hw_trace_reader *r)
{
    return &r->stats;
}

static int fill_window(struct hw_trace_reader *r, uint64_t at, size_t want, struct hw_error *err)
{
    size_t capacity = want > WINDOW ? want : WINDOW;
    if (capacity > r->capacity) {
        uint8_t *grown = realloc(r->buffer, capacity);
        if (!grown)
            return hw_fail(err, HW_ENOMEM, at, "trace window of %zu bytes", capacity);
        r->buffer = grown;
        r->capacity = capacity;
    }
    uint64_t window_end = r->window_at + r->window.n;
    size_t got = 0;
    if (at >= r->window_at && at < window_end) { /* keeps what is in the buffer already */
        got = (size_t)(window_end - at);
        memmove(r->buffer, r->buffer + (at - r->window_at), got);
    }
    r->window = hw_bytes_of(r->buffer, 0);
    r->window_at = at;
    while (got < r->capacity) {
        ssize_t n = pread(r->fd, r->buffer + got, r->capacity - got, (off_t)(at + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hw_fail_sys(err, "cannot read the trace at %llu", (unsigned long long)at);
        if (n == 0) { /* the end, or the file shrank */
            r->size = at + got;
            break;
        }
        got += (size_t)n;
    }
    r->window.n = got;
    return HW_OK;
}

static bool is_in_window(const struct hw_trace_reader *r, uint64_t at, uint64_t n)
{
    return at >= r->window_at && at + n <= r->window_at + r->window.n;
}

/* The bytes from `at` on: `want` of them, or fewer at the end of the file. */
static int view(struct hw_trace_reader *r, uint64_t at, size_t want, struct hw_bytes *out,
                struct hw_error *err)
{
    if (!is_in_window(r, at, want) && r->fd >= 0) {
        int rc = fill_window(r, at, want, err);
        if (rc < 0)
            return rc;
    }
    if (at >= r->size || at < r->window_at || at > r->window_at + r->window.n) {
        *out = (struct hw_bytes){NULL, 0};
        return HW_OK;
    }
    size_t skip = (size_t)(at - r->window_at), n = r->window.n - skip;
    *out = hw_bytes_of(r->window.p + skip, n < want ? n : want);
    return HW_OK;
}

/* ---- sequences ---- */

static int sequence_get(struct hw_trace_reader *r, uint64_t id, struct sequence **out)
{
    uint64_t at;
    if (!hw_map64_get(&r->sequence_by_id, id, &at)) {
        at = r->sequences.n;
        if (hw_vec_push(&r->sequences, (struct sequence){0}) < 0 ||
            hw_map64_put(&r->sequence_by_id, id, at) < 0)
            return HW_ENOMEM;
    }
    *out = &r->sequences.v[at];
    return HW_OK;
}

/* Updates the sequence's state. 1 = return the packet, 0 = it needs state that is not valid. */
static int follow_sequence(struct hw_trace_reader *r, struct hw_packet *p,
                           const struct hw_packet_common *c, uint64_t offset)
{
    struct sequence none = {0}, *s = &none;
    if (c->sequence_id != 0 && sequence_get(r, p->sequence, &s) < 0)
        return HW_ENOMEM;
    if (c->cleared || c->flags & HW_V_TracePacket_SequenceFlags_SEQ_INCREMENTAL_STATE_CLEARED) {
        s->generation++;
        s->valid = c->sequence_id != 0;
        s->default_clock = 0;
    } else if (c->dropped) {
        s->valid = false;
    }
    if (c->dropped && s->started && !c->first)
        count_loss(r, HW_READER_LOSS, offset, 0);
    s->started = true;
    if (c->defaults_clock)
        s->default_clock = c->defaults_clock;
    if (p->clock_id == 0)
        p->clock_id = s->default_clock;
    p->generation = s->valid ? s->generation : 0;
    if (p->interned.n && !s->valid) {
        count_loss(r, HW_READER_INTERNED, offset, 0);
        p->interned = (struct hw_bytes){NULL, 0};
    }
    if (!s->valid)
        p->defaults = (struct hw_bytes){NULL, 0};
    if (c->flags & HW_V_TracePacket_SequenceFlags_SEQ_NEEDS_INCREMENTAL_STATE && !s->valid) {
        count_loss(r, HW_READER_STATE, offset, 0);
        return 0;
    }
    return 1;
}

/* ---- packets ---- */

static int start_inner(struct hw_trace_reader *r, const struct hw_packet *p, struct hw_error *err)
{
    struct hw_error why;
    hw_strbuf_clear(&r->inflated);
    uint64_t left = r->max_inflated - r->n_inflated;
    size_t max = left < MAX_INFLATED ? left : MAX_INFLATED;
    int rc = p->data_field == F(compressed_packets)
                 ? hw_inflate(p->data, max, &r->inflated, &why)
                 : hw_zstd_inflate(p->data, max, &r->inflated, &why);
    r->n_inflated += r->inflated.n < max ? r->inflated.n : max;
    if (rc == HW_ENOMEM)
        return hw_fail(err, rc, p->offset, "%s", why.text);
    if (rc == HW_ELIMIT)
        count_loss(r, HW_READER_CUT, p->offset, 0);
    else if (rc == HW_EUNSUPPORTED)
        count_loss(r, HW_READER_UNSUPPORTED, p->offset, 0);
    else if (rc < 0)
        count_loss(r, HW_READER_COMPRESSED, p->offset, 0);
    r->inner = true;
    r->inner_pos = 0;
    r->inner_offset = p->offset;
    return HW_OK;
}

/* 1 = return the packet to the caller, 0 = go on with the next. */
static int accept_packet(struct hw_trace_reader *r, struct hw_packet *p,
                         const struct hw_packet_common *c, uint64_t offset, struct hw_error *err)
{
    p->offset = offset;
    p->compressed = r->inner;
    r->stats.packets++;
    if (p->data_field == F(compressed_packets) || p->data_field == F(zstd_compressed_packets)) {
        if (!r->inner)
            return start_inner(r, p, err);
        count_loss(r, HW_READER_DAMAGED, offset, 0); /* they are never nested */
        return 0;
    }
    int rc = follow_sequence(r, p, c, offset);
    return rc < 0 ? hw_fail(err, rc, offset, "packet sequence:") : rc;
}

static int next_inner(struct hw_trace_reader *r, struct hw_packet *out, struct hw_error *err)
{
    struct hw_bytes all = hw_bytes_of(r->inflated.p, r->inflated.n);
    struct hw_packet_common c;
    while (r->inner_pos < all.n) {
        struct hw_packet_frame f = {0};
        if (r->n_short > r->max_inflated) {
            count_loss(r, HW_READER_CUT, r->inner_offset, 0);
            break;
        }
        size_t left = all.n - r->inner_pos;
        struct hw_bytes b = hw_bytes_of(all.p + r->inner_pos, left);
        enum hw_frame_kind kind = hw_packet_frame_read(b, left, &f);
        if (kind == HW_FRAME_SHORT || kind == HW_FRAME_BAD) {
            count_loss(r, HW_READER_DAMAGED, r->inner_offset, 0);
            break;
        }
        r->inner_pos += f.head + (size_t)f.n;
        if (f.head + f.n < PACKET_COST)
            r->n_short += PACKET_COST - f.head - f.n;
        if (kind == HW_FRAME_OTHER) {
            count_loss(r, HW_READER_UNKNOWN, r->inner_offset, f.number);
            continue;
        }
        if (!hw_packet_read(hw_bytes_of(b.p + f.head, (size_t)f.n), out, &c)) {
            count_loss(r, HW_READER_DAMAGED, r->inner_offset, 0);
            continue;
        }
        int rc = accept_packet(r, out, &c, r->inner_offset, err);
        if (rc != 0)
            return rc;
    }
    r->inner = false;
    return 0;
}

/* Moves pos to the next position where a packet surely starts, or to the end. */
static int resync(struct hw_trace_reader *r, struct hw_error *err)
{
    uint64_t from = r->pos++;
    for (; r->pos < r->size; r->pos++) {
        struct hw_bytes b;
        struct hw_packet_frame f;
        int rc = view(r, r->pos, HW_PACKET_MAX_HEAD, &b, err);
        if (rc < 0)
            return rc;
        if (!b.n || b.p[0] != (HW_F_Trace_packet << 3 | HW_PB_BYTES) ||
            hw_packet_frame_read(b, r->size - r->pos, &f) != HW_FRAME_PACKET ||
            f.n > r->resync_budget)
            continue;
        rc = view(r, r->pos, f.head + (size_t)f.n, &b, err);
        if (rc < 0)
            return rc;
        if (b.n < f.head + f.n)
            continue;
        /* A damaged file with nested lengths must not cost the square of its size. */
        r->resync_budget -= f.n;
        if (hw_packet_is_plausible(hw_bytes_of(b.p + f.head, (size_t)f.n)))
            break;
    }
    count_loss(r, HW_READER_SKIPPED, from, (r->pos < r->size ? r->pos : r->size) - from);
    return HW_OK;
}

/* Is there a packet, or the end of the file, at `at`? */
static int continues_at(struct hw_trace_reader *r, uint64_t at, bool *out, struct hw_error *err)
{
    struct hw_bytes b;
    struct hw_packet_frame f;
    int rc = view(r, at, HW_PACKET_MAX_HEAD, &b, err);
    *out = rc == HW_OK &&
           (at >= r->size || hw_packet_frame_read(b, r->size - at, &f) == HW_FRAME_PACKET);
    return rc;
}

/*
 * Is there surely a packet at `at`, or the end of the file? Its fields are those of packets, or it
 * can be decoded and one soon after it has such fields: what is new in one packet need not be in
 * all. Nested messages in a damaged packet look like packets, but for that.
 */
static int surely_continues_at(struct hw_trace_reader *r, uint64_t at, bool *out,
                               struct hw_error *err)
{
    const uint64_t budget = r->resync_budget;
    *out = at >= r->size;
    for (int i = 0; i < MAX_UNSURE && !*out && at < r->size; i++) {
        struct hw_bytes b;
        struct hw_packet_frame f;
        struct hw_packet p;
        struct hw_packet_common c;
        int rc = view(r, at, HW_PACKET_MAX_HEAD, &b, err);
        if (rc < 0)
            return rc;
        if (hw_packet_frame_read(b, r->size - at, &f) != HW_FRAME_PACKET || f.n > r->resync_budget)
            return HW_OK;
        rc = view(r, at, f.head + (size_t)f.n, &b, err);
        if (rc < 0)
            return rc;
        r->resync_budget -= f.n;
        struct hw_bytes body = hw_bytes_of(b.p + f.head, (size_t)f.n);
        if (b.n < f.head + f.n || !hw_packet_read(body, &p, &c) || c.swallowed)
            return HW_OK;
        *out = hw_packet_is_known(body);
        at += f.head + f.n;
    }
    if (*out) /* what is read again right away costs twice, at most */
        r->resync_budget = budget;
    return HW_OK;
}

/* Numbers that belong into packets are the rest of a damaged one. */
static int unknown_at(struct hw_trace_reader *r, uint64_t at, struct hw_packet_frame *f,
                      bool *is_other, struct hw_error *err)
{
    struct hw_bytes b;
    int rc = view(r, at, HW_PACKET_MAX_HEAD, &b, err);
    *is_other = rc == HW_OK && hw_packet_frame_read(b, r->size - at, f) == HW_FRAME_OTHER &&
                !hw_packet_has_number(f->number, f->wire);
    return rc;
}

/* Skips fields that are no packets, if packets surely follow. */
static int skip_unknown(struct hw_trace_reader *r, struct hw_error *err)
{
    struct hw_packet_frame f;
    uint64_t at = r->pos;
    bool is_other = true, continues = false;
    int rc = HW_OK;
    while (rc == HW_OK && at < r->size && (rc = unknown_at(r, at, &f, &is_other, err)) == HW_OK &&
           is_other)
        at += f.head + f.n;
    if (rc == HW_OK)
        rc = surely_continues_at(r, at, &continues, err);
    if (rc < 0)
        return rc;
    if (!continues) { /* as there: what is hidden in these fields may lead here again and again */
        r->resync_budget -= at - r->pos < r->resync_budget ? at - r->pos : r->resync_budget;
        return resync(r, err);
    }
    while (rc == HW_OK && r->pos < at &&
           (rc = unknown_at(r, r->pos, &f, &is_other, err)) == HW_OK) {
        count_loss(r, HW_READER_UNKNOWN, r->pos, f.number);
        r->pos += f.head + f.n;
    }
    return rc;
}

/* Skips a packet that cannot be used, if its length can be trusted. */
static int skip_frame(struct hw_trace_reader *r, const struct hw_packet_frame *f,
                      struct hw_error *err)
{
    bool continues;
    int rc = continues_at(r, r->pos + f->head + f->n, &continues, err);
    if (rc < 0)
        return rc;
    if (!continues)
        return resync(r, err);
    r->pos += f->head + f->n;
    return HW_OK;
}

/* False: the packet at pos has been read already, or is small. */
static bool may_be_left_out(const struct hw_trace_reader *r)
{
    struct hw_packet_frame f;
    if (!r->leaves_out_samples || r->pos >= r->size)
        return false;
    if (!is_in_window(r, r->pos, HW_PACKET_MAX_HEAD))
        return true;
    struct hw_bytes b = hw_bytes_of(r->window.p + (r->pos - r->window_at), HW_PACKET_MAX_HEAD);
    return hw_packet_frame_read(b, r->size - r->pos, &f) == HW_FRAME_PACKET &&
           f.n >= MIN_LEFT_OUT && !is_in_window(r, r->pos, f.head + f.n);
}

/* 1 = a packet, 0 = something else was skipped; moves pos after it. */
static int next_outer(struct hw_trace_reader *r, struct hw_packet *out, struct hw_error *err)
{
    struct hw_bytes b;
    struct hw_packet_frame f = {0};
    struct hw_packet_common c;
    uint64_t at = r->pos, end;
    if (may_be_left_out(r) &&
        hw_packet_leave_out_samples(r->fd, at, r->size, MIN_LEFT_OUT, out, &c, &end)) {
        r->pos = end;
        return accept_packet(r, out, &c, at, err);
    }
    int rc = view(r, at, HW_PACKET_MAX_HEAD, &b, err);
    if (rc < 0 || at >= r->size)
        return rc;
    switch (hw_packet_frame_read(b, r->size - at, &f)) {
    case HW_FRAME_SHORT:
        count_loss(r, HW_READER_TRUNCATED, at, r->size - at);
        return resync(r, err);
    case HW_FRAME_BAD:
        return resync(r, err);
    case HW_FRAME_OTHER:
        return skip_unknown(r, err);
    case HW_FRAME_PACKET:
        break;
    }
    rc = view(r, at, f.head + (size_t)f.n, &b, err);
    if (rc < 0)
        return rc;
    if (b.n < f.head + f.n) { /* the file shrank */
        count_loss(r, HW_READER_TRUNCATED, at, b.n);
        r->pos = r->size;
        return 0;
    }
    if (!hw_packet_read(hw_bytes_of(b.p + f.head, (size_t)f.n), out, &c)) {
        count_loss(r, HW_READER_DAMAGED, at, 0);
        return skip_frame(r, &f, err);
    }
    if (c.swallowed) {
        count_loss(r, HW_READER_DAMAGED, at, 0);
        return resync(r, err);
    }
    r->pos = at + f.head + f.n;
    return accept_packet(r, out, &c, at, err);
}

int hw_trace_reader_next(struct hw_trace_reader *r, struct hw_packet *out, struct hw_error *err)
{
    for (;;) {
        int rc = 0;
        if (r->inner) {
            rc = next_inner(r, out, err);
            if (rc != 0)
                return rc;
        }
        if (r->pos >= r->size)
            return 0;
        rc = next_outer(r, out, err);
        if (rc != 0)
            return rc;
    }
}

int hw_trace_reader_again(struct hw_trace_reader *r, struct hw_packet *p, struct hw_error *err)
{
    struct hw_bytes b;
    struct hw_packet_frame f = {0};
    struct hw_packet_common c;
    struct hw_packet again;
    int rc = view(r, p->offset, HW_PACKET_MAX_HEAD, &b, err);
    if (rc < 0)
        return rc;
    if (p->offset >= r->size || hw_packet_frame_read(b, r->size - p->offset, &f) != HW_FRAME_PACKET)
        return 0;
    rc = view(r, p->offset, f.head + (size_t)f.n, &b, err);
    if (rc < 0)
        return rc;
    if (b.n < f.head + f.n || !hw_packet_read(hw_bytes_of(b.p + f.head, (size_t)f.n), &again, &c))
        return 0;
    again.offset = p->offset;
    again.clock_id = p->clock_id; /* perhaps the sequence's default at that time */
    again.generation = p->generation;
    if (again.generation == 0)
        again.interned = again.defaults = (struct hw_bytes){NULL, 0};
    *p = again;
    return 1;
}

/*
 * reader.h - the packets of a trace file, one after the other
 *
 * Why:     framing, compressed packets, damage, and the state of packet sequences are the same for
 *          every reader of traces: importers, the text printer, tools that cut traces.
 * Shapes:  open over bytes in memory, or over a seekable file that is read by pread in windows
 *          (never mapped: it may shrink meanwhile). A packet is a view with its common fields
 *          decoded; callers decode the rest from `bytes`.
 * Owns:    its buffers. A packet's views are valid until the next call.
 * Errors:  next gives HW_ENOMEM and HW_ESYS only. Damaged parts are dropped and counted: a packet
 *          whose fields break the wire format; bytes between packets, up to the next position where
 *          a packet surely starts; a compressed packet after its last readable byte. Fields beside
 *          the packets are skipped and counted, of whatever wire type.
 * Threads: one owner at a time.
 * Source:  doc/formats/trace.md
 */
#ifndef HW_TRACE_READER_H
#define HW_TRACE_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct hw_error;
struct hw_trace_reader;

struct hw_packet {
    struct hw_bytes bytes; /* the whole TracePacket */
    uint64_t offset;       /* in the file; from a compressed packet: the compressed one's */
    bool compressed;       /* it came out of a compressed packet */

    uint32_t data_field;  /* field number of the oneof `data`, 0 = none */
    struct hw_bytes data; /* its bytes */
    uint64_t timestamp;
    bool has_timestamp;
    uint32_t clock_id; /* of timestamp; 0 = the trace's default clock */

    uint64_t sequence;   /* machine id << 32 | sequence id; low half 0 = none */
    uint32_t generation; /* of interned data on this sequence, from 1; 0 = none yet */
    struct hw_bytes interned;
    struct hw_bytes defaults; /* TracePacketDefaults that begin with this packet */
};

/* What was lost while reading. */
struct hw_reader_stats {
    uint64_t packets;
    uint64_t damaged_packets;     /* dropped */
    uint64_t skipped_bytes;       /* between packets, searched for the next one */
    uint64_t unknown_fields;      /* beside the packets, skipped */
    uint64_t damaged_compressed;  /* compressed packets that are at most partly readable */
    uint64_t unpacked_cut;        /* compressed packets cut because they unpack to too much */
    uint64_t unsupported_packets; /* compressed in a way this build cannot read */
    uint64_t interned_skipped;    /* interned data without valid state */
    uint64_t needs_state_skipped; /* packets that need state that was not valid */
    uint64_t sequence_losses;     /* previous_packet_dropped seen, the first packet excepted */
    bool truncated;               /* the file ends inside a packet */
};

enum hw_reader_loss {
    HW_READER_DAMAGED,     /* a packet that was dropped */
    HW_READER_SKIPPED,     /* n bytes between packets */
    HW_READER_UNKNOWN,     /* a field beside the packets: n is its number */
    HW_READER_COMPRESSED,  /* a compressed packet that is at most partly readable */
    HW_READER_CUT,         /* the rest of one that unpacks to too much */
    HW_READER_UNSUPPORTED, /* a compressed packet that this build cannot read */
    HW_READER_INTERNED,    /* interned data of the next packet: no valid state */
    HW_READER_STATE,       /* a packet that needs state that is not valid */
    HW_READER_LOSS,        /* packets before the next one, as its sequence says */
    HW_READER_TRUNCATED    /* n bytes are left of what began here */
};
/* offset: in the file; inside a compressed packet, that packet's. */
typedef void hw_reader_loss_fn(void *ctx, enum hw_reader_loss what, uint64_t offset, uint64_t n);

int hw_trace_reader_open_bytes(struct hw_bytes file, struct hw_trace_reader **out,
                               struct hw_error *err);
/* The descriptor stays the caller's. HW_ESYS if it cannot be read at an offset (a pipe). */
int hw_trace_reader_open_fd(int fd, struct hw_trace_reader **out, struct hw_error *err);
void hw_trace_reader_free(struct hw_trace_reader *r);

/* 1 = a packet, 0 = end, < 0 = error. Compressed packets are replaced by their content. */
int hw_trace_reader_next(struct hw_trace_reader *r, struct hw_packet *out, struct hw_error *err);
/* Reads a packet again that next gave before: its views are new and valid until the next call;
 * those of the packet that next gave last become invalid. Does not change where next goes on. 1,
 * 0 = the packet is no longer there, < 0. Not for packets from a compressed one. */
int hw_trace_reader_again(struct hw_trace_reader *r, struct hw_packet *p, struct hw_error *err);
/* fn is called at each loss, while next runs; for callers that report positions. */
void hw_trace_reader_on_loss(struct hw_trace_reader *r, hw_reader_loss_fn *fn, void *ctx);
void hw_trace_reader_rewind(struct hw_trace_reader *r); /* to the start, state and counts too */
/* From here on large ProfilePackets with only dumps in them, and large parts of heap graphs, are
 * not read and come with empty `bytes`: for callers that need everything else. Of a ProfilePacket
 * `data` has only `continued`, if that is set. Ends with a rewind. */
void hw_trace_reader_leave_out_samples(struct hw_trace_reader *r);
uint64_t hw_trace_reader_size(const struct hw_trace_reader *r); /* of the file */
const struct hw_reader_stats *hw_trace_reader_stats(const struct hw_trace_reader *r);

#endif

/*
 * writer.h - appends packets to a trace file
 *
 * Why:     every packet we write goes through here: framing, sequence ids, clocks, service packets.
 * Shapes:  packets are built in memory (at most HW_TRACE_MAX_PACKET bytes) and appended whole with
 *          one write, so that a killed recorder leaves a readable file.
 * Owns:    not the descriptor: the caller opens and closes it.
 * Errors:  HW_ESYS (disk full, with errno), HW_ELIMIT (packet too long). Sticky: after a failed
 *          write the file is truncated back to the last whole packet where possible, and later
 *          writes fail at once.
 * Threads: one owner at a time.
 * Source:  doc/formats/trace.md
 */
#ifndef HW_TRACE_WRITER_H
#define HW_TRACE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bytes.h"

#define HW_TRACE_MAX_PACKET (64u << 20)

struct hw_error;
struct hw_pb; /* codec/pb.h: streaming protobuf writer */
struct hw_trace_writer;

/* Writes in place of the writer. Both return 0, or -1 with errno; cut truncates the file to `size`,
 * where later writes begin. */
struct hw_trace_sink {
    int (*write)(void *ctx, const void *p, size_t n);
    int (*cut)(void *ctx, off_t size);
    void *ctx;   /* borrowed */
    off_t start; /* offset of our first packet; -1 = cannot be cut */
};

int hw_trace_writer_new(int fd, struct hw_trace_writer **out, struct hw_error *err);
int hw_trace_writer_new_to(const struct hw_trace_sink *sink, struct hw_trace_writer **out,
                           struct hw_error *err);
void hw_trace_writer_free(struct hw_trace_writer *w);
uint64_t hw_trace_writer_bytes(const struct hw_trace_writer *w);

enum hw_trace_compression { HW_TRACE_PLAIN, HW_TRACE_DEFLATE, HW_TRACE_ZSTD };
/*
 * compression of TraceConfig: packets are collected and written compressed, some 400 KiB at a time;
 * level is zstd's, 0 its default. Collected packets are also written by flush, at the end of each
 * heap dump and with the statistics; a killed recorder loses no more than these.
 */
void hw_trace_writer_set_compression(struct hw_trace_writer *w, enum hw_trace_compression how,
                                     int level);
int hw_trace_writer_flush(struct hw_trace_writer *w, struct hw_error *err);

/* Number for a new packet sequence (2, 3, …; 1 is the service's own). */
uint32_t hw_trace_writer_sequence(struct hw_trace_writer *w);

/*
 * Starts a TracePacket; its fields are written to the returned hw_pb, which belongs to the writer;
 * one packet is open at a time. Writes the timestamp (0 = none), our identity, and on the first
 * packet of a sequence the flag INCREMENTAL_STATE_CLEARED.
 */
struct hw_pb *hw_trace_begin(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns);
int hw_trace_end(struct hw_trace_writer *w, struct hw_error *err);

/* Service packets at the start: clock snapshot, marker, config (binary TraceConfig), uuid,
 * provenance, system info, tracing_started. Both halves of the uuid 0 = random. n_sequences: how
 * many ids hw_trace_writer_sequence will give; the provenance lists them. */
int hw_trace_write_preamble(struct hw_trace_writer *w, struct hw_bytes config, int64_t uuid_msb,
                            int64_t uuid_lsb, uint32_t n_sequences, struct hw_error *err);
int hw_trace_write_clocks(struct hw_trace_writer *w, struct hw_error *err);
/* Lifecycle: field number of TracingServiceEvent (1 all_data_sources_started, 3 flushed, 5
 * disabled, 4 read completed). */
int hw_trace_write_event(struct hw_trace_writer *w, uint32_t field, struct hw_error *err);
/* trace_stats, at the end. n_missed: processes that should have been recorded. */
int hw_trace_write_stats(struct hw_trace_writer *w, uint32_t n_missed, struct hw_error *err);

#endif

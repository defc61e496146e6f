/*
 * Each packet is passed to all parts in turn. The reader reports what it drops and where; dropped
 * packets have a number, too. A sequence has the interned data of its generation: when the next one
 * begins, and at the end of the file, undefined references are known.
 */
#include "trace/check/trace_check.h"

#include <stdlib.h>

#include "base/error.h"
#include "schema/fields.h"
#include "schema/schema.h"
#include "trace/check/check_dumps.h"
#include "trace/check/check_fields.h"
#include "trace/check/check_graph.h"
#include "trace/check/check_ids.h"
#include "trace/check/checker.h"
#include "trace/check/packet_time.h"
#include "trace/check/system_facts.h"
#include "trace/reader.h"

#include "base/banned.h"

#define F(name) HW_F_TracePacket_##name

/* ---- sequences ---- */

static int sequence_get(struct hw_checker *c, uint64_t id, struct hw_check_sequence **out)
{
    uint64_t *at;
    bool fresh;
    *out = NULL;
    if ((uint32_t)id == 0)
        return HW_OK;
    if (hw_map64_at(&c->sequence_by_id, id, &at, &fresh) < 0)
        return HW_ENOMEM;
    if (!fresh) {
        *out = c->sequences.v[*at];
        return HW_OK;
    }
    struct hw_check_sequence *s = calloc(1, sizeof *s);
    *at = c->sequences.n;
    if (!s || hw_vec_push(&c->sequences, s) < 0) {
        free(s);
        return HW_ENOMEM;
    }
    s->id = id;
    *out = s;
    return HW_OK;
}

static void sequences_free(struct hw_checker *c)
{
    for (size_t i = 0; i < c->sequences.n; i++) {
        struct hw_check_sequence *s = c->sequences.v[i];
        hw_check_interned_free(s->interned);
        hw_check_dumps_free(s->dumps);
        hw_check_graph_free(s->graph);
        free(s);
    }
    hw_vec_done(&c->sequences);
    hw_map64_done(&c->sequence_by_id);
}

static int end_generation(struct hw_checker *c, struct hw_check_sequence *s)
{
    if (!s->interned)
        return HW_OK;
    int rc = hw_check_dumps_generation_end(c, s);
    hw_check_interned_end(c, s->interned, s->id);
    hw_check_interned_free(s->interned);
    s->interned = NULL;
    return rc;
}

/* A packet's generation is 0 while the state is not valid: the last one may continue after it. */
static int follow_generation(struct hw_checker *c, struct hw_check_sequence *s,
                             const struct hw_packet *p)
{
    if (p->generation == 0 || p->generation == s->generation)
        return HW_OK;
    int rc = end_generation(c, s);
    s->generation = p->generation;
    s->interned = rc == HW_OK ? calloc(1, sizeof *s->interned) : NULL;
    return rc < 0 ? rc : s->interned ? HW_OK : HW_ENOMEM;
}

/* ---- packets ---- */

/* Kinds that depend on other packets of their writer: deltas, indices, interned data. */
static bool needs_sequence(const struct hw_packet *p)
{
    switch (p->data_field) {
    case F(profile_packet):
    case F(heap_graph):
    case F(track_event):
    case F(perf_sample):
    case F(streaming_profile_packet):
        return true;
    default:
        return false;
    }
}

static int check_packet(struct hw_checker *c, const struct hw_packet *p)
{
    struct hw_check_sequence *s;
    int rc = sequence_get(c, p->sequence, &s);
    c->reported_state = false;
    if (rc == HW_OK && s)
        rc = follow_generation(c, s, p);
    if (rc == HW_OK && s && p->interned.n && s->interned)
        rc = hw_check_intern(c, s->interned, p->interned);
    if (rc == HW_OK)
        rc = hw_check_fields(c, s, p->bytes);
    if (rc == HW_OK)
        rc = hw_check_packet_time(c, p);
    if (rc == HW_OK)
        rc = hw_check_system_packet(c, p);
    if (rc < 0)
        return rc;
    if (!s && needs_sequence(p)) {
        hw_check_found(c, HW_CHECK_SEQUENCE_MISSING, "a packet of kind %u is on no sequence",
                       p->data_field);
        return HW_OK;
    }
    if (p->data_field == F(profile_packet))
        return hw_check_profile_packet(c, s, p);
    return p->data_field == F(heap_graph) ? hw_check_graph_packet(c, s, p) : HW_OK;
}

/* What the reader drops or skips. */
static void on_loss(void *ctx, enum hw_reader_loss what, uint64_t offset, uint64_t n)
{
    struct hw_checker *c = ctx;
    struct hw_check_pos next = {c->at.packet + 1, offset};
    unsigned long long bytes = n;
    switch (what) {
    case HW_READER_DAMAGED:
        c->at.packet++;
        hw_check_found_at(c, HW_CHECK_PACKET_DAMAGED, next, "the packet cannot be read");
        break;
    case HW_READER_SKIPPED:
        hw_check_found_at(c, HW_CHECK_BYTES_SKIPPED, next, "%llu bytes", bytes);
        break;
    case HW_READER_UNKNOWN:
        hw_check_found_at(c, HW_CHECK_FIELD_UNKNOWN, next, "field %llu beside the packets", bytes);
        break;
    case HW_READER_TRUNCATED:
        hw_check_found_at(c, HW_CHECK_FILE_TRUNCATED, next, "%llu bytes of it are there", bytes);
        break;
    case HW_READER_COMPRESSED:
        hw_check_found_at(c, HW_CHECK_COMPRESSED_DAMAGED, next, "it cannot be unpacked");
        break;
    case HW_READER_CUT:
        hw_check_found_at(c, HW_CHECK_COMPRESSED_CUT, next, "its rest is left out");
        break;
    case HW_READER_UNSUPPORTED:
        hw_check_found_at(c, HW_CHECK_COMPRESSED_UNSUPPORTED, next, "it is left out");
        break;
    case HW_READER_INTERNED:
        hw_check_found_at(c, HW_CHECK_STATE_NOT_CLEARED, next,
                          "interned data, but the sequence's state was never cleared");
        break;
    case HW_READER_STATE:
        c->at.packet++;
        hw_check_found_at(c, HW_CHECK_STATE_NEEDED, next, "readers drop the packet");
        break;
    case HW_READER_LOSS:
        hw_check_found_at(c, HW_CHECK_PACKETS_LOST, next, "as the packet says");
        break;
    }
}

static int check_end(struct hw_checker *c)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < c->sequences.n; i++) {
        struct hw_check_sequence *s = c->sequences.v[i];
        rc = end_generation(c, s);
        hw_check_dumps_end(c, s);
        if (rc == HW_OK)
            rc = hw_check_graph_end(c, s);
    }
    hw_check_clocks_end(c);
    hw_check_pids_end(c);
    return rc;
}

int hw_trace_check(struct hw_trace_reader *r, const struct hw_check_options *o,
                   struct hw_check_result *out, struct hw_error *err)
{
    struct hw_checker c = {
        .o = o, .result = out, .packet_message = hw_schema_message_find("TracePacket")};
    struct hw_packet p;
    int rc;
    *out = (struct hw_check_result){0};
    hw_trace_reader_on_loss(r, on_loss, &c);
    while ((rc = hw_trace_reader_next(r, &p, err)) == 1) {
        c.at.packet++;
        c.at.offset = p.offset;
        rc = check_packet(&c, &p);
        if (rc < 0) {
            (void)hw_fail(err, rc, p.offset, "trace packet:");
            break;
        }
    }
    if (rc == HW_OK) {
        rc = check_end(&c);
        if (rc < 0)
            (void)hw_fail(err, rc, 0, "trace:");
    }
    hw_trace_reader_on_loss(r, NULL, NULL);
    out->n_packets = c.at.packet;
    sequences_free(&c);
    hw_check_clocks_done(&c);
    hw_check_pids_done(&c);
    return rc;
}

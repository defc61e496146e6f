#include "import/system/packet_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "schema/fields.h"

#include "base/banned.h"

#define F(name) HW_F_TracePacket_##name

/* Links to heap graphs have the graph's time, and need the samples before them. */
bool hw_packet_is_ordered(const struct hw_packet *p)
{
    switch (p->data_field) {
    case F(process_tree):
    case F(process_stats):
    case F(malloc_info):
    case F(profile_packet):
    case F(smaps_packet):
    case F(memory_tracker_snapshot):
    case F(service_event):
    case F(track_event):
    case F(heap_graph):
    case F(perf_sample):
    case F(art_process_metadata):
        return true;
    default:
        return false;
    }
}

uint32_t hw_packet_clock(const struct hw_packet *p)
{
    return p->clock_id ? p->clock_id : HW_V_BuiltinClock_BUILTIN_CLOCK_BOOTTIME;
}

void hw_packet_order_check_raw(struct hw_packet_order *o, const struct hw_packet *p)
{
    if (!p->has_timestamp || !hw_packet_is_ordered(p))
        return;
    o->may_be_needed |=
        o->has_raw && (hw_packet_clock(p) != o->raw_clock || p->timestamp < o->raw_ts);
    o->has_raw = true;
    o->raw_clock = hw_packet_clock(p);
    o->raw_ts = p->timestamp;
}

void hw_packet_order_init(struct hw_packet_order *o)
{
    *o = (struct hw_packet_order){.newest_ns = INT64_MIN};
}

void hw_packet_order_done(struct hw_packet_order *o)
{
    for (size_t i = 0; i < o->late.n; i++)
        free(o->late.v[i].copy);
    hw_vec_done(&o->late);
    hw_vec_done(&o->numbers);
}

/* The same view into the packet's copy. */
static struct hw_bytes moved(struct hw_bytes view, const struct hw_packet *p, const uint8_t *copy)
{
    return view.n ? hw_bytes_of(copy + (view.p - p->bytes.p), view.n) : view;
}

static int keep(struct hw_packet_order *o, const struct hw_packet *p, int64_t ts_ns)
{
    struct hw_late_packet late = {.packet = *p, .ts_ns = ts_ns, .number = o->number};
    if (p->compressed && p->bytes.n) {
        late.copy = malloc(p->bytes.n);
        if (!late.copy)
            return HW_ENOMEM;
        memcpy(late.copy, p->bytes.p, p->bytes.n);
        late.packet.bytes = hw_bytes_of(late.copy, p->bytes.n);
        late.packet.data = moved(p->data, p, late.copy);
        late.packet.interned = moved(p->interned, p, late.copy);
        late.packet.defaults = moved(p->defaults, p, late.copy);
    }
    if (hw_vec_push(&o->numbers, late.number) < 0 || hw_vec_push(&o->late, late) < 0) {
        free(late.copy);
        return HW_ENOMEM;
    }
    return HW_OK;
}

int hw_packet_order_add(struct hw_packet_order *o, const struct hw_packet *p, bool has_time,
                        int64_t ts_ns)
{
    int rc = HW_OK;
    if (has_time && ts_ns < o->newest_ns)
        rc = keep(o, p, ts_ns);
    else if (has_time)
        o->newest_ns = ts_ns;
    o->number++;
    return rc;
}

static int by_time(const void *pa, const void *pb)
{
    const struct hw_late_packet *a = pa, *b = pb;
    if (a->ts_ns != b->ts_ns)
        return a->ts_ns < b->ts_ns ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

void hw_packet_order_rewind(struct hw_packet_order *o)
{
    if (o->late.n)
        qsort(o->late.v, o->late.n, sizeof *o->late.v, by_time);
    o->next_late = o->next_number = 0;
    o->number = 0;
}

bool hw_packet_order_is_late(struct hw_packet_order *o)
{
    uint64_t number = o->number++;
    if (o->next_number == o->numbers.n || o->numbers.v[o->next_number] != number)
        return false;
    o->next_number++;
    return true;
}

struct hw_late_packet *hw_packet_order_next_late(struct hw_packet_order *o, int64_t ts_ns)
{
    if (o->next_late == o->late.n || o->late.v[o->next_late].ts_ns >= ts_ns)
        return NULL;
    return &o->late.v[o->next_late++];
}

#include "views/findings/losses.h"

#include <string.h>

#include "base/error.h"
#include "base/text/text_parts.h"

#include "base/banned.h"

static int add_loss(hw_losses *l, struct hw_loss x)
{
    for (size_t i = 0; i < l->n; i++) {
        struct hw_loss *have = &l->v[i];
        if (have->kind == x.kind && have->upid.v == x.upid.v && have->detail.v == x.detail.v) {
            if (x.kind == HW_LOSS_STAT) { /* rows of several keys add up */
                have->count += x.count;
                if (x.place >= 0 && (have->place < 0 || x.place < have->place))
                    have->place = x.place;
            } else if (x.count > have->count) {
                have->count = x.count;
            }
            return HW_OK;
        }
    }
    return hw_vec_push(l, x) < 0 ? HW_ENOMEM : HW_OK;
}

static int add_dump_losses(hw_losses *l, const struct hw_heap_dump *d)
{
    const struct {
        enum hw_loss_kind kind;
        uint64_t count;
        hw_str_id detail;
    } facts[] = {
        {HW_LOSS_SAMPLES, d->lost_samples, d->lost_reason},
        {HW_LOSS_OVERRAN, d->flags & HW_DUMP_BUFFER_OVERRAN ? 1 : 0, {0}},
        {HW_LOSS_CORRUPTED, d->flags & HW_DUMP_BUFFER_CORRUPTED ? 1 : 0, {0}},
        {HW_LOSS_REJECTED, d->flags & HW_DUMP_REJECTED ? 1 : 0, d->lost_reason},
        {HW_LOSS_GUARDRAIL, d->flags & HW_DUMP_HIT_GUARDRAIL ? 1 : 0, {0}},
        {HW_LOSS_TIMEOUT, d->client_error == 1, {0}},
        {HW_LOSS_STACK, d->client_error == 2, {0}},
        {HW_LOSS_UNWINDING, d->unwinding_errors, {0}},
        {HW_LOSS_INTERVAL,
         d->orig_interval_bytes && d->interval_bytes > d->orig_interval_bytes ? d->interval_bytes
                                                                              : 0,
         {0}},
    };
    for (size_t i = 0; i < HW_ARRAY_LEN(facts); i++) {
        struct hw_loss x = {.kind = facts[i].kind,
                            .upid = d->upid,
                            .count = facts[i].count,
                            .detail = facts[i].detail,
                            .place = -1,
                            .severity = HW_STAT_DATA_LOSS};
        if (x.count && add_loss(l, x) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

/* Stats that importers derive from the flags above. */
static const struct {
    const char *name;
    enum hw_loss_kind kind;
} known_stats[] = {
    {"heapprofd_buffer_overran", HW_LOSS_OVERRAN},
    {"heapprofd_buffer_corrupted", HW_LOSS_CORRUPTED},
    {"heapprofd_rejected_concurrent", HW_LOSS_REJECTED},
    {"heapprofd_hit_guardrail", HW_LOSS_GUARDRAIL},
    {"heapprofd_sampling_interval_adjusted", HW_LOSS_INTERVAL},
    {"heapprofd_unwind_samples", HW_LOSS_KIND_COUNT}, /* counts work, not losses */
};

static hw_upid process_of(const struct hw_profile *p, int64_t pid)
{
    for (uint32_t i = 0; i < p->processes.n; i++)
        if (p->processes.v[i].pid == pid)
            return (hw_upid){i};
    return (hw_upid){HW_ID_NONE};
}

static int add_stat_loss(const struct hw_profile *p, hw_losses *l, const struct hw_stat_row *s)
{
    if (s->severity == HW_STAT_INFO || s->value <= 0)
        return HW_OK;
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(p->callsites), s->name);
    hw_upid upid = {HW_ID_NONE};
    for (size_t i = 0; i < HW_ARRAY_LEN(known_stats); i++) {
        if (!hw_bytes_equal(name, hw_bytes_str(known_stats[i].name)))
            continue;
        upid = process_of(p, s->key);
        for (size_t k = 0; k < l->n; k++)
            if (l->v[k].kind == known_stats[i].kind && l->v[k].upid.v == upid.v)
                return HW_OK;
        if (known_stats[i].kind == HW_LOSS_KIND_COUNT)
            return HW_OK;
        return add_loss(l, (struct hw_loss){.kind = known_stats[i].kind,
                                            .upid = upid,
                                            .count = (uint64_t)s->value,
                                            .place = -1,
                                            .severity = s->severity});
    }
    if (s->key >= 0 && hw_bytes_start_with(name, "heapprofd_"))
        upid = process_of(p, s->key);
    return add_loss(
        l, (struct hw_loss){.kind = HW_LOSS_STAT,
                            .upid = upid,
                            .count = (uint64_t)s->value,
                            .detail = s->name,
                            .place = hw_bytes_start_with(name, "memory_infra_") ? s->key : -1,
                            .severity = s->severity});
}

int hw_losses_find(const struct hw_profile *p, hw_losses *out)
{
    int rc = HW_OK;
    hw_vec_clear(out);
    for (size_t i = 0; i < p->dumps.n && rc == 0; i++)
        rc = add_dump_losses(out, &p->dumps.v[i]);
    for (size_t i = 0; i < p->stats.n && rc == 0; i++)
        rc = add_stat_loss(p, out, &p->stats.v[i]);
    return rc;
}

bool hw_loss_is_incomplete(const struct hw_loss *l)
{
    return l->kind != HW_LOSS_UNWINDING && l->kind != HW_LOSS_INTERVAL;
}

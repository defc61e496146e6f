#include "views/findings/losses.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/text/text_parts.h"

#include "base/banned.h"

#define NO_ROW UINT32_MAX

struct find {
    const struct hw_profile *p;
    hw_losses *out;
    struct hw_map64 first;  /* kind and process → the first of their rows */
    HW_VEC(uint32_t) next;  /* by row: the next one of the same kind and process, or NO_ROW */
    struct hw_map64 of_pid; /* → upid; made at the first question */
};

static uint64_t key_of(enum hw_loss_kind kind, hw_upid upid)
{
    return (uint64_t)kind << 32 | upid.v;
}

static void merge(struct hw_loss *have, const struct hw_loss *x)
{
    if (x->kind == HW_LOSS_STAT) { /* rows of several keys add up */
        have->count += x->count;
        if (x->place >= 0 && (have->place < 0 || x->place < have->place))
            have->place = x->place;
    } else if (x->count > have->count) {
        have->count = x->count;
    }
}

static int add_loss(struct find *f, struct hw_loss x)
{
    uint64_t *first;
    bool is_new;
    if (hw_map64_at(&f->first, key_of(x.kind, x.upid), &first, &is_new) < 0)
        return HW_ENOMEM;
    uint32_t row = is_new ? NO_ROW : (uint32_t)*first;
    for (uint32_t i = row; i != NO_ROW; i = f->next.v[i])
        if (f->out->v[i].detail.v == x.detail.v) {
            merge(&f->out->v[i], &x);
            return HW_OK;
        }
    *first = f->out->n;
    if (hw_vec_push(f->out, x) < 0 || hw_vec_push(&f->next, row) < 0)
        return HW_ENOMEM;
    return HW_OK;
}

static int add_dump_losses(struct find *f, const struct hw_heap_dump *d)
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
        if (x.count && add_loss(f, x) < 0)
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

/* The first process of that pid. */
static int find_process(struct find *f, int64_t pid, hw_upid *out)
{
    uint64_t upid;
    for (size_t i = f->of_pid.n ? 0 : f->p->processes.n; i-- > 0;)
        if (hw_map64_put(&f->of_pid, (uint64_t)f->p->processes.v[i].pid, i) < 0)
            return HW_ENOMEM;
    out->v = hw_map64_get(&f->of_pid, (uint64_t)pid, &upid) ? (uint32_t)upid : HW_ID_NONE;
    return HW_OK;
}

static int add_stat_loss(struct find *f, const struct hw_stat_row *s)
{
    if (s->severity == HW_STAT_INFO || s->value <= 0)
        return HW_OK;
    struct hw_bytes name = hw_strings_get(hw_callsites_strings(f->p->callsites), s->name);
    hw_upid upid = {HW_ID_NONE};
    uint64_t have;
    for (size_t i = 0; i < HW_ARRAY_LEN(known_stats); i++) {
        if (!hw_bytes_equal(name, hw_bytes_str(known_stats[i].name)))
            continue;
        if (known_stats[i].kind == HW_LOSS_KIND_COUNT)
            return HW_OK;
        if (find_process(f, s->key, &upid) < 0)
            return HW_ENOMEM;
        if (hw_map64_get(&f->first, key_of(known_stats[i].kind, upid), &have))
            return HW_OK;
        return add_loss(f, (struct hw_loss){.kind = known_stats[i].kind,
                                            .upid = upid,
                                            .count = (uint64_t)s->value,
                                            .place = -1,
                                            .severity = s->severity});
    }
    if (s->key >= 0 && hw_bytes_start_with(name, "heapprofd_") &&
        find_process(f, s->key, &upid) < 0)
        return HW_ENOMEM;
    return add_loss(
        f, (struct hw_loss){.kind = HW_LOSS_STAT,
                            .upid = upid,
                            .count = (uint64_t)s->value,
                            .detail = s->name,
                            .place = hw_bytes_start_with(name, "memory_infra_") ? s->key : -1,
                            .severity = s->severity});
}

int hw_losses_find(const struct hw_profile *p, hw_losses *out)
{
    struct find f = {.p = p, .out = out};
    int rc = HW_OK;
    hw_vec_clear(out);
    for (size_t i = 0; i < p->dumps.n && rc == 0; i++)
        rc = add_dump_losses(&f, &p->dumps.v[i]);
    for (size_t i = 0; i < p->stats.n && rc == 0; i++)
        rc = add_stat_loss(&f, &p->stats.v[i]);
    hw_map64_done(&f.first);
    hw_map64_done(&f.of_pid);
    hw_vec_done(&f.next);
    return rc;
}

bool hw_loss_is_incomplete(const struct hw_loss *l)
{
    return l->kind != HW_LOSS_UNWINDING && l->kind != HW_LOSS_INTERVAL;
}

int hw_losses_sum_add(struct hw_losses_sum *sum, const struct hw_loss *l)
{
    if (!hw_loss_is_incomplete(l))
        return HW_OK;
    bool known = false;
    for (size_t i = sum->upids.n; i-- > 0 && !known;)
        known = sum->upids.v[i] == l->upid.v;
    if (!known && hw_vec_push(&sum->upids, l->upid.v) < 0)
        return HW_ENOMEM;
    if (l->kind != HW_LOSS_SAMPLES)
        return HW_OK;
    sum->n_samples += l->count;
    if (l->count > sum->most.count)
        sum->most = *l;
    return HW_OK;
}

void hw_losses_sum_done(struct hw_losses_sum *sum)
{
    hw_vec_done(&sum->upids);
}

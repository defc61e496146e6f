#include "cli/loss_text.h"

#include "cli/units.h"

#include "base/banned.h"

static const struct hw_strings *strings_of(const struct hw_profile *p)
{
    return hw_callsites_strings(p->callsites);
}

static void put_process(struct hw_strbuf *out, const struct hw_profile *p, hw_upid upid)
{
    if (upid.v >= p->processes.n)
        return;
    struct hw_bytes name = hw_strings_get(strings_of(p), p->processes.v[upid.v].name);
    hw_strbuf_addf(out, "pid %lld", (long long)p->processes.v[upid.v].pid);
    if (name.n == 0)
        return;
    hw_strbuf_adds(out, " ('");
    hw_strbuf_add_escaped(out, name.p, name.n);
    hw_strbuf_adds(out, "')");
}

static void put_stat(struct hw_strbuf *out, const struct hw_profile *p, const struct hw_loss *l)
{
    struct hw_bytes name = hw_strings_get(strings_of(p), l->detail);
    hw_strbuf_adds(out, l->severity == HW_STAT_ERROR ? "error: " : "data loss: ");
    hw_strbuf_add_escaped(out, name.p, name.n);
    hw_strbuf_addf(out, " = %llu", (unsigned long long)l->count);
    if (l->upid.v < p->processes.n) {
        hw_strbuf_adds(out, " in ");
        put_process(out, p, l->upid);
    }
    if (l->place >= 0)
        hw_strbuf_addf(out, ", %s byte %lld", l->count == 1 ? "at" : "from", (long long)l->place);
    hw_strbuf_adds(out, "; `heapwise stats` lists all");
}

static void put_samples(struct hw_strbuf *out, const struct hw_profile *p, const struct hw_loss *l)
{
    struct hw_bytes reason = hw_strings_get(strings_of(p), l->detail);
    if (reason.n)
        hw_strbuf_add_escaped(out, reason.p, reason.n);
    else
        hw_strbuf_adds(out, "lost");
    hw_strbuf_addf(out, ": %llu samples lost in ", (unsigned long long)l->count);
    put_process(out, p, l->upid);
    hw_strbuf_adds(out, "; try a larger --shmem-size or interval");
}

static void put_refusal(struct hw_strbuf *out, const struct hw_profile *p, const struct hw_loss *l)
{
    struct hw_bytes reason = hw_strings_get(strings_of(p), l->detail);
    hw_strbuf_adds(out, "refused: ");
    hw_strbuf_add_escaped(out, reason.p, reason.n);
}

void hw_loss_text(struct hw_strbuf *out, const struct hw_profile *p, const struct hw_loss *l)
{
    static const struct {
        const char *before, *after;
    } text[HW_LOSS_KIND_COUNT] = {
        [HW_LOSS_OVERRAN] = {"buffer overrun: the profile of ",
                             " ended early; try a larger --shmem-size or interval, or "
                             "--block-client"},
        [HW_LOSS_CORRUPTED] = {"buffer corrupted: the profile of ",
                               " ended early and may be wrong; the program overwrote the "
                               "profiler's memory, or this is our bug"},
        [HW_LOSS_REJECTED] = {"rejected: ", " is profiled by another session; end that one first"},
        [HW_LOSS_GUARDRAIL] = {"guardrail: the profiler stopped itself in ",
                               "; raise its memory or CPU limit, or the interval"},
        [HW_LOSS_TIMEOUT] = {"timeout: the profile of ",
                             " ended early because the recorder did not answer; try a larger "
                             "--shmem-size"},
        [HW_LOSS_STACK] = {"stack: the profile of ",
                           " ended early: a thread ran on a stack with unknown bounds"},
    };
    char size[HW_UNIT_MAX];
    switch (l->kind) {
    case HW_LOSS_SAMPLES:
        put_samples(out, p, l);
        return;
    case HW_LOSS_UNWINDING:
        hw_strbuf_addf(out, "stacks: %llu sample%s of ", (unsigned long long)l->count,
                       l->count == 1 ? "" : "s");
        put_process(out, p, l->upid);
        hw_strbuf_addf(out, " %s a callstack that is cut short; the bytes are counted all the same",
                       l->count == 1 ? "has" : "have");
        return;
    case HW_LOSS_INTERVAL:
        hw_strbuf_adds(out, "precision: the sampling interval of ");
        put_process(out, p, l->upid);
        hw_strbuf_addf(out, " was raised to %s to keep up; try a larger --shmem-size",
                       hw_fmt_bytes_exact(size, l->count));
        return;
    case HW_LOSS_STAT:
        put_stat(out, p, l);
        return;
    case HW_LOSS_REJECTED:
        if (l->detail.v) {
            put_refusal(out, p, l);
            return;
        }
        hw_strbuf_adds(out, text[l->kind].before);
        put_process(out, p, l->upid);
        hw_strbuf_adds(out, text[l->kind].after);
        return;
    case HW_LOSS_OVERRAN:
    case HW_LOSS_CORRUPTED:
    case HW_LOSS_GUARDRAIL:
    case HW_LOSS_TIMEOUT:
    case HW_LOSS_STACK:
        hw_strbuf_adds(out, text[l->kind].before);
        put_process(out, p, l->upid);
        hw_strbuf_adds(out, text[l->kind].after);
        return;
    case HW_LOSS_KIND_COUNT:
        break;
    }
}

const char *hw_loss_word(const struct hw_profile *p, const struct hw_loss *l)
{
    static const char *const word[HW_LOSS_KIND_COUNT] = {
        [HW_LOSS_SAMPLES] = "samples_lost",       [HW_LOSS_OVERRAN] = "buffer_overran",
        [HW_LOSS_CORRUPTED] = "buffer_corrupted", [HW_LOSS_REJECTED] = "rejected_concurrent",
        [HW_LOSS_GUARDRAIL] = "hit_guardrail",    [HW_LOSS_TIMEOUT] = "client_timeout",
        [HW_LOSS_STACK] = "invalid_stack_bounds", [HW_LOSS_UNWINDING] = "unwinding_errors",
        [HW_LOSS_INTERVAL] = "interval_raised",
    };
    if (l->kind == HW_LOSS_STAT)
        return hw_strings_cstr(strings_of(p), l->detail);
    return l->kind < HW_LOSS_KIND_COUNT ? word[l->kind] : "?";
}

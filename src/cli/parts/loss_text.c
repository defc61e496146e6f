#include "cli/parts/loss_text.h"
#include "base/text/plural.h"

#include <ctype.h>
#include <string.h>

#include "config/command/units.h"
#include "sql/sql.h"

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

static bool put_missed(struct hw_strbuf *out, struct hw_bytes name, uint64_t n)
{
    if (!hw_bytes_equal(name, hw_bytes_str("heapprofd_missed_processes")))
        return false;
    hw_strbuf_addf(out,
                   "processes: %llu forked %s not recorded: %s, or the recording did, before the "
                   "recorder could answer; what %s allocated is missing",
                   (unsigned long long)n, n == 1 ? "process was" : "processes were",
                   n == 1 ? "it ended" : "they ended", n == 1 ? "it" : "they");
    return true;
}

/* The text for a file that was truncated, by a copy or while being written. */
static bool put_cut_off(struct hw_strbuf *out, struct hw_bytes name)
{
    if (!hw_bytes_equal(name, hw_bytes_str("trace_truncated")))
        return false;
    hw_strbuf_adds(out, "cut off: the file ends in the middle of a packet, and the rest is "
                        "missing; copy it again, or read it when its recording has ended");
    return true;
}

/* "Bytes that could not be read. Keyed by pid." -> "bytes that could not be read" */
static void put_meaning(struct hw_strbuf *out, const char *meaning)
{
    const char *keyed = strstr(meaning, " Keyed by ");
    size_t n = keyed ? (size_t)(keyed - meaning) : strlen(meaning);
    while (n && meaning[n - 1] == '.')
        n--;
    bool is_word = n > 1 && (meaning[1] == ' ' || islower((unsigned char)meaning[1]));
    hw_strbuf_addc(out, is_word ? (char)tolower((unsigned char)meaning[0]) : meaning[0]);
    hw_strbuf_add(out, meaning + 1, n - 1);
}

static void put_stat(struct hw_strbuf *out, const struct hw_profile *p, const struct hw_loss *l)
{
    struct hw_bytes name = hw_strings_get(strings_of(p), l->detail);
    const char *meaning = hw_sql_stat_meaning(hw_strings_cstr(strings_of(p), l->detail));
    if (put_missed(out, name, l->count) || put_cut_off(out, name))
        return;
    hw_strbuf_adds(out, l->severity == HW_STAT_ERROR ? "error: " : "data loss: ");
    if (meaning[0])
        put_meaning(out, meaning);
    hw_strbuf_adds(out, meaning[0] ? " (" : "");
    hw_strbuf_add_escaped(out, name.p, name.n);
    hw_strbuf_addf(out, " = %llu%s", (unsigned long long)l->count, meaning[0] ? ")" : "");
    if (l->upid.v < p->processes.n) {
        hw_strbuf_adds(out, " in ");
        put_process(out, p, l->upid);
    }
    if (l->place >= 0)
        hw_strbuf_addf(out, ", %s byte %lld", l->count == 1 ? "at" : "from", (long long)l->place);
    hw_strbuf_adds(out, "; `heapwise stats` lists all");
}

/* A larger buffer takes the recorder longer to set up: more would be late. */
static const char *samples_remedy(struct hw_bytes reason)
{
    return hw_bytes_equal(reason, hw_bytes_str(HW_LOST_LATE))
               ? "record again with a larger interval (-i 64K), which leaves the recorder time to "
                 "answer new processes; a larger buffer does not help"
               : "record again with a larger buffer (--shmem-size 64M) or fewer samples (-i 64K)";
}

static void put_samples(struct hw_strbuf *out, const struct hw_profile *p, const struct hw_loss *l)
{
    struct hw_bytes reason = hw_strings_get(strings_of(p), l->detail);
    if (reason.n)
        hw_strbuf_add_escaped(out, reason.p, reason.n);
    else
        hw_strbuf_adds(out, "lost");
    hw_strbuf_addf(out, ": %llu sample%s lost in ", (unsigned long long)l->count,
                   hw_plural(l->count));
    put_process(out, p, l->upid);
    hw_strbuf_addf(out, "; %s", samples_remedy(reason));
}

void hw_losses_sum_text(struct hw_strbuf *out, const struct hw_profile *p,
                        const struct hw_losses_sum *sum)
{
    struct hw_bytes reason = hw_strings_get(strings_of(p), sum->most.detail);
    size_t n = sum->upids.n;
    if (sum->most.count == 0) {
        hw_strbuf_addf(out,
                       "the profile%s of %zu other process%s %s incomplete; `heapwise stats` "
                       "says why",
                       hw_plural(n), n, n == 1 ? "" : "es", n == 1 ? "is" : "are");
        return;
    }
    hw_strbuf_addf(out, "%llu sample%s lost in %zu other process%s, most in ",
                   (unsigned long long)sum->n_samples, hw_plural(sum->n_samples), n,
                   n == 1 ? "" : "es");
    put_process(out, p, sum->most.upid);
    if (reason.n) {
        hw_strbuf_adds(out, " (");
        hw_strbuf_add_escaped(out, reason.p, reason.n);
        hw_strbuf_adds(out, ")");
    }
    hw_strbuf_addf(out, "; `heapwise stats` lists all; %s", samples_remedy(reason));
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
        [HW_LOSS_OVERRAN] =
            {"buffer overrun: the profile of ",
             " ended early: it allocated faster than the recorder read; record again with "
             "--shmem-size 64M, -i 64K or --block-client"},
        [HW_LOSS_CORRUPTED] = {"buffer corrupted: the profile of ",
                               " ended early and may be wrong; the program overwrote the "
                               "profiler's memory, or this is our bug"},
        [HW_LOSS_REJECTED] = {"rejected: ", " is profiled by another session; end that one first"},
        [HW_LOSS_GUARDRAIL] = {"guardrail: the profile of ",
                               " ended early: it reached its limit of memory or CPU time "
                               "(max_heapprofd_memory_kb, max_heapprofd_cpu_secs); raise that, "
                               "or record with fewer samples (-i 64K)"},
        [HW_LOSS_TIMEOUT] =
            {"timeout: the profile of ",
             " ended early: its buffer was full and the recorder did not make room in "
             "time; record again with --shmem-size 64M, or with "
             "--block-client-timeout 0 to wait for it"},
        [HW_LOSS_STACK] =
            {"stack: the profile of ",
             " ended early: a thread ran on a stack with unknown bounds, which coroutines "
             "and JITs do; what was recorded before is right"},
    };
    char size[HW_UNIT_MAX];
    switch (l->kind) {
    case HW_LOSS_SAMPLES:
        put_samples(out, p, l);
        return;
    case HW_LOSS_UNWINDING:
        hw_strbuf_addf(out, "stacks: %llu sample%s of ", (unsigned long long)l->count,
                       hw_plural(l->count));
        put_process(out, p, l->upid);
        hw_strbuf_addf(out,
                       " %s a callstack that is cut short, at code that cannot be unwound; the "
                       "bytes are counted all the same (heapwise explain cut-stacks)",
                       l->count == 1 ? "has" : "have");
        return;
    case HW_LOSS_INTERVAL:
        hw_strbuf_adds(out, "precision: the sampling interval of ");
        put_process(out, p, l->upid);
        hw_strbuf_addf(out,
                       " was raised to %s because the recorder could not keep up; figures are less "
                       "sure, none is missing; with --shmem-size 64M it may stay",
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

/*
 * heaptrack's data format (described in import/heaptrack_reader.c), so that its viewers open our profiles.
 * heaptrack records single allocations, we have sums: a callstack's bytes are split among as many
 * allocations as it made, in two adjacent sizes that add up to exactly the sum. heaptrack counts a
 * free right after its own allocation as temporary, which we do not know: allocations and frees are
 * interleaved, and where there is nothing to interleave, the free of an empty allocation separates
 * the two. That one has number 0 and is never allocated: a free of 0 that follows another free
 * would count as temporary, too. The order of the events:
 *
 *     freed before the peak | live at the peak | of these, freed after it |
 *     allocated and freed after the peak | allocated after it and live at the end
 *
 * Without a known peak the dump is the peak, and nothing follows it.
 *
 * Above MAX_EVENTS allocations one event stands for several (a comment in the file says how many):
 * bytes stay exact, counts are rounded.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text/strings.h"
#include "export/export.h"

#include "base/banned.h"

enum { MAX_EVENTS = 20000000 };

struct job {
    const struct hw_export_input *in;
    const struct hw_callsites *cs;
    FILE *out;
    struct hw_strings *strings; /* of the file; their number is the id, as id 0 is "" */
    uint32_t n_strings;         /* written */
    uint32_t *frame_number;     /* by frame; 0 = not written */
    uint32_t *trace_number;     /* by callsite; 0 = not written */
    uint32_t n_frames, n_traces;
    uint64_t n_allocations;
    uint64_t scale;             /* allocations that one line stands for */
    uint64_t pending;           /* an allocation whose free is still to be written; 0 = none */
    uint64_t last_made;         /* the last line's allocation, if that was a '+'; 0 = none */
    struct hw_value *peak;      /* by callsite; NULL = none known */
    uint64_t *freed_after_peak; /* by callsite: the first allocation of that part */
    struct hw_strbuf label;
};

/* The string's number in the file; writes it when it is new. 0 = none. */
static int string_number(struct job *j, struct hw_bytes text, uint32_t *out)
{
    hw_str_id id = {0};
    int rc = text.n ? hw_strings_intern(j->strings, text, &id) : HW_OK;
    *out = id.v;
    if (rc < 0 || id.v <= j->n_strings)
        return rc;
    j->n_strings = id.v;
    fprintf(j->out, "s %zx ", text.n);
    for (size_t i = 0; i < text.n; i++)
        fputc(text.p[i] == '\n' || text.p[i] == '\r' ? ' ' : text.p[i], j->out);
    fputc('\n', j->out);
    return HW_OK;
}

static struct hw_bytes model_str(const struct job *j, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(j->in->profile->callsites), id);
}

/* ---- frames ---- */

struct triple {
    uint32_t function, file, line;
};

static int label(struct job *j, const struct hw_frame *f, hw_str_id name, uint32_t *out)
{
    struct hw_function fn = {.name = name};
    if (f->mapping.v != HW_ID_NONE)
        fn.module = hw_callsites_get_mapping(j->cs, f->mapping)->path;
    hw_strbuf_clear(&j->label);
    hw_function_label(&j->label, j->cs, &fn, j->in->namer);
    return j->label.failed ? HW_ENOMEM : string_number(j, hw_bytes_of(j->label.p, j->label.n), out);
}

/* Strings are written before the line that uses them. */
static int put_frame(struct job *j, hw_frame_id id)
{
    enum { MAX_LINES = 64 };
    const struct hw_frame *f = hw_callsites_get_frame(j->cs, id);
    const struct hw_symbol_sets *sets = hw_callsites_get_symbol_sets(j->cs);
    const struct hw_symbol_line *lines;
    struct triple triples[MAX_LINES];
    uint32_t module = 0;
    size_t n = hw_symbol_sets_get(sets, id, &lines);
    int rc = HW_OK;
    n = n < MAX_LINES ? n : MAX_LINES;
    if (f->mapping.v != HW_ID_NONE)
        rc = string_number(j, model_str(j, hw_callsites_get_mapping(j->cs, f->mapping)->path),
                           &module);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        triples[i] = (struct triple){.line = lines[i].line};
        rc = label(j, f, lines[i].function, &triples[i].function);
        if (rc == HW_OK)
            rc = string_number(j, model_str(j, lines[i].file), &triples[i].file);
    }
    hw_str_id clear = hw_symbol_sets_get_deobfuscated(sets, id);
    hw_str_id name = clear.v ? clear : f->name;
    if (rc == HW_OK && n == 0 && name.v) {
        triples[0] = (struct triple){0};
        rc = label(j, f, name, &triples[0].function);
        n = 1;
    }
    if (rc < 0)
        return rc;
    fprintf(j->out, "i %" PRIx64 " %" PRIx32, f->rel_pc, module);
    for (size_t i = 0; i < n; i++)
        fprintf(j->out, " %" PRIx32 " %" PRIx32 " %" PRIx32, triples[i].function, triples[i].file,
                triples[i].line);
    fputc('\n', j->out);
    j->frame_number[id.v] = ++j->n_frames;
    return HW_OK;
}

/* Writes the callers that are still missing, root first, then the callsite. */
static int put_trace(struct job *j, hw_callsite_id leaf)
{
    hw_callsite_id missing[HW_MAX_CALLSITE_DEPTH];
    size_t n = 0;
    int rc = HW_OK;
    for (hw_callsite_id c = leaf;
         c.v != HW_ID_NONE && !j->trace_number[c.v] && n < HW_MAX_CALLSITE_DEPTH;
         c = hw_callsites_get(j->cs, c)->parent)
        missing[n++] = c;
    while (rc == HW_OK && n-- > 0) {
        const struct hw_callsite *c = hw_callsites_get(j->cs, missing[n]);
        if (!j->frame_number[c->frame.v])
            rc = put_frame(j, c->frame);
        if (rc == HW_OK) {
            fprintf(j->out, "t %" PRIx32 " %" PRIx32 "\n", j->frame_number[c->frame.v],
                    c->parent.v == HW_ID_NONE ? 0 : j->trace_number[c->parent.v]);
            j->trace_number[missing[n].v] = ++j->n_traces;
        }
    }
    return rc;
}

/* ---- allocations ---- */

static void put_free(struct job *j, uint64_t allocation)
{
    if (j->last_made == allocation)
        fputs("- 0\n", j->out);
    fprintf(j->out, "- %" PRIx64 "\n", allocation);
    j->last_made = 0;
}

static void put_pending(struct job *j)
{
    if (j->pending)
        put_free(j, j->pending);
    j->pending = 0;
}

static void put_alloc(struct job *j, uint64_t allocation, bool freed)
{
    fprintf(j->out, "+ %" PRIx64 "\n", allocation);
    j->last_made = allocation;
    if (!freed)
        return;
    put_pending(j);
    j->pending = allocation;
}

/* Allocations of one callstack. */
struct part {
    int64_t count, bytes;
};

/* The allocations of a callstack, split by when they were made and freed. */
struct parts {
    struct part freed;            /* before the peak */
    struct part freed_after_peak; /* live at the peak, not at the end */
    struct part kept;             /* live at both */
    struct part late;             /* made and freed after the peak */
    struct part added;            /* made after the peak, live */
};

static struct part subtract(struct part a, struct part b)
{
    return (struct part){hw_sat_sub(a.count, b.count), hw_sat_sub(a.bytes, b.bytes)};
}

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The sums do not say which allocations were freed after the peak: as many as possible are taken
 * from those live at the peak. */
static struct parts parts_of(const struct job *j, const struct hw_callsite_value *cv)
{
    struct hw_value end = hw_export_value(j->in, &cv->v), peak = end;
    if (j->peak)
        peak = hw_export_value(j->in, &j->peak[cv->callsite.v]);
    struct part live = {end.objects, end.space}, peak_live = {peak.objects, peak.space};
    struct part freed = subtract((struct part){end.alloc_objects, end.alloc_space}, live);
    struct parts p = {.freed =
                          subtract((struct part){peak.alloc_objects, peak.alloc_space}, peak_live)};
    struct part after = subtract(freed, p.freed);
    p.freed_after_peak.bytes = min_i64(after.bytes, peak_live.bytes);
    p.freed_after_peak.count =
        min_i64(after.count - (after.bytes > p.freed_after_peak.bytes),
                peak_live.count - (peak_live.bytes > p.freed_after_peak.bytes));
    if (p.freed_after_peak.count < (p.freed_after_peak.bytes > 0))
        p.freed_after_peak.count = p.freed_after_peak.bytes > 0; /* bytes need an allocation */
    p.kept = subtract(peak_live, p.freed_after_peak);
    p.late = subtract(after, p.freed_after_peak);
    p.added = subtract(live, p.kept);
    return p;
}

static bool is_none(struct part p)
{
    return p.bytes <= 0 && p.count <= 0;
}

/* Calls put for each of the part's n allocations: r of size q + 1, the others of size q. `first` is
 * the first of four numbers: two of each size, so that frees can be interleaved. */
static void for_each_allocation(struct job *j, struct part part, uint64_t first,
                                void (*put)(struct job *, uint64_t allocation))
{
    uint64_t n = part.count > 0 ? (uint64_t)part.count / j->scale : 0;
    n = n ? n : 1;
    uint64_t r = (part.bytes > 0 ? (uint64_t)part.bytes : 0) % n;
    for (uint64_t i = 0; i < n; i++)
        put(j, first + (i & 1) + (i < r ? 2 : 0));
}

static void put_freed(struct job *j, uint64_t allocation)
{
    put_alloc(j, allocation, /* freed = */ true);
}

static void put_live(struct job *j, uint64_t allocation)
{
    put_alloc(j, allocation, /* freed = */ false);
    put_pending(j);
}

/* Returns the first of the part's four allocation numbers. */
static uint64_t put_part(struct job *j, uint32_t trace, struct part part,
                         void (*put)(struct job *, uint64_t allocation))
{
    uint64_t n = part.count > 0 ? (uint64_t)part.count / j->scale : 0;
    if (is_none(part))
        return 0;
    if (j->n_allocations == 0)
        fprintf(j->out, "a 0 %" PRIx32 "\n", trace);
    uint64_t first = j->n_allocations += j->n_allocations == 0;
    uint64_t q = (part.bytes > 0 ? (uint64_t)part.bytes : 0) / (n ? n : 1);
    for (int i = 0; i < 4; i++)
        fprintf(j->out, "a %" PRIx64 " %" PRIx32 "\n", q + (i >= 2), trace);
    j->n_allocations += 4;
    for_each_allocation(j, part, first, put);
    return first;
}

/* ALLOC_FREED_AFTER and FREE_AFTER: the part that is live at the peak, but not at the end. */
enum step { FREED, ALLOC_FREED_AFTER, KEPT, FREE_AFTER, LATE, ADDED, N_STEPS };

static int put_step(struct job *j, const struct hw_callsite_value *cv, enum step step)
{
    struct parts p = parts_of(j, cv);
    int rc = put_trace(j, cv->callsite);
    uint32_t trace = j->trace_number[cv->callsite.v];
    if (rc < 0)
        return rc;
    switch (step) {
    case FREED:
        (void)put_part(j, trace, p.freed, put_freed);
        break;
    case ALLOC_FREED_AFTER:
        j->freed_after_peak[cv->callsite.v] = put_part(j, trace, p.freed_after_peak, put_live);
        break;
    case KEPT:
        (void)put_part(j, trace, p.kept, put_live);
        break;
    case FREE_AFTER:
        if (!is_none(p.freed_after_peak))
            for_each_allocation(j, p.freed_after_peak, j->freed_after_peak[cv->callsite.v],
                                put_free);
        break;
    case LATE:
        (void)put_part(j, trace, p.late, put_freed);
        break;
    case ADDED:
        (void)put_part(j, trace, p.added, put_live);
        break;
    case N_STEPS:
        break;
    }
    return HW_OK;
}

static void put_time(struct job *j, int64_t ts_ns)
{
    int64_t run = hw_sat_sub(ts_ns, j->in->profile->first_ns);
    fprintf(j->out, "c %" PRIx64 "\n", run > 0 ? (uint64_t)run / 1000000 : 0);
}

static int put_values(struct job *j)
{
    const hw_values *values = j->in->values;
    uint64_t total = 0;
    int rc = HW_OK;
    for (size_t i = 0; i < values->n; i++) {
        struct hw_value v = hw_export_value(j->in, &values->v[i].v);
        total +=
            v.alloc_objects > 0 ? (uint64_t)v.alloc_objects / 2 : 0; /* no overflow in practice */
    }
    j->scale = total / (MAX_EVENTS / 2) + 1;
    if (j->scale > 1)
        fprintf(j->out, "# an allocation here stands for %" PRIu64 "\n", j->scale);
    for (enum step step = FREED; step < N_STEPS; step++) {
        if (step == ALLOC_FREED_AFTER && j->peak)
            put_time(j, j->in->peak_ts_ns);
        for (size_t i = 0; rc == HW_OK && i < values->n; i++)
            rc = put_step(j, &values->v[i], step);
    }
    put_pending(j);
    return rc;
}

static void put_head(struct job *j)
{
    const struct hw_process *process = &j->in->profile->processes.v[j->in->upid.v];
    struct hw_bytes command = model_str(j, process->cmdline.v ? process->cmdline : process->name);
    fputs("v 10400 3\nX ", j->out);
    for (size_t i = 0; i < command.n; i++)
        fputc(command.p[i] < 0x20 ? ' ' : command.p[i], j->out);
    fputs("\nI 1000 0\n", j->out);
}

static int copy_peak(struct job *j)
{
    size_t n = hw_callsites_count(j->cs) + 1;
    if (!j->in->peak)
        return HW_OK;
    j->peak = calloc(n, sizeof *j->peak);
    for (size_t i = 0; j->peak && i < j->in->peak->n; i++)
        j->peak[j->in->peak->v[i].callsite.v] = j->in->peak->v[i].v;
    return j->peak ? HW_OK : HW_ENOMEM;
}

static int heaptrack_write(const struct hw_export_input *in, FILE *out, struct hw_error *err)
{
    struct job j = {.in = in, .cs = in->profile->callsites, .out = out};
    j.frame_number = calloc(hw_callsites_n_frames(j.cs) + 1, sizeof *j.frame_number);
    j.trace_number = calloc(hw_callsites_count(j.cs) + 1, sizeof *j.trace_number);
    j.freed_after_peak = calloc(hw_callsites_count(j.cs) + 1, sizeof *j.freed_after_peak);
    int rc = j.frame_number && j.trace_number && j.freed_after_peak ? copy_peak(&j) : HW_ENOMEM;
    if (rc == HW_OK)
        rc = hw_strings_new(&j.strings);
    if (rc == HW_OK) {
        put_head(&j);
        rc = put_values(&j);
        put_time(&j, in->ts_ns);
    }
    hw_strings_free(j.strings);
    free(j.frame_number);
    free(j.trace_number);
    free(j.freed_after_peak);
    free(j.peak);
    hw_strbuf_done(&j.label);
    return rc < 0 ? hw_fail(err, rc, 0, "heaptrack data:") : hw_export_finish(out, err);
}

const struct hw_exporter hw_export_heaptrack = {
    .name = "heaptrack",
    .summary = "heaptrack's data: heaptrack_print, heaptrack_gui",
    .extension = ".heaptrack",
    .write = heaptrack_write,
};

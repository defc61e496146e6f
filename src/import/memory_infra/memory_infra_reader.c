/*
 * Events come one at a time (json_events.h); those that are neither memory dumps nor slices nor
 * metadata are skipped without being parsed. A global dump consists of all events with its id,
 * wherever they are in the file; its time is their earliest.
 */
#include "import/memory_infra/memory_infra_reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/progress.h"
#include "base/text/hex.h"
#include "codec/source.h"
#include "import/memory_infra/json_events.h"
#include "import/memory_infra/json_numbers.h"
#include "import/memory_infra/memory_infra_parts.h"

#include "base/banned.h"

enum { MAX_WITH_OFFSET = 64, PROGRESS_EVERY = 1024 };

static int count_bad(struct hw_infra *in, const char *stat, size_t n)
{
    bool with_offset = in->n_with_offset < MAX_WITH_OFFSET;
    in->n_with_offset += with_offset;
    return hw_profile_stat_add(in->p, stat, with_offset ? (int64_t)in->offset : -1, HW_STAT_ERROR,
                               (int64_t)n);
}

int hw_infra_bad(struct hw_infra *in, const char *stat)
{
    return count_bad(in, stat, 1);
}

void hw_infra_time(struct hw_infra *in, int64_t ts_ns)
{
    if (!in->has_time || ts_ns < in->p->first_ns)
        in->p->first_ns = ts_ns;
    if (!in->has_time || ts_ns > in->p->last_ns)
        in->p->last_ns = ts_ns;
    in->has_time = true;
}

int hw_infra_str(struct hw_infra *in, const json_t *text, hw_str_id *out)
{
    return hw_profile_str(in->p, hw_bytes_of(json_string_value(text), json_string_length(text)),
                          out);
}

static int64_t rounded(double d)
{
    return (int64_t)(d < 0 ? d - 0.5 : d + 0.5);
}

bool hw_infra_hex_digits(struct hw_bytes text, uint64_t *out)
{
    uint64_t value = 0;
    size_t i = text.n > 2 && text.p[0] == '0' && (text.p[1] | 0x20) == 'x' ? 2 : 0;
    if (text.n == 0)
        return false;
    for (; i < text.n; i++) {
        int digit = hw_hex_digit((char)text.p[i]);
        if (digit < 0 || value >> 60)
            return false;
        value = value << 4 | (unsigned)digit;
    }
    *out = value;
    return true;
}

bool hw_infra_hex(const json_t *text, uint64_t *out)
{
    return json_is_string(text) &&
           hw_infra_hex_digits(hw_bytes_of(json_string_value(text), json_string_length(text)), out);
}

bool hw_infra_number(const struct hw_json_value *v, int64_t *out)
{
    static const double limit = 4611686018427387904.0; /* sums of two must fit */
    double d = hw_json_value_real(v);
    if ((v->type != HW_JSON_INTEGER && v->type != HW_JSON_REAL) || !(d >= 0 && d < limit))
        return false;
    *out = v->type == HW_JSON_INTEGER ? v->integer : rounded(d);
    return true;
}

/* ---- dumps ---- */

static int64_t time_of(const json_t *event)
{
    double us = json_number_value(json_object_get(event, "ts"));
    return us > -9e15 && us < 9e15 ? rounded(us * 1000) : 0;
}

/* The first time from *ts on that no dump has. Each used time points to the next that may be free,
 * so that 100,000 dumps of one time do not need a linear search each. */
static int free_time(struct hw_infra *in, int64_t *ts)
{
    uint64_t *at, next = (uint64_t)*ts, one = next;
    bool fresh;
    while ((at = hw_map64_find(&in->free_time, next)))
        next = *at;
    while ((at = hw_map64_find(&in->free_time, one))) {
        one = *at;
        *at = next + 1;
    }
    int rc = hw_map64_at(&in->free_time, next, &at, &fresh);
    if (rc == HW_OK) {
        *at = next + 1;
        *ts = (int64_t)next;
    }
    return rc;
}

/* Two dumps never share a time, so that the model keeps them apart. */
static int new_dump(struct hw_infra *in, int64_t ts, enum hw_memory_detail detail,
                    struct hw_infra_dump *out)
{
    int64_t earliest_ns = ts;
    int rc = free_time(in, &ts);
    *out = (struct hw_infra_dump){.ts_ns = ts, .earliest_ns = earliest_ns};
    return rc < 0 ? rc : hw_memory_snapshot(&in->p->memory, ts, detail, &out->snapshot);
}

static int dump_at(struct hw_infra *in, const json_t *id, int64_t ts, enum hw_memory_detail detail,
                   uint32_t *out)
{
    hw_str_id name;
    uint64_t *at;
    bool fresh;
    int rc = hw_infra_str(in, id, &name);
    if (rc == HW_OK && hw_vec_reserve(&in->dumps, in->dumps.n + 1) < 0)
        rc = HW_ENOMEM;
    if (rc == HW_OK)
        rc = hw_map64_at(&in->dump_of_id, name.v, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = in->dumps.n;
        rc = new_dump(in, ts, detail, &in->dumps.v[in->dumps.n]);
        if (rc < 0)
            return rc;
        in->dumps.n++;
    }
    *out = (uint32_t)*at;
    struct hw_infra_dump *d = &in->dumps.v[*at];
    struct hw_memory_snapshot *s = &in->p->memory.snapshots.v[d->snapshot];
    if (ts < d->earliest_ns) {
        d->earliest_ns = ts;
        if ((rc = free_time(in, &ts)) < 0)
            return rc;
        d->ts_ns = s->ts_ns = ts;
    }
    if (detail < s->detail)
        s->detail = detail;
    return HW_OK;
}

static enum hw_memory_detail detail_of(const json_t *dumps)
{
    const char *word = json_string_value(json_object_get(dumps, "level_of_detail"));
    if (!word)
        return json_object_get(dumps, "process_mmaps") ? HW_MEMORY_DETAILED : HW_MEMORY_LIGHT;
    if (strcmp(word, "background") == 0)
        return HW_MEMORY_BACKGROUND;
    return strcmp(word, "light") == 0 ? HW_MEMORY_LIGHT : HW_MEMORY_DETAILED;
}

/* Is this the process's first such part in this dump? */
static int first_of(struct hw_infra *in, uint32_t dump, hw_upid upid, enum hw_infra_part part,
                    bool is_present, bool *out)
{
    uint64_t *at;
    bool fresh;
    *out = false;
    if (!is_present)
        return HW_OK;
    int rc = hw_map64_at(&in->parts_seen, (uint64_t)dump << 32 | upid.v, &at, &fresh);
    if (rc < 0)
        return rc;
    *out = !(*at & part);
    *at |= part;
    return *out ? HW_OK : hw_infra_bad(in, "memory_infra_repeated_part");
}

/* Heap dumps are not in what jansson parsed: see rest_of. */
static int add_heaps(struct hw_infra *in, uint32_t dump, hw_upid upid)
{
    const struct hw_json_text *t = &in->text;
    uint32_t args = hw_json_text_find(t, 0, "args");
    uint32_t dumps = args ? hw_json_text_find(t, args, "dumps") : 0;
    uint32_t v1 = dumps ? hw_json_text_find(t, dumps, "heaps") : 0;
    uint32_t heaps = v1 ? v1 : dumps ? hw_json_text_find(t, dumps, "heaps_v2") : 0;
    bool first;
    if (!heaps)
        return HW_OK;
    int rc = first_of(in, dump, upid, HW_INFRA_HEAPS,
                      hw_json_text_get(t, heaps).type != HW_JSON_NULL, &first);
    if (rc < 0 || !first)
        return rc;
    return v1 ? hw_infra_heaps_v1(in, dump, upid, v1) : hw_infra_heaps_v2(in, dump, upid, heaps);
}

static bool is_there(const json_t *value)
{
    return value && !json_is_null(value);
}

static int add_dump_event(struct hw_infra *in, const json_t *event, hw_upid upid)
{
    const json_t *id = json_object_get(event, "id");
    const json_t *dumps = json_object_get(json_object_get(event, "args"), "dumps");
    int64_t ts = time_of(event);
    uint32_t dump;
    bool first;
    if (!json_is_string(id) || !json_is_object(dumps))
        return hw_infra_bad(in, "memory_infra_bad_dump");
    int rc = dump_at(in, id, ts, detail_of(dumps), &dump);
    if (rc < 0)
        return rc;
    uint32_t snapshot = in->dumps.v[dump].snapshot, process;
    int64_t at = in->dumps.v[dump].ts_ns;
    /* A process with only totals or mappings is in the dump, too. */
    rc = hw_memory_process(&in->p->memory, snapshot, upid, &process);
    if (rc == HW_OK)
        rc = hw_infra_allocators(in, process, json_object_get(dumps, "allocators"));
    if (rc == HW_OK)
        rc = hw_infra_graph(in, snapshot, json_object_get(dumps, "allocators_graph"));
    const json_t *totals = json_object_get(dumps, "process_totals");
    if (rc == HW_OK)
        rc = first_of(in, dump, upid, HW_INFRA_TOTALS, is_there(totals), &first);
    if (rc == HW_OK && first)
        rc = hw_infra_totals(in, at, upid, totals);
    const json_t *mmaps = json_object_get(dumps, "process_mmaps");
    if (rc == HW_OK)
        rc = first_of(in, dump, upid, HW_INFRA_MMAPS, is_there(mmaps), &first);
    if (rc == HW_OK && first)
        rc = hw_infra_mmaps(in, at, upid, mmaps);
    return rc < 0 ? rc : add_heaps(in, dump, upid);
}

/* ---- metadata ---- */

static int add_metadata_event(struct hw_infra *in, const json_t *event, hw_upid upid)
{
    const char *name = json_string_value(json_object_get(event, "name"));
    const json_t *args = json_object_get(event, "args");
    const json_t *text = json_object_get(args, "name");
    struct hw_process *process = &in->p->processes.v[upid.v];
    hw_str_id id;
    if (!name || !json_is_object(args))
        return hw_infra_bad(in, "memory_infra_bad_metadata");
    uint32_t args_at = hw_json_text_find(&in->text, 0, "args");
    uint32_t map = args_at ? hw_json_text_find(&in->text, args_at, name) : 0;
    if (map && strcmp(name, "stackFrames") == 0)
        return hw_infra_stack_frames(in, upid, map);
    if (map && strcmp(name, "typeNames") == 0)
        return hw_infra_type_names(in, upid, map);
    if (strcmp(name, "process_labels") == 0)
        text = json_object_get(args, "labels");
    if (!json_is_string(text))
        return HW_OK;
    int rc = hw_infra_str(in, text, &id);
    if (rc < 0)
        return rc;
    if (strcmp(name, "process_name") == 0)
        process->name = process->cmdline = id;
    else if (strcmp(name, "process_labels") == 0)
        process->labels = id;
    else if (strcmp(name, "thread_name") == 0) {
        json_int_t tid = json_integer_value(json_object_get(event, "tid"));
        if (tid > 0 && tid <= INT32_MAX)
            rc = hw_profile_thread(in->p, upid, tid, id, NULL);
    }
    return rc;
}

static int add_file_metadata(struct hw_infra *in, const json_t *members)
{
    const char *key;
    json_t *value;
    int rc = HW_OK;
    json_object_foreach((json_t *)(uintptr_t)members, key, value)
    {
        if (rc == HW_OK && json_is_string(value))
            rc = hw_profile_metadata_set(in->p, key, json_string_value(value), 0);
    }
    return rc;
}

/* ---- the file ---- */

static int add_event(struct hw_infra *in, const json_t *event)
{
    const char *ph = json_string_value(json_object_get(event, "ph"));
    const json_t *pid = json_object_get(event, "pid");
    hw_upid upid;
    if (!ph)
        return hw_infra_bad(in, "memory_infra_bad_event");
    bool dump = strcmp(ph, "v") == 0 || strcmp(ph, "V") == 0;
    bool slice = ph[0] && strchr("BEX", ph[0]) && !ph[1];
    if (!dump && !slice && strcmp(ph, "M") != 0)
        return HW_OK;
    if (!json_is_integer(pid) || json_integer_value(pid) < 0)
        return hw_infra_bad(in, "memory_infra_bad_event");
    int rc = hw_profile_process(in->p, json_integer_value(pid), &upid);
    if (rc < 0)
        return rc;
    if (slice)
        return hw_infra_slice(in, event, upid, ph[0]);
    return dump ? add_dump_event(in, event, upid) : add_metadata_event(in, event, upid);
}

static bool is_wanted(const struct hw_json_event *e)
{
    return e->kind != HW_JSON_EVENT || e->ph == 0 || strchr("vVMBEX", e->ph);
}

static bool is_read_in_place(struct hw_bytes name)
{
    static const char *const names[] = {"heaps", "heaps_v2", "stackFrames", "typeNames"};
    for (size_t i = 0; i < HW_ARRAY_LEN(names); i++)
        if (hw_bytes_equal(name, hw_bytes_str(names[i])))
            return true;
    return false;
}

/* The event with null for its large parts: heap dumps and their names, two or three levels deep. */
static struct hw_bytes rest_of(struct hw_infra *in)
{
    const struct hw_json_text *t = &in->text;
    const struct hw_json_note *v = t->notes.v;
    uint32_t from = 0;
    hw_strbuf_clear(&in->rest);
    for (uint32_t args = v[0].first; args; args = v[args].next) {
        for (uint32_t i = v[args].first; i; i = v[i].next) {
            uint32_t k = is_read_in_place(hw_json_text_name(t, i)) ? i : v[i].first;
            for (; k; k = k == i ? 0 : v[k].next) {
                if (!is_read_in_place(hw_json_text_name(t, k)))
                    continue;
                hw_strbuf_add(&in->rest, t->text.p + from, v[k].at - from);
                hw_strbuf_adds(&in->rest, "null");
                from = v[k].at + v[k].n;
            }
        }
    }
    hw_strbuf_add(&in->rest, t->text.p + from, t->text.n - from);
    return hw_bytes_of(in->rest.p, in->rest.n);
}

static int read_json(struct hw_infra *in, enum hw_json_event_kind kind, struct hw_bytes text,
                     json_t **out)
{
    *out = NULL;
    if (kind == HW_JSON_EVENT) {
        int rc = hw_json_text_read(&in->text, text, HW_INFRA_NOTED_DEPTH);
        if (rc < 0)
            return rc == HW_ENOMEM ? rc : HW_OK;
        text = rest_of(in);
        if (in->rest.failed)
            return HW_ENOMEM;
    }
    *out = json_loadb((const char *)text.p, text.n, JSON_ALLOW_NUL, NULL);
    return HW_OK;
}

/* *out is NULL if it is not JSON even without the numbers that are too large to be read. */
static int read_event(struct hw_infra *in, const struct hw_json_event *e, json_t **out)
{
    *out = NULL;
    if (e->kind == HW_JSON_DAMAGED)
        return HW_OK;
    int rc = read_json(in, e->kind, e->text, out);
    if (rc < 0 || *out)
        return rc;
    hw_strbuf_clear(&in->repaired);
    hw_strbuf_add(&in->repaired, e->text.p, e->text.n);
    if (in->repaired.failed)
        return HW_ENOMEM;
    size_t n_dropped = hw_json_drop_huge(in->repaired.p, in->repaired.n);
    if (n_dropped == 0)
        return HW_OK;
    rc = read_json(in, e->kind, hw_bytes_of(in->repaired.p, in->repaired.n), out);
    return *out ? count_bad(in, "memory_infra_huge_number", n_dropped) : rc;
}

static int handle_event(struct hw_infra *in, struct hw_json_events *events,
                        const struct hw_json_event *e)
{
    json_t *value;
    in->offset = e->offset;
    int rc = read_event(in, e, &value);
    if (rc < 0) {
        json_decref(value);
        return rc;
    }
    if (!value) {
        rc = hw_infra_bad(in, "memory_infra_not_json");
        hw_json_events_retry(events);
    } else if (e->kind == HW_JSON_METADATA) {
        rc = add_file_metadata(in, value);
    } else {
        rc = add_event(in, value);
    }
    json_decref(value);
    return rc;
}

static void report_progress(const struct hw_profile *p, const struct hw_source *source)
{
    uint64_t at, size;
    if (p->progress && hw_source_tell(source, &at, &size))
        hw_progress_at(p->progress, at, size);
}

static int read_events(struct hw_infra *in, struct hw_source *source, struct hw_error *err)
{
    struct hw_json_events *events;
    struct hw_json_event e;
    bool any = false;
    unsigned n_events = 0;
    int rc = hw_json_events_new(source, &events);
    if (rc < 0)
        return hw_fail(err, rc, 0, "JSON trace:");
    while ((rc = hw_json_events_next(events, &e, err)) == 1) {
        if (n_events++ % PROGRESS_EVERY == 0)
            report_progress(in->p, source);
        any = true;
        if (is_wanted(&e) && (rc = handle_event(in, events, &e)) < 0) {
            (void)hw_fail(err, rc, e.offset, "event at byte %llu:", (unsigned long long)e.offset);
            break;
        }
    }
    hw_json_events_free(events);
    if ((rc == HW_EFORMAT || rc == HW_ETRUNCATED) &&
        any) /* damaged gzip: what was unpacked is kept */
        rc = hw_profile_stat_add(in->p, "trace_truncated", -1, HW_STAT_DATA_LOSS, 1);
    return rc;
}

static void add_dump_times(struct hw_infra *in)
{
    for (size_t i = 0; i < in->dumps.n; i++)
        hw_infra_time(in, in->dumps.v[i].ts_ns);
}

static int finish(struct hw_infra *in, struct hw_error *err)
{
    add_dump_times(in);
    int rc = hw_infra_heaps_finish(in);
    if (rc == HW_OK)
        rc = hw_memory_dumps_finish(in->p);
    if (rc == HW_OK && in->p->memory.n_bad)
        rc = hw_profile_stat_add(in->p, "memory_snapshot_parser_failure", -1, HW_STAT_ERROR,
                                 (int64_t)in->p->memory.n_bad);
    return rc < 0 ? hw_fail(err, rc, 0, "memory dumps:") : HW_OK;
}

static int read_from(struct hw_source *source, struct hw_profile *into, struct hw_error *err)
{
    struct hw_infra in = {.p = into};
    int rc = hw_infra_heaps_new(&in);
    if (rc < 0)
        return hw_fail(err, rc, 0, "memory dumps:");
    rc = read_events(&in, source, err);
    if (rc == HW_OK)
        rc = finish(&in, err);
    hw_infra_heaps_free(in.heaps);
    hw_json_text_done(&in.text);
    hw_strbuf_done(&in.rest);
    hw_strbuf_done(&in.repaired);
    hw_vec_done(&in.dumps);
    hw_map64_done(&in.dump_of_id);
    hw_map64_done(&in.parts_seen);
    hw_map64_done(&in.free_time);
    hw_map64_done(&in.owner_of_guid);
    return rc;
}

static int read_bytes(struct hw_bytes file, struct hw_profile *into, struct hw_error *err)
{
    struct hw_source source;
    int rc = hw_source_bytes(file, &source);
    if (rc < 0)
        return hw_fail(err, rc, 0, "JSON trace:");
    rc = read_from(&source, into, err);
    hw_source_done(&source);
    return rc;
}

static int read_fd(int fd, struct hw_profile *into, struct hw_error *err)
{
    struct hw_source source;
    int rc = hw_source_fd(fd, &source);
    if (rc < 0)
        return hw_fail(err, rc, 0, "JSON trace:");
    rc = read_from(&source, into, err);
    hw_source_done(&source);
    return rc;
}

static int probe(struct hw_bytes head)
{
    size_t i = head.n >= 3 && memcmp(head.p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (i < head.n && strchr(" \t\r\n", head.p[i]) && head.p[i])
        i++;
    if (i == head.n || (head.p[i] != '{' && head.p[i] != '['))
        return 0;
    if (head.p[i] == '{' && memmem(head.p, head.n, "\"traceEvents\"", 13))
        return 90;
    return memmem(head.p, head.n, "\"ph\"", 4) ? 60 : 0;
}

const struct hw_importer hw_import_memory_infra = {
    .name = "memory-infra",
    .summary = "Chrome's JSON trace with memory dumps and heap dumps",
    .probe = probe,
    .read = read_bytes,
    .read_fd = read_fd,
    .read_from = read_from,
};

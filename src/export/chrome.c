#include "export/chrome.h"

#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json_out.h"
#include "base/map64.h"
#include "model/profile.h"

#include "base/banned.h"

/* Live so far, by process and heap: rows are differences between dumps. */
struct live {
    int64_t bytes, objects;
};

struct chrome {
    const struct hw_profile *p;
    struct hw_json j;
    struct hw_map64 live_of; /* upid << 32 | heap name -> index into live */
    HW_VEC(struct live) live;
};

static struct hw_bytes text_of(const struct chrome *c, hw_str_id id)
{
    return hw_strings_get(hw_callsites_strings(c->p->callsites), id);
}

static void begin_event(struct chrome *c, const char *phase, hw_upid upid, struct hw_bytes name)
{
    hw_json_begin_object(&c->j);
    hw_json_key(&c->j, "ph");
    hw_json_str(&c->j, phase);
    hw_json_key(&c->j, "pid");
    hw_json_int(&c->j, c->p->processes.v[upid.v].pid);
    hw_json_key(&c->j, "tid");
    hw_json_int(&c->j, c->p->processes.v[upid.v].pid);
    hw_json_key(&c->j, "name");
    hw_json_strn(&c->j, name.p, name.n);
}

static void put_time(struct chrome *c, int64_t ts_ns)
{
    hw_json_key(&c->j, "ts");
    hw_json_double(&c->j, (double)ts_ns / 1000);
    hw_json_key(&c->j, "args");
    hw_json_begin_object(&c->j);
}

static void end_event(struct chrome *c)
{
    hw_json_end_object(&c->j);
    hw_json_end_object(&c->j);
}

static void put_processes(struct chrome *c)
{
    for (uint32_t i = 0; i < c->p->processes.n; i++) {
        struct hw_bytes name = text_of(c, c->p->processes.v[i].name);
        begin_event(c, "M", (hw_upid){i}, hw_bytes_str("process_name"));
        hw_json_key(&c->j, "args");
        hw_json_begin_object(&c->j);
        hw_json_key(&c->j, "name");
        hw_json_strn(&c->j, name.p, name.n);
        end_event(c);
    }
}

static int live_of(struct chrome *c, const struct hw_heap_dump *d, struct live **out)
{
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&c->live_of, (uint64_t)d->upid.v << 32 | d->heap_name.v, &at, &fresh);
    if (rc == HW_OK && fresh) {
        *at = c->live.n;
        if (hw_vec_push(&c->live, (struct live){0, 0}) < 0)
            rc = HW_ENOMEM;
    }
    if (rc == HW_OK)
        *out = &c->live.v[*at];
    return rc;
}

/* Dumps stand in order of time. One at max tells the peak and changes nothing. */
static int put_dumps(struct chrome *c)
{
    for (uint32_t i = 0; i < c->p->dumps.n; i++) {
        const struct hw_heap_dump *d = &c->p->dumps.v[i];
        struct live sum = {0, 0}, *now = &sum;
        bool at_max = d->flags & HW_DUMP_AT_MAX;
        int rc = at_max ? HW_OK : live_of(c, d, &now);
        if (rc < 0)
            return rc;
        size_t first, n;
        hw_profile_dump_rows(c->p, i, &first, &n);
        for (size_t k = first; k < first + n; k++) {
            now->bytes += hw_alloc_size(&c->p->allocs, k);
            now->objects += hw_alloc_count(&c->p->allocs, k);
        }
        begin_event(c, "C", d->upid, text_of(c, d->heap_name));
        put_time(c, d->ts_ns);
        hw_json_key(&c->j, at_max ? "peak_bytes" : "live_bytes");
        hw_json_int(&c->j, now->bytes);
        hw_json_key(&c->j, at_max ? "peak_objects" : "live_objects");
        hw_json_int(&c->j, now->objects);
        end_event(c);
    }
    return HW_OK;
}

static void put_counters(struct chrome *c)
{
    for (size_t i = 0; i < c->p->counters.n; i++) {
        const struct hw_counter_row *r = &c->p->counters.v[i];
        begin_event(c, "C", r->upid, text_of(c, r->name));
        put_time(c, r->ts_ns);
        hw_json_key(&c->j, "value");
        hw_json_double(&c->j, r->value);
        end_event(c);
    }
}

int hw_export_chrome(const struct hw_profile *p, int fd, struct hw_error *err)
{
    struct chrome c = {.p = p};
    hw_json_init(&c.j, hw_json_write_fd, &fd, /* pretty = */ false);
    hw_json_begin_object(&c.j);
    hw_json_key(&c.j, "displayTimeUnit");
    hw_json_str(&c.j, "ns");
    hw_json_key(&c.j, "traceEvents");
    hw_json_begin_array(&c.j);
    put_processes(&c);
    int rc = put_dumps(&c);
    put_counters(&c);
    hw_json_end_array(&c.j);
    hw_json_end_object(&c.j);
    int written = hw_json_finish(&c.j);
    hw_json_done(&c.j);
    hw_vec_done(&c.live);
    hw_map64_done(&c.live_of);
    if (rc == HW_OK)
        rc = written;
    return rc == HW_ESYS ? hw_fail_sys(err, "cannot write the output")
           : rc < 0      ? hw_fail(err, rc, 0, "JSON trace")
                         : HW_OK;
}

/*
 * Three stores take pprof, each in its own envelope: a row of `envelopes`.
 *
 *   pyroscope  PushRequest { series { labels { name, value } samples { raw_profile, ID } } }
 *   ingest     one profile: labels in the URL, the file and its columns' types as form parts
 *   parca      {"series": [{"labels": {"labels": […]}, "samples": [{"rawProfile": base64}]}], …}
 */
#include "fleet/push/posts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/map64.h"
#include "base/text/json_out.h"
#include "codec/base64.h"
#include "codec/pb.h"
#include "export/export.h"
#include "fleet/push/dumps.h"
#include "fleet/push/otlp.h"
#include "fleet/store/http_client.h"

#include "base/banned.h"

#define METRIC_NAME "memory"
#define SECOND_NS   INT64_C(1000000000)

enum { /* push.v1 */
       F_SERIES = 1,
       F_SERIES_LABELS = 1,
       F_SERIES_SAMPLES = 2,
       F_LABEL_NAME = 1,
       F_LABEL_VALUE = 2,
       F_RAW_PROFILE = 1,
       F_RAW_ID = 2
};

struct one {
    struct hw_bytes pprof;
    struct hw_bytes alloc; /* splits: the alloc_* columns; pprof then has the others */
    const struct hw_post_labels *labels;
    const struct hw_fleet_dump *dump;
};

struct poster;

struct envelope {
    enum hw_store_form form;
    const char *service_name; /* the label's name */
    const char *path, *type;
    bool single; /* one profile per request */
    bool splits; /* live and allocated memory are separate profiles */
    void (*add)(struct poster *q, const struct one *o);
    void (*end)(struct poster *q);
};

struct poster {
    const struct hw_profile *p;
    const struct hw_entry_maker *m;
    const struct envelope *envelope;
    struct hw_fleet_process *processes;
    struct hw_pb pb;
    struct hw_json json;
    bool json_open;
    struct hw_otlp *otlp;  /* NULL for other stores */
    struct hw_entry entry; /* body, path and type of the current request */
    size_t bytes;          /* of the profiles in it */
};

/* ---- labels ---- */

static int add_label(struct hw_post_labels *l, const char *name, struct hw_bytes value)
{
    if (value.n == 0)
        return HW_OK;
    return hw_vec_push(&l->v, ((struct hw_post_label){name, value})) < 0 ? HW_ENOMEM : HW_OK;
}

int hw_post_labels_init(struct hw_post_labels *out, const struct hw_profile *p,
                        const struct hw_fleet_dump *d, const struct hw_fleet_process *process,
                        const struct hw_fleet_labels *labels, const char *service_name)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    const struct hw_heap_dump *h = d->dump;
    *out = (struct hw_post_labels){0};
    (void)snprintf(out->pid, sizeof out->pid, "%" PRId64, p->processes.v[h->upid.v].pid);
    (void)snprintf(out->interval, sizeof out->interval, "%" PRIu64, h->interval_bytes);
    const struct hw_post_label known[] = {
        {"__name__", hw_bytes_str(METRIC_NAME)},
        {service_name, process->service.n ? process->service : hw_bytes_str("unknown")},
        {"host", process->host},
        {"pid", hw_bytes_str(out->pid)},
        {"heap", hw_strings_get(strings, h->heap_name)},
        {"build_id", hw_bytes_of(process->build_id.p, process->build_id.n)},
        {"version", hw_bytes_str(labels->version ? labels->version : "")},
        {"interval", hw_bytes_str(out->interval)},
    };
    int rc = HW_OK;
    for (size_t i = 0; rc == 0 && i < HW_ARRAY_LEN(known); i++)
        rc = add_label(out, known[i].name, known[i].value);
    for (size_t i = 0; rc == 0 && i < labels->more.n; i++)
        rc = add_label(out, labels->more.v[i].name, hw_bytes_str(labels->more.v[i].value));
    for (size_t i = 0; rc == 0 && i < process->n_more; i++)
        rc = add_label(out, process->more[i].name, process->more[i].value);
    if (rc < 0)
        hw_post_labels_done(out);
    return rc;
}

void hw_post_labels_done(struct hw_post_labels *l)
{
    hw_vec_done(&l->v);
}

/* ---- envelopes ---- */

/* A UUID of the version for custom ids, from the content: the same profile has the same id. */
static void uuid_of(const struct one *o, char out[40])
{
    uint64_t a = hw_hash_bytes(o->pprof.p, o->pprof.n);
    for (size_t i = 0; i < o->labels->v.n; i++)
        a = hw_hash_mix(a, hw_hash_bytes(o->labels->v.v[i].value.p, o->labels->v.v[i].value.n));
    uint64_t b = hw_hash_mix(a, (uint64_t)o->dump->wall_ns);
    (void)snprintf(out, 40, "%08x-%04x-8%03x-%04x-%012" PRIx64, (unsigned)(a >> 32),
                   (unsigned)(a >> 16 & 0xffff), (unsigned)(a & 0xfff),
                   (unsigned)(0x8000 | (b >> 48 & 0x3fff)), b & UINT64_C(0xffffffffffff));
}

static void put_label(struct hw_pb *pb, const char *name, struct hw_bytes value)
{
    hw_pb_begin(pb, F_SERIES_LABELS);
    hw_pb_str(pb, F_LABEL_NAME, name);
    hw_pb_bytes(pb, F_LABEL_VALUE, value.p, value.n);
    hw_pb_end(pb);
}

/* Pyroscope takes alloc_* for totals since the program's start and subtracts the previous profile,
 * unless this label says that they are differences. */
static void add_pyroscope(struct poster *q, const struct one *o)
{
    char id[40];
    uuid_of(o, id);
    hw_pb_begin(&q->pb, F_SERIES);
    put_label(&q->pb, "__delta__", hw_bytes_str("false"));
    for (size_t i = 0; i < o->labels->v.n; i++)
        put_label(&q->pb, o->labels->v.v[i].name, o->labels->v.v[i].value);
    hw_pb_begin(&q->pb, F_SERIES_SAMPLES);
    hw_pb_bytes(&q->pb, F_RAW_PROFILE, o->pprof.p, o->pprof.n);
    hw_pb_str(&q->pb, F_RAW_ID, id);
    hw_pb_end(&q->pb);
    hw_pb_end(&q->pb);
}

static void end_pyroscope(struct poster *q)
{
    struct hw_bytes all = hw_pb_view(&q->pb);
    hw_strbuf_add(&q->entry.body, all.p, all.n);
    q->entry.body.failed |= hw_pb_failed(&q->pb);
    hw_pb_clear(&q->pb);
}

static void add_raw_profile(struct poster *q, struct hw_bytes pprof)
{
    struct hw_json *j = &q->json;
    struct hw_strbuf packed = {0};
    hw_json_begin_object(j);
    hw_json_key(j, "rawProfile");
    hw_base64_add(&packed, pprof);
    hw_json_strn(j, packed.p, packed.n);
    q->entry.body.failed |= packed.failed;
    hw_strbuf_done(&packed);
    hw_json_end_object(j);
}

/* Parca takes all columns of a profile with a duration for differences, and adds them up over time.
 * So live memory is a profile of its own, without duration. */
static void add_parca(struct poster *q, const struct one *o)
{
    struct hw_json *j = &q->json;
    if (!q->json_open) {
        hw_json_init(j, NULL, NULL, /* pretty = */ false);
        hw_json_begin_object(j);
        hw_json_kv_bool(j, "normalized", true);
        hw_json_key(j, "series");
        hw_json_begin_array(j);
        q->json_open = true;
    }
    hw_json_begin_object(j);
    hw_json_key(j, "labels");
    hw_json_begin_object(j);
    hw_json_key(j, "labels");
    hw_json_begin_array(j);
    for (size_t i = 0; i < o->labels->v.n; i++) {
        const struct hw_post_label *l = &o->labels->v.v[i];
        hw_json_begin_object(j);
        hw_json_kv_str(j, "name", l->name);
        hw_json_key(j, "value");
        hw_json_strn(j, l->value.p, l->value.n);
        hw_json_end_object(j);
    }
    hw_json_end_array(j);
    hw_json_end_object(j);
    hw_json_key(j, "samples");
    hw_json_begin_array(j);
    add_raw_profile(q, o->pprof);
    add_raw_profile(q, o->alloc);
    hw_json_end_array(j);
    hw_json_end_object(j);
}

static void end_parca(struct poster *q)
{
    struct hw_json *j = &q->json;
    if (!q->json_open)
        return;
    hw_json_end_array(j);
    hw_json_end_object(j);
    if (hw_json_finish(j) < 0)
        q->entry.body.failed = true;
    hw_strbuf_add(&q->entry.body, j->buf.p, j->buf.n);
    hw_json_done(j);
    q->json_open = false;
}

/* Label values of the older form: braces, commas and quotes would end them. */
static void add_ingest_value(struct hw_strbuf *out, struct hw_bytes v)
{
    for (size_t i = 0; i < v.n; i++) {
        char c = (char)v.p[i];
        hw_strbuf_addc(out, strchr("{},=\"", c) || (unsigned char)c < 0x20 ? '_' : c);
    }
}

static const char column_types[] =
    "{\"alloc_objects\":{\"units\":\"objects\",\"display-name\":\"alloc_objects\","
    "\"aggregation\":\"sum\",\"cumulative\":false},"
    "\"alloc_space\":{\"units\":\"bytes\",\"display-name\":\"alloc_space\","
    "\"aggregation\":\"sum\",\"cumulative\":false},"
    "\"inuse_objects\":{\"units\":\"objects\",\"display-name\":\"inuse_objects\","
    "\"aggregation\":\"average\",\"cumulative\":false},"
    "\"inuse_space\":{\"units\":\"bytes\",\"display-name\":\"inuse_space\","
    "\"aggregation\":\"average\",\"cumulative\":false}}";

static void add_part(struct hw_strbuf *out, const char *boundary, const char *name,
                     struct hw_bytes content)
{
    hw_strbuf_addf(out,
                   "--%s\r\nContent-Disposition: form-data; name=\"%s\"; filename=\"%s\"\r\n"
                   "Content-Type: application/octet-stream\r\n\r\n",
                   boundary, name, name);
    hw_strbuf_add(out, content.p, content.n);
    hw_strbuf_adds(out, "\r\n");
}

static void add_ingest(struct poster *q, const struct one *o)
{
    struct hw_strbuf name = {0};
    char boundary[40];
    uuid_of(o, boundary); /* 122 bits of hash do not occur in the content by accident */
    hw_strbuf_clear(&q->entry.path);
    hw_strbuf_clear(&q->entry.type);
    add_ingest_value(&name, o->labels->v.v[1].value);
    for (size_t i = 2; i < o->labels->v.n; i++) {
        hw_strbuf_addf(&name, "%s%s=", i == 2 ? "{" : ",", o->labels->v.v[i].name);
        add_ingest_value(&name, o->labels->v.v[i].value);
    }
    hw_strbuf_adds(&name, o->labels->v.n > 2 ? "}" : "");
    hw_strbuf_adds(&q->entry.path, "/ingest?name=");
    hw_http_add_escaped(&q->entry.path, hw_bytes_of(name.p, name.n));
    hw_strbuf_addf(&q->entry.path,
                   "&from=%" PRId64 "&until=%" PRId64 "&format=pprof&spyName=heapwise",
                   o->dump->since_ns / SECOND_NS, o->dump->wall_ns / SECOND_NS);
    hw_strbuf_addf(&q->entry.type, "multipart/form-data; boundary=%s", boundary);
    add_part(&q->entry.body, boundary, "profile", o->pprof);
    add_part(&q->entry.body, boundary, "sample_type_config", hw_bytes_str(column_types));
    hw_strbuf_addf(&q->entry.body, "--%s--\r\n", boundary);
    q->entry.body.failed |= name.failed;
    hw_strbuf_done(&name);
}

static void end_ingest(struct poster *q)
{
    (void)q; /* add wrote everything */
}

static const struct envelope envelopes[] = {
    {HW_STORE_PYROSCOPE, "service_name", "/push.v1.PusherService/Push", "application/proto",
     /* single = */ false, /* splits = */ false, add_pyroscope, end_pyroscope},
    {HW_STORE_INGEST, "service_name", "", "", /* single = */ true, /* splits = */ false, add_ingest,
     end_ingest},
    {HW_STORE_PARCA, "service", "/profiles/writeraw", "application/json", /* single = */ false,
     /* splits = */ true, add_parca, end_parca},
    {HW_STORE_OTLP, "service.name", "/v1development/profiles", "application/x-protobuf",
     /* single = */ true, /* splits = */ false, NULL, end_ingest},
};

/* ---- requests ---- */

static int flush(struct poster *q, struct hw_error *err)
{
    struct hw_entry *e = &q->entry;
    if (e->n_rows == 0)
        return HW_OK;
    q->envelope->end(q);
    if (q->envelope->path[0]) {
        hw_strbuf_clear(&e->path);
        hw_strbuf_adds(&e->path, q->envelope->path);
    }
    if (q->envelope->type[0]) {
        hw_strbuf_clear(&e->type);
        hw_strbuf_adds(&e->type, q->envelope->type);
    }
    if (e->body.failed || e->path.failed || e->type.failed)
        return hw_fail(err, HW_ENOMEM, 0, "request");
    hw_entry_seal(e);
    int rc = q->m->take(q->m->ctx, e, err);
    hw_strbuf_clear(&e->body);
    e->n_rows = 0;
    q->bytes = 0;
    return rc;
}

struct pprof {
    char *bytes; /* owned */
    size_t n;
};

static int write_pprof(const struct poster *q, const struct hw_fleet_dump *d,
                       enum hw_scrape_columns columns, struct pprof *out, struct hw_error *err)
{
    int64_t duration_ns = d->wall_ns > d->since_ns ? d->wall_ns - d->since_ns : 0;
    if (columns == HW_SCRAPE_ALLOC && duration_ns == 0)
        duration_ns = 1; /* marks it as a difference, although its length is unknown */
    /* Not a label, as each gap would make a series of its own. */
    struct hw_bytes since = q->processes[d->dump->upid.v].unknown_since;
    char gap[64];
    const char *comments[] = {gap};
    (void)snprintf(gap, sizeof gap, "heapwise.unknown_since=%.*s",
                   (int)(since.n < 32 ? since.n : 32), since.n ? (const char *)since.p : "");
    const struct hw_scrape_form form = {.columns = columns,
                                        .time_ns = d->wall_ns,
                                        .duration_ns = columns == HW_SCRAPE_INUSE ? 0 : duration_ns,
                                        .comments = comments,
                                        .n_comments = since.n ? 1 : 0};
    const struct hw_export_input in = {.profile = q->p,
                                       .values = d->values,
                                       .upid = d->dump->upid,
                                       .heap_name = d->dump->heap_name,
                                       .ts_ns = d->dump->ts_ns,
                                       .interval_bytes = d->dump->interval_bytes,
                                       .namer = q->m->namer,
                                       .scrape = &form,
                                       .gzip = true};
    FILE *f = open_memstream(&out->bytes, &out->n);
    if (!f)
        return hw_fail(err, HW_ENOMEM, 0, "pprof profile");
    int rc = hw_export_pprof.write(&in, f, err);
    if (fclose(f) != 0 && rc == 0)
        rc = hw_fail(err, HW_ENOMEM, 0, "pprof profile");
    return rc;
}

static int add_pprof(struct poster *q, const struct hw_fleet_dump *d,
                     const struct hw_post_labels *labels, struct hw_error *err)
{
    struct pprof all = {0}, alloc = {0};
    bool splits = q->envelope->splits;
    int rc = write_pprof(q, d, splits ? HW_SCRAPE_INUSE : HW_SCRAPE_ALL, &all, err);
    if (rc == 0 && splits)
        rc = write_pprof(q, d, HW_SCRAPE_ALLOC, &alloc, err);
    size_t n = all.n + alloc.n;
    /* base64 makes 4 bytes of 3; the rest is for labels. */
    if (rc == 0 && q->bytes + n > HW_POST_MAX_BYTES / 4 * 3 - 64 * 1024)
        rc = flush(q, err);
    if (rc == 0) {
        q->envelope->add(q, &(struct one){hw_bytes_of(all.bytes, all.n),
                                          hw_bytes_of(alloc.bytes, alloc.n), labels, d});
        q->bytes += n;
    }
    free(all.bytes);
    free(alloc.bytes);
    return rc;
}

static int take_dump(void *ctx, const struct hw_fleet_dump *d, struct hw_error *err)
{
    struct poster *q = ctx;
    struct hw_post_labels labels;
    if (d->values->n == 0)
        return HW_OK; /* no profile for a heap that never allocated */
    int rc = hw_post_labels_init(&labels, q->p, d, &q->processes[d->dump->upid.v], q->m->labels,
                                 q->envelope->service_name);
    if (rc < 0)
        return hw_fail(err, rc, 0, "labels");
    rc = q->envelope->add ? add_pprof(q, d, &labels, err)
                          : hw_otlp_add(q->otlp, &q->entry.body, d, &labels, err);
    hw_post_labels_done(&labels);
    if (rc < 0)
        return rc;
    q->entry.n_rows++;
    return q->envelope->single ? flush(q, err) : HW_OK;
}

static int find_processes(struct poster *q)
{
    const struct hw_profile *p = q->p;
    q->processes = calloc(p->processes.n + 1, sizeof *q->processes);
    int rc = q->processes ? HW_OK : HW_ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < p->processes.n; i++)
        rc = hw_fleet_process_init(&q->processes[i], p, (hw_upid){i}, q->m->labels);
    return rc;
}

static void poster_done(struct poster *q)
{
    for (size_t i = 0; q->processes && i < q->p->processes.n; i++)
        hw_fleet_process_done(&q->processes[i]);
    free(q->processes);
    hw_pb_done(&q->pb);
    hw_otlp_free(q->otlp);
    if (q->json_open)
        hw_json_done(&q->json);
    hw_entry_done(&q->entry);
}

int hw_posts_make(const struct hw_profile *p, const struct hw_entry_maker *m, struct hw_error *err)
{
    struct poster q = {.p = p, .m = m, .entry = {.form = m->form}};
    for (size_t i = 0; i < HW_ARRAY_LEN(envelopes); i++)
        if (envelopes[i].form == m->form)
            q.envelope = &envelopes[i];
    if (!q.envelope)
        return hw_fail(err, HW_EUNSUPPORTED, 0, "no requests for this kind of store");
    int rc = find_processes(&q);
    if (rc == 0 && !q.envelope->add)
        rc = hw_otlp_new(p, m->namer, &q.otlp);
    const struct hw_fleet_dumps each = {.wall_ns = m->wall_ns, .visit = take_dump, .ctx = &q};
    rc = rc < 0 ? hw_fail(err, rc, 0, "processes") : hw_fleet_dumps_visit(p, &each, err);
    if (rc == 0)
        rc = flush(&q, err);
    poster_done(&q);
    return rc;
}

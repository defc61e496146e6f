/*
 * ClickHouse, one entry:
 *
 *   1. only if repeated: does a statement with this entry's id still run?  -> later
 *   2. which of its callstacks were stored within a week?                  -> insert the others
 *   3. which of its samples are stored?                                    -> insert the others
 *
 * An INSERT of at most 8 MiB is one block of a month's rows and so one part, inserted atomically.
 * But some versions accept a body that was cut off at the end of a row as complete. Querying the
 * rows themselves does not depend on that.
 */
#include "fleet/push/send.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/vec.h"
#include "fleet/store/http_client.h"
#include "fleet/store/rowbinary.h"

#include "base/banned.h"

#define MAX_REQUEST (8u * 1024 * 1024)
#define MAX_HASHES  8000u /* per query: 168 KB, below the limit of 256 KiB per statement */
#define FRESH_DAYS  7     /* a callstack seen within a week is not written again */
#define MAX_IN      2000u /* values per list in a query of samples */
#define SHOWN_BYTES 64u

int hw_sender_init(struct hw_sender *s, const struct hw_store *store,
                   const volatile sig_atomic_t *stop, struct hw_error *err)
{
    *s = (struct hw_sender){.store = store};
    int rc = hw_clickhouse_init(&s->client, store, err);
    s->client.stop = stop;
    return rc;
}

void hw_sender_done(struct hw_sender *s)
{
    hw_clickhouse_done(&s->client);
    hw_map64_done(&s->known);
    s->store = NULL;
}

/* ---- ClickHouse ---- */

static const char *insert_into(enum hw_fleet_table t, size_t n_columns, struct hw_strbuf *out)
{
    hw_strbuf_clear(out);
    hw_strbuf_addf(out, "INSERT INTO %s (", hw_fleet_table_name(t));
    const char *between = "";
    for (size_t i = 0; i < hw_fleet_n_columns; i++) {
        const struct hw_fleet_column *c = &hw_fleet_columns[i];
        if (c->table != t || n_columns == 0)
            continue;
        n_columns--;
        if (c->kind == HW_FLEET_KIND_LABELS)
            hw_strbuf_addf(out, "%s%s.k, %s.v", between, c->name, c->name);
        else
            hw_strbuf_addf(out, "%s%s", between, c->name);
        between = ", ";
    }
    hw_strbuf_adds(out, ") FORMAT RowBinary");
    return out->p;
}

static int insert(struct hw_sender *s, const struct hw_entry *e, enum hw_fleet_table t,
                  size_t n_columns, const struct hw_strbuf *rows, struct hw_error *err)
{
    struct hw_strbuf sql = {0};
    char id[40];
    (void)snprintf(id, sizeof id, "heapwise-%016" PRIx64, e->id);
    /* Readers merge duplicate callstacks: only samples need an id. */
    const char *settings[] = {"insert_distributed_sync", "1", "query_id", id};
    if (rows->failed)
        return hw_fail(err, HW_ENOMEM, 0, "rows to insert");
    struct hw_clickhouse_query ask = {.sql = insert_into(t, n_columns, &sql),
                                      .settings = settings,
                                      .n_settings = t == HW_FLEET_SAMPLES ? 4 : 2,
                                      .has_data = true,
                                      .data = hw_bytes_of(rows->p, rows->n)};
    int rc = sql.failed ? hw_fail(err, HW_ENOMEM, 0, "statement")
                        : hw_clickhouse_do(&s->client, &ask, NULL, err);
    s->n_requests++;
    s->n_bytes += rows->n;
    hw_strbuf_done(&sql);
    return rc;
}

static int query(struct hw_sender *s, const struct hw_strbuf *sql, struct hw_strbuf *reply,
                 struct hw_error *err)
{
    /* Buffers the whole reply, so that the status can still report a failure. */
    static const char *const settings[] = {"wait_end_of_query", "1", "buffer_size", "16777216"};
    struct hw_clickhouse_query ask = {
        .sql = sql->p, .settings = settings, .n_settings = HW_ARRAY_LEN(settings)};
    s->n_requests++;
    return sql->failed ? hw_fail(err, HW_ENOMEM, 0, "question")
                       : hw_clickhouse_do(&s->client, &ask, reply, err);
}

static int still_runs(struct hw_sender *s, const struct hw_entry *e, bool *out,
                      struct hw_error *err)
{
    struct hw_strbuf sql = {0}, reply = {0};
    hw_strbuf_addf(&sql,
                   "SELECT count() FROM system.processes WHERE query_id = 'heapwise-%016" PRIx64
                   "' FORMAT TSV",
                   e->id);
    int rc = query(s, &sql, &reply, err);
    if (rc == 0)
        *out = strtoull(reply.p ? reply.p : "", NULL, 10) > 0;
    hw_strbuf_done(&sql);
    hw_strbuf_done(&reply);
    return rc;
}

/* Adds the hashes that the store has to s->known. */
static int query_hashes(struct hw_sender *s, const uint64_t *hashes, size_t n, unsigned day,
                        struct hw_error *err)
{
    struct hw_strbuf sql = {0}, reply = {0};
    hw_strbuf_adds(&sql, "SELECT DISTINCT hash FROM stacks WHERE hash IN (");
    for (size_t i = 0; i < n; i++)
        hw_strbuf_addf(&sql, "%s%" PRIu64, i ? "," : "", hashes[i]);
    hw_strbuf_addf(&sql, ") AND last_seen >= toDate(%u) FORMAT RowBinary",
                   day > FRESH_DAYS ? day - FRESH_DAYS : 0);
    int rc = query(s, &sql, &reply, err);
    for (size_t i = 0; rc == 0 && i + sizeof(uint64_t) <= reply.n; i += sizeof(uint64_t))
        if (hw_map64_put(&s->known, hw_load_u64(reply.p + i), 1) < 0)
            rc = hw_fail(err, HW_ENOMEM, 0, "known callstacks");
    hw_strbuf_done(&sql);
    hw_strbuf_done(&reply);
    return rc;
}

static int query_unknown(struct hw_sender *s, struct hw_bytes rows, struct hw_error *err)
{
    const size_t hash_at = hw_row_column(HW_FLEET_STACKS, "hash");
    const size_t seen_at = hw_row_column(HW_FLEET_STACKS, "last_seen");
    HW_VEC(uint64_t) hashes = {0};
    struct hw_row row;
    unsigned day = 0;
    int rc = HW_OK, more;
    while (rc == 0 && (more = hw_row_next(&rows, HW_FLEET_STACKS, &row)) != 0) {
        if (more < 0) {
            rc = hw_fail(err, more, 0, "rows of callstacks");
            break;
        }
        uint64_t hash = hw_load_u64(row.cell[hash_at].p);
        if (hw_map64_find(&s->known, hash))
            continue;
        unsigned seen = hw_load_u16(row.cell[seen_at].p);
        day = hashes.n == 0 || seen < day ? seen : day;
        if (hw_vec_push(&hashes, hash) < 0)
            rc = hw_fail(err, HW_ENOMEM, 0, "callstacks");
        if (rc == 0 && hashes.n == MAX_HASHES) {
            rc = query_hashes(s, hashes.v, hashes.n, day, err);
            hw_vec_clear(&hashes);
        }
    }
    if (rc == 0 && hashes.n)
        rc = query_hashes(s, hashes.v, hashes.n, day, err);
    hw_vec_done(&hashes);
    return rc;
}

/* Inserts the collected rows and clears them. */
static int send_stacks(struct hw_sender *s, const struct hw_entry *e, struct hw_strbuf *collected,
                       struct hw_error *err)
{
    if (collected->n == 0)
        return HW_OK;
    int rc = insert(s, e, HW_FLEET_STACKS, HW_ROW_MAX_CELLS, collected, err);
    struct hw_bytes rest = hw_bytes_of(collected->p, collected->n);
    struct hw_row row;
    while (rc == 0 && hw_row_next(&rest, HW_FLEET_STACKS, &row) == 1)
        if (hw_map64_put(&s->known, hw_load_u64(row.cell[0].p), 1) < 0)
            rc = hw_fail(err, HW_ENOMEM, 0, "known callstacks");
    hw_strbuf_clear(collected);
    return rc;
}

static int put_stacks(struct hw_sender *s, const struct hw_entry *e, struct hw_error *err)
{
    struct hw_bytes rows = hw_bytes_of(e->stacks.p, e->stacks.n);
    int rc = query_unknown(s, rows, err);
    struct hw_strbuf collected = {0};
    struct hw_row row;
    while (rc == 0 && hw_row_next(&rows, HW_FLEET_STACKS, &row) == 1) {
        if (hw_map64_find(&s->known, hw_load_u64(row.cell[0].p)))
            continue;
        if (collected.n + row.all.n > MAX_REQUEST)
            rc = send_stacks(s, e, &collected, err);
        hw_strbuf_add(&collected, row.all.p, row.all.n);
    }
    if (rc == 0)
        rc = send_stacks(s, e, &collected, err);
    hw_strbuf_done(&collected);
    return rc;
}

/* ---- tables created before some columns existed ---- */

static int query_columns(struct hw_sender *s, struct hw_error *err)
{
    struct hw_strbuf sql = {0}, reply = {0};
    hw_fleet_columns_query(&sql, hw_store_database(s->store),
                           hw_fleet_table_name(HW_FLEET_SAMPLES));
    int rc = query(s, &sql, &reply, err);
    if (rc == 0)
        s->n_columns = hw_fleet_count_columns(HW_FLEET_SAMPLES, hw_bytes_of(reply.p, reply.n));
    hw_strbuf_done(&sql);
    hw_strbuf_done(&reply);
    return rc;
}

/* Queried until all exist: the store's operator may add them at any time. */
static int find_columns(struct hw_sender *s, const struct hw_entry *e, size_t *out,
                        struct hw_error *err)
{
    size_t all = hw_fleet_table_columns(HW_FLEET_SAMPLES);
    int rc = s->n_columns < all ? query_columns(s, err) : HW_OK;
    s->is_older = rc == 0 && s->n_columns < all;
    *out = e->n_columns < s->n_columns ? e->n_columns : s->n_columns;
    return rc;
}

/* ---- which samples are stored ---- */

enum { K_SERVICE, K_HOST, K_PID, K_HEAP, K_TS, K_STACK, K_COUNT };
static const char *const key_columns[K_COUNT] = {"service", "host", "pid", "heap", "ts", "stack"};

struct keys {
    size_t at[K_COUNT];       /* cells of a row */
    struct hw_map64 in[K_TS]; /* the set of values in each list */
    struct hw_strbuf list[K_TS];
    uint32_t from, to; /* ts */
    bool any;
};

static uint64_t key_of(const struct hw_bytes *cells, const size_t *at)
{
    uint64_t h = 0;
    for (size_t k = 0; k < K_COUNT; k++) {
        struct hw_bytes c = cells[at ? at[k] : k];
        h = hw_hash_mix(h, hw_hash_bytes(c.p, c.n));
    }
    return h;
}

/* A list that grows too long is left out of the query: lists only narrow it. */
static int add_to_list(struct keys *q, size_t k, struct hw_bytes cell)
{
    uint64_t *seen;
    bool fresh;
    if (q->in[k].n > MAX_IN)
        return HW_OK;
    if (hw_map64_at(&q->in[k], hw_hash_bytes(cell.p, cell.n), &seen, &fresh) < 0)
        return HW_ENOMEM;
    if (!fresh)
        return HW_OK;
    struct hw_strbuf *out = &q->list[k];
    if (out->n)
        hw_strbuf_addc(out, ',');
    if (k == K_PID)
        hw_strbuf_addf(out, "%" PRIu32, hw_load_u32(cell.p));
    else
        hw_clickhouse_add_text(out, hw_row_text(cell));
    return out->failed ? HW_ENOMEM : HW_OK;
}

static int collect_keys(struct keys *q, struct hw_bytes rows, size_t n_columns)
{
    struct hw_row row;
    int rc = HW_OK, more;
    for (size_t k = 0; k < K_COUNT; k++)
        q->at[k] = hw_row_column(HW_FLEET_SAMPLES, key_columns[k]);
    while (rc == 0 && (more = hw_row_next_of(&rows, HW_FLEET_SAMPLES, n_columns, &row)) != 0) {
        if (more < 0)
            return more;
        uint32_t ts = hw_load_u32(row.cell[q->at[K_TS]].p);
        q->from = !q->any || ts < q->from ? ts : q->from;
        q->to = !q->any || ts > q->to ? ts : q->to;
        q->any = true;
        for (size_t k = 0; rc == 0 && k < K_TS; k++)
            rc = add_to_list(q, k, row.cell[q->at[k]]);
    }
    return rc;
}

static int query_samples(struct hw_sender *s, const struct keys *q, struct hw_map64 *stored,
                         struct hw_error *err)
{
    static const enum hw_fleet_kind kinds[K_COUNT] = {HW_FLEET_KIND_TEXT,   HW_FLEET_KIND_TEXT,
                                                      HW_FLEET_KIND_UINT32, HW_FLEET_KIND_TEXT,
                                                      HW_FLEET_KIND_TIME,   HW_FLEET_KIND_UINT64};
    struct hw_strbuf sql = {0}, reply = {0};
    hw_strbuf_addf(&sql,
                   "SELECT service, host, pid, heap, ts, stack FROM samples "
                   "WHERE ts >= toDateTime(%" PRIu32 ") AND ts <= toDateTime(%" PRIu32 ")",
                   q->from, q->to);
    for (size_t k = 0; k < K_TS; k++)
        if (q->in[k].n <= MAX_IN)
            hw_strbuf_addf(&sql, " AND %s IN (%s)", key_columns[k], q->list[k].p);
    hw_strbuf_adds(&sql, " FORMAT RowBinary");
    int rc = query(s, &sql, &reply, err);
    struct hw_bytes rest = hw_bytes_of(reply.p, reply.n), cells[K_COUNT];
    while (rc == 0 && rest.n) {
        for (size_t k = 0; rc == 0 && k < K_COUNT; k++)
            rc = hw_row_take(&rest, kinds[k], &cells[k]);
        if (rc < 0)
            (void)hw_fail(err, rc, 0, "store '%s' answered with broken rows", s->store->shown);
        else if (hw_map64_put(stored, key_of(cells, NULL), 1) < 0)
            rc = hw_fail(err, HW_ENOMEM, 0, "known samples");
    }
    hw_strbuf_done(&sql);
    hw_strbuf_done(&reply);
    return rc;
}

static int put_samples(struct hw_sender *s, const struct hw_entry *e, struct hw_error *err)
{
    struct keys q = {0};
    struct hw_map64 stored = {0};
    struct hw_strbuf missing = {0};
    struct hw_bytes rows = hw_bytes_of(e->body.p, e->body.n);
    struct hw_row row;
    uint64_t n_missing = 0, n_there = 0;
    size_t n_columns = 0;
    int rc = collect_keys(&q, rows, e->n_columns);
    if (rc < 0)
        (void)hw_fail(err, rc, 0, "rows of samples"); /* the code is returned below */
    else if (q.any)
        rc = query_samples(s, &q, &stored, err);
    if (rc == 0)
        rc = find_columns(s, e, &n_columns, err);
    while (rc == 0 && hw_row_next_of(&rows, HW_FLEET_SAMPLES, e->n_columns, &row) == 1) {
        if (hw_map64_find(&stored, key_of(row.cell, q.at))) {
            n_there++;
            continue;
        }
        n_missing++;
        struct hw_bytes last = row.cell[n_columns - 1]; /* cells are contiguous */
        hw_strbuf_add(&missing, row.all.p, (size_t)(last.p + last.n - row.all.p));
    }
    if (rc == 0 && n_missing)
        rc = insert(s, e, HW_FLEET_SAMPLES, n_columns, &missing, err);
    if (rc == 0) {
        s->n_rows_sent += n_missing;
        s->n_rows_there += n_there;
    }
    for (size_t k = 0; k < K_TS; k++) {
        hw_map64_done(&q.in[k]);
        hw_strbuf_done(&q.list[k]);
    }
    hw_map64_done(&stored);
    hw_strbuf_done(&missing);
    return rc;
}

static int try_clickhouse(struct hw_sender *s, const struct hw_entry *e, bool repeated,
                          struct hw_error *err)
{
    bool runs = false;
    int rc = repeated ? still_runs(s, e, &runs, err) : HW_OK;
    if (rc == 0 && runs)
        return hw_fail(err, HW_EGONE, 0, "store '%s' is still at work on an earlier attempt",
                       s->store->shown);
    if (rc == 0)
        rc = put_stacks(s, e, err);
    return rc < 0 ? rc : put_samples(s, e, err);
}

/* ---- the others: one POST ---- */

static int try_post(struct hw_sender *s, const struct hw_entry *e, struct hw_error *err)
{
    struct hw_clickhouse *c = &s->client;
    struct hw_strbuf url = {0}, type = {0}, tenant = {0};
    struct hw_http_reply r = {0};
    const char *headers[HW_STORE_MAX_AUTH + 2];
    size_t n = 0;
    hw_strbuf_addf(&url, "%s%s%s", s->store->base, s->store->path, e->path.p);
    hw_strbuf_addf(&type, "Content-Type: %s", e->type.p);
    headers[n++] = type.p;
    if (s->tenant) {
        hw_strbuf_addf(&tenant, "X-Scope-OrgID: %s", s->tenant);
        headers[n++] = tenant.p;
    }
    for (size_t i = 0; i < c->auth.n; i++)
        headers[n++] = c->auth.line[i];
    struct hw_http_request q = {.url = url.p,
                                .headers = headers,
                                .n_headers = n,
                                .post = true,
                                .once = true,
                                .body = hw_bytes_of(e->body.p, e->body.n),
                                .stop = c->stop};
    int rc = url.failed || type.failed || tenant.failed ? hw_fail(err, HW_ENOMEM, 0, "request")
                                                        : hw_http_do(c->http, &q, &r, err);
    c->status = r.status;
    c->retry_after_s = r.retry_after_s;
    s->n_requests++;
    s->n_bytes += e->body.n;
    if (rc < 0) {
        hw_error_prefix(err, "store '%s'", s->store->shown);
    } else if (r.status < 200 || r.status > 299) {
        struct hw_strbuf message = {0};
        hw_strbuf_add_escaped(&message, r.body.p, r.body.n < 200 ? r.body.n : 200);
        rc = hw_fail(err, HW_EGONE, 0, "store '%s' answered %ld: %s", s->store->shown, r.status,
                     message.n ? message.p : "nothing");
        hw_strbuf_done(&message);
    } else {
        s->n_rows_sent += e->n_rows;
    }
    hw_http_reply_done(&r);
    hw_strbuf_done(&url);
    hw_strbuf_done(&type);
    hw_strbuf_done(&tenant);
    return rc;
}

static bool is_final(long status)
{
    return status >= 300 && status < 500 && status != 408 && status != 429;
}

int hw_sender_try(struct hw_sender *s, const struct hw_entry *e, bool repeated,
                  enum hw_send_result *out, struct hw_error *err)
{
    struct hw_error local = {0};
    err = err ? err : &local;
    s->client.status = 0;
    s->client.retry_after_s = 0;
    int rc = e->form != s->store->form
                 ? hw_fail(err, HW_EINVAL, 0, "a request for a store of kind %s cannot go to '%s'",
                           hw_store_scheme(e->form), s->store->shown)
             : e->form == HW_STORE_CLICKHOUSE ? try_clickhouse(s, e, repeated, err)
                                              : try_post(s, e, err);
    s->retry_after_s = s->client.retry_after_s;
    if (rc == HW_ENOMEM || rc == HW_EUNSUPPORTED || (rc == HW_EBUSY && s->client.status == 0))
        return rc;
    *out = rc == 0                                                   ? HW_SEND_DONE
           : is_final(s->client.status) || e->form != s->store->form ? HW_SEND_REFUSED
                                                                     : HW_SEND_AGAIN;
    return HW_OK;
}

/* ---- --dry-run ---- */

static void print_body(struct hw_bytes body, const char *what, uint64_t rows, FILE *out)
{
    struct hw_strbuf head = {0};
    hw_strbuf_add_escaped(&head, body.p, body.n < SHOWN_BYTES ? body.n : SHOWN_BYTES);
    fprintf(out, "%zu bytes, %" PRIu64 " %s: %s%s\n\n", body.n, rows, what, head.p ? head.p : "",
            body.n > SHOWN_BYTES ? "…" : "");
    hw_strbuf_done(&head);
}

static uint64_t count_rows(struct hw_bytes rows, enum hw_fleet_table t, size_t n_columns)
{
    struct hw_row row;
    uint64_t n = 0;
    while (hw_row_next_of(&rows, t, n_columns, &row) == 1)
        n++;
    return n;
}

static void print_head(const struct hw_sender *s, const char *url, const char *type, FILE *out)
{
    fprintf(out, "POST %s\n", url);
    if (type)
        fprintf(out, "Content-Type: %s\n", type);
    for (size_t i = 0; i < s->client.auth.n; i++) {
        const char *line = s->client.auth.line[i];
        bool name_only = strncmp(line, "X-ClickHouse-User:", 18) != 0;
        fprintf(out, "%.*s%s\n", name_only ? (int)strcspn(line, ":") : (int)strlen(line), line,
                name_only ? ": (not shown)" : "");
    }
    if (s->tenant && type)
        fprintf(out, "X-Scope-OrgID: %s\n", s->tenant);
}

int hw_sender_print(const struct hw_sender *s, const struct hw_entry *e, FILE *out)
{
    struct hw_strbuf url = {0}, sql = {0};
    if (e->form == HW_STORE_CLICKHOUSE) {
        const struct hw_strbuf *bodies[] = {&e->stacks, &e->body};
        static const enum hw_fleet_table tables[] = {HW_FLEET_STACKS, HW_FLEET_SAMPLES};
        for (size_t i = 0; i < HW_ARRAY_LEN(bodies); i++) {
            struct hw_bytes body = hw_bytes_of(bodies[i]->p, bodies[i]->n);
            size_t n = tables[i] == HW_FLEET_SAMPLES ? e->n_columns : HW_ROW_MAX_CELLS;
            struct hw_clickhouse_query ask = {.sql = insert_into(tables[i], n, &sql),
                                              .has_data = true};
            hw_strbuf_clear(&url);
            hw_clickhouse_url(&s->client, &ask, &url);
            if (body.n == 0)
                continue;
            print_head(s, url.p, NULL, out);
            print_body(body, hw_fleet_table_name(tables[i]), count_rows(body, tables[i], n), out);
        }
    } else {
        hw_strbuf_addf(&url, "%s%s%s", s->store->base, s->store->path, e->path.p);
        print_head(s, url.p, e->type.p, out);
        print_body(hw_bytes_of(e->body.p, e->body.n), "profiles", e->n_rows, out);
    }
    bool failed = url.failed || sql.failed;
    hw_strbuf_done(&url);
    hw_strbuf_done(&sql);
    return failed ? HW_ENOMEM : ferror(out) ? HW_ESYS : HW_OK;
}

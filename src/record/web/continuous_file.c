#include "record/web/continuous_file.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/log.h"
#include "base/text/json_out.h"
#include "config/command/command.h"
#include "config/command/settings.h"
#include "enrich/lines/demangle.h"
#include "export/export.h"
#include "model/profile.h"
#include "views/time/profile_sum.h"

#include "base/banned.h"

#define SECOND INT64_C(1000000000)
enum { MAX_COMMENTS = 16, MAX_STATE = 16 << 20 };
enum { MAX_UNSENT = 20000, LAST_PUSH_MS = 10000, LOOK_MS = 20 };
static const uint64_t at_least_every_ns = 3600 * (uint64_t)SECOND; /* also of idle processes */
static const int64_t clock_jump_ns = 300 * SECOND;
static const uint64_t distrust_ns = 86400 * (uint64_t)SECOND;

static int64_t wall_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

/* ---- the recorder before us ---- */

static bool is_pushing(const struct hw_continuous_files *f)
{
    return hw_opt_text(&f->cli->opts, HW_OPT_CONT_PUSH) != NULL;
}

/* Any excess is left for a manual push. */
static void queue_push(struct hw_continuous_files *f, const char *path)
{
    if (!is_pushing(f))
        return;
    char *copy = f->unsent.n < MAX_UNSENT ? strdup(path) : NULL;
    if (!copy || hw_vec_push(&f->unsent, copy) < 0) {
        free(copy);
        hw_log(WARN, "too much waits to be pushed: '%s/%s' does not", f->store.dir, path);
    }
}

/* Both lists are sorted by time; files newer than state.json are unlisted and unsent. */
static void read_unsent(struct hw_continuous_files *f, const json_t *root)
{
    const json_t *listed = json_object_get(root, "unsent");
    int64_t written = json_integer_value(json_object_get(root, "written"));
    size_t n = json_array_size(listed), k = 0;
    for (size_t i = f->store.first; i < f->store.files.n; i++) {
        const struct hw_stored_profile *file = &f->store.files.v[i];
        bool is_listed = false;
        for (size_t j = k; !is_listed && j < n; j++) {
            const char *path = json_string_value(json_array_get(listed, j));
            is_listed = path && strcmp(path, file->path) == 0;
            k = is_listed ? j + 1 : k;
        }
        if (is_listed || file->time_s >= written)
            queue_push(f, file->path);
    }
}

static void read_state(struct hw_continuous_files *f, const char *text, size_t n)
{
    json_t *root = json_loadb(text, n, 0, NULL), *row;
    size_t i;
    if (root)
        read_unsent(f, root);
    json_array_foreach(json_object_get(root, "processes"), i, row)
    {
        struct hw_known_process k = {
            .pid = (int32_t)json_integer_value(json_object_get(row, "pid")),
            .start_ticks = (uint64_t)json_integer_value(json_object_get(row, "start_ticks")),
            .until_s = json_integer_value(json_object_get(row, "until"))};
        if (hw_vec_push(&f->known, k) < 0)
            break; /* only a gap goes unreported */
    }
    json_decref(root);
}

static void read_last_state(struct hw_continuous_files *f)
{
    char *text = NULL;
    size_t n = 0;
    if (hw_file_read(f->store.fd, HW_PROFILE_STORE_STATE, MAX_STATE, &text, &n, NULL) == HW_OK)
        read_state(f, text, n);
    free(text);
}

void hw_continuous_lost(struct hw_continuous_files *f)
{
    for (size_t i = 0; i < f->last.n; i++)
        if (hw_vec_push(&f->known, f->last.v[i]) < 0)
            break; /* only a gap goes unreported */
    hw_vec_clear(&f->last);
}

void hw_continuous_broke_off(struct hw_continuous_files *f, const struct hw_continuous_process *p)
{
    struct hw_known_process k = {p->pid, p->start_ticks, wall_ns() / SECOND};
    for (size_t i = 0; i < f->known.n; i++)
        if (f->known.v[i].pid == p->pid) {
            f->known.v[i] = k;
            return;
        }
    (void)hw_vec_push(&f->known, k); /* out of memory: only a gap goes unreported */
}

void hw_continuous_resume(struct hw_continuous_files *f, struct hw_continuous_process *p)
{
    for (size_t i = f->known.n; i-- > 0;)
        if (f->known.v[i].pid == p->pid) {
            if (p->start_ticks && f->known.v[i].start_ticks == p->start_ticks)
                p->gap_from_s = f->known.v[i].until_s;
            f->known.v[i] = f->known.v[--f->known.n];
        }
}

/* ---- open and close ---- */

/* //var/lib/heapwise/profiles for root, else below the user's state directory. */
static char *default_dir(void)
{
    hw_autofree char *state = hw_state_dir();
    struct hw_strbuf b = {0};
    if (geteuid() != 0 && !state)
        return NULL;
    hw_strbuf_addf(&b, "%s/profiles", geteuid() == 0 ? "/var/lib/heapwise" : state);
    return hw_strbuf_take(&b);
}

int hw_continuous_files_open(struct hw_continuous_files *f, const struct hw_cli *cli,
                             struct hw_error *err)
{
    const struct hw_opts *o = &cli->opts;
    const char *given = hw_opt_text(o, HW_OPT_CONT_DIR);
    hw_autofree char *own = given ? NULL : default_dir();
    *f = (struct hw_continuous_files){.cli = cli, .store = {.fd = -1}};
    f->store.max_bytes = hw_opt_num(o, HW_OPT_CONT_KEEP_SIZE);
    f->store.max_age_s = hw_opt_num(o, HW_OPT_CONT_KEEP) / 1000;
    if (!given && !own)
        return hw_fail(err, HW_EINVAL, 0, "no home directory: say where with --profiles DIR");
    int rc = hw_profile_store_open(&f->store, given ? given : own, err);
    if (rc < 0)
        return rc;
    f->wall_offset_ns = wall_ns() - (int64_t)hw_now_boottime_ns();
    read_last_state(f);
    return HW_OK;
}

/* ---- one file ---- */

struct comments {
    struct hw_strbuf text[MAX_COMMENTS];
    const char *shown[MAX_COMMENTS];
    size_t n;
};

static void add_comment(struct comments *c, const char *name, const char *value)
{
    if (c->n == MAX_COMMENTS || !value[0])
        return;
    hw_strbuf_addf(&c->text[c->n], "heapwise.%s=%s", name, value);
    if (!c->text[c->n].failed) {
        c->shown[c->n] = c->text[c->n].p;
        c->n++;
    }
}

static void add_number(struct comments *c, const char *name, uint64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    add_comment(c, name, text);
}

/* One period of one heap: of a process, or of several that have ended. */
struct period {
    const struct hw_continuous_process *who; /* of several: the first one */
    const char *heap;
    struct hw_profile_sum blend;
    uint64_t since_ns, at_ns, n_lost;
    uint64_t requested_interval; /* bytes; 0 = unknown */
    uint64_t n_processes;
    uint64_t n_starts; /* that they stand for */
    uint64_t starts_variance;
};

static void describe(struct comments *c, const struct period *x)
{
    const struct hw_continuous_process *p = x->who;
    char host[256] = "", gap[32] = "";
    struct tm tm;
    time_t from = (time_t)p->gap_from_s;
    (void)gethostname(host, sizeof host - 1); /* without it the file just says less */
    add_comment(c, "process", p->name);
    add_number(c, "pid", (uint64_t)p->pid);
    add_comment(c, "heap", x->heap);
    add_comment(c, "host", host);
    add_comment(c, "unit", p->unit ? p->unit : "");
    add_comment(c, "container", p->container ? p->container : "");
    if (x->n_processes > 1)
        add_number(c, "processes", x->n_processes);
    if (x->n_starts > x->n_processes)
        add_number(c, "starts", x->n_starts);
    if (x->starts_variance)
        add_number(c, "starts_variance", x->starts_variance);
    if (x->n_lost)
        add_number(c, "lost_samples", x->n_lost);
    if (x->requested_interval && x->requested_interval != x->blend.interval_bytes)
        add_number(c, "interval_was", x->requested_interval);
    if (p->gap_from_s && gmtime_r(&from, &tm) &&
        strftime(gap, sizeof gap, "%Y-%m-%dT%H:%M:%SZ", &tm))
        add_comment(c, "unknown_since", gap);
}

static const struct hw_heap_dump *last_dump(const struct hw_profile *p, const char *heap)
{
    const struct hw_strings *strings = hw_callsites_strings(p->callsites);
    for (size_t i = p->dumps.n; i-- > 0;)
        if (hw_bytes_equal(hw_strings_get(strings, p->dumps.v[i].heap_name), hw_bytes_str(heap)))
            return &p->dumps.v[i];
    return NULL;
}

static int add_part(struct hw_profile_sum *b, const struct hw_profile *p, const char *heap,
                    enum hw_profile_sum_role role, uint32_t share)
{
    struct hw_profile_sum_part part = {
        .p = p, .upid = {HW_ID_NONE}, .heap = heap, .role = role, .share = share};
    return p ? hw_profile_sum_add(b, &part) : HW_OK;
}

static bool has_changed(const hw_values *values, const hw_values *base)
{
    for (size_t i = 0; i < values->n; i++) {
        const struct hw_value *now = &values->v[i].v, *before = &base->v[i].v;
        if (now->alloc_space || now->alloc_objects || now->space != before->space ||
            now->objects != before->objects)
            return true;
    }
    return false;
}

static int make_pprof(const struct hw_profile_sum *b, const hw_values *values,
                      const struct hw_scrape_form *form, char **bytes, size_t *n,
                      struct hw_error *err)
{
    struct hw_demangler *demangler = NULL;
    FILE *out = open_memstream(bytes, n);
    int rc = out ? hw_demangler_new(hw_callsites_strings(b->p->callsites), &demangler) : HW_ENOMEM;
    struct hw_namer namer = {hw_demangle_shown, demangler};
    struct hw_export_input in = {.profile = b->p,
                                 .values = values,
                                 .upid = {HW_ID_NONE},
                                 .interval_bytes = b->interval_bytes,
                                 .namer = &namer,
                                 .scrape = form,
                                 .gzip = true};
    if (rc == HW_OK)
        rc = hw_export_pprof.write(&in, out, err);
    if (out && fclose(out) != 0 && rc == HW_OK)
        rc = HW_ENOMEM;
    hw_demangler_free(demangler);
    return rc;
}

static bool has_any(const hw_values *values)
{
    for (size_t i = 0; i < values->n; i++)
        if (!hw_value_is_zero(&values->v[i].v))
            return true;
    return false;
}

static int write_file(struct hw_continuous_files *f, const struct period *x,
                      const hw_values *values, const hw_values *base, int64_t wall,
                      struct hw_error *err)
{
    struct comments c = {0};
    char *bytes = NULL, *path = NULL;
    size_t n = 0;
    describe(&c, x);
    struct hw_scrape_form form = {.time_ns = wall,
                                  .duration_ns = (int64_t)(x->at_ns - x->since_ns),
                                  .base = base,
                                  .comments = c.shown,
                                  .n_comments = c.n};
    struct hw_profile_name name = {wall, x->who->name, x->heap, x->who->pid};
    int rc = make_pprof(&x->blend, values, &form, &bytes, &n, err);
    if (rc == HW_OK)
        rc = hw_profile_store_add(&f->store, &name, bytes, n, &path, err);
    if (rc == HW_OK)
        queue_push(f, path);
    for (size_t i = 0; i < MAX_COMMENTS; i++)
        hw_strbuf_done(&c.text[i]);
    free(bytes);
    free(path);
    return rc;
}

/* is_first: none of it is stored yet. Takes over the blend. */
static int write_period(struct hw_continuous_files *f, struct period *x, bool is_first,
                        int64_t wall, bool *wrote, struct hw_error *err)
{
    hw_values values = {0}, base = {0};
    int rc = hw_profile_sum_values(&x->blend, &values, &base);
    bool due = x->at_ns - x->since_ns >= at_least_every_ns;
    bool is_news = is_first || due || has_changed(&values, &base);
    if (rc == HW_OK && is_news && (has_any(&values) || has_any(&base))) {
        rc = write_file(f, x, &values, &base, wall, err);
        *wrote = true;
    }
    hw_vec_done(&values);
    hw_vec_done(&base);
    hw_profile_sum_done(&x->blend);
    return rc < 0 && !err->code ? hw_fail(err, rc, 0, "profile of process %d:", x->who->pid) : rc;
}

static uint64_t requested_interval(const struct hw_profile *p, const char *heap)
{
    const struct hw_heap_dump *d = last_dump(p, heap);
    return d ? d->orig_interval_bytes : 0;
}

static int write_heap(struct hw_continuous_files *f, const struct hw_continuous_process *p,
                      const char *heap, const struct hw_continuous_round *look, int64_t wall,
                      bool *wrote, struct hw_error *err)
{
    struct period x = {.who = p,
                       .heap = heap,
                       .since_ns = p->since_ns,
                       .at_ns = look->at_ns,
                       .n_lost = look->n_lost > p->n_lost ? look->n_lost - p->n_lost : 0,
                       .requested_interval = requested_interval(look->now, heap),
                       .n_processes = 1};
    int rc = hw_profile_sum_init(&x.blend);
    if (rc == HW_OK)
        rc = add_part(&x.blend, look->now, heap, HW_PROFILE_SUM_ADD, /* share = */ 0);
    if (rc == HW_OK)
        rc = add_part(&x.blend, look->before, heap, HW_PROFILE_SUM_BASE, /* share = */ 0);
    if (rc == HW_OK)
        return write_period(f, &x, !look->before, wall, wrote, err);
    hw_profile_sum_done(&x.blend);
    return hw_fail(err, rc, 0, "profile of process %d:", p->pid);
}

/* ---- those that end before they have a file ---- */

struct hw_continuous_share {
    struct hw_continuous_process who; /* owned; of the first one */
    char *heap;                       /* owned */
    struct period period;
};

static bool is_same(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static void share_free(struct hw_continuous_share *s)
{
    if (!s)
        return;
    hw_profile_sum_done(&s->period.blend);
    hw_continuous_process_done(&s->who);
    free(s->heap);
    free(s);
}

static struct hw_continuous_share *share_new(const struct hw_continuous_process *p,
                                             const char *heap)
{
    struct hw_continuous_share *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->who = *p;
    s->who.name = strdup(p->name);
    s->who.unit = p->unit ? strdup(p->unit) : NULL;
    s->who.container = p->container ? strdup(p->container) : NULL;
    s->heap = strdup(heap);
    s->period = (struct period){.who = &s->who, .heap = s->heap, .since_ns = p->since_ns};
    if (s->who.name && s->heap && !!s->who.unit == !!p->unit &&
        !!s->who.container == !!p->container && hw_profile_sum_init(&s->period.blend) == HW_OK)
        return s;
    share_free(s);
    return NULL;
}

static struct hw_continuous_share *share_of(struct hw_continuous_files *f,
                                            const struct hw_continuous_process *p, const char *heap)
{
    for (size_t i = 0; i < f->shares.n; i++) {
        struct hw_continuous_share *s = f->shares.v[i];
        if (is_same(s->who.name, p->name) && is_same(s->who.unit, p->unit) &&
            is_same(s->who.container, p->container) && is_same(s->heap, heap))
            return s;
    }
    struct hw_continuous_share *s = share_new(p, heap);
    if (s && hw_vec_push(&f->shares, s) == HW_OK)
        return s;
    share_free(s);
    return NULL;
}

static int share_heap(struct hw_continuous_files *f, const struct hw_continuous_process *p,
                      const char *heap, const struct hw_continuous_round *look,
                      struct hw_error *err)
{
    struct hw_continuous_share *s = share_of(f, p, heap);
    int rc = s ? add_part(&s->period.blend, look->now, heap, HW_PROFILE_SUM_ADD, look->share)
               : HW_ENOMEM;
    if (rc < 0)
        return hw_fail(err, rc, 0, "profile of process %d:", p->pid);
    struct period *x = &s->period;
    uint64_t asked = requested_interval(look->now, heap), weight = UINT64_C(1) << look->share;
    x->since_ns = p->since_ns < x->since_ns ? p->since_ns : x->since_ns;
    x->requested_interval = asked > x->requested_interval ? asked : x->requested_interval;
    x->at_ns = look->at_ns;
    x->n_lost += look->n_lost;
    x->n_processes++;
    x->n_starts += weight;
    x->starts_variance += weight * (weight - 1); /* as in views/time/profile_sum.c */
    return HW_OK;
}

static void write_shares(struct hw_continuous_files *f)
{
    for (size_t i = 0; i < f->shares.n; i++) {
        struct hw_error err = {0};
        bool wrote = false;
        if (write_period(f, &f->shares.v[i]->period, /* is_first = */ true, wall_ns(), &wrote,
                         &err) < 0)
            hw_log(WARN, "%s", err.text);
        share_free(f->shares.v[i]);
    }
    hw_vec_clear(&f->shares);
}

int hw_continuous_write(struct hw_continuous_files *f, struct hw_continuous_process *p,
                        const struct hw_continuous_round *look, struct hw_error *err)
{
    const struct hw_profile *now = look->now;
    const struct hw_strings *strings = hw_callsites_strings(now->callsites);
    int64_t wall = wall_ns();
    bool wrote = false, shares = (p->ended || look->share) && !p->last_s && !p->gap_from_s;
    int rc = HW_OK;
    if (is_pushing(f) && wall / SECOND == p->last_s)
        wall = (p->last_s + 1) * SECOND;
    for (size_t i = 0; i < now->dumps.n; i++) {
        struct hw_bytes name = hw_strings_get(strings, now->dumps.v[i].heap_name);
        hw_autofree char *heap = strndup((const char *)name.p, name.n);
        if (!heap)
            return hw_fail(err, HW_ENOMEM, 0, "profile of process %d", p->pid);
        if (last_dump(now, heap) != &now->dumps.v[i])
            continue;
        int one = shares ? share_heap(f, p, heap, look, err)
                         : write_heap(f, p, heap, look, wall, &wrote, err);
        rc = one < 0 ? one : rc;
    }
    if (wrote) {
        p->since_ns = look->at_ns;
        p->last_s = wall / SECOND;
        p->gap_from_s = 0;
        p->n_lost = look->n_lost;
    }
    return rc;
}

/* ---- the end of a round ---- */

void hw_continuous_note(struct hw_continuous_files *f, const struct hw_continuous_process *p)
{
    struct hw_known_process k = {p->pid, p->start_ticks, wall_ns() / SECOND};
    (void)hw_vec_push(&f->noted, k); /* without it a gap goes unreported */
}

static int write_state(struct hw_continuous_files *f, struct hw_error *err)
{
    struct hw_json j;
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_kv_int(&j, "written", wall_ns() / SECOND);
    hw_json_kv_uint(&j, "profiles", f->store.files.n - f->store.first);
    hw_json_kv_uint(&j, "bytes", f->store.bytes);
    hw_json_kv_uint(&j, "removed", f->store.n_removed);
    hw_json_kv_uint(&j, "dropped", f->store.n_dropped);
    hw_json_key(&j, "processes");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < f->last.n; i++) {
        hw_json_begin_object(&j);
        hw_json_kv_int(&j, "pid", f->last.v[i].pid);
        hw_json_kv_uint(&j, "start_ticks", f->last.v[i].start_ticks);
        hw_json_kv_int(&j, "until", f->last.v[i].until_s);
        hw_json_end_object(&j);
    }
    hw_json_end_array(&j);
    hw_json_key(&j, "unsent");
    hw_json_begin_array(&j);
    for (size_t i = 0; i < f->unsent.n; i++)
        hw_json_str(&j, f->unsent.v[i]);
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    int rc = j.buf.failed || j.error
                 ? HW_ENOMEM
                 : hw_profile_store_note(&f->store, HW_PROFILE_STORE_STATE, j.buf.p, j.buf.n, err);
    hw_json_done(&j);
    return rc;
}

/* Setting the clock far ahead would make everything old at once. */
static int64_t believed_s(struct hw_continuous_files *f)
{
    uint64_t now = hw_now_boottime_ns();
    int64_t offset = wall_ns() - (int64_t)now, moved = offset - f->wall_offset_ns;
    if (moved > clock_jump_ns || moved < -clock_jump_ns) {
        hw_log(WARN, "the clock was set by %lld s: for a day profiles are removed by size only",
               (long long)(moved / SECOND));
        f->distrust_until_ns = now + distrust_ns;
    }
    f->wall_offset_ns = offset;
    return now < f->distrust_until_ns ? 0 : wall_ns() / SECOND;
}

/* At the end, for a while; the rest is noted for the next start. */
static void push_the_rest(struct hw_continuous_files *f)
{
    struct hw_error err = {0};
    uint64_t deadline = hw_now_monotonic_ns() + LAST_PUSH_MS * UINT64_C(1000000);
    while ((f->push_pid > 0 || f->unsent.n) && hw_now_monotonic_ns() < deadline) {
        hw_continuous_hand_over(f);
        (void)poll(NULL, 0, LOOK_MS);
        hw_continuous_reap_push(f);
    }
    if (f->push_pid > 0)
        (void)kill(f->push_pid, SIGTERM); /* it spools what it was sending */
    if (write_state(f, &err) < 0)
        hw_log(WARN, "%s", err.text);
}

int hw_continuous_end_round(struct hw_continuous_files *f, struct hw_error *err)
{
    hw_known_processes before = f->last;
    f->last = f->noted;
    f->noted = before;
    hw_vec_clear(&f->noted);
    write_shares(f);
    hw_profile_store_trim(&f->store, believed_s(f));
    int rc = write_state(f, err);
    hw_continuous_hand_over(f);
    return rc;
}

void hw_continuous_files_close(struct hw_continuous_files *f)
{
    if (f->store.dir)
        write_shares(f);
    hw_vec_done(&f->shares);
    if (f->store.dir && is_pushing(f))
        push_the_rest(f);
    hw_profile_store_close(&f->store);
    for (size_t i = 0; i < f->unsent.n; i++)
        free(f->unsent.v[i]);
    hw_vec_done(&f->unsent);
    hw_vec_done(&f->known);
    hw_vec_done(&f->noted);
    hw_vec_done(&f->last);
}

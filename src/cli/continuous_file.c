#include "cli/continuous_file.h"

#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json_out.h"
#include "base/log.h"
#include "cli/cli.h"
#include "cli/settings.h"
#include "enrich/demangle.h"
#include "export/export.h"
#include "model/profile.h"
#include "views/blend.h"

#include "base/banned.h"

#define SECOND INT64_C(1000000000)
#define STATE  "state.json"
enum { MAX_COMMENTS = 16, MAX_STATE = 16 << 20, MAX_CGROUP = 64 << 10, CONTAINER_ID = 64 };
enum { MAX_PUSHED_AT_ONCE = 500, MAX_UNSENT = 20000, LAST_PUSH_MS = 10000, LOOK_MS = 20 };
static const uint64_t at_least_every_ns = 3600 * (uint64_t)SECOND; /* also of who does nothing */
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

/* What is too much is left to a push by hand. */
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

/* Both lists are sorted by time; what came after the last note is in none. */
static void read_unsent(struct hw_continuous_files *f, const json_t *root)
{
    const json_t *listed = json_object_get(root, "unsent");
    int64_t written = json_integer_value(json_object_get(root, "written"));
    size_t n = json_array_size(listed), k = 0;
    for (size_t i = f->store.first; i < f->store.files.n; i++) {
        const struct hw_kept_profile *file = &f->store.files.v[i];
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
            break; /* a gap that is not told of, no more */
    }
    json_decref(root);
}

static void read_last_state(struct hw_continuous_files *f)
{
    char *text = NULL;
    size_t n = 0;
    if (hw_file_read(f->store.fd, STATE, MAX_STATE, &text, &n, NULL) == HW_OK)
        read_state(f, text, n);
    free(text);
}

void hw_continuous_lost(struct hw_continuous_files *f)
{
    for (size_t i = 0; i < f->last.n; i++)
        if (hw_vec_push(&f->known, f->last.v[i]) < 0)
            break; /* a gap that is not told of, no more */
    hw_vec_clear(&f->last);
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

/* /var/lib/heapwise/profiles for root, below the user's state otherwise. */
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

static bool is_hex(const char *s, size_t n)
{
    return strspn(s, "0123456789abcdef") >= n;
}

/* The unit and the container, as the control group's path names them. */
static void add_cgroup(struct comments *c, int32_t pid)
{
    char path[40], *text = NULL, *save = NULL;
    size_t n;
    (void)snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
    if (hw_file_read(AT_FDCWD, path, MAX_CGROUP, &text, &n, NULL) < 0)
        return; /* it has ended */
    char *unit = NULL, *container = NULL;
    for (char *word = strtok_r(text, "/\n:", &save); word; word = strtok_r(NULL, "/\n:", &save)) {
        size_t length = strlen(word);
        if (length > 8 && strcmp(word + length - 8, ".service") == 0 &&
            strncmp(word, "user@", 5) != 0) /* all that a user runs is below that one */
            unit = word;
        for (char *at = word; length >= CONTAINER_ID && at <= word + length - CONTAINER_ID; at++)
            if (is_hex(at, CONTAINER_ID))
                container = at;
    }
    if (container)
        container[CONTAINER_ID] = '\0';
    if (unit)
        add_comment(c, "unit", unit);
    if (container)
        add_comment(c, "container", container);
    free(text);
}

static void describe(struct comments *c, const struct hw_continuous_process *p, const char *heap,
                     const struct hw_continuous_look *look)
{
    char host[256] = "", gap[32] = "";
    struct tm tm;
    time_t from = (time_t)p->gap_from_s;
    (void)gethostname(host, sizeof host - 1); /* without it the file says less */
    add_comment(c, "process", p->name);
    add_number(c, "pid", (uint64_t)p->pid);
    add_comment(c, "heap", heap);
    add_comment(c, "host", host);
    add_cgroup(c, p->pid);
    if (look->n_lost > p->n_lost)
        add_number(c, "lost_samples", look->n_lost - p->n_lost);
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

static int blend(struct hw_blend *b, const char *heap, const struct hw_continuous_look *look,
                 hw_values *values, hw_values *base)
{
    struct hw_blend_part part = {
        .p = look->now, .upid = {HW_ID_NONE}, .heap = heap, .role = HW_BLEND_ADD};
    int rc = hw_blend_init(b);
    if (rc == HW_OK)
        rc = hw_blend_add(b, &part);
    part.p = look->before;
    part.role = HW_BLEND_BASE;
    if (rc == HW_OK && part.p)
        rc = hw_blend_add(b, &part);
    return rc == HW_OK ? hw_blend_values(b, values, base) : rc;
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

static int make_pprof(const struct hw_blend *b, const hw_values *values,
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

static int write_heap(struct hw_continuous_files *f, const struct hw_continuous_process *p,
                      const char *heap, const struct hw_continuous_look *look, int64_t wall,
                      bool *wrote, struct hw_error *err)
{
    struct hw_blend b = {0};
    hw_values values = {0}, base = {0};
    struct comments c = {0};
    char *bytes = NULL, *path = NULL;
    size_t n = 0;
    int rc = blend(&b, heap, look, &values, &base);
    bool due = look->at_ns - p->since_ns >= at_least_every_ns;
    bool skip = rc == HW_OK && look->before && !due && !has_changed(&values, &base);
    if (rc == HW_OK && !skip) {
        const struct hw_heap_dump *d = last_dump(look->now, heap);
        describe(&c, p, heap, look);
        if (d && d->orig_interval_bytes && d->orig_interval_bytes != d->interval_bytes)
            add_number(&c, "interval_was", d->orig_interval_bytes);
        struct hw_scrape_form form = {.time_ns = wall,
                                      .duration_ns = (int64_t)(look->at_ns - p->since_ns),
                                      .base = &base,
                                      .comments = c.shown,
                                      .n_comments = c.n};
        struct hw_profile_name name = {form.time_ns, p->name, heap, p->pid};
        rc = make_pprof(&b, &values, &form, &bytes, &n, err);
        if (rc == HW_OK)
            rc = hw_profile_store_add(&f->store, &name, bytes, n, &path, err);
        if (rc == HW_OK)
            queue_push(f, path);
        *wrote = true;
    }
    for (size_t i = 0; i < MAX_COMMENTS; i++)
        hw_strbuf_done(&c.text[i]);
    hw_vec_done(&values);
    hw_vec_done(&base);
    hw_blend_done(&b);
    free(bytes);
    free(path);
    return rc < 0 && !err->code ? hw_fail(err, rc, 0, "profile of process %d", p->pid) : rc;
}

int hw_continuous_write(struct hw_continuous_files *f, struct hw_continuous_process *p,
                        const struct hw_continuous_look *look, struct hw_error *err)
{
    const struct hw_profile *now = look->now;
    const struct hw_strings *strings = hw_callsites_strings(now->callsites);
    int64_t wall = wall_ns();
    bool wrote = false;
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
        int one = write_heap(f, p, heap, look, wall, &wrote, err);
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
    (void)hw_vec_push(&f->noted, k); /* without it a gap is not told of */
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
                 : hw_profile_store_note(&f->store, STATE, j.buf.p, j.buf.n, err);
    hw_json_done(&j);
    return rc;
}

/* A clock that was set far forward would make everything old at once. */
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

static void forget_sent(struct hw_continuous_files *f)
{
    for (size_t i = 0; i < f->n_sending; i++)
        free(f->unsent.v[i]);
    f->unsent.n -= f->n_sending;
    memmove(f->unsent.v, f->unsent.v + f->n_sending, f->unsent.n * sizeof *f->unsent.v);
    f->n_sending = 0;
}

/* What a push that was killed had to send is sent by the next one. */
static void reap_push(struct hw_continuous_files *f)
{
    int status;
    if (f->push_pid <= 0 || waitpid(f->push_pid, &status, WNOHANG) != f->push_pid)
        return;
    f->push_pid = 0;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : HW_EXIT_SIGNAL + WTERMSIG(status);
    if (code == HW_EXIT_OK || code == HW_EXIT_INCOMPLETE || code == HW_EXIT_FAILED)
        forget_sent(f); /* taken, in the spool, or refused for good */
    f->n_sending = 0;
    if (code != HW_EXIT_OK && code != f->push_code)
        hw_log(WARN, "heapwise push ended with %d; what waits is sent the next time", code);
    f->push_code = code;
}

static int spawn(const char *const *argv)
{
    extern char **environ;
    sigset_t none;
    posix_spawnattr_t attr;
    pid_t pid;
    posix_spawnattr_init(&attr);
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    int failed = posix_spawn(&pid, "/proc/self/exe", NULL, &attr, (char *const *)argv, environ);
    posix_spawnattr_destroy(&attr);
    if (failed)
        hw_log(WARN, "cannot start heapwise push: %s", strerror(failed));
    return failed ? 0 : pid;
}

/* A process of its own: a store that is slow or away holds up nothing here. */
static void hand_over(struct hw_continuous_files *f)
{
    const struct hw_optval *labels = &f->cli->opts.v[HW_OPT_LABEL];
    const char *argv[16 + 2 * 64 + MAX_PUSHED_AT_ONCE];
    struct hw_strbuf spool = {0}, paths = {0};
    size_t n = 0, at = 0;
    reap_push(f);
    if (f->push_pid > 0 || f->unsent.n == 0)
        return;
    f->n_sending = f->unsent.n < MAX_PUSHED_AT_ONCE ? f->unsent.n : MAX_PUSHED_AT_ONCE;
    hw_strbuf_addf(&spool, "%s/spool", f->store.dir);
    for (size_t i = 0; i < f->n_sending; i++) {
        hw_strbuf_addf(&paths, "%s/%s", f->store.dir, f->unsent.v[i]);
        hw_strbuf_addc(&paths, '\0');
    }
    if (!spool.failed && !paths.failed) {
        const char *to = hw_opt_text(&f->cli->opts, HW_OPT_CONT_PUSH);
        const char *fixed[] = {"heapwise", "push",  "--quiet",     "--to", to,
                               "--spool",  spool.p, "--retry-for", "5s"};
        for (size_t i = 0; i < HW_ARRAY_LEN(fixed); i++)
            argv[n++] = fixed[i];
        for (size_t i = 0; i < labels->list.n && i < 64; i++) {
            argv[n++] = "--label";
            argv[n++] = labels->list.v[i];
        }
        argv[n++] = "--";
        for (size_t i = 0; i < f->n_sending; i++, at += strlen(paths.p + at) + 1)
            argv[n++] = paths.p + at;
        argv[n] = NULL;
        f->push_pid = spawn(argv);
    }
    if (f->push_pid <= 0)
        f->n_sending = 0;
    hw_strbuf_done(&spool);
    hw_strbuf_done(&paths);
}

/* At the end, for a while; what is left is noted for the next start. */
static void push_the_rest(struct hw_continuous_files *f)
{
    struct hw_error err = {0};
    uint64_t deadline = hw_now_monotonic_ns() + LAST_PUSH_MS * UINT64_C(1000000);
    while ((f->push_pid > 0 || f->unsent.n) && hw_now_monotonic_ns() < deadline) {
        hand_over(f);
        (void)poll(NULL, 0, LOOK_MS);
        reap_push(f);
    }
    if (f->push_pid > 0)
        (void)kill(f->push_pid, SIGTERM); /* it puts into the spool what it has in hand */
    if (write_state(f, &err) < 0)
        hw_log(WARN, "%s", err.text);
}

int hw_continuous_end_round(struct hw_continuous_files *f, struct hw_error *err)
{
    hw_known_processes before = f->last;
    f->last = f->noted;
    f->noted = before;
    hw_vec_clear(&f->noted);
    hw_profile_store_trim(&f->store, believed_s(f));
    int rc = write_state(f, err);
    hand_over(f);
    return rc;
}

void hw_continuous_files_close(struct hw_continuous_files *f)
{
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

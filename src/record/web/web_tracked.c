/*
 * Memory internals for the page: requests are JSON, files go to the server's directory. Everything
 * else is in tracked_processes.h.
 */
#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text/json_out.h"
#include "base/text/strbuf.h"
#include "record/record_options.h"
#include "record/tracked/tracked_processes.h"
#include "record/web/web_recorder_internal.h"
#include "wire/handshake.h"

#include "base/banned.h"

enum { MAX_SAVES = 1000, MAX_PIDS = 10000 };

struct saved {
    char *json, *trace; /* owned: whole paths */
};

struct hw_web_tracked {
    struct hw_web_recorder *recorder;
    struct hw_tracked *m;
    pthread_mutex_t lock;
    bool saving;              /* lock */
    HW_VEC(struct saved) all; /* lock; number - 1 */
};

/* ---- parsing requests ---- */

static int read_words(struct hw_bytes words, json_t **out, struct hw_error *err)
{
    *out = words.n ? json_loadb((const char *)words.p, words.n, 0, NULL) : json_object();
    if (json_is_object(*out))
        return HW_OK;
    json_decref(*out);
    *out = NULL;
    return hw_fail(err, HW_EINVAL, 0, "the request's body is not a JSON object");
}

/* *pid: 0 with *word for text. */
static int read_who(const json_t *words, int32_t *pid, const char **word, struct hw_error *err)
{
    const json_t *who = json_object_get(words, "pid");
    json_int_t n = json_integer_value(who);
    *word = json_string_value(who);
    *pid = 0;
    if (*word)
        return HW_OK;
    if (!json_is_integer(who) || n <= 0 || n > INT32_MAX)
        return hw_fail(err, HW_EINVAL, 0, "pid must be a process's number, \"all\" or \"new\"");
    *pid = (int32_t)n;
    return HW_OK;
}

static int read_how(const json_t *words, struct hw_tracked_how *out, struct hw_error *err)
{
    const json_t *rate = json_object_get(words, "sampling_rate");
    const json_t *stacks = json_object_get(words, "stack_mode");
    *out = (struct hw_tracked_how){0};
    if (rate && (!json_is_integer(rate) || json_integer_value(rate) < 1))
        return hw_fail(err, HW_EINVAL, 0,
                       "sampling_rate must be a number of bytes from 1: 1 is every allocation");
    if (rate)
        out->rate_bytes = (uint64_t)json_integer_value(rate);
    if (stacks) {
        const char *word = json_string_value(stacks);
        out->stack_mode = word ? hw_stack_mode_of(word) : HW_STACKS_COUNT;
        if (out->stack_mode == HW_STACKS_COUNT)
            return hw_fail(err, HW_EINVAL, 0,
                           "stack_mode must be native, native-with-thread-names, pseudo or mixed");
    }
    return HW_OK;
}

/* ---- actions ---- */

static int start(struct hw_web_tracked *d, const json_t *words, struct hw_error *err)
{
    struct hw_tracked_how how;
    const char *word;
    int32_t pid;
    int rc = read_who(words, &pid, &word, err);
    if (rc == HW_OK)
        rc = read_how(words, &how, err);
    if (rc < 0)
        return rc;
    if (!word)
        return hw_tracked_start(d->m, pid, &how, err);
    if (strcmp(word, "all") == 0)
        return hw_tracked_start_all(d->m, &how, err);
    if (strcmp(word, "new") == 0)
        return hw_tracked_set_mode(d->m, "all", &how, err);
    return hw_fail(err, HW_EINVAL, 0, "pid must be a process's number, \"all\" or \"new\"");
}

static int stop(struct hw_web_tracked *d, const json_t *words, struct hw_error *err)
{
    const char *word;
    int32_t pid;
    int rc = read_who(words, &pid, &word, err);
    if (rc == HW_OK && word && strcmp(word, "all") != 0)
        rc = hw_fail(err, HW_EINVAL, 0, "pid must be a process's number or \"all\"");
    return rc < 0 ? rc : hw_tracked_stop(d->m, pid, err);
}

static int set_mode(struct hw_web_tracked *d, const json_t *words, struct hw_error *err)
{
    const char *mode = json_string_value(json_object_get(words, "mode"));
    struct hw_tracked_how how;
    int rc = read_how(words, &how, err);
    if (rc < 0)
        return rc;
    if (!mode)
        return hw_fail(err, HW_EINVAL, 0, "mode must be a string");
    return hw_tracked_set_mode(d->m, mode, &how, err);
}

static int order(void *ctx, const char *verb, struct hw_bytes body, struct hw_json *j,
                 struct hw_error *err)
{
    static const struct {
        const char *verb;
        int (*run)(struct hw_web_tracked *d, const json_t *words, struct hw_error *err);
        const char *said; /* of the result */
    } orders[] = {{"start", start, "already"}, {"stop", stop, "stopped"}, {"mode", set_mode, NULL}};
    json_t *words;
    int rc = read_words(body, &words, err);
    if (rc < 0)
        return rc;
    hw_json_begin_object(j);
    for (size_t i = 0; i < HW_ARRAY_LEN(orders); i++)
        if (strcmp(orders[i].verb, verb) == 0) {
            rc = orders[i].run(ctx, words, err);
            if (rc >= 0 && orders[i].said)
                hw_json_kv_int(j, orders[i].said, rc);
        }
    hw_json_end_object(j);
    json_decref(words);
    return rc < 0 ? rc : HW_OK;
}

static int put(void *ctx, struct hw_json *j, struct hw_error *err)
{
    struct hw_web_tracked *d = ctx;
    struct hw_tracked_list list;
    int rc = hw_tracked_query(d->m, &list, err);
    if (rc < 0)
        return rc;
    hw_json_begin_object(j);
    hw_tracked_put(j, &list);
    pthread_mutex_lock(&d->lock);
    hw_json_kv_bool(j, "saving", d->saving);
    pthread_mutex_unlock(&d->lock);
    hw_json_end_object(j);
    hw_tracked_list_done(&list);
    return HW_OK;
}

/* ---- saving ---- */

typedef HW_VEC(int32_t) pid_vec;

static int read_save(const json_t *words, pid_vec *out, struct hw_error *err)
{
    const json_t *level = json_object_get(words, "level"), *pids, *pid;
    const char *word = json_string_value(level);
    size_t i;
    if (json_object_get(words, "path"))
        return hw_fail(err, HW_EPERM, 0,
                       "a page cannot name files; `heapwise memory-internals save -o FILE` can");
    if (level && (!word || strcmp(word, "detailed") != 0))
        return hw_fail(err, HW_EINVAL, 0,
                       "level must be detailed: only such dumps have heaps in them");
    pids = json_object_get(words, "processes");
    if (pids && (!json_is_array(pids) || json_array_size(pids) > MAX_PIDS))
        return hw_fail(err, HW_EINVAL, 0, "processes must be a list of numbers");
    json_array_foreach(pids, i, pid)
    {
        json_int_t n = json_integer_value(pid);
        if (n <= 0 || n > INT32_MAX)
            return hw_fail(err, HW_EINVAL, 0, "processes must be a list of numbers");
        if (hw_vec_push(out, (int32_t)n) < 0)
            return hw_fail(err, HW_ENOMEM, 0, "processes");
    }
    return HW_OK;
}

/* Its number; 0 = none, out of memory. */
static unsigned keep(struct hw_web_tracked *d, const struct hw_tracked_save *s)
{
    struct saved x = {realpath(s->json, NULL), realpath(s->trace, NULL)};
    unsigned id = 0;
    pthread_mutex_lock(&d->lock);
    if (x.json && x.trace && d->all.n < MAX_SAVES && hw_vec_push(&d->all, x) == HW_OK)
        id = (unsigned)d->all.n;
    pthread_mutex_unlock(&d->lock);
    if (!id) {
        free(x.json);
        free(x.trace);
    }
    return id;
}

static void put_saved(struct hw_json *j, const struct hw_tracked_save *s, unsigned id,
                      unsigned trace)
{
    hw_json_begin_object(j);
    hw_json_kv_uint(j, "id", id);
    hw_json_kv_uint(j, "trace_id", trace);
    hw_json_kv_str(j, "json", s->json);
    hw_json_kv_str(j, "trace", s->trace);
    hw_json_kv_uint(j, "processes", s->n - s->n_failed);
    hw_json_key(j, "failed");
    hw_json_begin_array(j);
    for (size_t i = 0; i < s->n; i++)
        if (s->all[i].state != HW_SAVED_DONE) {
            hw_json_begin_object(j);
            hw_json_kv_int(j, "pid", s->all[i].pid);
            hw_json_kv_str(j, "name", s->all[i].name);
            hw_json_kv_str(j, "why", s->all[i].why);
            hw_json_end_object(j);
        }
    hw_json_end_array(j);
    hw_json_end_object(j);
}

static int save_now(struct hw_web_tracked *d, struct hw_tracked_save *s, struct hw_json *j,
                    struct hw_error *err)
{
    struct hw_error ignored = {0};
    unsigned trace = 0;
    int rc = hw_tracked_save(d->m, s, err);
    if (rc < 0)
        return rc;
    if (hw_pages_open(d->recorder->pages, s->json, &trace, &ignored) < 0)
        trace = 0; /* the files exist all the same */
    put_saved(j, s, keep(d, s), trace);
    return HW_OK;
}

static bool take_turn(struct hw_web_tracked *d, bool begin)
{
    pthread_mutex_lock(&d->lock);
    bool mine = begin != d->saving;
    d->saving = mine ? begin : d->saving;
    pthread_mutex_unlock(&d->lock);
    return mine;
}

static int save(void *ctx, struct hw_bytes body,
                void (*progress)(void *ctx, size_t n_done, size_t n_all), void *progress_ctx,
                struct hw_json *j, struct hw_error *err)
{
    struct hw_web_tracked *d = ctx;
    pid_vec pids = {0};
    json_t *words;
    int rc = read_words(body, &words, err);
    if (rc < 0)
        return rc;
    rc = read_save(words, &pids, err);
    if (rc == HW_OK && !take_turn(d, true))
        rc = hw_fail(err, HW_EBUSY, 0, "a dump is being saved already");
    else if (rc == HW_OK) {
        struct hw_tracked_save s = {.cli = d->recorder->cli,
                                    .pids = pids.v,
                                    .n_pids = pids.n,
                                    .progress = progress,
                                    .ctx = progress_ctx};
        rc = save_now(d, &s, j, err);
        (void)take_turn(d, false);
        hw_tracked_save_done(&s);
    }
    hw_vec_done(&pids);
    json_decref(words);
    return rc;
}

static int file(void *ctx, unsigned id, bool trace, char **path)
{
    struct hw_web_tracked *d = ctx;
    pthread_mutex_lock(&d->lock);
    const struct saved *x = id >= 1 && id <= d->all.n ? &d->all.v[id - 1] : NULL;
    *path = x ? strdup(trace ? x->trace : x->json) : NULL;
    pthread_mutex_unlock(&d->lock);
    return *path ? HW_OK : HW_ENOTFOUND;
}

/* ---- public functions ---- */

int hw_web_tracked_new(struct hw_web_recorder *recorder, struct hw_error *err)
{
    struct hw_web_tracked *d = calloc(1, sizeof *d);
    if (!d)
        return hw_fail(err, HW_ENOMEM, 0, "memory internals");
    int rc = hw_tracked_new(&d->m, err);
    if (rc < 0) {
        free(d);
        return rc;
    }
    d->recorder = recorder;
    pthread_mutex_init(&d->lock, NULL);
    recorder->own = d;
    recorder->internals = (struct hw_page_internals){
        .ctx = d, .put = put, .order = order, .save = save, .file = file};
    return HW_OK;
}

void hw_web_tracked_free(struct hw_web_tracked *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->all.n; i++) {
        free(d->all.v[i].json);
        free(d->all.v[i].trace);
    }
    hw_vec_done(&d->all);
    hw_tracked_free(d->m);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

const struct hw_page_internals *hw_web_recorder_page_tracked(const struct hw_web_recorder *d)
{
    return &d->internals;
}

struct hw_tracked *hw_web_tracked(struct hw_web_recorder *d)
{
    return d->own->m;
}

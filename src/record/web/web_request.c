#include "record/web/web_request.h"
#include "config/command/explain.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/json_out.h"
#include "config/command/settings.h"
#include "config/command/units.h"
#include "record/diagnosis.h"
#include "record/launch.h"
#include "record/service.h"

#include "base/banned.h"

enum { MAX_WORDS = 1000 };
#define LOW_DISK (UINT64_C(256) << 20)

/* ---- reading ---- */

/* Options that a page may use: none that names a file, a library or a tool. */
static const enum hw_option_id allowed[] = {
    HW_OPT_INTERVAL,
    HW_OPT_EXACT,
    HW_OPT_HEAP,
    HW_OPT_ALL_HEAPS,
    HW_OPT_DURATION,
    HW_OPT_CONTINUOUS,
    HW_OPT_DUMP_AT_MAX,
    HW_OPT_STOP_WHEN,
    HW_OPT_START_WHEN,
    HW_OPT_DUMP_WHEN,
    HW_OPT_IDLE,
    HW_OPT_NATIVE_ONLY,
    HW_OPT_SMAPS,
    HW_OPT_MALLOC_INFO,
    HW_OPT_SHMEM_SIZE,
    HW_OPT_BLOCK_CLIENT,
    HW_OPT_NO_BLOCK_CLIENT,
    HW_OPT_FOLLOW_FORK,
    HW_OPT_SEED,
    HW_OPT_BLOCK_TIMEOUT,
    HW_OPT_DISABLE_FORK_TEARDOWN,
    HW_OPT_PYTHON_ALLOCATORS,
    HW_OPT_NO_SYMBOLIZE,
};

static bool is_allowed(enum hw_option_id id)
{
    for (size_t i = 0; i < HW_ARRAY_LEN(allowed); i++)
        if (allowed[i] == id)
            return true;
    return false;
}

static int check_allowed(const struct hw_opts *o, struct hw_error *err)
{
    for (int i = 0; i < HW_OPT_COUNT; i++)
        if (o->v[i].origin && strcmp(o->v[i].origin, "command line") == 0 &&
            !is_allowed((enum hw_option_id)i))
            return hw_fail(err, HW_EPERM, 0, "option --%s cannot be used from a page",
                           hw_options[i].name);
    return HW_OK;
}

static int copy_words(const json_t *list, struct hw_web_request *w, struct hw_error *err)
{
    size_t n = json_array_size(list);
    if (n == 0 || n > MAX_WORDS)
        return hw_fail(err, HW_EINVAL, 0, "the command line was not sent (a list of strings)");
    w->argv = calloc(n + 1, sizeof *w->argv);
    if (!w->argv)
        return hw_fail(err, HW_ENOMEM, 0, "words");
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_array_get(list, i);
        const char *text = json_string_value(s);
        if (!text || strlen(text) != json_string_length(s))
            return hw_fail(err, HW_EINVAL, 0, "word %zu of the command line is not a string", i);
        w->argv[w->argc] = strdup(text);
        if (!w->argv[w->argc++])
            return hw_fail(err, HW_ENOMEM, 0, "words");
    }
    return HW_OK;
}

static int read_words(struct hw_bytes json, struct hw_web_request *w, struct hw_error *err)
{
    json_error_t where;
    json_t *root = json_loadb((const char *)json.p, json.n, JSON_REJECT_DUPLICATES, &where);
    int rc = root ? copy_words(json_object_get(root, "words"), w, err)
                  : hw_fail(err, HW_EINVAL, 0, "no JSON: %s", where.text);
    json_decref(root);
    return rc;
}

int hw_web_request_read(struct hw_bytes json, struct hw_web_request *out, struct hw_error *err)
{
    struct hw_web_request w = {.cli = {.program = "heapwise"}};
    int rc = read_words(json, &w, err);
    if (rc == HW_OK) {
        const struct hw_command *c = hw_command_find(w.argv[0]);
        if (!c || (c->id != HW_CMD_RECORD && c->id != HW_CMD_ATTACH))
            rc = hw_fail(err, HW_EINVAL, 0, "the first word must be record or attach");
        w.cli.command = c;
        w.attach = c && c->id == HW_CMD_ATTACH;
    }
    if (rc == HW_OK)
        rc = hw_opts_init(&w.cli.opts, w.cli.command, err);
    if (rc == HW_OK)
        rc = hw_settings_apply(&w.cli.opts, w.cli.command, err);
    if (rc == HW_OK)
        rc = hw_opts_parse(&w.cli.opts, w.cli.command, w.argc, w.argv, err);
    if (rc == HW_OK)
        rc = check_allowed(&w.cli.opts, err);
    for (size_t i = 0; rc == HW_OK && w.attach && i < w.cli.opts.n_args; i++)
        (void)hw_running_match(w.cli.opts.args[i], &w.pids); /* none: the checks say so */
    if (rc == HW_OK) {
        struct hw_record_words r = hw_web_record_request(&w);
        rc = hw_record_config(&r, &w.config, err);
    }
    if (rc < 0)
        hw_web_request_done(&w);
    else
        *out = w;
    return rc;
}

void hw_web_request_done(struct hw_web_request *w)
{
    hw_opts_done(&w->cli.opts);
    for (int i = 0; i < w->argc; i++)
        free(w->argv[i]);
    free(w->argv);
    hw_vec_done(&w->pids);
    hw_strbuf_done(&w->config);
    *w = (struct hw_web_request){0};
}

struct hw_record_words hw_web_record_request(const struct hw_web_request *w)
{
    return (struct hw_record_words){
        .opts = &w->cli.opts, .attach = w->attach, .pids = w->pids.v, .n_pids = w->pids.n};
}

static bool is_plain(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-+=:,./@%^";
    return word[0] && strspn(word, plain) == strlen(word);
}

void hw_web_request_shell(const struct hw_web_request *w, struct hw_strbuf *out)
{
    hw_strbuf_adds(out, "heapwise");
    for (int i = 0; i < w->argc; i++) {
        hw_strbuf_addc(out, ' ');
        if (is_plain(w->argv[i])) {
            hw_strbuf_adds(out, w->argv[i]);
            continue;
        }
        hw_strbuf_addc(out, '\'');
        for (const char *p = w->argv[i]; *p; p++)
            if (*p == '\'')
                hw_strbuf_adds(out, "'\\''");
            else
                hw_strbuf_addc(out, *p);
        hw_strbuf_addc(out, '\'');
    }
}

/* ---- checks ---- */

static void put(struct hw_json *j, const char *state, const char *what, const char *text,
                const char *code)
{
    hw_json_begin_object(j);
    hw_json_kv_str(j, "state", state);
    hw_json_kv_str(j, "what", what);
    hw_json_kv_str(j, "text", text);
    hw_json_kv_str(j, "code", code);
    hw_json_kv_str(j, "remedy", code ? hw_explain_remedy(code) : NULL);
    hw_json_end_object(j);
}

/* Who already records it; false = nobody. */
static bool find_holder(const struct hw_recorders *all, uint64_t pid, char *ref, size_t max)
{
    for (size_t r = 0; r < all->all.n; r++)
        for (size_t i = 0; i < all->all.v[r].state.sessions.n; i++) {
            const struct hw_service_session *s = &all->all.v[r].state.sessions.v[i];
            for (size_t k = 0; k < s->targets.n; k++)
                if ((uint64_t)s->targets.v[k].pid == pid) {
                    (void)snprintf(ref, max, "%s", s->ref);
                    return true;
                }
        }
    return false;
}

static bool check_pid(uint64_t pid, const struct hw_recorders *all, struct hw_json *j)
{
    struct hw_finding why = {0};
    char what[48], text[160], ref[24];
    (void)snprintf(what, sizeof what, "Process %llu", (unsigned long long)pid); /* fits */
    if (find_holder(all, pid, ref, sizeof ref)) {
        (void)snprintf(text, sizeof text, "recording %s has it; end that one first", ref);
        put(j, "bad", what, text, "rejected");
        return false;
    }
    hw_diagnose_pid(pid <= INT32_MAX ? (int32_t)pid : INT32_MAX, &why);
    if (hw_diagnose_is_readable(&why))
        put(j, "ok", what, "a Go program: what it allocates is read from outside", NULL);
    else if (why.code)
        put(j, "bad", what, why.text, why.code);
    else
        put(j, "ok", what, "can be profiled; it is not restarted", NULL);
    return !why.code || hw_diagnose_is_readable(&why);
}

static bool check_pids(struct hw_web_request *w, struct hw_json *j)
{
    struct hw_recorders all = {0};
    size_t kept = 0;
    (void)hw_recorders_query(&all, NULL); /* then nobody seems to record them */
    for (size_t i = 0; i < w->cli.opts.n_args; i++) {
        hw_running_pids found = {0};
        if (hw_running_match(w->cli.opts.args[i], &found) == 0)
            put(j, "bad", w->cli.opts.args[i], "no process of that name is running", "no-process");
        hw_vec_done(&found);
    }
    for (size_t i = 0; i < w->pids.n; i++)
        if (check_pid(w->pids.v[i], &all, j))
            w->pids.v[kept++] = w->pids.v[i];
    w->pids.n = kept;
    hw_recorders_done(&all);
    return kept != 0;
}

static bool check_command(const struct hw_web_request *w, bool commands, struct hw_json *j)
{
    struct hw_finding why = {0};
    struct hw_error err = {0};
    const char *name = w->cli.opts.n_args ? w->cli.opts.args[0] : "";
    if (!commands) {
        put(j, "bad", "Command",
            "this server starts no programs: it was not started with "
            "--allow-commands",
            NULL);
        return false;
    }
    hw_autofree char *program = name[0] ? hw_launch_find_program(name) : NULL;
    if (!program) {
        put(j, "bad", "Command", name[0] ? "there is no such program" : "none given", NULL);
        return false;
    }
    hw_diagnose_file(program, /* loads = */ false, &why);
    if (hw_diagnose_is_readable(&why))
        why.code = NULL;
    if (why.code)
        put(j, "bad", "Command", why.text, why.code);
    else
        put(j, "ok", "Command", program, NULL);
    hw_autofree char *library = NULL;
    int rc = hw_launch_find_library(hw_opt_text(&w->cli.opts, HW_OPT_PRELOAD_LIBRARY), NULL,
                                    &library, &err);
    if (rc < 0)
        put(j, "bad", "Client library", err.text, "library-not-found");
    return !why.code && rc == HW_OK;
}

static bool check_disk(struct hw_json *j)
{
    struct statvfs st;
    char text[4200], room[HW_UNIT_MAX];
    hw_autofree char *cwd = getcwd(NULL, 0);
    if (access(".", W_OK) < 0) {
        (void)snprintf(text, sizeof text, "'%s' cannot be written", cwd ? cwd : ".");
        put(j, "bad", "File", text, NULL);
        return false;
    }
    uint64_t free_bytes = statvfs(".", &st) == 0 ? (uint64_t)st.f_bavail * st.f_frsize : UINT64_MAX;
    (void)snprintf(text, sizeof text, "%s free in '%s'", hw_fmt_bytes(room, (double)free_bytes),
                   cwd ? cwd : ".");
    put(j, free_bytes < LOW_DISK ? "warn" : "ok", "File", text, NULL);
    return true;
}

bool hw_web_recorder_check(struct hw_web_request *w, bool commands, struct hw_json *j)
{
    struct hw_error err = {0};
    struct hw_record_words r = hw_web_record_request(w);
    hw_json_begin_array(j);
    bool good = hw_record_check(&r, &err) == HW_OK;
    if (!good)
        put(j, "bad", "Options", err.text, NULL);
    if (w->cli.opts.n_args)
        good &= w->attach ? check_pids(w, j) : check_command(w, commands, j);
    else if (good) {
        put(j, "bad", "Target", "no command given", NULL);
        good = false;
    }
    good &= check_disk(j);
    hw_json_end_array(j);
    return good;
}

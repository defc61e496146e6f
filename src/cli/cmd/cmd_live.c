/*
 * heapwise live [PID|NAME]: who holds the heap of a process right now, refreshed continuously.
 *
 * A process that is already being recorded is viewed through its recorder. Any other is attached to
 * as by `heapwise attach`, into an unnamed file, and detached from at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/json_out.h"
#include "cli/all_recorders.h"
#include "cli/cli.h"
#include "cli/screen/live_screen.h"
#include "cli/screen/screen.h"
#include "cli/screen/tree_screen.h"
#include "proc/pid.h"
#include "record/controller.h"
#include "record/output.h"
#include "record/running.h"
#include "record/service.h"
#include "record/web/web_recorder.h"

#include "base/banned.h"
#include "cli/parts/json_page.h"

enum { WAIT_MS = 10000, CLONE_MS = 15000, COPY_BYTES = 1 << 16 };
static const uint64_t ms = 1000000; /* ns */

struct live {
    struct hw_cli *cli;
    int32_t pid;
    struct hw_web_recorder *recorder; /* NULL: somebody else records it */
    unsigned recording;
    struct hw_live_source *source; /* NULL: not yet */
    struct hw_live_model model;
    struct hw_live_screen_state looks;
    struct hw_tree_view tree;
    unsigned tree_flags;
    uint64_t every_ns, next_ns;
    bool over; /* no more snapshots will come */
};

static volatile sig_atomic_t stopped;

static void on_stop(int sig)
{
    (void)sig;
    stopped = 1;
}

static const char *const keys[][2] = {
    {"arrows, hjkl", "move; in the tree open and close"},
    {"Tab", "table or call tree"},
    {"Enter", "the function in the tree; open or close"},
    {"s t g c", "order: self, total, growth, count"},
    {"b", "baseline: growth counts from now"},
    {"/  Esc", "only names with this; all again. In the tree: search"},
    {"n N  *  -", "tree: next, previous match; open, close all below"},
    {"m  i", "tree: metric, bottom-up"},
    {"Space", "pause, resume"},
    {"d", "a dump into the recording's file"},
    {"e", "save what was recorded so far as a trace"},
    {"u", "how to see this in a browser"},
    {"q", "quit"},
    {NULL, NULL},
};

static void say(struct live *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct live *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(l->looks.said, sizeof l->looks.said, fmt, ap); /* cut is fine */
    va_end(ap);
}

/* ---- which process ---- */

/* Without an argument: the process being recorded. */
static int find_recorded(struct live *l)
{
    struct hw_recorders all;
    struct hw_error err = {0};
    size_t n = 0;
    if (hw_cli_query_recorders(l->cli, &all, &err) < 0)
        return hw_cli_fail(l->cli, &err);
    for (size_t r = 0; r < all.all.n; r++)
        for (size_t i = 0; i < all.all.v[r].state.sessions.n; i++)
            for (size_t k = 0; k < all.all.v[r].state.sessions.v[i].targets.n; k++) {
                l->pid = all.all.v[r].state.sessions.v[i].targets.v[k].pid;
                n++;
            }
    hw_recorders_done(&all);
    if (n == 1)
        return HW_EXIT_OK;
    hw_cli_error(l->cli, NULL,
                 n ? "%zu processes are being recorded; which one?" : "which process?", n);
    hw_cli_hint("heapwise ps; heapwise live PID");
    return hw_cli_usage_exit(l->cli);
}

static int find_process(struct live *l)
{
    hw_running_pids pids = {0};
    if (l->cli->opts.n_args == 0)
        return find_recorded(l);
    int status = hw_running_find(l->cli, &pids);
    if (status == HW_EXIT_OK && pids.n > 1) {
        hw_cli_error(l->cli, NULL, "%zu processes have that name; which one?", pids.n);
        hw_cli_hint("heapwise ps %s", l->cli->opts.args[0]);
        status = HW_EXIT_FAILED;
    }
    if (status == HW_EXIT_OK)
        l->pid = (int32_t)pids.v[0];
    hw_vec_done(&pids);
    return status;
}

/* ---- its recorder ---- */

static void put_option(struct hw_json *j, const struct hw_opts *o, enum hw_option_id id)
{
    char name[64];
    (void)snprintf(name, sizeof name, "--%s", hw_options[id].name); /* fits */
    if (!o->v[id].set)
        return;
    if (hw_options[id].kind == HW_OK_FLAG) {
        if (hw_opt_flag(o, id))
            hw_json_str(j, name);
        return;
    }
    hw_json_str(j, name);
    hw_json_str(j, o->v[id].text);
}

static int attach(struct live *l, struct hw_error *err)
{
    static const enum hw_option_id passed[] = {HW_OPT_INTERVAL, HW_OPT_EXACT, HW_OPT_HEAP,
                                               HW_OPT_ALL_HEAPS, HW_OPT_SHMEM_SIZE};
    struct hw_json j;
    char pid[16];
    (void)snprintf(pid, sizeof pid, "%d", l->pid);
    hw_json_init(&j, NULL, NULL, /* pretty = */ false);
    hw_json_begin_object(&j);
    hw_json_key(&j, "words");
    hw_json_begin_array(&j);
    hw_json_str(&j, "attach");
    for (size_t i = 0; i < HW_ARRAY_LEN(passed); i++)
        put_option(&j, &l->cli->opts, passed[i]);
    hw_json_str(&j, pid);
    hw_json_end_array(&j);
    hw_json_end_object(&j);
    int rc = hw_json_finish(&j);
    if (rc == HW_OK)
        rc = hw_web_recorder_new(l->cli, /* commands = */ false, &l->recorder, err);
    if (rc == HW_OK)
        rc = hw_web_recorder_watch(l->recorder, hw_bytes_of(j.buf.p, j.buf.n), &l->recording, err);
    hw_json_done(&j);
    return rc;
}

static void name_it(struct live *l)
{
    l->looks.name = hw_live_source_name(l->source);
    l->looks.ref = hw_live_source_ref(l->source);
}

static int begin(struct live *l, struct hw_error *err)
{
    int rc = hw_live_source_open(0, l->pid, &l->source, err);
    if (rc == HW_ENOTFOUND) {
        l->looks.own = true;
        *err = (struct hw_error){0};
        return attach(l, err);
    }
    if (rc == HW_OK)
        name_it(l);
    return rc;
}

/* ---- readings ---- */

static int build_tree(struct live *l)
{
    struct hw_flame flame = {0};
    const struct hw_live_now *x = &l->model.now;
    if (!x->p)
        return HW_OK;
    int rc = hw_flame_build(x->p->callsites, x->functions, &x->values, l->tree_flags, &flame);
    l->tree.program = x->program;
    l->tree.places = x->places;
    if (rc == HW_OK)
        rc = hw_tree_view_set(&l->tree, &flame, x->functions, x->p->callsites, &x->namer);
    hw_flame_done(&flame);
    return rc;
}

/*
 * If the process has ended, and perhaps with it a recorder that had no other, a failed snapshot is
 * reported as the end of the process.
 */
static void end(struct live *l, const char *why)
{
    struct hw_pid p = HW_PID_NONE;
    bool has_ended = hw_pid_open(l->pid, &p, NULL) == HW_EGONE;
    hw_pid_done(&p);
    l->over = true;
    say(l, "%.200s; q quits", has_ended || !why[0] ? "the process has ended" : why);
}

/* The recorder has the process once that has responded, at its next allocation. */
static void find_source(struct live *l)
{
    char why[256];
    struct hw_error ignored;
    int recorder = l->recorder ? hw_web_recorder_recorder_pid(l->recorder, l->recording) : 0;
    if ((recorder || !l->recorder) &&
        hw_live_source_open(recorder, l->pid, &l->source, &ignored) == HW_OK) {
        name_it(l);
        return;
    }
    l->source = NULL;
    if (l->recorder && hw_web_recorder_is_over(l->recorder, l->recording, why, sizeof why))
        end(l, why);
}

static int look(struct live *l, struct hw_error *err)
{
    struct hw_control_live facts;
    hw_autofd int fd = -1;
    if (!l->source)
        find_source(l);
    if (!l->source)
        return l->over ? HW_EGONE : HW_EBUSY;
    int rc = hw_live_source_fetch(l->source, &fd, &facts, err);
    if (rc == HW_OK)
        rc = hw_live_model_update(&l->model, fd, &facts, hw_proc_rss_bytes(l->pid),
                                  hw_now_monotonic_ns(), err);
    if (rc == HW_OK && l->looks.tree)
        rc = build_tree(l);
    if (rc < 0)
        end(l, err->code ? err->text : hw_errc_text(rc));
    else
        hw_live_model_sort(&l->model, l->looks.order);
    return rc;
}

/* ---- what keys do ---- */

static int copy(int from, int to, uint64_t n, struct hw_error *err)
{
    hw_autofree char *buffer = malloc(COPY_BYTES);
    if (!buffer)
        return hw_fail(err, HW_ENOMEM, 0, "copy");
    for (uint64_t at = 0; at < n;) {
        size_t want = n - at < COPY_BYTES ? (size_t)(n - at) : COPY_BYTES;
        if (hw_fd_pread_all(from, buffer, want, at) < 0 || hw_fd_write_all(to, buffer, want) < 0)
            return hw_fail_sys(err, "cannot copy the trace");
        at += want;
    }
    return HW_OK;
}

static int save_clone(struct live *l, struct hw_output *out, struct hw_error *err)
{
    struct hw_controller *c = hw_live_source_controller(l->source);
    struct hw_controller_event e;
    struct hw_control_cloned cloned;
    int rc = hw_controller_clone(c, hw_live_source_id(l->source), "", err);
    if (rc == HW_OK)
        rc = hw_controller_wait(c, HW_CTL_CLONED, CLONE_MS, &e, err);
    if (rc < 0)
        return rc;
    hw_autofd int fd = hw_controller_take_fd(c);
    if (!hw_controller_body(&e, &cloned, sizeof cloned) || fd < 0)
        return hw_fail(err, HW_EFORMAT, 0, "the recorder sent no trace");
    rc = hw_output_open(NULL, l->looks.name, l->pid, /* force = */ false, out, err);
    if (rc == HW_OK)
        rc = copy(fd, out->fd, cloned.bytes, err);
    if (rc == HW_OK)
        rc = hw_output_finish(out, l->looks.name, l->pid, err);
    if (rc < 0)
        hw_output_discard(out);
    return rc;
}

static void save(struct live *l)
{
    struct hw_output out = HW_OUTPUT_NONE;
    struct hw_error err = {0};
    if (!l->source)
        return;
    int rc = save_clone(l, &out, &err);
    if (rc == HW_OK)
        say(l, "saved %.200s", out.final_name);
    else
        say(l, "not saved: %.200s", err.code ? err.text : hw_errc_text(rc));
    hw_output_done(&out);
}

static void dump(struct live *l)
{
    struct hw_error err = {0};
    if (!l->source || l->looks.own) {
        say(l, "this recording leaves no file; e saves it as a trace");
        return;
    }
    if (hw_controller_dump(hw_live_source_controller(l->source), &l->pid, 1, &err) < 0)
        say(l, "%.200s", err.text);
    else
        say(l, "dump requested, recording %s", l->looks.ref);
}

static void order(struct live *l, enum hw_live_order by)
{
    l->looks.order = by;
    l->looks.at = 0;
    hw_live_model_sort(&l->model, by);
}

static void show_tree(struct live *l, bool on)
{
    l->looks.tree = on;
    if (on && build_tree(l) < 0)
        say(l, "out of memory");
}

/* The function of the selected row of the tree. */
static void enter(struct live *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->model.now.rows.n; i++) {
        const struct hw_live_row *r = &l->model.now.rows.v[i];
        if (!hw_live_row_shown(r, l->looks.filter) || n++ != l->looks.at)
            continue;
        (void)snprintf(l->tree.search, sizeof l->tree.search, "%s", r->label); /* cut is fine */
        show_tree(l, true);
        (void)hw_tree_view_find(&l->tree, /* backwards = */ false); /* else at the root */
        return;
    }
}

static void table_key(struct live *l, int key, int page)
{
    size_t *at = &l->looks.at, step = page > 2 ? (size_t)page - 1 : 1;
    switch (key) {
    case HW_KEY_UP:
    case 'k':
        *at -= *at > 0;
        break;
    case HW_KEY_DOWN:
    case 'j':
        ++*at; /* drawing clamps it */
        break;
    case HW_KEY_PAGE_UP:
        *at = *at > step ? *at - step : 0;
        break;
    case HW_KEY_PAGE_DOWN:
        *at += step;
        break;
    case HW_KEY_HOME:
        *at = 0;
        break;
    case HW_KEY_END:
        *at = l->model.now.rows.n;
        break;
    case HW_KEY_ENTER:
    case HW_KEY_RIGHT:
        enter(l);
        break;
    case HW_KEY_ESCAPE:
        l->looks.filter[0] = '\0';
        break;
    default:
        break;
    }
}

static void ask(struct live *l, struct hw_screen *s)
{
    if (!l->looks.tree) {
        if (hw_screen_prompt(s, "/", l->looks.filter, sizeof l->looks.filter))
            l->looks.at = 0;
    } else if (hw_screen_prompt(s, "/", l->tree.search, sizeof l->tree.search) &&
               l->tree.search[0] && !hw_tree_view_find(&l->tree, /* backwards = */ false)) {
        say(l, "no name contains '%.100s'", l->tree.search);
    }
}

/* False: quit. */
static bool on_key(struct live *l, struct hw_screen *s, int key)
{
    if (key != HW_KEY_NONE && key != HW_KEY_RESIZE && !l->over)
        l->looks.said[0] = '\0';
    switch (key) {
    case 'q':
    case HW_KEY_GONE:
        return false;
    case '?':
        hw_screen_help(s, keys);
        break;
    case ' ':
        l->looks.paused = !l->looks.paused;
        break;
    case 'b':
        hw_live_model_rebase(&l->model);
        hw_live_model_sort(&l->model, l->looks.order);
        say(l, "growth counts from now");
        break;
    case 's':
        order(l, HW_LIVE_BY_SELF);
        break;
    case 't':
        order(l, HW_LIVE_BY_TOTAL);
        break;
    case 'g':
        order(l, HW_LIVE_BY_GROWTH);
        break;
    case 'c':
        order(l, HW_LIVE_BY_COUNT);
        break;
    case 'd':
        dump(l);
        break;
    case 'e':
        save(l);
        break;
    case 'u':
        say(l, "heapwise serve prints an address; its page Live shows this process");
        break;
    case '/':
        ask(l, s);
        break;
    case HW_KEY_TAB:
        show_tree(l, !l->looks.tree);
        break;
    case 'i':
        l->tree_flags ^= HW_FLAME_INVERTED;
        show_tree(l, true);
        break;
    default:
        if (l->looks.tree)
            (void)hw_tree_view_key(&l->tree, key, s->rows - 7); /* other keys are ignored */
        else
            table_key(l, key, s->rows - 7);
        break;
    }
    return true;
}

static int run_screen(struct live *l, struct hw_error *err)
{
    struct hw_screen s;
    int rc = hw_screen_begin(&s, l->cli, err);
    bool go_on = rc == HW_OK;
    while (go_on) {
        struct hw_error ignored = {0};
        uint64_t now = hw_now_monotonic_ns();
        if (!l->over && !l->looks.paused && now >= l->next_ns) {
            l->next_ns = now + (l->source ? l->every_ns : 200 * ms);
            (void)look(l, &ignored); /* reported on the screen */
        }
        hw_live_draw(&s, &l->model, &l->looks, &l->tree);
        now = hw_now_monotonic_ns();
        bool waits = !l->over && !l->looks.paused;
        int timeout = waits ? now < l->next_ns ? (int)((l->next_ns - now) / ms) + 1 : 0 : -1;
        go_on = on_key(l, &s, hw_screen_key(&s, timeout));
    }
    if (rc == HW_OK)
        hw_screen_end(&s);
    return rc;
}

/* ---- without a screen ---- */

static void print_look(const struct live *l, bool more)
{
    const struct hw_opts *o = &l->cli->opts;
    size_t top = hw_opt_num(o, HW_OPT_TOP);
    if (hw_opt_flag(o, HW_OPT_JSON)) {
        struct hw_json j;
        hw_json_page_begin(&j, stdout, "live", more ? HW_PAGE_DENSE : 0);
        hw_live_json(&j, &l->model, &l->looks, top);
        (void)hw_json_page_end(&j); /* main checks ferror */
    } else {
        (void)hw_live_print(&l->model, &l->looks, top, hw_cli_width(STDOUT_FILENO));
        if (more)
            putchar('\n');
    }
    (void)fflush(stdout); /* the same */
}

static int not_seen(struct live *l)
{
    hw_cli_error(l->cli, l->over ? NULL : "never-allocated",
                 l->over ? "%.*s" : "the process allocated nothing within %.*s s",
                 l->over ? (int)strcspn(l->looks.said, ";") : 2, l->over ? l->looks.said : "10");
    return HW_EXIT_NO_DATA;
}

/* once: a second snapshot after one interval, so that there are rates. */
static int run_plain(struct live *l, bool once)
{
    struct sigaction stop = {.sa_handler = on_stop};
    uint64_t begin_ns = hw_now_monotonic_ns();
    unsigned n = 0;
    (void)sigaction(SIGINT, &stop, NULL);
    (void)sigaction(SIGTERM, &stop, NULL);
    while (!stopped && !l->over && !ferror(stdout)) {
        struct hw_error err = {0};
        int rc = look(l, &err);
        if (rc == HW_OK && (!once || ++n > 1))
            print_look(l, !once);
        if (once && n > 1)
            break;
        if (!l->source && hw_now_monotonic_ns() - begin_ns > WAIT_MS * ms)
            break;
        if (!l->over)
            (void)poll(NULL, 0, l->source ? (int)(l->every_ns / ms) : 100); /* until a signal */
    }
    if (once && n == 1 && l->model.first_ns) { /* it ended meanwhile: prints what was seen */
        print_look(l, false);
        return HW_EXIT_OK;
    }
    return l->model.first_ns || stopped ? HW_EXIT_OK : not_seen(l);
}

int hw_cmd_live(struct hw_cli *cli)
{
    struct live l = {.cli = cli,
                     .looks = {.name = "", .ref = "", .order = HW_LIVE_BY_SELF},
                     .tree_flags = HW_FLAME_SITES,
                     .every_ns = hw_opt_num(&cli->opts, HW_OPT_LIVE_EVERY) * ms};
    struct hw_error err = {0};
    if (cli->opts.n_args > 1) {
        hw_cli_error(cli, NULL, "more than one process");
        return hw_cli_usage_exit(cli);
    }
    int status = find_process(&l);
    if (status != HW_EXIT_OK)
        return status;
    l.looks.pid = l.pid;
    bool once = hw_opt_flag(&cli->opts, HW_OPT_LIVE_ONCE);
    int rc = begin(&l, &err);
    if (rc == HW_OK && !once && hw_screen_possible(cli))
        rc = run_screen(&l, &err);
    else if (rc == HW_OK)
        status = run_plain(&l, once);
    hw_live_source_free(l.source);
    hw_web_recorder_free(l.recorder); /* leaves the process as it found it */
    hw_tree_view_done(&l.tree);
    hw_live_model_done(&l.model);
    return rc < 0 ? hw_cli_fail(cli, &err) : status;
}

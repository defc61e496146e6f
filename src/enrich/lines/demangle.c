/*
 * libiberty's printers hand their text to a callback piece by piece and keep everything on the
 * stack, but cannot be told to stop. A hostile name can make them print for hours, so the callback
 * leaves by longjmp once the limit is passed; nothing is lost by that, as nothing was allocated.
 *
 * It also searches everything that a name refers back to for parameter packs, without printing a
 * byte: 300 bytes of `c<b<...>, S_>` keep it busy for years. Names with many back references run
 * against a timer of the thread's processor time, whose signal leaves the same way. Of 66,764 names
 * of clang's libraries none took half a millisecond.
 *
 * D's demangler allocates; its output is bounded by limiting the input and its back references.
 */
#include "enrich/lines/demangle.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <libiberty/demangle.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory/arena.h"
#include "base/text/strbuf.h"

#include "base/banned.h"

/* Above this libiberty refuses unless told that the stack may be used; with HW_DEMANGLE_MAX_IN the
 * parser's depth stays below 2 MiB of stack. */
#define LIBIBERTY_SOFT_MAX 1024u
#define D_MAX_IN           1024u
#define D_MAX_REFERENCES   40u

#define MANY_REFERENCES 12u
#define MAX_CPU_NS      100000000
#define MAX_SPENT_NS    UINT64_C(5000000000) /* for those, of one demangler */
#define MAX_KEPT        (256u << 20)         /* bytes of names, the same */
#define MAX_TOO_SLOW    20u /* per demangler; then names with many references stay as they are */

struct hw_demangler {
    const struct hw_strings *names; /* borrowed */
    const char **shown;             /* by id; NULL = not asked yet */
    size_t n;
    unsigned n_too_slow;
    uint64_t spent_ns;
    size_t n_kept;
    struct hw_arena arena;
};

struct sink {
    sigjmp_buf stop;
    bool too_slow;
    size_t n;
    char text[HW_DEMANGLE_MAX_OUT + 1];
};

static void sink_add(const char *p, size_t n, void *opaque)
{
    struct sink *s = opaque;
    if (n > HW_DEMANGLE_MAX_OUT - s->n)
        siglongjmp(s->stop, 1);
    memcpy(s->text + s->n, p, n);
    s->n += n;
}

static int has_control(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
            return 1;
    return 0;
}

/* Whose time runs, on this thread. */
static _Thread_local struct sink *timed;

static void on_time(int number)
{
    (void)number;
    struct sink *s = timed; /* a signal that comes after everything is done finds none */
    timed = NULL;
    if (s)
        siglongjmp(s->stop, 2);
}

static bool start_timer(timer_t *out)
{
    struct sigaction act = {.sa_handler = on_time, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGVTALRM};
    const struct itimerspec limit = {.it_value = {0, MAX_CPU_NS}};
    sigset_t ours;
    event._sigev_un._tid = gettid(); /* this C library has no other name for it */
    (void)sigemptyset(&ours);
    (void)sigaddset(&ours, SIGVTALRM);
    if (sigaction(SIGVTALRM, &act, NULL) < 0 || pthread_sigmask(SIG_UNBLOCK, &ours, NULL) != 0 ||
        timer_create(CLOCK_THREAD_CPUTIME_ID, &event, out) < 0)
        return false;
    return timer_settime(*out, 0, &limit, NULL) == 0;
}

/* volatile-free: everything that is read after the jump lives in *s. */
static int run(struct sink *s, const char *raw, int rust, int options)
{
    int stopped = sigsetjmp(s->stop, /* savemask = */ 0);
    if (stopped) {
        s->too_slow |= stopped == 2;
        return 0;
    }
    s->n = 0;
    int ok = rust ? rust_demangle_callback(raw, options, sink_add, s)
                  : cplus_demangle_v3_callback(raw, options, sink_add, s);
    return ok && s->n > 0 && !has_control(s->text, s->n);
}

static int run_either(struct sink *s, const char *raw, int options)
{
    return run(s, raw, /* rust = */ 1, DMGL_PARAMS) ||
           (!s->too_slow && run(s, raw, /* rust = */ 0, options));
}

/* The mask is restored after a jump out of the handler, too. Without a timer the name stays. */
static int run_timed(struct sink *s, const char *raw, int options)
{
    timer_t timer;
    sigset_t before;
    int ok = 0;
    if (pthread_sigmask(SIG_SETMASK, NULL, &before) != 0)
        return 0;
    timed = s;
    if (start_timer(&timer)) {
        ok = run_either(s, raw, options);
        timed = NULL;
        (void)timer_delete(timer);
    }
    timed = NULL;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok && !s->too_slow;
}

static size_t count(const char *text, const char *any)
{
    size_t n = 0;
    while ((text = strpbrk(text, any))) {
        text++;
        n++;
    }
    return n;
}

static char *demangle_d(const char *raw, size_t n)
{
    if (n > D_MAX_IN || count(raw, "Q") > D_MAX_REFERENCES)
        return NULL;
    char *text = dlang_demangle(raw, DMGL_PARAMS);
    if (text && (strlen(text) > HW_DEMANGLE_MAX_OUT || has_control(text, strlen(text)))) {
        free(text);
        return NULL;
    }
    return text;
}

static bool has_many(const char *raw)
{
    return count(raw, "STB") >= MANY_REFERENCES;
}

/* try_all: names that may take long, too. */
static char *demangle(const char *raw, bool try_all, bool *too_slow)
{
    size_t n = strlen(raw);
    if (n < 3 || n > HW_DEMANGLE_MAX_IN || raw[0] != '_')
        return NULL;
    if (raw[1] == 'D')
        return demangle_d(raw, n);
    if (raw[1] != 'Z' && raw[1] != 'R' && raw[1] != '_')
        return NULL;
    bool many = has_many(raw);
    struct sink *s = many && !try_all ? NULL : malloc(sizeof *s);
    if (!s)
        return NULL;
    s->too_slow = false;
    int options = DMGL_PARAMS | DMGL_ANSI | (n > LIBIBERTY_SOFT_MAX ? DMGL_NO_RECURSE_LIMIT : 0);
    char *out = NULL;
    if (many ? run_timed(s, raw, options) : run_either(s, raw, options)) {
        out = malloc(s->n + 1);
        if (out) {
            memcpy(out, s->text, s->n);
            out[s->n] = 0;
        }
    }
    *too_slow = s->too_slow;
    free(s);
    return out;
}

char *hw_demangle_text(const char *raw)
{
    bool too_slow;
    return demangle(raw, /* try_all = */ true, &too_slow);
}

int hw_demangler_new(const struct hw_strings *names, struct hw_demangler **out)
{
    struct hw_demangler *d = calloc(1, sizeof *d);
    if (!d)
        return HW_ENOMEM;
    d->names = names;
    *out = d;
    return HW_OK;
}

void hw_demangler_free(struct hw_demangler *d)
{
    if (!d)
        return;
    hw_arena_done(&d->arena);
    free(d->shown);
    free(d);
}

/* The table of names may have grown since the last call. */
static int room_for(struct hw_demangler *d, uint32_t id)
{
    if (id < d->n)
        return HW_OK;
    size_t want = hw_strings_count(d->names);
    if (want <= id)
        return HW_ENOTFOUND;
    const char **grown = realloc(d->shown, want * sizeof *grown);
    if (!grown)
        return HW_ENOMEM;
    for (size_t i = d->n; i < want; i++)
        grown[i] = NULL;
    d->shown = grown;
    d->n = want;
    return HW_OK;
}

/* Millions of names, each just fast enough, take hours, too. */
static char *demangle_within(struct hw_demangler *d, const char *name)
{
    bool try_all = d->n_too_slow < MAX_TOO_SLOW && d->spent_ns < MAX_SPENT_NS, too_slow = false;
    uint64_t before = has_many(name) ? hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
    char *text = demangle(name, try_all, &too_slow);
    d->n_too_slow += too_slow;
    d->spent_ns += before ? hw_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before : 0;
    return text;
}

const char *hw_demangle(struct hw_demangler *d, hw_str_id raw)
{
    const char *name = hw_strings_cstr(d->names, raw);
    if (room_for(d, raw.v) < 0)
        return name;
    if (d->shown[raw.v])
        return d->shown[raw.v];
    char *text = d->n_kept < MAX_KEPT ? demangle_within(d, name) : NULL;
    size_t n = text ? strlen(text) : 0;
    const char *kept = text ? hw_arena_copy(&d->arena, text, n) : NULL;
    free(text);
    d->n_kept += n;
    d->shown[raw.v] = kept ? kept : name;
    return d->shown[raw.v];
}

const char *hw_demangle_shown(void *ctx, hw_str_id raw)
{
    return hw_demangle(ctx, raw);
}

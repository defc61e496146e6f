/*
 * The library has no limits of its own for size and time, and follows redirections for ever. It
 * calls us back at least once a second, also while nothing comes; before the first byte the number
 * it gives is that of the calls.
 */
#include "enrich/symbols/debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"

#include "base/banned.h"

#define LIBRARY "libdebuginfod.so.1"

#define MAX_BYTES   (UINT64_C(4) << 30)
#define MAX_SECS    600u
#define STALL_SECS  90u
#define STALL_BYTES (16u << 10)
#define NS_OF_A_SEC UINT64_C(1000000000)

enum ending { GOES_ON, STOPPED, TOO_LARGE, TOO_LONG, STALLED };

/* As <elfutils/debuginfod.h> declares them; the library's interface is frozen. */
struct hw_debuginfod {
    void *library;
    void *client;
    void *(*begin)(void);
    void (*end)(void *client);
    int (*find_debuginfo)(void *client, const unsigned char *build_id, int n, char **path);
    int (*find_executable)(void *client, const unsigned char *build_id, int n, char **path);
    void (*set_progress)(void *client, int (*fn)(void *client, long a, long b));

    hw_debuginfod_wait_fn wait;
    void *ctx;
    uint64_t max_bytes, max_ns, stall_ns;
    bool gave_up; /* a server that is slow with one file is slow with fifty */

    /* the current file */
    enum ending ending;
    uint64_t started_ns, grew_ns, grew_at;
};

bool hw_debuginfod_configured(void)
{
    const char *urls = getenv("DEBUGINFOD_URLS");
    return urls && urls[strspn(urls, " \t")];
}

bool hw_debuginfod_installed(void)
{
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    if (library)
        (void)dlclose(library);
    return library != NULL;
}

/* POSIX lets an object pointer become a function's; ISO C does not. */
static bool bind(void *library, const char *name, void *slot)
{
    void *found = dlsym(library, name);
    memcpy(slot, &found, sizeof found);
    return found != NULL;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t v = text && text[0] >= '1' && text[0] <= '9' ? strtoull(text, NULL, 10) : 0;
    return v ? v : otherwise;
}

static enum ending look(struct hw_debuginfod *d, uint64_t done, uint64_t total)
{
    uint64_t now = hw_now_monotonic_ns();
    if (d->wait && d->wait(d->ctx, total ? done : 0, total))
        return STOPPED;
    if (done > d->max_bytes || total > d->max_bytes)
        return TOO_LARGE;
    if (now - d->started_ns > d->max_ns)
        return TOO_LONG;
    if (done >= d->grew_at + STALL_BYTES) {
        d->grew_at = done;
        d->grew_ns = now;
    }
    return now - d->grew_ns > d->stall_ns ? STALLED : GOES_ON;
}

/* Whose file is fetched: the library's own way to keep it is newer than some of its versions. */
static _Thread_local struct hw_debuginfod *at_work;

static int on_progress(void *client, long a, long b)
{
    struct hw_debuginfod *d = at_work;
    (void)client;
    if (d && d->ending == GOES_ON)
        d->ending = look(d, a > 0 ? (uint64_t)a : 0, b > 0 ? (uint64_t)b : 0);
    return !d || d->ending != GOES_ON;
}

int hw_debuginfod_new(hw_debuginfod_wait_fn wait, void *ctx, struct hw_debuginfod **out)
{
    if (!hw_debuginfod_configured())
        return HW_ENOTFOUND;
    struct hw_debuginfod *d = calloc(1, sizeof *d);
    if (!d)
        return HW_ENOMEM;
    d->library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);
    bool whole = d->library && bind(d->library, "debuginfod_begin", &d->begin) &&
                 bind(d->library, "debuginfod_end", &d->end) &&
                 bind(d->library, "debuginfod_find_debuginfo", &d->find_debuginfo) &&
                 bind(d->library, "debuginfod_find_executable", &d->find_executable) &&
                 bind(d->library, "debuginfod_set_progressfn", &d->set_progress);
    d->client = whole ? d->begin() : NULL;
    if (!d->client) {
        hw_debuginfod_free(d);
        return HW_EUNSUPPORTED;
    }
    d->wait = wait;
    d->ctx = ctx;
    d->max_bytes = setting("DEBUGINFOD_MAXSIZE", MAX_BYTES);
    d->max_ns = setting("DEBUGINFOD_MAXTIME", MAX_SECS) * NS_OF_A_SEC;
    d->stall_ns = setting("DEBUGINFOD_TIMEOUT", STALL_SECS) * NS_OF_A_SEC;
    d->set_progress(d->client, on_progress);
    *out = d;
    return HW_OK;
}

void hw_debuginfod_free(struct hw_debuginfod *d)
{
    if (!d)
        return;
    if (d->client)
        d->end(d->client);
    if (d->library)
        (void)dlclose(d->library);
    free(d);
}

static int fetch(struct hw_debuginfod *d,
                 int (*find)(void *client, const unsigned char *build_id, int n, char **path),
                 struct hw_bytes build_id)
{
    d->ending = GOES_ON;
    d->grew_at = 0;
    d->started_ns = d->grew_ns = hw_now_monotonic_ns();
    at_work = d;
    int got = find(d->client, build_id.p, (int)build_id.n, NULL);
    at_work = NULL;
    return got;
}

static int tell_failure(const struct hw_debuginfod *d, int code, struct hw_error *err)
{
    switch (d->ending) {
    case STOPPED:
        return hw_fail(err, HW_EGONE, 0, "stopped");
    case TOO_LARGE:
        return hw_fail(err, HW_ELIMIT, 0, "a file is larger than %llu MiB (DEBUGINFOD_MAXSIZE)",
                       (unsigned long long)d->max_bytes >> 20);
    case TOO_LONG:
        return hw_fail(err, HW_ETIMEOUT, 0, "a file takes longer than %llu s (DEBUGINFOD_MAXTIME)",
                       (unsigned long long)(d->max_ns / NS_OF_A_SEC));
    case STALLED:
        return hw_fail(err, HW_ETIMEOUT, 0, "nothing came for %llu s (DEBUGINFOD_TIMEOUT)",
                       (unsigned long long)(d->stall_ns / NS_OF_A_SEC));
    case GOES_ON:
        break;
    }
    return hw_fail(err, HW_EGONE, 0, "%s", strerror(-code));
}

int hw_debuginfod_find(struct hw_debuginfod *d, struct hw_bytes build_id, int *fd,
                       struct hw_error *err)
{
    if (build_id.n == 0 || build_id.n > 64 || d->gave_up)
        return HW_ENOTFOUND;
    int got = fetch(d, d->find_debuginfo, build_id);
    if (got == -ENOENT && d->ending == GOES_ON)
        got = fetch(d, d->find_executable, build_id);
    if (got >= 0) {
        *fd = got;
        return HW_OK;
    }
    if (got == -ENOENT && d->ending == GOES_ON)
        return HW_ENOTFOUND;
    d->gave_up = true;
    return tell_failure(d, got, err);
}

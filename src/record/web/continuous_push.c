/* Hands files of continuous recording to `heapwise push` and tracks the outcome. */
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "config/command/command.h"
#include "fleet/push/labels.h"
#include "fleet/store/store.h"
#include "record/web/continuous_file.h"

#include "base/banned.h"

enum { MAX_PUSHED_AT_ONCE = 500 };

static void forget_sent(struct hw_continuous_files *f)
{
    for (size_t i = 0; i < f->n_sending; i++)
        free(f->unsent.v[i]);
    f->unsent.n -= f->n_sending;
    memmove(f->unsent.v, f->unsent.v + f->n_sending, f->unsent.n * sizeof *f->unsent.v);
    f->n_sending = 0;
}

/* The next push sends what a killed one had to. */
void hw_continuous_reap_push(struct hw_continuous_files *f)
{
    int status;
    if (f->push_pid <= 0 || waitpid(f->push_pid, &status, WNOHANG) != f->push_pid)
        return;
    f->push_pid = 0;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : HW_EXIT_SIGNAL + WTERMSIG(status);
    if (code == HW_EXIT_OK || code == HW_EXIT_INCOMPLETE || code == HW_EXIT_FAILED)
        forget_sent(f); /* accepted, in the spool, or refused for good */
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

/* A separate process: a slow or unreachable store delays nothing here. */
void hw_continuous_hand_over(struct hw_continuous_files *f)
{
    const struct hw_optval *labels = &f->cli->opts.v[HW_OPT_LABEL];
    const char *argv[16 + 2 * 64 + MAX_PUSHED_AT_ONCE];
    struct hw_strbuf spool = {0}, paths = {0};
    size_t n = 0, at = 0;
    hw_continuous_reap_push(f);
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

int hw_continuous_check_push(const struct hw_opts *o, uint64_t period_ns, struct hw_error *err)
{
    const char *to = hw_opt_text(o, HW_OPT_CONT_PUSH);
    struct hw_store store;
    struct hw_fleet_labels labels;
    if (!to)
        return HW_OK;
    if (period_ns < UINT64_C(1000000000))
        return hw_fail(err, HW_EINVAL, 0,
                       "--push-to: a store has a row a second, so --every 1s or more");
    int rc = hw_store_init(&store, to, err);
    if (rc < 0)
        return rc;
    if (store.form == HW_STORE_OTLP)
        rc = hw_fail(err, HW_EUNSUPPORTED, 0,
                     "--push-to: OpenTelemetry's profiles are not stable; `heapwise push --alpha` "
                     "sends them");
    hw_store_done(&store);
    hw_fleet_labels_init(&labels);
    for (size_t i = 0; rc == HW_OK && i < o->v[HW_OPT_LABEL].list.n; i++)
        rc = hw_fleet_labels_add(&labels, o->v[HW_OPT_LABEL].list.v[i], err);
    hw_fleet_labels_done(&labels);
    return rc;
}

#include "cli/running.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/cli.h"
#include "cli/diagnose.h"
#include "config/config.h"
#include "proc/pid.h"

#include "base/banned.h"

/* Servers write titles over their arguments: "redis-server *:6379", "nginx: worker process". */
static bool title_matches(const char *word, const char *argv0)
{
    char first[256];
    (void)snprintf(first, sizeof first, "%.*s", (int)strcspn(argv0, " :"), argv0); /* cut is fine */
    return first[0] && hw_config_name_matches(word, first);
}

bool hw_running_is_meant(const char *word, int32_t pid, const char *argv0)
{
    uint64_t number;
    if (hw_parse_uint(word, &number, NULL) == 0)
        return number == (uint64_t)pid;
    return argv0[0] && (hw_config_name_matches(word, argv0) || title_matches(word, argv0));
}

static bool has(const hw_running_pids *v, uint64_t pid)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->v[i] == pid)
            return true;
    return false;
}

/* Adds it, or says why not. */
static void consider(const struct hw_cli *cli, int32_t pid, hw_running_pids *out)
{
    struct hw_finding why;
    if (has(out, (uint64_t)pid))
        return;
    hw_diagnose_pid(pid, &why);
    if (why.code)
        hw_diagnose_print(cli, &why);
    else
        (void)hw_vec_push(out,
                          (uint64_t)pid); /* out of memory: the next message says that none is */
}

static size_t find_by_name(const struct hw_cli *cli, const char *word, hw_running_pids *out)
{
    hw_pid_list all = {0};
    size_t n = 0;
    (void)hw_proc_list(&all); /* what was read before a failure counts */
    for (size_t i = 0; i < all.n; i++) {
        struct hw_pid p;
        char argv0[512];
        if (all.v[i] == getpid() || hw_pid_open(all.v[i], &p, NULL) < 0)
            continue;
        hw_proc_argv0(p.dir, argv0, sizeof argv0);
        hw_pid_done(&p);
        if (!hw_running_is_meant(word, all.v[i], argv0))
            continue;
        n++;
        consider(cli, all.v[i], out);
    }
    hw_vec_done(&all);
    return n;
}

int hw_running_find(const struct hw_cli *cli, hw_running_pids *out)
{
    for (size_t i = 0; i < cli->opts.n_args; i++) {
        const char *word = cli->opts.args[i];
        uint64_t pid;
        if (hw_parse_uint(word, &pid, NULL) == 0) {
            consider(cli, pid <= INT32_MAX ? (int32_t)pid : INT32_MAX, out);
        } else if (find_by_name(cli, word, out) == 0) {
            hw_cli_error(cli, "no-process", "no process named '%s'", word);
        }
    }
    return out->n ? HW_EXIT_OK : HW_EXIT_FAILED;
}

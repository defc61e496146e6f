/* heap_profile: options and checks with their classic messages (doc/design/commands.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/classic/heap_profile.h"
#include "cli/cli.h"
#include "cli/help.h"
#include "record/build_config.h"
#include "record/running.h"

#include "base/banned.h"

enum { PAGE = 4096, MIN_SHMEM = 8192 };

/* host or android, before or after the flags; anything else needs `--`. An exit code or 0. */
static int find_subcommand(struct hw_heap_profile *h)
{
    const struct hw_opts *o = &h->cli->opts;
    size_t n = o->n_before_dashes;
    h->host = n > 0 && strcmp(o->args[0], "host") == 0;
    bool android = n > 0 && strcmp(o->args[0], "android") == 0;
    if (h->host && !o->had_dashes) {
        fputs("FATAL: host subcommand requires a command after --.\n", stderr);
        return HW_EXIT_FAILED;
    }
    if (n > (h->host || android ? 1u : 0u) || (!h->host && o->had_dashes && o->n_args > n)) {
        hw_cli_error(h->cli, NULL, "unexpected argument '%s'", o->args[h->host || android ? 1 : 0]);
        hw_cli_hint("a command to profile: heap_profile host -- COMMAND");
        return HW_EXIT_USAGE;
    }
    if (h->host && o->n_args == n) {
        fputs("FATAL: host subcommand requires a command after --.\n", stderr);
        return HW_EXIT_FAILED;
    }
    if (h->host)
        h->command = o->args + n;
    return HW_EXIT_OK;
}

static bool fatal(const char *text)
{
    fprintf(stderr, "FATAL: %s\n", text);
    return false;
}

static bool check_pids(struct hw_heap_profile *h)
{
    const struct hw_optval *v = &h->cli->opts.v[HW_OPT_PID];
    bool good = true;
    for (size_t i = 0; i < v->list.n; i++) {
        uint64_t pid;
        int32_t here;
        bool number = hw_parse_uint(v->list.v[i], &pid, NULL) == 0;
        if (!number)
            fprintf(stderr, "FATAL: invalid PID %s\n", v->list.v[i]);
        else if (pid > INT32_MAX) /* the recording will say that it did not exist */
            number = hw_vec_push(&h->pids, pid) == 0;
        else
            number = hw_running_pid(h->cli, pid, &here) == HW_EXIT_OK &&
                     hw_vec_push(&h->pids, (uint64_t)here) == 0;
        good = good && number;
    }
    return good;
}

/* All are checked, so that one run reports every mistake. */
static bool check(struct hw_heap_profile *h)
{
    const struct hw_opts *o = &h->cli->opts;
    uint64_t shmem = hw_opt_num(o, HW_OPT_SHMEM_SIZE);
    bool good = true;
    if (hw_opt_flag(o, HW_OPT_BLOCK_CLIENT) && hw_opt_flag(o, HW_OPT_NO_BLOCK_CLIENT))
        good = fatal("Both block-client and no-block-client given.");
    if (!h->host && o->v[HW_OPT_PID].list.n == 0 && o->v[HW_OPT_NAME].list.n == 0)
        good = fatal("Neither PID nor NAME given.");
    if (shmem % PAGE)
        good = fatal("shmem-size is not a multiple of 4096.");
    if (shmem < MIN_SHMEM)
        good = fatal("shmem-size is less than 8192.");
    if (shmem & (shmem - 1))
        good = fatal("shmem-size is not a power of two.");
    return check_pids(h) && good;
}

static int build(struct hw_heap_profile *h, struct hw_error *err)
{
    const struct hw_opts *o = &h->cli->opts;
    struct hw_config_values c = {0};
    hw_config_set(&c, HW_HEAPPROFD_FIELD(block_client), 1);
    hw_config_take_options(&c, o);
    hw_config_set_numbers(&c, HW_HEAPPROFD_FIELD(pid), h->pids.v, h->pids.n);
    /* printed for other recorders; ours would only warn that it stays empty */
    c.packages_list =
        !h->host && !hw_opt_flag(o, HW_OPT_NO_VERSIONS) && hw_opt_flag(o, HW_OPT_PRINT_CONFIG);
    if (h->host && o->v[HW_OPT_NAME].list.n == 0) {
        char *slash = strrchr(h->command[0], '/');
        h->default_names[0] = slash ? slash + 1 : h->command[0];
        hw_config_set_texts(&c, HW_HEAPPROFD_FIELD(process_cmdline), h->default_names, 1);
        h->launched_only = true;
    }
    int rc = hw_build_config(&c, &h->config, err);
    hw_config_values_done(&c);
    return rc;
}

static int print_options(void)
{
    for (int i = 0; i < HW_OPT_COUNT; i++) {
        const struct hw_option *d = &hw_options[i];
        if (!(d->commands & 1ull << HW_CMD_HEAP_PROFILE) || (d->flags & HW_OF_HIDDEN))
            continue;
        printf("--%s%s%s\t%s\n", d->name, d->arg ? " " : "", d->arg ? d->arg : "", d->help);
    }
    return HW_EXIT_OK;
}

static int checked(struct hw_heap_profile *h)
{
    struct hw_error err = {0};
    int status = find_subcommand(h);
    if (status != HW_EXIT_OK)
        return status;
    if (!check(h)) {
        hw_help_command(stdout, h->cli->command, /* all = */ true);
        return HW_EXIT_FAILED;
    }
    if (build(h, &err) < 0)
        return hw_cli_fail(h->cli, &err);
    if (hw_opt_flag(&h->cli->opts, HW_OPT_PRINT_CONFIG))
        return hw_print_config(&h->config, &err) < 0 ? hw_cli_fail(h->cli, &err) : HW_EXIT_OK;
    return hw_heap_profile_run(h);
}

int hw_cmd_heap_profile(struct hw_cli *cli)
{
    if (hw_opt_flag(&cli->opts, HW_OPT_PRINT_OPTIONS))
        return print_options();
    struct hw_heap_profile h = {.cli = cli};
    int status = checked(&h);
    hw_vec_done(&h.pids);
    hw_strbuf_done(&h.config);
    return status;
}

#include "cli/find_process.h"

#include <stdint.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cli.h"
#include "config/numbers.h"
#include "proc/pid.h"

#include "base/banned.h"

static int find_by_name(const struct hw_cli *cli, const struct hw_wanted_process *w,
                        const char *word, struct hw_pid *out)
{
    hw_pid_list all = {0};
    size_t n = 0;
    if (hw_proc_list(&all) < 0) {
        hw_cli_error(cli, NULL, "cannot read /proc");
        return HW_EXIT_FAILED;
    }
    for (size_t i = 0; i < all.n; i++) {
        struct hw_pid pid;
        if (all.v[i] == getpid() || hw_pid_open(all.v[i], &pid, NULL) < 0)
            continue;
        if (!w->is_meant(&pid, word)) {
            hw_pid_done(&pid);
        } else if (n++ == 0) {
            *out = pid;
        } else {
            if (n == 2)
                hw_cli_error(cli, NULL, "several %s are called '%s'; which one?", w->kinds, word);
            hw_cli_hint("%s %d", w->command, n == 2 ? out->pid : pid.pid);
            if (n == 2)
                hw_cli_hint("%s %d", w->command, pid.pid);
            hw_pid_done(&pid);
        }
    }
    hw_vec_done(&all);
    if (n == 0) {
        hw_cli_error(cli, "no-process", "no %s of yours is called '%s'", w->kind, word);
        hw_cli_hint("%s; heapwise ps lists processes", w->names);
    }
    return n == 1 ? HW_EXIT_OK : n ? HW_EXIT_USAGE : HW_EXIT_FAILED;
}

int hw_find_process(const struct hw_cli *cli, const struct hw_wanted_process *w, const char *word,
                    struct hw_pid *out)
{
    uint64_t number = 0;
    if (hw_parse_uint(word, &number, NULL) < 0)
        return find_by_name(cli, w, word, out);
    if (number > INT32_MAX || hw_pid_open((int32_t)number, out, NULL) < 0) {
        hw_cli_error(cli, "no-process", "no process %s", word);
        return HW_EXIT_FAILED;
    }
    return HW_EXIT_OK;
}

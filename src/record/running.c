#include "record/running.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/plural.h"
#include "base/text/program_name.h"
#include "base/text/strbuf.h"
#include "config/command/command.h"
#include "config/command/explain.h"
#include "config/config.h"
#include "proc/pid.h"
#include "record/children/offspring.h"
#include "record/diagnosis.h"
#include "record/process_reads.h"

#include "base/banned.h"

enum {
    LOOKED_AT = 8, /* arguments */
    SHOWN = 8      /* processes in a hint */
};

/* Servers overwrite their arguments with titles: "redis-server *:6379", "nginx: worker process". */
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

bool hw_running_name(int32_t pid, const char *argv0, char *out, size_t max)
{
    struct hw_bytes name = hw_program_name(hw_bytes_str(argv0), hw_bytes_of(NULL, 0));
    bool fits = name.n && name.n < max;
    (void)snprintf(out, max, "%.*s", fits ? (int)name.n : 0, (const char *)name.p);
    return fits && hw_running_is_meant(out, pid, argv0);
}

static int say_ambiguous(const struct hw_cli *cli, uint64_t given, const hw_pid_list *found)
{
    struct hw_strbuf b = {0};
    for (size_t i = 0; i < found->n; i++) {
        struct hw_pid p;
        char exe[64] = "?";
        if (hw_pid_open(found->v[i], &p, NULL) == 0) {
            hw_proc_exe_name(p.dir, exe, sizeof exe);
            hw_pid_done(&p);
        }
        hw_strbuf_addf(&b, "%s%d ('", i ? ", " : "", found->v[i]);
        hw_strbuf_add_escaped(&b, exe, strlen(exe));
        hw_strbuf_addf(&b, "')");
    }
    hw_cli_error(cli, "ambiguous-pid", "%llu is a process in several namespaces: here they are %s",
                 (unsigned long long)given, b.failed || !b.p ? "too many" : b.p);
    hw_cli_hint("name one by its number here, or add --pid-ns PID: any process of that namespace");
    hw_strbuf_done(&b);
    return HW_EXIT_FAILED;
}

/* --pid-ns; 0 = not given. */
static int namespace_of(const struct hw_cli *cli, int32_t *out)
{
    struct hw_pid p;
    struct hw_error err;
    uint64_t of = hw_opt_num(&cli->opts, HW_OPT_PID_NS);
    *out = (int32_t)of; /* the option's limit */
    if (of == 0 || hw_pid_open(*out, &p, &err) == 0) {
        if (of)
            hw_pid_done(&p);
        return HW_EXIT_OK;
    }
    hw_cli_error(cli, "no-process", "--pid-ns: %s", err.text);
    return HW_EXIT_FAILED;
}

int hw_running_pid(const struct hw_cli *cli, uint64_t given, int32_t *out)
{
    struct hw_pid p;
    hw_pid_list found = {0};
    int32_t of, pid = given <= INT32_MAX ? (int32_t)given : INT32_MAX;
    int status = namespace_of(cli, &of);
    if (status != HW_EXIT_OK)
        return status;
    *out = pid;
    if (!of && hw_pid_open(pid, &p, NULL) == 0) {
        hw_pid_done(&p);
        return HW_EXIT_OK;
    }
    if (hw_proc_inside(pid, of, &found) < 0 && of) {
        hw_cli_error(cli, "not-permitted", "the namespace of process %d cannot be inspected", of);
        status = HW_EXIT_FAILED;
    } else if (found.n > 1) {
        status = say_ambiguous(cli, given, &found);
    } else if (found.n == 0 && of) {
        hw_cli_error(cli, "no-process", "no process %d in the pid namespace of process %d", pid,
                     of);
        status = HW_EXIT_FAILED;
    } else if (found.n == 1) {
        *out = found.v[0];
        if (*out != pid)
            hw_cli_hint("%d of another pid namespace is process %d here", pid, *out);
    }
    hw_vec_done(&found);
    return status;
}

static bool has(const hw_running_pids *v, uint64_t pid)
{
    for (size_t i = 0; i < v->n; i++)
        if (v->v[i] == pid)
            return true;
    return false;
}

size_t hw_running_match(const char *word, hw_running_pids *out)
{
    hw_pid_list all = {0};
    size_t n = 0;
    uint64_t number;
    if (hw_parse_uint(word, &number, NULL) == 0) {
        if (!has(out, number))
            (void)hw_vec_push(out, number); /* out of memory: the caller finds none */
        return 1;
    }
    (void)hw_proc_list(&all); /* entries read before a failure count */
    for (size_t i = 0; i < all.n; i++) {
        struct hw_pid p;
        char argv0[512];
        if (all.v[i] == getpid() || hw_pid_open(all.v[i], &p, NULL) < 0)
            continue;
        hw_read_argv0(&p, argv0, sizeof argv0);
        hw_pid_done(&p);
        if (!hw_running_is_meant(word, all.v[i], argv0))
            continue;
        n++;
        if (!has(out, (uint64_t)all.v[i]))
            (void)hw_vec_push(out, (uint64_t)all.v[i]); /* likewise */
    }
    hw_vec_done(&all);
    return n;
}

/* A script is its interpreter's process: the word is behind that in the command line. */
static bool is_in_arguments(const char *word, const struct hw_pid *p)
{
    hw_autofree char *line = NULL;
    size_t n = 0, at = 0;
    if (hw_read_cmdline(p, &line, &n) < 0)
        return false;
    for (int i = 0; at < n && i < LOOKED_AT; i++) {
        size_t length = strnlen(line + at, n - at);
        const char *slash = memrchr(line + at, '/', length);
        size_t name = slash ? (size_t)(slash + 1 - line) : at;
        const char *found = memmem(line + name, at + length - name, word, strlen(word));
        if (found)
            return true;
        at += length + 1;
    }
    return false;
}

/* What top and pgrep show under the word. */
static bool is_called(const char *word, const struct hw_pid *p)
{
    char exe[256];
    struct hw_proc_status st;
    hw_proc_exe_name(p->dir, exe, sizeof exe);
    return strcmp(exe, word) == 0 ||
           (hw_proc_status(p->dir, &st) == 0 && strcmp(st.name, word) == 0) ||
           is_in_arguments(word, p);
}

struct similar {
    size_t n;
    struct hw_strbuf named, numbers; /* "812 ('python3'), 815 ('python3')"; " 812 815" */
};

static void add_similar(struct similar *x, const struct hw_pid *p)
{
    char argv0[512], name[64];
    if (x->n++ >= SHOWN)
        return;
    hw_read_argv0(p, argv0, sizeof argv0);
    hw_strbuf_addf(&x->numbers, " %d", p->pid);
    hw_strbuf_addf(&x->named, "%s%d", x->n > 1 ? ", " : "", p->pid);
    if (!hw_running_name(p->pid, argv0, name, sizeof name))
        return; /* attach would refuse any */
    hw_strbuf_adds(&x->named, " ('");
    hw_strbuf_add_escaped(&x->named, name, strlen(name));
    hw_strbuf_adds(&x->named, "')");
}

/* Which processes may be meant. */
static void list_similar(const char *word, struct similar *out)
{
    hw_pid_list all = {0};
    (void)hw_proc_list(&all); /* entries read before a failure count */
    for (size_t i = 0; i < all.n; i++) {
        struct hw_pid p;
        if (all.v[i] == getpid() || all.v[i] == getppid() || hw_pid_open(all.v[i], &p, NULL) < 0)
            continue;
        if (is_called(word, &p))
            add_similar(out, &p);
        hw_pid_done(&p);
    }
    if (out->n > SHOWN)
        hw_strbuf_addf(&out->named, " and %zu more", out->n - SHOWN);
    hw_vec_done(&all);
}

void hw_running_say_none(const struct hw_cli *cli, const char *word)
{
    struct similar x = {0};
    list_similar(word, &x);
    hw_cli_error(cli, "no-process", "no process named '%s'", word);
    if (!x.named.failed && !x.numbers.failed && x.n)
        hw_cli_hint("'%s' is in the command line of %s; by its number: heapwise %s%s", word,
                    x.named.p, cli->command->name, x.numbers.p);
    else
        hw_cli_hint("%s", hw_explain_remedy("no-process"));
    hw_strbuf_done(&x.named);
    hw_strbuf_done(&x.numbers);
}

/* Keeps those that can be profiled, prints why the others cannot. The exit code if none can. */
static int sort_out(const struct hw_cli *cli, hw_running_pids *pids)
{
    size_t kept = 0;
    int code = pids->n ? HW_EXIT_UNSUPPORTED : HW_EXIT_FAILED;
    for (size_t i = 0; i < pids->n; i++) {
        struct hw_finding why;
        hw_diagnose_pid(pids->v[i] <= INT32_MAX ? (int32_t)pids->v[i] : INT32_MAX, &why);
        if (!why.code || hw_diagnose_is_readable(&why)) {
            pids->v[kept++] = pids->v[i];
            continue;
        }
        hw_diagnose_print(cli, &why);
        if (hw_diagnose_exit(&why) != HW_EXIT_UNSUPPORTED)
            code = HW_EXIT_FAILED;
    }
    pids->n = kept;
    return code;
}

/* --follow-fork: descendants that run already are no forked children of what is attached to. */
static void add_descendants(hw_running_pids *pids)
{
    struct hw_offspring below = {0};
    size_t n_left = 0;
    for (size_t i = 0; i < pids->n; i++)
        hw_offspring_scan(&below, (int32_t)pids->v[i]);
    for (size_t i = 0; i < below.rows.n; i++) {
        int32_t pid = below.rows.v[i].pid;
        struct hw_finding why;
        if (pid == getpid() || has(pids, (uint64_t)pid) || !hw_offspring_runs(&below.rows.v[i]))
            continue;
        hw_diagnose_pid(pid, &why);
        if (why.code && !hw_diagnose_is_readable(&why))
            n_left++;
        else
            (void)hw_vec_push(pids, (uint64_t)pid); /* out of memory: fewer */
    }
    if (n_left)
        fprintf(stderr,
                "note: %zu running descendant%s cannot be profiled; heapwise ps --all says why\n",
                n_left, hw_plural(n_left));
    hw_offspring_done(&below);
}

int hw_running_find(const struct hw_cli *cli, hw_running_pids *out)
{
    for (size_t i = 0; i < cli->opts.n_args; i++) {
        const char *word = cli->opts.args[i];
        uint64_t pid;
        int32_t here;
        if (hw_parse_uint(word, &pid, NULL) == 0) {
            if (hw_running_pid(cli, pid, &here) == HW_EXIT_OK && !has(out, (uint64_t)here))
                (void)hw_vec_push(out, (uint64_t)here); /* out of memory: none found */
        } else if (hw_running_match(word, out) == 0) {
            hw_running_say_none(cli, word);
        }
    }
    int code = sort_out(cli, out);
    if (hw_opt_flag(&cli->opts, HW_OPT_FOLLOW_FORK))
        add_descendants(out);
    return out->n ? HW_EXIT_OK : code;
}

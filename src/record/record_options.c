#include "record/record_options.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "config/command/options.h"
#include "config/config.h"
#include "record/build_config.h"
#include "wire/handshake.h"

#include "base/banned.h"

enum { PROCESS_STATS_MS = 1000, MEMORY_INFRA_MS = 1000 };

/* `record -n`: processes of that name, no command. */
static bool is_named(const struct hw_record_words *w)
{
    return !w->attach && w->opts->v[HW_OPT_NAME].list.n;
}

const char *const hw_stack_mode_words[HW_STACKS_COUNT + 1] = {
    [HW_STACKS_NATIVE] = "native",
    [HW_STACKS_THREADS] = "native-with-thread-names",
    [HW_STACKS_PSEUDO] = "pseudo",
    [HW_STACKS_MIXED] = "mixed",
};

uint32_t hw_stack_mode_of(const char *word)
{
    uint32_t i = 0;
    while (i < HW_STACKS_COUNT && strcmp(hw_stack_mode_words[i], word) != 0)
        i++;
    return i;
}

/* HW_STACKS_COUNT: none of them. */
static uint32_t stack_mode(const struct hw_opts *o)
{
    if (o->v[HW_OPT_MEMORY_INFRA].set && !o->v[HW_OPT_STACK_MODE].set)
        return HW_STACKS_MIXED;
    return hw_stack_mode_of(hw_opt_text(o, HW_OPT_STACK_MODE));
}

static uint32_t every_ms(const struct hw_opts *o, enum hw_option_id option)
{
    bool implied = o->v[HW_OPT_MEMORY_INFRA].set && !o->v[option].set;
    return implied ? MEMORY_INFRA_MS : (uint32_t)hw_opt_num(o, option);
}

/* Python was told so by the environment: the command's is ours, a process has its own. */
static bool has_python_malloc(const struct hw_record_words *w)
{
    static const char name[] = "PYTHONMALLOC=malloc"; /* or malloc_debug */
    const char *own = getenv("PYTHONMALLOC");
    char path[64];
    hw_autofree char *text = NULL;
    size_t n;
    if (!w->attach)
        return !w->all && own && strncmp(own, "malloc", 6) == 0;
    if (w->n_pids != 1)
        return false;
    (void)snprintf(path, sizeof path, "/proc/%llu/environ", (unsigned long long)w->pids[0]);
    if (hw_file_read(AT_FDCWD, path, 256 << 10, &text, &n, NULL) < 0)
        return false;
    for (const char *at = text; at < text + n; at += strlen(at) + 1)
        if (strncmp(at, name, sizeof name - 1) == 0)
            return true;
    return false;
}

static struct hw_config_request request_of(const struct hw_record_words *w)
{
    const struct hw_opts *o = w->opts;
    const struct hw_optval *heaps = &o->v[HW_OPT_HEAP], *scopes = &o->v[HW_OPT_SCOPES];
    return (struct hw_config_request){
        .shmem_size_bytes = hw_opt_num(o, HW_OPT_SHMEM_SIZE),
        .sampling_interval_bytes =
            hw_opt_flag(o, HW_OPT_EXACT) ? 1 : hw_opt_num(o, HW_OPT_INTERVAL),
        .block_client = !hw_opt_flag(o, HW_OPT_NO_BLOCK_CLIENT),
        .has_block_timeout = o->v[HW_OPT_BLOCK_TIMEOUT].set,
        .block_client_timeout_us = hw_opt_num(o, HW_OPT_BLOCK_TIMEOUT),
        .dump_at_max = hw_opt_flag(o, HW_OPT_DUMP_AT_MAX),
        .disable_fork_teardown = hw_opt_flag(o, HW_OPT_DISABLE_FORK_TEARDOWN),
        .all_heaps = hw_opt_flag(o, HW_OPT_ALL_HEAPS),
        .idle_allocations = hw_opt_flag(o, HW_OPT_IDLE),
        .max_samples_per_second = (uint32_t)hw_opt_num(o, HW_OPT_MAX_RATE),
        .no_managed_frames = hw_opt_flag(o, HW_OPT_NATIVE_ONLY),
        .stack_mode = stack_mode(o),
        .scope_categories = scopes->list.v,
        .n_scope_categories = scopes->list.n,
        .record_types = hw_opt_flag(o, HW_OPT_RECORD_TYPES) || o->v[HW_OPT_MEMORY_INFRA].set,
        .record_slices = hw_opt_flag(o, HW_OPT_RECORD_SLICES),
        .heaps = heaps->list.v,
        .n_heaps = hw_opt_flag(o, HW_OPT_ALL_HEAPS) && !heaps->set ? 0 : heaps->list.n,
        .dump_when = o->v[HW_OPT_DUMP_WHEN].list.v,
        .n_dump_when = o->v[HW_OPT_DUMP_WHEN].list.n,
        .stop_when = o->v[HW_OPT_STOP_WHEN].list.v,
        .n_stop_when = o->v[HW_OPT_STOP_WHEN].list.n,
        .start_when = o->v[HW_OPT_START_WHEN].list.v,
        .n_start_when = o->v[HW_OPT_START_WHEN].list.n,
        .dump_interval_ms = hw_opt_num(o, HW_OPT_CONTINUOUS),
        .java_graph = hw_opt_flag(o, HW_OPT_JAVA_GRAPH),
        .duration_ms = hw_opt_num(o, HW_OPT_DURATION),
        .python_allocators = hw_opt_flag(o, HW_OPT_PYTHON_ALLOCATORS) || has_python_malloc(w),
        .all = w->all,
        .no_startup = w->attach || hw_opt_flag(o, HW_OPT_NO_STARTUP),
        .no_running = hw_opt_flag(o, HW_OPT_NO_RUNNING),
        .names = o->v[HW_OPT_NAME].list.v,
        .n_names = o->v[HW_OPT_NAME].list.n,
        .pids = w->pids,
        .n_pids = w->n_pids,
    };
}

int hw_record_config(const struct hw_record_words *w, struct hw_strbuf *out, struct hw_error *err)
{
    struct hw_config_request q = request_of(w);
    struct hw_trace_config checked;
    int rc = hw_build_config(&q, out, err);
    if (rc == 0)
        rc = hw_config_read(hw_bytes_of(out->p, out->n), &checked, err);
    if (rc == 0)
        hw_trace_config_done(&checked);
    return rc;
}

struct hw_control_start hw_record_start(const struct hw_record_words *w)
{
    const struct hw_opts *o = w->opts;
    bool follow = hw_opt_flag(o, HW_OPT_FOLLOW_FORK);
    struct hw_control_start s = {
        .flags = HW_START_CHECKPOINTS,
        .smaps_ms = every_ms(o, HW_OPT_SMAPS),
        .malloc_info_ms = every_ms(o, HW_OPT_MALLOC_INFO),
        .process_stats_ms = PROCESS_STATS_MS,
        .seed = hw_opt_num(o, HW_OPT_SEED),
    };
    if (follow)
        s.flags |= HW_START_FOLLOW_FORK;
    if (!w->all && !w->attach && !is_named(w))
        s.flags |= HW_START_LAUNCHED | (follow ? 0u : HW_START_STRIP_ENV);
    if (!hw_opt_flag(o, HW_OPT_DUMP_AT_MAX))
        s.flags |= HW_START_KEEP_PEAK;
    if (hw_opt_flag(o, HW_OPT_IDLE))
        s.flags |= HW_START_IDLE;
    if (o->v[HW_OPT_MEMORY_INFRA].set)
        s.flags |= HW_START_REGIONS;
    if (s.malloc_info_ms)
        s.flags |= HW_START_MALLOC_INFO;
    return s;
}

int hw_record_check(const struct hw_record_words *w, struct hw_error *err)
{
    const struct hw_opts *o = w->opts;
    const struct hw_optval *exact = &o->v[HW_OPT_EXACT], *interval = &o->v[HW_OPT_INTERVAL];
    bool no_running = hw_opt_flag(o, HW_OPT_NO_RUNNING),
         no_startup = hw_opt_flag(o, HW_OPT_NO_STARTUP);
    const char *wrong = NULL;
    if (hw_opt_flag(o, HW_OPT_BLOCK_CLIENT) && hw_opt_flag(o, HW_OPT_NO_BLOCK_CLIENT))
        wrong = "--block-client and --no-block-client exclude each other";
    else if (exact->num && interval->set && interval->origin == exact->origin && interval->num != 1)
        wrong = "--exact and --interval exclude each other";
    else if (w->attach && o->n_args == 0)
        wrong = "no process given: which pid or name?";
    else if (w->all && is_named(w))
        wrong = "--all and --name exclude each other";
    else if (w->all && o->n_args)
        wrong = "--all takes no command";
    else if (is_named(w) && o->n_args)
        wrong = "--name takes no command: it profiles processes that others start";
    else if (w->all && hw_opt_flag(o, HW_OPT_FOLLOW_FORK))
        wrong = "--all includes forked children anyway; leave --follow-fork out";
    else if (no_running && no_startup)
        wrong = "--no-running and --no-startup together leave no process to profile";
    else if ((no_running || no_startup) && !w->all && !is_named(w))
        wrong = "--no-running and --no-startup are for --name and --all";
    else if ((w->all || is_named(w)) && hw_opt_flag(o, HW_OPT_PYTHON_ALLOCATORS))
        wrong = "--python-allocators is for a command started here";
    if (!wrong && stack_mode(o) == HW_STACKS_COUNT)
        return hw_fail(
            err, HW_EINVAL, 0,
            "--stack-mode '%s' is not known; native, native-with-thread-names, pseudo or "
            "mixed",
            hw_opt_text(o, HW_OPT_STACK_MODE));
    return wrong ? hw_fail(err, HW_EINVAL, 0, "%s", wrong) : HW_OK;
}

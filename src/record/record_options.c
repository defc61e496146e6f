#include "record/record_options.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/files/fd.h"
#include "base/text/text_parts.h"
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

/* HW_STACKS_COUNT: unknown. */
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

/* PYTHONMALLOC is set in the environment: ours for a command, the process's own otherwise. */
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
        if (hw_starts_with(at, name))
            return true;
    return false;
}

/* Heap graphs as often as dumps, also of JVMs that allocate nothing meanwhile. */
static void set_java(const struct hw_record_words *w, struct hw_config_values *c)
{
    uint64_t interval_ms = hw_opt_num(w->opts, HW_OPT_CONTINUOUS);
    hw_config_set_numbers(c, HW_JAVA_HPROF_FIELD(pid), w->pids, w->n_pids);
    if (interval_ms)
        hw_config_set(c, "java_hprof_config.continuous_dump_config.dump_interval_ms", interval_ms);
    hw_config_set(c, HW_JAVA_HPROF_FIELD(dump_smaps), 1); /* needed for the whole process */
    hw_config_set(c, HW_JAVA_HPROF_FIELD(dump_oome_callstack), 1);
}

/* Fields from the options table, then those that depend on several options. */
static void set_values(const struct hw_record_words *w, struct hw_config_values *c)
{
    const struct hw_opts *o = w->opts;
    uint32_t mode = stack_mode(o);
    hw_config_set(c, HW_HEAPPROFD_FIELD(block_client), 1);
    hw_config_take_options(c, o);
    hw_config_unset(c, HW_HEAPPROFD_FIELD(stack_mode)); /* a word */
    if (mode)
        hw_config_set(c, HW_HEAPPROFD_FIELD(stack_mode), mode);
    if (o->v[HW_OPT_MEMORY_INFRA].set)
        hw_config_set(c, HW_HEAPPROFD_FIELD(record_types), 1);
    if (hw_opt_flag(o, HW_OPT_ALL_HEAPS) && !o->v[HW_OPT_HEAP].set)
        hw_config_set_texts(c, HW_HEAPPROFD_FIELD(heaps), (char **)(uintptr_t)hw_mapping_heaps,
                            HW_N_MAPPING_HEAPS); /* a heap no program registers */
    hw_config_unset(c, HW_HEAPPROFD_FIELD(all));
    if (w->all)
        hw_config_set(c, HW_HEAPPROFD_FIELD(all), 1);
    if (w->attach)
        hw_config_set(c, HW_HEAPPROFD_FIELD(no_startup), 1);
    hw_config_set_numbers(c, HW_HEAPPROFD_FIELD(pid), w->pids, w->n_pids);
    if (hw_opt_flag(o, HW_OPT_JAVA_GRAPH))
        set_java(w, c);
    c->python_allocators = hw_opt_flag(o, HW_OPT_PYTHON_ALLOCATORS) || has_python_malloc(w);
}

int hw_record_config(const struct hw_record_words *w, struct hw_strbuf *out, struct hw_error *err)
{
    struct hw_config_values values = {0};
    struct hw_trace_config checked;
    set_values(w, &values);
    int rc = hw_build_config(&values, out, err);
    hw_config_values_done(&values);
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
    if (hw_opt_flag(o, HW_OPT_PINNED))
        s.flags |= HW_START_PINNED;
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
    else if (hw_opt_flag(o, HW_OPT_PINNED) && hw_opt_flag(o, HW_OPT_DUMP_AT_MAX))
        wrong = "--pinned and --dump-at-max exclude each other";
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

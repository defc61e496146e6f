/*
 * oracle.c - the walker against elfutils' unwinder, on stopped threads of real programs
 *
 * Runs a program, stops its main thread at random moments, copies its stack and walks the copy
 * with the tables compiled from the files it has mapped; libdwfl unwinds the same stopped thread
 * from the same registers. Every pc of every frame must agree.
 *
 * Usage: oracle [-n SAMPLES] [-s SECONDS] [-m PERCENT] [-l LOAD-COMMAND] -- PROGRAM [ARG...]
 * Exit:  0 when at least PERCENT (99.9) of the samples are identical, 77 when it cannot run here.
 */
#include <elf.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arch.h"
#include "base/limits.h"
#include "process_tables.h"
#include "stop_name.h"
#include "unwind/walk.h"

enum { MAX_COPY = 1 << 20, SHOWN_DIFFERENCES = 5 };

struct options {
    unsigned long samples;
    double seconds, min_percent;
    const char *load;
    char **program;
};

struct oracle {
    struct options opt;
    pid_t pid, load_pid;
    struct process_tables tables;
    Dwfl *dwfl;
    struct hw_walk_cache *cache;
    uint8_t *copy;
    unsigned long n, n_same, n_frames, n_by_fp, n_shown;
    unsigned long stops[HW_STOP_COUNT];
    struct hw_walk_regs at, differed_at; /* the thread now; where it differed last */
};

struct pcs {
    uint64_t v[HW_MAX_FRAMES];
    uint32_t n;
};

static int no_debuginfo(Dwfl_Module *m, void **data, const char *name, Dwarf_Addr base,
                        const char *file, const char *link, GElf_Word crc, char **found)
{
    (void)m, (void)data, (void)name, (void)base, (void)file, (void)link, (void)crc, (void)found;
    return -1; /* unwind data is in the files; nothing is to be fetched */
}

static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_linux_proc_find_elf,
                                         .find_debuginfo = no_debuginfo};

static int on_frame(Dwfl_Frame *f, void *arg)
{
    struct pcs *out = arg;
    if (out->n == HW_MAX_FRAMES || !dwfl_frame_pc(f, &out->v[out->n], NULL))
        return DWARF_CB_ABORT;
    out->n++;
    return DWARF_CB_OK;
}

static int refresh(struct oracle *o)
{
    bool changed;
    if (process_tables_refresh(&o->tables, &changed) < 0)
        return -1;
    if (!changed && o->dwfl)
        return 0;
    if (o->dwfl)
        dwfl_end(o->dwfl);
    o->dwfl = dwfl_begin(&callbacks);
    if (!o->dwfl || dwfl_linux_proc_report(o->dwfl, o->pid) != 0 ||
        dwfl_report_end(o->dwfl, NULL, NULL) != 0 ||
        dwfl_linux_proc_attach(o->dwfl, o->pid, /* assume_ptrace_stopped = */ true) != 0) {
        fprintf(stderr, "libdwfl: %s\n", dwfl_errmsg(-1));
        return -1;
    }
    return 0;
}

static bool read_regs(pid_t pid, struct hw_walk_regs *regs)
{
    struct user_regs_struct r;
    struct iovec io = {&r, sizeof r};
    if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &io) != 0)
        return false;
#if defined(__x86_64__)
    *regs = (struct hw_walk_regs){.pc = r.rip, .sp = r.rsp, .fp = r.rbp};
#else
    *regs = (struct hw_walk_regs){.pc = r.pc, .sp = r.sp, .fp = r.regs[29], .lr = r.regs[30]};
#endif
    return true;
}

static bool walk_copy(struct oracle *o, struct hw_walk_out *out)
{
    struct hw_walk_in in = {.tables = o->tables.dir,
                            .snapshot = process_tables_snapshot(&o->tables),
                            .max_frames = HW_MAX_FRAMES,
                            .first_is_exact = true};
    if (!read_regs(o->pid, &in.regs))
        return false;
    o->at = in.regs;
    uint64_t end = process_tables_mapping_end(&o->tables, in.regs.sp);
    if (!end)
        return false;
    size_t n = (size_t)(end - in.regs.sp < MAX_COPY ? end - in.regs.sp : MAX_COPY);
    struct iovec to = {o->copy, n}, from = {(void *)(uintptr_t)in.regs.sp, n};
    if (process_vm_readv(o->pid, &to, 1, &from, 1, 0) != (ssize_t)n)
        return false;
    in.hi = in.regs.sp + n;
    in.delta = (uint64_t)(uintptr_t)o->copy - in.regs.sp;
    hw_walk(&in, o->cache, out);
    return true;
}

static void show(const struct oracle *o, const struct hw_walk_out *ours, const struct pcs *theirs)
{
    uint32_t i = 0;
    while (i < ours->n_frames && i < theirs->n && ours->pcs[i] == theirs->v[i])
        i++;
    fprintf(stderr,
            "sample %lu differs at frame %u: ours %u frames (%s at %#" PRIx64
            "), libdwfl %u frames\n",
            o->n, i, ours->n_frames, stop_name(ours->stop), ours->stop_pc, theirs->n);
    for (uint32_t k = i ? i - 1 : 0; k < i + 3; k++)
        fprintf(stderr, "  %3u  %16" PRIx64 "  %16" PRIx64 "\n", k,
                k < ours->n_frames ? ours->pcs[k] : 0, k < theirs->n ? theirs->v[k] : 0);
}

static int compare(struct oracle *o)
{
    static struct hw_walk_out ours;
    static struct pcs theirs;
    if (refresh(o) < 0 || !walk_copy(o, &ours))
        return -1;
    if (memcmp(&o->at, &o->differed_at, sizeof o->at) == 0)
        return 0; /* on a busy machine it did not run meanwhile: the same stack again */
    theirs.n = 0;
    /* Its result is an error for each stack whose end is not marked; the frames are good. */
    (void)dwfl_getthread_frames(o->dwfl, o->pid, on_frame, &theirs);
    o->n++;
    o->n_frames += ours.n_frames;
    o->n_by_fp += ours.n_by_fp;
    o->stops[ours.stop]++;
    if (ours.n_frames == theirs.n && memcmp(ours.pcs, theirs.v, theirs.n * sizeof *theirs.v) == 0)
        o->n_same++;
    else {
        o->differed_at = o->at;
        if (o->n_shown++ < SHOWN_DIFFERENCES)
            show(o, &ours, &theirs);
    }
    return 0;
}

/* ---- driving the program ---- */

static pid_t start(char **argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(127);
        execvp(argv[0], argv);
        _exit(127);
    }
    return pid;
}

static void pause_us(unsigned long us)
{
    struct timespec t = {0, (long)us * 1000};
    (void)nanosleep(&t, NULL);
}

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* true: stopped by us. Signals on the way are handed on. */
static bool interrupt(pid_t pid)
{
    int status;
    if (ptrace(PTRACE_INTERRUPT, pid, 0, 0) != 0)
        return false;
    while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
        if (status >> 16 == PTRACE_EVENT_STOP)
            return true;
        (void)ptrace(PTRACE_CONT, pid, 0, (long)WSTOPSIG(status));
    }
    return false; /* it ended */
}

static bool again(struct oracle *o)
{
    o->pid = start(o->opt.program);
    pause_us(20000);
    if (o->pid < 0 || ptrace(PTRACE_SEIZE, o->pid, 0, 0) != 0)
        return false;
    if (o->tables.dir)
        process_tables_done(&o->tables);
    if (o->dwfl)
        dwfl_end(o->dwfl);
    o->dwfl = NULL;
    memset(o->cache, 0, hw_walk_cache_bytes());
    return process_tables_open(&o->tables, o->pid) == 0;
}

static void end_program(struct oracle *o)
{
    if (o->pid > 0) {
        (void)kill(o->pid, SIGKILL);
        (void)waitpid(o->pid, NULL, __WALL);
    }
    o->pid = 0;
}

static int drive(struct oracle *o)
{
    double until = now_s() + o->opt.seconds;
    unsigned starts = 0;
    srandom(42);
    while (o->n < o->opt.samples && now_s() < until) {
        if (!o->pid && (++starts > 200 || !again(o)))
            return -1;
        if (o->opt.load && !o->load_pid)
            o->load_pid = start((char *[]){"sh", "-c", (char *)(uintptr_t)o->opt.load, NULL});
        pause_us(100 + (unsigned long)random() % 900);
        if (!interrupt(o->pid)) {
            o->pid = 0; /* a short program: once more */
            continue;
        }
        if (compare(o) < 0)
            end_program(o);
        else
            (void)ptrace(PTRACE_CONT, o->pid, 0, 0);
    }
    return 0;
}

static int report(const struct oracle *o)
{
    double percent = o->n ? 100.0 * (double)o->n_same / (double)o->n : 0;
    printf("%s: %lu samples, %lu identical (%.3f %%), %.1f frames a sample, %.1f %% of them by "
           "frame pointer; ended by",
           o->opt.program[0], o->n, o->n_same, percent, (double)o->n_frames / (double)o->n,
           100.0 * (double)o->n_by_fp / (double)o->n_frames);
    for (uint32_t i = 0; i < HW_STOP_COUNT; i++)
        if (o->stops[i])
            printf(" %s %lu", stop_name(i), o->stops[i]);
    printf("\n");
    return percent >= o->opt.min_percent ? 0 : 1;
}

static int parse(int argc, char **argv, struct options *opt)
{
    *opt = (struct options){.samples = 10000, .seconds = 600, .min_percent = 99.9};
    int c;
    while ((c = getopt(argc, argv, "+n:s:m:l:")) != -1) {
        if (c == 'n')
            opt->samples = strtoul(optarg, NULL, 10);
        else if (c == 's')
            opt->seconds = strtod(optarg, NULL);
        else if (c == 'm')
            opt->min_percent = strtod(optarg, NULL);
        else if (c == 'l')
            opt->load = optarg;
        else
            return -1;
    }
    opt->program = argv + optind;
    return optind < argc ? 0 : -1;
}

int main(int argc, char **argv)
{
    struct oracle o = {0};
    if (parse(argc, argv, &o.opt) < 0) {
        fprintf(stderr, "usage: oracle [-n SAMPLES] [-s SECONDS] [-m PERCENT] [-l LOAD] -- "
                        "PROGRAM [ARG...]\n");
        return 2;
    }
    o.cache = calloc(1, hw_walk_cache_bytes());
    o.copy = malloc(MAX_COPY);
    if (!o.cache || !o.copy)
        return 2;
    int rc = drive(&o);
    end_program(&o);
    if (o.load_pid > 0) {
        (void)kill(o.load_pid, SIGKILL);
        (void)waitpid(o.load_pid, NULL, 0);
    }
    if (rc < 0 && !o.n) {
        fprintf(stderr, "cannot run or trace '%s' here: %s\n", o.opt.program[0], strerror(errno));
        return 77;
    }
    rc = report(&o);
    if (o.tables.dir)
        process_tables_done(&o.tables);
    if (o.dwfl)
        dwfl_end(o.dwfl);
    free(o.cache);
    free(o.copy);
    return rc;
}

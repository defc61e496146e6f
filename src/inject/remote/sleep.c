/* sleep.c - see sleep.h */
#include "inject/remote/sleep.h"

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/fd.h"
#include "inject/remote/calls.h"
#include "proc/pid.h"

#include "base/banned.h"

#define TEXT_BYTES  4096
#define COMPARISONS 20
#define AT_ONCE_NS  500000
#define NEVER       0 /* also where the scheduler has moved it to another processor as it slept */

static bool read_text(int dir, const char *name, char out[TEXT_BYTES])
{
    hw_autofd int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, TEXT_BYTES - 1);
    out[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* "key   :   milliseconds.nanoseconds", or a count. */
static bool value_of(const char *text, const char *key, uint64_t *whole, uint64_t *millionths)
{
    const char *p = strstr(text, key);
    p = p ? strchr(p, ':') : NULL;
    char *end;
    if (!p)
        return false;
    *whole = strtoull(p + 1, &end, 10);
    *millionths = *end == '.' ? strtoull(end + 1, NULL, 10) : 0;
    return true;
}

static bool ran_at(const char *text, uint64_t *ns)
{
    uint64_t ms, rest;
    if (!value_of(text, "\nse.exec_start", &ms, &rest))
        return false;
    *ns = ms * 1000000 + rest;
    return true;
}

static bool switches(const char *text, uint64_t *out)
{
    uint64_t none;
    return value_of(text, "\nnr_voluntary_switches", out, &none);
}

/* The processor it last ran on: the 39th field of the line, the 37th after its name. */
static int processor_of(const char *stat)
{
    const char *p = strrchr(stat, ')');
    for (int i = 0; p && i < 37; i++)
        p = strchr(p + 1, ' ');
    return p ? (int)strtol(p, NULL, 10) : -1;
}

/* Our own thread's last time on its processor's clock, and ours right after it. If our thread
 * had to wait for the processor in between, the two belong to different moments: it tries again. */
static bool own_time(uint64_t *ns, uint64_t *now_ns)
{
    char name[64], text[TEXT_BYTES];
    (void)snprintf(name, sizeof name, "/proc/self/task/%d/sched", (int)syscall(SYS_gettid));
    for (int i = 0; i < COMPARISONS; i++) {
        (void)sched_yield(); /* makes the scheduler read its clock */
        uint64_t yielded_ns = hw_now_monotonic_ns();
        if (!read_text(AT_FDCWD, name, text) || !ran_at(text, ns))
            return false;
        *now_ns = hw_now_monotonic_ns();
        if (*now_ns - yielded_ns < AT_ONCE_NS)
            return true;
    }
    return false;
}

static bool time_there(int cpu, uint64_t *ns, uint64_t *now_ns)
{
    cpu_set_t before, there;
    CPU_ZERO(&there);
    if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof before, &before) < 0)
        return false;
    CPU_SET((size_t)cpu, &there);
    if (sched_setaffinity(0, sizeof there, &there) < 0)
        return false;
    bool ok = own_time(ns, now_ns);
    (void)sched_setaffinity(0, sizeof before, &before); /* where we were allowed to run before */
    return ok;
}

static bool sched_of(const struct hw_pid *pid, int32_t number, uint64_t *ran, uint64_t *n_switches)
{
    char name[64], text[TEXT_BYTES];
    (void)snprintf(name, sizeof name, "task/%d/sched", number);
    return read_text(pid->dir, name, text) && ran_at(text, ran) && switches(text, n_switches);
}

/* The calls that thread_restart.c can shorten. */
static bool takes_time_out(const struct hw_call_now *now, bool filtered)
{
    const struct hw_call *c = hw_call_find(now->number);
    return c && (c->after == HW_CALL_BY_US || (c->after == HW_CALL_BY_BLOCK && filtered)) &&
           hw_call_time(c, now->args) != HW_CALL_NO_TIME;
}

void hw_sleep_inspect(const struct hw_pid *pid, int32_t number, const struct hw_call_now *now,
                      bool filtered, struct hw_sleep *out)
{
    char name[64], stat[TEXT_BYTES];
    uint64_t there, ran, n_switches;
    *out = (struct hw_sleep){0};
    if (!takes_time_out(now, filtered))
        return;
    (void)snprintf(name, sizeof name, "task/%d/stat", number);
    /* Read before and after its state: a thread that ran meanwhile may have moved to a processor
     * with another clock. */
    if (!sched_of(pid, number, &ran, &n_switches) || !read_text(pid->dir, name, stat))
        return;
    const char *state = strrchr(stat, ')');
    if (!state || strncmp(state, ") S", 3) != 0 ||
        !sched_of(pid, number, &out->ran_ns, &out->n_switches) || out->ran_ns != ran ||
        out->n_switches != n_switches || ran == NEVER ||
        !time_there(processor_of(stat), &there, &out->looked_ns))
        return;
    out->slept_ns = there > out->ran_ns ? there - out->ran_ns : 0;
}

void hw_sleep_check(const struct hw_pid *pid, int32_t number, struct hw_sleep *s)
{
    uint64_t ran, n;
    if (s->slept_ns && (!sched_of(pid, number, &ran, &n) || n != s->n_switches || ran != s->ran_ns))
        s->slept_ns = 0;
}

uint64_t hw_sleep_until(const struct hw_pid *pid, int32_t number, const struct hw_sleep *s,
                        uint64_t stopped_ns)
{
    uint64_t ran, n;
    /* One more: our stop. */
    if (s->slept_ns == 0 || !sched_of(pid, number, &ran, &n) || n != s->n_switches + 1)
        return 0;
    uint64_t all = s->slept_ns + (stopped_ns - s->looked_ns);
    return all - all / 1024; /* that clock may run faster than the one of time-outs */
}

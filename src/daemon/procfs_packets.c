#include "daemon/procfs_packets.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/fd.h"
#include "proc/maps.h"
#include "proc/pid.h"
#include "proc/smaps.h"
#include "trace/process_writer.h"

#include "base/banned.h"

enum { MAX_ARGS = 256, MAX_ARG = 4096 };

size_t hw_split_args(char *text, size_t n, const char **args, size_t max)
{
    size_t n_args = 0;
    for (char *p = text; p < text + n && n_args < max; p += strlen(p) + 1) {
        args[n_args++] = p;
        if (strlen(p) > MAX_ARG)
            p += MAX_ARG; /* an argument of megabytes: its rest is not needed */
    }
    /* A title that a server wrote over its arguments is one string followed by NULs. */
    while (n_args > 1 && args[n_args - 1][0] == '\0')
        n_args--;
    return n_args;
}

int hw_write_process(struct hw_trace_writer *w, uint32_t sequence, const struct hw_pid *pid,
                     struct hw_error *err)
{
    struct hw_proc_status st;
    hw_autofree char *cmdline = NULL;
    size_t n = 0;
    const char *args[MAX_ARGS];
    long hz = sysconf(_SC_CLK_TCK);
    int rc = hw_proc_status(pid->dir, &st);
    if (rc == 0)
        rc = hw_proc_cmdline(pid->dir, &cmdline, &n);
    if (rc < 0)
        return hw_fail(err, rc, 0, "process %d:", pid->pid);
    struct hw_process_entry e = {.pid = pid->pid,
                                 .ppid = st.ppid,
                                 .uid = (int32_t)st.uid,
                                 .cmdline = args,
                                 .n_cmdline = hw_split_args(cmdline, n, args, MAX_ARGS),
                                 .start_from_boot_ns = HW_ABSENT};
    if (hz > 0)
        e.start_from_boot_ns = pid->start_ticks * (UINT64_C(1000000000) / (uint64_t)hz);
    return hw_trace_process_tree(w, sequence, hw_now_boottime_ns(), &e, 1, NULL, 0, err);
}

static void take_figures(const struct hw_smaps_entry *e, uint64_t kb[HW_VMA_COLUMN_COUNT])
{
    kb[HW_VMA_SIZE] = e->size_kb;
    kb[HW_VMA_RSS] = e->rss_kb;
    kb[HW_VMA_ANONYMOUS] = e->anonymous_kb;
    kb[HW_VMA_SWAP] = e->swap_kb;
    kb[HW_VMA_SHARED_CLEAN] = e->shared_clean_kb;
    kb[HW_VMA_SHARED_DIRTY] = e->shared_dirty_kb;
    kb[HW_VMA_PRIVATE_CLEAN] = e->private_clean_kb;
    kb[HW_VMA_PRIVATE_DIRTY] = e->private_dirty_kb;
    kb[HW_VMA_LOCKED] = e->locked_kb;
    kb[HW_VMA_PSS] = e->pss_kb;
    kb[HW_VMA_PSS_DIRTY] = e->pss_dirty_kb;
    kb[HW_VMA_SWAP_PSS] = e->swap_pss_kb;
}

static int write_by_name(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                         int32_t pid, const struct hw_smaps *m, uint32_t columns,
                         struct hw_error *err)
{
    struct hw_vma *v = calloc(m->entries.n + 1, sizeof *v);
    if (!v)
        return hw_fail(err, HW_ENOMEM, 0, "memory map of %d", pid);
    for (size_t i = 0; i < m->entries.n; i++) {
        const struct hw_smaps_entry *e = &m->entries.v[i];
        v[i].name = e->path;
        v[i].n_mappings = e->n_mappings;
        take_figures(e, v[i].kb);
    }
    int rc = hw_trace_smaps(w, sequence, boottime_ns, pid, v, m->entries.n, columns,
                            /* aggregate = */ true, err);
    free(v);
    return rc;
}

#define COLUMNS (HW_VMA_DEFAULT | 1u << HW_VMA_PRIVATE_DIRTY | 1u << HW_VMA_PSS)

int hw_write_smaps(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns, int32_t pid,
                   const struct hw_smaps *m, struct hw_error *err)
{
    return write_by_name(w, sequence, boottime_ns, pid, m, COLUMNS, err);
}

int hw_write_account(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                     int32_t pid, const struct hw_smaps *m, struct hw_error *err)
{
    return write_by_name(w, sequence, boottime_ns, pid, m,
                         COLUMNS | 1u << HW_VMA_SHARED_CLEAN | 1u << HW_VMA_SHARED_DIRTY |
                             1u << HW_VMA_PRIVATE_CLEAN | 1u << HW_VMA_SWAP_PSS,
                         err);
}

int hw_write_regions(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                     int32_t pid, const struct hw_smaps *m, struct hw_error *err)
{
    enum { MAY_SHARE = 128 };
    struct hw_trace_region *v = calloc(m->entries.n + 1, sizeof *v);
    if (!v)
        return hw_fail(err, HW_ENOMEM, 0, "memory map of %d", pid);
    for (size_t i = 0; i < m->entries.n; i++) {
        const struct hw_smaps_entry *e = &m->entries.v[i];
        v[i].name = e->path;
        v[i].start = e->start;
        v[i].protection = (e->flags & (HW_MAP_READ | HW_MAP_WRITE | HW_MAP_EXEC)) |
                          (e->flags & HW_MAP_SHARED ? MAY_SHARE : 0u);
        take_figures(e, v[i].kb);
    }
    int rc = hw_trace_regions(w, sequence, boottime_ns, pid, v, m->entries.n, err);
    free(v);
    return rc;
}

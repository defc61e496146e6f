/*
 * process_writer.h - packets about whole processes: tree, counters, memory maps, packages
 *
 * Why:     the recorder collects the numbers from /proc; only this code knows which field of which
 *          message they go into.
 * Shapes:  one packet per call, on the given sequence (hw_trace_writer_sequence; one per data
 *          source).
 * Units:   kB are KiB as in /proc; HW_ABSENT leaves a number out.
 * Owns:    nothing; strings and arrays are borrowed for the call.
 * Errors:  those of trace/writer.h.
 * Source:  doc/formats/trace.md; MallocInfo, MemoryAccount: proto/heapwise.proto
 */
#ifndef HW_TRACE_PROCESS_WRITER_H
#define HW_TRACE_PROCESS_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "model/memory/malloc_arena.h"

struct hw_error;
struct hw_trace_writer;

#define HW_ABSENT UINT64_MAX

struct hw_process_entry {
    int32_t pid, ppid, uid;
    const char *const *cmdline; /* argv; without it readers ignore the process */
    size_t n_cmdline;
    bool cmdline_is_comm; /* argv was empty: cmdline[0] is the kernel's short name */
    bool is_kthread;
    uint64_t start_from_boot_ns; /* HW_ABSENT */
    const int32_t *nspids;       /* pids in inner namespaces, outermost first */
    size_t n_nspids;
};

struct hw_thread_entry {
    int32_t tid, tgid;
    const char *name; /* NULL = unknown */
};

int hw_trace_process_tree(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                          const struct hw_process_entry *processes, size_t n_processes,
                          const struct hw_thread_entry *threads, size_t n_threads,
                          struct hw_error *err);

#define HW_NO_OOM_SCORE INT64_MIN

struct hw_process_fd {
    uint64_t fd;
    const char *path;
};

struct hw_process_counters {
    int32_t pid;
    uint64_t vm_size_kb, vm_rss_kb, rss_anon_kb, rss_file_kb, rss_shmem_kb, vm_swap_kb,
        vm_locked_kb, vm_hwm_kb; /* status; each may be HW_ABSENT */
    uint64_t smr_rss_kb, smr_pss_kb, smr_pss_anon_kb, smr_pss_file_kb, smr_pss_shmem_kb,
        smr_swap_pss_kb; /* smaps_rollup */
    uint64_t runtime_user_ns, runtime_kernel_ns, dmabuf_rss_kb;
    int64_t oom_score_adj;           /* HW_NO_OOM_SCORE */
    const struct hw_process_fd *fds; /* resolve_process_fds */
    size_t n_fds;
};

/* All fields HW_ABSENT, so that a caller sets what it knows. */
void hw_process_counters_init(struct hw_process_counters *c, int32_t pid);
int hw_trace_process_stats(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                           const struct hw_process_counters *counters, size_t n,
                           struct hw_error *err);

/* Columns of a memory map, numbered as SmapsConfig.VmaField: bit (1 << number). */
enum hw_vma_column {
    HW_VMA_SIZE = 1,
    HW_VMA_RSS,
    HW_VMA_ANONYMOUS,
    HW_VMA_SWAP,
    HW_VMA_SHARED_CLEAN,
    HW_VMA_SHARED_DIRTY,
    HW_VMA_PRIVATE_CLEAN,
    HW_VMA_PRIVATE_DIRTY,
    HW_VMA_LOCKED,
    HW_VMA_PSS,
    HW_VMA_PSS_DIRTY,
    HW_VMA_SWAP_PSS,
    HW_VMA_COLUMN_COUNT
};
#define HW_VMA_DEFAULT                                                                             \
    (1u << HW_VMA_SIZE | 1u << HW_VMA_RSS | 1u << HW_VMA_ANONYMOUS | 1u << HW_VMA_SWAP)

struct hw_vma {
    const char *name; /* "" = anonymous */
    uint64_t kb[HW_VMA_COLUMN_COUNT];
    uint64_t n_mappings; /* whose sums these are; 0 = one */
};

/* columns 0 = HW_VMA_DEFAULT. aggregate: one entry per name, in order of first appearance. */
int hw_trace_smaps(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns, int32_t pid,
                   const struct hw_vma *vmas, size_t n, uint32_t columns, bool aggregate,
                   struct hw_error *err);

/* One mapping, with its address. Of kb: size, swap, shared, private, locked, pss. */
struct hw_trace_region {
    const char *name; /* "" = anonymous */
    uint64_t start;
    uint32_t protection; /* 1 read, 2 write, 4 execute, 128 may be shared */
    uint64_t kb[HW_VMA_COLUMN_COUNT];
};

int hw_trace_regions(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                     int32_t pid, const struct hw_trace_region *regions, size_t n,
                     struct hw_error *err);

struct hw_trace_attribute {
    const char *key, *value;
};

/* Facts about the trace itself: metadata `trace_attribute.KEY` in readers. */
int hw_trace_attributes(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                        const struct hw_trace_attribute *all, size_t n, struct hw_error *err);

struct hw_java_frame {
    const char *method, *file; /* pkg.Class.method; "" = unknown */
    uint32_t line;             /* 0 = unknown */
};

struct hw_java_oome { /* the heap graph that follows was taken at an OutOfMemoryError */
    int32_t pid;
    uint64_t allocation_size; /* that failed; 0 = unknown */
    uint64_t free_bytes;      /* HW_ABSENT */
    const char *message;
    const struct hw_java_frame *frames; /* of the thread whose allocation failed, leaf first */
    size_t n_frames;
};

int hw_trace_java_oome(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                       const struct hw_java_oome *o, struct hw_error *err);

struct hw_package {
    const char *name;
    uint64_t uid;
    bool debuggable, profileable_from_shell;
    int64_t version_code;
};

int hw_trace_packages_list(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                           const struct hw_package *packages, size_t n, bool read_error,
                           struct hw_error *err);

struct hw_malloc_info {
    int32_t pid;
    uint64_t arena_bytes, mmap_bytes, in_use_bytes, free_bytes, releasable_bytes;
    uint64_t live_bytes, rounding_bytes; /* our own figures at that call; HW_ABSENT */
};

int hw_trace_malloc_info(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                         const struct hw_malloc_info *m, struct hw_error *err);

struct hw_trace_v8_space {
    uint32_t space;                     /* MemoryAccount.V8Space.Space */
    uint64_t committed, used, resident; /* used may be HW_ABSENT */
};

/* Each may be HW_ABSENT. */
struct hw_memory_account {
    int32_t pid;
    uint64_t live_bytes, live_before_bytes, rounding_bytes, gap_bytes, page_tables_kb, rss_kb,
        swap_kb, took_us;
    bool is_cut;
    uint64_t cgroup_current, cgroup_limit, cgroup_anon, cgroup_file, cgroup_kernel, cgroup_sock,
        cgroup_shmem;
    uint64_t mapped_divided_bytes, mapped_left_bytes, mapped_errno;
    uint64_t own_left_bytes, cgroup_id;
    uint64_t jvm_heap_used, jvm_heap_committed, jvm_heap_max;
    uint64_t jvm_metaspace_used, jvm_metaspace_committed, jvm_threads;
    uint64_t jvm_code_used, jvm_code_committed;
    uint64_t pins_blocks, pins_missed;
    uint64_t python_state, python_arenas, python_used, python_free_blocks, python_free_pools,
        python_committed, python_resident;
    uint64_t go_state, go_objects, go_in_use, go_committed, go_stacks, go_metadata;
    uint64_t v8_state;
    const struct hw_malloc_arena *arenas; /* borrowed */
    size_t n_arenas;
    const struct hw_trace_v8_space *v8_spaces; /* borrowed */
    size_t n_v8_spaces;
};

_Static_assert(HW_ABSENT == UINT64_MAX, "all bits set");
static inline struct hw_memory_account hw_memory_account_of(int32_t pid)
{
    struct hw_memory_account a;
    memset(&a, 0xff, sizeof a);
    a.pid = pid;
    a.is_cut = false;
    a.arenas = NULL;
    a.n_arenas = 0;
    a.v8_spaces = NULL;
    a.n_v8_spaces = 0;
    return a;
}

int hw_trace_memory_account(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                            const struct hw_memory_account *a, struct hw_error *err);
/* How a process ended, as wait() gives it. */
int hw_trace_exit_status(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                         int32_t pid, uint32_t status, struct hw_error *err);

/*
 * A mark: an instant event of category HW_MARK_CATEGORY on a track of the whole trace, so other
 * readers draw it, too. describe: writes that track's name before it, once per trace.
 */
#define HW_MARK_CATEGORY "heapwise.mark"
int hw_trace_mark(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                  const char *name, bool describe, struct hw_error *err);

#endif

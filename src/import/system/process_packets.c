#include "import/system/process_packets.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text/strbuf.h"
#include "codec/pb.h"
#include "schema/fields.h"

#include "base/banned.h"

uint64_t hw_import_pid(struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == 1 && f.wire == HW_PB_VARINT) /* pid, in each of these messages */
            return f.value;
    return 0;
}

/* ---- process tree ---- */

struct tree_entry {
    int64_t pid, ppid, uid, start_ns;
    struct hw_bytes argv0;
    size_t n_argv;
};

/* The shown name is argv[0]; of a single element only the part before the first space. */
static struct hw_bytes shown_name(const struct tree_entry *e)
{
    const uint8_t *space = NULL;
    if (e->n_argv == 1 && e->argv0.n)
        space = memchr(e->argv0.p, ' ', e->argv0.n);
    return space ? hw_bytes_of(e->argv0.p, (size_t)(space - e->argv0.p)) : e->argv0;
}

static void tree_field(struct tree_entry *e, const struct hw_pb_field *f, struct hw_strbuf *cmdline)
{
    switch (f->number) {
    case HW_F_ProcessTree_Process_pid:
        e->pid = (int32_t)f->value;
        break;
    case HW_F_ProcessTree_Process_ppid:
        e->ppid = (int32_t)f->value;
        break;
    case HW_F_ProcessTree_Process_uid:
        e->uid = (int32_t)f->value;
        break;
    case HW_F_ProcessTree_Process_process_start_from_boot:
        e->start_ns = f->value <= INT64_MAX ? (int64_t)f->value : -1;
        break;
    case HW_F_ProcessTree_Process_cmdline:
        if (e->n_argv++ == 0)
            e->argv0 = f->bytes;
        else
            hw_strbuf_addc(cmdline, ' ');
        hw_strbuf_add(cmdline, f->bytes.p, f->bytes.n);
        break;
    default:
        break;
    }
}

/* The kernel has reused the pid: both starts are known and differ by a tick, in which it tells them. */
static bool is_another(const struct hw_process *known, const struct tree_entry *e)
{
    enum { TICK_NS = 10 * 1000 * 1000 };
    return known->start_ns >= 0 && e->start_ns >= 0 &&
           (e->start_ns > known->start_ns ? e->start_ns - known->start_ns
                                          : known->start_ns - e->start_ns) >= TICK_NS;
}

static int add_process(struct hw_profile *p, struct hw_bytes message, struct hw_strbuf *cmdline)
{
    struct tree_entry e = {.uid = -1, .start_ns = -1}; /* ids left out are 0 */
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    hw_strbuf_clear(cmdline);
    while (hw_pb_next(&r, &f) == 1)
        tree_field(&e, &f, cmdline);
    if (cmdline->failed)
        return HW_ENOMEM;
    if (e.pid < 0 || e.n_argv == 0)
        return HW_OK; /* readers ignore entries without a command line */
    hw_upid upid, parent;
    hw_str_id name, joined;
    int rc = e.ppid > 0 ? hw_profile_traced_process(p, e.ppid, &parent) : HW_OK;
    if (rc == HW_OK)
        rc = hw_profile_traced_process(p, e.pid, &upid);
    if (rc == HW_OK && is_another(&p->processes.v[upid.v], &e))
        rc = hw_profile_process_new(p, e.pid, &upid);
    if (rc == HW_OK)
        rc = hw_profile_str(p, shown_name(&e), &name);
    if (rc == HW_OK)
        rc = hw_profile_str(p, hw_bytes_of(cmdline->p, cmdline->n), &joined);
    if (rc < 0)
        return rc;
    struct hw_process *row = &p->processes.v[upid.v];
    row->name = name;
    row->cmdline = joined;
    row->uid = e.uid >= 0 ? e.uid : row->uid;
    row->start_ns = row->start_ns >= 0 ? row->start_ns : e.start_ns;
    if (row->ppid < 0)
        row->ppid = e.ppid;
    else if (e.ppid >= 0 && row->ppid != e.ppid)
        rc = hw_profile_stat_add(p, "process_tracker_parent_pid_changed", -1, HW_STAT_INFO, 1);
    return rc;
}

static int add_thread(struct hw_profile *p, struct hw_bytes message)
{
    int64_t tid = -1, tgid = -1;
    struct hw_bytes text = {NULL, 0};
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    hw_upid upid;
    hw_str_id name;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_ProcessTree_Thread_tid && f.wire == HW_PB_VARINT)
            tid = (int32_t)f.value;
        else if (f.number == HW_F_ProcessTree_Thread_tgid && f.wire == HW_PB_VARINT)
            tgid = (int32_t)f.value;
        else if (f.number == HW_F_ProcessTree_Thread_name && f.wire == HW_PB_BYTES)
            text = f.bytes;
    }
    if (tid < 0 || tgid < 0)
        return HW_OK;
    int rc = hw_profile_traced_process(p, tgid, &upid);
    if (rc == HW_OK)
        rc = hw_profile_str(p, text, &name);
    return rc < 0 ? rc : hw_profile_thread(p, upid, tid, name, NULL);
}

int hw_import_process_tree(struct hw_profile *p, struct hw_bytes message)
{
    struct hw_strbuf cmdline = {0};
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_ProcessTree_processes && f.wire == HW_PB_BYTES)
            rc = add_process(p, f.bytes, &cmdline);
    r = hw_pb_read(message); /* threads may precede their processes */
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_ProcessTree_threads && f.wire == HW_PB_BYTES)
            rc = add_thread(p, f.bytes);
    hw_strbuf_done(&cmdline);
    return rc;
}

/* ---- packages ---- */

static int add_package(struct hw_profile *p, struct hw_bytes message)
{
    struct hw_package_row row = {.uid = -1};
    struct hw_bytes name = {NULL, 0};
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1) {
        switch (f.number) {
        case HW_F_PackagesList_PackageInfo_name:
            name = f.bytes;
            break;
        case HW_F_PackagesList_PackageInfo_uid:
            row.uid = (int64_t)f.value;
            break;
        case HW_F_PackagesList_PackageInfo_debuggable:
            row.debuggable = f.value != 0;
            break;
        case HW_F_PackagesList_PackageInfo_profileable_from_shell:
            row.profileable_from_shell = f.value != 0;
            break;
        case HW_F_PackagesList_PackageInfo_version_code:
            row.version_code = (int64_t)f.value;
            break;
        default:
            break;
        }
    }
    int rc = hw_profile_str(p, name, &row.name);
    return rc == HW_OK && hw_vec_push(&p->packages, row) < 0 ? HW_ENOMEM : rc;
}

int hw_import_packages(struct hw_profile *p, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_PackagesList_packages && f.wire == HW_PB_BYTES)
            rc = add_package(p, f.bytes);
        else if (f.number == HW_F_PackagesList_parse_error && f.value)
            rc = hw_profile_stat_set(p, "packages_list_has_parse_errors", -1, HW_STAT_ERROR, 1);
        else if (f.number == HW_F_PackagesList_read_error && f.value)
            rc = hw_profile_stat_set(p, "packages_list_has_read_errors", -1, HW_STAT_ERROR, 1);
    }
    return rc;
}

/* ---- users ---- */

/* The first row of an id counts. */
static int add_user(struct hw_profile *p, struct hw_bytes message)
{
    struct hw_android_user row = {0};
    struct hw_bytes type = {NULL, 0};
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t *at;
    bool fresh;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_AndroidUserList_UserInfo_type && f.wire == HW_PB_BYTES)
            type = f.bytes;
        else if (f.number == HW_F_AndroidUserList_UserInfo_uid && f.wire == HW_PB_VARINT)
            row.id = (int32_t)f.value;
    }
    int rc = hw_map64_at(&p->user_by_id, (uint32_t)row.id, &at, &fresh);
    if (rc < 0 || !fresh)
        return rc;
    *at = p->users.n;
    rc = hw_profile_str(p, type, &row.type);
    return rc == HW_OK && hw_vec_push(&p->users, row) < 0 ? HW_ENOMEM : rc;
}

int hw_import_users(struct hw_profile *p, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_AndroidUserList_users && f.wire == HW_PB_BYTES)
            rc = add_user(p, f.bytes);
    return rc;
}

/* ---- counters ---- */

struct counter_field {
    uint32_t field;
    const char *name;
    double scale; /* to bytes or ns; 1 = unchanged */
};

static int add_counters(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns,
                        const struct counter_field *known, size_t n_known)
{
    uint64_t pid = hw_import_pid(message);
    hw_upid upid;
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    if (pid > INT32_MAX)
        return HW_OK;
    int rc = hw_profile_traced_process(p, (int64_t)pid, &upid);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        size_t i = 0;
        while (i < n_known && known[i].field != f.number)
            i++;
        if (i == n_known || f.wire != HW_PB_VARINT)
            continue;
        struct hw_counter_row row = {
            .upid = upid, .ts_ns = ts_ns, .value = (double)(int64_t)f.value * known[i].scale};
        rc = hw_profile_str(p, hw_bytes_str(known[i].name), &row.name);
        if (rc == HW_OK && hw_vec_push(&p->counters, row) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}

int hw_import_process_stats(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns)
{
#define P(name) HW_F_ProcessStats_Process_##name
    static const struct counter_field known[] = {
        {P(vm_size_kb), "mem.virt", 1024},
        {P(vm_rss_kb), "mem.rss", 1024},
        {P(rss_anon_kb), "mem.rss.anon", 1024},
        {P(rss_file_kb), "mem.rss.file", 1024},
        {P(rss_shmem_kb), "mem.rss.shmem", 1024},
        {P(vm_swap_kb), "mem.swap", 1024},
        {P(vm_locked_kb), "mem.locked", 1024},
        {P(vm_hwm_kb), "mem.rss.watermark", 1024},
        {P(oom_score_adj), "oom_score_adj", 1},
        {P(smr_rss_kb), "mem.smaps.rss", 1024},
        {P(smr_pss_kb), "mem.smaps.pss", 1024},
        {P(smr_pss_anon_kb), "mem.smaps.pss.anon", 1024},
        {P(smr_pss_file_kb), "mem.smaps.pss.file", 1024},
        {P(smr_pss_shmem_kb), "mem.smaps.pss.shmem", 1024},
        {P(smr_swap_pss_kb), "mem.smaps.swap.pss", 1024},
        {P(dmabuf_rss_kb), "mem.dmabuf_rss", 1024},
        {P(runtime_user_mode), "runtime.user_ns", 1},
        {P(runtime_kernel_mode), "runtime.kernel_ns", 1},
    };
#undef P
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_ProcessStats_processes && f.wire == HW_PB_BYTES)
            rc = add_counters(p, f.bytes, ts_ns, known, HW_ARRAY_LEN(known));
    return rc;
}

int hw_import_malloc_info(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns)
{
    static const struct counter_field known[] = {
        {HW_F_MallocInfo_arena_bytes, "malloc_info.arena", 1},
        {HW_F_MallocInfo_mmap_bytes, "malloc_info.mmap", 1},
        {HW_F_MallocInfo_in_use_bytes, "malloc_info.in_use", 1},
        {HW_F_MallocInfo_free_bytes, "malloc_info.free", 1},
        {HW_F_MallocInfo_releasable_bytes, "malloc_info.releasable", 1},
        {HW_F_MallocInfo_live_bytes, "account.in_use.live", 1},
        {HW_F_MallocInfo_rounding_bytes, "account.in_use.rounding", 1},
    };
    return add_counters(p, message, ts_ns, known, HW_ARRAY_LEN(known));
}

/* number: of the arenas before it in the same reading. */
static int add_arena(struct hw_profile *p, struct hw_bytes message, hw_upid upid, int64_t ts_ns,
                     uint32_t number)
{
    struct hw_malloc_arena a = {.upid = upid,
                                .ts_ns = ts_ns,
                                .number = number,
                                .system_bytes = -1,
                                .in_use_bytes = -1,
                                .free_bytes = -1,
                                .top_bytes = -1,
                                .cached_bytes = -1,
                                .fast_bytes = -1,
                                .returnable_bytes = -1,
                                .resident_bytes = -1};
    int64_t *const figures[] = {
        [HW_F_MemoryAccount_Arena_threads] = &a.threads,
        [HW_F_MemoryAccount_Arena_system_bytes] = &a.system_bytes,
        [HW_F_MemoryAccount_Arena_in_use_bytes] = &a.in_use_bytes,
        [HW_F_MemoryAccount_Arena_free_bytes] = &a.free_bytes,
        [HW_F_MemoryAccount_Arena_top_bytes] = &a.top_bytes,
        [HW_F_MemoryAccount_Arena_cached_bytes] = &a.cached_bytes,
        [HW_F_MemoryAccount_Arena_fast_bytes] = &a.fast_bytes,
        [HW_F_MemoryAccount_Arena_returnable_bytes] = &a.returnable_bytes,
        [HW_F_MemoryAccount_Arena_resident_bytes] = &a.resident_bytes,
    };
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.wire != HW_PB_VARINT || f.value > INT64_MAX)
            continue;
        if (f.number == HW_F_MemoryAccount_Arena_state)
            a.state = (uint32_t)f.value;
        else if (f.number == HW_F_MemoryAccount_Arena_is_main)
            a.is_main = f.value != 0;
        else if (f.number < HW_ARRAY_LEN(figures) && figures[f.number])
            *figures[f.number] = (int64_t)f.value;
    }
    return hw_vec_push(&p->arenas, a) < 0 ? HW_ENOMEM : HW_OK;
}

/* Its counters, by space: v8.old.used, and so on. */
static int add_v8_space(struct hw_profile *p, struct hw_bytes message, hw_upid upid, int64_t ts_ns)
{
    static const char *const spaces[] = {
        "read_only", "new",       "old",   "code",       "map",          "shared",
        "trusted",   "new_large", "large", "code_large", "shared_large", "trusted_large"};
    static const char *const figures[] = {[HW_F_MemoryAccount_V8Space_committed_bytes] =
                                              "committed",
                                          [HW_F_MemoryAccount_V8Space_used_bytes] = "used",
                                          [HW_F_MemoryAccount_V8Space_resident_bytes] = "resident"};
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t space = 0;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        char name[64];
        if (f.wire != HW_PB_VARINT || f.value > INT64_MAX)
            continue;
        if (f.number == HW_F_MemoryAccount_V8Space_space)
            space = f.value;
        if (space >= HW_ARRAY_LEN(spaces) || f.number >= HW_ARRAY_LEN(figures) ||
            !figures[f.number])
            continue;
        struct hw_counter_row row = {.upid = upid, .ts_ns = ts_ns, .value = (double)f.value};
        (void)snprintf(name, sizeof name, "v8.%s.%s", spaces[space], figures[f.number]);
        rc = hw_profile_str(p, hw_bytes_str(name), &row.name);
        if (rc == HW_OK && hw_vec_push(&p->counters, row) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}

static int add_parts(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns)
{
    uint64_t pid = hw_import_pid(message);
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint32_t n = 0;
    hw_upid upid;
    if (pid > INT32_MAX)
        return HW_OK;
    int rc = hw_profile_traced_process(p, (int64_t)pid, &upid);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_MemoryAccount_arenas && f.wire == HW_PB_BYTES)
            rc = add_arena(p, f.bytes, upid, ts_ns, n++);
        else if (f.number == HW_F_MemoryAccount_v8_spaces && f.wire == HW_PB_BYTES)
            rc = add_v8_space(p, f.bytes, upid, ts_ns);
    return rc;
}

int hw_import_memory_account(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns)
{
    static const struct counter_field known[] = {
        {HW_F_MemoryAccount_live_bytes, "account.live", 1},
        {HW_F_MemoryAccount_live_before_bytes, "account.live.before", 1},
        {HW_F_MemoryAccount_rounding_bytes, "account.rounding", 1},
        {HW_F_MemoryAccount_gap_bytes, "account.gaps", 1},
        {HW_F_MemoryAccount_page_tables_kb, "account.page_tables", 1024},
        {HW_F_MemoryAccount_rss_kb, "account.rss", 1024},
        {HW_F_MemoryAccount_swap_kb, "account.swap", 1024},
        {HW_F_MemoryAccount_took_us, "account.took_us", 1},
        {HW_F_MemoryAccount_is_cut, "account.is_cut", 1},
        {HW_F_MemoryAccount_cgroup_current, "cgroup.current", 1},
        {HW_F_MemoryAccount_cgroup_limit, "cgroup.limit", 1},
        {HW_F_MemoryAccount_cgroup_anon, "cgroup.anon", 1},
        {HW_F_MemoryAccount_cgroup_file, "cgroup.file", 1},
        {HW_F_MemoryAccount_cgroup_kernel, "cgroup.kernel", 1},
        {HW_F_MemoryAccount_cgroup_sock, "cgroup.sock", 1},
        {HW_F_MemoryAccount_cgroup_shmem, "cgroup.shmem", 1},
        {HW_F_MemoryAccount_cgroup_id, "cgroup.id", 1},
        {HW_F_MemoryAccount_jvm_heap_used, "jvm.heap.used", 1},
        {HW_F_MemoryAccount_jvm_heap_committed, "jvm.heap.committed", 1},
        {HW_F_MemoryAccount_jvm_heap_max, "jvm.heap.max", 1},
        {HW_F_MemoryAccount_jvm_metaspace_used, "jvm.metaspace.used", 1},
        {HW_F_MemoryAccount_jvm_metaspace_committed, "jvm.metaspace.committed", 1},
        {HW_F_MemoryAccount_jvm_threads, "jvm.threads", 1},
        {HW_F_MemoryAccount_jvm_code_used, "jvm.code.used", 1},
        {HW_F_MemoryAccount_jvm_code_committed, "jvm.code.committed", 1},
        {HW_F_MemoryAccount_python_state, "python.heap.state", 1},
        {HW_F_MemoryAccount_python_arenas, "python.heap.arenas", 1},
        {HW_F_MemoryAccount_python_used, "python.heap.used", 1},
        {HW_F_MemoryAccount_python_free_blocks, "python.heap.free_blocks", 1},
        {HW_F_MemoryAccount_python_free_pools, "python.heap.free_pools", 1},
        {HW_F_MemoryAccount_python_committed, "python.heap.committed", 1},
        {HW_F_MemoryAccount_python_resident, "python.heap.resident", 1},
        {HW_F_MemoryAccount_go_state, "go.heap.state", 1},
        {HW_F_MemoryAccount_go_objects, "go.heap.objects", 1},
        {HW_F_MemoryAccount_go_in_use, "go.heap.in_use", 1},
        {HW_F_MemoryAccount_go_committed, "go.heap.committed", 1},
        {HW_F_MemoryAccount_go_stacks, "go.heap.stacks", 1},
        {HW_F_MemoryAccount_go_metadata, "go.heap.metadata", 1},
        {HW_F_MemoryAccount_v8_state, "v8.heap.state", 1},
        {HW_F_MemoryAccount_mapped_divided_bytes, "account.mapped_divided", 1},
        {HW_F_MemoryAccount_mapped_left_bytes, "account.mapped_left", 1},
        {HW_F_MemoryAccount_own_left_bytes, "account.own_left", 1},
        {HW_F_MemoryAccount_mapped_errno, "account.mapped_errno", 1},
        {HW_F_MemoryAccount_pins_blocks, "account.pins_blocks", 1},
        {HW_F_MemoryAccount_pins_missed, "account.pins_missed", 1},
        {HW_F_MemoryAccount_exit_status, "exit.status", 1},
    };
    int rc = add_counters(p, message, ts_ns, known, HW_ARRAY_LEN(known));
    return rc == HW_OK ? add_parts(p, message, ts_ns) : rc;
}

#include "trace/process_writer.h"

#include <string.h>

#include "base/error.h"
#include "base/memory/vec.h"
#include "base/text/strings.h"
#include "codec/pb.h"
#include "schema/fields.h"
#include "trace/writer.h"

#include "base/banned.h"

static void put_number(struct hw_pb *pb, uint32_t field, uint64_t v)
{
    if (v != HW_ABSENT)
        hw_pb_uint(pb, field, v);
}

static void put_flag(struct hw_pb *pb, uint32_t field, bool on)
{
    if (on)
        hw_pb_uint(pb, field, 1);
}

static void put_process(struct hw_pb *pb, const struct hw_process_entry *e)
{
    hw_pb_begin(pb, HW_F_ProcessTree_processes);
    hw_pb_sint64(pb, HW_F_ProcessTree_Process_pid, e->pid);
    hw_pb_sint64(pb, HW_F_ProcessTree_Process_ppid, e->ppid);
    for (size_t i = 0; i < e->n_cmdline; i++)
        hw_pb_str(pb, HW_F_ProcessTree_Process_cmdline, e->cmdline[i]);
    hw_pb_sint64(pb, HW_F_ProcessTree_Process_uid, e->uid);
    for (size_t i = 0; i < e->n_nspids; i++)
        hw_pb_sint64(pb, HW_F_ProcessTree_Process_nspid, e->nspids[i]);
    put_number(pb, HW_F_ProcessTree_Process_process_start_from_boot, e->start_from_boot_ns);
    put_flag(pb, HW_F_ProcessTree_Process_is_kthread, e->is_kthread);
    put_flag(pb, HW_F_ProcessTree_Process_cmdline_is_comm, e->cmdline_is_comm);
    hw_pb_end(pb);
}

int hw_trace_process_tree(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                          const struct hw_process_entry *processes, size_t n_processes,
                          const struct hw_thread_entry *threads, size_t n_threads,
                          struct hw_error *err)
{
    struct hw_pb *pb = hw_trace_begin(w, sequence, boottime_ns);
    hw_pb_begin(pb, HW_F_TracePacket_process_tree);
    for (size_t i = 0; i < n_processes; i++)
        put_process(pb, &processes[i]);
    for (size_t i = 0; i < n_threads; i++) {
        hw_pb_begin(pb, HW_F_ProcessTree_threads);
        hw_pb_sint64(pb, HW_F_ProcessTree_Thread_tid, threads[i].tid);
        if (threads[i].name)
            hw_pb_str(pb, HW_F_ProcessTree_Thread_name, threads[i].name);
        hw_pb_sint64(pb, HW_F_ProcessTree_Thread_tgid, threads[i].tgid);
        hw_pb_end(pb);
    }
    put_number(pb, HW_F_ProcessTree_collection_end_timestamp,
               boottime_ns ? boottime_ns : HW_ABSENT);
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

void hw_process_counters_init(struct hw_process_counters *c, int32_t pid)
{
    memset(c, 0xff, sizeof *c); /* HW_ABSENT everywhere */
    c->pid = pid;
    c->oom_score_adj = HW_NO_OOM_SCORE;
    c->fds = NULL;
    c->n_fds = 0;
}

static void put_counters(struct hw_pb *pb, const struct hw_process_counters *c)
{
#define P(name) HW_F_ProcessStats_Process_##name
    hw_pb_begin(pb, HW_F_ProcessStats_processes);
    hw_pb_sint64(pb, P(pid), c->pid);
    put_number(pb, P(vm_size_kb), c->vm_size_kb);
    put_number(pb, P(vm_rss_kb), c->vm_rss_kb);
    put_number(pb, P(rss_anon_kb), c->rss_anon_kb);
    put_number(pb, P(rss_file_kb), c->rss_file_kb);
    put_number(pb, P(rss_shmem_kb), c->rss_shmem_kb);
    put_number(pb, P(vm_swap_kb), c->vm_swap_kb);
    put_number(pb, P(vm_locked_kb), c->vm_locked_kb);
    put_number(pb, P(vm_hwm_kb), c->vm_hwm_kb);
    if (c->oom_score_adj != HW_NO_OOM_SCORE)
        hw_pb_sint64(pb, P(oom_score_adj), c->oom_score_adj);
    for (size_t i = 0; i < c->n_fds; i++) {
        hw_pb_begin(pb, P(fds));
        hw_pb_uint(pb, HW_F_ProcessStats_FDInfo_fd, c->fds[i].fd);
        hw_pb_str(pb, HW_F_ProcessStats_FDInfo_path, c->fds[i].path);
        hw_pb_end(pb);
    }
    put_number(pb, P(smr_rss_kb), c->smr_rss_kb);
    put_number(pb, P(smr_pss_kb), c->smr_pss_kb);
    put_number(pb, P(smr_pss_anon_kb), c->smr_pss_anon_kb);
    put_number(pb, P(smr_pss_file_kb), c->smr_pss_file_kb);
    put_number(pb, P(smr_pss_shmem_kb), c->smr_pss_shmem_kb);
    put_number(pb, P(runtime_user_mode), c->runtime_user_ns);
    put_number(pb, P(runtime_kernel_mode), c->runtime_kernel_ns);
    put_number(pb, P(smr_swap_pss_kb), c->smr_swap_pss_kb);
    put_number(pb, P(dmabuf_rss_kb), c->dmabuf_rss_kb);
    hw_pb_end(pb);
#undef P
}

int hw_trace_process_stats(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                           const struct hw_process_counters *counters, size_t n,
                           struct hw_error *err)
{
    struct hw_pb *pb = hw_trace_begin(w, sequence, boottime_ns);
    hw_pb_begin(pb, HW_F_TracePacket_process_stats);
    for (size_t i = 0; i < n; i++)
        put_counters(pb, &counters[i]);
    put_number(pb, HW_F_ProcessStats_collection_end_timestamp,
               boottime_ns ? boottime_ns : HW_ABSENT);
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

/* ---- memory maps ---- */

/*
 * Rows of the packed table. String 0 is "" in both forms. If aggregated, row i is of string i, so
 * row 0 stands for unnamed maps and has count 0 if there are none.
 */
struct smaps_row {
    hw_str_id name;
    uint64_t count, kb[HW_VMA_COLUMN_COUNT];
};

struct smaps_table {
    struct hw_strings *names;
    HW_VEC(struct smaps_row) rows;
};

static int row_for(struct smaps_table *t, hw_str_id name, bool aggregate, struct smaps_row **out)
{
    if (!aggregate || name.v >= t->rows.n)
        if (hw_vec_push(&t->rows, (struct smaps_row){.name = name}) < 0)
            return HW_ENOMEM;
    *out = &t->rows.v[aggregate ? name.v : t->rows.n - 1];
    return HW_OK;
}

static int fill_table(struct smaps_table *t, const struct hw_vma *vmas, size_t n, bool aggregate)
{
    struct smaps_row *row = NULL;
    int rc = hw_strings_new(&t->names);
    if (rc == HW_OK && aggregate)
        rc = row_for(t, (hw_str_id){0}, aggregate, &row);
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        hw_str_id name;
        rc = hw_strings_intern(t->names, hw_bytes_str(vmas[i].name), &name);
        if (rc == HW_OK)
            rc = row_for(t, name, aggregate, &row);
        if (rc < 0)
            return rc;
        row->count += vmas[i].n_mappings ? vmas[i].n_mappings : 1;
        for (int c = HW_VMA_SIZE; c < HW_VMA_COLUMN_COUNT; c++)
            row->kb[c] += vmas[i].kb[c];
    }
    return rc;
}

static void put_names(struct hw_pb *pb, const struct smaps_table *t, bool aggregate)
{
    for (uint32_t i = 0; i < hw_strings_count(t->names); i++)
        hw_pb_str(pb, HW_F_PackedSmaps_string_table, hw_strings_cstr(t->names, (hw_str_id){i}));
    if (aggregate) {
        hw_pb_begin(pb, HW_F_PackedSmaps_aggregate_count);
        for (size_t i = 0; i < t->rows.n; i++)
            hw_pb_raw_varint(pb, t->rows.v[i].count);
        hw_pb_end(pb);
        return;
    }
    hw_pb_begin(pb, HW_F_PackedSmaps_name_id);
    for (size_t i = 0; i < t->rows.n; i++)
        hw_pb_raw_varint(pb, t->rows.v[i].name.v);
    hw_pb_end(pb);
}

static const uint32_t column_field[HW_VMA_COLUMN_COUNT] = {
    [HW_VMA_SIZE] = HW_F_PackedSmaps_size_kb,
    [HW_VMA_RSS] = HW_F_PackedSmaps_rss_kb,
    [HW_VMA_ANONYMOUS] = HW_F_PackedSmaps_anonymous_kb,
    [HW_VMA_SWAP] = HW_F_PackedSmaps_swap_kb,
    [HW_VMA_SHARED_CLEAN] = HW_F_PackedSmaps_shared_clean_kb,
    [HW_VMA_SHARED_DIRTY] = HW_F_PackedSmaps_shared_dirty_kb,
    [HW_VMA_PRIVATE_CLEAN] = HW_F_PackedSmaps_private_clean_kb,
    [HW_VMA_PRIVATE_DIRTY] = HW_F_PackedSmaps_private_dirty_kb,
    [HW_VMA_LOCKED] = HW_F_PackedSmaps_locked_kb,
    [HW_VMA_PSS] = HW_F_PackedSmaps_pss_kb,
    [HW_VMA_PSS_DIRTY] = HW_F_PackedSmaps_pss_dirty_kb,
    [HW_VMA_SWAP_PSS] = HW_F_PackedSmaps_swap_pss_kb,
};

static int put_smaps(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                     int32_t pid, const struct smaps_table *t, uint32_t columns, bool aggregate,
                     struct hw_error *err)
{
    struct hw_pb *pb = hw_trace_begin(w, sequence, boottime_ns);
    hw_pb_begin(pb, HW_F_TracePacket_smaps_packet);
    hw_pb_uint(pb, HW_F_SmapsPacket_pid, (uint32_t)pid);
    hw_pb_begin(pb, HW_F_SmapsPacket_packed_entries);
    put_names(pb, t, aggregate);
    for (int c = HW_VMA_SIZE; c < HW_VMA_COLUMN_COUNT; c++) {
        if (!(columns & 1u << c))
            continue;
        hw_pb_begin(pb, column_field[c]);
        for (size_t i = 0; i < t->rows.n; i++)
            hw_pb_raw_varint(pb, t->rows.v[i].kb[c]);
        hw_pb_end(pb);
    }
    hw_pb_end(pb);
    hw_pb_uint(pb, HW_F_SmapsPacket_recording_type,
               HW_V_SmapsPacket_RecordingType_RECORDING_TYPE_STANDALONE);
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

int hw_trace_smaps(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns, int32_t pid,
                   const struct hw_vma *vmas, size_t n, uint32_t columns, bool aggregate,
                   struct hw_error *err)
{
    struct smaps_table t = {0};
    int rc = fill_table(&t, vmas, n, aggregate);
    if (rc < 0)
        (void)hw_fail(err, rc, 0, "memory map of pid %d:", pid);
    else
        rc = put_smaps(w, sequence, boottime_ns, pid, &t, columns ? columns : HW_VMA_DEFAULT,
                       aggregate, err);
    hw_strings_free(t.names);
    hw_vec_done(&t.rows);
    return rc;
}

int hw_trace_regions(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                     int32_t pid, const struct hw_trace_region *regions, size_t n,
                     struct hw_error *err)
{
    static const struct {
        uint32_t field;
        enum hw_vma_column column;
    } numbers[] = {{HW_F_SmapsEntry_size_kb, HW_VMA_SIZE},
                   {HW_F_SmapsEntry_private_dirty_kb, HW_VMA_PRIVATE_DIRTY},
                   {HW_F_SmapsEntry_swap_kb, HW_VMA_SWAP},
                   {HW_F_SmapsEntry_private_clean_resident_kb, HW_VMA_PRIVATE_CLEAN},
                   {HW_F_SmapsEntry_shared_dirty_resident_kb, HW_VMA_SHARED_DIRTY},
                   {HW_F_SmapsEntry_shared_clean_resident_kb, HW_VMA_SHARED_CLEAN},
                   {HW_F_SmapsEntry_locked_kb, HW_VMA_LOCKED},
                   {HW_F_SmapsEntry_proportional_resident_kb, HW_VMA_PSS}};
    struct hw_pb *pb = hw_trace_begin(w, sequence, boottime_ns);
    hw_pb_begin(pb, HW_F_TracePacket_smaps_packet);
    hw_pb_uint(pb, HW_F_SmapsPacket_pid, (uint64_t)(uint32_t)pid);
    for (size_t i = 0; i < n; i++) {
        hw_pb_begin(pb, HW_F_SmapsPacket_entries);
        hw_pb_str(pb, HW_F_SmapsEntry_path, regions[i].name);
        hw_pb_uint(pb, HW_F_SmapsEntry_start_address, regions[i].start);
        hw_pb_uint(pb, HW_F_SmapsEntry_protection_flags, regions[i].protection);
        for (size_t k = 0; k < HW_ARRAY_LEN(numbers); k++)
            hw_pb_uint(pb, numbers[k].field, regions[i].kb[numbers[k].column]);
        hw_pb_end(pb);
    }
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

/* ---- others ---- */

int hw_trace_packages_list(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                           const struct hw_package *packages, size_t n, bool read_error,
                           struct hw_error *err)
{
    struct hw_pb *pb = hw_trace_begin(w, sequence, boottime_ns);
    hw_pb_begin(pb, HW_F_TracePacket_packages_list);
    for (size_t i = 0; i < n; i++) {
        hw_pb_begin(pb, HW_F_PackagesList_packages);
        hw_pb_str(pb, HW_F_PackagesList_PackageInfo_name, packages[i].name);
        hw_pb_uint(pb, HW_F_PackagesList_PackageInfo_uid, packages[i].uid);
        put_flag(pb, HW_F_PackagesList_PackageInfo_debuggable, packages[i].debuggable);
        put_flag(pb, HW_F_PackagesList_PackageInfo_profileable_from_shell,
                 packages[i].profileable_from_shell);
        hw_pb_sint64(pb, HW_F_PackagesList_PackageInfo_version_code, packages[i].version_code);
        hw_pb_end(pb);
    }
    put_flag(pb, HW_F_PackagesList_read_error, read_error);
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

int hw_trace_java_oome(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                       const struct hw_java_oome *o, struct hw_error *err)
{
    struct hw_pb *pb = hw_trace_begin(w, sequence, boottime_ns);
    hw_pb_begin(pb, HW_F_TracePacket_art_process_metadata);
    hw_pb_sint64(pb, HW_F_ArtProcessMetadata_pid, o->pid);
    hw_pb_uint(pb, HW_F_ArtProcessMetadata_oom_allocation_size, o->allocation_size);
    if (o->free_bytes != HW_ABSENT) {
        hw_pb_uint(pb, HW_F_ArtProcessMetadata_oom_total_bytes_free, o->free_bytes);
        hw_pb_uint(pb, HW_F_ArtProcessMetadata_oom_free_bytes_until_oom, o->free_bytes);
    }
    hw_pb_begin(pb, HW_F_ArtProcessMetadata_oom_thread_java_stack);
    for (size_t i = 0; i < o->n_frames; i++) {
        hw_pb_begin(pb, HW_F_ArtProcessMetadata_JavaStack_frames);
        hw_pb_str(pb, HW_F_ArtProcessMetadata_JavaFrame_method_name, o->frames[i].method);
        if (o->frames[i].file[0])
            hw_pb_str(pb, HW_F_ArtProcessMetadata_JavaFrame_source_file, o->frames[i].file);
        if (o->frames[i].line)
            hw_pb_uint(pb, HW_F_ArtProcessMetadata_JavaFrame_line_number, o->frames[i].line);
        hw_pb_end(pb);
    }
    hw_pb_end(pb);
    hw_pb_str(pb, HW_F_ArtProcessMetadata_oom_error_msg, o->message);
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

int hw_trace_malloc_info(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                         const struct hw_malloc_info *m, struct hw_error *err)
{
    struct hw_pb *pb = hw_trace_begin(w, sequence, boottime_ns);
    hw_pb_begin(pb, HW_F_TracePacket_malloc_info);
    hw_pb_sint64(pb, HW_F_MallocInfo_pid, m->pid);
    hw_pb_uint(pb, HW_F_MallocInfo_arena_bytes, m->arena_bytes);
    hw_pb_uint(pb, HW_F_MallocInfo_mmap_bytes, m->mmap_bytes);
    hw_pb_uint(pb, HW_F_MallocInfo_in_use_bytes, m->in_use_bytes);
    hw_pb_uint(pb, HW_F_MallocInfo_free_bytes, m->free_bytes);
    hw_pb_uint(pb, HW_F_MallocInfo_releasable_bytes, m->releasable_bytes);
    put_number(pb, HW_F_MallocInfo_live_bytes, m->live_bytes);
    put_number(pb, HW_F_MallocInfo_rounding_bytes, m->rounding_bytes);
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

static void put_arena(struct hw_pb *pb, const struct hw_malloc_arena *a)
{
    const int64_t figures[] = {a->in_use_bytes,  a->free_bytes, a->top_bytes,
                               a->cached_bytes,  a->fast_bytes, a->returnable_bytes,
                               a->resident_bytes};
    hw_pb_begin(pb, HW_F_MemoryAccount_arenas);
    hw_pb_uint(pb, HW_F_MemoryAccount_Arena_state, a->state);
    hw_pb_uint(pb, HW_F_MemoryAccount_Arena_is_main, a->is_main);
    hw_pb_uint(pb, HW_F_MemoryAccount_Arena_threads, (uint64_t)a->threads);
    if (a->system_bytes >= 0)
        hw_pb_uint(pb, HW_F_MemoryAccount_Arena_system_bytes, (uint64_t)a->system_bytes);
    for (uint32_t i = 0; a->state == HW_ARENA_KNOWN && i < HW_ARRAY_LEN(figures); i++)
        if (figures[i] >= 0)
            hw_pb_uint(pb, HW_F_MemoryAccount_Arena_in_use_bytes + i, (uint64_t)figures[i]);
    hw_pb_end(pb);
}

static void put_v8_space(struct hw_pb *pb, const struct hw_trace_v8_space *s)
{
    hw_pb_begin(pb, HW_F_MemoryAccount_v8_spaces);
    hw_pb_uint(pb, HW_F_MemoryAccount_V8Space_space, s->space);
    hw_pb_uint(pb, HW_F_MemoryAccount_V8Space_committed_bytes, s->committed);
    put_number(pb, HW_F_MemoryAccount_V8Space_used_bytes, s->used);
    hw_pb_uint(pb, HW_F_MemoryAccount_V8Space_resident_bytes, s->resident);
    hw_pb_end(pb);
}

int hw_trace_memory_account(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                            const struct hw_memory_account *a, struct hw_error *err)
{
    const struct {
        uint32_t field;
        uint64_t value;
    } numbers[] = {{HW_F_MemoryAccount_live_bytes, a->live_bytes},
                   {HW_F_MemoryAccount_live_before_bytes, a->live_before_bytes},
                   {HW_F_MemoryAccount_rounding_bytes, a->rounding_bytes},
                   {HW_F_MemoryAccount_gap_bytes, a->gap_bytes},
                   {HW_F_MemoryAccount_page_tables_kb, a->page_tables_kb},
                   {HW_F_MemoryAccount_rss_kb, a->rss_kb},
                   {HW_F_MemoryAccount_swap_kb, a->swap_kb},
                   {HW_F_MemoryAccount_took_us, a->took_us},
                   {HW_F_MemoryAccount_is_cut, a->is_cut ? 1 : HW_ABSENT},
                   {HW_F_MemoryAccount_cgroup_current, a->cgroup_current},
                   {HW_F_MemoryAccount_cgroup_limit, a->cgroup_limit},
                   {HW_F_MemoryAccount_cgroup_anon, a->cgroup_anon},
                   {HW_F_MemoryAccount_cgroup_file, a->cgroup_file},
                   {HW_F_MemoryAccount_cgroup_kernel, a->cgroup_kernel},
                   {HW_F_MemoryAccount_cgroup_sock, a->cgroup_sock},
                   {HW_F_MemoryAccount_cgroup_shmem, a->cgroup_shmem},
                   {HW_F_MemoryAccount_cgroup_id, a->cgroup_id},
                   {HW_F_MemoryAccount_jvm_heap_used, a->jvm_heap_used},
                   {HW_F_MemoryAccount_jvm_heap_committed, a->jvm_heap_committed},
                   {HW_F_MemoryAccount_jvm_heap_max, a->jvm_heap_max},
                   {HW_F_MemoryAccount_jvm_metaspace_used, a->jvm_metaspace_used},
                   {HW_F_MemoryAccount_jvm_metaspace_committed, a->jvm_metaspace_committed},
                   {HW_F_MemoryAccount_jvm_threads, a->jvm_threads},
                   {HW_F_MemoryAccount_jvm_code_used, a->jvm_code_used},
                   {HW_F_MemoryAccount_jvm_code_committed, a->jvm_code_committed},
                   {HW_F_MemoryAccount_python_state, a->python_state},
                   {HW_F_MemoryAccount_python_arenas, a->python_arenas},
                   {HW_F_MemoryAccount_python_used, a->python_used},
                   {HW_F_MemoryAccount_python_free_blocks, a->python_free_blocks},
                   {HW_F_MemoryAccount_python_free_pools, a->python_free_pools},
                   {HW_F_MemoryAccount_python_committed, a->python_committed},
                   {HW_F_MemoryAccount_python_resident, a->python_resident},
                   {HW_F_MemoryAccount_go_state, a->go_state},
                   {HW_F_MemoryAccount_go_objects, a->go_objects},
                   {HW_F_MemoryAccount_go_in_use, a->go_in_use},
                   {HW_F_MemoryAccount_go_committed, a->go_committed},
                   {HW_F_MemoryAccount_go_stacks, a->go_stacks},
                   {HW_F_MemoryAccount_go_metadata, a->go_metadata},
                   {HW_F_MemoryAccount_v8_state, a->v8_state},
                   {HW_F_MemoryAccount_mapped_divided_bytes, a->mapped_divided_bytes},
                   {HW_F_MemoryAccount_mapped_left_bytes, a->mapped_left_bytes},
                   {HW_F_MemoryAccount_mapped_errno, a->mapped_errno},
                   {HW_F_MemoryAccount_own_left_bytes, a->own_left_bytes},
                   {HW_F_MemoryAccount_pins_blocks, a->pins_blocks},
                   {HW_F_MemoryAccount_pins_missed, a->pins_missed}};
    struct hw_pb *pb = hw_trace_begin(w, sequence, boottime_ns);
    hw_pb_begin(pb, HW_F_TracePacket_memory_account);
    hw_pb_sint64(pb, HW_F_MemoryAccount_pid, a->pid);
    for (size_t i = 0; i < HW_ARRAY_LEN(numbers); i++)
        if (numbers[i].value != HW_ABSENT)
            hw_pb_uint(pb, numbers[i].field, numbers[i].value);
    for (size_t i = 0; i < a->n_arenas; i++)
        put_arena(pb, &a->arenas[i]);
    for (size_t i = 0; i < a->n_v8_spaces; i++)
        put_v8_space(pb, &a->v8_spaces[i]);
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

int hw_trace_exit_status(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                         int32_t pid, uint32_t status, struct hw_error *err)
{
    struct hw_pb *pb = hw_trace_begin(w, sequence, boottime_ns);
    hw_pb_begin(pb, HW_F_TracePacket_memory_account);
    hw_pb_sint64(pb, HW_F_MemoryAccount_pid, pid);
    hw_pb_uint(pb, HW_F_MemoryAccount_exit_status, status);
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

int hw_trace_attributes(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                        const struct hw_trace_attribute *all, size_t n, struct hw_error *err)
{
    struct hw_pb *pb = hw_trace_begin(w, sequence, boottime_ns);
    hw_pb_begin(pb, HW_F_TracePacket_trace_attributes);
    for (size_t i = 0; i < n; i++) {
        hw_pb_begin(pb, HW_F_TraceAttributes_attribute);
        hw_pb_str(pb, HW_F_TraceAttributes_Attribute_key, all[i].key);
        hw_pb_str(pb, HW_F_TraceAttributes_Attribute_string_value, all[i].value);
        hw_pb_end(pb);
    }
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

#define MARK_TRACK UINT64_C(0x6865617077697365) /* no track of the kernel or a process has it */

int hw_trace_mark(struct hw_trace_writer *w, uint32_t sequence, uint64_t boottime_ns,
                  const char *name, bool describe, struct hw_error *err)
{
    struct hw_pb *pb;
    int rc = HW_OK;
    if (describe) {
        pb = hw_trace_begin(w, sequence, boottime_ns);
        hw_pb_begin(pb, HW_F_TracePacket_track_descriptor);
        hw_pb_uint(pb, HW_F_TrackDescriptor_uuid, MARK_TRACK);
        hw_pb_str(pb, HW_F_TrackDescriptor_name, "Marks");
        hw_pb_end(pb);
        rc = hw_trace_end(w, err);
    }
    if (rc < 0)
        return rc;
    pb = hw_trace_begin(w, sequence, boottime_ns);
    hw_pb_begin(pb, HW_F_TracePacket_track_event);
    hw_pb_uint(pb, HW_F_TrackEvent_type, HW_V_TrackEvent_Type_TYPE_INSTANT);
    hw_pb_uint(pb, HW_F_TrackEvent_track_uuid, MARK_TRACK);
    hw_pb_str(pb, HW_F_TrackEvent_categories, HW_MARK_CATEGORY);
    hw_pb_str(pb, HW_F_TrackEvent_name, name);
    hw_pb_end(pb);
    return hw_trace_end(w, err);
}

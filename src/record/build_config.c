#include "record/build_config.h"

#include <stdio.h>

#include "base/error.h"
#include "codec/pb.h"
#include "config/config.h"
#include "schema/fields.h"

#include "base/banned.h"

enum { BUFFER_KB = 63488, FLUSH_TIMEOUT_MS = 30000 };
static const uint64_t flush_period_ms = 604800000;

#define H(name) HW_F_HeapprofdConfig_##name

static void put_heapprofd(struct hw_pb *w, const struct hw_config_request *q)
{
    const struct {
        uint32_t field;
        bool on;
    } switches[] = {
        {H(no_startup), q->no_startup},   {H(no_running), q->no_running},
        {H(dump_at_max), q->dump_at_max}, {H(disable_fork_teardown), q->disable_fork_teardown},
        {H(all_heaps), q->all_heaps},     {H(all), q->all},
    };
    hw_pb_uint(w, H(shmem_size_bytes), q->shmem_size_bytes);
    hw_pb_uint(w, H(sampling_interval_bytes), q->sampling_interval_bytes);
    if (q->block_client)
        hw_pb_uint(w, H(block_client), 1);
    if (q->has_block_timeout)
        hw_pb_uint(w, H(block_client_timeout_us), q->block_client_timeout_us);
    for (size_t i = 0; i < HW_ARRAY_LEN(switches); i++)
        if (switches[i].on)
            hw_pb_uint(w, switches[i].field, 1);
    for (size_t i = 0; i < q->n_pids; i++)
        hw_pb_uint(w, H(pid), q->pids[i]);
    for (size_t i = 0; i < q->n_names; i++)
        hw_pb_str(w, H(process_cmdline), q->names[i]);
    for (size_t i = 0; i < q->n_heaps; i++)
        hw_pb_str(w, H(heaps), q->heaps[i]);
    if (q->dump_interval_ms) {
        hw_pb_begin(w, H(continuous_dump_config));
        hw_pb_uint(w, HW_F_HeapprofdConfig_ContinuousDumpConfig_dump_phase_ms, 0);
        hw_pb_uint(w, HW_F_HeapprofdConfig_ContinuousDumpConfig_dump_interval_ms,
                   q->dump_interval_ms);
        hw_pb_end(w);
    }
    if (q->idle_allocations)
        hw_pb_uint(w, H(idle_allocations), 1);
    if (q->max_samples_per_second)
        hw_pb_uint(w, H(max_samples_per_second), q->max_samples_per_second);
    if (q->no_managed_frames)
        hw_pb_uint(w, H(no_managed_frames), 1);
    if (q->stack_mode)
        hw_pb_uint(w, H(stack_mode), q->stack_mode);
    for (size_t i = 0; i < q->n_scope_categories; i++)
        hw_pb_str(w, H(scope_categories), q->scope_categories[i]);
    if (q->record_types)
        hw_pb_uint(w, H(record_types), 1);
    if (q->memlog)
        hw_pb_str(w, H(memlog), q->memlog);
    if (q->record_slices)
        hw_pb_uint(w, H(record_slices), 1);
    for (size_t i = 0; i < q->n_dump_when; i++)
        hw_pb_str(w, H(dump_when), q->dump_when[i]);
    for (size_t i = 0; i < q->n_stop_when; i++)
        hw_pb_str(w, H(stop_when), q->stop_when[i]);
    for (size_t i = 0; i < q->n_start_when; i++)
        hw_pb_str(w, H(start_when), q->start_when[i]);
}

static void put_java(struct hw_pb *w, const struct hw_config_request *q)
{
    hw_pb_begin(w, HW_F_TraceConfig_data_sources);
    hw_pb_begin(w, HW_F_TraceConfig_DataSource_config);
    hw_pb_str(w, HW_F_DataSourceConfig_name, "android.java_hprof");
    hw_pb_begin(w, HW_F_DataSourceConfig_java_hprof_config);
    for (size_t i = 0; i < q->n_pids; i++) /* one that allocates nothing meanwhile, too */
        hw_pb_uint(w, HW_F_JavaHprofConfig_pid, q->pids[i]);
    if (q->dump_interval_ms) {
        hw_pb_begin(w, HW_F_JavaHprofConfig_continuous_dump_config);
        hw_pb_uint(w, HW_F_JavaHprofConfig_ContinuousDumpConfig_dump_interval_ms,
                   q->dump_interval_ms);
        hw_pb_end(w);
    }
    hw_pb_uint(w, HW_F_JavaHprofConfig_dump_smaps, 1); /* the whole process needs them */
    hw_pb_uint(w, HW_F_JavaHprofConfig_dump_oome_callstack, 1);
    hw_pb_uint(w, HW_F_JavaHprofConfig_recorded, 1);
    hw_pb_end(w);
    hw_pb_end(w);
    hw_pb_end(w);
}

int hw_build_config(const struct hw_config_request *q, struct hw_strbuf *out, struct hw_error *err)
{
    struct hw_pb w = {0};
    hw_pb_begin(&w, HW_F_TraceConfig_buffers);
    hw_pb_uint(&w, HW_F_TraceConfig_BufferConfig_size_kb, BUFFER_KB);
    hw_pb_end(&w);
    hw_pb_begin(&w, HW_F_TraceConfig_data_sources);
    hw_pb_begin(&w, HW_F_TraceConfig_DataSource_config);
    hw_pb_str(&w, HW_F_DataSourceConfig_name, "android.heapprofd");
    hw_pb_begin(&w, HW_F_DataSourceConfig_heapprofd_config);
    put_heapprofd(&w, q);
    hw_pb_end(&w);
    hw_pb_end(&w);
    hw_pb_end(&w);
    if (q->java_graph)
        put_java(&w, q);
    hw_pb_uint(&w, HW_F_TraceConfig_duration_ms, q->duration_ms);
    hw_pb_uint(&w, HW_F_TraceConfig_write_into_file, 1);
    hw_pb_uint(&w, HW_F_TraceConfig_flush_timeout_ms, FLUSH_TIMEOUT_MS);
    hw_pb_uint(&w, HW_F_TraceConfig_flush_period_ms, flush_period_ms);
    if (q->session_name)
        hw_pb_str(&w, HW_F_TraceConfig_unique_session_name, q->session_name);
    if (q->packages_list) {
        hw_pb_begin(&w, HW_F_TraceConfig_data_sources);
        hw_pb_begin(&w, HW_F_TraceConfig_DataSource_config);
        hw_pb_str(&w, HW_F_DataSourceConfig_name, "android.packages_list");
        hw_pb_end(&w);
        hw_pb_end(&w);
    }
    if (q->python_allocators) {
        hw_pb_begin(&w, HW_F_TraceConfig_trace_attributes);
        hw_pb_begin(&w, HW_F_TraceAttributes_attribute);
        hw_pb_str(&w, HW_F_TraceAttributes_Attribute_key, HW_ATTRIBUTE_PYTHON);
        hw_pb_str(&w, HW_F_TraceAttributes_Attribute_string_value, "1");
        hw_pb_end(&w);
        hw_pb_end(&w);
    }
    hw_strbuf_add(out, w.buf.p, w.buf.n);
    bool failed = hw_pb_failed(&w) || out->failed;
    hw_pb_done(&w);
    return failed ? hw_fail(err, HW_ENOMEM, 0, "configuration") : HW_OK;
}

int hw_print_config(const struct hw_strbuf *binary, struct hw_error *err)
{
    struct hw_strbuf text = {0};
    int rc = hw_config_binary_to_text(hw_bytes_of(binary->p, binary->n), &text, err);
    if (rc == 0 && text.n)
        fwrite(text.p, 1, text.n, stdout); /* main looks at ferror */
    hw_strbuf_done(&text);
    return rc;
}

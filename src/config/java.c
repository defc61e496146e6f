/* JavaHprofConfig: fields, and what of them means nothing here. */
#include <stdlib.h>

#include "base/error.h"
#include "codec/pb.h"
#include "config/read.h"
#include "schema/fields.h"

#include "base/banned.h"

#define F(name) HW_F_JavaHprofConfig_##name

void hw_java_config_done(struct hw_java_config *c)
{
    for (size_t i = 0; i < c->process_cmdline.n; i++)
        free(c->process_cmdline.v[i]);
    for (size_t i = 0; i < c->ignored_types.n; i++)
        free(c->ignored_types.v[i]);
    hw_vec_done(&c->process_cmdline);
    hw_vec_done(&c->ignored_types);
    hw_vec_done(&c->pids);
}

static int read_continuous(struct hw_bytes message, struct hw_java_config *out)
{
    struct hw_pb_reader in = hw_pb_read(message);
    struct hw_pb_field f;
    int rc;
    while ((rc = hw_pb_next(&in, &f)) > 0) {
        if (f.wire != HW_PB_VARINT)
            continue;
        if (f.number == HW_F_JavaHprofConfig_ContinuousDumpConfig_dump_phase_ms)
            out->dump_phase_ms = hw_config_u32(f.value);
        else if (f.number == HW_F_JavaHprofConfig_ContinuousDumpConfig_dump_interval_ms)
            out->dump_interval_ms = hw_config_u32(f.value);
        else if (f.number == HW_F_JavaHprofConfig_ContinuousDumpConfig_scan_pids_only_on_start)
            out->scan_pids_only_on_start = f.value != 0;
    }
    return rc;
}

int hw_java_config_read(struct hw_bytes message, struct hw_java_config *out,
                        struct hw_trace_config *c, struct hw_error *err)
{
    struct hw_pb_reader in = hw_pb_read(message);
    struct hw_pb_field f;
    int rc;
    while ((rc = hw_pb_next(&in, &f)) > 0) {
        rc = HW_OK;
        switch (f.number) {
        case F(process_cmdline):
            rc = HW_CONFIG_PUSH_STRING(&out->process_cmdline, f.bytes, err);
            break;
        case F(pid):
            rc = HW_CONFIG_PUSH_NUMBERS(&out->pids, &f, err);
            break;
        case F(ignored_types):
            rc = HW_CONFIG_PUSH_STRING(&out->ignored_types, f.bytes, err);
            break;
        case F(continuous_dump_config):
            rc = read_continuous(f.bytes, out);
            break;
        case F(min_anonymous_memory_kb):
            out->min_anonymous_memory_kb = hw_config_u32(f.value);
            break;
        case F(dump_smaps):
            out->dump_smaps = f.value != 0;
            break;
        case F(smaps_config):
            out->dump_smaps = true;
            if (f.bytes.n)
                hw_config_warn(c, "java_hprof_config.smaps_config: its columns and rules are not "
                                  "looked at; mappings are written by name");
            break;
        case F(min_java_heap_size_kb):
            out->min_java_heap_size_kb = hw_config_u32(f.value);
            break;
        case F(dump_oome_callstack):
            out->at_oome = f.value != 0;
            break;
        case F(recorded):
            out->recorded = f.value != 0;
            break;
        case F(target_installed_by):
            rc = hw_fail(err, HW_EINVAL, 0,
                         "java_hprof_config.target_installed_by: nothing installs programs like "
                         "that on Linux");
            break;
        default:
            break;
        }
        if (rc < 0)
            break;
    }
    return rc;
}

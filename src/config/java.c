/* JavaHprofConfig: fields, and those without meaning on Linux. */
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
#define ROW(name)                                                                                  \
    HW_CONFIG_NUMBER(HW_F_JavaHprofConfig_ContinuousDumpConfig_##name, struct hw_java_config, name)
    static const struct hw_config_number numbers[] = {ROW(dump_phase_ms), ROW(dump_interval_ms),
                                                      ROW(scan_pids_only_on_start)};
#undef ROW
    return hw_config_read_numbers(message, numbers, HW_ARRAY_LEN(numbers), out);
}

static const struct hw_config_number numbers[] = {
#define ROW(name, member) HW_CONFIG_NUMBER(F(name), struct hw_java_config, member)
    ROW(min_anonymous_memory_kb, min_anonymous_memory_kb),
    ROW(min_java_heap_size_kb, min_java_heap_size_kb),
    ROW(dump_smaps, dump_smaps),
    ROW(dump_oome_callstack, at_oome),
    ROW(recorded, recorded),
#undef ROW
};

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
        case F(smaps_config):
            out->dump_smaps = true;
            if (f.bytes.n)
                hw_config_warn(c, "java_hprof_config.smaps_config: its columns and rules are not "
                                  "looked at; mappings are written by name");
            break;
        case F(target_installed_by):
            rc = hw_fail(err, HW_EINVAL, 0,
                         "java_hprof_config.target_installed_by: nothing installs programs like "
                         "that on Linux");
            break;
        default:
            hw_config_take_number(numbers, HW_ARRAY_LEN(numbers), &f, out);
            break;
        }
        if (rc < 0)
            break;
    }
    return rc;
}

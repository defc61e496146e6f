/* What was found, as packets that are appended to the trace. */
#include "codec/pb.h"
#include "enrich/symbols/symbolize_job.h"
#include "model/profile.h"
#include "schema/fields.h"

#include "base/banned.h"

/* A packet is ended here and another of the same module started; readers do not care. */
#define PACKET_BYTES (4u << 20)

const struct hw_mapping *hw_symbolize_module(const struct hw_symbolize_job *j)
{
    return hw_callsites_get_mapping(j->p->callsites, (hw_mapping_id){j->at[0].module});
}

static void open_packet(struct hw_symbolize_job *j)
{
    struct hw_bytes path = hw_symbolize_text_of(j, hw_symbolize_module(j)->path);
    struct hw_bytes id = hw_symbolize_text_of(j, hw_symbolize_module(j)->build_id);
    j->packet_start = hw_pb_view(j->packets).n;
    hw_pb_begin(j->packets, HW_F_Trace_packet);
    hw_pb_begin(j->packets, HW_F_TracePacket_module_symbols);
    hw_pb_bytes(j->packets, HW_F_ModuleSymbols_path, path.p, path.n);
    hw_pb_bytes(j->packets, HW_F_ModuleSymbols_build_id, id.p, id.n);
    j->packet_open = true;
}

void hw_symbolize_close_packet(struct hw_symbolize_job *j)
{
    if (!j->packet_open)
        return;
    hw_pb_end(j->packets);
    hw_pb_end(j->packets);
    j->packet_open = false;
}

void hw_symbolize_put_address(struct hw_symbolize_job *j, uint64_t rel_pc)
{
    if (!j->packets)
        return;
    if (j->packet_open && hw_pb_view(j->packets).n - j->packet_start > PACKET_BYTES)
        hw_symbolize_close_packet(j);
    if (!j->packet_open)
        open_packet(j);
    hw_pb_begin(j->packets, HW_F_ModuleSymbols_address_symbols);
    hw_pb_uint(j->packets, HW_F_AddressSymbols_address, rel_pc);
    for (size_t i = 0; i < j->chain.n; i++) {
        const struct hw_symbol_line *line = &j->chain.v[i];
        struct hw_bytes function = hw_symbolize_text_of(j, line->function),
                        file = hw_symbolize_text_of(j, line->file);
        hw_pb_begin(j->packets, HW_F_AddressSymbols_lines);
        hw_pb_bytes(j->packets, HW_F_Line_function_name, function.p, function.n);
        if (file.n)
            hw_pb_bytes(j->packets, HW_F_Line_source_file_name, file.p, file.n);
        if (line->line)
            hw_pb_uint(j->packets, HW_F_Line_line_number, line->line);
        hw_pb_end(j->packets);
    }
    hw_pb_end(j->packets);
}

void hw_symbolize_put_type(struct hw_symbolize_job *j, uint64_t rel_pc, const char *type)
{
    if (!j->packets)
        return;
    if (!j->packet_open)
        open_packet(j);
    hw_pb_begin(j->packets, HW_F_ModuleSymbols_address_symbols);
    hw_pb_uint(j->packets, HW_F_AddressSymbols_address, rel_pc);
    hw_pb_str(j->packets, HW_F_AddressSymbols_new_type, type);
    hw_pb_end(j->packets);
}

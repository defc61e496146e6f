#include "import/pprof_frames.h"

#include <stdlib.h>

#include "base/error.h"
#include "codec/pb.h"
#include "model/profile.h"
#include "schema/fields.h"

#include "base/banned.h"

enum { MAX_LINES = 64 };

struct hw_bytes hw_pprof_string(const struct hw_pprof_frames *in, uint64_t index)
{
    return index < in->strings.n ? in->strings.v[index] : (struct hw_bytes){NULL, 0};
}

uint64_t hw_pprof_number(struct hw_bytes message, uint32_t field)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t v = 0;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == field && f.wire == HW_PB_VARINT)
            v = f.value;
    return v;
}

/* ---- tables ---- */

static int add_mapping(struct hw_pprof_frames *in, struct hw_bytes message)
{
    uint64_t id = hw_pprof_number(message, HW_F_pprof_Mapping_id);
    struct hw_bytes hex =
        hw_pprof_string(in, hw_pprof_number(message, HW_F_pprof_Mapping_build_id));
    struct hw_mapping m = {.start = hw_pprof_number(message, HW_F_pprof_Mapping_memory_start),
                           .end = hw_pprof_number(message, HW_F_pprof_Mapping_memory_limit),
                           .exact_offset =
                               hw_pprof_number(message, HW_F_pprof_Mapping_file_offset)};
    uint8_t raw[64];
    size_t n = 0;
    while (n < sizeof raw && 2 * n + 1 < hex.n) {
        char pair[3] = {(char)hex.p[2 * n], (char)hex.p[2 * n + 1], 0}, *end;
        raw[n] = (uint8_t)strtoul(pair, &end, 16);
        if (end != pair + 2)
            break;
        n++;
    }
    hw_mapping_id row;
    struct hw_bytes file =
        hw_pprof_string(in, hw_pprof_number(message, HW_F_pprof_Mapping_filename));
    int rc = hw_profile_str(in->p, hw_bytes_of(raw, 2 * n == hex.n ? n : 0), &m.build_id);
    if (rc == HW_OK)
        rc = hw_profile_str(in->p, file, &m.path);
    if (rc == HW_OK)
        rc = hw_callsites_mapping(in->p->callsites, &m, &row);
    if (rc < 0)
        return rc;
    while (in->biases.n <= row.v)
        if (hw_vec_push(&in->biases, 0) < 0)
            return HW_ENOMEM;
    in->biases.v[row.v] = m.start - m.exact_offset;
    return id == HW_MAP64_NO_KEY ? HW_OK : hw_map64_put(&in->mappings, id, row.v);
}

static int add_function(struct hw_pprof_frames *in, struct hw_bytes message)
{
    uint64_t id = hw_pprof_number(message, HW_F_pprof_Function_id);
    struct hw_bytes name = hw_pprof_string(in, hw_pprof_number(message, HW_F_pprof_Function_name));
    struct hw_bytes system_name =
        hw_pprof_string(in, hw_pprof_number(message, HW_F_pprof_Function_system_name));
    struct hw_bytes file =
        hw_pprof_string(in, hw_pprof_number(message, HW_F_pprof_Function_filename));
    struct hw_pprof_function f = {{0}, {0}, {0}};
    if (id == HW_MAP64_NO_KEY)
        return HW_OK;
    int rc = hw_profile_str(in->p, name.n ? name : system_name, &f.name);
    if (rc == HW_OK)
        rc = hw_profile_str(in->p, system_name.n ? system_name : name, &f.system_name);
    if (rc == HW_OK)
        rc = hw_profile_str(in->p, file, &f.file);
    if (rc == HW_OK)
        rc = hw_map64_put(&in->function_ids, id, in->functions.n);
    return rc == HW_OK && hw_vec_push(&in->functions, f) < 0 ? HW_ENOMEM : rc;
}

/* ---- locations ---- */

/* One Line of a location, and the function's name in the binary. */
struct location_line {
    struct hw_symbol_line line;
    hw_str_id system_name;
};

static struct location_line read_location_line(const struct hw_pprof_frames *in,
                                               struct hw_bytes message)
{
    uint64_t at, line = hw_pprof_number(message, HW_F_pprof_Line_line);
    if (!hw_map64_get(&in->function_ids, hw_pprof_number(message, HW_F_pprof_Line_function_id),
                      &at))
        return (struct location_line){0}; /* unnamed */
    const struct hw_pprof_function *f = &in->functions.v[at];
    return (struct location_line){{f->name, f->file, line > UINT32_MAX ? 0 : (uint32_t)line},
                                  f->system_name};
}

static bool same_lines(const struct hw_symbol_line *a, const struct hw_symbol_line *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i].function.v != b[i].function.v || a[i].file.v != b[i].file.v ||
            a[i].line != (b[i].file.v ? b[i].line : 0))
            return false;
    return true;
}

/*
 * One frame of n functions inlined into each other, innermost first. Often there are no addresses
 * (our files have none): then frames of one function differ only in their lines, and each different
 * set of lines makes another frame.
 */
static int frame_of(struct hw_pprof_frames *in, struct hw_frame f,
                    const struct location_line *lines_in, size_t n, hw_frame_id *out)
{
    struct hw_callsites *cs = in->p->callsites;
    struct hw_symbol_sets *sets = hw_callsites_symbol_sets(cs);
    struct hw_symbol_line lines[MAX_LINES];
    const struct hw_symbol_line *have;
    bool known = false;
    for (size_t i = 0; i < n; i++) {
        lines[i] = lines_in[i].line;
        known |= lines[i].function.v || lines[i].file.v;
    }
    if (n)
        f.name = lines_in[n - 1].system_name;
    int rc = hw_callsites_frame(cs, &f, out);
    if (rc < 0 || !known)
        return rc;
    size_t n_have = hw_symbol_sets_get(sets, *out, &have);
    if (n_have == n && same_lines(have, lines, n))
        return HW_OK;
    if (n_have)
        rc = hw_callsites_frame_apart(cs, &f, out);
    return rc < 0 ? rc : hw_symbol_sets_put(sets, *out, lines, n);
}

static int add_location(struct hw_pprof_frames *in, struct hw_bytes message)
{
    uint64_t id = 0, mapping = HW_ID_NONE;
    struct location_line lines_in[MAX_LINES];
    size_t n = 0;
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_frame row = {0};
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_pprof_Location_id)
            id = f.value;
        else if (f.number == HW_F_pprof_Location_mapping_id)
            (void)hw_map64_get(&in->mappings, f.value, &mapping); /* absent: without mapping */
        else if (f.number == HW_F_pprof_Location_address)
            row.rel_pc = f.value;
        else if (f.number == HW_F_pprof_Location_line && n < MAX_LINES)
            lines_in[n++] = read_location_line(in, f.bytes);
    }
    row.mapping.v = (uint32_t)mapping;
    if (row.mapping.v != HW_ID_NONE && row.rel_pc)
        row.rel_pc -= in->biases.v[row.mapping.v];
    hw_frame_id frame;
    int rc = frame_of(in, row, lines_in, n, &frame);
    return rc < 0 || id == HW_MAP64_NO_KEY ? rc : hw_map64_put(&in->locations, id, frame.v);
}

/* ---- the file ---- */

static int for_each(struct hw_pprof_frames *in, struct hw_bytes file, uint32_t field,
                    int (*take)(struct hw_pprof_frames *, struct hw_bytes))
{
    struct hw_pb_reader r = hw_pb_read(file);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == field && f.wire == HW_PB_BYTES)
            rc = take(in, f.bytes);
    return rc;
}

int hw_pprof_frames_read(struct hw_pprof_frames *in, struct hw_bytes file)
{
    int rc = for_each(in, file, HW_F_pprof_Profile_mapping, add_mapping);
    if (rc == HW_OK)
        rc = for_each(in, file, HW_F_pprof_Profile_function, add_function);
    return rc == HW_OK ? for_each(in, file, HW_F_pprof_Profile_location, add_location) : rc;
}

void hw_pprof_frames_done(struct hw_pprof_frames *in)
{
    hw_vec_done(&in->strings);
    hw_vec_done(&in->biases);
    hw_map64_done(&in->mappings);
    hw_map64_done(&in->function_ids);
    hw_vec_done(&in->functions);
    hw_map64_done(&in->locations);
}

#include <string.h>

#include "base/error.h"
#include "codec/pb.h"
#include "import/system/process_packets.h"
#include "schema/fields.h"

#include "base/banned.h"

/* "/a/b (deleted)" is a deleted file. */
static void check_deleted(struct hw_profile *p, struct hw_smaps_row *row)
{
    static const char ending[] = " (deleted)";
    struct hw_bytes path = hw_strings_get(hw_callsites_strings(p->callsites), row->path);
    size_t n = sizeof ending - 1;
    row->is_deleted = path.n > n && memcmp(path.p + path.n - n, ending, n) == 0;
}

const struct hw_smaps_row hw_import_no_smaps = {
    .private_clean_kb = HW_SMAPS_UNKNOWN,
    .shared_dirty_kb = HW_SMAPS_UNKNOWN,
    .shared_clean_kb = HW_SMAPS_UNKNOWN,
    .locked_kb = HW_SMAPS_UNKNOWN,
    .pss_dirty_kb = HW_SMAPS_UNKNOWN,
    .swap_pss_kb = HW_SMAPS_UNKNOWN,
    .start_address = HW_SMAPS_UNKNOWN,
    .module_timestamp = HW_SMAPS_UNKNOWN,
    .protection_flags = HW_SMAPS_UNKNOWN,
    .elf_address = HW_SMAPS_UNKNOWN,
    .aggregate_count = HW_SMAPS_UNKNOWN,
};

/* The member for a numeric field of an entry; NULL = none. */
static uint64_t *smaps_number(struct hw_smaps_row *row, uint32_t field)
{
    switch (field) {
    case HW_F_SmapsEntry_size_kb:
        return &row->size_kb;
    case HW_F_SmapsEntry_private_dirty_kb:
        return &row->private_dirty_kb;
    case HW_F_SmapsEntry_swap_kb:
        return &row->swap_kb;
    case HW_F_SmapsEntry_start_address:
        return &row->start_address;
    case HW_F_SmapsEntry_module_timestamp:
        return &row->module_timestamp;
    case HW_F_SmapsEntry_protection_flags:
        return &row->protection_flags;
    case HW_F_SmapsEntry_private_clean_resident_kb:
        return &row->private_clean_kb;
    case HW_F_SmapsEntry_shared_dirty_resident_kb:
        return &row->shared_dirty_kb;
    case HW_F_SmapsEntry_shared_clean_resident_kb:
        return &row->shared_clean_kb;
    case HW_F_SmapsEntry_locked_kb:
        return &row->locked_kb;
    case HW_F_SmapsEntry_proportional_resident_kb:
        return &row->pss_kb;
    default:
        return NULL;
    }
}

static hw_str_id *smaps_text(struct hw_smaps_row *row, uint32_t field)
{
    switch (field) {
    case HW_F_SmapsEntry_path:
        return &row->path;
    case HW_F_SmapsEntry_file_name:
        return &row->file_name;
    case HW_F_SmapsEntry_module_debugid:
        return &row->module_debugid;
    case HW_F_SmapsEntry_module_debug_path:
        return &row->module_debug_path;
    default:
        return NULL;
    }
}

static int add_smaps_entry(struct hw_profile *p, struct hw_smaps_row row, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        uint64_t *number = f.wire == HW_PB_VARINT ? smaps_number(&row, f.number) : NULL;
        hw_str_id *text = f.wire == HW_PB_BYTES ? smaps_text(&row, f.number) : NULL;
        if (number)
            *number = f.value;
        if (text)
            rc = hw_profile_str(p, f.bytes, text);
    }
    check_deleted(p, &row);
    return rc == HW_OK && hw_vec_push(&p->smaps, row) < 0 ? HW_ENOMEM : rc;
}

/* X(numeric column of packed entries, member of the row) */
#define PACKED(X)                                                                                  \
    X(size_kb, size_kb)                                                                            \
    X(rss_kb, rss_kb)                                                                              \
    X(anonymous_kb, anonymous_kb)                                                                  \
    X(swap_kb, swap_kb)                                                                            \
    X(shared_clean_kb, shared_clean_kb)                                                            \
    X(shared_dirty_kb, shared_dirty_kb)                                                            \
    X(private_clean_kb, private_clean_kb)                                                          \
    X(private_dirty_kb, private_dirty_kb)                                                          \
    X(locked_kb, locked_kb)                                                                        \
    X(pss_kb, pss_kb)                                                                              \
    X(pss_dirty_kb, pss_dirty_kb)                                                                  \
    X(swap_pss_kb, swap_pss_kb)

enum packed_column {
    COLUMN_NAME,
    COLUMN_COUNT,
#define X(field, member) COLUMN_##field,
    PACKED(X)
#undef X
        N_COLUMNS
};

static const uint32_t packed_field[N_COLUMNS] = {[COLUMN_NAME] = HW_F_PackedSmaps_name_id,
                                                 [COLUMN_COUNT] = HW_F_PackedSmaps_aggregate_count,
#define X(field, member) [COLUMN_##field] = HW_F_PackedSmaps_##field,
                                                 PACKED(X)
#undef X
};

/* Parallel columns; each is packed, or a field per value. */
struct packed {
    HW_VEC(hw_str_id) names;
    HW_VEC(uint64_t) columns[N_COLUMNS];
};

static int packed_read(struct hw_profile *p, struct packed *t, const struct hw_pb_field *f)
{
    if (f->number == HW_F_PackedSmaps_string_table) {
        hw_str_id id;
        int rc = hw_profile_str(p, f->bytes, &id);
        return rc == HW_OK && hw_vec_push(&t->names, id) < 0 ? HW_ENOMEM : rc;
    }
    for (int c = 0; c < N_COLUMNS; c++) {
        struct hw_bytes rest = f->bytes;
        uint64_t v;
        if (packed_field[c] != f->number)
            continue;
        if (f->wire == HW_PB_VARINT && hw_vec_push(&t->columns[c], f->value) < 0)
            return HW_ENOMEM;
        while (f->wire == HW_PB_BYTES && hw_pb_next_packed(&rest, &v) == 1)
            if (hw_vec_push(&t->columns[c], v) < 0)
                return HW_ENOMEM;
    }
    return HW_OK;
}

static uint64_t cell(const struct packed *t, enum packed_column c, size_t row)
{
    return row < t->columns[c].n ? t->columns[c].v[row] : 0;
}

static int packed_rows(struct hw_profile *p, const struct packed *t, struct hw_smaps_row row)
{
    bool aggregated = t->columns[COLUMN_COUNT].n != 0, unequal = false;
    size_t n = aggregated ? t->names.n : t->columns[COLUMN_NAME].n;
    for (int c = 0; c < N_COLUMNS; c++) {
        size_t have = t->columns[c].n;
        if (have == 0 || (aggregated && c == COLUMN_NAME))
            continue;
        unequal |= have != n;
        n = have < n ? have : n;
    }
    int rc = unequal ? hw_profile_stat_add(p, "smaps_parser_errors", -1, HW_STAT_ERROR, 1) : HW_OK;
    for (size_t i = 0; rc == HW_OK && i < n; i++) {
        uint64_t name = aggregated ? i : cell(t, COLUMN_NAME, i);
        if (aggregated && cell(t, COLUMN_COUNT, i) == 0)
            continue; /* "", if no mapping is unnamed */
        if (name >= t->names.n) {
            rc = hw_profile_stat_add(p, "smaps_parser_errors", -1, HW_STAT_ERROR, 1);
            continue;
        }
        row.path = t->names.v[name];
        if (t->columns[COLUMN_COUNT].n)
            row.aggregate_count = cell(t, COLUMN_COUNT, i);
#define X(field, member)                                                                           \
    if (t->columns[COLUMN_##field].n)                                                              \
        row.member = cell(t, COLUMN_##field, i);
        PACKED(X)
#undef X
        check_deleted(p, &row);
        if (hw_vec_push(&p->smaps, row) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}

static int add_packed(struct hw_profile *p, struct hw_smaps_row row, struct hw_bytes message)
{
    struct packed t = {0};
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        rc = packed_read(p, &t, &f);
    if (rc == HW_OK)
        rc = packed_rows(p, &t, row);
    hw_vec_done(&t.names);
    for (int c = 0; c < N_COLUMNS; c++)
        hw_vec_done(&t.columns[c]);
    return rc;
}

int hw_import_smaps(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns)
{
    uint64_t pid = hw_import_pid(message);
    struct hw_smaps_row row = hw_import_no_smaps;
    row.ts_ns = ts_ns;
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    if (pid > INT32_MAX)
        return hw_profile_stat_add(p, "smaps_parser_errors", -1, HW_STAT_ERROR, 1);
    bool packed = false;
    int rc = hw_profile_traced_process(p, (int64_t)pid, &row.upid);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_SmapsPacket_packed_entries) {
            packed = true;
            rc = add_packed(p, row, f.bytes);
        }
    r = hw_pb_read(message);
    while (rc == HW_OK && !packed && hw_pb_next(&r, &f) == 1)
        if (f.number == HW_F_SmapsPacket_entries)
            rc = add_smaps_entry(p, row, f.bytes);
    return rc;
}

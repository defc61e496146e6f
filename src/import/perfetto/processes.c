#include "import/perfetto/processes.h"

#include <string.h>

#include "base/error.h"
#include "base/text/strbuf.h"
#include "codec/pb.h"
#include "schema/fields.h"

#include "base/banned.h"

/* ---- process tree ---- */

struct tree_entry {
    int64_t pid, ppid, uid, start_ns;
    struct hw_bytes argv0;
    size_t n_argv;
};

/* The shown name is argv[0]; of a single element only what stands before the first space. */
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

/* The kernel gave the number away again: both starts are known and differ by more than rounding. */
static bool is_another(const struct hw_process *known, const struct tree_entry *e)
{
    enum { ROUNDING_NS = 50 * 1000 * 1000 };
    return known->start_ns >= 0 && e->start_ns >= 0 &&
           (e->start_ns > known->start_ns ? e->start_ns - known->start_ns
                                          : known->start_ns - e->start_ns) > ROUNDING_NS;
}

static int add_process(struct hw_profile *p, struct hw_bytes message, struct hw_strbuf *cmdline)
{
    struct tree_entry e = {.pid = -1, .ppid = -1, .uid = -1, .start_ns = -1};
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    hw_strbuf_clear(cmdline);
    while (hw_pb_next(&r, &f) == 1)
        tree_field(&e, &f, cmdline);
    if (cmdline->failed)
        return HW_ENOMEM;
    if (e.pid < 0 || e.n_argv == 0)
        return HW_OK; /* readers ignore entries without a command line */
    hw_upid upid;
    hw_str_id name, joined;
    int rc = hw_profile_process(p, e.pid, &upid);
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
    row->ppid = e.ppid >= 0 ? e.ppid : row->ppid;
    row->uid = e.uid >= 0 ? e.uid : row->uid;
    row->start_ns = e.start_ns >= 0 ? e.start_ns : row->start_ns;
    return HW_OK;
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
    int rc = hw_profile_process(p, tgid, &upid);
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
    r = hw_pb_read(message); /* threads may stand before their processes */
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

/* ---- counters ---- */

struct counter_field {
    uint32_t field;
    const char *name;
    double scale; /* to bytes, ns, or as it is */
};

static uint64_t find_pid(struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == 1 && f.wire == HW_PB_VARINT) /* pid, in each of these messages */
            return f.value;
    return 0;
}

static int add_counters(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns,
                        const struct counter_field *known, size_t n_known)
{
    uint64_t pid = find_pid(message);
    hw_upid upid;
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    if (pid > INT32_MAX)
        return HW_OK;
    int rc = hw_profile_process(p, (int64_t)pid, &upid);
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
    };
    return add_counters(p, message, ts_ns, known, HW_ARRAY_LEN(known));
}

/* ---- memory maps ---- */

/* "/a/b (deleted)" is the file /a/b. */
static void look_at_path(struct hw_profile *p, struct hw_smaps_row *row)
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

/* Where a number of an entry goes; NULL = it is none. */
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
    look_at_path(p, &row);
    return rc == HW_OK && hw_vec_push(&p->smaps, row) < 0 ? HW_ENOMEM : rc;
}

/* Columns of packed entries that are numbers, and where they go. */
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

/* The columns side by side; each packed, or field by field. */
struct packed {
    HW_VEC(hw_str_id) names;
    HW_VEC(uint64_t) columns[N_COLUMNS];
};

static int packed_take(struct hw_profile *p, struct packed *t, const struct hw_pb_field *f)
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
    bool aggregated = t->columns[COLUMN_NAME].n == 0;
    size_t n = aggregated ? t->names.n : t->columns[COLUMN_NAME].n;
    for (size_t i = 0; i < n; i++) {
        uint64_t name = aggregated ? i : cell(t, COLUMN_NAME, i);
        if (aggregated && t->columns[COLUMN_COUNT].n && cell(t, COLUMN_COUNT, i) == 0)
            continue; /* "" where nothing is nameless */
        if (name >= t->names.n) {
            int rc = hw_profile_stat_add(p, "smaps_parser_errors", -1, HW_STAT_ERROR, 1);
            if (rc < 0)
                return rc;
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
        look_at_path(p, &row);
        if (hw_vec_push(&p->smaps, row) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

static int add_packed(struct hw_profile *p, struct hw_smaps_row row, struct hw_bytes message)
{
    struct packed t = {0};
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        rc = packed_take(p, &t, &f);
    if (rc == HW_OK)
        rc = packed_rows(p, &t, row);
    hw_vec_done(&t.names);
    for (int c = 0; c < N_COLUMNS; c++)
        hw_vec_done(&t.columns[c]);
    return rc;
}

int hw_import_smaps(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns)
{
    uint64_t pid = find_pid(message);
    struct hw_smaps_row row = hw_import_no_smaps;
    row.ts_ns = ts_ns;
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    if (pid > INT32_MAX)
        return hw_profile_stat_add(p, "smaps_parser_errors", -1, HW_STAT_ERROR, 1);
    int rc = hw_profile_process(p, (int64_t)pid, &row.upid);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number == HW_F_SmapsPacket_entries)
            rc = add_smaps_entry(p, row, f.bytes);
        else if (f.number == HW_F_SmapsPacket_packed_entries)
            rc = add_packed(p, row, f.bytes);
    }
    return rc;
}

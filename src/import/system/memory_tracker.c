#include "import/system/memory_tracker.h"

#include "base/error.h"
#include "base/text/strbuf.h"
#include "codec/pb.h"
#include "model/profile.h"
#include "schema/fields.h"

#include "base/banned.h"

#define SNAPSHOT(name) HW_F_MemoryTrackerSnapshot_##name
#define PROCESS(name)  HW_F_MemoryTrackerSnapshot_ProcessSnapshot_##name
#define NODE(name)     HW_F_MemoryTrackerSnapshot_ProcessSnapshot_MemoryNode_##name
#define ENTRY(name)    HW_F_MemoryTrackerSnapshot_ProcessSnapshot_MemoryNode_MemoryNodeEntry_##name
#define EDGE(name)     HW_F_MemoryTrackerSnapshot_ProcessSnapshot_MemoryEdge_##name
#define UNITS(name)                                                                                \
    HW_V_MemoryTrackerSnapshot_ProcessSnapshot_MemoryNode_MemoryNodeEntry_Units_##name

_Static_assert((int)HW_MEMORY_BYTES == (int)UNITS(BYTES) &&
                   (int)HW_MEMORY_COUNT == (int)UNITS(COUNT),
               "the format's numbers are ours");

static int count_bad(struct hw_profile *p)
{
    return hw_profile_stat_add(p, "memory_snapshot_parser_failure", -1, HW_STAT_ERROR, 1);
}

/* ---- attributes ---- */

static int add_arg(struct hw_profile *p, uint32_t set, struct hw_bytes name, const char *ending,
                   struct hw_arg_row row)
{
    struct hw_strbuf key = {0};
    hw_strbuf_add(&key, name.p, name.n);
    hw_strbuf_adds(&key, ending);
    int rc = key.failed ? HW_ENOMEM : hw_profile_str(p, hw_bytes_of(key.p, key.n), &row.key);
    row.flat_key = row.key;
    row.set = set;
    if (rc == HW_OK && hw_vec_push(&p->args.rows, row) < 0)
        rc = HW_ENOMEM;
    hw_strbuf_done(&key);
    return rc;
}

int hw_import_memory_entry(struct hw_profile *p, uint32_t set, const struct hw_memory_entry *e)
{
    struct hw_arg_row value = {.type = HW_ARG_INT, .number = (int64_t)e->number};
    struct hw_arg_row unit = {.type = HW_ARG_STRING};
    int rc = HW_OK;
    if (e->has_text) {
        value.type = HW_ARG_STRING;
        rc = hw_profile_str(p, e->text, &value.text);
    }
    if (rc == HW_OK)
        rc = add_arg(p, set, e->name, ".value", value);
    if (rc < 0 || e->has_text || (e->units != HW_MEMORY_BYTES && e->units != HW_MEMORY_COUNT))
        return rc;
    rc = hw_profile_str(p, hw_bytes_str(e->units == HW_MEMORY_BYTES ? "bytes" : "objects"),
                        &unit.text);
    return rc < 0 ? rc : add_arg(p, set, e->name, ".unit", unit);
}

static struct hw_memory_entry read_entry(struct hw_bytes message)
{
    struct hw_memory_entry e = {0};
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    while (hw_pb_next(&r, &f) == 1) {
        switch (f.number) {
        case ENTRY(name):
            e.name = f.bytes;
            break;
        case ENTRY(units):
            e.units = f.value;
            break;
        case ENTRY(value_uint64):
            e.number = f.value;
            break;
        case ENTRY(value_string):
            e.text = f.bytes;
            e.has_text = true;
            break;
        default:
            break;
        }
    }
    return e;
}

static bool is(struct hw_bytes name, const char *word)
{
    return hw_bytes_equal(name, hw_bytes_str(word));
}

/* `size` is a member of the node; effective sizes are computed, not read. */
static int add_entries(struct hw_profile *p, struct hw_bytes node, struct hw_memory_node *n)
{
    struct hw_pb_reader r = hw_pb_read(node);
    struct hw_pb_field f;
    uint32_t set = p->args.n_sets;
    size_t before = p->args.rows.n;
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number != NODE(entries) || f.wire != HW_PB_BYTES)
            continue;
        struct hw_memory_entry e = read_entry(f.bytes);
        if (!e.has_text && e.number > INT64_MAX)
            rc = count_bad(p);
        else if (is(e.name, "size") && !e.has_text && !n->has_size) {
            n->has_size = true;
            n->size = e.number;
        } else if (!is(e.name, "size") && !is(e.name, "effective_size")) {
            rc = hw_import_memory_entry(p, set, &e);
        }
    }
    if (rc == HW_OK && p->args.rows.n > before) {
        n->arg_set = set;
        p->args.n_sets++;
    }
    return rc;
}

/* ---- nodes and edges ---- */

static int add_node(struct hw_profile *p, uint32_t process, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_bytes path = {NULL, 0};
    struct hw_memory_node *n;
    uint64_t guid = 0, size = 0;
    bool has_size = false, weak = false;
    while (hw_pb_next(&r, &f) == 1) {
        switch (f.number) {
        case NODE(id):
            guid = f.value;
            break;
        case NODE(absolute_name):
            path = f.bytes;
            break;
        case NODE(weak):
            weak = f.value != 0;
            break;
        case NODE(size_bytes):
            size = f.value;
            has_size = true;
            break;
        default:
            break;
        }
    }
    int rc = hw_memory_node(p, process, path, guid, &n);
    if (rc == HW_OK)
        rc = hw_memory_report_node(&p->memory, n, weak);
    if (rc == HW_EINVAL)
        return count_bad(p); /* no name, or the same node twice */
    if (rc <= 0)
        return rc;
    rc = HW_OK;
    if (has_size && size > INT64_MAX) {
        rc = count_bad(p);
        has_size = false;
        size = 0;
    }
    if (rc < 0)
        return rc;
    n->has_size = has_size;
    n->size = size;
    return add_entries(p, message, n);
}

static int add_edge(struct hw_profile *p, uint32_t snapshot, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint64_t source = 0, target = 0, importance = 0;
    while (hw_pb_next(&r, &f) == 1) {
        if (f.number == EDGE(source_id))
            source = f.value;
        else if (f.number == EDGE(target_id))
            target = f.value;
        else if (f.number == EDGE(importance))
            importance = f.value;
    }
    return hw_memory_edge(&p->memory, snapshot, source, target,
                          importance > UINT32_MAX ? UINT32_MAX : (uint32_t)importance);
}

static int add_process(struct hw_profile *p, uint32_t snapshot, struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    int64_t pid = 0;
    uint32_t process;
    hw_upid upid = {HW_ID_NONE};
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == PROCESS(pid) && f.wire == HW_PB_VARINT)
            pid = (int32_t)f.value;
    if (pid < 0)
        return count_bad(p);
    int rc = pid ? hw_profile_traced_process(p, pid, &upid) : HW_OK;
    if (rc == HW_OK)
        rc = hw_memory_process(&p->memory, snapshot, upid, &process);
    r = hw_pb_read(message);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.wire != HW_PB_BYTES)
            continue;
        if (f.number == PROCESS(allocator_dumps))
            rc = add_node(p, process, f.bytes);
        else if (f.number == PROCESS(memory_edges))
            rc = add_edge(p, snapshot, f.bytes);
    }
    return rc;
}

int hw_import_memory_snapshot(struct hw_profile *p, struct hw_bytes message, int64_t ts_ns)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    uint32_t snapshot;
    enum hw_memory_detail detail = HW_MEMORY_DETAILED;
    while (hw_pb_next(&r, &f) == 1)
        if (f.number == SNAPSHOT(level_of_detail) && f.value <= HW_MEMORY_BACKGROUND)
            detail = (enum hw_memory_detail)f.value;
    int rc = hw_memory_snapshot(&p->memory, ts_ns, detail, &snapshot);
    r = hw_pb_read(message);
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1)
        if (f.number == SNAPSHOT(process_memory_dumps) && f.wire == HW_PB_BYTES)
            rc = add_process(p, snapshot, f.bytes);
    return rc;
}

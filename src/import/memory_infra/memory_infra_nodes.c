#include <string.h>

#include "base/error.h"
#include "base/text/strbuf.h"
#include "base/text/text_parts.h"
#include "import/memory_infra/memory_infra_parts.h"
#include "import/system/memory_tracker.h"
#include "import/system/process_packets.h"

#include "base/banned.h"

/* ---- allocators ---- */

static int add_attribute(struct hw_infra *in, uint32_t set, struct hw_memory_node *n,
                         const char *name, const json_t *attr)
{
    const char *type = json_string_value(json_object_get(attr, "type"));
    const char *units = json_string_value(json_object_get(attr, "units"));
    const json_t *value = json_object_get(attr, "value");
    struct hw_memory_entry e = {.name = hw_bytes_str(name), .units = HW_MEMORY_COUNT};
    if (!type || !json_is_string(value))
        return hw_infra_bad(in, "memory_infra_bad_attribute");
    if (strcmp(type, "string") == 0) {
        e.has_text = true;
        e.text = hw_bytes_of(json_string_value(value), json_string_length(value));
    } else if (!hw_infra_hex(value, &e.number)) {
        return hw_infra_bad(in, "memory_infra_bad_attribute");
    } else if (e.number > INT64_MAX) {
        return hw_infra_bad(in, "memory_infra_huge_number");
    }
    if (units && strcmp(units, "bytes") == 0)
        e.units = HW_MEMORY_BYTES;
    if (strcmp(name, "size") == 0 && !e.has_text) {
        n->has_size = true;
        n->size = e.number;
        return HW_OK;
    }
    /* Effective sizes are computed, not read. */
    return strcmp(name, "effective_size") == 0 ? HW_OK : hw_import_memory_entry(in->p, set, &e);
}

/* Identifies a node of a global dump; all processes share those below global/. */
static uint64_t node_hash(uint32_t process, struct hw_bytes path)
{
    static const char global[] = "global/";
    bool shared = hw_bytes_start_with(path, global);
    return hw_hash_mix(hw_hash_bytes(path.p, path.n), shared ? UINT64_MAX : process);
}

/* A guid names one node of a global dump. 1 = another node has it. */
static int claim_guid(struct hw_infra *in, uint32_t process, struct hw_bytes path, uint64_t guid)
{
    uint64_t snapshot = in->p->memory.processes.v[process].snapshot;
    uint64_t owner = node_hash(process, path);
    uint64_t *at;
    bool fresh;
    int rc = hw_map64_at(&in->owner_of_guid, hw_hash_mix(snapshot, guid), &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh)
        *at = owner;
    return *at != owner;
}

static int add_node(struct hw_infra *in, uint32_t process, const char *path, const json_t *node)
{
    struct hw_profile *p = in->p;
    struct hw_memory_node *n;
    const json_t *attrs = json_object_get(node, "attrs");
    const char *name;
    json_t *attr;
    uint64_t guid = 0;
    (void)hw_infra_hex(json_object_get(node, "guid"), &guid);
    if (guid == 0) /* it has no edges, but 0 marks nodes made for their children */
        guid = node_hash(process, hw_bytes_str(path)) | 1;
    int rc = claim_guid(in, process, hw_bytes_str(path), guid);
    if (rc != HW_OK)
        return rc < 0 ? rc : hw_infra_bad(in, "memory_infra_guid_taken");
    rc = hw_memory_node(p, process, hw_bytes_str(path), guid, &n);
    if (rc == HW_OK)
        rc = hw_memory_report_node(&p->memory, n,
                                   json_integer_value(json_object_get(node, "flags")) & 1);
    if (rc == HW_EINVAL)
        return hw_infra_bad(in, "memory_infra_bad_node"); /* no name, or the same node twice */
    if (rc <= 0)
        return rc;
    rc = HW_OK;
    uint32_t set = p->args.n_sets;
    size_t before = p->args.rows.n;
    json_object_foreach((json_t *)(uintptr_t)attrs, name, attr)
    {
        if (rc == HW_OK)
            rc = add_attribute(in, set, n, name, attr);
    }
    if (p->args.rows.n > before) {
        n->arg_set = set;
        p->args.n_sets++;
    }
    return rc;
}

int hw_infra_allocators(struct hw_infra *in, uint32_t process, const json_t *allocators)
{
    const char *path;
    json_t *node;
    int rc = HW_OK;
    if (!allocators)
        return HW_OK;
    if (!json_is_object(allocators))
        return hw_infra_bad(in, "memory_infra_bad_dump");
    json_object_foreach((json_t *)(uintptr_t)allocators, path, node)
    {
        if (rc == HW_OK)
            rc = add_node(in, process, path, node);
    }
    return rc;
}

int hw_infra_graph(struct hw_infra *in, uint32_t snapshot, const json_t *edges)
{
    size_t i;
    json_t *edge;
    int rc = HW_OK;
    json_array_foreach(edges, i, edge)
    {
        uint64_t source, target;
        const char *type = json_string_value(json_object_get(edge, "type"));
        json_int_t importance = json_integer_value(json_object_get(edge, "importance"));
        if (type && strcmp(type, "ownership") != 0)
            continue; /* retention does not affect sizes */
        if (!hw_infra_hex(json_object_get(edge, "source"), &source) ||
            !hw_infra_hex(json_object_get(edge, "target"), &target))
            rc = hw_infra_bad(in, "memory_infra_bad_edge");
        else
            rc = hw_memory_edge(&in->p->memory, snapshot, source, target,
                                importance < 0            ? 0
                                : importance > UINT32_MAX ? UINT32_MAX
                                                          : (uint32_t)importance);
        if (rc < 0)
            break;
    }
    return rc;
}

/* ---- totals and mappings ---- */

static int add_counter(struct hw_infra *in, int64_t ts_ns, hw_upid upid, const char *key,
                       double value)
{
    static const struct {
        const char *key, *counter;
    } known[] = {
        {"resident_set_bytes", "mem.rss"},
        {"peak_resident_set_bytes", "mem.rss.watermark"},
        {"peak_resident_set_size", "mem.rss.watermark"},
        {"private_footprint_bytes", "mem.private_footprint"},
        {"is_peak_rss_resetable", "mem.rss.watermark_is_since_last_dump"},
        {"is_peak_rss_resettable", "mem.rss.watermark_is_since_last_dump"},
    };
    struct hw_counter_row row = {.upid = upid, .ts_ns = ts_ns, .value = value};
    struct hw_strbuf name = {0};
    hw_strbuf_addf(&name, "mem.%s", key);
    const char *counter = name.p;
    for (size_t i = 0; i < HW_ARRAY_LEN(known); i++)
        if (strcmp(known[i].key, key) == 0)
            counter = known[i].counter;
    int rc = name.failed ? HW_ENOMEM : hw_profile_str(in->p, hw_bytes_str(counter), &row.name);
    if (rc == HW_OK && hw_vec_push(&in->p->counters, row) < 0)
        rc = HW_ENOMEM;
    hw_strbuf_done(&name);
    return rc;
}

int hw_infra_totals(struct hw_infra *in, int64_t ts_ns, hw_upid upid, const json_t *totals)
{
    const char *key;
    json_t *value;
    int rc = HW_OK;
    json_object_foreach((json_t *)(uintptr_t)totals, key, value)
    {
        uint64_t number;
        if (rc < 0)
            break;
        if (json_is_boolean(value))
            rc = add_counter(in, ts_ns, upid, key, json_is_true(value));
        else if (hw_infra_hex(value, &number) && number > INT64_MAX)
            rc = hw_infra_bad(in, "memory_infra_huge_number");
        else if (hw_infra_hex(value, &number))
            rc = add_counter(in, ts_ns, upid, key, (double)number);
        else
            rc = hw_infra_bad(in, "memory_infra_bad_total");
    }
    return rc;
}

static void set_kb(const json_t *stats, const char *key, uint64_t *out)
{
    uint64_t bytes;
    if (hw_infra_hex(json_object_get(stats, key), &bytes))
        *out = bytes / 1024;
}

static int add_region(struct hw_infra *in, int64_t ts_ns, hw_upid upid, const json_t *region)
{
    const json_t *stats = json_object_get(region, "bs"), *flags = json_object_get(region, "pf");
    struct hw_smaps_row row = hw_import_no_smaps;
    uint64_t size;
    row.upid = upid;
    row.ts_ns = ts_ns;
    if (!hw_infra_hex(json_object_get(region, "sa"), &row.start_address) ||
        !hw_infra_hex(json_object_get(region, "sz"), &size))
        return hw_infra_bad(in, "memory_infra_bad_region");
    row.size_kb = size / 1024;
    (void)hw_infra_hex(json_object_get(region, "fo"), &row.elf_address); /* optional */
    if (json_is_integer(flags))
        row.protection_flags = hw_smaps_flags((uint64_t)json_integer_value(flags));
    set_kb(stats, "pss", &row.pss_kb);
    set_kb(stats, "pd", &row.private_dirty_kb);
    set_kb(stats, "pc", &row.private_clean_kb);
    set_kb(stats, "sd", &row.shared_dirty_kb);
    set_kb(stats, "sc", &row.shared_clean_kb);
    set_kb(stats, "sw", &row.swap_kb);
    int rc = hw_infra_str(in, json_object_get(region, "mf"), &row.path);
    row.file_name = row.path;
    if (rc == HW_OK)
        rc = hw_infra_str(in, json_object_get(region, "id"), &row.module_debugid);
    return rc == HW_OK && hw_vec_push(&in->p->smaps, row) < 0 ? HW_ENOMEM : rc;
}

int hw_infra_mmaps(struct hw_infra *in, int64_t ts_ns, hw_upid upid, const json_t *mmaps)
{
    size_t i;
    json_t *region;
    int rc = HW_OK;
    json_array_foreach(json_object_get(mmaps, "vm_regions"), i, region)
    {
        rc = add_region(in, ts_ns, upid, region);
        if (rc < 0)
            break;
    }
    return rc;
}

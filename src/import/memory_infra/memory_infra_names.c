/*
 * The reading half. Events come one at a time; of those with names, only their position in the file
 * and what they define are kept.
 */
#include "import/memory_infra/memory_infra_names.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory/lower_bound.h"
#include "codec/source.h"
#include "import/memory_infra/json_events.h"
#include "import/memory_infra/memory_infra_names_data.h"
#include "import/memory_infra/memory_infra_parts.h"

#include "base/banned.h"

static const uint64_t max_id = (uint64_t)1 << 53; /* exact in every JSON reader */

void hw_infra_names_free(struct hw_infra_names *x)
{
    if (!x)
        return;
    for (size_t i = 0; i < x->processes.n; i++) {
        struct hw_names_process *p = &x->processes.v[i];
        hw_vec_done(&p->strings);
        hw_vec_done(&p->nodes);
        hw_vec_done(&p->types);
        hw_map64_done(&p->string_at);
        hw_map64_done(&p->node_at);
        hw_map64_done(&p->type_at);
        hw_map64_done(&p->leaf_at);
        hw_map64_done(&p->return_at);
    }
    hw_vec_done(&x->processes);
    hw_map64_done(&x->process_at);
    hw_vec_done(&x->regions);
    hw_vec_done(&x->addresses);
    hw_vec_done(&x->ranges);
    hw_vec_done(&x->names);
    hw_vec_done(&x->edits);
    hw_strings_free(x->strings);
    free(x);
}

const char *hw_infra_names_text(const struct hw_infra_names *x, hw_str_id id)
{
    return hw_strings_cstr(x->strings, id);
}

const struct hw_infra_region *hw_infra_names_regions(const struct hw_infra_names *x, size_t *n)
{
    *n = x->regions.n;
    return x->regions.v;
}

const struct hw_infra_address *hw_infra_names_addresses(const struct hw_infra_names *x, size_t *n)
{
    *n = x->addresses.n;
    return x->addresses.v;
}

size_t hw_infra_names_n_heaps(const struct hw_infra_names *x)
{
    size_t n = 0;
    for (size_t i = 0; i < x->processes.n; i++)
        n += x->processes.v[i].has_heaps;
    return n;
}

void hw_infra_names_frames_as_types(struct hw_infra_names *x)
{
    x->frames_as_types = true;
}

int hw_infra_names_set(struct hw_infra_names *x, size_t address, const char *const *names, size_t n)
{
    x->ranges.v[address] = (struct hw_names_range){x->names.n, n};
    for (size_t i = 0; i < n; i++) {
        hw_str_id id;
        int rc = hw_strings_intern(x->strings, hw_bytes_str(names[i]), &id);
        if (rc < 0)
            return rc;
        if (hw_vec_push(&x->names, id) < 0)
            return HW_ENOMEM;
    }
    return HW_OK;
}

/* ---- values ---- */

static int intern(struct hw_infra_names *x, const json_t *text, hw_str_id *out)
{
    const char *s = json_string_value(text);
    return hw_strings_intern(x->strings, hw_bytes_of(s, s ? json_string_length(text) : 0), out);
}

static int id_of(struct hw_infra_names *x, const json_t *v, uint64_t *out, struct hw_error *err)
{
    if (json_is_integer(v) && json_integer_value(v) >= 0 &&
        (uint64_t)json_integer_value(v) <= max_id)
        *out = (uint64_t)json_integer_value(v);
    else if (json_is_real(v) && json_real_value(v) >= 0 && json_real_value(v) <= (double)max_id)
        *out = (uint64_t)json_real_value(v);
    else
        return hw_fail(err, HW_EFORMAT, 0, "an id in the maps of a heap dump is not a number");
    if (*out > x->last_id)
        x->last_id = *out;
    return HW_OK;
}

/* Keeps the first definition: *out is false for another one. */
static int define(struct hw_map64 *map, uint64_t id, size_t index, bool *out)
{
    uint64_t *at;
    int rc = hw_map64_at(map, id, &at, out);
    if (rc == HW_OK && *out)
        *at = index;
    return rc;
}

static int process_of(struct hw_infra_names *x, int64_t pid, uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    struct hw_names_process p = {
        .pid = pid, .mmaps_ts_us = INT64_MIN, .maps_ts_us = INT64_MAX, .maps_edit = HW_ID_NONE};
    int rc = hw_map64_at(&x->process_at, (uint64_t)pid, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = x->processes.n;
        if (hw_vec_push(&x->processes, p) < 0)
            return HW_ENOMEM;
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

/* ---- mappings ---- */

static struct hw_bytes without_deleted(const char *path)
{
    static const char end[] = " (deleted)";
    size_t n = strlen(path);
    if (n > sizeof end - 1 && strcmp(path + n - (sizeof end - 1), end) == 0)
        n -= sizeof end - 1;
    return hw_bytes_of(path, n);
}

static int add_region(struct hw_infra_names *x, const json_t *region)
{
    struct hw_infra_region r = {0};
    const char *path = json_string_value(json_object_get(region, "mf"));
    uint64_t size;
    if (!hw_infra_hex(json_object_get(region, "sa"), &r.start) ||
        !hw_infra_hex(json_object_get(region, "sz"), &size))
        return HW_OK; /* counted by the importer */
    r.end = size > UINT64_MAX - r.start ? UINT64_MAX : r.start + size;
    r.has_va = hw_infra_hex(json_object_get(region, "fo"), &r.first_va);
    int rc = intern(x, json_object_get(region, "id"), &r.build_id);
    if (rc == HW_OK)
        rc = hw_strings_intern(x->strings, without_deleted(path ? path : ""), &r.path);
    return rc == HW_OK && hw_vec_push(&x->regions, r) < 0 ? HW_ENOMEM : rc;
}

static int compare_regions(const void *pa, const void *pb)
{
    const struct hw_infra_region *a = pa, *b = pb;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

/* The latest dump's mappings count. Earlier ones stay in x->regions, unused. */
static int read_mappings(struct hw_infra_names *x, uint32_t process, int64_t ts, const json_t *list)
{
    struct hw_names_process *p = &x->processes.v[process];
    struct hw_map64 first = {0};
    size_t i;
    json_t *region;
    int rc = HW_OK;
    if (json_array_size(list) == 0 || ts < p->mmaps_ts_us)
        return HW_OK;
    p->mmaps_ts_us = ts;
    p->first_region = x->regions.n;
    json_array_foreach(list, i, region)
    {
        if (rc == HW_OK)
            rc = add_region(x, region);
    }
    p->n_regions = x->regions.n - p->first_region;
    if (p->n_regions)
        qsort(x->regions.v + p->first_region, p->n_regions, sizeof *x->regions.v, compare_regions);
    for (i = p->first_region; rc == HW_OK && i < x->regions.n; i++) {
        bool fresh;
        uint64_t *at;
        rc = hw_map64_at(&first, x->regions.v[i].path.v, &at, &fresh);
        if (rc == HW_OK && fresh)
            *at = x->regions.v[i].start;
        if (rc == HW_OK)
            x->regions.v[i].first_start = *at;
    }
    hw_map64_done(&first);
    return rc;
}

static uint32_t region_of(const struct hw_infra_names *x, const struct hw_names_process *p,
                          uint64_t pc)
{
    size_t lo = HW_LOWER_BOUND(mid, p->first_region, p->first_region + p->n_regions,
                               x->regions.v[mid].start <= pc);
    if (lo == p->first_region || pc >= x->regions.v[lo - 1].end)
        return HW_ID_NONE;
    return (uint32_t)(lo - 1);
}

/* ---- version 2 ---- */

static int read_strings(struct hw_infra_names *x, struct hw_names_process *p, const json_t *list,
                        struct hw_error *err)
{
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row)
    {
        struct hw_names_string s = {0};
        bool fresh = false;
        int rc = id_of(x, json_object_get(row, "id"), &s.id, err);
        if (rc == HW_OK)
            rc = intern(x, json_object_get(row, "string"), &s.text);
        if (rc == HW_OK)
            rc = define(&p->string_at, s.id, p->strings.n, &fresh);
        if (rc == HW_OK && fresh && hw_vec_push(&p->strings, s) < 0)
            rc = HW_ENOMEM;
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

static int read_nodes(struct hw_infra_names *x, struct hw_names_process *p, const json_t *list,
                      struct hw_error *err)
{
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row)
    {
        struct hw_names_node n = {.parent = HW_INFRA_NO_ID, .address = HW_ID_NONE};
        const json_t *parent = json_object_get(row, "parent");
        bool fresh = false;
        int rc = id_of(x, json_object_get(row, "id"), &n.id, err);
        if (rc == HW_OK)
            rc = id_of(x, json_object_get(row, "name_sid"), &n.name_sid, err);
        if (rc == HW_OK && parent)
            rc = id_of(x, parent, &n.parent, err);
        if (rc == HW_OK)
            rc = define(&p->node_at, n.id, p->nodes.n, &fresh);
        if (rc == HW_OK && fresh && hw_vec_push(&p->nodes, n) < 0)
            rc = HW_ENOMEM;
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

static int read_types(struct hw_infra_names *x, struct hw_names_process *p, const json_t *list,
                      struct hw_error *err)
{
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row)
    {
        struct hw_names_type t = {.address = HW_ID_NONE};
        bool fresh = false;
        int rc = id_of(x, json_object_get(row, "id"), &t.id, err);
        if (rc == HW_OK)
            rc = id_of(x, json_object_get(row, "name_sid"), &t.name_sid, err);
        if (rc == HW_OK)
            rc = define(&p->type_at, t.id, p->types.n, &fresh);
        if (rc == HW_OK && fresh && hw_vec_push(&p->types, t) < 0)
            rc = HW_ENOMEM;
        if (rc < 0)
            return rc;
    }
    return HW_OK;
}

static int check_version(struct hw_infra_names *x, unsigned version, struct hw_error *err)
{
    if (x->version && x->version != version)
        return hw_fail(err, HW_EFORMAT, 0, "heap dumps of both versions in one trace");
    x->version = version;
    return HW_OK;
}

static int read_v2(struct hw_infra_names *x, uint32_t process, int64_t ts, const json_t *heaps,
                   struct hw_error *err)
{
    struct hw_names_process *p = &x->processes.v[process];
    const json_t *maps = json_object_get(heaps, "maps");
    if (json_number_value(json_object_get(heaps, "version")) != 1)
        return hw_fail(err, HW_EFORMAT, 0, "a heap dump of an unknown version");
    if (ts < p->maps_ts_us || p->maps_edit == HW_ID_NONE) {
        p->maps_ts_us = ts;
        p->maps_edit = (uint32_t)x->edits.n - 1;
    }
    p->has_heaps = true;
    int rc = check_version(x, 2, err);
    if (rc == HW_OK)
        rc = read_strings(x, p, json_object_get(maps, "strings"), err);
    if (rc == HW_OK)
        rc = read_nodes(x, p, json_object_get(maps, "nodes"), err);
    return rc < 0 ? rc : read_types(x, p, json_object_get(maps, "types"), err);
}

/* ---- version 1 ---- */

static int text_id(struct hw_infra_names *x, const char *id, uint64_t *out)
{
    hw_str_id key;
    char *end;
    int rc = hw_strings_intern(x->strings, hw_bytes_str(id), &key);
    uint64_t number = strtoull(id, &end, 10); /* new ids must differ from all others */
    if (*id && !*end && number <= max_id && number > x->last_id)
        x->last_id = number;
    *out = rc == HW_OK ? key.v : 0;
    return rc;
}

static int read_frames(struct hw_infra_names *x, struct hw_names_process *p, json_t *frames)
{
    const char *id;
    json_t *frame;
    int rc = HW_OK;
    json_object_foreach(frames, id, frame)
    {
        struct hw_names_node n = {.parent = HW_INFRA_NO_ID, .address = HW_ID_NONE};
        const json_t *parent = json_object_get(frame, "parent");
        char number[24];
        bool fresh = false;
        if (rc == HW_OK)
            rc = text_id(x, id, &n.id);
        if (rc == HW_OK)
            rc = intern(x, json_object_get(frame, "name"), &n.name);
        if (rc == HW_OK)
            rc = intern(x, json_object_get(frame, "category"), &n.category);
        (void)snprintf(number, sizeof number, "%lld", (long long)json_integer_value(parent));
        if (rc == HW_OK && parent)
            rc = text_id(x, json_is_string(parent) ? json_string_value(parent) : number, &n.parent);
        if (rc == HW_OK)
            rc = define(&p->node_at, n.id, p->nodes.n, &fresh);
        if (rc == HW_OK && fresh && hw_vec_push(&p->nodes, n) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}

static int read_type_names(struct hw_infra_names *x, struct hw_names_process *p, json_t *names)
{
    const char *id;
    json_t *name;
    int rc = HW_OK;
    json_object_foreach(names, id, name)
    {
        struct hw_names_type t = {.address = HW_ID_NONE};
        bool fresh = false;
        if (rc == HW_OK)
            rc = text_id(x, id, &t.id);
        if (rc == HW_OK)
            rc = intern(x, name, &t.name);
        if (rc == HW_OK)
            rc = define(&p->type_at, t.id, p->types.n, &fresh);
        if (rc == HW_OK && fresh && hw_vec_push(&p->types, t) < 0)
            rc = HW_ENOMEM;
    }
    return rc;
}

/* ---- events ---- */

static int keep_edit(struct hw_infra_names *x, const struct hw_json_event *e, uint32_t process,
                     enum hw_names_edit_kind kind)
{
    struct hw_names_edit edit = {e->offset, e->text.n, process, kind};
    return hw_vec_push(&x->edits, edit) < 0 ? HW_ENOMEM : HW_OK;
}

static int read_dump(struct hw_infra_names *x, const struct hw_json_event *e, uint32_t process,
                     const json_t *event, struct hw_error *err)
{
    const json_t *dumps = json_object_get(json_object_get(event, "args"), "dumps");
    double us = json_number_value(json_object_get(event, "ts"));
    int64_t ts = us > -9e15 && us < 9e15 ? (int64_t)us : 0;
    const json_t *v1 = json_object_get(dumps, "heaps"), *v2 = json_object_get(dumps, "heaps_v2");
    int rc = read_mappings(x, process, ts,
                           json_object_get(json_object_get(dumps, "process_mmaps"), "vm_regions"));
    if (rc < 0)
        return rc;
    if (json_is_object(v1)) { /* then version 2 is ignored */
        x->processes.v[process].has_heaps = true;
        return check_version(x, 1, err);
    }
    if (!json_is_object(v2))
        return HW_OK;
    rc = keep_edit(x, e, process, HW_NAMES_V2);
    return rc < 0 ? rc : read_v2(x, process, ts, v2, err);
}

static int read_metadata(struct hw_infra_names *x, const struct hw_json_event *e, uint32_t process,
                         const json_t *event)
{
    const char *name = json_string_value(json_object_get(event, "name"));
    json_t *args = json_object_get(event, "args");
    json_t *frames = json_object_get(args, "stackFrames"),
           *types = json_object_get(args, "typeNames");
    int rc = HW_OK;
    if (name && strcmp(name, "stackFrames") == 0 && json_is_object(frames)) {
        rc = read_frames(x, &x->processes.v[process], frames);
        return rc < 0 ? rc : keep_edit(x, e, process, HW_NAMES_FRAMES);
    }
    if (name && strcmp(name, "typeNames") == 0 && json_is_object(types)) {
        rc = read_type_names(x, &x->processes.v[process], types);
        return rc < 0 ? rc : keep_edit(x, e, process, HW_NAMES_TYPES);
    }
    return HW_OK;
}

static int read_event(struct hw_infra_names *x, struct hw_json_events *events,
                      const struct hw_json_event *e, struct hw_error *err)
{
    json_t *value = json_loadb((const char *)e->text.p, e->text.n, JSON_ALLOW_NUL, NULL);
    const json_t *pid = json_object_get(value, "pid");
    const char *ph = json_string_value(json_object_get(value, "ph"));
    uint32_t process;
    int rc = HW_OK;
    if (!value) {
        hw_json_events_retry(events);
        return HW_OK;
    }
    bool dump = ph && (strcmp(ph, "v") == 0 || strcmp(ph, "V") == 0);
    if (ph && (dump || strcmp(ph, "M") == 0) && json_is_integer(pid) &&
        json_integer_value(pid) >= 0) {
        rc = process_of(x, json_integer_value(pid), &process);
        if (rc == HW_OK)
            rc = dump ? read_dump(x, e, process, value, err) : read_metadata(x, e, process, value);
    }
    json_decref(value);
    return rc;
}

static int read_events(struct hw_infra_names *x, struct hw_source *source, struct hw_error *err)
{
    struct hw_json_events *events;
    struct hw_json_event e;
    int rc = hw_json_events_new(source, &events);
    if (rc < 0)
        return hw_fail(err, rc, 0, "JSON trace:");
    while ((rc = hw_json_events_next(events, &e, err)) == 1) {
        if (e.kind != HW_JSON_EVENT || (e.ph && !strchr("vVM", e.ph)))
            continue;
        struct hw_error why = {0};
        rc = read_event(x, events, &e, &why);
        if (rc < 0) {
            rc = hw_fail(err, rc, e.offset, "event at byte %llu: %s", (unsigned long long)e.offset,
                         why.code ? why.text : hw_errc_text(rc));
            break;
        }
    }
    hw_json_events_free(events);
    return rc;
}

/* ---- addresses ---- */

static bool is_address(const char *name, uint64_t *pc)
{
    char *end;
    if (strncmp(name, "pc:", 3) != 0 || !name[3] ||
        strspn(name + 3, "0123456789abcdefABCDEF") != strlen(name + 3) || strlen(name + 3) > 16)
        return false;
    *pc = strtoull(name + 3, &end, 16);
    return *pc != UINT64_MAX; /* not valid as a map's key */
}

static int address_of(struct hw_infra_names *x, struct hw_names_process *p, hw_str_id name,
                      bool is_return, uint32_t *out)
{
    uint64_t *at;
    bool fresh;
    struct hw_infra_address a = {.is_return = is_return};
    if (!is_address(hw_strings_cstr(x->strings, name), &a.pc))
        return HW_OK;
    int rc = hw_map64_at(is_return ? &p->return_at : &p->leaf_at, a.pc, &at, &fresh);
    if (rc < 0)
        return rc;
    if (fresh) {
        *at = x->addresses.n;
        a.region = region_of(x, p, a.pc);
        if (hw_vec_push(&x->addresses, a) < 0 ||
            hw_vec_push(&x->ranges, (struct hw_names_range){0, 0}) < 0)
            return HW_ENOMEM;
    }
    *out = (uint32_t)*at;
    return HW_OK;
}

static hw_str_id string_of(const struct hw_names_process *p, uint64_t sid)
{
    const uint64_t *at = hw_map64_find(&p->string_at, sid);
    return at ? p->strings.v[*at].text : (hw_str_id){0};
}

static int find_addresses(struct hw_infra_names *x, struct hw_names_process *p)
{
    int rc = HW_OK;
    for (size_t i = 0; i < p->nodes.n; i++) {
        const uint64_t *at = hw_map64_find(&p->node_at, p->nodes.v[i].parent);
        if (p->nodes.v[i].parent != HW_INFRA_NO_ID && at)
            p->nodes.v[*at].has_child = true;
    }
    for (size_t i = 0; rc == HW_OK && i < p->nodes.n; i++) {
        struct hw_names_node *n = &p->nodes.v[i];
        if (x->version != 1)
            n->name = string_of(p, n->name_sid);
        rc = address_of(x, p, n->name, n->has_child, &n->address);
    }
    for (size_t i = 0; rc == HW_OK && i < p->types.n; i++) {
        struct hw_names_type *t = &p->types.v[i];
        if (x->version != 1)
            t->name = string_of(p, t->name_sid);
        rc = address_of(x, p, t->name, /* is_return = */ false, &t->address);
    }
    return rc;
}

int hw_infra_names_read(struct hw_source *source, struct hw_infra_names **out, struct hw_error *err)
{
    struct hw_infra_names *x = calloc(1, sizeof *x);
    int rc = x ? hw_strings_new(&x->strings) : HW_ENOMEM;
    if (rc < 0) {
        hw_infra_names_free(x);
        return hw_fail(err, rc, 0, "JSON trace:");
    }
    rc = read_events(x, source, err);
    for (size_t i = 0; rc == HW_OK && i < x->processes.n; i++)
        if ((rc = find_addresses(x, &x->processes.v[i])) < 0)
            (void)hw_fail(err, rc, 0, "names of frames:");
    if (rc == HW_OK)
        *out = x;
    else
        hw_infra_names_free(x);
    return rc;
}

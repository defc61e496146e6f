/*
 * The file is read in two passes: first names, classes and roots, then objects. A class is an
 * object, too (java.lang.Class<X>), which owns the static fields. For smaller dumps a third pass
 * reads the contents: primitive fields, strings, how long arrays are and which are equal.
 */
#include "import/hprof/hprof_reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/progress.h"
#include "base/text/strbuf.h"
#include "import/hprof/hprof_classes.h"
#include "import/hprof/hprof_contents.h"
#include "import/hprof/hprof_file.h"
#include "import/hprof/hprof_threads.h"
#include "model/graph/heap_graph_build.h"
#include "model/profile.h"

#include "base/banned.h"

struct hprof {
    struct hw_hprof_file file;
    struct hw_hprof_sizes sizes;
    struct hw_profile *p;
    struct hw_graph_builder *b;
    struct hw_hprof_classes classes;
    struct hw_hprof_threads threads;
    uint32_t super_field, loader_field, internal_field;
    enum hw_heap_type heap_type;
    uint64_t n_objects, n_unknown_classes;
};

/* ---- roots ---- */

static enum hw_root_type root_of_tag(uint32_t tag)
{
    switch (tag) {
    case 0x101:
        return HW_ROOT_JNI_GLOBAL;
    case 0x102:
        return HW_ROOT_JNI_LOCAL;
    case 0x103:
        return HW_ROOT_JAVA_FRAME;
    case 0x104:
        return HW_ROOT_NATIVE_STACK;
    case 0x105:
        return HW_ROOT_STICKY_CLASS;
    case 0x106:
        return HW_ROOT_THREAD_BLOCK;
    case 0x107:
        return HW_ROOT_MONITOR_USED;
    case 0x108:
        return HW_ROOT_THREAD_OBJECT;
    case 0x189:
        return HW_ROOT_INTERNED_STRING;
    case 0x18a:
        return HW_ROOT_FINALIZING;
    case 0x18b:
        return HW_ROOT_DEBUGGER;
    case 0x18c:
        return HW_ROOT_REFERENCE_CLEANUP;
    case 0x18d:
        return HW_ROOT_VM_INTERNAL;
    case 0x18e:
        return HW_ROOT_JNI_MONITOR;
    case 0x1ff:
        return HW_ROOT_UNKNOWN;
    default:
        return HW_ROOT_COUNT;
    }
}

static int add_root(struct hprof *h, const struct hw_hprof_record *r)
{
    enum hw_root_type type = root_of_tag(r->tag);
    struct hw_hprof_cursor c = r->body;
    return type == HW_ROOT_COUNT ? HW_OK : hw_graph_root(h->b, hw_hprof_id(&c), type);
}

/* ---- objects ---- */

static int add_object(struct hprof *h, uint64_t id, uint64_t class_id, uint64_t size)
{
    struct hw_graph_object o = {
        .id = id, .class_id = class_id, .self_size = size, .heap_type = h->heap_type};
    return hw_graph_object(h->b, &o);
}

static int add_instance(struct hprof *h, struct hw_hprof_cursor c)
{
    uint64_t id = hw_hprof_id(&c);
    (void)hw_hprof_u(&c, 4); /* stack trace of the allocation */
    uint64_t class_id = hw_hprof_id(&c);
    struct hw_bytes data = hw_hprof_bytes(&c, hw_hprof_u(&c, 4));
    const struct hw_hprof_class *k = hw_hprof_class_find(&h->classes, class_id);
    h->n_unknown_classes += !k || k->data_bytes != data.n;
    int rc = add_object(h, id, class_id, k ? k->size : 0);
    for (size_t i = 0; rc == HW_OK && k && i < k->n_slots; i++) {
        const struct hw_hprof_slot *slot = &h->classes.slots.v[k->first_slot + i];
        const struct hw_hprof_field *f = &h->classes.fields.v[slot->field];
        if (slot->offset >= data.n)
            break; /* offsets rise: a short record costs only the slots it contains */
        if (!f->number)
            continue;
        struct hw_hprof_cursor at = {data.p + slot->offset, hw_bytes_end(data), h->file.id_bytes,
                                     false};
        uint64_t target = hw_hprof_id(&at);
        rc = hw_graph_ref(h->b, at.bad ? 0 : target, f->number);
    }
    return rc;
}

static int add_object_array(struct hprof *h, struct hw_hprof_cursor c)
{
    uint64_t id = hw_hprof_id(&c);
    (void)hw_hprof_u(&c, 4);
    uint64_t n = hw_hprof_u(&c, 4);
    uint64_t class_id = hw_hprof_id(&c);
    int rc = add_object(h, id, class_id, hw_hprof_sizes_array(&h->sizes, n, HW_HPROF_OBJECT));
    for (uint64_t i = 0; rc == HW_OK && i < n; i++) {
        uint64_t target = hw_hprof_id(&c);
        if (target) /* null elements are left out */
            rc = hw_graph_ref(h->b, target, HW_FIELD_NONE);
    }
    return rc;
}

static int add_primitive_array(struct hprof *h, struct hw_hprof_cursor c)
{
    uint64_t id = hw_hprof_id(&c);
    (void)hw_hprof_u(&c, 4);
    uint64_t n = hw_hprof_u(&c, 4), type = hw_hprof_u(&c, 1);
    return add_object(h, id, hw_hprof_array_class(&h->classes, type),
                      hw_hprof_sizes_array(&h->sizes, n, type));
}

static int add_ref(struct hprof *h, uint64_t target, uint32_t field)
{
    return target ? hw_graph_ref(h->b, target, field) : HW_OK;
}

/*
 * What the JVM holds for a class outside of its object: HotSpot's dumps list such among the static
 * fields, and so do ours (src/export/hprof). They take no memory there.
 */
static bool is_internal(const struct hprof *h, uint64_t name_id)
{
    struct hw_bytes name = hw_hprof_text(&h->classes, name_id);
    return hw_bytes_equal(name, hw_bytes_str("runtimeInternalObjects")) ||
           hw_bytes_equal(name, hw_bytes_str("<resolved_references>"));
}

static int add_statics(struct hprof *h, struct hw_hprof_statics *s, const struct hw_hprof_class *k)
{
    struct hw_strbuf full = {0};
    struct hw_hprof_cursor value;
    uint64_t name_id;
    uint8_t type;
    int rc = HW_OK;
    struct hw_bytes class_name = hw_strings_get(hw_callsites_strings(h->p->callsites), k->name);
    while (rc == HW_OK && hw_hprof_statics_next(s, &name_id, &type, &value)) {
        struct hw_bytes name = hw_hprof_text(&h->classes, name_id);
        hw_str_id id;
        uint32_t field;
        if (type != HW_HPROF_OBJECT)
            continue;
        if (hw_bytes_equal(name, hw_bytes_str("runtimeInternalObjects"))) {
            rc = add_ref(h, hw_hprof_id(&value), h->internal_field);
            continue;
        }
        hw_strbuf_clear(&full);
        hw_strbuf_add(&full, class_name.p, class_name.n);
        hw_strbuf_addc(&full, '.');
        hw_strbuf_add(&full, name.p, name.n);
        rc = hw_hprof_name(&h->classes, &full, &id);
        if (rc == HW_OK)
            rc = hw_graph_field(h->b, id, (hw_str_id){0}, &field);
        if (rc == HW_OK)
            rc = hw_graph_ref(h->b, hw_hprof_id(&value), field);
    }
    hw_strbuf_done(&full);
    return rc;
}

/* A class object. Its size depends on its static fields, so they are read twice. */
static int add_class_object(struct hprof *h, struct hw_hprof_cursor c)
{
    const struct hw_hprof_class *k = hw_hprof_class_find(&h->classes, hw_hprof_id(&c));
    struct hw_hprof_statics s;
    struct hw_hprof_cursor value;
    uint64_t name_id, size = h->classes.mirror_size;
    uint8_t type;
    if (!k || k->body.p == NULL)
        return HW_OK;
    hw_hprof_statics_begin(k, &s);
    while (hw_hprof_statics_next(&s, &name_id, &type, &value))
        size += is_internal(h, name_id) ? 0 : hw_hprof_sizes_value(&h->sizes, type);
    int rc = add_object(h, k->id, hw_hprof_mirror_class(k->id), (size + 7) & ~(uint64_t)7);
    hw_hprof_statics_begin(k, &s);
    if (rc == HW_OK)
        rc = add_ref(h, s.super_id, h->super_field);
    if (rc == HW_OK)
        rc = add_ref(h, s.loader_id, h->loader_field);
    if (rc == HW_OK)
        rc = add_ref(h, s.signers_id, h->internal_field);
    if (rc == HW_OK)
        rc = add_ref(h, s.domain_id, h->internal_field);
    return rc < 0 ? rc : add_statics(h, &s, k);
}

static void read_heap_info(struct hprof *h, struct hw_hprof_cursor c)
{
    (void)hw_hprof_u(&c, 4);
    struct hw_bytes name = hw_hprof_text(&h->classes, hw_hprof_id(&c));
    h->heap_type = hw_bytes_equal(name, hw_bytes_str("zygote"))  ? HW_HEAP_TYPE_ZYGOTE
                   : hw_bytes_equal(name, hw_bytes_str("image")) ? HW_HEAP_TYPE_BOOT_IMAGE
                                                                 : HW_HEAP_TYPE_APP;
}

static int add_record(struct hprof *h, const struct hw_hprof_record *r)
{
    switch (r->tag) {
    case HW_HPROF_INSTANCE:
        return add_instance(h, r->body);
    case HW_HPROF_OBJECT_ARRAY:
        return add_object_array(h, r->body);
    case HW_HPROF_PRIMITIVE_ARRAY:
    case HW_HPROF_ARRAY_NO_DATA:
        return add_primitive_array(h, r->body);
    case HW_HPROF_CLASS:
        return add_class_object(h, r->body);
    case HW_HPROF_HEAP_INFO:
        read_heap_info(h, r->body);
        return HW_OK;
    default:
        return HW_OK;
    }
}

/* ---- passes ---- */

static int read_definitions(struct hprof *h)
{
    struct hw_hprof_record r;
    int rc = HW_OK;
    while (rc == HW_OK && hw_hprof_next(&h->file, &r)) {
        rc = hw_hprof_classes_add(&h->classes, &r);
        if (rc == HW_OK)
            rc = add_root(h, &r);
        if (rc == HW_OK)
            rc = hw_hprof_threads_add(&h->threads, &r);
        if (rc == HW_OK)
            rc = hw_hprof_sizes_see(&h->sizes, &r);
        h->n_objects += r.tag == HW_HPROF_INSTANCE || r.tag == HW_HPROF_OBJECT_ARRAY ||
                        r.tag == HW_HPROF_PRIMITIVE_ARRAY;
    }
    return rc;
}

static int make_field(struct hprof *h, const char *name, uint32_t *out)
{
    hw_str_id id;
    int rc = hw_profile_str(h->p, hw_bytes_str(name), &id);
    return rc < 0 ? rc : hw_graph_field(h->b, id, (hw_str_id){0}, out);
}

static int add_all(struct hprof *h)
{
    struct hw_hprof_record r;
    int rc = make_field(h, "java.lang.Class.superClass", &h->super_field);
    if (rc == HW_OK)
        rc = make_field(h, "java.lang.Class.classLoader", &h->loader_field);
    if (rc == HW_OK)
        rc = make_field(h, "runtimeInternalObjects", &h->internal_field);
    h->heap_type = HW_HEAP_TYPE_APP;
    hw_hprof_rewind(&h->file);
    while (rc == HW_OK && hw_hprof_next(&h->file, &r)) {
        rc = add_record(h, &r);
        hw_progress_at(h->p->progress, h->file.pos, h->file.all.n);
    }
    return rc;
}

static int count(struct hprof *h, const char *stat, enum hw_stat_severity severity, uint64_t n)
{
    return n ? hw_profile_stat_add(h->p, stat, 0, severity, n > INT64_MAX ? INT64_MAX : (int64_t)n)
             : HW_OK;
}

static int add_stats(struct hprof *h, const struct hw_graph_faults *faults)
{
    int rc = count(h, "heap_graph_malformed_packet", HW_STAT_ERROR,
                   h->file.n_damaged + h->n_unknown_classes + faults->duplicate_objects +
                       faults->undescribed_classes);
    if (rc == HW_OK)
        rc = count(h, "trace_truncated", HW_STAT_DATA_LOSS, h->file.truncated);
    if (rc == HW_OK && !h->file.is_art)
        rc = count(h, "hprof_sizes_estimated", HW_STAT_INFO, 1);
    return rc;
}

static int complete(struct hprof *h, struct hw_heap_graph *g)
{
    g->ts_ns = h->file.time_ms > INT64_MAX / 1000000 ? 0 : (int64_t)h->file.time_ms * 1000000;
    g->truncated = h->file.truncated;
    g->heap_size = -1;
    h->p->first_ns = h->p->last_ns = g->ts_ns;
    int rc = hw_profile_process(h->p, 0, &g->upid);
    if (rc == HW_OK)
        rc = hw_hprof_threads_build(&h->threads, &h->classes, h->b, g);
    if (rc == HW_OK && h->n_objects <= HW_HPROF_MAX_CONTENTS)
        rc = hw_hprof_add_contents(&h->file, &h->classes, h->b, h->p, g);
    else if (rc == HW_OK)
        rc = count(h, "hprof_contents_skipped", HW_STAT_INFO, h->n_objects);
    if (rc == HW_OK)
        hw_hprof_threads_name(h->p, g);
    return rc;
}

static int import(struct hprof *h)
{
    struct hw_heap_graph *g = NULL;
    struct hw_graph_faults faults = {0};
    int rc = hw_graph_builder_new(hw_callsites_strings(h->p->callsites), &h->b);
    h->classes =
        (struct hw_hprof_classes){.p = h->p, .b = h->b, .file = &h->file, .sizes = &h->sizes};
    if (rc == HW_OK)
        rc = read_definitions(h);
    if (rc == HW_OK)
        hw_hprof_sizes_decide(&h->sizes);
    if (rc == HW_OK)
        rc = hw_hprof_classes_link(&h->classes);
    if (rc == HW_OK)
        rc = add_all(h);
    if (rc == HW_OK)
        rc = hw_graph_finish(h->b, &g, &faults);
    if (rc < 0)
        return rc;
    rc = add_stats(h, &faults);
    if (rc == HW_OK)
        rc = complete(h, g);
    if (rc == HW_OK)
        return hw_profile_add_graph(h->p, g);
    hw_heap_graph_free(g);
    return rc;
}

static int read_hprof(struct hw_bytes bytes, struct hw_profile *into, struct hw_error *err)
{
    struct hprof h = {.p = into};
    if (!hw_hprof_open(bytes, &h.file))
        return hw_fail(err, HW_EFORMAT, 0,
                       "a Java heap dump has ids of 4 or 8 bytes, this one does not");
    hw_hprof_sizes_init(&h.sizes, &h.file);
    int rc = import(&h);
    size_t pos = h.file.pos;
    hw_hprof_classes_done(&h.classes);
    hw_hprof_threads_done(&h.threads);
    hw_hprof_sizes_done(&h.sizes);
    hw_graph_builder_free(h.b);
    return rc < 0 ? hw_fail(err, rc, pos, "Java heap dump:") : HW_OK;
}

static int probe(struct hw_bytes head)
{
    static const char magic[] = "JAVA PROFILE 1.0.";
    return head.n > sizeof magic && memcmp(head.p, magic, sizeof magic - 1) == 0 ? 100 : 0;
}

const struct hw_importer hw_import_hprof = {
    .name = "hprof",
    .summary = "Java heap dump (.hprof)",
    .probe = probe,
    .read = read_hprof,
};

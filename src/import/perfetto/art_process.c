#include "import/perfetto/art_process.h"

#include <string.h>

#include "base/error.h"
#include "codec/pb.h"
#include "model/graph/heap_graph_build.h"
#include "schema/fields.h"

#include "base/banned.h"

#define F_ART(name) HW_F_ArtProcessMetadata_##name

enum { MAX_STACK = 1024 };

void hw_art_processes_init(struct hw_art_processes *a, struct hw_profile *profile)
{
    *a = (struct hw_art_processes){.profile = profile};
}

void hw_art_processes_done(struct hw_art_processes *a)
{
    hw_vec_done(&a->rows);
}

/* ---- stacks ---- */

/* "void a.B.c(int)" -> "a.B.c" */
static struct hw_bytes method_name(struct hw_bytes text)
{
    const uint8_t *args = text.n ? memchr(text.p, '(', text.n) : NULL;
    if (args)
        text.n = (size_t)(args - text.p);
    const uint8_t *space = text.n ? memrchr(text.p, ' ', text.n) : NULL;
    return space ? hw_bytes_of(space + 1, text.n - (size_t)(space + 1 - text.p)) : text;
}

static int frames_mapping(struct hw_profile *p, hw_mapping_id *out)
{
    struct hw_mapping m = {0};
    int rc = hw_profile_str(p, hw_bytes_str("art_process_metadata"), &m.path);
    return rc < 0 ? rc : hw_callsites_mapping(p->callsites, &m, out);
}

/* 1 = a row, 0 = a frame without a method. Lines of one method are different frames. */
static int read_frame(struct hw_profile *p, struct hw_bytes message, hw_frame_id *out)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct hw_frame frame = {0};
    struct hw_bytes method = {NULL, 0};
    int rc = HW_OK;
    while (rc == HW_OK && hw_pb_next(&r, &f) == 1) {
        if (f.number == F_ART(JavaFrame_method_name) && f.wire == HW_PB_BYTES)
            method = f.bytes;
        else if (f.number == F_ART(JavaFrame_source_file) && f.wire == HW_PB_BYTES)
            rc = hw_profile_str(p, f.bytes, &frame.file);
        else if (f.number == F_ART(JavaFrame_line_number) && f.wire == HW_PB_VARINT)
            frame.line = (uint32_t)f.value;
    }
    if (rc < 0 || method.n == 0)
        return rc;
    rc = hw_profile_str(p, method_name(method), &frame.name);
    if (rc == HW_OK)
        rc = frames_mapping(p, &frame.mapping);
    if (rc == HW_OK)
        rc = hw_callsites_frame(p->callsites, &frame, out);
    if (rc < 0)
        return rc;
    struct hw_symbol_sets *sets = hw_callsites_symbol_sets(p->callsites);
    const struct hw_symbol_line line = {frame.name, frame.file, frame.line}, *existing;
    if (hw_symbol_sets_get(sets, *out, &existing) == 0)
        rc = hw_symbol_sets_put_managed(sets, *out, &line, 1);
    return rc < 0 ? rc : 1;
}

/* Java's stacks are leaf first. */
static int read_stack(struct hw_profile *p, struct hw_bytes message, hw_callsite_id *out)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    hw_frame_id frames[MAX_STACK];
    size_t n = 0;
    int rc = HW_OK;
    while (rc >= 0 && n < MAX_STACK && hw_pb_next(&r, &f) == 1)
        if (f.number == F_ART(JavaStack_frames) && f.wire == HW_PB_BYTES) {
            rc = read_frame(p, f.bytes, &frames[MAX_STACK - n - 1]);
            n += rc == 1;
        }
    if (rc < 0 || n == 0)
        return rc < 0 ? rc : HW_OK;
    return hw_callsites_intern(p->callsites, frames + MAX_STACK - n, n, out);
}

/* ---- packets ---- */

struct packet {
    struct hw_art_process row;
    int64_t pid, uid;
    struct hw_bytes name, package, stack, message;
};

static int64_t clamp(uint64_t v)
{
    return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

static struct packet packet_read(struct hw_bytes message)
{
    struct hw_pb_reader r = hw_pb_read(message);
    struct hw_pb_field f;
    struct packet p = {.uid = -1, .row = {.callsite = {HW_ID_NONE}}};
    while (hw_pb_next(&r, &f) == 1) {
        switch (f.number) {
        case F_ART(pid):
            p.pid = (int32_t)f.value;
            break;
        case F_ART(uid):
            p.uid = (int32_t)f.value;
            break;
        case F_ART(process_name):
            p.name = f.bytes;
            break;
        case F_ART(package_name):
            p.package = f.bytes;
            break;
        case F_ART(oom_allocation_size):
            p.row.ran_out = true;
            p.row.allocation_size = clamp(f.value);
            break;
        case F_ART(oom_total_bytes_free):
            p.row.total_free = clamp(f.value);
            break;
        case F_ART(oom_free_bytes_until_oom):
            p.row.free_until = clamp(f.value);
            break;
        case F_ART(oom_thread_java_stack):
            p.row.has_stack = f.wire == HW_PB_BYTES;
            p.stack = f.bytes;
            break;
        case F_ART(oom_error_msg):
            p.message = f.bytes;
            break;
        default:
            break;
        }
    }
    return p;
}

/* Unless the package list has it already. */
static int add_package(struct hw_profile *p, struct hw_bytes name, int64_t uid)
{
    struct hw_package_row row = {.uid = uid};
    int rc = hw_profile_str(p, name, &row.name);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < p->packages.n; i++)
        if (p->packages.v[i].name.v == row.name.v && p->packages.v[i].uid == uid)
            return HW_OK;
    return hw_vec_push(&p->packages, row) < 0 ? HW_ENOMEM : HW_OK;
}

static int set_process(struct hw_profile *p, const struct packet *in)
{
    struct hw_process *process = &p->processes.v[in->row.upid.v];
    int rc = HW_OK;
    if (in->uid >= 0)
        process->uid = in->uid;
    if (in->name.n)
        rc = hw_profile_str(p, in->name, &process->name);
    if (rc == HW_OK && in->package.n && in->uid >= 0)
        rc = add_package(p, in->package, in->uid);
    return rc;
}

int hw_art_processes_packet(struct hw_art_processes *a, struct hw_bytes message, int64_t ts_ns)
{
    struct hw_profile *p = a->profile;
    struct packet in = packet_read(message);
    in.row.ts_ns = ts_ns;
    if (in.pid < 0)
        return HW_OK;
    int rc = hw_profile_traced_process(p, in.pid, &in.row.upid);
    if (rc == HW_OK)
        rc = hw_profile_thread(p, in.row.upid, in.pid, (hw_str_id){0}, &in.row.thread);
    if (rc == HW_OK)
        rc = set_process(p, &in);
    if (rc == HW_OK)
        rc = hw_profile_str(p, in.message, &in.row.message);
    if (rc == HW_OK && in.row.ran_out && in.row.has_stack)
        rc = read_stack(p, in.stack, &in.row.callsite);
    return rc == HW_OK && hw_vec_push(&a->rows, in.row) < 0 ? HW_ENOMEM : rc;
}

/* ---- graphs ---- */

static int set_oome(struct hw_profile *p, const struct hw_art_process *row, struct hw_heap_graph *g)
{
    struct hw_heap_thread t = {
        .callsite = row->callsite, .object = HW_ID_NONE, .thread = row->thread + 1};
    if (!row->ran_out)
        return HW_OK;
    g->is_oome = true;
    g->oome_allocation_size = row->allocation_size;
    g->oome_total_free = row->total_free;
    g->oome_free_until = row->free_until;
    g->oome_message = row->message;
    if (row->has_stack && hw_vec_push(&g->threads, t) < 0)
        return HW_ENOMEM;
    return hw_profile_str(p, hw_bytes_str("OOME"), &g->dump_reason);
}

int hw_art_processes_join(struct hw_art_processes *a, struct hw_heap_graph *g)
{
    for (size_t i = 0; i < a->rows.n; i++) {
        struct hw_art_process *row = &a->rows.v[i];
        if (row->joined || row->upid.v != g->upid.v || row->ts_ns != g->ts_ns)
            continue;
        row->joined = true;
        return set_oome(a->profile, row, g);
    }
    return HW_OK;
}

static int add_empty(struct hw_art_processes *a, const struct hw_art_process *row)
{
    struct hw_graph_builder *b;
    struct hw_heap_graph *g = NULL;
    int rc = hw_graph_builder_new(hw_callsites_strings(a->profile->callsites), &b);
    if (rc < 0)
        return rc;
    rc = hw_graph_finish(b, &g, NULL);
    hw_graph_builder_free(b);
    if (rc < 0)
        return rc;
    g->upid = row->upid;
    g->ts_ns = row->ts_ns;
    g->heap_size = -1;
    rc = set_oome(a->profile, row, g);
    if (rc == HW_OK)
        return hw_profile_add_graph(a->profile, g);
    hw_heap_graph_free(g);
    return rc;
}

int hw_art_processes_finish(struct hw_art_processes *a)
{
    int rc = HW_OK;
    for (size_t i = 0; rc == HW_OK && i < a->rows.n; i++)
        if (!a->rows.v[i].joined)
            rc = add_empty(a, &a->rows.v[i]);
    return rc;
}
